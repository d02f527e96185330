#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace caravan::config {

enum class cache_adapter_type : std::uint8_t { memory, redis, memcache, twoqueue };

/// A memcached server.
struct memcached_host {
  std::string host;  ///< a name or address, no brackets; the path of a unix socket if port is 0
  std::uint16_t port = 11211;

  friend bool operator==(const memcached_host&, const memcached_host&) = default;
};
/// "127.0.0.1:11211", "[::1]:11211", "/run/memcached.sock".
[[nodiscard]] std::string to_string(const memcached_host& x);

/// HOST of ADAPTER = twoqueue.
struct two_queue_settings {
  std::size_t size = 50'000;   ///< "size" >= 1. Most values
  double recent_ratio = 0.25;  ///< "recent_ratio" 0..1. Share of it for keys that were used once
  double ghost_ratio = 0.5;    ///< "ghost_ratio" 0..1. As many keys are remembered after their values have gone

  friend bool operator==(const two_queue_settings&, const two_queue_settings&) = default;
};

/// [cache], or [cache.NAME] over it. Defaults filled in and bounds checked by read_cache.hpp: whoever holds one need
/// not check again.
struct cache_settings {
  std::string name;                                         ///< of [cache.NAME]; empty: [cache] itself
  bool enabled = true;                                      ///< ENABLED
  cache_adapter_type adapter = cache_adapter_type::memory;  ///< ADAPTER
  std::chrono::milliseconds interval{60'000};               ///< INTERVAL. memory only
  std::string conn;  ///< HOST; redis: else that of [redis]. Empty: none was set, so it cannot be opened
  std::vector<memcached_host> hosts;                           ///< memcache only: of HOST
  two_queue_settings two_queue;                                ///< twoqueue only: of HOST
  std::chrono::milliseconds item_ttl{std::chrono::hours{16}};  ///< ITEM_TTL. 0 or less: the cache is not asked
  std::string prefix;  ///< of its keys in redis and memcache: "caravan:cache", or "caravan:cache.NAME"
};

}  // namespace caravan::config
