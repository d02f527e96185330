#include "actors/cron/cron_shell.hpp"

#include "messages/caf_error.hpp"

#include <caf/all.hpp>

#include <algorithm>

namespace caravan {

using namespace std::chrono_literals;

namespace {

using pointer = local_cron_actor::stateful_pointer<cron_shell_state>;

/// A call that hangs longer than any store should is taken for failed; the core repeats it.
constexpr caf::timespan store_patience = 30s;

cron_time now_of(pointer self) { return self->state.parts.clock->wall(); }

void perform(pointer self, cron_effects fx);

template <class Answer, class Message, class Event>
void ask_store(pointer self, const Message& message, Event event) {
  self->request(self->state.parts.store, store_patience, message)
      .then(
          [self, event](Answer& answer) {
            cron_effects fx;
            event(*self->state.core, expected<Answer>(std::move(answer)), now_of(self), fx);
            perform(self, std::move(fx));
          },
          [self, event](caf::error& e) {
            cron_effects fx;
            event(*self->state.core, expected<Answer>(from_caf(e)), now_of(self), fx);
            perform(self, std::move(fx));
          });
}

void call_store(pointer self, const cron_effects& fx) {
  for (const auto& x : fx.open)
    ask_store<cron_view>(self, x, [task = x.task](auto& core, const auto& answer, auto now, auto& out) {
      core.on_opened(task, answer, now, out);
    });
  for (const auto& x : fx.claims)
    ask_store<cron_answer>(self, x, [task = x.task](auto& core, const auto& answer, auto now, auto& out) {
      core.on_claimed(task, answer, now, out);
    });
  for (const auto& x : fx.renew)
    ask_store<cron_view>(self, x, [task = x.task](auto& core, const auto& answer, auto now, auto& out) {
      core.on_renewed(task, answer, now, out);
    });
  for (const auto& x : fx.finish)
    ask_store<cron_ended>(self, x, [task = x.task](auto& core, const auto& answer, auto now, auto& out) {
      core.on_finished(task, answer, now, out);
    });
  for (const auto& x : fx.pause)
    ask_store<cron_view>(self, x, [task = x.task](auto& core, const auto& answer, auto now, auto& out) {
      core.on_paused(task, answer, now, out);
    });
}

void start_run(pointer self, const cron_run& run) {
  auto& s = self->state;
  // A strong handle would keep the actor alive for as long as a function runs.
  const auto me = caf::actor_cast<caf::actor_addr>(self);
  const auto over = [me](const std::string& task, std::uint64_t token, cron_result&& result) {
    if (const auto cron = caf::actor_cast<local_cron_actor>(me))
      caf::anon_send(cron, cron_run_over{task, token, std::move(result)});
    // CAF leaves a reference to the system in every thread that sends, and waits for it at its end.
    caf::logger::set_current_actor_system(nullptr);
  };
  const auto work = s.works.find(run.task);
  if (work == s.works.end() || !s.parts.runs->start(run, work->second.work, over))
    self->send(self,
               cron_run_over{
                   run.task, run.token, {cron_outcome::error, "the machine gives no thread for it; raise its limits"}});
}

void schedule_tick(pointer self) {
  auto& s = self->state;
  if (s.stopped) return;
  const auto now = now_of(self);
  // Below the clock's step a timer would come too early, again and again.
  const auto wait = std::max<std::chrono::milliseconds>(s.core->next_wake(now) - now, 1ms);
  if (s.ticks.want(self->clock().now() + wait)) self->delayed_send(self, wait, cron_tick{});
}

void perform(pointer self, cron_effects fx) {
  auto& s = self->state;
  call_store(self, fx);
  for (const auto& run : fx.start) {
    if (s.parts.started) s.parts.started(run);
    start_run(self, run);
  }
  for (const auto& run : fx.cancel) s.parts.runs->ask_stop(run.task, run.token);
  if (s.parts.record)
    for (const auto& r : fx.records) s.parts.record(r);
  if (s.parts.notice)
    for (const auto& n : fx.notices) s.parts.notice(n);
  for (auto& r : fx.replies) {
    const auto at = s.requests.find(r.ticket);
    if (at == s.requests.end()) continue;
    if (r.result)
      at->second.deliver(ack{});
    else
      at->second.deliver(to_caf(r.result.failure()));
    s.requests.erase(at);
  }
  if (fx.stopped) {
    s.stopped = true;
    for (auto& [ticket, promise] : std::exchange(s.requests, {}))
      promise.deliver(to_caf({errc::queue_closed, "this node is stopping; ask another one"}));
    for (auto& promise : std::exchange(s.stops, {})) promise.deliver(ack{});
  }
  schedule_tick(self);
}

expected<void> add(pointer self, add_cron_task& a, cron_effects& fx) {
  auto& s = self->state;
  const auto name = a.task.name;
  if (auto ok = s.core->add(std::move(a.task), now_of(self), fx); !ok) return ok;
  s.works[name] = {std::move(a.work), std::move(a.action)};
  return {};
}

expected<std::uint64_t> change(pointer self, const change_cron& c, cron_effects& fx) {
  auto& core = *self->state.core;
  const auto now = now_of(self);
  switch (c.what) {
    case cron_change::run:
      return core.run_now(c.task, c.who, now, fx);
    case cron_change::skip_next:
      return core.skip_next(c.task, c.who, now, fx);
    case cron_change::pause:
    case cron_change::resume:
      return core.set_paused(c.task, c.what == cron_change::pause, c.who, now, fx);
  }
  return error{errc::not_supported, "a later version asked for what this node does not know"};
}

task_run_info to_run_info(const cron_running& r) {
  task_run_info out;
  out.token = r.token;
  out.node = r.node.name;
  out.who = r.who;
  out.trigger = std::string(to_string(r.trigger));
  out.occurrence = r.occurrence;
  out.started = r.since;
  return out;
}

task_run_info to_run_info(const cron_last_run& r) {
  task_run_info out;
  out.token = r.token;
  out.node = r.node;
  out.who = r.who;
  out.trigger = std::string(to_string(r.trigger));
  out.occurrence = r.occurrence;
  out.started = r.started;
  out.ended = r.ended;
  out.outcome = std::string(to_string(r.outcome));
  out.message = r.message;
  return out;
}

}  // namespace

task_info to_task_info(const cron_status& s, const std::string& action) {
  task_info out;
  out.name = s.name;
  out.description = s.description;
  out.schedule = s.schedule_text;
  out.zone = s.zone;
  out.action = action;
  out.enabled = s.enabled;
  out.paused = s.paused;
  out.paused_by = s.paused_by;
  if (s.next) out.next = *s.next;
  if (s.running) out.running = to_run_info(*s.running);
  if (s.previous) out.last = to_run_info(*s.previous);
  out.status = s.status;
  out.runs = s.runs;
  out.failures = s.failures;
  out.missed.assign(s.missed.begin(), s.missed.end());
  return out;
}

task_event to_task_event(const cron_record& r) {
  task_event out;
  out.task = r.task;
  out.what = std::string(r.miss == cron_miss::none ? to_string(r.outcome) : to_string(r.miss));
  out.occurrence = r.occurrence;
  out.until = r.until;
  out.count = r.count;
  out.token = r.token;
  if (r.miss == cron_miss::none) out.trigger = std::string(to_string(r.trigger));
  out.node = r.node;
  out.who = r.who;
  out.started = r.started;
  out.ended = r.ended;
  out.message = r.message;
  return out;
}

local_cron_actor::behavior_type cron_behavior(pointer self, cron_parts parts) {
  auto& s = self->state;
  s.parts = std::move(parts);
  s.core = std::make_unique<cron_core>(s.parts.options);
  cron_effects fx;
  for (auto& task : std::exchange(s.parts.tasks, {}))
    if (const auto ok = add(self, task, fx); !ok) fx.notices.push_back({task.task.name, true, ok.failure().text});
  s.core->start(now_of(self), fx);
  perform(self, std::move(fx));
  return {
      [self](get_cron_list) -> caf::result<cron_list> {
        cron_list out;
        for (const auto& x : self->state.core->list(now_of(self)))
          out.tasks.push_back(to_task_info(x, self->state.works[x.name].action));
        return out;
      },
      [self](const get_cron_history& g) -> caf::result<cron_history> {
        if (!self->state.works.contains(g.task))
          return to_caf({errc::not_found, "task \"" + g.task.substr(0, 80) + "\": there is none of this name"});
        cron_history out;
        for (const auto& r : self->state.core->history(g.task)) out.events.push_back(to_task_event(r));
        return out;
      },
      [self](const change_cron& c) -> caf::result<ack> {
        cron_effects out;
        const auto ticket = change(self, c, out);
        if (!ticket) return to_caf(ticket.failure());
        auto promise = self->make_response_promise<ack>();
        self->state.requests.emplace(*ticket, promise);
        perform(self, std::move(out));
        return promise;
      },
      [self](const stop_cron& stop) -> caf::result<ack> {
        auto& st = self->state;
        if (st.stopped) return ack{};
        auto promise = self->make_response_promise<ack>();
        st.stops.push_back(promise);
        cron_effects out;
        const auto now = now_of(self);
        st.core->stop(now + std::min(stop.patience, longest_wait), now, out);
        perform(self, std::move(out));
        return promise;
      },
      [self](add_cron_task& a) -> caf::result<ack> {
        cron_effects out;
        const auto ok = add(self, a, out);
        perform(self, std::move(out));
        if (!ok) return to_caf(ok.failure());
        return ack{};
      },
      [self](cron_tick) {
        auto& st = self->state;
        if (!st.ticks.came(self->clock().now()) || st.stopped) return;
        cron_effects out;
        st.core->on_tick(now_of(self), out);
        perform(self, std::move(out));
      },
      [self](cron_run_over& over) {
        cron_effects out;
        self->state.core->on_run_ended(over.task, over.token, over.result.outcome, std::move(over.result.message),
                                       now_of(self), out);
        perform(self, std::move(out));
      },
  };
}

}  // namespace caravan
