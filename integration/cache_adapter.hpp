#pragma once

/// What a cache needs of the engine that keeps its values. Reading through, shared loads and statistics are above it
/// (cache/read_through_cache.hpp).

#include <caravan/error.hpp>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace caravan {

/// What an engine keeps for one cache; nothing where it cannot tell cheaply.
struct cache_usage {
  std::optional<std::uint64_t> entries;
  std::optional<std::uint64_t> bytes;  ///< of keys and values
};

/// Where the values of one cache live. Thread safe; calls may block. Keys and values are any bytes.
/// Every implementation passes tests/contract/cache_contract.hpp.
///
/// Failures: backend_failed (the engine did not answer; whether a write happened is unknown), too_large. The texts name
/// the engine's address, never a password.
class cache_adapter {
public:
  virtual ~cache_adapter() = default;

  /// For texts and statistics: "memory", "memcache at 127.0.0.1:11211".
  [[nodiscard]] virtual std::string name() const = 0;

  /// Fails while the engine cannot be used.
  virtual expected<void> ping() = 0;
  /// Nothing: not there, or its time is over.
  virtual expected<std::optional<std::string>> get(std::string_view key) = 0;
  /// Replaces the value and its time. `ttl` 0: for ever. Below 0: the key is removed.
  virtual expected<void> put(std::string_view key, std::string_view value, std::chrono::milliseconds ttl) = 0;
  /// True if it was there. Of something that is not there it is no failure.
  virtual expected<bool> remove(std::string_view key) = 0;
  /// Gets and removes in one step: of several callers at most one gets the value.
  virtual expected<std::optional<std::string>> take(std::string_view key) = 0;
  virtual expected<bool> exists(std::string_view key) = 0;
  /// Removes what this cache has put, and nothing else that the engine holds.
  virtual expected<void> clear() = 0;
  virtual expected<cache_usage> usage() = 0;
};

}  // namespace caravan
