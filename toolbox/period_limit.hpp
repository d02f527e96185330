#pragma once

/// Five codes by SMS per number and hour: `period_limit` counts takes per key and period, and says when the quota has
/// just been used up, so that the caller can tell the user before the refusal.
///
///   toolbox::period_limit codes{{.period = 1h, .quota = 5}};
///   switch (codes.take("+4912345")) {
///     case toolbox::quota::allowed: send(); break;
///     case toolbox::quota::hit: send(); warn(); break;          // the last one of this period
///     case toolbox::quota::over: refuse(); break;
///   }
///
/// A period begins with the first take of its key; with `aligned` it begins at whole multiples of the period since
/// 1970 (UTC), so that all keys and all nodes start over at the same moment.
///
/// The decision alone is `judge(count, quota)`: whoever counts elsewhere, in a shared store say, passes the count in,
/// and `time_left` is the life to give that counter.
///
/// Threads: safe, one mutex. Units: std::chrono, wall clock for the aligned form, else steady.
/// Errors: the constructor throws std::invalid_argument for a period below 1 ms or a quota of 0. Keys whose period is
/// over are forgotten by later takes.

#include <chrono>
#include <cstdint>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>

#include "toolbox/clock.hpp"
#include "toolbox/timer_ring.hpp"

namespace caravan::toolbox {

enum class quota : std::uint8_t { allowed, hit, over };

/// `count` takes have been made in this period, this one included.
[[nodiscard]] constexpr quota judge(std::uint64_t count, std::uint64_t quota_per_period) noexcept {
  if (count < quota_per_period) return quota::allowed;
  return count == quota_per_period ? quota::hit : quota::over;
}

/// What is left of an aligned period: between 1 ms and all of it.
[[nodiscard]] inline std::chrono::milliseconds time_left(wall_time now, std::chrono::milliseconds period) {
  const auto into = now.time_since_epoch() % period;
  return period - (into < into.zero() ? into + period : into);
}

struct period_limit_options {
  std::chrono::milliseconds period = std::chrono::seconds{1};
  std::uint64_t quota = 1;
  bool aligned = false;
};

class period_limit {
public:
  explicit period_limit(period_limit_options options, const clock& time = real_clock::shared())
      : options_(options), time_(time), start_(time.now()) {
    if (options.period < std::chrono::milliseconds{1})
      throw std::invalid_argument("period_limit: the period must be at least 1 ms");
    if (options.quota == 0) throw std::invalid_argument("period_limit: the quota must be above zero");
  }

  [[nodiscard]] quota take(std::string_view key) {
    const std::lock_guard guard{mutex_};
    const auto now = std::chrono::floor<std::chrono::milliseconds>(time_.now() - start_);
    counts_.advance(static_cast<std::uint64_t>(now.count()), [](std::string&&, std::uint64_t) {});
    const std::string name{key};
    if (auto* count = counts_.find(name)) return judge(++*count, options_.quota);
    const auto life = options_.aligned ? time_left(time_.wall(), options_.period) : options_.period;
    counts_.set(name, 1, static_cast<std::uint64_t>((now + life).count()));
    return judge(1, options_.quota);
  }

private:
  const period_limit_options options_;
  const clock& time_;
  const steady_time start_;
  std::mutex mutex_;
  timer_ring<std::string, std::uint64_t> counts_;  // ticks of a millisecond; a count ends with its period
};

}  // namespace caravan::toolbox
