#include "actors/move/queue_front.hpp"

#include "messages/caf_error.hpp"

#include <caf/all.hpp>

#include <algorithm>

namespace caravan {

using namespace std::chrono_literals;

namespace {

using pointer = queue_front_actor::stateful_pointer<queue_front_state>;
using steady = std::chrono::steady_clock::time_point;

constexpr std::size_t waiting_most = 10'000;
constexpr auto tick = 100ms;
constexpr auto patience = 5s;        // of requests other than pushes
constexpr auto here_timeout = 5s;    // beyond its time to wait for room: the storage's
constexpr auto answer_timeout = 2s;  // of one try of a push to another node

error elsewhere(pointer self) {
  const auto& s = self->state;
  if (s.held)
    return {errc::timed_out,
            "queue \"" + s.parts.queue + "\": moves to another node, and did not arrive in time; try again"};
  return {errc::fenced, "queue \"" + s.parts.queue + "\": " +
                            (s.to.node.empty() ? "no node is its home at this moment; try again"
                                               : "its home is node \"" + s.to.node + "\", which cannot be reached")};
}

bool must_wait(pointer self) { return self->state.held || !self->state.to.handle; }

void park(pointer self, queue_front_state::parked p) {
  auto& s = self->state;
  if (s.waiting.size() >= waiting_most) {
    if (p.fail)
      p.fail(
          {errc::queue_full, "queue \"" + s.parts.queue + "\": " + std::to_string(waiting_most) +
                                 " messages wait for it already while it moves or its home is looked for; try again"});
    return;
  }
  s.waiting.push_back(std::move(p));
  s.most_waited = std::max<std::uint64_t>(s.most_waited, s.waiting.size());
  if (!std::exchange(s.ticking, true)) self->delayed_send(self, tick, front_tick{});
}

void unpark(pointer self) {
  auto& s = self->state;
  while (!s.waiting.empty() && !must_wait(self)) {
    auto p = std::move(s.waiting.front());
    s.waiting.pop_front();
    p.go();
  }
}

void lose(pointer self) {
  auto& s = self->state;
  if (!s.to.handle || s.to.here) return;
  s.to.handle = nullptr;
  if (s.parts.on_lost) s.parts.on_lost(s.to.serial);
}

// Nobody waits for an answer: in order with everything else.
template <class Message>
void pass(pointer self, Message& m) {
  if (!must_wait(self)) {
    self->send(self->state.to.handle, std::move(m));
    return;
  }
  // While it moves nothing may be lost; while the home is looked for it may have been a short break.
  const auto until = self->state.held ? steady::max() : self->clock().now() + patience;
  park(self, {until, [self, m = std::move(m)] { self->send(self->state.to.handle, m); }, {}});
}

template <class Reply, class Message>
caf::result<Reply> forward(pointer self, Message& m) {
  if (!must_wait(self)) return self->delegate(self->state.to.handle, std::move(m));
  auto promise = self->template make_response_promise<Reply>();
  park(self, {self->clock().now() + patience,
              [self, promise, m = std::move(m)]() mutable { promise.delegate(self->state.to.handle, std::move(m)); },
              [promise](error why) mutable { promise.deliver(to_caf(why)); }});
  return promise;
}

void push(pointer self, push_items items, caf::typed_response_promise<push_results> promise, steady deadline);

void push_later(pointer self, push_items items, caf::typed_response_promise<push_results> promise, steady deadline) {
  park(self, {deadline,
              [self, promise, deadline, items = std::move(items)]() mutable {
                push(self, std::move(items), promise, deadline);
              },
              [promise](error why) mutable { promise.deliver(to_caf(why)); }});
}

void push(pointer self, push_items items, caf::typed_response_promise<push_results> promise, steady deadline) {
  auto& s = self->state;
  if (must_wait(self)) return push_later(self, std::move(items), std::move(promise), deadline);
  if (s.to.here) {
    // It waits for room there. It may have moved when it is its turn: then nothing was stored.
    self->request(s.to.handle,
                  std::max<std::chrono::steady_clock::duration>(deadline - self->clock().now(), tick) + here_timeout,
                  items)
        .then([promise](push_results& r) mutable { promise.deliver(std::move(r)); },
              [self, promise, deadline, items](caf::error& e) mutable {
                if (e == to_caf({errc::fenced, {}}) && self->clock().now() < deadline)
                  push_later(self, std::move(items), std::move(promise), deadline);
                else
                  promise.deliver(std::move(e));
              });
    return;
  }
  const auto own_key = "~" + s.parts.incarnation + ".";
  for (auto& r : items.items)
    if (r.idempotency_key.empty()) r.idempotency_key = own_key + std::to_string(s.next_key++);
  const auto wait =
      std::min<std::chrono::steady_clock::duration>(deadline - self->clock().now() + 50ms, answer_timeout);
  self->request(s.to.handle, wait, items)
      .then(
          [promise, own_key, items](push_results& r) mutable {
            // A repeat of what this node repeated is what the caller pushed once.
            for (std::size_t i = 0; i < r.items.size() && i < items.items.size(); ++i)
              if (r.items[i].repeated && items.items[i].idempotency_key.starts_with(own_key))
                r.items[i] = {r.items[i].id, true, false};
            promise.deliver(std::move(r));
          },
          [self, promise, deadline, serial = s.to.serial, items](caf::error& e) mutable {
            const auto why = from_caf(e);
            // Of our own codes only these two mean that another node may be the right one.
            const bool ours = e.category() == error_category();
            const bool retry = !ours || why.code == errc::fenced || why.code == errc::queue_closed;
            if (!retry || self->clock().now() + tick > deadline) {
              promise.deliver(std::move(e));
              return;
            }
            if (!ours && self->state.to.serial == serial) lose(self);
            push_later(self, std::move(items), std::move(promise), deadline);
          });
}

}  // namespace

queue_front_actor::behavior_type queue_front_behavior(pointer self, front_parts parts) {
  self->state.parts = std::move(parts);
  self->set_down_handler([self](const caf::down_msg& d) {
    const auto& s = self->state;
    if (s.to.handle && s.to.handle.address() == d.source) lose(self);
  });
  return {
      [](items_stored) {},
      [](queue_tick) {},
      [self](attach_pool& a) -> caf::result<ack> { return forward<ack>(self, a); },
      [self](demand& d) { pass(self, d); },
      [self](batch_done& d) { pass(self, d); },
      [self](renew_leases& r) { pass(self, r); },
      [self](push_items& p) -> caf::result<push_results> {
        auto promise = self->make_response_promise<push_results>();
        push(self, std::move(p), promise, self->clock().now() + self->state.parts.push_timeout);
        return promise;
      },
      [self](pause_queue& p) -> caf::result<ack> { return forward<ack>(self, p); },
      [self](resume_queue& r) -> caf::result<ack> { return forward<ack>(self, r); },
      [self](drain_queue& d) -> caf::result<ack> { return forward<ack>(self, d); },
      [self](flush_queue& f) -> caf::result<ack> { return forward<ack>(self, f); },
      [self](purge_queue& p) -> caf::result<purged_count> { return forward<purged_count>(self, p); },
      [self](const stop_queue&) -> caf::result<queue_status> { return to_caf(elsewhere(self)); },
      [self](get_queue_status& g) -> caf::result<queue_status> {
        auto& s = self->state;
        if (s.held || s.to.handle) return forward<queue_status>(self, g);
        queue_status st;
        st.name = s.parts.queue;
        st.phase = queue_phase::standby;
        st.owner = s.to.node;
        return st;
      },
      [self](find_job& f) -> caf::result<job_status> { return forward<job_status>(self, f); },
      [self](list_jobs& l) -> caf::result<job_list> { return forward<job_list>(self, l); },
      [self](change_job& c) -> caf::result<ack> { return forward<ack>(self, c); },
      [self](move_queue& m) -> caf::result<ack> { return forward<ack>(self, m); },
      [self](report_batches& r) -> caf::result<batches_reported> { return forward<batches_reported>(self, r); },
      [self](change_jobs& c) -> caf::result<jobs_changed> { return forward<jobs_changed>(self, c); },
      [self](find_key& k) -> caf::result<found_key> { return forward<found_key>(self, k); },
      [self](set_target& t) {
        auto& s = self->state;
        if (s.to.handle) self->demonitor(s.to.handle.address());
        s.to = std::move(t);
        if (s.to.handle) self->monitor(s.to.handle);
        unpark(self);
      },
      [self](hold_messages) -> caf::result<ack> {
        self->state.held = true;
        self->state.most_waited = self->state.waiting.size();
        return ack{};
      },
      [self](release_messages) -> caf::result<ack> {
        self->state.held = false;
        unpark(self);
        return ack{};
      },
      [self](front_tick) {
        auto& s = self->state;
        unpark(self);  // what was refused by a home that it had just left
        const auto now = self->clock().now();
        for (auto it = s.waiting.begin(); it != s.waiting.end();) {
          if (now < it->deadline) {
            ++it;
            continue;
          }
          if (it->fail) it->fail(elsewhere(self));
          it = s.waiting.erase(it);
        }
        s.ticking = !s.waiting.empty();
        if (s.ticking) self->delayed_send(self, tick, front_tick{});
      },
  };
}

}  // namespace caravan
