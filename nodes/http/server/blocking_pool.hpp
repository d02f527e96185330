#pragma once

/// A few threads for work that may block, and a bounded line in front of them.

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace caravan::http {

/// Thread safe.
class blocking_pool {
public:
  using task = std::function<void()>;

  ~blocking_pool() { stop(); }
  void start(unsigned threads, std::size_t max_waiting);
  /// False when the line is full or the pool does not run; the task is then untouched.
  bool post(task& work);
  /// Drops the tasks that wait, lets running ones finish.
  void stop();

private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<task> waiting_;
  std::vector<std::thread> threads_;
  std::size_t max_waiting_ = 0;
  bool running_ = false;
};

}  // namespace caravan::http
