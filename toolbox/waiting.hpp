#pragma once

/// A tool that waits for a moment of an injected clock cannot hand that moment to the operating system: a
/// manual_clock moves when a test says so, and tells nobody. `wait_until` waits for a condition or a moment of any
/// clock: on the machine's clock it is condition_variable::wait_until, on another one it looks again every millisecond.
///
///   std::unique_lock lock{mutex_};
///   const auto deadline = toolbox::later(clock_, 2s);
///   if (!toolbox::wait_until(changed_, lock, clock_, deadline, [&] { return ready_; })) return timed_out();
///
/// Threads: as the condition variable's own. Units: steady_time::max() means forever. Errors: none of its own; what
/// the condition throws passes through with the lock held.

#include <chrono>

#include "toolbox/clock.hpp"

namespace caravan::toolbox {

/// now + `delay`, and forever if that does not fit.
[[nodiscard]] inline steady_time later(steady_time now, std::chrono::nanoseconds delay) {
  return delay > steady_time::max() - now ? steady_time::max() : now + delay;
}
[[nodiscard]] inline steady_time later(const clock& time, std::chrono::nanoseconds delay) {
  return later(time.now(), delay);
}

/// The condition's last answer: false means that the deadline came first.
template <class ConditionVariable, class Lock, class Condition>
bool wait_until(ConditionVariable& changed, Lock& lock, const clock& time, steady_time deadline, Condition condition) {
  if (condition()) return true;
  const bool machine = dynamic_cast<const real_clock*>(&time) != nullptr;
  while (time.now() < deadline) {
    if (!machine)
      changed.wait_for(lock, std::chrono::milliseconds{1});
    else if (deadline == steady_time::max())
      changed.wait(lock);
    else
      changed.wait_until(lock, deadline);
    if (condition()) return true;
  }
  return false;
}

}  // namespace caravan::toolbox
