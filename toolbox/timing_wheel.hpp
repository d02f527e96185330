#pragma once

/// Many timers that rarely fire: leases that are renewed, delays that are cancelled. One thread and one heap per timer
/// would be too much of each. `timing_wheel` fires all of them from one thread, on the ticks of an interval.
///
///   toolbox::timing_wheel<std::string, int> wheel{100ms, 256, [](std::string key, int value) { expire(key, value); }};
///   wheel.set("lease", 7, 5s);
///   wheel.move("lease", 5s);                     // renewed: again five seconds from now
///   wheel.remove("lease");
///   wheel.drain([](std::string key, int value) { store(key, value); });
///
/// Never early and at most one interval late: a timer fires on the first tick at or after its moment. A move to less
/// than an interval fires at once, without waiting for the tick.
///
/// Threads: everything may be called from any thread, also from the callback. The callback runs on the wheel's thread,
/// one at a time, without the lock; one that throws is handed to the stray handler (run_safe.hpp) and hurts no other.
/// A callback that has begun cannot be removed any more. The thread comes with the first timer and leaves after ten
/// idle intervals (at least a second). stop() and the destructor end and join it; timers left are forgotten.
/// Errors: the constructor throws std::invalid_argument. Calls answer invalid_argument (a delay of zero or less, an
/// empty key) or closed (after stop); nothing has changed then. Not knowing a key is no error: the answer is false.

#include <algorithm>
#include <chrono>
#include <concepts>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

#include "toolbox/clock.hpp"
#include "toolbox/on_demand_thread.hpp"
#include "toolbox/outcome.hpp"
#include "toolbox/run_safe.hpp"
#include "toolbox/timer_ring.hpp"
#include "toolbox/waiting.hpp"

namespace caravan::toolbox {

template <class Key, class Value, class Hash = std::hash<Key>>
class timing_wheel {
public:
  using callback = std::function<void(Key, Value)>;

  timing_wheel(std::chrono::nanoseconds interval, std::size_t slots, callback fire,
               const clock& time = real_clock::shared())
      : interval_(interval), fire_(std::move(fire)), time_(time), start_(time.now()), ring_(slots) {
    if (interval <= std::chrono::nanoseconds::zero())
      throw std::invalid_argument("timing_wheel: the interval must be above zero");
    if (slots == 0) throw std::invalid_argument("timing_wheel: at least one slot is needed");
    if (!fire_) throw std::invalid_argument("timing_wheel: a callback is needed");
  }
  timing_wheel(const timing_wheel&) = delete;
  timing_wheel& operator=(const timing_wheel&) = delete;
  ~timing_wheel() {
    stop();
    thread_.join();
  }

  /// A known key gets the new value and delay. True if the key was new.
  outcome<bool> set(Key key, Value value, std::chrono::nanoseconds delay) {
    if (is_empty(key)) return empty_key();
    if (delay <= std::chrono::nanoseconds::zero()) return bad_delay();
    const std::lock_guard guard{mutex_};
    if (stopped_) return closed();
    catch_up_if_idle();
    const bool fresh = ring_.set(std::move(key), std::move(value), due_in(delay));
    thread_.ensure([this] { run(); });
    wake_if_sooner();
    return fresh;
  }

  /// False if the key is unknown: it never was set, has fired or was removed.
  outcome<bool> move(const Key& key, std::chrono::nanoseconds delay) {
    if (is_empty(key)) return empty_key();
    if (delay <= std::chrono::nanoseconds::zero()) return bad_delay();
    const std::lock_guard guard{mutex_};
    if (stopped_) return closed();
    const bool known = ring_.move(key, delay < interval_ ? 0 : due_in(delay));
    if (known) wake_if_sooner();
    return known;
  }

  /// False if the key is unknown.
  outcome<bool> remove(const Key& key) {
    if (is_empty(key)) return empty_key();
    const std::lock_guard guard{mutex_};
    if (stopped_) return closed();
    return ring_.remove(key).has_value();
  }

  /// Takes all timers out and hands each to take(Key, Value), here and now. What it throws passes on; the timers are
  /// out all the same.
  template <class Take>
  outcome<void> drain(Take take) {
    std::vector<std::pair<Key, Value>> all;
    {
      const std::lock_guard guard{mutex_};
      if (stopped_) return failure{closed()};
      all.reserve(ring_.size());
      ring_.drain([&](Key&& key, Value&& value) { all.emplace_back(std::move(key), std::move(value)); });
    }
    for (auto& [key, value] : all) take(std::move(key), std::move(value));
    return {};
  }

  [[nodiscard]] std::size_t size() const {
    const std::lock_guard guard{mutex_};
    return ring_.size();
  }
  /// False while the wheel is idle and its thread gone.
  [[nodiscard]] bool has_thread() const {
    const std::lock_guard guard{mutex_};
    return thread_.seated();
  }

  /// Ends the thread and waits for the callback that runs, unless called from it.
  void stop() {
    bool inside = false;
    {
      const std::lock_guard guard{mutex_};
      stopped_ = true;
      inside = thread_.is_me();
    }
    changed_.notify_all();
    if (!inside) {
      const std::lock_guard joining{join_mutex_};
      thread_.join();
    }
  }

private:
  using tick = typename timer_ring<Key, Value, Hash>::tick;

  static failure closed() { return {fault::closed, "the timing wheel is stopped"}; }
  static failure bad_delay() { return {fault::invalid_argument, "a timer's delay must be above zero"}; }
  static failure empty_key() { return {fault::invalid_argument, "a timer's key must not be empty"}; }
  static bool is_empty(const Key& key) {
    if constexpr (requires {
                    { key.empty() } -> std::convertible_to<bool>;
                  })
      return key.empty();
    else if constexpr (std::is_pointer_v<Key>)
      return key == nullptr;
    else
      return false;
  }

  [[nodiscard]] tick tick_at(steady_time moment) const {
    return static_cast<tick>((moment - start_).count() / interval_.count());
  }
  [[nodiscard]] tick due_in(std::chrono::nanoseconds delay) const {
    const auto since = later(time_, delay) - start_;
    return static_cast<tick>(since.count() / interval_.count() + (since.count() % interval_.count() != 0 ? 1 : 0));
  }
  // Nobody advances an empty wheel; without this a timer set after a pause would be sorted from where the pause began.
  void catch_up_if_idle() {
    if (ring_.empty()) ring_.advance(tick_at(time_.now()), [](Key&&, Value&&) {});
  }
  // The thread sleeps until the first timer: only an earlier one is news to it.
  void wake_if_sooner() {
    if (ring_.next().value_or(sleeping_until_) < sleeping_until_) {
      sleeping_until_ = 0;
      changed_.notify_all();
    }
  }

  void run() {
    std::vector<std::pair<Key, Value>> due;
    std::unique_lock lock{mutex_};
    while (!stopped_) {
      ring_.advance(tick_at(time_.now()),
                    [&](Key&& key, Value&& value) { due.emplace_back(std::move(key), std::move(value)); });
      if (!due.empty()) {
        lock.unlock();
        for (auto& timer : due) run_safe([&] { fire_(std::move(timer.first), std::move(timer.second)); });
        due.clear();
        lock.lock();
        continue;
      }
      if (const auto next = ring_.next()) {
        sleeping_until_ = *next;
        const auto moment =
            later(start_, std::chrono::nanoseconds{static_cast<std::int64_t>(std::min<tick>(
                                                       *next, static_cast<tick>(INT64_MAX / interval_.count()))) *
                                                   interval_.count()});
        wait_until(changed_, lock, time_, moment, [&] { return stopped_ || sleeping_until_ == 0; });
      } else {
        sleeping_until_ = ~tick{0};
        const auto patience = std::max<std::chrono::nanoseconds>(10 * interval_, std::chrono::seconds{1});
        if (!wait_until(changed_, lock, time_, later(time_, patience), [&] { return stopped_ || !ring_.empty(); }))
          break;
      }
    }
    sleeping_until_ = ~tick{0};
    thread_.leave();
  }

  const std::chrono::nanoseconds interval_;
  const callback fire_;
  const clock& time_;
  const steady_time start_;
  mutable std::mutex mutex_;
  std::mutex join_mutex_;  // two threads may stop at once; std::thread::join allows one
  std::condition_variable changed_;
  timer_ring<Key, Value, Hash> ring_;
  tick sleeping_until_ = ~tick{0};
  bool stopped_ = false;
  on_demand_thread thread_;
};

}  // namespace caravan::toolbox
