#pragma once

/// Something happens all the time and should be said now and then: "cannot reach the store" once a minute, not per
/// request. `less_executor` runs a function if enough time has passed since it last did, and drops it otherwise.
///
///   toolbox::less_executor now_and_then{1min};
///   now_and_then.run([&] { log("cannot reach the store"); });      // true if it ran
///
/// Threads: safe; of several callers at the same moment one runs, without any lock. The first call always runs.
/// Errors: what the function throws passes through; it counts as a run.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <utility>

#include "toolbox/clock.hpp"

namespace caravan::toolbox {

class less_executor {
public:
  explicit less_executor(std::chrono::nanoseconds at_least, const clock& time = real_clock::shared())
      : at_least_(at_least), time_(time) {}

  template <class Task>
  bool run(Task&& task) {
    const auto now = time_.now().time_since_epoch().count();
    auto last = last_.load();
    if (last != never && now - last < at_least_.count()) return false;
    if (!last_.compare_exchange_strong(last, now)) return false;  // another caller runs for this moment
    std::forward<Task>(task)();
    return true;
  }

private:
  static constexpr auto never = INT64_MIN;

  const std::chrono::nanoseconds at_least_;
  const clock& time_;
  std::atomic<std::int64_t> last_{never};
};

}  // namespace caravan::toolbox
