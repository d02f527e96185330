#include "actors/queue/queue_shell.hpp"

#include "messages/caf_error.hpp"
#include "messages/job_phases.hpp"

#include <caf/all.hpp>

#include <algorithm>
#include <limits>

namespace caravan {

using namespace std::chrono_literals;

namespace {

using pointer = home_actor::stateful_pointer<queue_shell_state>;

constexpr std::size_t parked_most = 1'000;
constexpr auto no_limit = std::numeric_limits<std::size_t>::max();
constexpr auto stop_check = 500ms;   // how often the end looks whether its storage is in trouble
constexpr auto stop_patience = 5s;  // how long it lets a storage in trouble try again
constexpr auto freeze_patience = 2s;
constexpr auto never = std::chrono::steady_clock::time_point::max();

// Before every event of the core.
instant now_of(pointer self) {
  auto& s = self->state;
  if (s.parts.may_hand_out) {
    s.held_back = !s.parts.may_hand_out();
  }
  if (s.parts.may_hand_out || s.frozen) s.core->hold_back(s.held_back || s.frozen);
  return {self->clock().now(), s.parts.clock->wall()};
}

void perform(pointer self);

// What pushing threads stored meanwhile becomes known to the core. perform() must follow.
void take_announced(pointer self) {
  auto& s = self->state;
  s.parts.door->take(s.taken);
  s.events.pushed(s.taken);
  if (!s.taken.empty()) s.core->on_appended(s.taken, now_of(self), s.fx);
}

void log(pointer self, std::string_view what, const std::string& text) {
  if (self->state.parts.log) self->state.parts.log(what, text);
}

// Says when the storage's trouble begins and when it ends, once each.
void tell_trouble(pointer self) {
  auto& s = self->state;
  const auto text = s.parts.health->text();
  if (text.empty() == !s.in_trouble) return;
  s.in_trouble = !text.empty();
  log(self, "storage", s.in_trouble ? text : "the storage works again");
  s.events.trouble(text);
}

queue_status status_of(pointer self) {
  auto& s = self->state;
  queue_status st;
  st.name = s.parts.settings.name;
  st.phase = s.core->phase();
  st.paused_until = s.core->paused_until();
  st.paused_by = s.core->phase() == queue_phase::paused ? s.paused_by : std::string{};
  st.counts = s.core->counts();
  st.pools = static_cast<std::uint32_t>(s.core->attached_pools());
  st.oldest_waiting = s.core->oldest_waiting();
  st.trouble = s.parts.health->text();
  st.owner = s.parts.node;
  st.timings = s.core->timings();
  return st;
}

template <class T>
void move_to(std::vector<T>& to, std::vector<T>& from) {
  to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
  from.clear();
}

// Of two moves of one record in one write the second would name a place that the record has left: they become one.
void gather_moves(pointer self) {
  auto& s = self->state;
  for (auto& m : s.fx.move) {
    const auto [at, fresh] = s.move_of.emplace(m.from.id, s.changes.move.size());
    if (fresh)
      s.changes.move.push_back(std::move(m));
    else
      s.changes.move[at->second].to = std::move(m.to);
  }
  s.fx.move.clear();
}

void storage_refused(pointer self, const caf::error& e) {
  const auto why = from_caf(e);
  if (why.code == errc::fenced && self->state.parts.on_fenced)
    self->state.parts.on_fenced();
  else
    log(self, "storage", why.text);
}

void send_batches(pointer self, std::vector<queue_effects::outgoing>& batches) {
  auto& s = self->state;
  for (auto& out : batches) {
    const auto it = s.pools.find(out.pool);
    if (it != s.pools.end()) self->send(caf::actor_cast<worker_pool_actor>(it->second), std::move(out.work));
  }
  batches.clear();
}

// `then_leave` goes to its pools when the changes are written.
void send_changes(pointer self, std::vector<queue_effects::outgoing> then_leave = {}) {
  auto& s = self->state;
  if (s.changes.empty()) return;
  ++s.changes_under_way;
  const std::size_t moves = s.changes.move.empty() ? 0 : 1;
  s.moves_under_way += moves;
  s.move_of.clear();
  auto batches = std::make_shared<std::vector<queue_effects::outgoing>>(std::move(then_leave));
  self->request(s.parts.storekeeper, caf::infinite, std::exchange(s.changes, {}))
    .then(
      [self, moves, batches](ack) {
        --self->state.changes_under_way;
        self->state.moves_under_way -= moves;
        send_batches(self, *batches);
        perform(self);
      },
      [self, moves](caf::error& e) {
        --self->state.changes_under_way;
        self->state.moves_under_way -= moves;
        storage_refused(self, e);
        perform(self);
      });
}

// In a shared storage a key is freed by a call that waits for the network, so the storekeeper makes it, behind what was decided
// before, and the batch leaves when it is done.
void release_elsewhere(pointer self) {
  auto& s = self->state;
  if (!s.fx.erase.empty() || !s.fx.move.empty()) s.changes.low_water = s.fx.low_water;
  gather_moves(self);
  move_to(s.changes.erase, s.fx.erase);
  move_to(s.changes.release, s.fx.release);
  send_changes(self, std::exchange(s.fx.send, {}));
}

void send_load(pointer self, const queue_effects::load& l) {
  const auto generation = l.generation;
  const auto state = l.state;
  self->request(self->state.parts.storekeeper, caf::infinite, store_load{l.state, l.after, l.max})
    .then(
      [self, generation, state](store_records& found) {
        self->state.core->on_loaded(generation, state, std::move(found.records), now_of(self), self->state.fx);
        perform(self);
      },
      [self, generation](caf::error& e) {
        storage_refused(self, e);
        self->state.core->on_load_failed(generation, now_of(self), self->state.fx);
        perform(self);
      });
}

void push_or_park(pointer self, push_items items, caf::typed_response_promise<push_results> promise,
                  std::chrono::steady_clock::time_point deadline) {
  ++self->state.pushes_under_way;
  // A copy: the items are needed again when there is no room.
  self->request(self->state.parts.storekeeper, caf::infinite, items)
    .then([self, promise](push_results& r) mutable {
            --self->state.pushes_under_way;
            promise.deliver(std::move(r));
            if (!self->state.freezes.empty()) perform(self);
          },
          [self, promise, deadline, changes = self->state.room_changes, items = std::move(items)](caf::error& e) mutable {
            auto& s = self->state;
            --s.pushes_under_way;
            const bool full = e == to_caf({errc::queue_full, {}}) && items.items.size() <= s.parts.settings.length;
            if (!full || s.parked.size() >= parked_most || self->clock().now() >= deadline) {
              promise.deliver(std::move(e));
              tell_trouble(self);
              if (!s.freezes.empty()) perform(self);
            } else if (s.room_changes != changes) {
              // While the refusal was on its way. Nobody would wake it, if it was parked now.
              push_or_park(self, std::move(items), std::move(promise), deadline);
            } else {
              // Back to its place: deadlines are in the order of arrival.
              const auto place = std::upper_bound(s.parked.begin(), s.parked.end(), deadline,
                                                  [](auto t, const auto& p) { return t < p.deadline; });
              s.parked.insert(place, {std::move(items), std::move(promise), deadline});
              perform(self);
            }
          });
}

// Tries parked pushes again, the oldest first: as many as fit into `room` items, and those whose time is up.
void unpark(pointer self, std::size_t room) {
  auto& s = self->state;
  auto parked = std::exchange(s.parked, {});
  const auto now = self->clock().now();
  for (auto& p : parked) {
    const auto size = p.items.items.size();
    const bool fits = size <= room;
    if (!fits && now < p.deadline) {
      s.parked.push_back(std::move(p));
      room = 0;  // nobody overtakes
      continue;
    }
    room -= fits ? size : 0;
    push_or_park(self, std::move(p.items), std::move(p.promise), p.deadline);
  }
}

// Pushes are refused from now on, the parked ones too.
void close_door(pointer self, std::string_view why) {
  auto& s = self->state;
  s.parts.door->close({errc::queue_closed, "queue \"" + s.parts.settings.name + "\": " + std::string(why)});
  ++s.room_changes;
  unpark(self, no_limit);
}

void schedule_tick(pointer self) {
  auto& s = self->state;
  auto wake = s.core->next_wake(now_of(self));
  for (const auto& p : s.parked)
    if (!wake || p.deadline < *wake) wake = p.deadline;
  if (s.stopped && !s.stops.empty()) wake = self->clock().now() + stop_check;
  if (!s.freezes.empty() && (!wake || s.freeze_deadline < *wake)) wake = s.freeze_deadline;
  if (!wake || !s.ticks.want(*wake)) return;
  const auto wait = std::max(*wake - self->clock().now(), std::chrono::steady_clock::duration{0});
  self->delayed_send(self, wait, queue_tick{});
}

void deliver_stops(pointer self) {
  auto& s = self->state;
  if (!s.stopped || s.stops.empty()) return;
  // A storage that refuses (a full disk) must not hold up the end for ever: what it did not learn is delivered again.
  const bool written = s.changes_under_way == 0 && s.changes.empty();
  const bool in_vain = !s.parts.health->text().empty() && self->clock().now() >= s.stopped_at + stop_patience;
  if (!written && !in_vain) return;
  for (auto& p : std::exchange(s.stops, {})) p.deliver(status_of(self));
}

void thaw(pointer self) {
  auto& s = self->state;
  s.frozen = false;
  s.core->hold_back(s.held_back);
  s.parts.door->hold(false);
  ++s.room_changes;
  unpark(self, no_limit);
}

void deliver_freezes(pointer self) {
  auto& s = self->state;
  if (s.freezes.empty()) return;
  if (s.changes_under_way == 0 && s.changes.empty() && s.pushes_under_way == 0) {
    frozen_queue f;
    f.image = s.core->image(now_of(self));
    f.image.paused_by = s.paused_by;
    for (const auto& p : f.image.pools)
      if (const auto it = s.pools.find(p.id); it != s.pools.end()) f.pools.push_back({p.id, pool_kind::remote, it->second});
    for (auto& p : std::exchange(s.freezes, {})) p.deliver(f);
  } else if (self->clock().now() >= s.freeze_deadline) {
    for (auto& p : std::exchange(s.freezes, {}))
      p.deliver(to_caf({errc::backend_failed, "queue \"" + s.parts.settings.name + "\": its storage does not write what has to be written before it can move"}));
    thaw(self);
  }
}

// Carries out what the core decided with the last event.
void perform(pointer self) {
  auto& s = self->state;
  auto& fx = s.fx;
  s.events.decided(fx, *s.core, s.paused_by);
  // Within one write moves come first; these moves come after those releases.
  if (!fx.move.empty() && !s.changes.release.empty()) send_changes(self);
  // Before a batch leaves: its handler may push the same key again at once.
  if (!fx.release.empty() && s.parts.store->shared()) {
    release_elsewhere(self);
  } else if (!fx.release.empty()) {
    if (auto ok = s.parts.store->release(fx.release); !ok) log(self, "storage", ok.failure().text);
    // Once more behind moves that are not written yet: an item that came back takes its key again.
    if (s.moves_under_way > 0 || !s.changes.move.empty() || !fx.move.empty())
      s.changes.release.insert(s.changes.release.end(), fx.release.begin(), fx.release.end());
    fx.release.clear();
  }
  send_batches(self, fx.send);
  for (const auto& [pool, token] : std::exchange(fx.stop, {}))
    if (const auto it = s.pools.find(pool); it != s.pools.end())
      self->send(caf::actor_cast<worker_pool_actor>(it->second), stop_calls{{token}});

  // A clear comes after what was decided before it, and before what is decided after it.
  if (!fx.clear.empty() && !s.changes.empty()) send_changes(self);
  if (!fx.erase.empty() || !fx.move.empty()) s.changes.low_water = fx.low_water;
  gather_moves(self);
  move_to(s.changes.erase, fx.erase);
  if (!fx.clear.empty()) s.changes.clear_through = fx.clear_through;
  move_to(s.changes.clear, fx.clear);
  if (!s.changes.clear.empty()) send_changes(self);
  // While the storekeeper works, the rest gathers: that makes few large writes of many small ones.
  if (s.changes_under_way == 0) send_changes(self);

  for (const auto& l : std::exchange(fx.loads, {})) {
    send_changes(self);  // a read must see what was decided before it
    send_load(self, l);
  }
  const auto room = std::exchange(fx.room, 0);
  s.parts.door->add_room(room);
  if (room > 0) ++s.room_changes;
  for (auto& f : std::exchange(fx.flushes, {})) {
    const auto node = s.flushes.extract(f.flush);
    if (node.empty()) continue;
    if (f.answer)
      node.mapped().deliver(ack{});
    else
      node.mapped().deliver(to_caf(f.answer.failure()));
  }
  if (fx.stopped) {
    fx.stopped = false;
    s.stopped = true;
    s.stopped_at = self->clock().now();
    close_door(self, "is stopped");
  }
  if (room > 0 && !s.parked.empty() && !s.frozen) unpark(self, s.parts.door->room());
  deliver_stops(self);
  deliver_freezes(self);
  tell_trouble(self);
  schedule_tick(self);
}

caf::result<ack> answer(pointer self, const expected<void>& ok) {
  perform(self);
  if (!ok) return to_caf(ok.failure());
  return ack{};
}

job_status status_of(pointer self, record&& r) {
  const bool running = self->state.core->is_running(r.id);
  return status_of(std::move(r), running, self->state.parts.clock->wall());
}

// A newer node may send enumerators that are unknown here.
caf::error unknown_word(pointer self, std::string_view what) {
  return to_caf({errc::invalid_argument, "queue \"" + self->state.parts.settings.name + "\": its node does not know this " +
                                           std::string(what) + "; give all nodes the same version"});
}

caf::result<job_status> find(pointer self, item_id id) {
  // The core first: a row that is about to be erased is finished already.
  if (const auto f = self->state.core->find_finished(id); f && self->state.core->counts().done == 0) return status_of(*f);
  auto promise = self->make_response_promise<job_status>();
  send_changes(self);
  self->request(self->state.parts.storekeeper, caf::infinite, store_find{id})
    .then(
      [self, id, promise](store_records& found) mutable {
        const bool kept = !found.records.empty() && found.records.front().state == record_state::done;
        if (const auto f = self->state.core->find_finished(id); f && !kept) {
          promise.deliver(status_of(*f));
        } else if (found.records.empty()) {
          promise.deliver(to_caf(no_such_job(self->state.parts.settings.name, id)));
        } else {
          promise.deliver(status_of(self, std::move(found.records.front())));
        }
      },
      [promise](caf::error& e) mutable { promise.deliver(std::move(e)); });
  return promise;
}

caf::result<job_list> list(pointer self, const list_jobs& l) {
  if (static_cast<std::size_t>(l.state) >= record_states) return unknown_word(self, "state");
  auto promise = self->make_response_promise<job_list>();
  send_changes(self);
  self->request(self->state.parts.storekeeper, caf::infinite, store_load{l.state, {l.after_sort, l.after_id}, l.limit})
    .then(
      [self, promise](store_records& found) mutable {
        job_list jobs;
        for (auto& r : found.records) {
          if (r.state != record_state::done && self->state.core->find_finished(r.id)) continue;
          jobs.jobs.push_back(status_of(self, std::move(r)));
        }
        promise.deliver(std::move(jobs));
      },
      [promise](caf::error& e) mutable { promise.deliver(std::move(e)); });
  return promise;
}

expected<void> apply(pointer self, job_change what, record&& r) {
  auto& s = self->state;
  switch (what) {
    case job_change::retry: return s.core->retry(std::move(r), now_of(self), s.fx);
    case job_change::remove: return s.core->remove(std::move(r), now_of(self), s.fx);
    case job_change::cancel: break;
  }
  return s.core->cancel(std::move(r), now_of(self), s.fx);
}

bool matches(const job_filter& f, const record& r) {
  return (f.error.empty() || r.last_error.find(f.error) != std::string::npos) &&
         (f.key.empty() || r.key == f.key || r.order_by == f.key) &&
         (f.pushed_before == wall_time{} || r.pushed_at < f.pushed_before) && r.priority >= f.priority_least &&
         r.priority <= f.priority_most;
}

constexpr std::uint32_t changes_a_call = 1'000;

caf::result<jobs_changed> change_many(pointer self, const change_jobs& c) {
  if (static_cast<std::size_t>(c.state) >= record_states) return unknown_word(self, "state");
  if (c.what > job_change::cancel) return unknown_word(self, "change");
  auto promise = self->make_response_promise<jobs_changed>();
  send_changes(self);
  const auto most = std::clamp<std::uint32_t>(c.most, 1, changes_a_call);
  self->request(self->state.parts.storekeeper, caf::infinite, store_load{c.state, {c.after_sort, c.after_id}, most})
    .then(
      [self, c, promise](store_records& found) mutable {
        take_announced(self);
        jobs_changed done;
        done.after_sort = c.after_sort;
        done.after_id = c.after_id;
        // A short page does not mean the end: some rows may have been unreadable.
        done.more = !found.records.empty();
        for (auto& r : found.records) {
          done.after_sort = sort_of(r);
          done.after_id = r.id;
          if (c.through && r.id > c.through) continue;
          ++done.seen;
          if (!matches(c.filter, r)) continue;
          ++done.matched;
          if (!c.count_only && apply(self, c.what, std::move(r))) ++done.changed;
        }
        perform(self);
        promise.deliver(std::move(done));
      },
      [promise](caf::error& e) mutable { promise.deliver(std::move(e)); });
  return promise;
}

caf::result<ack> change(pointer self, const change_job& c) {
  if (c.what > job_change::cancel) return unknown_word(self, "change");
  auto promise = self->make_response_promise<ack>();
  send_changes(self);
  self->request(self->state.parts.storekeeper, caf::infinite, store_find{c.id})
    .then(
      [self, c, promise](store_records& found) mutable {
        auto& s = self->state;
        take_announced(self);  // the core must know the item before it changes it
        const bool kept = !found.records.empty() && found.records.front().state == record_state::done;
        if (found.records.empty() || (!kept && s.core->find_finished(c.id))) {
          promise.deliver(to_caf(no_such_job(self->state.parts.settings.name, c.id)));
          perform(self);
          return;
        }
        const auto ok = apply(self, c.what, std::move(found.records.front()));
        perform(self);
        if (ok) s.events.changed(c.id, c.what == job_change::retry);
        if (ok)
          promise.deliver(ack{});
        else
          promise.deliver(to_caf(ok.failure()));
      },
      [promise](caf::error& e) mutable { promise.deliver(std::move(e)); });
  return promise;
}

}  // namespace

home_actor::behavior_type queue_behavior(pointer self, queue_parts parts) {
  auto& s = self->state;
  s.core = std::make_unique<queue_core>(parts.settings, parts.store->count(), parts.first_token, parts.seed);
  s.events = queue_events(parts.events, parts.settings.name);
  s.parts = std::move(parts);
  self->set_down_handler([self](caf::down_msg& d) {
    for (auto it = self->state.pools.begin(); it != self->state.pools.end(); ++it) {
      if (it->second->address() != d.source) continue;
      const auto pool = it->first;
      self->state.pools.erase(it);
      if (d.reason != caf::exit_reason::user_shutdown)
        log(self, "pool", "a worker pool is gone: " + caf::to_string(d.reason) + "; what it had goes to others");
      self->state.core->on_detach(pool, "its pool is gone", now_of(self), self->state.fx);
      perform(self);
      return;
    }
  });
  if (const auto came = std::exchange(s.parts.came_with, nullptr)) {
    s.core->restore(came->image, now_of(self), s.fx);
    s.paused_by = came->image.paused_by;
    for (const auto& p : came->pools) {
      if (!p.handle) continue;
      s.pools[p.pool] = p.handle;
      self->monitor(p.handle);
    }
  }
  s.core->on_start(now_of(self), s.fx);
  perform(self);

  return {
    [self](items_stored) {
      take_announced(self);
      // It may also mean that batches may leave again.
      if (self->state.held_back) self->state.core->on_tick(now_of(self), self->state.fx);
      perform(self);
    },
    [self](queue_tick) {
      auto& st = self->state;
      if (!st.ticks.came(self->clock().now())) return;
      unpark(self, 0);  // those whose time is up
      st.core->on_tick(now_of(self), st.fx);
      perform(self);
    },
    [self](const attach_pool& a) -> caf::result<ack> {
      if (!a.handle) return to_caf({errc::invalid_argument, "a worker pool without a handle cannot be attached"});
      self->state.pools[a.pool] = a.handle;
      self->monitor(a.handle);
      self->state.core->on_attach(a.pool, a.kind, now_of(self), self->state.fx);
      perform(self);
      return ack{};
    },
    [self](const demand& d) {
      self->state.core->on_demand(d, now_of(self), self->state.fx);
      perform(self);
    },
    [self](batch_done& d) {
      // A newer node may know more kinds; what they are called here is that the item comes again.
      for (auto& o : d.rest)
        if (o.what > item_outcome::kind::handled) o.what = item_outcome::kind::unhandled;
      self->state.core->on_done(d, now_of(self), self->state.fx);
      self->state.events.handled(self->state.fx);
      perform(self);
    },
    [self](const renew_leases& r) {
      self->state.core->on_renew(r, now_of(self), self->state.fx);
      perform(self);
    },
    [self](report_batches& r) -> caf::result<batches_reported> {
      for (auto& d : r.done)
        for (auto& o : d.rest)
          if (o.what > item_outcome::kind::handled) o.what = item_outcome::kind::unhandled;
      auto said = self->state.core->on_report(r, now_of(self), self->state.fx);
      self->state.events.handled(self->state.fx);
      perform(self);
      return said;
    },
    [self](push_items& p) -> caf::result<push_results> {
      auto promise = self->make_response_promise<push_results>();
      push_or_park(self, std::move(p), promise, self->clock().now() + self->state.parts.settings.push_timeout);
      return promise;
    },
    [self](const pause_queue& p) -> caf::result<ack> {
      const auto ok = self->state.core->pause(p.until, now_of(self), self->state.fx);
      if (ok) self->state.paused_by = p.by;
      return answer(self, ok);
    },
    [self](resume_queue) -> caf::result<ack> {
      const auto ok = self->state.core->resume(now_of(self), self->state.fx);
      if (ok) self->state.parts.door->open();
      return answer(self, ok);
    },
    [self](drain_queue) -> caf::result<ack> {
      auto& st = self->state;
      const auto phase = st.core->phase();
      if (phase != queue_phase::stopping && phase != queue_phase::stopped) {
        close_door(self, "is draining and takes no more items");
        take_announced(self);  // it is part of the rest
      }
      return answer(self, st.core->drain(now_of(self), st.fx));
    },
    [self](const flush_queue& f) -> caf::result<ack> {
      auto& st = self->state;
      if (f.timeout < 0ms) {
        take_announced(self);
        st.core->purge(record_state::waiting, now_of(self), st.fx);
        perform(self);
        return ack{};
      }
      const auto id = st.next_flush++;
      auto promise = self->make_response_promise<ack>();
      st.flushes.emplace(id, promise);
      // Pushes that returned before this message was sent are part of it.
      take_announced(self);
      const auto now = now_of(self);
      st.core->flush(id, f.timeout < longest_wait ? now.steady + f.timeout : never, now, st.fx);
      perform(self);
      return promise;
    },
    [self](const purge_queue& p) -> caf::result<purged_count> {
      auto& st = self->state;
      if (static_cast<std::size_t>(p.state) >= record_states) return unknown_word(self, "state");
      take_announced(self);
      const auto n = st.core->purge(p.state, now_of(self), st.fx);
      perform(self);
      st.events.purged(p.state, n);
      return purged_count{n};
    },
    [self](const stop_queue& stop) -> caf::result<queue_status> {
      auto& st = self->state;
      auto promise = self->make_response_promise<queue_status>();
      st.stops.push_back(promise);
      if (st.frozen) {
        // It moved away: who waits for room here is to ask there.
        for (auto& p : std::exchange(st.parked, {}))
          p.promise.deliver(to_caf({errc::fenced, "queue \"" + st.parts.settings.name + "\": it moved to another node"}));
      } else {
        close_door(self, "is stopping");
      }
      take_announced(self);
      const auto now = now_of(self);
      const bool rest = stop.timeout <= 0ms;
      // Running the rest takes as long as it takes; the handlers' own timeouts bound it.
      const auto deadline = rest || stop.timeout >= longest_wait ? never : now.steady + stop.timeout;
      st.core->stop(rest ? queue_core::stop_mode::run_rest : queue_core::stop_mode::hand_back, deadline, now, st.fx);
      perform(self);
      return promise;
    },
    [self](get_queue_status) -> caf::result<queue_status> {
      take_announced(self);
      perform(self);
      return status_of(self);
    },
    [self](const find_job& f) -> caf::result<job_status> { return find(self, f.id); },
    [self](const list_jobs& l) -> caf::result<job_list> { return list(self, l); },
    [self](const change_job& c) -> caf::result<ack> { return change(self, c); },
    [self](const change_jobs& c) -> caf::result<jobs_changed> { return change_many(self, c); },
    [self](const move_queue& m) -> caf::result<ack> {
      const auto& parts = self->state.parts;
      if (!parts.on_move)
        return to_caf({errc::not_supported, "queue \"" + parts.settings.name + "\": is not shared, so it cannot move; only queues of TYPE = redis can"});
      if (const auto ok = parts.on_move(m); !ok) return to_caf(ok.failure());
      return ack{};
    },
    [self](const find_key& k) -> caf::result<found_key> {
      // A table in memory, but for a shared storage, whose nodes ask it themselves.
      const auto holder = self->state.parts.store->key_owner(k.digest);
      if (!holder) return to_caf(holder.failure());
      return found_key{holder->value_or(item_id{})};
    },
    [self](freeze_queue) -> caf::result<frozen_queue> {
      auto& st = self->state;
      const auto phase = st.core->phase();
      if (phase == queue_phase::stopping || phase == queue_phase::stopped)
        return to_caf({errc::queue_closed, "queue \"" + st.parts.settings.name + "\": is stopping, so it cannot move"});
      auto promise = self->make_response_promise<frozen_queue>();
      st.frozen = true;
      st.parts.door->hold(true);
      take_announced(self);
      st.core->freeze(now_of(self), st.fx);
      st.freezes.push_back(promise);
      st.freeze_deadline = self->clock().now() + freeze_patience;
      perform(self);
      return promise;
    },
    [self](thaw_queue) -> caf::result<ack> {
      thaw(self);
      self->state.core->on_tick(now_of(self), self->state.fx);
      perform(self);
      return ack{};
    },
  };
}

}  // namespace caravan
