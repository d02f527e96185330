#include "actors/cron/cron_core.hpp"

#include "config/values.hpp"

#include <algorithm>
#include <utility>

namespace caravan {

using std::chrono::floor;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

constexpr auto first_pause = milliseconds(500);
constexpr auto longest_pause = milliseconds(15'000);
/// What became due so shortly before a start is not missed: a quick restart, or (among others) one that is about to
/// take it.
constexpr auto young = seconds(2);
constexpr auto young_among_others = seconds(10);

bool is_task_name(std::string_view name) {
  return !name.empty() && name.size() <= 128 && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  });
}

std::string utc(cron_instant at) {
  static const auto zone = schedule::parse("@every 1s", {.zone = "UTC"}).value();
  return zone.format(at);
}

cron_run run_of(const std::string& task, const cron_running& r) {
  return {task,      r.token, task + "@" + utc(r.occurrence) + "#" + std::to_string(r.token),
          r.trigger, r.who,   r.occurrence};
}

}  // namespace

std::string_view to_string(cron_miss x) noexcept {
  switch (x) {
    case cron_miss::none:
      return "none";
    case cron_miss::no_node:
      return "no_node";
    case cron_miss::overlap:
      return "overlap";
    case cron_miss::skipped:
      return "skipped";
    case cron_miss::lost:
      return "lost";
  }
  return "unknown";
}

// ---- tasks ----

expected<void> cron_core::add(cron_task task, cron_time now, cron_effects& fx) {
  const auto refuse = [&](errc code, const std::string& why) {
    return error{code, "task \"" + task.name.substr(0, 80) + "\": " + why};
  };
  if (!is_task_name(task.name))
    return refuse(errc::invalid_argument, "this is no name for a task; use up to 128 letters, digits, - and _");
  if (config::trim(task.description).empty())
    return refuse(errc::invalid_argument, "it has no description; say in one line what it does");
  if (tasks_.contains(task.name)) return refuse(errc::conflict, "there is one of this name; give it another");
  if (const auto known = task.settings.own.only({task.keys.begin(), task.keys.end()}); !known)
    return refuse(errc::invalid_argument, known.failure().text);
  entry e;
  if (task.settings.enabled) {
    if (!task.when)
      return refuse(errc::invalid_argument, "it is enabled and has no schedule; set SCHEDULE, or ENABLED = false");
    if (const auto fires = task.when->fires_after(floor<seconds>(common(now))); !fires)
      return refuse(errc::invalid_argument, fires.failure().text);
    e.timing = cron_timing{task.name, *task.when, task.settings.jitter};
    e.start_once = task.settings.run_at_start;
  }
  e.task = std::move(task);
  const auto name = e.task.name;
  auto& there = tasks_.emplace(name, std::move(e)).first->second;
  if (started_) advance(there, now, fx);
  return {};
}

void cron_core::start(cron_time now, cron_effects& fx) {
  started_ = true;
  on_tick(now, fx);
}

void cron_core::on_tick(cron_time now, cron_effects& fx) {
  for (auto& [name, e] : tasks_) advance(e, now, fx);
  check_stopped(now, fx);
}

cron_core::entry* cron_core::find(const std::string& task) {
  const auto at = tasks_.find(task);
  return at == tasks_.end() ? nullptr : &at->second;
}

// ---- one step of one task: the first thing that is to be done ----

void cron_core::advance(entry& e, cron_time now, cron_effects& fx) {
  if (!started_) return;
  watch_run(e, now, fx);
  if (e.under_way != call::none || stopped_) return;
  if (e.retry_at) {
    // A clock that was set back must not make a short pause a long one.
    if (now < *e.retry_at && *e.retry_at - now <= longest_pause) return;
    e.retry_at.reset();
  }
  if (!e.opened) {
    if (stop_at_) return;
    send(e, call::open, now);
    fx.open.push_back({e.task.name, floor<seconds>(common(now))});
    return;
  }
  if (e.end) {
    send(e, call::finish, now);
    fx.finish.push_back(*e.end);
    return;
  }
  if (e.run && !e.run->lost && now >= e.run->renew_at) {
    send(e, call::renew, now);
    fx.renew.push_back({e.task.name, e.run->run.token, options_.lease});
    return;
  }
  if (e.claim) {
    // Its answer was lost. The number stays, so that it is not taken twice; what it aims at follows the time.
    auto again = std::move(*e.claim);
    const auto scheduled = again.trigger == cron_trigger::schedule || again.trigger == cron_trigger::missed;
    if (scheduled && e.timing && !e.asked)
      if (const auto due = latest_due(*e.timing, base(e), common(now))) again.occurrence = *due;
    send(e, call::claim, now);
    fx.claims.push_back(again);
    e.claim = std::move(again);
    return;
  }
  if (stop_at_ || (e.run && e.run->lost)) return;  // a lost run that has not ended yet must not meet the next one
  if (serve_request(e, now, fx)) return;
  if (e.start_once && e.caught_up) {
    e.start_once = false;
    if (!e.state.paused) {
      send_claim(e, {.trigger = cron_trigger::start, .occurrence = floor<seconds>(common(now))}, now, fx);
      return;
    }
  }
  if (claim_due(e, now, fx)) return;
  // Others may have moved it, or paused it.
  if (options_.shared_store && (now - e.seen_at >= options_.most_sleep || now < e.seen_at)) {
    send(e, call::open, now);
    fx.open.push_back({e.task.name, floor<seconds>(common(now))});
  }
}

void cron_core::watch_run(entry& e, cron_time now, cron_effects& fx) {
  if (!e.run || e.run->cancelled) return;
  const auto at = cancel_at(e);
  if (!stop_at_ && !e.run->lost && (!at || now < *at)) return;
  e.run->cancelled = true;
  fx.cancel.push_back(e.run->run);
}

std::optional<cron_time> cron_core::cancel_at(const entry& e) const {
  // Nobody else can take it where the store is this process's own; and a clock that jumped is no reason to stop.
  if (!options_.shared_store || !e.run || e.run->cancelled) return std::nullopt;
  // The stop token trips before anybody else can begin: a sixth of the lease is for that.
  const auto at = e.run->lease_until - options_.lease / 6;
  if (e.failed > 0) return at;
  if (e.under_way == call::renew) return std::max(at, e.asked_at + options_.lease / 6);
  return std::nullopt;
}

bool cron_core::serve_request(entry& e, cron_time now, cron_effects& fx) {
  while (!e.requests.empty()) {
    e.asked = std::move(e.requests.front());
    e.requests.pop_front();
    const auto at = floor<seconds>(common(now));
    switch (e.asked->what) {
      case request::kind::run:
        send_claim(e, {.trigger = cron_trigger::manual, .who = e.asked->who, .occurrence = at}, now, fx);
        return true;
      case request::kind::pause:
      case request::kind::resume:
        send(e, call::pause, now);
        fx.pause.push_back({e.task.name, e.asked->what == request::kind::pause, e.asked->who, at});
        return true;
      case request::kind::skip: {
        if (e.timing && e.state.cursor > at) {
          reply(e, error{errc::conflict, "task \"" + e.task.name + "\": its next time, " + utc(e.state.cursor) + ", is skipped already"}, fx);
          break;
        }
        const auto next = e.timing ? next_of(*e.timing, std::max(base(e), at)) : std::nullopt;
        if (!next) {
          reply(e, error{errc::conflict, "task \"" + e.task.name + "\": it has no next time to skip"}, fx);
          break;
        }
        send_claim(
            e,
            {.who = e.asked->who, .cursor = e.state.cursor, .occurrence = *next, .what = cron_claim::action::pass_over},
            now, fx);
        return true;
      }
    }
  }
  return false;
}

bool cron_core::claim_due(entry& e, cron_time now, cron_effects& fx) {
  if (!e.timing || e.state.paused) {
    e.caught_up = true;
    return false;
  }
  const auto at = common(now);
  if (!e.rewound_to && clock_was_set_back(*e.timing, e.state.cursor, at)) {
    e.rewound_to = floor<seconds>(at);
    fx.notices.push_back({e.task.name, false,
                          "task \"" + e.task.name + "\": the clock was set back; its times go on from " +
                              utc(*e.rewound_to) + " (they had got to " + utc(e.state.cursor) + ")"});
  }
  cron_claim claim{.cursor = e.state.cursor};
  claim.busy = e.task.settings.overlap == config::overlap_mode::queue ? cron_claim::when_busy::queue
                                                                      : cron_claim::when_busy::skip;
  if (!e.caught_up) {
    const auto due = latest_due(*e.timing, base(e), at - (options_.shared_store ? young_among_others : young));
    e.caught_up = true;
    if (due) {
      claim.trigger = cron_trigger::missed;
      claim.occurrence = *due;
      claim.what =
          e.task.settings.missed == config::missed_mode::once ? cron_claim::action::run : cron_claim::action::pass_over;
      send_claim(e, claim, now, fx);
      return true;
    }
    if (e.start_once) return false;
  }
  const auto due = latest_due(*e.timing, base(e), at);
  if (!due) return false;
  claim.occurrence = *due;
  send_claim(e, claim, now, fx);
  return true;
}

void cron_core::send_claim(entry& e, cron_claim claim, cron_time now, cron_effects& fx) {
  claim.task = e.task.name;
  claim.node = options_.node;
  claim.request = ++last_request_;
  claim.lease = options_.lease;
  send(e, call::claim, now);
  fx.claims.push_back(claim);
  e.claim = std::move(claim);
}

void cron_core::send(entry& e, call what, cron_time now) {
  e.under_way = what;
  e.asked_at = now;
}

// ---- answers ----

bool cron_core::answered(entry& e, call what, const error* failure, cron_time now) {
  if (e.under_way != what) return false;
  e.under_way = call::none;
  if (!failure) {
    e.failed = 0;
    return true;
  }
  e.retry_at = now + std::min(longest_pause, first_pause * (1 << std::min(e.failed++, 6u)));
  return false;
}

void cron_core::see(entry& e, const cron_view& view, cron_time now) {
  if (view.now) offset_ = *view.now - now;
  if (e.rewound_to && view.state.cursor != e.state.cursor) e.rewound_to.reset();
  e.state = view.state;
  e.seen_at = now;
}

void cron_core::on_opened(const std::string& task, const expected<cron_view>& view, cron_time now, cron_effects& fx) {
  auto* e = find(task);
  if (!e) return;
  if (answered(*e, call::open, view ? nullptr : &view.failure(), now)) {
    e->opened = true;
    see(*e, *view, now);
  }
  advance(*e, now, fx);
  // RUN_AT_START waits for what was missed to be dealt with.
  if (e->under_way == call::none && e->start_once) advance(*e, now, fx);
  check_stopped(now, fx);
}

void cron_core::on_claimed(const std::string& task, const expected<cron_answer>& answer, cron_time now,
                           cron_effects& fx) {
  auto* e = find(task);
  if (!e) return;
  if (answered(*e, call::claim, answer ? nullptr : &answer.failure(), now)) {
    see(*e, answer->view, now);
    const auto claim = *e->claim;
    // A grant that took so long may be over already: asking again with the same number prolongs it, or tells.
    if (answer->verdict == cron_verdict::granted && now - e->asked_at > options_.lease / 3) return advance(*e, now, fx);
    e->claim.reset();
    account(*e, claim, *answer, fx);
    switch (answer->verdict) {
      case cron_verdict::granted: {
        cron_run run = e->state.running && e->state.running->token == answer->token
                           ? run_of(task, *e->state.running)
                           : cron_run{task, answer->token, {}, claim.trigger, claim.who, claim.occurrence};
        if (stop_at_ || e->run) {
          e->end =
              cron_end{task, answer->token, options_.node, cron_outcome::cancelled, {}, true, false, options_.lease};
          reply(*e, error{errc::queue_closed, "task \"" + task + "\": this node is stopping; ask another one"}, fx);
        } else {
          begin(*e, std::move(run), e->asked_at, now, fx);
          reply(*e, {}, fx);
        }
        break;
      }
      case cron_verdict::busy: {
        const auto& by = e->state.running;
        reply(*e,
              error{errc::conflict, "task \"" + task + "\": it runs already" + (by ? " on node " + by->node.name : "") +
                                        "; wait for its end"},
              fx);
        break;
      }
      case cron_verdict::taken:
        if (e->asked && e->asked->what == request::kind::skip) {
          e->requests.push_front(std::move(*e->asked));  // its cursor was old; the answer brought the new one
          e->asked.reset();
        } else {
          reply(*e, error{errc::conflict, "task \"" + task + "\": its run was given up before it began; ask again"},
                fx);
        }
        break;
      case cron_verdict::paused:
        reply(*e, error{errc::conflict, "task \"" + task + "\": it is paused; resume it first"}, fx);
        break;
      default:
        reply(*e, {}, fx);
    }
  }
  advance(*e, now, fx);
  check_stopped(now, fx);
}

void cron_core::on_renewed(const std::string& task, const expected<cron_view>& view, cron_time now, cron_effects& fx) {
  auto* e = find(task);
  if (!e) return;
  const auto asked_at = e->asked_at;
  if (answered(*e, call::renew, view ? nullptr : &view.failure(), now)) {
    see(*e, *view, now);
    if (e->run) {
      if (e->state.running && e->state.running->token == e->run->run.token) {
        e->run->lease_until = asked_at + options_.lease;
        e->run->renew_at = asked_at + options_.lease / 3;
      } else {
        e->run->lost = true;
      }
    }
  }
  advance(*e, now, fx);
  check_stopped(now, fx);
}

void cron_core::on_finished(const std::string& task, const expected<cron_ended>& answer, cron_time now,
                            cron_effects& fx) {
  auto* e = find(task);
  if (!e) return;
  const auto asked_at = e->asked_at;
  if (answered(*e, call::finish, answer ? nullptr : &answer.failure(), now)) {
    see(*e, answer->view, now);
    e->end.reset();
    if (answer->next) {
      if (stop_at_)
        e->end = cron_end{task,  answer->next->token, options_.node, cron_outcome::cancelled, "the node stopped", false,
                          false, options_.lease};
      else
        begin(*e, run_of(task, *answer->next), asked_at, now, fx);
    }
  }
  advance(*e, now, fx);
  check_stopped(now, fx);
}

void cron_core::on_paused(const std::string& task, const expected<cron_view>& view, cron_time now, cron_effects& fx) {
  auto* e = find(task);
  if (!e) return;
  if (answered(*e, call::pause, view ? nullptr : &view.failure(), now)) {
    see(*e, *view, now);
    reply(*e, {}, fx);
  } else if (e->asked) {
    e->requests.push_front(std::move(*e->asked));
    e->asked.reset();
  }
  advance(*e, now, fx);
  check_stopped(now, fx);
}

// ---- runs ----

void cron_core::begin(entry& e, cron_run run, cron_time asked_at, cron_time now, cron_effects& fx) {
  e.run = local_run{std::move(run), now, asked_at + options_.lease / 3, asked_at + options_.lease, false, false};
  fx.start.push_back(e.run->run);
}

void cron_core::on_run_ended(const std::string& task, std::uint64_t token, cron_outcome outcome, std::string message,
                             cron_time now, cron_effects& fx) {
  auto* e = find(task);
  if (!e || stopped_ || !e->run || e->run->run.token != token) return;
  const auto& r = *e->run;
  record(*e,
         {.task = task,
          .occurrence = r.run.occurrence,
          .until = r.run.occurrence,
          .token = token,
          .trigger = r.run.trigger,
          .node = options_.node.name,
          .who = r.run.who,
          .started = common(r.started),
          .ended = common(now),
          .outcome = outcome,
          .message = message},
         fx);
  if (outcome == cron_outcome::error)
    fx.notices.push_back(
        {task, true, "task \"" + task + "\" failed: " + (message.empty() ? "it gave no reason" : message)});
  else if (outcome == cron_outcome::finished && e->task.settings.notice_on_success)
    fx.notices.push_back({task, false, "task \"" + task + "\" finished" + (message.empty() ? "" : ": " + message)});
  e->end = cron_end{task, token, options_.node, outcome, std::move(message), false, !stop_at_, options_.lease};
  e->run.reset();
  advance(*e, now, fx);
  check_stopped(now, fx);
}

// ---- what did not run ----

void cron_core::account(entry& e, const cron_claim& claim, const cron_answer& answer, cron_effects& fx) {
  if (answer.lost) {
    const auto& r = *answer.lost;
    // What it passed over it may not have told anybody. Told twice is better than not at all.
    if (e.timing && r.from < r.occurrence)
      if (const auto before = between(*e.timing, r.from, r.occurrence); before.count > 0)
        miss(e, cron_miss::no_node, before, r.node.name, fx);
    miss(e, cron_miss::lost, {1, r.occurrence, r.occurrence}, r.node.name, fx);
    fx.notices.push_back({e.task.name, true,
                          "task \"" + e.task.name + "\": node " + r.node.name +
                              " was gone before it said how the run of " + utc(r.occurrence) + " ended"});
  }
  if (answer.dropped) miss(e, cron_miss::lost, {1, *answer.dropped, *answer.dropped}, {}, fx);
  const auto v = answer.verdict;
  if (v == cron_verdict::taken || v == cron_verdict::paused || v == cron_verdict::early) return;
  if (claim.trigger == cron_trigger::start) {
    if (v == cron_verdict::busy) miss(e, cron_miss::overlap, {1, claim.occurrence, claim.occurrence}, {}, fx);
    return;
  }
  if (claim.trigger == cron_trigger::manual || !e.timing) return;
  const auto reached = answer.to;  // of a repeated claim not what it last aimed at, but what the first one got
  if (const auto between_both = between(*e.timing, answer.from, reached); between_both.count > 0)
    miss(e, cron_miss::no_node, between_both, {}, fx);
  if (v == cron_verdict::busy) miss(e, cron_miss::overlap, {1, reached, reached}, {}, fx);
  if (v == cron_verdict::passed_over)
    miss(e, e.asked ? cron_miss::skipped : cron_miss::no_node, {1, reached, reached}, claim.who, fx);
}

void cron_core::miss(entry& e, cron_miss why, passed which, const std::string& who, cron_effects& fx) {
  e.missed[std::string(to_string(why))] += which.count;
  record(e,
         {.task = e.task.name,
          .miss = why,
          .occurrence = which.first,
          .until = which.last,
          .count = which.count,
          .node = options_.node.name,
          .who = who},
         fx);
}

void cron_core::record(entry& e, cron_record what, cron_effects& fx) {
  e.history.push_front(what);
  if (e.history.size() > options_.history) e.history.pop_back();
  fx.records.push_back(std::move(what));
}

void cron_core::reply(entry& e, expected<void> result, cron_effects& fx) {
  if (!e.asked) return;
  fx.replies.push_back({e.asked->ticket, std::move(result)});
  e.asked.reset();
}

}  // namespace caravan
