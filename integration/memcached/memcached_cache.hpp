#pragma once

/// Values in one or more memcached servers.

#include "config/cache_settings.hpp"
#include "integration/cache_adapter.hpp"
#include "toolbox/pool.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

struct memcached_st;

namespace caravan {

struct memcached_options {
  std::vector<config::memcached_host> hosts;  ///< at least one; all nodes must name the same ones
  std::string prefix = "caravan:cache";       ///< in front of each key; at most 180 visible ASCII characters
  std::chrono::milliseconds connect_timeout{500};
  std::chrono::milliseconds answer_timeout{500};  ///< from one piece of an answer to the next
  std::chrono::milliseconds retry_after{1000};  ///< a server that failed is not asked again for so long (whole seconds)
  std::size_t max_connections = 8;              ///< to each server; a call beyond waits for one
};

/// Keys go as safe_cache_key(prefix, key), so any bytes will do. A key's server follows from its hash.
///
/// clear() does not empty the servers, which others may use as well: each server keeps the *generation* of this cache
/// under a key of its own, each value bears the generation in which it was put (as memcached's flags), and one of
/// another generation counts as not there. memcached throws such values out when it needs room. A get asks for both in
/// one request; a put needs one request more.
///
/// Times go in whole seconds, rounded up; those over 30 days as the date that memcached wants then, so this machine's
/// clock counts. Beyond 2038: for ever.
///
/// A call that meets a connection which the server closed is repeated once over a new one; so a take may lose its
/// value, and a remove may answer false. One server that is down fails the calls for its keys alone; ping and clear
/// need all.
class memcached_cache final : public cache_adapter {
public:
  /// Does not connect. Throws caravan::exception (invalid_argument) for no host, or a prefix that does not fit.
  explicit memcached_cache(memcached_options options);
  ~memcached_cache() override;

  [[nodiscard]] std::string name() const override { return name_; }
  expected<void> ping() override;
  expected<std::optional<std::string>> get(std::string_view key) override;
  expected<void> put(std::string_view key, std::string_view value, std::chrono::milliseconds ttl) override;
  expected<bool> remove(std::string_view key) override;
  expected<std::optional<std::string>> take(std::string_view key) override;
  expected<bool> exists(std::string_view key) override;
  expected<void> clear() override;
  /// Nothing: a server only counts what all its users have put.
  expected<cache_usage> usage() override { return cache_usage{}; }

private:
  struct closer {
    void operator()(memcached_st* handle) const;
  };
  using handle = std::unique_ptr<memcached_st, closer>;
  struct found;

  [[nodiscard]] handle open() const;
  template <class Act>
  int with_handle(Act act, std::string& why);
  int look(memcached_st* mc, const std::string& key, found& out) const;
  int generation(memcached_st* mc, const std::string& group, std::uint32_t& out) const;
  [[nodiscard]] std::string full_key(std::string_view key) const;
  [[nodiscard]] error failed(int code, const std::string& why) const;

  const memcached_options options_;
  std::string name_;
  std::string generation_key_;
  std::vector<std::string> groups_;  // of each server, a text whose hash leads to it
  toolbox::pool<handle> handles_;
};

}  // namespace caravan
