#pragma once

/// How much happened in the last ten seconds: keeping every event costs memory without bound, and a counter that is
/// reset now and then knows nothing right after the reset. `rolling_window` counts into buckets, one per interval, and
/// forgets the oldest bucket when a new one begins.
///
///   toolbox::rolling_window<> errors{40, 250ms};          // ten seconds
///   errors.add(1);
///   double sum = 0;
///   errors.reduce([&](const toolbox::sum_bucket& b) { sum += b.sum; });
///
///   struct largest {
///     double value = 0;
///     void add(double v) { value = std::max(value, v); }
///     void reset() { value = 0; }
///   };
///   toolbox::rolling_window<largest> peaks{10, 1s, toolbox::current_bucket::ignore};
///
/// A bucket is any type with add(value) and reset(). `current_bucket::ignore` leaves out the bucket that is still
/// filling, for readers who compare whole intervals. reduce passes from old to new and leaves out the intervals since
/// the last add in which nothing happened; what the window no longer covers it never shows.
///
/// Threads: safe, one mutex; the function given to reduce runs under it and must not use the window.
/// Errors: the constructor throws std::invalid_argument for no buckets or an interval of zero or less. What the
/// reducer throws passes through.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <stdexcept>
#include <utility>
#include <vector>

#include "toolbox/clock.hpp"

namespace caravan::toolbox {

/// The usual bucket.
struct sum_bucket {
  double sum = 0;
  std::int64_t count = 0;

  void add(double value) {
    sum += value;
    ++count;
  }
  void reset() { *this = {}; }
};

enum class current_bucket : bool { use, ignore };

template <class Bucket = sum_bucket>
class rolling_window {
public:
  rolling_window(std::size_t buckets, std::chrono::nanoseconds interval, current_bucket current = current_bucket::use,
                 const clock& time = real_clock::shared())
      : buckets_(buckets), interval_(interval), current_(current), time_(time), begin_(time.now()) {
    if (buckets == 0) throw std::invalid_argument("rolling_window: at least one bucket is needed");
    if (interval <= std::chrono::nanoseconds::zero())
      throw std::invalid_argument("rolling_window: the interval must be above zero");
  }

  template <class Value>
  void add(Value&& value) {
    const std::lock_guard guard{mutex_};
    const auto passed = intervals_passed();
    if (passed > 0) {
      const auto stale = std::min<std::uint64_t>(passed, buckets_.size());
      for (std::uint64_t i = 0; i < stale; ++i) {
        last_ = following(last_);
        buckets_[last_].reset();
      }
      begin_ += interval_ * static_cast<std::int64_t>(passed);
    }
    buckets_[last_].add(std::forward<Value>(value));
  }

  /// Calls reducer(const Bucket&) for every bucket that still counts.
  template <class Reducer>
  void reduce(Reducer reducer) const {
    const std::lock_guard guard{mutex_};
    const auto passed = intervals_passed();
    if (passed >= buckets_.size()) return;
    auto count = buckets_.size() - static_cast<std::size_t>(passed);
    // Once an interval has passed since the last add, the bucket of that add is complete, and the current one empty.
    if (passed == 0 && current_ == current_bucket::ignore) --count;
    auto i = (last_ + static_cast<std::size_t>(passed) + 1) % buckets_.size();
    for (; count > 0; --count, i = following(i)) reducer(static_cast<const Bucket&>(buckets_[i]));
  }

  [[nodiscard]] std::size_t size() const noexcept { return buckets_.size(); }
  [[nodiscard]] std::chrono::nanoseconds interval() const noexcept { return interval_; }

private:
  [[nodiscard]] std::uint64_t intervals_passed() const {
    const auto since = time_.now() - begin_;
    return since < interval_ ? 0 : static_cast<std::uint64_t>(since / interval_);
  }
  [[nodiscard]] std::size_t following(std::size_t i) const { return i + 1 == buckets_.size() ? 0 : i + 1; }

  mutable std::mutex mutex_;
  std::vector<Bucket> buckets_;
  const std::chrono::nanoseconds interval_;
  const current_bucket current_;
  const clock& time_;
  steady_time begin_;  // of the last bucket that was added to; always a whole number of intervals after the first
  std::size_t last_ = 0;
};

}  // namespace caravan::toolbox
