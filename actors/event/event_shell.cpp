#include "actors/event/event_shell.hpp"

#include "actors/event/event_pattern.hpp"
#include "messages/caf_error.hpp"

#include <caf/all.hpp>

#include <algorithm>

namespace caravan {

using namespace std::chrono_literals;

namespace {

using pointer = local_event_bus::stateful_pointer<event_bus_state>;
using next = event_receiver::next;

constexpr std::size_t batch_events = 64;
constexpr std::size_t batch_bytes = 64u << 10;
constexpr auto look_every = 50ms;
constexpr auto answer_timeout = 5s;  ///< of a subscriber for a batch
constexpr std::uint32_t most_recent = 10'000;

// One batch is under way at a time: its answer asks for the next.
class actor_receiver final : public event_receiver {
public:
  actor_receiver(pointer self, event_subscriber_actor to) : self_(self), to_(std::move(to)) {}
  void begin(event_subscriber_id id) override { id_ = id; }

  next take(const std::string&, event_core::handed some) override {
    event_batch batch;
    batch.dropped = some.dropped;
    for (const auto& e : some.events) batch.events.push_back(e->what);
    self_->request(to_, answer_timeout, std::move(batch))
        .then([self = self_, id = id_](ack) { self->state.parts.door->ready(id); },
              // It may have got the batch or not; what follows would only pile up.
              [self = self_, id = id_](caf::error&) { self->state.parts.door->unsubscribe(id); });
    return next::will_tell;
  }

private:
  const pointer self_;
  const event_subscriber_actor to_;
  event_subscriber_id id_ = 0;
};

void forget(pointer self, event_subscriber_id id) {
  auto& s = self->state;
  s.core->remove(id);
  s.receivers.erase(id);
  s.asked.erase(id);
  std::erase_if(s.actors, [&](const auto& x) { return x.second == id; });
  std::erase_if(s.nodes, [&](const auto& x) { return x.second.id == id; });
}

void hand_over(pointer self, event_subscriber_id id) {
  auto& s = self->state;
  const auto at = s.receivers.find(id);
  if (at == s.receivers.end()) return;
  const auto receiver = at->second;
  for (;;) {
    auto some = s.core->take(id, batch_events, batch_bytes);
    if (some.empty()) return;
    auto then = next::gone;
    try {
      then = receiver->take(s.core->run(), std::move(some));
    } catch (const std::exception& e) {
      if (s.parts.log) s.parts.log(std::string("a subscriber of events failed and gets none any more: ") + e.what());
    }
    switch (then) {
      case next::ready:
        break;
      case next::will_tell:
        s.core->set_busy(id, true);
        return;
      case next::look_again:
        s.core->set_busy(id, true);
        s.asked.insert(id);
        if (!std::exchange(s.looking, true)) self->delayed_send(self, look_every, event_look{});
        return;
      case next::gone:
        s.parts.door->unsubscribe(id);
        return;
    }
  }
}

void carry_out(pointer self, event_order& o, std::vector<event_subscriber_id>& ready) {
  auto& s = self->state;
  using kind = event_order::kind;
  switch (o.what) {
    case kind::event:
      s.core->on_event(std::move(o.news), o.draft, ready);
      break;
    case kind::remote:
      s.core->on_remote(std::move(o.news), ready);
      break;
    case kind::subscribe:
      if (o.receiver) {
        o.receiver->begin(o.id);
        s.receivers[o.id] = std::move(o.receiver);
      } else if (!s.receivers.contains(o.id)) {
        break;  // a new wish of one that is gone
      }
      s.core->add(o.id, std::move(o.wish));
      ready.push_back(o.id);
      break;
    case kind::unsubscribe:
      forget(self, o.id);
      break;
    case kind::ready:
      s.core->set_busy(o.id, false);
      ready.push_back(o.id);
      break;
    case kind::gate:
      s.core->gate(std::move(o.gate));
      break;
  }
}

void hand_over_all(pointer self, std::vector<event_subscriber_id>& ready) {
  std::sort(ready.begin(), ready.end());
  ready.erase(std::unique(ready.begin(), ready.end()), ready.end());
  for (const auto id : ready) hand_over(self, id);
}

expected<void> check_filters(const std::vector<event_filter>& filters) {
  for (const auto& f : filters)
    if (const auto ok = check_pattern(f.topic); !ok) return ok.failure();
  return {};
}

event_subscriber_id subscribe_actor(pointer self, event_wish wish) {
  return self->state.parts.door->subscribe(
      std::move(wish),
      std::make_shared<actor_receiver>(self, caf::actor_cast<event_subscriber_actor>(self->current_sender())));
}

caf::result<ack> on_subscribe(pointer self, const subscribe_events& m) {
  auto& s = self->state;
  if (!self->current_sender()) return to_caf({errc::invalid_argument, "an actor that subscribes must be the sender"});
  if (const auto ok = check_filters(m.filters); !ok) return to_caf(ok.failure());
  event_wish wish;
  wish.filters = m.filters;
  const auto who = self->current_sender()->address();
  if (const auto at = s.actors.find(who); at != s.actors.end())
    s.parts.door->replace(at->second, std::move(wish));
  else
    s.actors[who] = subscribe_actor(self, std::move(wish));
  return ack{};
}

caf::result<ack> on_wishes(pointer self, const event_wishes& m) {
  auto& s = self->state;
  if (!self->current_sender()) return to_caf({errc::invalid_argument, "a node that wants events must be the sender"});
  if (const auto ok = check_filters(m.filters); !ok) return to_caf(ok.failure());
  event_wish wish;
  wish.filters = m.filters;
  wish.is_node = true;
  const auto who = self->current_sender()->address();
  auto& node = s.nodes[m.node];
  if (node.id != 0 && node.bus == who) {
    s.parts.door->replace(node.id, std::move(wish));
  } else {
    if (node.id != 0) s.parts.door->unsubscribe(node.id);  // another start of it
    node = {who, subscribe_actor(self, std::move(wish))};
  }
  return ack{};
}

}  // namespace

local_event_bus::behavior_type event_bus_behavior(pointer self, event_bus_parts parts) {
  auto& s = self->state;
  s.core = std::make_unique<event_core>(parts.node, parts.run);
  s.parts = std::move(parts);
  return {
      [self](event_batch& b) {
        auto& st = self->state;
        if (b.dropped > 0 && st.parts.log)
          st.parts.log("another node told more than could be taken: " + std::to_string(b.dropped) +
                       " of its events are missing");
        st.parts.door->publish_remote(std::move(b.events));
        return ack{};
      },
      [self](const subscribe_events& m) -> caf::result<ack> { return on_subscribe(self, m); },
      [self](const event_wishes& m) -> caf::result<ack> { return on_wishes(self, m); },
      [self](const get_recent_events& g) -> caf::result<event_list> {
        if (const auto ok = check_filters(g.filters); !ok) return to_caf(ok.failure());
        return self->state.core->recent(g.filters, std::min(g.most, most_recent));
      },
      [self](get_event_status) {
        auto st = self->state.core->status();
        st.refused = self->state.parts.door->refused();
        return st;
      },
      [self](events_waiting) {
        auto& st = self->state;
        std::vector<event_subscriber_id> ready;
        st.parts.door->take(st.orders);
        for (auto& o : st.orders) carry_out(self, o, ready);
        st.orders.clear();
        hand_over_all(self, ready);
      },
      [self](event_look) {
        auto& st = self->state;
        st.looking = false;
        std::vector<event_subscriber_id> ready;
        for (auto it = st.asked.begin(); it != st.asked.end();) {
          if (!st.receivers.at(*it)->is_ready()) {
            ++it;
            continue;
          }
          st.core->set_busy(*it, false);
          ready.push_back(*it);
          it = st.asked.erase(it);
        }
        hand_over_all(self, ready);
        if (!st.asked.empty() && !std::exchange(st.looking, true)) self->delayed_send(self, look_every, event_look{});
      },
      [self](wish_at_node& w) {
        auto& st = self->state;
        self->request(caf::actor_cast<event_bus_actor>(w.bus), answer_timeout,
                      event_wishes{st.parts.node, st.parts.door->wishes()})
            .then([then = w.then](ack) { then(true); }, [then = w.then](caf::error&) { then(false); });
      },
  };
}

}  // namespace caravan
