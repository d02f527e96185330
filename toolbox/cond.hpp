#pragma once

/// One thread waits until another says "go on", at most so long, and wants to know how much of its time is left for
/// the next wait. `cond` is that signal.
///
///   toolbox::cond changed;
///   auto [signalled, remaining] = changed.wait(2s);      // another thread: changed.signal();
///   if (signalled) use(changed.wait(remaining));         // the next one within the same two seconds
///
/// Standard: std::condition_variable, plus the wake-ups without a cause left out. A signal wakes one waiter; without
/// a waiter it is lost, and it never blocks. To wait for a state rather than an event, use std::condition_variable
/// with a predicate.
///
/// Threads: safe. Units: std::chrono. Errors: none; a wait that ran out says signalled = false and remaining = 0.

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "toolbox/clock.hpp"
#include "toolbox/waiting.hpp"

namespace caravan::toolbox {

struct cond_result {
  bool signalled;
  std::chrono::nanoseconds remaining;
};

class cond {
public:
  explicit cond(const clock& time = real_clock::shared()) : time_(time) {}

  void wait() {
    std::unique_lock lock{mutex_};
    ++waiters_;
    signal_.wait(lock, [this] { return take(); });
  }

  cond_result wait(std::chrono::nanoseconds timeout) {
    const auto deadline = later(time_, timeout);
    std::unique_lock lock{mutex_};
    ++waiters_;
    if (wait_until(signal_, lock, time_, deadline, [this] { return take(); }))
      return {true, std::max(deadline - time_.now(), std::chrono::nanoseconds::zero())};
    --waiters_;
    return {false, std::chrono::nanoseconds::zero()};
  }

  void signal() {
    const std::lock_guard guard{mutex_};
    if (signals_ == waiters_) return;  // everyone who waits has a signal already
    ++signals_;
    signal_.notify_one();
  }

  /// Threads that wait and have no signal yet.
  [[nodiscard]] std::uint64_t waiting() const {
    const std::lock_guard guard{mutex_};
    return waiters_ - signals_;
  }

private:
  // Under the lock: the signal and its waiter leave together.
  bool take() {
    if (signals_ == 0) return false;
    --signals_;
    --waiters_;
    return true;
  }

  const clock& time_;
  mutable std::mutex mutex_;
  std::condition_variable signal_;
  std::uint64_t waiters_ = 0;
  std::uint64_t signals_ = 0;
};

}  // namespace caravan::toolbox
