#pragma once

/// When an item that failed is tried again, and how often things may be done.

#include <caravan/error.hpp>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace caravan::config {

/// RETRY: "exponential 1s..1h", "linear 30s", "linear 30s..10m", "list 1s,5s,1m".
struct retry_policy {
  enum class kind : std::uint8_t {
    exponential,  ///< `first`, then twice as long each time, at most `most`
    linear,       ///< `first`, 2 x `first`, 3 x `first` ..., at most `most`
    list,         ///< one after another; the last one again and again
  };
  kind what = kind::exponential;
  std::chrono::milliseconds first{1000};
  std::chrono::milliseconds most{3'600'000};
  std::vector<std::chrono::milliseconds> list{};

  /// Before jitter, after the failure of that number, the first being 1.
  [[nodiscard]] std::chrono::milliseconds pause_after(std::uint32_t failures) const;
  friend bool operator==(const retry_policy&, const retry_policy&) = default;
};

/// invalid_argument says what is wrong and how to write it.
[[nodiscard]] expected<retry_policy> parse_retry_policy(std::string_view text);
[[nodiscard]] std::string to_string(const retry_policy& policy);

/// RATE, KEY_RATE: "100/s", "1/10s", "100/s burst 500". `count` in each `per`; after a pause `burst` at once.
struct rate {
  std::uint32_t count = 0;  ///< 0: no limit
  std::chrono::milliseconds per{1000};
  std::uint32_t burst = 1;

  [[nodiscard]] std::chrono::nanoseconds interval() const { return std::chrono::nanoseconds{per} / std::int64_t{count}; }
  explicit operator bool() const noexcept { return count > 0; }
  friend bool operator==(const rate&, const rate&) = default;
};
/// Empty: no limit.
[[nodiscard]] expected<rate> parse_rate(std::string_view text);

}  // namespace caravan::config
