#pragma once

/// A handful of different things at once. `parallel` runs its functions at the same time and waits for all;
/// `parallel_err` also collects what went wrong.
///
///   toolbox::parallel([&] { a = load_a(); }, [&] { b = load_b(); });
///   auto done = toolbox::parallel_err([&] { return save_a(); }, [&] { return save_b(); });
///   if (!done) report(done.error().text);         // the texts of all that failed
///
/// Threads: one per function, all joined on return. Errors: what a function throws passes to the caller after all have
/// ended; of several the first. parallel_err's functions return a testable; its failure is `failed`.

#include <concepts>
#include <mutex>
#include <string>
#include <utility>

#include "toolbox/outcome.hpp"
#include "toolbox/routine_group.hpp"

namespace caravan::toolbox {

template <class... Tasks>
void parallel(Tasks&&... tasks) {
  routine_group group;
  // By reference: the group ends before the caller's functions do.
  (group.run([&tasks] { tasks(); }), ...);
  group.wait();
}

template <class... Tasks>
outcome<void> parallel_err(Tasks&&... tasks) {
  std::mutex mutex;
  std::string texts;
  const auto note = [&](const auto& result) {
    if (static_cast<bool>(result)) return;
    const std::lock_guard guard{mutex};
    if (!texts.empty()) texts += "; ";
    if constexpr (requires {
                    { result.error().text } -> std::convertible_to<std::string>;
                  })
      texts += result.error().text;
    else
      texts += "a task failed";
  };
  parallel([&note, &tasks] { note(tasks()); }...);
  if (texts.empty()) return {};
  return failure{fault::failed, texts};
}

}  // namespace caravan::toolbox
