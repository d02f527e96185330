#include "actors/claim/claim_shell.hpp"

#include "messages/caf_error.hpp"

#include <caf/all.hpp>

#include <algorithm>

namespace caravan {

using namespace std::chrono_literals;

namespace {

using pointer = claim_pool_actor::stateful_pointer<claim_shell_state>;

constexpr auto queue_patience = 5s;

claim_core::instant now_of(pointer self) { return {self->clock().now(), self->state.parts.clock->wall()}; }

template <class Promises, class Answer>
void deliver(Promises& waiting, std::uint64_t request, expected<Answer>& answer) {
  auto node = waiting.extract(request);
  if (node.empty()) return;
  if (answer)
    node.mapped().deliver(std::move(*answer));
  else
    node.mapped().deliver(to_caf(answer.failure()));
}

void perform(pointer self);

void leave_queue(pointer self) {
  auto& s = self->state;
  if (s.queue) self->demonitor(s.queue.address());
  s.queue = nullptr;
}

void attach(pointer self) {
  auto& s = self->state;
  leave_queue(self);
  const auto [queue, kind] = s.parts.find_queue();
  if (!queue) {
    s.core->on_attach_failed({errc::queue_closed, "queue \"" + s.parts.limits.queue + "\": is stopped on this node"},
                             now_of(self), s.fx);
    return;
  }
  s.queue = queue;
  self->monitor(queue);
  self->request(queue, queue_patience, attach_pool{s.parts.id, kind, caf::actor_cast<caf::strong_actor_ptr>(self)})
      .then(
          [self, queue, kind](ack) {
            auto& st = self->state;
            if (st.queue != queue) return;
            st.core->on_attached(kind, now_of(self), st.fx);
            perform(self);
          },
          [self, queue](caf::error& e) {
            auto& st = self->state;
            if (st.queue != queue) return;
            leave_queue(self);
            st.core->on_attach_failed(from_caf(e), now_of(self), st.fx);
            perform(self);
          });
}

void report(pointer self, claim_effects::report&& r) {
  auto& s = self->state;
  if (!s.queue) {
    s.core->on_reported(r.number, error{errc::queue_closed, "the queue cannot be reached"}, now_of(self), s.fx);
    return;
  }
  self->request(s.queue, queue_patience, std::move(r.what))
      .then(
          [self, number = r.number](const batches_reported& said) {
            self->state.core->on_reported(number, said, now_of(self), self->state.fx);
            perform(self);
          },
          [self, number = r.number](caf::error& e) {
            self->state.core->on_reported(number, from_caf(e), now_of(self), self->state.fx);
            perform(self);
          });
}

void schedule_tick(pointer self) {
  auto& s = self->state;
  const auto wake = s.core->next_wake();
  if (!wake || !s.ticks.want(*wake)) return;
  self->delayed_send(self, std::max(*wake - self->clock().now(), std::chrono::steady_clock::duration{0}), claim_tick{});
}

void perform(pointer self) {
  auto& s = self->state;
  auto& fx = s.fx;
  // Without a queue a report fails at once, which may lead to more.
  while (fx.more || fx.attach || !fx.reports.empty()) {
    if (std::exchange(fx.attach, false)) attach(self);
    if (const auto more = std::exchange(fx.more, {}); more && s.queue) self->send(s.queue, *more);
    for (auto& r : std::exchange(fx.reports, {})) report(self, std::move(r));
  }
  for (auto& g : std::exchange(fx.grants, {})) deliver(s.grants, g.request, g.answer);
  for (auto& a : std::exchange(fx.acks, {})) deliver(s.acks, a.request, a.answer);
  for (auto& e : std::exchange(fx.extensions, {})) deliver(s.extensions, e.request, e.answer);
  if (const auto closed = std::exchange(fx.closed, {}))
    for (auto& p : std::exchange(s.closings, {})) p.deliver(*closed);
  schedule_tick(self);
}

}  // namespace

claim_pool_actor::behavior_type claim_pool_behavior(pointer self, claim_parts parts) {
  auto& s = self->state;
  s.parts = std::move(parts);
  s.core = std::make_unique<claim_core>(s.parts.id, s.parts.limits, s.parts.random);
  self->set_down_handler([self](const caf::down_msg& d) {
    auto& st = self->state;
    if (!st.queue || st.queue.address() != d.source) return;
    st.queue = nullptr;
    st.core->on_detached(now_of(self), st.fx);
    perform(self);
  });
  return {
      [self](batch& work) {
        self->state.core->on_batch(std::move(work), now_of(self), self->state.fx);
        perform(self);
      },
      [self](claim_tick) {
        if (!self->state.ticks.came(self->clock().now())) return;
        self->state.core->on_tick(now_of(self), self->state.fx);
        perform(self);
      },
      [self](const stop_calls& s) {
        for (const auto token : s.tokens) self->state.core->on_stop(token, now_of(self), self->state.fx);
        perform(self);
      },
      [self](open_claim& c) -> caf::result<claim_granted> {
        auto promise = self->make_response_promise<claim_granted>();
        self->state.grants.emplace(c.request, promise);
        self->state.core->on_claim(std::move(c), now_of(self), self->state.fx);
        perform(self);
        return promise;
      },
      [self](const cancel_claim& c) {
        self->state.core->on_cancel(c.request, now_of(self), self->state.fx);
        perform(self);
      },
      [self](const wake_worker& w) {
        self->state.core->on_wake(w.worker, now_of(self), self->state.fx);
        perform(self);
      },
      [self](const extend_claim& e) -> caf::result<claim_extended> {
        auto& st = self->state;
        auto promise = self->make_response_promise<claim_extended>();
        const auto request = st.next_request++;
        st.extensions.emplace(request, promise);
        st.core->on_extend(request, e, now_of(self), st.fx);
        perform(self);
        return promise;
      },
      [self](const ack_claim& a) -> caf::result<claim_acked> {
        auto& st = self->state;
        auto promise = self->make_response_promise<claim_acked>();
        const auto request = st.next_request++;
        st.acks.emplace(request, promise);
        st.core->on_ack(request, a, now_of(self), st.fx);
        perform(self);
        return promise;
      },
      [self](const release_claim& r) -> caf::result<claim_acked> {
        auto& st = self->state;
        auto promise = self->make_response_promise<claim_acked>();
        const auto request = st.next_request++;
        st.acks.emplace(request, promise);
        st.core->on_release(request, r, now_of(self), st.fx);
        perform(self);
        return promise;
      },
      [self](get_claimers) -> caf::result<claimer_list> { return claimer_list{self->state.core->claimers()}; },
      [self](const close_claims& c) -> caf::result<claims_closed> {
        auto& st = self->state;
        auto promise = self->make_response_promise<claims_closed>();
        st.closings.push_back(promise);
        const auto now = now_of(self);
        st.core->on_close(now.steady + std::min(c.timeout, longest_wait), now, st.fx);
        perform(self);
        return promise;
      },
  };
}

}  // namespace caravan
