#include "actors/queue/queue_link.hpp"

#include "messages/caf_error.hpp"
#include "messages/job_phases.hpp"

#include <caf/all.hpp>

#include <algorithm>

namespace caravan {

using namespace std::chrono_literals;

namespace {

using pointer = queue_link_actor::stateful_pointer<queue_link_state>;

constexpr auto first_pause = 20ms;
constexpr auto longest_pause = 250ms;

error elsewhere(pointer self) {
  const auto& s = self->state;
  return {errc::fenced, "queue \"" + s.parts.queue + "\": " +
                            (s.owner.empty() ? "no node owns it at this moment; try again"
                                             : "node \"" + s.owner + "\" owns it; ask there")};
}

template <class Reply, class Message>
caf::result<Reply> forward(pointer self, const Message& what) {
  auto& s = self->state;
  if (!s.handle) return to_caf(elsewhere(self));
  return self->delegate(s.handle, what);
}

// There is nobody here to tell when there is room, so it is tried again.
void push_or_wait(pointer self, push_items items, caf::typed_response_promise<push_results> promise,
                  std::chrono::steady_clock::time_point deadline, std::chrono::milliseconds pause) {
  self->request(self->state.parts.storekeeper, caf::infinite, items)
      .then([promise](push_results& r) mutable { promise.deliver(std::move(r)); },
            [self, promise, deadline, pause, items = std::move(items)](caf::error& e) mutable {
              const bool full = e == to_caf({errc::queue_full, {}}) && items.items.size() <= self->state.parts.length;
              if (!full || self->clock().now() + pause > deadline) {
                promise.deliver(std::move(e));
                return;
              }
              self->delayed_send(self, pause,
                                 push_again{std::move(items), promise, deadline,
                                            std::min<std::chrono::milliseconds>(pause * 2, longest_pause)});
            });
}

}  // namespace

queue_link_actor::behavior_type queue_link_behavior(pointer self, link_parts parts) {
  self->state.parts = std::move(parts);
  self->set_down_handler([self](const caf::down_msg& d) {
    auto& s = self->state;
    if (!s.handle || s.handle.address() != d.source) return;
    s.handle = nullptr;
    if (s.parts.on_lost) s.parts.on_lost();
  });
  return {
      [](items_stored) {},
      [](queue_tick) {},
      [self](const attach_pool& a) -> caf::result<ack> { return forward<ack>(self, a); },
      [self](const demand& d) {
        if (self->state.handle) self->send(self->state.handle, d);
      },
      [self](const batch_done& d) {
        if (self->state.handle) self->send(self->state.handle, d);
      },
      [self](const renew_leases& r) {
        if (self->state.handle) self->send(self->state.handle, r);
      },
      [self](push_items& p) -> caf::result<push_results> {
        auto promise = self->make_response_promise<push_results>();
        push_or_wait(self, std::move(p), promise, self->clock().now() + self->state.parts.push_timeout, first_pause);
        return promise;
      },
      [self](const pause_queue& p) -> caf::result<ack> { return forward<ack>(self, p); },
      [self](resume_queue r) -> caf::result<ack> { return forward<ack>(self, r); },
      [self](drain_queue d) -> caf::result<ack> { return forward<ack>(self, d); },
      [self](const flush_queue& f) -> caf::result<ack> { return forward<ack>(self, f); },
      [self](const purge_queue& p) -> caf::result<purged_count> { return forward<purged_count>(self, p); },
      [self](const stop_queue&) -> caf::result<queue_status> { return to_caf(elsewhere(self)); },
      [self](get_queue_status g) -> caf::result<queue_status> {
        auto& s = self->state;
        if (s.handle) return self->delegate(s.handle, g);
        auto promise = self->make_response_promise<queue_status>();
        self->request(s.parts.storekeeper, caf::infinite, store_look{})
            .then(
                [self, promise](const store_counts& c) mutable {
                  queue_status st;
                  st.name = self->state.parts.queue;
                  st.phase = queue_phase::standby;
                  st.owner = self->state.owner;
                  st.counts.waiting = c.counts.waiting + c.counts.ranked + c.counts.keyed;
                  st.counts.delayed = c.counts.delayed;
                  st.counts.dead = c.counts.dead;
                  st.counts.done = c.counts.done;
                  st.counts.held = c.counts.held;
                  promise.deliver(std::move(st));
                },
                [promise](caf::error& e) mutable { promise.deliver(std::move(e)); });
        return promise;
      },
      [self](const find_job& f) -> caf::result<job_status> {
        auto& s = self->state;
        if (s.handle) return self->delegate(s.handle, f);
        auto promise = self->make_response_promise<job_status>();
        self->request(s.parts.storekeeper, caf::infinite, store_find{f.id})
            .then(
                [self, promise, id = f.id](store_records& found) mutable {
                  if (found.records.empty()) {
                    promise.deliver(
                        to_caf({errc::not_found, "job " + to_string(job_id{self->state.parts.queue, id}) +
                                                     ": is not here; it was handled or removed, or never existed"}));
                    return;
                  }
                  promise.deliver(status_of(std::move(found.records.front()), false, wall_time{}));
                },
                [promise](caf::error& e) mutable { promise.deliver(std::move(e)); });
        return promise;
      },
      [self](const list_jobs& l) -> caf::result<job_list> { return forward<job_list>(self, l); },
      [self](const change_job& c) -> caf::result<ack> { return forward<ack>(self, c); },
      [self](const report_batches& r) -> caf::result<batches_reported> { return forward<batches_reported>(self, r); },
      [self](const move_queue& m) -> caf::result<ack> { return forward<ack>(self, m); },
      [self](const find_key& k) -> caf::result<found_key> { return forward<found_key>(self, k); },
      [self](const change_jobs& c) -> caf::result<jobs_changed> { return forward<jobs_changed>(self, c); },
      [self](set_owner& o) {
        auto& s = self->state;
        if (s.handle) self->demonitor(s.handle.address());
        s.owner = std::move(o.node);
        s.handle = std::move(o.handle);
        if (s.handle) self->monitor(s.handle);
      },
      [self](push_again& p) { push_or_wait(self, std::move(p.items), std::move(p.promise), p.deadline, p.pause); },
  };
}

}  // namespace caravan
