#pragma once

/// A queue core at a desk, for its tests.

#include "actors/queue/queue_core.hpp"

#include "caf/test/unit_test.hpp"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

namespace caravan::test {

using namespace std::chrono_literals;
using kind = item_outcome::kind;
using steady_point = std::chrono::steady_clock::time_point;
using ids = std::vector<std::uint64_t>;

struct shipment {
  pool_id pool = 0;
  std::uint64_t token = 0;
  ids items;
  std::shared_ptr<const std::vector<record>> records;
};

inline config::queue_settings plain(std::size_t batch_length = 20) {
  config::queue_settings s;
  s.name = "q";
  s.batch_length = batch_length;
  return s;
}

/// A queue at a desk: time stands still until it is moved, and everything the queue wants is written down.
struct desk {
  explicit desk(config::queue_settings s = plain(), storage_counts counts = {}, queue_core::limits l = {})
    : core(std::move(s), counts, 1, 7, l), last(counts.last.value), outstanding(static_cast<std::ptrdiff_t>(counts.waiting + counts.delayed + counts.ranked + counts.keyed)) {
    core.on_start(now, fx);
    note();
  }

  instant now{steady_point{} + 1h, wall_time{} + std::chrono::hours{24 * 365 * 55}};
  queue_core core;
  queue_effects fx;
  std::uint64_t last;
  std::vector<shipment> sent;
  std::ptrdiff_t outstanding;
  ids erased, released;
  std::vector<record_move> moved;
  std::vector<record_state> cleared;
  std::vector<std::pair<pool_id, std::uint64_t>> asked_to_stop;
  std::vector<queue_effects::load> loads;
  std::vector<queue_effects::flushed> flushed;
  bool stopped = false;

  void note() {
    for (auto& o : fx.send) {
      shipment s{o.pool, o.work.token, {}, o.work.items};
      for (const auto& r : *o.work.items) s.items.push_back(r.id.value);
      sent.push_back(std::move(s));
    }
    for (const auto& e : fx.erase) erased.push_back(e.id.value);
    for (const auto& e : fx.release) released.push_back(e.id.value);
    moved.insert(moved.end(), fx.move.begin(), fx.move.end());
    cleared.insert(cleared.end(), fx.clear.begin(), fx.clear.end());
    loads.insert(loads.end(), fx.loads.begin(), fx.loads.end());
    flushed.insert(flushed.end(), fx.flushes.begin(), fx.flushes.end());
    asked_to_stop.insert(asked_to_stop.end(), fx.stop.begin(), fx.stop.end());
    outstanding -= fx.room;
    stopped = stopped || fx.stopped;
    fx = {};
    const auto c = core.counts();
    CAF_CHECK_EQUAL(outstanding, static_cast<std::ptrdiff_t>(c.waiting + c.delayed));
  }

  ids push(std::size_t n, std::chrono::milliseconds delay = 0ms, key_digest digest = {}) {
    std::vector<record> records(n);
    ids pushed;
    for (auto& r : records) {
      r.id = {++last};
      r.payload = "x";
      r.pushed_at = now.wall;
      r.digest = digest;
      if (delay > 0ms) {
        r.state = record_state::delayed;
        r.due = now.wall + delay;
      }
      pushed.push_back(r.id.value);
    }
    outstanding += static_cast<std::ptrdiff_t>(n);
    core.on_appended(records, now, fx);
    note();
    return pushed;
  }
  /// One record with whatever it has; its place in line is found out.
  std::uint64_t push(record r) {
    r.id = {++last};
    r.pushed_at = now.wall;
    r.state = first_state(r, now.wall);
    if (r.payload.empty()) r.payload = "x";
    std::vector<record> one{std::move(r)};
    ++outstanding;
    core.on_appended(one, now, fx);
    note();
    return last;
  }
  void attach(pool_id p, pool_kind k = pool_kind::local) {
    core.on_attach(p, k, now, fx);
    note();
  }
  void detach(pool_id p) {
    core.on_detach(p, "gone", now, fx);
    note();
  }
  void want(pool_id p, std::uint32_t idle, std::uint32_t prefetch = 0) {
    core.on_demand({p, idle, prefetch}, now, fx);
    note();
  }
  void pool(pool_id p, std::uint32_t idle, pool_kind k = pool_kind::local) {
    attach(p, k);
    want(p, idle);
  }
  void done(const shipment& s, batch_result rest = {}, std::uint32_t idle = 1, bool handed_back = false) {
    core.on_done({s.pool, s.token, std::move(rest), handed_back, idle, 0}, now, fx);
    note();
  }
  void all(const shipment& s, kind k, std::chrono::milliseconds delay = 0ms, std::uint32_t idle = 1) {
    done(s, whole_batch(s.items.size(), k, "why", delay), idle);
  }
  void renew(const shipment& s) { core.on_renew({s.pool, {s.token}}, now, fx), note(); }
  void tick() { core.on_tick(now, fx), note(); }
  /// Time goes by; the queue is called exactly when it asked to be.
  void pass(std::chrono::milliseconds by) {
    const auto end = now.steady + by;
    for (;;) {
      const auto wake = core.next_wake(now);
      if (!wake || *wake > end) break;
      move_to(*wake);
      tick();
      if (const auto next = core.next_wake(now)) CAF_REQUIRE(*next > now.steady);
    }
    move_to(end);
  }
  void move_to(steady_point t) {
    const auto by = std::max<std::chrono::milliseconds>(std::chrono::ceil<std::chrono::milliseconds>(t - now.steady), 0ms);
    now.steady += by;
    now.wall += by;
  }
  void flush(std::chrono::milliseconds timeout, std::uint64_t id = 1) {
    core.flush(id, now.steady + timeout, now, fx);
    note();
  }
  std::size_t purge(record_state s) {
    const auto n = core.purge(s, now, fx);
    note();
    return n;
  }
  void stop(queue_core::stop_mode m, std::chrono::milliseconds timeout) {
    core.stop(m, now.steady + timeout, now, fx);
    note();
  }
  expected<void> retry(record r) {
    auto ok = core.retry(std::move(r), now, fx);
    note();
    return ok;
  }
  expected<void> cancel(record r) {
    auto ok = core.cancel(std::move(r), now, fx);
    note();
    return ok;
  }
  expected<void> remove(record r) {
    auto ok = core.remove(std::move(r), now, fx);
    note();
    return ok;
  }
  void loaded(const queue_effects::load& l, std::vector<record> records) {
    core.on_loaded(l.generation, l.state, std::move(records), now, fx);
    note();
  }
  shipment next() {
    CAF_REQUIRE(!sent.empty());
    auto s = sent.front();
    sent.erase(sent.begin());
    return s;
  }
  static record row(std::uint64_t id, record_state s = record_state::waiting, wall_time due = {}) {
    record r;
    r.id = {id};
    r.state = s;
    r.due = due;
    r.payload = "x";
    return r;
  }
  queue_counts counts() const { return core.counts(); }
};

}  // namespace caravan::test
