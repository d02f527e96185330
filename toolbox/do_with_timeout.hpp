#pragma once

/// A call may take for ever, and its caller must answer within a second. `do_with_timeout` runs the function on a
/// thread of its own and stops waiting at the deadline, or when the caller's own stop token fires.
///
///   auto user = toolbox::do_with_timeout([id](std::stop_token stop) { return load(id, stop); }, 1s);
///   if (user.is(toolbox::fault::timed_out)) return try_later();
///
/// A thread cannot be cut off: after the deadline the function gets a stop request through its std::stop_token (it may
/// take none) and runs on until it returns; its result is dropped. So whatever it uses must be its own: capture by
/// value. Threads that ran late are joined by a later call, and those that are left when the process ends by its end,
/// which waits for them.
///
/// Threads: safe. Errors: timed_out or cancelled. What the function throws in time passes to the caller; later it
/// goes to the stray handler (run_safe.hpp). Throws std::system_error if the system has no thread left.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <type_traits>
#include <utility>
#include <variant>

#include "toolbox/clock.hpp"
#include "toolbox/outcome.hpp"
#include "toolbox/run_safe.hpp"
#include "toolbox/waiting.hpp"

namespace caravan::toolbox {

/// The threads of functions that nobody waits for any more.
class stragglers {
public:
  static stragglers& get() {
    static stragglers all;
    return all;
  }
  /// Joins those that have ended; how many still run.
  std::size_t reap() {
    std::list<entry> ended;
    const std::lock_guard guard{mutex_};
    for (auto i = entries_.begin(); i != entries_.end();) {
      const auto here = i++;
      if (here->ended->load(std::memory_order_acquire)) ended.splice(ended.end(), entries_, here);
    }
    return entries_.size();
  }
  void add(std::jthread thread, std::shared_ptr<std::atomic<bool>> ended) {
    const std::lock_guard guard{mutex_};
    entries_.push_back({std::move(thread), std::move(ended)});
  }

private:
  struct entry {
    std::jthread thread;
    std::shared_ptr<std::atomic<bool>> ended;
  };
  std::mutex mutex_;
  std::list<entry> entries_;
};

template <class Task>
auto do_with_timeout(Task task, std::chrono::nanoseconds timeout, std::stop_token stop = {},
                     const clock& time = real_clock::shared()) {
  constexpr bool takes_token = std::is_invocable_v<Task&, std::stop_token>;
  using result = typename std::conditional_t<takes_token, std::invoke_result<Task&, std::stop_token>,
                                             std::invoke_result<Task&>>::type;
  using kept = std::conditional_t<std::is_void_v<result>, std::monostate, result>;
  struct meeting {
    std::mutex mutex;
    std::condition_variable changed;
    bool done = false;
    bool left = false;  // the caller is gone
    std::optional<kept> value;
    std::exception_ptr error;
    std::shared_ptr<std::atomic<bool>> ended = std::make_shared<std::atomic<bool>>(false);
  };

  stragglers::get().reap();
  const auto deadline = later(time, timeout);
  const auto here = std::make_shared<meeting>();
  std::jthread thread{[here, task = std::move(task)](std::stop_token asked_to_stop) mutable {
    std::optional<kept> value;
    std::exception_ptr error;
    try {
      const auto call = [&]() -> decltype(auto) {
        if constexpr (takes_token)
          return task(std::move(asked_to_stop));
        else
          return task();
      };
      if constexpr (std::is_void_v<result>) {
        call();
        value.emplace();
      } else {
        value.emplace(call());
      }
    } catch (...) {
      error = std::current_exception();
    }
    bool late = false;
    {
      const std::lock_guard guard{here->mutex};
      late = here->left;
      here->value = std::move(value);
      here->error = error;
      here->done = true;
      here->changed.notify_all();
    }
    if (late && error) report_stray(error);
    here->ended->store(true, std::memory_order_release);
  }};

  outcome<result> answer = failure{fault::timed_out, "no result in time"};
  bool done = false;
  {
    const std::stop_callback wake{stop, [&] {
                                    const std::lock_guard guard{here->mutex};
                                    here->changed.notify_all();
                                  }};
    std::unique_lock lock{here->mutex};
    wait_until(here->changed, lock, time, deadline, [&] { return here->done || stop.stop_requested(); });
    done = here->done;
    here->left = !done;
    if (!done && stop.stop_requested()) answer = failure{fault::cancelled, "the caller stopped waiting"};
  }
  if (!done) {
    thread.request_stop();
    stragglers::get().add(std::move(thread), here->ended);
    return answer;
  }
  thread.join();
  if (here->error) std::rethrow_exception(here->error);
  if constexpr (std::is_void_v<result>)
    answer = outcome<void>{};
  else
    answer = outcome<result>{std::move(*here->value)};
  return answer;
}

}  // namespace caravan::toolbox
