#pragma once

/// Some failures pass when the same thing is tried again. `do_with_retry` tries up to `count` times, pauses in between,
/// and keeps to a total time.
///
///   auto done = toolbox::do_with_retry([&](unsigned retry) { return send(message, retry); },
///                                      {.count = 5, .interval = 100ms, .timeout = 2s});
///   if (!done) report(done.last->error());
///   auto found = toolbox::do_with_retry(look_up, {}, [](const auto& r) { return r.error().code == not_found; });
///
/// The function may take the number of the try, from 0, and returns a testable; the last one it returned is in `last`.
/// One that throws has failed as well; if that was the last try, the exception passes to the caller. The optional third
/// argument says which errors need no further try and count as success.
///
/// The total time covers tries and pauses: a try that ends too late does not count, even if it went well, and a pause
/// that would end too late is not begun. It does not interrupt a try; give the function its own limit, or put the
/// whole into do_with_timeout.
///
/// Threads: all on the caller's. Units: std::chrono; timeout 0 means none. Errors: see `why`.

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <type_traits>
#include <utility>

#include "toolbox/clock.hpp"
#include "toolbox/outcome.hpp"
#include "toolbox/waiting.hpp"

namespace caravan::toolbox {

struct retry_options {
  unsigned count = 3;                                    ///< tries in all, the first one included; 0 counts as 1
  std::chrono::nanoseconds interval{0};                  ///< pause between two tries
  std::chrono::nanoseconds timeout{0};                   ///< for everything together; 0: none
  std::function<std::chrono::nanoseconds()> pause = {};  ///< in place of interval, e.g. a backoff's next
  std::stop_token stop = {};
};

template <class Result>
struct retried {
  std::optional<Result> last;  ///< of the last try that returned; none only if stopped before the first
  unsigned tries = 0;
  std::optional<fault> why;  ///< none: success. failed: no try left. timed_out or cancelled: it was given up

  explicit operator bool() const noexcept { return !why; }
};

template <class Task, class Ignore>
requires(!std::is_base_of_v<clock, std::remove_cvref_t<Ignore>>) auto do_with_retry(
    Task task, const retry_options& options, Ignore ignore, const clock& time = real_clock::shared()) {
  constexpr bool takes_number = std::is_invocable_v<Task&, unsigned>;
  using result =
      typename std::conditional_t<takes_number, std::invoke_result<Task&, unsigned>, std::invoke_result<Task&>>::type;
  static_assert(testable<result>, "a function that is retried returns something that tests true or false");

  const auto deadline =
      options.timeout > std::chrono::nanoseconds::zero() ? later(time, options.timeout) : steady_time::max();
  std::mutex mutex;
  std::condition_variable stopped;
  const std::stop_callback wake{options.stop, [&] {
                                  const std::lock_guard guard{mutex};
                                  stopped.notify_all();
                                }};
  retried<result> report;
  const auto gave_up = [&](fault why) {
    report.why = why;
    return std::move(report);
  };
  for (;;) {
    if (options.stop.stop_requested()) return gave_up(fault::cancelled);
    std::exception_ptr thrown;
    try {
      if constexpr (takes_number)
        report.last.emplace(task(report.tries));
      else
        report.last.emplace(task());
    } catch (...) {
      thrown = std::current_exception();
    }
    ++report.tries;
    if (time.now() > deadline) return gave_up(fault::timed_out);
    if (!thrown && (static_cast<bool>(*report.last) || ignore(*report.last))) return report;
    if (report.tries >= options.count) {
      if (thrown) std::rethrow_exception(thrown);
      return gave_up(fault::failed);
    }
    const auto resume = later(time, options.pause ? options.pause() : options.interval);
    if (resume > deadline) return gave_up(fault::timed_out);
    std::unique_lock lock{mutex};
    wait_until(stopped, lock, time, resume, [&] { return options.stop.stop_requested(); });
  }
}

template <class Task>
auto do_with_retry(Task task, const retry_options& options = {}, const clock& time = real_clock::shared()) {
  return do_with_retry(
      std::move(task), options, [](const auto&) { return false; }, time);
}

}  // namespace caravan::toolbox
