#pragma once

/// Caches: string_cache, shared by everybody who has its handle, and request_cache, for one piece of work.
///
///   auto users = node.cache();                                   // [cache]; node.cache("last_commit") for a named one
///   auto name = users.get_string("user:7", [&] { return load_name(7); });   // cached, or loaded once and kept
///   users.remove("user:7");                                      // it changed: the next one loads again

#include <caravan/error.hpp>

#include <nlohmann/json.hpp>

#include <any>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace caravan {

/// A key that every cache can hold, of at most `limit` bytes: `prefix:s-input` if the input is not empty, consists of
/// visible ASCII (0x21..0x7e) and the whole fits; else `prefix:h-` and the input's SHA-256 in lower-case hex, whatever
/// the limit. Two inputs never share a key. `prefix` itself is taken as it is.
[[nodiscard]] std::string safe_cache_key(std::string_view prefix, std::string_view input, std::size_t limit = 250);

/// Since the cache was opened, and of this process alone, but for `entries` and `bytes`.
struct cache_statistics {
  std::string adapter;                   ///< "memory", "twoqueue", "redis at ...", "memcache at ..."
  std::optional<std::uint64_t> entries;  ///< what is stored now; none: the engine cannot tell cheaply
  std::optional<std::uint64_t> bytes;    ///< keys and values, without what the engine adds
  std::uint64_t hits = 0;                ///< of get, take, get_json and the read-through calls
  std::uint64_t misses = 0;
  std::uint64_t loads = 0;           ///< loaders that ran
  std::uint64_t load_failures = 0;   ///< of them: answered an error or threw
  std::uint64_t shared_loads = 0;    ///< calls that waited for the loader of another one
  std::uint64_t outdated_loads = 0;  ///< loaded values not kept, because the key was put or removed meanwhile
  std::uint64_t failures = 0;        ///< calls that the engine could not answer
};

/// What the self test saw.
struct cache_test_result {
  std::chrono::nanoseconds took{0};  ///< for remove, put and get together
  bool slow = false;                 ///< longer than slow_cache_threshold: look at the engine or the network
};
inline constexpr std::chrono::milliseconds slow_cache_threshold{30};

/// What get_json found.
template <class T>
struct json_lookup {
  bool exists = false;  ///< something is there, be it a value, a cached error or unreadable text
  std::optional<T> value;
  std::optional<error> failure;  ///< "cached error: ...", unreadable text, or the cache itself did not answer
};

/// A cache without templates, as a node implements it. string_cache has the promises.
class cache_port {
public:
  using loader = std::function<expected<std::string>()>;
  using milliseconds = std::chrono::milliseconds;

  virtual ~cache_port() = default;
  virtual expected<void> ping() = 0;
  virtual expected<std::optional<std::string>> get(std::string_view key) = 0;
  virtual expected<void> put(std::string_view key, std::string_view value, milliseconds ttl) = 0;
  virtual expected<bool> remove(std::string_view key) = 0;
  virtual expected<std::optional<std::string>> take(std::string_view key) = 0;
  virtual expected<bool> exists(std::string_view key) = 0;
  virtual expected<void> clear() = 0;
  [[nodiscard]] virtual expected<cache_statistics> statistics() = 0;
  virtual expected<cache_test_result> self_test() = 0;
  /// A stored text that is not `usable` counts as missing.
  virtual expected<std::string> load(std::string_view key, const loader& load, bool (*usable)(std::string_view)) = 0;
};

/// A handle; copies mean the same cache. One without a cache (ENABLED = false, or default constructed) answers
/// not_found and never keeps anything; its read-through calls run the loader each time.
///
/// Keys and values are any bytes; an engine with rules for keys hashes what does not fit. Engines limit the size of a
/// value: too_large then (memcached: 1 MiB unless told otherwise).
///
/// Times: a `ttl` of 0 keeps the value for ever, a negative one removes the key. Putting again replaces the value and
/// the time. memcached counts in whole seconds: shorter times are rounded up, and a value may go up to a second early.
///
/// Threads: safe. Calls block as long as the engine needs: not at all for memory and twoqueue, up to some seconds for
/// an engine that is down. Errors: backend_failed when the engine does not answer; whether a put or remove happened is
/// unknown then.
class string_cache {
public:
  using milliseconds = std::chrono::milliseconds;

  string_cache() = default;
  explicit string_cache(std::shared_ptr<cache_port> port) : port_(std::move(port)) {}
  /// False: there is no cache behind it.
  explicit operator bool() const noexcept { return port_ != nullptr; }

  expected<void> ping() { return port_ ? port_->ping() : expected<void>(none()); }
  /// Nothing: it is not there, or its time is over.
  expected<std::optional<std::string>> get(std::string_view key) {
    return port_ ? port_->get(key) : expected<std::optional<std::string>>(none());
  }
  expected<void> put(std::string_view key, std::string_view value, milliseconds ttl) {
    return port_ ? port_->put(key, value, ttl) : expected<void>(none());
  }
  /// True: it was there. A loader that is under way for the key (in this process) will not bring the old value back.
  expected<bool> remove(std::string_view key) { return port_ ? port_->remove(key) : expected<bool>(none()); }
  /// Gets and removes in one step: of many callers one gets the value.
  expected<std::optional<std::string>> take(std::string_view key) {
    return port_ ? port_->take(key) : expected<std::optional<std::string>>(none());
  }
  expected<bool> exists(std::string_view key) { return port_ ? port_->exists(key) : expected<bool>(none()); }
  /// Removes everything of this cache, and nothing that others keep in the same Redis or memcached.
  expected<void> clear() { return port_ ? port_->clear() : expected<void>(none()); }
  [[nodiscard]] expected<cache_statistics> statistics() {
    return port_ ? port_->statistics() : expected<cache_statistics>(none());
  }
  /// Removes, puts and gets a key of its own, and measures that. An error if it does not get what it put.
  expected<cache_test_result> self_test() { return port_ ? port_->self_test() : expected<cache_test_result>(none()); }

  /// The cached value, else what `load` answers, kept for ITEM_TTL. ITEM_TTL of 0 or less turns this off: the loader
  /// runs each time and nothing is kept.
  ///
  /// Callers that want the same key at the same time share one load. An error reaches all of them and is not kept. A
  /// loader that throws is an error (backend_failed, with its text) to those who waited for it. A cache that does not
  /// answer is as good as an empty one: the loader runs, and the failure is counted in the statistics. A put or remove
  /// of the key during the load wins: those who wait get what was loaded, but it is not kept. This holds within a
  /// process; one that other processes remove can come back from a load that began before.
  ///
  /// A loader must not ask for its own key (conflict), and must not wait for somebody who asks for it.
  template <class Load>
  expected<std::string> get_string(std::string_view key, Load&& load) {
    static_assert(std::is_convertible_v<std::invoke_result_t<Load&>, expected<std::string>>,
                  "a loader answers a string, or expected<std::string>");
    return read_through(
        key, [&]() -> expected<std::string> { return load(); }, anything);
  }
  /// The same for numbers, kept as decimal text. A stored text that is no number is loaded again.
  template <class Load>
  expected<std::int64_t> get_int64(std::string_view key, Load&& load) {
    const auto text = read_through(
        key,
        [&]() -> expected<std::string> {
          expected<std::int64_t> number = load();
          if (!number) return number.failure();
          return std::to_string(*number);
        },
        is_int64);
    if (!text) return text.failure();
    return to_int64(key, *text);
  }

  /// invalid_argument if it cannot be written as JSON (bytes that are not UTF-8).
  template <class T>
  expected<void> put_json(std::string_view key, const T& value, milliseconds ttl) {
    if constexpr (std::is_same_v<T, error>) {
      return put(key, std::string(cached_error_mark) + value.text, ttl);
    } else {
      std::string text;
      try {
        text = nlohmann::json(value).dump();
      } catch (const std::exception& e) {
        return {errc::invalid_argument,
                "cache key \"" + std::string(key) + "\": the value cannot be written as JSON: " + e.what()};
      }
      return put(key, text, ttl);
    }
  }
  /// A key with an empty text counts as not there. A cached error comes back with backend_failed and the text
  /// "cached error: " and its own: what failed lately need not be tried again by everybody.
  template <class T>
  json_lookup<T> get_json(std::string_view key) {
    const auto text = get(key);
    if (!text) return {false, std::nullopt, text.failure()};
    if (!*text || (*text)->empty()) return {};
    if ((*text)->starts_with(cached_error_mark))
      return {true, std::nullopt,
              error{errc::backend_failed, "cached error: " + (*text)->substr(cached_error_mark.size())}};
    try {
      return {true, nlohmann::json::parse(**text).template get<T>(), std::nullopt};
    } catch (const std::exception& e) {
      return {true, std::nullopt,
              error{errc::invalid_argument,
                    "cache key \"" + std::string(key) + "\": the stored text cannot be read as its type: " + e.what()}};
    }
  }

  /// What a cached error begins with; no JSON text does.
  static constexpr std::string_view cached_error_mark = "<CACHED-ERROR>:";

private:
  [[nodiscard]] static error none();
  [[nodiscard]] static bool anything(std::string_view) { return true; }
  [[nodiscard]] static bool is_int64(std::string_view text);
  [[nodiscard]] static expected<std::int64_t> to_int64(std::string_view key, std::string_view text);
  expected<std::string> read_through(std::string_view key, const cache_port::loader& load,
                                     bool (*usable)(std::string_view));

  std::shared_ptr<cache_port> port_;
};

struct request_cache_options {
  /// From then on it warns once, and keeps and finds nothing: what lives that long is no request, and would go on with
  /// old values for ever.
  std::chrono::nanoseconds lifetime = std::chrono::minutes{5};
  /// Where the warning goes; empty: nowhere. Called on the thread that used the cache, without any lock.
  std::function<void(const std::string& text)> warn;
  /// For tests; empty: the steady clock.
  std::function<std::chrono::steady_clock::time_point()> now;
};

/// What one request (a job, a page) found out stays at hand until it ends, in memory and of any type. A handle; copies
/// mean the same cache. A default-constructed one is *no cache*: it keeps and finds nothing, so code below a request
/// works the same without one.
///
///   auto here = request_cache::begin({.warn = log_warning});
///   auto user = here.get<user>("user", "7", [&] { return load_user(7); });
///
/// Threads: safe. Loaders run without the lock; two at the same time for one key both run.
class request_cache {
public:
  request_cache() = default;
  [[nodiscard]] static request_cache begin(request_cache_options options = {});
  explicit operator bool() const noexcept { return state_ != nullptr; }

  /// `kind` and `key` together name a value.
  template <class T>
  void put(std::string_view kind, std::string_view key, T value) {
    put_any(kind, key, std::any(std::move(value)));
  }
  /// A value of another type is not found.
  template <class T>
  [[nodiscard]] std::optional<T> get(std::string_view kind, std::string_view key) const {
    auto found = get_any(kind, key);
    if (auto* value = std::any_cast<T>(&found)) return std::move(*value);
    return std::nullopt;
  }
  /// What is there, else what `load` answers (a T, or expected<T>), which is kept. An error is not; a throw passes
  /// through.
  template <class T, class Load>
  requires std::invocable<Load&>
  auto get(std::string_view kind, std::string_view key, Load&& load) -> std::invoke_result_t<Load&> {
    using loaded = std::invoke_result_t<Load&>;
    if (auto found = get<T>(kind, key)) return loaded(std::move(*found));
    loaded fresh = load();
    if constexpr (std::is_same_v<loaded, T>) {
      put<T>(kind, key, fresh);
    } else {
      if (fresh) put<T>(kind, key, *fresh);
    }
    return fresh;
  }
  void remove(std::string_view kind, std::string_view key);

private:
  struct state;
  void put_any(std::string_view kind, std::string_view key, std::any value) const;
  [[nodiscard]] std::any get_any(std::string_view kind, std::string_view key) const;

  std::shared_ptr<state> state_;
};

}  // namespace caravan
