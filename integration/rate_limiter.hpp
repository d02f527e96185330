#pragma once

/// What a limit needs of whoever counts for it. What happens while that does not answer is decided above it
/// (nodes/limit_host.hpp).

#include <caravan/error.hpp>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace caravan {

/// How much one key may take. It may differ from call to call: what was taken so far counts on.
struct rate_rule {
  enum class kind : std::uint8_t {
    tokens,  ///< a bucket of `burst` that `rate` in each `per` fill evenly; a rate of 0 gives `burst` once and never
             ///< more
    period,  ///< `rate` in each `per`, which begins with its first take; `burst` means nothing
  };
  kind how = kind::tokens;
  std::uint64_t rate = 1;               ///< period: at least 1
  std::chrono::milliseconds per{1000};  ///< at least 1 ms
  std::uint64_t burst = 1;              ///< at least 1
};

/// Counts by key and by its own clock, which may be set back: then a period lasts no longer than its length from there,
/// and a bucket keeps what it has and fills from there. Thread safe; calls may block. Keys are any bytes.
/// Every implementation passes tests/contract/rate_limiter_contract.hpp.
class rate_limiter {
public:
  virtual ~rate_limiter() = default;
  /// For texts: "memory", "redis at 127.0.0.1:6379/0".
  [[nodiscard]] virtual std::string name() const = 0;
  /// All `n` or none. True: they were taken. backend_failed: it did not answer; they may have been taken.
  virtual expected<bool> take(std::string_view key, const rate_rule& rule, std::uint64_t n) = 0;
  /// The key may take as one that was never seen.
  virtual expected<void> reset(std::string_view key) = 0;
};

}  // namespace caravan
