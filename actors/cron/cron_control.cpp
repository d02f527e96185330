// What people and shutdowns ask of the core, and what it shows.

#include "actors/cron/cron_core.hpp"
#include "config/values.hpp"

#include <algorithm>
#include <utility>

namespace caravan {

using std::chrono::floor;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {
constexpr std::size_t most_requests = 16;
}  // namespace

expected<cron_core::entry*> cron_core::find_for_request(const std::string& task) {
  auto* e = find(task);
  if (!e) {
    std::vector<std::string_view> names;
    for (const auto& [name, there] : tasks_) names.push_back(name);
    const auto near = config::nearest(task, names);
    return error{errc::not_found, "task \"" + task.substr(0, 80) + "\": there is none of this name" +
                                      (near.empty() ? "" : "; did you mean " + std::string(near) + "?")};
  }
  if (stop_at_) return error{errc::queue_closed, "task \"" + task + "\": this node is stopping; ask another one"};
  if (e->requests.size() >= most_requests)
    return error{errc::queue_full, "task \"" + task + "\": " + std::to_string(most_requests) +
                                       " requests wait for the store already; see whether it answers"};
  return e;
}

expected<std::uint64_t> cron_core::run_now(const std::string& task, const std::string& who, cron_time now,
                                           cron_effects& fx) {
  auto e = find_for_request(task);
  if (!e) return e.failure();
  const auto ticket = ++last_request_;
  (*e)->requests.push_back({request::kind::run, who, ticket});
  advance(**e, now, fx);
  return ticket;
}

expected<std::uint64_t> cron_core::skip_next(const std::string& task, const std::string& who, cron_time now,
                                             cron_effects& fx) {
  auto e = find_for_request(task);
  if (!e) return e.failure();
  const auto ticket = ++last_request_;
  (*e)->requests.push_back({request::kind::skip, who, ticket});
  advance(**e, now, fx);
  return ticket;
}

expected<std::uint64_t> cron_core::set_paused(const std::string& task, bool paused, const std::string& who,
                                              cron_time now, cron_effects& fx) {
  auto e = find_for_request(task);
  if (!e) return e.failure();
  const auto ticket = ++last_request_;
  (*e)->requests.push_back({paused ? request::kind::pause : request::kind::resume, who, ticket});
  advance(**e, now, fx);
  return ticket;
}

void cron_core::stop(cron_time deadline, cron_time now, cron_effects& fx) {
  if (stop_at_) return;
  stop_at_ = deadline;
  for (auto& [name, e] : tasks_) {
    for (const auto& r : e.requests)
      fx.replies.push_back(
          {r.ticket, error{errc::queue_closed, "task \"" + name + "\": this node is stopping; ask another one"}});
    e.requests.clear();
  }
  on_tick(now, fx);
}

void cron_core::check_stopped(cron_time now, cron_effects& fx) {
  if (!stop_at_ || stopped_) return;
  const auto idle = [](const auto& x) {
    return !x.second.run && !x.second.end && !x.second.claim && x.second.under_way == call::none;
  };
  if (now < *stop_at_ && !std::all_of(tasks_.begin(), tasks_.end(), idle)) return;
  stopped_ = true;
  fx.stopped = true;
  for (auto& [name, e] : tasks_) {
    if (!e.run) continue;
    record(e,
           {.task = name,
            .occurrence = e.run->run.occurrence,
            .until = e.run->run.occurrence,
            .token = e.run->run.token,
            .trigger = e.run->run.trigger,
            .node = options_.node.name,
            .who = e.run->run.who,
            .started = common(e.run->started),
            .ended = common(now),
            .outcome = cron_outcome::cancelled,
            .message = "the node stopped and did not wait any longer"},
           fx);
    fx.notices.push_back({name, true, "task \"" + name + "\" was still running when the node stopped"});
  }
}

std::optional<cron_time> cron_core::wake_of(const entry& e, cron_time now) const {
  std::optional<cron_time> out;
  const auto at = [&](cron_time t) { out = out ? std::min(*out, t) : t; };
  if (const auto cancel = cancel_at(e)) at(*cancel);
  if (e.under_way != call::none) return out;
  if (e.retry_at) {
    at(*e.retry_at);
    return out;
  }
  if (e.run && !e.run->lost) at(e.run->renew_at);
  if (!e.opened || stop_at_) return out;
  if (options_.shared_store) at(e.seen_at + options_.most_sleep);
  if (e.timing && !e.state.paused)
    if (const auto next = next_of(*e.timing, base(e))) at(std::max(start_of(*e.timing, *next) - offset_, now));
  return out;
}

cron_time cron_core::next_wake(cron_time now) const {
  auto out = now + options_.most_sleep;
  if (stop_at_) out = std::min(out, *stop_at_);
  for (const auto& [name, e] : tasks_)
    if (const auto at = wake_of(e, now)) out = std::min(out, *at);
  return std::max(out, now);
}

std::vector<cron_status> cron_core::list(cron_time now) const {
  std::vector<cron_status> out;
  const auto at = floor<seconds>(common(now));
  for (const auto& [name, e] : tasks_) {
    cron_status s;
    s.name = name;
    s.description = e.task.description;
    if (e.task.when) {
      s.schedule_text = e.task.when->text();
      s.zone = e.task.when->zone();
    }
    s.enabled = e.task.settings.enabled;
    s.paused = e.state.paused;
    s.paused_by = e.state.paused_by;
    // Not opened yet: an interval has no beginning to count from.
    if (e.timing && !s.paused && (e.opened || !e.timing->when.interval()))
      s.next = e.timing->when.interval() ? next_of(*e.timing, base(e))
                                         : next_of(*e.timing, e.opened ? std::max(base(e), at) : at);
    s.previous = e.state.last;
    s.running = e.state.running;
    if (s.running)
      s.status = "running";
    else if (s.previous)
      s.status = std::string(to_string(s.previous->outcome));
    s.runs = e.state.runs;
    s.failures = e.state.failures;
    s.missed = e.missed;
    out.push_back(std::move(s));
  }
  return out;
}

std::vector<cron_record> cron_core::history(const std::string& task) const {
  const auto at = tasks_.find(task);
  if (at == tasks_.end()) return {};
  return {at->second.history.begin(), at->second.history.end()};
}

}  // namespace caravan
