#define CAF_SUITE queue_image
#include "actors/queue/queue_core.hpp"

#include <caf/test/unit_test.hpp>

#include <map>
#include <string>

using namespace caravan;
using namespace std::chrono_literals;

namespace {

using order = std::vector<std::uint64_t>;

/// A queue with its rows, on one node or the next.
struct place {
  std::map<std::uint64_t, record> rows;
  instant now{std::chrono::steady_clock::time_point{} + 1h, wall_time{} + std::chrono::hours{24 * 365 * 55}};
  std::unique_ptr<queue_core> core;
  queue_effects fx;
  std::vector<batch> sent;
  std::ptrdiff_t room = 0;
  std::uint64_t last = 0;

  static config::queue_settings settings() {
    config::queue_settings s;
    s.name = "q";
    s.batch_length = 2;
    s.lease = 30s;
    s.requeue_delay = 1s;
    return s;
  }
  void begin(const queue_image* from = nullptr) {
    storage_counts c;
    for (const auto& [id, r] : rows) {
      if (r.state == record_state::waiting) ++c.waiting;
      if (r.state == record_state::delayed) ++c.delayed;
      if (r.state == record_state::dead) ++c.dead;
      c.last = std::max(c.last, r.id);
    }
    last = std::max(last, c.last.value);
    room = -static_cast<std::ptrdiff_t>(c.waiting + c.delayed);
    core = std::make_unique<queue_core>(settings(), c, 100, 7);
    if (from) core->restore(*from, now, fx);
    core->on_start(now, fx);
    carry_out();
  }
  void carry_out() {
    for (;;) {
      for (const auto& m : fx.move) rows[m.to.id.value] = m.to;
      for (const auto& e : fx.erase) rows.erase(e.id.value);
      for (auto& o : fx.send) sent.push_back(std::move(o.work));
      room += fx.room;
      const auto loads = std::exchange(fx.loads, {});
      fx = {};
      if (loads.empty()) break;
      for (const auto& l : loads) {
        std::vector<record> found;
        for (const auto& [id, r] : rows)
          if (r.state == l.state &&
              std::pair(r.due, r.id) >
                  std::pair(l.state == record_state::delayed ? l.after.sort : wall_time{}, l.after.id) &&
              found.size() < l.max)
            found.push_back(r);
        std::sort(found.begin(), found.end(),
                  [](const auto& a, const auto& b) { return std::pair(a.due, a.id) < std::pair(b.due, b.id); });
        core->on_loaded(l.generation, l.state, std::move(found), now, fx);
      }
    }
    const auto c = core->counts();
    CAF_CHECK_EQUAL(-room, static_cast<std::ptrdiff_t>(c.waiting + c.delayed));
  }
  void push(std::size_t n, std::chrono::milliseconds delay = 0ms) {
    std::vector<record> records(n);
    for (auto& r : records) {
      r.id = item_id{++last};
      r.payload = std::to_string(last);
      if (delay > 0ms) {
        r.state = record_state::delayed;
        r.due = now.wall + delay;
      }
      rows[last] = r;
    }
    room -= static_cast<std::ptrdiff_t>(n);
    core->on_appended(records, now, fx);
    carry_out();
  }
  void want(pool_id pool, std::uint32_t idle) {
    core->on_demand({pool, idle, 0}, now, fx);
    carry_out();
  }
  void attach(pool_id pool, std::uint32_t idle) {
    core->on_attach(pool, pool_kind::remote, now, fx);
    want(pool, idle);
  }
  void done(pool_id pool, std::uint64_t token, batch_result rest = {}, std::uint32_t idle = 0) {
    core->on_done({pool, token, std::move(rest), false, idle, 0}, now, fx);
    carry_out();
  }
  void pass(std::chrono::milliseconds t) {
    now.steady += t;
    now.wall += t;
    core->on_tick(now, fx);
    carry_out();
  }
  queue_image leave() {
    core->freeze(now, fx);
    carry_out();
    return core->image(now);
  }
};

place moved(place& from) {
  const auto image = from.leave();
  place to;
  to.now = from.now;
  to.now.steady += 100h;  // another machine
  to.rows = from.rows;
  to.begin(&image);
  return to;
}

order ids_of(const batch& b) {
  order ids;
  for (const auto& r : *b.items) ids.push_back(r.id.value);
  return ids;
}

order all_sent(const place& p) {
  order ids;
  for (const auto& b : p.sent)
    for (const auto& r : *b.items) ids.push_back(r.id.value);
  return ids;
}

}  // namespace

CAF_TEST(what runs goes on under its lease and its answer counts at the new place) {
  place a;
  a.begin();
  a.push(5);
  a.attach(1, 1);
  CAF_REQUIRE_EQUAL(a.sent.size(), 1u);
  const auto token = a.sent[0].token;
  auto b = moved(a);
  CAF_CHECK_EQUAL(b.core->counts().running, 2u);
  CAF_CHECK_EQUAL(b.core->counts().waiting, 3u);
  CAF_CHECK(b.sent.empty());  // the pool has no room that it told of
  b.done(1, token, {}, 2);
  CAF_CHECK_EQUAL(b.core->counts().totals.handled, 2u);
  CAF_CHECK_EQUAL(b.core->counts().totals.stale_answers, 0u);
  CAF_CHECK(all_sent(b) == (order{3, 4, 5}));
  CAF_CHECK(b.sent[0].token > token);
  CAF_CHECK(!b.rows.contains(1));
  for (const auto& s : std::vector<batch>(b.sent)) b.done(1, s.token);
  CAF_CHECK(b.rows.empty());
  CAF_CHECK_EQUAL(b.core->counts().totals.handled, 5u);
}

CAF_TEST(a demand that was told before the move is served after it) {
  place a;
  a.begin();
  a.attach(1, 3);
  auto b = moved(a);
  b.push(2);
  CAF_REQUIRE_EQUAL(b.sent.size(), 1u);
  CAF_CHECK(ids_of(b.sent[0]) == (order{1, 2}));
}

CAF_TEST(nothing is handed out between freeze and restore) {
  place a;
  a.begin();
  a.attach(1, 5);
  a.core->freeze(a.now, a.fx);
  a.push(4);
  CAF_CHECK(a.sent.empty());
}

CAF_TEST(a lease that nobody renews ends at the new place) {
  place a;
  a.begin();
  a.push(2);
  a.attach(1, 1);
  auto b = moved(a);
  b.attach(2, 1);
  b.pass(29s);
  CAF_CHECK(b.sent.empty());
  b.core->on_renew({1, {a.sent[0].token}}, b.now, b.fx);
  b.carry_out();
  b.pass(29s);
  CAF_CHECK(b.sent.empty());
  b.pass(2s);
  CAF_CHECK(all_sent(b) == (order{1, 2}));
  // And the late answer of the old one is refused.
  b.done(1, a.sent[0].token);
  CAF_CHECK_EQUAL(b.core->counts().totals.stale_answers, 1u);
}

CAF_TEST(items whose time came and that run are not read again as delayed ones) {
  place a;
  a.begin();
  a.push(2, 1min);
  a.push(1);
  a.attach(1, 1);
  a.done(1, a.sent[0].token);  // the one that did not wait
  a.pass(61s);
  a.want(1, 1);
  CAF_REQUIRE_EQUAL(a.sent.size(), 2u);
  CAF_CHECK(ids_of(a.sent[1]) == (order{1, 2}));
  auto b = moved(a);
  b.attach(2, 5);
  b.pass(1s);
  CAF_CHECK(b.sent.empty());
  b.done(1, a.sent[1].token);
  CAF_CHECK(b.rows.empty());
  CAF_CHECK_EQUAL(b.core->counts().totals.handled, 3u);
}

CAF_TEST(a batch that came back as a whole keeps its pause) {
  place a;
  a.begin();
  a.push(2);
  a.attach(1, 1);
  a.done(1, a.sent[0].token, whole_batch(2, item_outcome::kind::unhandled, ""));
  auto b = moved(a);
  b.attach(2, 1);
  b.pass(500ms);
  CAF_CHECK(b.sent.empty());
  b.pass(600ms);
  CAF_CHECK(all_sent(b) == (order{1, 2}));
  b.done(2, b.sent[0].token);
  CAF_CHECK(b.rows.empty());
}

CAF_TEST(phase and pause and totals and what has ended come along) {
  place a;
  a.begin();
  a.push(3);
  a.attach(1, 1);
  a.done(1, a.sent[0].token);
  const auto until = a.now.wall + 1h;
  CAF_CHECK(a.core->pause(until, a.now, a.fx));
  a.carry_out();
  auto b = moved(a);
  CAF_CHECK(b.core->phase() == queue_phase::paused);
  CAF_CHECK(b.core->paused_until() == until);
  CAF_CHECK_EQUAL(b.core->counts().totals.handled, 2u);
  CAF_CHECK(b.core->find_finished(item_id{1}).has_value());
  b.want(1, 5);
  CAF_CHECK(b.sent.empty());
  b.pass(61min);
  CAF_CHECK(all_sent(b) == (order{3}));
}

CAF_TEST(order is kept over several moves) {
  place a;
  a.begin();
  a.push(9);
  a.attach(1, 1);
  auto b = moved(a);
  b.done(1, a.sent[0].token, whole_batch(2, item_outcome::kind::failed, "no", 10s), 1);
  CAF_CHECK(all_sent(b) == (order{3, 4}));
  auto c = moved(b);
  c.push(1);
  c.done(1, b.sent[0].token, {}, 9);
  CAF_CHECK(all_sent(c) == (order{5, 6, 7, 8, 9, 10}));
  c.pass(11s);
  CAF_CHECK(all_sent(c) == (order{5, 6, 7, 8, 9, 10, 1, 2}));
}
