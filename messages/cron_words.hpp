#pragma once

/// What is said to and by the actor of a node's tasks. Its answers are the structs of <caravan/cron.hpp>.

#include <caravan/cron.hpp>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace caravan {

struct get_cron_list {};
struct cron_list {
  std::vector<task_info> tasks;
};
/// not_found: there is no such task.
struct get_cron_history {
  std::string task;
};
struct cron_history {
  std::vector<task_event> events;  ///< the newest first
};
enum class cron_change : std::uint8_t { run = 0, skip_next = 1, pause = 2, resume = 3 };
struct change_cron {
  std::string task;
  cron_change what = cron_change::run;
  std::string who;
};
/// Starts nothing any more, asks what runs to stop, and waits for it.
struct stop_cron {
  std::chrono::milliseconds patience{0};
};

// By position, so append only.
template <class I>
typename I::result_type inspect(I& f, task_run_info& x) {
  return f(x.token, x.node, x.who, x.trigger, x.occurrence, x.started, x.ended, x.outcome, x.message);
}
template <class I>
typename I::result_type inspect(I& f, task_info& x) {
  return f(x.name, x.description, x.schedule, x.zone, x.action, x.enabled, x.paused, x.paused_by, x.next, x.running,
           x.last, x.status, x.runs, x.failures, x.missed);
}
template <class I>
typename I::result_type inspect(I& f, task_event& x) {
  return f(x.task, x.what, x.occurrence, x.until, x.count, x.token, x.trigger, x.node, x.who, x.started, x.ended,
           x.message);
}
template <class I>
typename I::result_type inspect(I& f, get_cron_list&) {
  return f();
}
template <class I>
typename I::result_type inspect(I& f, cron_list& x) {
  return f(x.tasks);
}
template <class I>
typename I::result_type inspect(I& f, get_cron_history& x) {
  return f(x.task);
}
template <class I>
typename I::result_type inspect(I& f, cron_history& x) {
  return f(x.events);
}
template <class I>
typename I::result_type inspect(I& f, change_cron& x) {
  return f(x.task, x.what, x.who);
}
template <class I>
typename I::result_type inspect(I& f, stop_cron& x) {
  return f(x.patience);
}

}  // namespace caravan
