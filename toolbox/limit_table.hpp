#pragma once

/// Limits by key that several callers share live in a store and go by that store's clock, not by the callers'.
/// `limit_table` is such a store in memory: counts per period and token buckets, by key, with one clock of its own.
///
///   toolbox::limit_table table;
///   if (table.take_period("sms:" + number, {.period = 1h, .quota = 5}) == quota::over) return refuse();
///   if (!table.take_tokens("api:" + client, {.rate = 100, .burst = 200})) return too_many();
///
/// The clock is a wall clock, as that of a server is, and may be set back. A period then starts anew from there with
/// the count it has, so it never lasts longer than its length from any reading of the clock on; a bucket keeps its
/// tokens and fills from there.
///
/// A rate of zero gives `burst` tokens once and never more; such a key is kept for ever, all others are forgotten when
/// forgetting makes no difference (the period is over, the bucket full). A rate above the burst fills the bucket within
/// a second, and it still holds no more than `burst`.
///
/// Threads: safe, one mutex. Units: tokens a second, std::chrono. Errors: throws std::invalid_argument for a period
/// below 1 ms, a quota or burst of 0, a rate that is negative or no number. The options of a key may change with any
/// call: the count or the tokens so far go on under them.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>

#include "toolbox/clock.hpp"
#include "toolbox/period_limit.hpp"
#include "toolbox/timer_ring.hpp"
#include "toolbox/token_limit.hpp"

namespace caravan::toolbox {

class limit_table {
public:
  explicit limit_table(const clock& time = real_clock::shared()) : time_(time), latest_(time.wall()), start_(latest_) {}

  /// All `n` or none: a take that is over does not count.
  [[nodiscard]] quota take_period(std::string_view key, const period_limit_options& options, std::uint64_t n = 1) {
    if (options.period < std::chrono::milliseconds{1})
      throw std::invalid_argument("limit_table: the period must be at least 1 ms");
    if (options.quota == 0) throw std::invalid_argument("limit_table: the quota must be above zero");
    const std::lock_guard guard{mutex_};
    const auto now = read_clock();
    const std::string name{key};
    const auto life = options.aligned ? time_left(now, options.period) : options.period;
    auto* known = counts_.find(name);
    if (known == nullptr || now >= known->ends) {
      if (n > options.quota) return quota::over;
      counts_.set(name, {now + life, n}, forget_at(life));
      return judge(n, options.quota);
    }
    // The clock was set back: no end may lie further away than a new one would.
    if (known->ends - now > life) {
      known->ends = now + life;
      counts_.move(name, forget_at(life));
    }
    if (n > options.quota || known->count > options.quota - n) return quota::over;
    return judge(known->count += n, options.quota);
  }

  /// All `n` or none.
  [[nodiscard]] bool take_tokens(std::string_view key, const token_options& options, std::uint64_t n = 1) {
    if (!(options.rate >= 0)) throw std::invalid_argument("limit_table: the rate must not be negative");
    if (options.burst == 0) throw std::invalid_argument("limit_table: the burst must be above zero");
    const std::lock_guard guard{mutex_};
    const auto now = read_clock();
    const std::string name{key};
    const auto most = static_cast<double>(options.burst);
    bucket state{most, now};
    if (const auto* known = buckets_.find(name)) {
      const auto passed = std::max(0.0, std::chrono::duration<double>(now - known->at).count());
      state.tokens = std::min(most, known->tokens + passed * options.rate);
    }
    const bool enough = state.tokens >= static_cast<double>(n);
    if (enough) state.tokens -= static_cast<double>(n);
    buckets_.set(name, state, full_at(most - state.tokens, options.rate));
    return enough;
  }

  /// The key may take as one that was never seen.
  void forget(std::string_view key) {
    const std::lock_guard guard{mutex_};
    const std::string name{key};
    counts_.remove(name);
    buckets_.remove(name);
  }

  /// Keys in memory.
  [[nodiscard]] std::size_t size() {
    const std::lock_guard guard{mutex_};
    read_clock();
    return counts_.size() + buckets_.size();
  }

private:
  struct count {
    wall_time ends;
    std::uint64_t count;
  };
  struct bucket {
    double tokens;
    wall_time at;
  };

  // Forgets by the latest time ever seen: what a clock set back makes valid again is judged by its own stamps, and at
  // worst stays in memory for longer.
  wall_time read_clock() {
    const auto now = time_.wall();
    latest_ = std::max(latest_, now);
    counts_.advance(ticks(), [](std::string&&, count) {});
    buckets_.advance(ticks(), [](std::string&&, bucket) {});
    return now;
  }
  [[nodiscard]] std::uint64_t ticks() const { return static_cast<std::uint64_t>((latest_ - start_).count()); }
  [[nodiscard]] std::uint64_t forget_at(std::chrono::milliseconds life) const {
    return ticks() + static_cast<std::uint64_t>(life.count());
  }
  [[nodiscard]] std::uint64_t full_at(double missing, double rate) const {
    const auto milliseconds = std::ceil(missing / rate * 1000);  // infinite, or no number, for a rate of 0
    constexpr double most = 1e15;                                // some 30,000 years
    return milliseconds < most ? ticks() + static_cast<std::uint64_t>(milliseconds) : ~std::uint64_t{0};
  }

  const clock& time_;
  std::mutex mutex_;
  wall_time latest_;
  const wall_time start_;
  timer_ring<std::string, count> counts_;  // ticks of a millisecond
  timer_ring<std::string, bucket> buckets_;
};

}  // namespace caravan::toolbox
