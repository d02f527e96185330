#pragma once

/// Somebody types, and each letter would start a search. `debounce` runs its function once the triggers have been quiet
/// for a while (trailing edge): every trigger starts the wait anew. With `at_most` it runs after that time even if they
/// never get quiet. (Once, a while after the *first* trigger: delay_executor.)
///
///   toolbox::debounce search{[&] { find(field.text()); }, {.quiet = 200ms, .at_most = 2s}};
///   search.trigger();
///   search.trigger();                            // one run, 200 ms after this
///
/// Threads: trigger, flush and cancel may be called from any thread, trigger and cancel also from the function. It runs
/// on the tool's own thread, which comes with a trigger and leaves when nothing is left to do; runs never overlap. A
/// trigger during a run leads to another one. The destructor gives up a run that still waits, and waits for one that
/// has begun. Units: std::chrono; at_most 0: no bound. Errors: what the function throws goes to the stray handler
/// (run_safe.hpp). The constructor throws std::invalid_argument without a function.

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <utility>

#include "toolbox/clock.hpp"
#include "toolbox/on_demand_thread.hpp"
#include "toolbox/run_safe.hpp"
#include "toolbox/waiting.hpp"

namespace caravan::toolbox {

struct debounce_options {
  std::chrono::nanoseconds quiet = std::chrono::milliseconds{200};
  std::chrono::nanoseconds at_most{0};  ///< counted from the first trigger since the last run
};

class debounce {
public:
  debounce(std::function<void()> task, debounce_options options, const clock& time = real_clock::shared())
      : task_(std::move(task)), options_(options), time_(time) {
    if (!task_) throw std::invalid_argument("debounce: a function is needed");
  }
  debounce(const debounce&) = delete;
  debounce& operator=(const debounce&) = delete;
  ~debounce() {
    {
      const std::lock_guard guard{mutex_};
      stopped_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  void trigger() {
    const std::lock_guard guard{mutex_};
    if (stopped_) return;
    thread_.ensure([this] { work(); });
    const auto now = time_.now();
    if (!triggered_)
      last_call_ = options_.at_most > options_.at_most.zero() ? later(now, options_.at_most) : steady_time::max();
    triggered_ = true;
    // The thread notices by itself that the moment moved: it looks again when the old one has come.
    due_ = std::min(later(now, options_.quiet), last_call_);
  }
  /// A run that waits begins now.
  void flush() {
    {
      const std::lock_guard guard{mutex_};
      due_ = last_call_ = time_.now();  // so that no trigger can move it away again
      ++hurried_;
    }
    changed_.notify_all();
  }
  /// A run that waits is given up. True if there was one.
  bool cancel() {
    const std::lock_guard guard{mutex_};
    return std::exchange(triggered_, false);
  }

private:
  void work() {
    std::unique_lock lock{mutex_};
    while (triggered_ && !stopped_) {
      const auto hurried = hurried_;
      const auto due = due_;
      if (wait_until(changed_, lock, time_, due, [&] { return stopped_ || hurried_ != hurried; })) continue;
      if (!triggered_ || due_ > due) continue;
      triggered_ = false;
      lock.unlock();
      run_safe(task_);
      lock.lock();
    }
    thread_.leave();
  }

  const std::function<void()> task_;
  const debounce_options options_;
  const clock& time_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool triggered_ = false;
  bool stopped_ = false;
  std::uint64_t hurried_ = 0;
  steady_time due_{};
  steady_time last_call_{};
  on_demand_thread thread_;
};

}  // namespace caravan::toolbox
