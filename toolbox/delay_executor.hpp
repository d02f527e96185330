#pragma once

/// A file changes ten times in a second, and reading it again once afterwards is enough. `delay_executor` runs its
/// function a while after a trigger; triggers until then change nothing, a trigger during or after the run leads to
/// another one.
///
///   toolbox::delay_executor reread{[&] { settings.load(); }, 500ms};
///   reread.trigger();
///   reread.trigger();                            // still one run
///
/// Threads: trigger may be called from any thread, also from the function. The function runs on the tool's own thread,
/// which comes with a trigger and leaves when nothing is left to do; runs never overlap. The destructor gives up a run
/// that still waits, and waits for one that has begun. Errors: what the function throws goes to the stray handler
/// (run_safe.hpp); later triggers work as before. The constructor throws std::invalid_argument without a function.

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <utility>

#include "toolbox/clock.hpp"
#include "toolbox/on_demand_thread.hpp"
#include "toolbox/run_safe.hpp"
#include "toolbox/waiting.hpp"

namespace caravan::toolbox {

class delay_executor {
public:
  delay_executor(std::function<void()> task, std::chrono::nanoseconds delay, const clock& time = real_clock::shared())
      : task_(std::move(task)), delay_(delay), time_(time) {
    if (!task_) throw std::invalid_argument("delay_executor: a function is needed");
  }
  delay_executor(const delay_executor&) = delete;
  delay_executor& operator=(const delay_executor&) = delete;
  ~delay_executor() {
    {
      const std::lock_guard guard{mutex_};
      stopped_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  void trigger() {
    const std::lock_guard guard{mutex_};
    if (triggered_ || stopped_) return;
    triggered_ = true;
    due_ = later(time_, delay_);
    thread_.ensure([this] { work(); });
  }

private:
  void work() {
    std::unique_lock lock{mutex_};
    while (triggered_ && !stopped_) {
      if (wait_until(changed_, lock, time_, due_, [this] { return stopped_; })) break;
      triggered_ = false;
      lock.unlock();
      run_safe(task_);
      lock.lock();
    }
    thread_.leave();
  }

  const std::function<void()> task_;
  const std::chrono::nanoseconds delay_;
  const clock& time_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool triggered_ = false;
  bool stopped_ = false;
  steady_time due_{};
  on_demand_thread thread_;
};

}  // namespace caravan::toolbox
