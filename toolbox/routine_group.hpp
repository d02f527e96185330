#pragma once

/// Several things at once, and then wait for all. `routine_group` runs each function on a thread of its own;
/// `worker_group` runs the same function on several.
///
///   toolbox::routine_group group;
///   group.run([&] { load_users(); });
///   group.run([&] { load_orders(); });
///   group.wait();                                // throws what the first function that failed threw
///
///   toolbox::worker_group{[&] { while (auto job = jobs.pop()) job->run(); }, 4}.start();     // runs and waits
///
/// Standard: std::jthread does the same for one function, without a way for its exception.
/// Threads: run and run_safe may be called from any thread, wait from one at a time. The destructor waits as well.
/// Threads that have ended are kept until wait. Errors: what a function given to run throws comes out of wait, once;
/// the others run on. What one given to run_safe throws goes to the stray handler. run throws std::system_error if the
/// system has no thread left; nothing was started then.

#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "toolbox/run_safe.hpp"

namespace caravan::toolbox {

class routine_group {
public:
  routine_group() = default;
  routine_group(const routine_group&) = delete;
  routine_group& operator=(const routine_group&) = delete;
  ~routine_group() { join(); }

  template <class Task>
  void run(Task task) {
    start([this, task = std::move(task)]() mutable {
      try {
        task();
      } catch (...) {
        const std::lock_guard guard{mutex_};
        if (!error_) error_ = std::current_exception();
      }
    });
  }
  template <class Task>
  void run_safe(Task task) {
    start([task = std::move(task)]() mutable { toolbox::run_safe(task); });
  }
  void wait() {
    join();
    std::exception_ptr error;
    {
      const std::lock_guard guard{mutex_};
      error = std::exchange(error_, nullptr);
    }
    if (error) std::rethrow_exception(error);
  }

private:
  template <class Body>
  void start(Body body) {
    const std::lock_guard guard{mutex_};
    threads_.emplace_back(std::move(body));
  }
  void join() {
    // A function may start another one: look again until none is left.
    for (;;) {
      std::vector<std::jthread> batch;
      {
        const std::lock_guard guard{mutex_};
        batch.swap(threads_);
      }
      if (batch.empty()) return;
    }
  }

  std::mutex mutex_;
  std::vector<std::jthread> threads_;
  std::exception_ptr error_;
};

class worker_group {
public:
  worker_group(std::function<void()> job, std::size_t workers) : job_(std::move(job)), workers_(workers) {}
  /// Runs the job on all workers and waits for them.
  void start() const {
    routine_group group;
    for (std::size_t i = 0; i < workers_; ++i) group.run(job_);
    group.wait();
  }

private:
  const std::function<void()> job_;
  const std::size_t workers_;
};

}  // namespace caravan::toolbox
