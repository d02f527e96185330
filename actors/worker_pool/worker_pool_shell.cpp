#include "actors/worker_pool/worker_pool_shell.hpp"

#include "messages/caf_error.hpp"

#include <caf/all.hpp>

#include <algorithm>

namespace caravan {

using namespace std::chrono_literals;

namespace {

using pointer = worker_pool_actor::stateful_pointer<pool_shell_state>;

constexpr auto attach_timeout = 5s;
constexpr auto thread_retry = 1s;

void log(pointer self, std::string_view what, const std::string& text) {
  if (self->state.parts.log) self->state.parts.log(what, text);
}

pool_status status_of(pointer self) {
  const auto& s = self->state;
  const auto most = s.core->max_workers();
  return {s.parts.id, s.parts.node, s.parts.handler->describe(), static_cast<std::uint32_t>(s.core->workers()),
          static_cast<std::uint32_t>(s.core->active()), static_cast<std::uint32_t>(s.core->abandoned()),
          most ? static_cast<std::int32_t>(*most) : 0, s.parts.handler->restraint()};
}

void schedule_tick(pointer self) {
  auto& s = self->state;
  auto wake = s.core->next_wake(s.threads->running(), self->clock().now());
  if (s.threads_missing > 0) {
    const auto again = self->clock().now() + thread_retry;
    if (!wake || again < *wake) wake = again;
  }
  if (s.core->active() == 0) s.renew_at.reset();
  if (s.renew_at && (!wake || *s.renew_at < *wake)) wake = s.renew_at;
  if (!wake || !s.ticks.want(*wake)) return;
  const auto wait = std::max(*wake - self->clock().now(), std::chrono::steady_clock::duration{0});
  self->delayed_send(self, wait, pool_tick{});
}

// A queue on another node gives its batches to others when it hears nothing for the time of a lease.
void renew_if_due(pointer self) {
  auto& s = self->state;
  if (!s.renew_at || self->clock().now() < *s.renew_at) return;
  s.renew_at = self->clock().now() + s.renew_every;
  self->send(s.parts.queue, renew_leases{s.parts.id, s.core->in_hand()});
}

// `n` more, and those that could not be started before.
void start_threads(pointer self, std::size_t n) {
  auto& s = self->state;
  n += std::exchange(s.threads_missing, 0);
  for (; n > 0; --n) {
    if (s.threads->start(1)) continue;
    s.threads_missing = n;
    log(self, "pool", "queue's worker pool " + s.parts.handler->describe() +
                        ": the machine gives no more threads; lower MAX_WORKERS or raise the limit of processes");
    return;
  }
}

void perform(pointer self) {
  auto& s = self->state;
  auto& fx = s.fx;
  if (fx.start > 0) start_threads(self, std::exchange(fx.start, 0));
  for (auto& work : std::exchange(fx.run, {})) s.threads->run(std::move(work));
  if (fx.retire > 0) s.threads->retire(std::exchange(fx.retire, 0));
  for (const auto token : std::exchange(fx.ask, {})) s.threads->ask_stop(token);
  for (const auto token : std::exchange(fx.abandon, {})) {
    s.threads->abandon(token);
    log(self, "pool", "a handler (" + s.parts.handler->describe() +
                        ") ran past its TIMEOUT and does not stop when asked; its thread is lost until it returns");
  }
  for (auto& done : std::exchange(fx.done, {})) self->send(s.parts.queue, std::move(done));
  if (const auto more = std::exchange(fx.more, {}); more.idle > 0 || more.prefetch > 0) self->send(s.parts.queue, more);
  if (std::exchange(fx.stopped, false))
    for (auto& p : std::exchange(s.stops, {})) p.deliver(status_of(self));
  schedule_tick(self);
}

void attach(pointer self) {
  auto& s = self->state;
  self->request(s.parts.queue, attach_timeout, attach_pool{s.parts.id, s.parts.kind, caf::actor_cast<caf::strong_actor_ptr>(self)})
    .then(
      [self](ack) {
        self->state.core->on_attached(self->clock().now(), self->state.fx);
        perform(self);
      },
      [self](caf::error& e) {
        log(self, "pool", "a worker pool could not attach to its queue: " + from_caf(e).text);
        if (e == caf::sec::request_timeout) attach(self);
      });
}

}  // namespace

worker_pool_actor::behavior_type worker_pool_behavior(pointer self, pool_parts parts) {
  auto& s = self->state;
  s.parts = std::move(parts);
  s.core = std::make_unique<worker_pool_core>(s.parts.id, s.parts.limits);
  // The threads call through a weak handle: a strong one would keep the actor alive for ever.
  const auto me = caf::actor_cast<caf::actor_addr>(self);
  s.threads = std::make_unique<worker_threads>(
    s.parts.handler, s.parts.limits.timeout, s.parts.node, [me](worker_threads::ended_call&& ended) {
      if (const auto pool = caf::actor_cast<worker_pool_actor>(me))
        caf::anon_send(pool, call_ended{ended.token, std::move(ended.rest), ended.took});
    });
  attach(self);

  return {
    [self](batch& work) {
      auto& st = self->state;
      if (st.parts.kind == pool_kind::remote && work.lease > 0ms) {
        st.renew_every = std::max<std::chrono::milliseconds>(work.lease / 3, 10ms);
        const auto at = self->clock().now() + st.renew_every;
        if (!st.renew_at || at < *st.renew_at) st.renew_at = at;
      }
      self->state.core->on_batch(std::move(work), self->clock().now(), self->state.fx);
      perform(self);
    },
    [self](call_ended& c) {
      self->state.core->on_call_ended(c.token, std::move(c.rest), c.took, self->clock().now(), self->state.fx);
      perform(self);
    },
    [self](pool_tick) {
      auto& st = self->state;
      if (!st.ticks.came(self->clock().now())) return;
      if (st.threads_missing > 0) start_threads(self, 0);
      renew_if_due(self);
      st.core->on_tick(st.threads->running(), self->clock().now(), st.fx);
      perform(self);
    },
    [self](attach_again) {
      self->state.core->on_detached();
      attach(self);
    },
    [self](const set_max_workers& m) -> caf::result<ack> {
      std::optional<unsigned> most;
      if (m.most > 0) most = static_cast<unsigned>(m.most);
      self->state.core->set_max_workers(most, self->clock().now(), self->state.fx);
      perform(self);
      return ack{};
    },
    [self](const stop_calls& stop) {
      for (const auto token : stop.tokens) self->state.threads->ask_stop(token);
    },
    [self](get_pool_status) -> caf::result<pool_status> { return status_of(self); },
    [self](const stop_pool& stop) -> caf::result<pool_status> {
      auto& st = self->state;
      auto promise = self->make_response_promise<pool_status>();
      st.stops.push_back(promise);
      const auto now = self->clock().now();
      for (auto& work : st.threads->take_unstarted())
        st.core->hand_back_unstarted(work, st.fx);
      st.core->stop(st.threads->running(), now + std::min(stop.timeout, longest_wait), now, st.fx);
      perform(self);
      return promise;
    },
  };
}

}  // namespace caravan
