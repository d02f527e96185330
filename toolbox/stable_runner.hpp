#pragma once

/// Items are worked on at the same time, but their results are wanted in the order in which the items came.
/// `stable_runner` keeps that order.
///
///   toolbox::stable_runner<page, text> runner{[](page p) { return recognise(p); }, 4};
///   std::jthread feeder{[&] { for (auto& p : pages) runner.push(p); runner.close(); }};
///   while (auto t = runner.get()) append(*t);
///
/// Threads: push from any thread (the order is that of the calls), get from any thread. At most `waiting` results and
/// items under way are kept; then push waits for get, so push and get from one thread only up to that number.
/// Errors: what the function throws comes out of the get that it belongs to; the others go on. push answers closed.
/// get gives nothing once closed and all results are taken. The destructor drops what was not taken.

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "toolbox/outcome.hpp"
#include "toolbox/task_runner.hpp"

namespace caravan::toolbox {

template <class In, class Out>
class stable_runner {
public:
  stable_runner(std::function<Out(In)> work, std::size_t workers, std::size_t waiting = 1000)
      : work_(std::move(work)), waiting_(waiting == 0 ? 1 : waiting), runner_(workers) {}
  ~stable_runner() { close(); }

  outcome<void> push(In item) {
    auto place = std::make_shared<result>();
    // Scheduling stays inside: two pushes must not swap on the way to their places.
    const std::lock_guard order{push_mutex_};
    {
      std::unique_lock lock{mutex_};
      changed_.wait(lock, [this] { return closed_ || results_.size() < waiting_; });
      if (closed_) return failure{fault::closed, "the stable runner is closed"};
      results_.push_back(place);
    }
    runner_.schedule([this, place, item = std::move(item)]() mutable {
      std::optional<Out> out;
      std::exception_ptr error;
      try {
        out.emplace(work_(std::move(item)));
      } catch (...) {
        error = std::current_exception();
      }
      const std::lock_guard guard{mutex_};
      place->value = std::move(out);
      place->error = std::move(error);
      place->done = true;
      changed_.notify_all();
    });
    return {};
  }

  std::optional<Out> get() {
    std::unique_lock lock{mutex_};
    changed_.wait(lock, [this] { return results_.empty() ? closed_ : results_.front()->done; });
    if (results_.empty()) return std::nullopt;
    const auto first = std::move(results_.front());
    results_.pop_front();
    changed_.notify_all();
    // Taken out, as the worker may still hold its place: the last user of an exception is then the one who gets it.
    if (auto error = std::move(first->error)) std::rethrow_exception(std::move(error));
    return std::move(first->value);
  }

  /// No more items; what is under way is finished.
  void close() {
    const std::lock_guard guard{mutex_};
    closed_ = true;
    changed_.notify_all();
  }

private:
  struct result {
    bool done = false;
    std::optional<Out> value;
    std::exception_ptr error;
  };

  const std::function<Out(In)> work_;
  const std::size_t waiting_;
  std::mutex push_mutex_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<result>> results_;
  bool closed_ = false;
  task_runner runner_;  // last: its destructor waits for tasks that use all of the above
};

}  // namespace caravan::toolbox
