#pragma once

/// The caches of one node: opened, looked up, listed.

#include "config/cache_settings.hpp"
#include "config/ini.hpp"
#include "config/redis_address.hpp"
#include "nodes/log.hpp"

#include <caravan/cache.hpp>
#include <caravan/error.hpp>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace caravan {

class cache_adapter;
class redis_client;

/// The name by which texts and the HTTP API call [cache] itself.
inline constexpr std::string_view default_cache = "default";

/// A cache is opened by its first use; what the configuration names is opened at the start. Thread safe.
class cache_host {
public:
  struct parts {
    const config::ini* from = nullptr;  ///< outlives the host
    node_log* log = nullptr;            ///< likewise
    /// Said when an engine does not answer at its opening; may be empty.
    std::function<void(const std::string& cache, const std::string& text)> on_trouble{};
    /// Between two tries at an engine; false: give up. Empty: sleeps.
    std::function<bool(std::chrono::milliseconds)> sleep{};
  };
  struct listed {
    config::cache_settings settings;
    string_cache cache;  ///< without a cache behind it: not enabled, or not open
  };

  explicit cache_host(parts p);

  /// Opens those that a section names, side by side. An engine that does not answer within 10 tries, a second apart, is
  /// reported and does not stop the start: a cache without its engine is as good as an empty one, and it is found when
  /// it comes.
  void open_configured(const std::vector<config::cache_settings>& all);

  /// [cache.NAME] over [cache]; an empty name, or "default": [cache]. May take the 10 s that an engine is waited for,
  /// by the first call. ENABLED = false: a handle without a cache. invalid_argument: wrong settings, no address of an
  /// engine.
  expected<string_cache> open(std::string_view name);
  /// Likewise, for names that come from outside: not_found for one that neither a section names nor the program opened.
  expected<string_cache> open_known(std::string_view name);

  /// [cache], then those that a section names, then those that the program opened.
  [[nodiscard]] std::vector<listed> list() const;

private:
  struct entry {
    std::mutex opening;  ///< one call opens; look-ups do not wait for that
    bool is_open = false;
    string_cache cache;
  };

  [[nodiscard]] std::shared_ptr<entry> entry_of(const std::string& name);
  [[nodiscard]] expected<std::shared_ptr<cache_port>> make(const config::cache_settings& s);
  [[nodiscard]] expected<std::unique_ptr<cache_adapter>> adapter_of(const config::cache_settings& s);
  [[nodiscard]] std::shared_ptr<redis_client> client_of(const std::string& conn_str, config::redis_address address);
  void look_at(const config::cache_settings& s, cache_adapter& engine, cache_port& port) const;

  const parts parts_;
  mutable std::mutex mutex_;  ///< all below, but for `opening`
  std::map<std::string, std::shared_ptr<entry>, std::less<>> entries_;
  std::map<std::string, std::shared_ptr<redis_client>, std::less<>> clients_;  ///< by the connection string
};

}  // namespace caravan
