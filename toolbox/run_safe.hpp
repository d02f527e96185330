#pragma once

/// An exception that leaves a thread's function ends the process, and background work has no caller who could catch it.
/// `run_safe` keeps it inside and hands it to one place, the stray handler; `go_safe` does the same on a new thread.
/// Every tool here that calls foreign code with no caller at hand uses it.
///
///   toolbox::set_stray_handler([](std::exception_ptr e) { log(toolbox::text_of(e)); });
///   toolbox::run_safe([] { throw std::runtime_error("disk full"); });     // logged; the program goes on
///   std::jthread worker = toolbox::go_safe([](std::stop_token stop) { while (!stop.stop_requested()) work(); });
///
/// Threads: everything here may be called from any thread. The handler runs on the thread that threw; it may throw
/// itself, which is ignored. Without one, a line goes to stderr, as the standard's own terminate handler does.
/// go_safe throws std::system_error if the system has no thread left; nothing was run then. The thread it returns is
/// joined by its destructor, so nothing leaks.

#include <atomic>
#include <cstdio>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>

namespace caravan::toolbox {

using stray_handler = std::function<void(std::exception_ptr)>;

/// what(), or a word for exceptions that have none.
[[nodiscard]] inline std::string text_of(const std::exception_ptr& thrown) {
  if (!thrown) return "nothing was thrown";
  try {
    std::rethrow_exception(thrown);
  } catch (const std::exception& e) {
    return e.what();
  } catch (const char* text) {
    return text;
  } catch (const std::string& text) {
    return text;
  } catch (...) {
    return "an exception that is no std::exception";
  }
}

namespace detail {

// The handler is copied out before it runs, so that one that is slow or replaces itself holds up nobody.
struct stray_place {
  std::mutex mutex;
  std::shared_ptr<stray_handler> handler;

  static stray_place& get() {
    static stray_place place;
    return place;
  }
};

}  // namespace detail

/// Replaces the handler and returns the one before; an empty one brings the default back.
inline stray_handler set_stray_handler(stray_handler handler) {
  auto next = handler ? std::make_shared<stray_handler>(std::move(handler)) : nullptr;
  auto& place = detail::stray_place::get();
  const std::lock_guard guard{place.mutex};
  place.handler.swap(next);
  return next ? *next : stray_handler{};
}

/// Hands an exception that nobody can catch to the handler.
inline void report_stray(const std::exception_ptr& thrown) noexcept {
  try {
    std::shared_ptr<stray_handler> handler;
    {
      auto& place = detail::stray_place::get();
      const std::lock_guard guard{place.mutex};
      handler = place.handler;
    }
    if (handler)
      (*handler)(thrown);
    else
      std::fprintf(stderr, "a background task threw: %s\n", text_of(thrown).c_str());
  } catch (...) {
    // The handler failed on the way: there is nobody left to tell.
  }
}

/// Runs `task` here. False if it threw.
template <class Task>
bool run_safe(Task&& task) noexcept {
  try {
    std::forward<Task>(task)();
    return true;
  } catch (...) {
    report_stray(std::current_exception());
    return false;
  }
}

/// Runs `task` on a thread of its own; it may take a std::stop_token, which the returned thread's destructor fires.
template <class Task>
[[nodiscard]] std::jthread go_safe(Task task) {
  return std::jthread{[task = std::move(task)](std::stop_token stop) mutable {
    if constexpr (std::is_invocable_v<Task&, std::stop_token>)
      run_safe([&] { task(std::move(stop)); });
    else
      run_safe(task);
  }};
}

}  // namespace caravan::toolbox
