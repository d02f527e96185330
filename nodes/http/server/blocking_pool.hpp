#pragma once

/// A few threads for work that may block, and a bounded line in front of them.

#include <cstddef>
#include <functional>
#include <memory>

#include "toolbox/channel.hpp"
#include "toolbox/routine_group.hpp"
#include "toolbox/run_safe.hpp"

namespace caravan::http {

/// start() once, before anything else; the rest is thread safe.
class blocking_pool {
public:
  using task = std::function<void()>;

  ~blocking_pool() { stop(); }
  void start(unsigned threads, std::size_t max_waiting) {
    line_ = std::make_unique<toolbox::channel<task>>(max_waiting);
    for (unsigned i = 0; i < threads; ++i)
      threads_.run_safe([this] {
        while (auto work = line_->pop()) toolbox::run_safe(*work);
      });
  }
  /// False when the line is full or the pool does not run; the task is then untouched.
  bool post(task& work) { return line_ && line_->try_push(work); }
  /// Drops the tasks that wait, lets running ones finish.
  void stop() {
    if (line_) line_->abandon();
    threads_.wait();
  }

private:
  std::unique_ptr<toolbox::channel<task>> line_;
  toolbox::routine_group threads_;
};

}  // namespace caravan::http
