#pragma once

/// Writing a thousand small things one by one costs a thousand round trips. `periodical_executor` collects them and
/// hands them on together: when its container says that it is full, and else once an interval.
///
///   struct lines {                                         // the container
///     bool add(std::string line) { text += line; return text.size() > 4096; }      // true: full, hand it on now
///     std::string remove_all() { return std::exchange(text, {}); }
///     bool is_empty(const std::string& batch) const { return batch.empty(); }
///     void execute(std::string batch) { send(batch); }
///     std::string text;
///   };
///   toolbox::periodical_executor<lines> log{1s, lines{}};
///   log.add("started\n");
///   log.wait();                                            // everything so far has been sent
///
/// bulk_executor and chunk_executor are the two usual containers.
///
/// Threads: safe. add, remove_all and is_empty run under the lock; execute runs without it, on the tool's own thread or
/// on that of flush's caller, so two batches may be executed at the same time: at most one per thread. That thread
/// comes with the first add and leaves after ten intervals without work. At most `waiting_batches` full batches wait
/// for it; then add waits, which is how a slow receiver slows the senders down. The destructor executes what is left.
/// Errors: what execute throws goes to the stray handler (run_safe.hpp) if the tool's thread ran it, and to the caller
/// of flush else; that batch is lost, the others are not. Calling add or wait from execute may wait for itself: do not.
/// The constructor throws std::invalid_argument for an interval of zero or less.

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include "toolbox/clock.hpp"
#include "toolbox/on_demand_thread.hpp"
#include "toolbox/run_safe.hpp"
#include "toolbox/waiting.hpp"

namespace caravan::toolbox {

template <class Container>
class periodical_executor {
public:
  using batch = decltype(std::declval<Container&>().remove_all());
  static constexpr std::size_t waiting_batches = 16;
  static constexpr int idle_intervals = 10;

  periodical_executor(std::chrono::nanoseconds interval, Container container, const clock& time = real_clock::shared())
      : interval_(interval), time_(time), container_(std::move(container)) {
    if (interval <= std::chrono::nanoseconds::zero())
      throw std::invalid_argument("periodical_executor: the interval must be above zero");
  }
  periodical_executor(const periodical_executor&) = delete;
  periodical_executor& operator=(const periodical_executor&) = delete;
  ~periodical_executor() {
    {
      const std::lock_guard guard{mutex_};
      stopped_ = true;
    }
    changed_.notify_all();
    thread_.join();
    run_safe([this] { flush(); });
  }

  template <class Task>
  void add(Task&& task) {
    std::unique_lock lock{mutex_};
    taken_.wait(lock, [this] { return full_.size() < waiting_batches; });
    if (container_.add(std::forward<Task>(task))) {
      full_.push_back(container_.remove_all());
      changed_.notify_one();
    }
    busy_ = true;
    thread_.ensure([this] { work(); });
  }

  /// Executes what the container holds here and now. False if there was nothing.
  bool flush() {
    std::unique_lock lock{mutex_};
    auto left = container_.remove_all();
    if (container_.is_empty(left)) return false;
    execute(lock, std::move(left));
    return true;
  }

  /// Flushes, and waits until all that was added before has been executed.
  void wait() {
    flush();
    std::unique_lock lock{mutex_};
    done_.wait(lock, [this] { return full_.empty() && executing_ == 0; });
  }

  /// Runs `work(container)` under the lock, now; to look at or change the container.
  template <class Work>
  decltype(auto) sync(Work&& work) {
    const std::lock_guard guard{mutex_};
    return std::forward<Work>(work)(container_);
  }
  /// False while the tool is idle and its thread gone.
  [[nodiscard]] bool has_thread() const {
    const std::lock_guard guard{mutex_};
    return thread_.seated();
  }

private:
  void work() {
    std::unique_lock lock{mutex_};
    auto next_flush = later(time_, interval_);
    int idle = 0;
    for (;;) {
      wait_until(changed_, lock, time_, next_flush, [this] { return stopped_ || !full_.empty(); });
      if (!full_.empty()) {
        auto first = std::move(full_.front());
        full_.pop_front();
        taken_.notify_one();
        run_safe([&] { execute(lock, std::move(first)); });
      } else if (stopped_) {
        break;  // what the container still holds is the destructor's
      }
      if (time_.now() < next_flush) continue;
      next_flush = later(time_, interval_);
      auto left = container_.remove_all();
      if (!container_.is_empty(left)) run_safe([&] { execute(lock, std::move(left)); });
      if (std::exchange(busy_, false))
        idle = 0;
      else if (++idle >= idle_intervals && full_.empty())
        break;
    }
    thread_.leave();
  }

  // Called and left with the lock held.
  void execute(std::unique_lock<std::mutex>& lock, batch what) {
    ++executing_;
    lock.unlock();
    try {
      container_.execute(std::move(what));
    } catch (...) {
      finish(lock);
      throw;
    }
    finish(lock);
  }
  void finish(std::unique_lock<std::mutex>& lock) {
    lock.lock();
    --executing_;
    done_.notify_all();
  }

  const std::chrono::nanoseconds interval_;
  const clock& time_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;  // to the thread: a batch is full, or stop
  std::condition_variable taken_;    // to add: there is room for another full batch
  std::condition_variable done_;     // to wait
  Container container_;
  std::deque<batch> full_;
  int executing_ = 0;
  bool busy_ = false;  // something was added in this interval
  bool stopped_ = false;
  on_demand_thread thread_;
};

}  // namespace caravan::toolbox
