#pragma once

/// Many small tasks, only so many at once. `task_runner` keeps up to `concurrency` threads for them; a thread that
/// finds nothing to do for a second leaves, and comes back with the next task.
///
///   toolbox::task_runner runner{4};
///   for (auto& file : files) runner.schedule([&] { compress(file); });      // waits while four are under way
///   if (!runner.schedule_immediately(task)) return busy();
///   runner.wait();                                                          // all have ended
///
/// Threads: safe. A task may schedule another one only if a thread is sure to be free, else both wait for ever.
/// The destructor waits for the tasks and joins the threads. Errors: what a task throws goes to the stray handler
/// (run_safe.hpp). schedule_immediately answers busy; the task has not run then. The constructor throws
/// std::invalid_argument for a concurrency of 0.

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <utility>

#include "toolbox/clock.hpp"
#include "toolbox/on_demand_thread.hpp"
#include "toolbox/outcome.hpp"
#include "toolbox/run_safe.hpp"
#include "toolbox/waiting.hpp"

namespace caravan::toolbox {

class task_runner {
public:
  explicit task_runner(std::size_t concurrency, const clock& time = real_clock::shared())
      : concurrency_(concurrency), time_(time) {
    if (concurrency == 0) throw std::invalid_argument("task_runner: the concurrency must be above zero");
  }
  task_runner(const task_runner&) = delete;
  task_runner& operator=(const task_runner&) = delete;
  ~task_runner() {
    wait();
    {
      const std::lock_guard guard{mutex_};
      stopped_ = true;
    }
    changed_.notify_all();
    for (auto& seat : seats_) seat.join();
  }

  /// Waits for a free thread. The task need not be copyable.
  template <class Task>
  void schedule(Task task) {
    std::unique_lock lock{mutex_};
    freed_.wait(lock, [this] { return under_way_ < concurrency_; });
    start(std::move(task));
  }
  template <class Task>
  outcome<void> schedule_immediately(Task task) {
    const std::lock_guard guard{mutex_};
    if (under_way_ == concurrency_) return failure{fault::busy, "all threads of the task runner are busy"};
    start(std::move(task));
    return {};
  }
  void wait() {
    std::unique_lock lock{mutex_};
    freed_.wait(lock, [this] { return under_way_ == 0; });
  }
  /// Threads that are there now, busy or not.
  [[nodiscard]] std::size_t threads() const {
    const std::lock_guard guard{mutex_};
    std::size_t count = 0;
    for (const auto& seat : seats_) count += seat.seated();
    return count;
  }

private:
  template <class Task>
  void start(Task task) {
    if (idle_ <= tasks_.size()) seat_one();
    // std::function wants to copy; sharing the task is the copy that a task need not support.
    tasks_.push_back([shared = std::make_shared<Task>(std::move(task))] { (*shared)(); });
    ++under_way_;
    changed_.notify_one();
  }
  void seat_one() {
    for (auto& seat : seats_)
      if (!seat.seated()) {
        seat.ensure([this, &seat] { work(seat); });
        ++idle_;
        return;
      }
    auto& seat = seats_.emplace_back();
    seat.ensure([this, &seat] { work(seat); });
    ++idle_;
  }
  void work(on_demand_thread& seat) {
    std::unique_lock lock{mutex_};
    while (wait_until(changed_, lock, time_, later(time_, std::chrono::seconds{1}),
                      [this] { return stopped_ || !tasks_.empty(); })) {
      if (tasks_.empty()) break;
      auto task = std::move(tasks_.front());
      tasks_.pop_front();
      --idle_;
      lock.unlock();
      run_safe(task);
      task = nullptr;
      lock.lock();
      ++idle_;
      --under_way_;
      freed_.notify_all();
    }
    --idle_;
    seat.leave();
  }

  const std::size_t concurrency_;
  const clock& time_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::condition_variable freed_;
  std::deque<std::function<void()>> tasks_;  // each has a thread that is about to take it
  std::size_t under_way_ = 0;
  std::size_t idle_ = 0;
  bool stopped_ = false;
  std::deque<on_demand_thread> seats_;
};

}  // namespace caravan::toolbox
