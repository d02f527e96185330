#include "actors/move/move_source_shell.hpp"

#include "messages/caf_error.hpp"

#include <caf/all.hpp>

#include <algorithm>

namespace caravan {

using namespace std::chrono_literals;

namespace {

using pointer = move_source_actor::stateful_pointer<move_source_state>;

constexpr std::size_t part_rows = 1'000;
constexpr std::size_t part_bytes = 512u << 10;  // one message must not hold up the others of a connection
constexpr std::size_t part_keys = 10'000;
constexpr auto step_timeout = 5s;
constexpr auto freeze_timeout = 3s;

void perform(pointer self);

std::chrono::milliseconds since(pointer self, std::chrono::steady_clock::time_point from) {
  return std::chrono::ceil<std::chrono::milliseconds>(self->clock().now() - from);
}

// Rows of a part are cut where the message would become too large.
void cut(std::vector<record>& rows) {
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    bytes += rows[i].payload.size() + rows[i].last_error.size() + 128;
    if (bytes <= part_bytes || i == 0) continue;
    rows.resize(i);
    return;
  }
}

expected<void> read_fresh(move_source_state& s, move_part& part) {
  auto rows = s.parts.store->read(s.state, s.after, part_rows);
  if (!rows) return rows.failure();
  if (rows->empty()) {
    if (s.state == record_state::waiting) s.tail = s.after;
    if (static_cast<std::size_t>(s.state) + 1 == record_states)
      s.rows_read = true;
    else
      s.state = static_cast<record_state>(static_cast<std::uint8_t>(s.state) + 1);
    s.after = {};
    return {};
  }
  cut(*rows);
  s.after = {sort_of(rows->back()), rows->back().id};
  // One that changed meanwhile is sent later, once, as it is then.
  std::erase_if(*rows, [&](const record& r) { return s.parts.store->is_changed(r.id); });
  part.rows = std::move(*rows);
  return {};
}

expected<void> read_changes(move_source_state& s, move_part& part) {
  auto rows = s.parts.store->read(record_state::waiting, s.tail, part_rows);
  if (!rows) return rows.failure();
  cut(*rows);
  if (!rows->empty()) s.tail = {sort_of(rows->back()), rows->back().id};
  const bool more = !rows->empty();
  std::erase_if(*rows, [&](const record& r) { return s.parts.store->is_changed(r.id); });
  part.rows = std::move(*rows);
  auto noted = s.parts.store->take(part_rows);
  if (noted.cleared) return error{errc::conflict, "items were purged while it was being copied; try again"};
  for (const auto id : noted.rows) {
    auto found = s.parts.store->find(id);
    if (!found) return found.failure();
    if (*found)
      part.changed.push_back(std::move(**found));
    else
      part.gone.push_back(id);
  }
  part.keys = std::move(noted.freed);
  auto keys = s.parts.store->keys_after(s.keys_after, part_keys);
  if (!keys) return keys.failure();
  if (!keys->empty()) s.keys_after = keys->back().owner;
  part.keys.insert(part.keys.end(), keys->begin(), keys->end());
  // Of many keys this is only a part; their number is no measure of what changes.
  part.all_read = keys->size() < part_keys;
  part.pending = s.parts.store->pending() + (more ? part_rows : 0);
  return {};
}

void read(pointer self) {
  auto& s = self->state;
  move_part part;
  expected<void> ok;
  if (!s.rows_read) {
    while (part.rows.empty() && !s.rows_read && ok) ok = read_fresh(s, part);
  } else {
    ok = read_changes(s, part);
  }
  if (ok)
    s.core->on_part(std::move(part), self->clock().now(), s.fx);
  else
    s.core->fail(ok.failure().text, self->clock().now(), s.fx);
}

void step(pointer self, std::string_view what) {
  if (self->state.parts.at_step) self->state.parts.at_step(what);
}

void freeze(pointer self) {
  auto& s = self->state;
  s.frozen = self->clock().now();
  const auto failed = [self](const caf::error& e) {
    self->state.core->fail(from_caf(e).text, self->clock().now(), self->state.fx);
    perform(self);
  };
  self->request(s.parts.front, freeze_timeout, hold_messages{})
      .then(
          [self, failed](ack) {
            self->request(self->state.parts.queue, freeze_timeout, freeze_queue{})
                .then(
                    [self](frozen_queue& f) {
                      step(self, "rest");
                      self->state.pools = std::move(f.pools);
                      self->state.core->on_frozen(std::move(f.image), self->clock().now(), self->state.fx);
                      perform(self);
                    },
                    failed);
          },
          failed);
}

void send_step(pointer self, move_step what) {
  auto& s = self->state;
  if (what.what == move_step::kind::image) step(self, "image");
  if (what.what == move_step::kind::commit) step(self, "tell");
  move_message m;
  if (what.what == move_step::kind::image) m.pools = s.pools;
  m.step = std::move(what);
  self->request(s.parts.target, step_timeout, std::move(m))
      .then(
          [self](const move_reply& r) {
            auto& st = self->state;
            if (r.queue) st.new_home = caf::actor_cast<queue_actor>(r.queue);
            st.core->on_answer(r.answer, self->clock().now(), st.fx);
            perform(self);
          },
          [self](const caf::error&) {
            // It is sent again by the core's clock, by a new way if there is one.
            if (auto again = self->state.parts.find_target()) self->state.parts.target = std::move(again);
          });
}

void finish(pointer self) {
  auto& s = self->state;
  move_result r;
  r.moved = s.core->at() == move_source_core::step::done;
  r.why = s.core->why();
  r.items = s.core->items();
  r.took = since(self, s.begun);
  if (s.frozen != decltype(s.frozen){}) {
    const auto end = s.released != decltype(s.released){} ? s.released : self->clock().now();
    r.frozen = std::chrono::ceil<std::chrono::milliseconds>(end - s.frozen);
  }
  r.buffered = s.buffered;
  s.parts.store->watch(false);
  s.parts.finished(r);
  self->quit();
}

void perform(pointer self) {
  auto& s = self->state;
  if (std::exchange(s.performing, true)) return;  // the loop below sees what was added
  for (bool more = true; more;) {
    more = false;
    for (auto& what : std::exchange(s.fx.send, {})) {
      send_step(self, std::move(what));
      more = true;
    }
    if (std::exchange(s.fx.freeze, false)) {
      step(self, "freeze");
      freeze(self);
    }
    if (std::exchange(s.fx.thaw, false)) {
      caf::anon_send(s.parts.queue, thaw_queue{});
      caf::anon_send(s.parts.front, release_messages{});
      s.released = self->clock().now();
    }
    if (std::exchange(s.fx.decide, false)) {
      step(self, "decide");
      s.core->on_decided(s.parts.decide(), self->clock().now(), s.fx);
      more = true;
    }
    if (std::exchange(s.fx.read_back, false)) {
      s.core->on_decided(s.parts.read_back(), self->clock().now(), s.fx);
      more = true;
    }
    if (std::exchange(s.fx.hand_over, false)) {
      step(self, "decided");
      s.released = self->clock().now();
      s.parts.hand_over(s.new_home);
    }
    if (std::exchange(s.fx.read, false)) {
      if (s.core->at() == move_source_core::step::copying) step(self, "copy");
      read(self);
      more = true;
    }
  }
  s.performing = false;
  if (std::exchange(s.fx.finished, false)) {
    finish(self);
    return;
  }
  const auto wake = s.core->next_wake();
  if (wake && s.ticks.want(*wake))
    self->delayed_send(self, std::max(*wake - self->clock().now(), std::chrono::steady_clock::duration{0}),
                       move_tick{});
}

}  // namespace

move_source_actor::behavior_type move_source_behavior(pointer self, move_source_parts parts) {
  auto& s = self->state;
  s.parts = std::move(parts);
  s.core = std::make_unique<move_source_core>(s.parts.subject, s.parts.limits);
  s.begun = self->clock().now();
  s.parts.store->watch(true);
  step(self, "prepare");
  s.core->begin(self->clock().now(), s.fx);
  perform(self);
  return {
      [self](move_tick) {
        auto& st = self->state;
        if (!st.ticks.came(self->clock().now())) return;
        st.core->on_tick(self->clock().now(), st.fx);
        perform(self);
      },
  };
}

}  // namespace caravan
