#define CAF_SUITE queue_core
#include "tests/support/queue_desk.hpp"

#include <algorithm>
#include <iostream>
#include <numeric>

#include "caf/test/unit_test.hpp"

using namespace caravan;
using namespace std::chrono_literals;
using kind = item_outcome::kind;
using namespace caravan::test;

namespace {

void scenario(const char* id) { std::cout << "scenario " << id << "\n"; }

}  // namespace

// ---- dispatch ----

CAF_TEST(nothing leaves before a pool asks) {
  desk q;
  q.push(3);
  q.attach(1);
  CAF_CHECK(q.sent.empty());
  q.want(1, 1);
  CAF_CHECK_EQUAL(q.next().items, (ids{1, 2, 3}));
  CAF_CHECK_EQUAL(q.counts().running, 3u);
}

CAF_TEST(a pool never gets more batches than it asked for) {
  scenario("QUEUE-120");
  // Prefetch counts batches here, not items.
  desk q{plain(1)};
  q.push(5);
  q.pool(1, 2);
  CAF_CHECK_EQUAL(q.sent.size(), 2u);
  q.pass(1min);
  CAF_CHECK_EQUAL(q.sent.size(), 2u);
}

CAF_TEST(while a worker is idle an item leaves at once and while all are busy items gather) {
  desk q{plain(3)};
  q.pool(1, 1);
  q.push(1);
  const auto first = q.next();
  CAF_CHECK_EQUAL(first.items, (ids{2 - 1}));
  for (int i = 0; i < 5; ++i) q.push(1);
  CAF_CHECK(q.sent.empty());
  q.done(first);
  CAF_CHECK_EQUAL(q.next().items, (ids{2, 3, 4}));
}

CAF_TEST(prefetch takes full batches only) {
  desk q{plain(3)};
  q.attach(1);
  q.want(1, 0, 2);
  q.push(2);
  q.pass(10s);
  CAF_CHECK(q.sent.empty());
  q.push(1);
  CAF_CHECK_EQUAL(q.next().items, (ids{1, 2, 3}));
  q.push(5);
  CAF_CHECK_EQUAL(q.next().items, (ids{4, 5, 6}));
  CAF_CHECK(q.sent.empty());
}

CAF_TEST(a fixed debounce holds a batch for its time or until it is full) {
  scenario("QUEUE-036");
  auto s = plain(10);
  s.batch_debounce = 100ms;
  desk q{s};
  q.pool(1, 2);
  q.push(3);
  q.pass(99ms);
  CAF_CHECK(q.sent.empty());
  q.pass(1ms);
  CAF_CHECK_EQUAL(q.next().items.size(), 3u);
  q.push(10);
  CAF_CHECK_EQUAL(q.next().items.size(), 10u);
}

CAF_TEST(gathered items without a worker do not keep the queue awake) {
  auto s = plain(10);
  s.batch_debounce = 100ms;
  desk q{s};
  q.push(3);
  q.pass(10s);
  CAF_CHECK(!q.core.next_wake(q.now));
  q.push(1);
  q.pool(1, 1);
  CAF_CHECK_EQUAL(q.next().items.size(), 4u);
  // Nor does a pause in the middle of gathering.
  q.want(1, 1);
  q.push(1);
  CAF_REQUIRE(q.core.pause({}, q.now, q.fx));
  q.pass(10s);
  CAF_CHECK(!q.core.next_wake(q.now));
}

CAF_TEST(an idle queue asks for no wake) {
  desk q;
  q.pool(1, 4);
  CAF_CHECK(!q.core.next_wake(q.now));
  q.push(1);
  q.done(q.next());
  CAF_CHECK(!q.core.next_wake(q.now));
}

CAF_TEST(work goes by free capacity and in turn where that is equal) {
  desk q{plain(1)};
  q.pool(1, 1);
  q.pool(2, 3);
  q.pool(3, 1);
  q.push(5);
  std::vector<pool_id> to;
  for (const auto& s : q.sent) to.push_back(s.pool);
  CAF_CHECK_EQUAL(to, (std::vector<pool_id>{2, 2, 1, 3, 2}));
  q.sent.clear();
  to.clear();
  q.want(1, 1), q.want(2, 1), q.want(3, 1);
  for (int round = 0; round < 6; ++round) {
    q.push(1);
    const auto s = q.next();
    to.push_back(s.pool);
    q.done(s);
  }
  for (pool_id p = 1; p <= 3; ++p) CAF_CHECK_EQUAL(std::count(to.begin(), to.end(), p), 2);
}

CAF_TEST(a demand of a pool that is not attached counts nothing and attaching counts from zero) {
  desk q{plain(1)};
  q.want(9, 5);
  q.push(3);
  CAF_CHECK(q.sent.empty());
  q.pool(1, 1);
  CAF_CHECK_EQUAL(q.sent.size(), 1u);
  q.attach(2);
  q.core.on_demand({2, 0, 0}, q.now, q.fx);
  q.note();
  q.purge(record_state::waiting);
  q.want(2, 7);
  q.attach(2);  // anew: the pool forgot what it asked for
  q.push(3);
  CAF_CHECK_EQUAL(q.sent.size(), 1u);
}

CAF_TEST(lease tokens only grow and a batch carries its lease) {
  scenario("QUEUE-060");
  desk q{plain(1)};
  q.pool(1, 3, pool_kind::remote);
  q.push(3);
  CAF_REQUIRE_EQUAL(q.sent.size(), 3u);
  CAF_CHECK(q.sent[0].token < q.sent[1].token && q.sent[1].token < q.sent[2].token);
  CAF_CHECK(q.core.is_running({1}));
  CAF_CHECK_EQUAL(*q.core.next_wake(q.now) - q.now.steady, 30s);
}

// ---- outcomes ----

CAF_TEST(handled items are erased and remembered) {
  desk q;
  q.pool(1, 1);
  q.push(2);
  q.done(q.next());
  CAF_CHECK_EQUAL(q.erased, (ids{1, 2}));
  CAF_CHECK_EQUAL(q.counts().totals.handled, 2u);
  CAF_REQUIRE(q.core.find_finished({2}));
  CAF_CHECK(q.core.find_finished({2})->what == finished_item::kind::handled);
  CAF_CHECK(!q.core.find_finished({3}));
}

CAF_TEST(partly unhandled items come back at once and in front) {
  scenario("QUEUE-025 QUEUE-104");
  auto s = plain(2);
  s.requeue_delay = 5s;
  desk q{s};
  q.pool(1, 1);
  q.push(1);
  auto b = q.next();
  q.push(4);
  q.done(b);
  b = q.next();
  CAF_CHECK_EQUAL(b.items, (ids{2, 3}));
  q.done(b, {{1, kind::unhandled, {}, 0ms}});
  CAF_CHECK_EQUAL(q.next().items, (ids{3, 4}));
}

CAF_TEST(a batch that was not handled at all comes again after the requeue delay) {
  scenario("QUEUE-024");
  auto s = plain(2);
  s.requeue_delay = 300ms;
  desk q{s};
  q.pool(1, 1);
  q.push(2);
  q.all(q.next(), kind::unhandled);
  q.pass(299ms);
  CAF_CHECK(q.sent.empty());
  CAF_CHECK_EQUAL(q.counts().waiting, 2u);
  q.pass(1ms);
  CAF_CHECK_EQUAL(q.next().items, (ids{1, 2}));
}

CAF_TEST(even items unhandled the first time are handled twice and odd ones once) {
  scenario("QUEUE-022");
  auto s = plain(3);
  s.requeue_delay = 0ms;
  desk q{s};
  q.push(100);
  std::map<std::uint64_t, int> seen;
  q.pool(1, 1);
  q.flush(1min);
  for (int n = 0; n < 1000 && !q.sent.empty(); ++n) {
    const auto b = q.next();
    batch_result rest;
    for (std::uint32_t i = 0; i < b.items.size(); ++i)
      if (++seen[b.items[i]] == 1 && b.items[i] % 2 == 0) rest.push_back({i, kind::unhandled, {}, 0ms});
    q.done(b, rest);
  }
  for (const auto& [id, n] : seen) CAF_CHECK_EQUAL(n, id % 2 == 0 ? 2 : 1);
  CAF_CHECK_EQUAL(seen.size(), 100u);
  CAF_CHECK_EQUAL(q.flushed.size(), 1u);
}

CAF_TEST(failed attempts wait longer each time with jitter within bounds) {
  // 1 s, 2 s, 4 s ... 1 h, each between half and the whole: asynq waits n^4 + 15 s instead (QUEUE-070).
  desk q{plain(1)};
  q.pool(1, 1);
  q.push(1);
  std::set<std::int64_t> seen;
  for (std::uint32_t attempt = 1; attempt <= 16; ++attempt) {
    q.moved.clear();
    q.all(q.next(), kind::failed);
    CAF_REQUIRE_EQUAL(q.moved.size(), 1u);
    const auto& to = q.moved.front().to;
    CAF_CHECK(to.state == record_state::delayed);
    CAF_CHECK_EQUAL(to.attempts, attempt);
    CAF_CHECK_EQUAL(to.last_error, "why");
    const auto full = std::min<std::int64_t>(1000ll << (attempt - 1), 3'600'000);
    const auto wait = (to.due - q.now.wall).count();
    CAF_CHECK(wait >= full / 2 && wait <= full);
    seen.insert(full - wait);
    q.pass(std::chrono::milliseconds{wait - 1});
    CAF_CHECK(q.sent.empty());
    q.pass(1ms);
  }
  CAF_CHECK(seen.size() > 5);
}

CAF_TEST(a target that names its delay gets it) {
  desk q;
  q.pool(1, 1);
  q.push(1);
  q.all(q.next(), kind::failed, 7s);
  q.pass(6999ms);
  CAF_CHECK(q.sent.empty());
  q.pass(1ms);
  CAF_CHECK_EQUAL(q.sent.size(), 1u);
}

CAF_TEST(an item is dead after its last attempt) {
  scenario("QUEUE-113 QUEUE-072");
  // The unique key is free as soon as the item is dead, not when a time of its own ends.
  auto s = plain(1);
  s.max_attempts = 5;
  desk q{s};
  q.pool(1, 1);
  q.push(1);
  for (int i = 0; i < 5; ++i) {
    q.all(q.next(), kind::failed);
    q.pass(1h);
  }
  CAF_CHECK(q.sent.empty());
  CAF_CHECK_EQUAL(q.counts().dead, 1u);
  CAF_CHECK(q.moved.back().to.state == record_state::dead);
  CAF_CHECK_EQUAL(q.moved.back().to.attempts, 5u);
}

CAF_TEST(an item with its own limit dies by that and unhandled counts too) {
  auto s = plain(1);
  s.max_attempts = 10;
  s.requeue_delay = 0ms;
  desk q{s};
  q.attach(1);
  std::vector<record> r(1);
  r[0] = desk::row(1);
  r[0].max_attempts = 2;
  q.outstanding += 1;
  q.core.on_appended(r, q.now, q.fx);
  q.note();
  q.want(1, 1);
  q.all(q.next(), kind::unhandled);
  q.all(q.next(), kind::unhandled);
  CAF_CHECK(q.sent.empty());
  CAF_CHECK_EQUAL(q.counts().dead, 1u);
}

CAF_TEST(a rejected item is dead at once) {
  desk q{plain(1)};
  q.pool(1, 1);
  q.push(1);
  q.all(q.next(), kind::rejected);
  CAF_CHECK_EQUAL(q.counts().dead, 1u);
  CAF_CHECK_EQUAL(q.counts().totals.died, 1u);
}

CAF_TEST(not now counts no attempt) {
  scenario("QUEUE-069 QUEUE-110");
  auto s = plain(1);
  s.max_attempts = 1;
  desk q{s};
  q.pool(1, 1);
  q.push(1);
  q.all(q.next(), kind::later, 500ms);
  CAF_CHECK_EQUAL(q.moved.back().to.attempts, 0u);
  CAF_CHECK_EQUAL(q.counts().delayed, 1u);
  q.pass(499ms);
  CAF_CHECK(q.sent.empty());
  q.pass(1ms);
  q.all(q.next(), kind::later);  // without a delay: the queue's own
  q.pass(999ms);
  CAF_CHECK(q.sent.empty());
  q.pass(1ms);
  CAF_CHECK_EQUAL(q.sent.size(), 1u);
}

CAF_TEST(handed back items count no attempt and are next in line) {
  scenario("QUEUE-076");
  auto s = plain(2);
  s.max_attempts = 1;
  desk q{s};
  q.pool(1, 1);
  q.push(2);
  const auto b = q.next();
  q.push(1);
  q.done(b, whole_batch(2, kind::unhandled, {}), 0, true);
  q.pool(2, 1);
  const auto again = q.next();
  CAF_CHECK_EQUAL(again.items, (ids{1, 2}));
  CAF_CHECK_EQUAL((*again.records)[0].attempts, 0u);
}

CAF_TEST(the attempt count reads one more with each delivery that was refused) {
  scenario("QUEUE-108");
  // Attempts count ended ones, so it reads 0 at the first delivery where NATS says 1.
  auto s = plain(1);
  s.requeue_delay = 0ms;
  desk q{s};
  q.pool(1, 1);
  q.push(1);
  for (std::uint32_t n = 0; n < 10; ++n) {
    const auto b = q.next();
    CAF_CHECK_EQUAL(b.items, (ids{1}));
    CAF_CHECK_EQUAL((*b.records)[0].attempts, n);
    q.all(b, kind::unhandled);
  }
}

CAF_TEST(nonsense in an answer changes nothing) {
  desk q{plain(2)};
  q.pool(1, 1);
  q.push(2);
  q.done(q.next(), {{7, kind::failed, "no such item", 0ms}, {1, kind::rejected, "first", 0ms}, {1, kind::unhandled, "second", 0ms}});
  CAF_CHECK_EQUAL(q.counts().totals.handled, 1u);
  CAF_CHECK_EQUAL(q.counts().dead, 1u);
  CAF_CHECK_EQUAL(q.counts().waiting, 0u);
}

CAF_TEST(an item that was acknowledged cannot be refused afterwards) {
  scenario("QUEUE-112");
  desk q{plain(1)};
  q.pool(1, 1);
  q.push(1);
  const auto b = q.next();
  q.done(b);
  q.all(b, kind::unhandled);
  q.done({1, 4711, {}, {}}, whole_batch(1, kind::unhandled, {}));
  q.pass(1min);
  CAF_CHECK(q.sent.empty());
  CAF_CHECK_EQUAL(q.counts().totals.stale_answers, 2u);
}

// ---- leases ----

CAF_TEST(items of a pool that is gone go to another at once) {
  scenario("QUEUE-083 QUEUE-118");
  desk q{plain(3)};
  q.pool(1, 1);
  q.push(3);
  q.next();
  q.push(3);
  q.pool(2, 1);
  q.next();
  q.want(2, 1);
  q.detach(1);
  CAF_CHECK_EQUAL(q.next().items, (ids{1, 2, 3}));
  CAF_CHECK_EQUAL(q.counts().totals.leases_lost, 1u);
  CAF_CHECK_EQUAL(q.counts().totals.redelivered, 3u);
}

CAF_TEST(a lease that runs out gives its items to another pool) {
  scenario("QUEUE-079 QUEUE-103");
  desk q{plain(3)};
  q.pool(1, 1, pool_kind::remote);
  q.push(3);
  q.next();
  q.pool(2, 1);
  q.pass(29'999ms);
  CAF_CHECK(q.sent.empty());
  q.pass(1ms);
  const auto again = q.next();
  CAF_CHECK_EQUAL(again.pool, 2u);
  CAF_CHECK_EQUAL(again.items, (ids{1, 2, 3}));
}

CAF_TEST(a local pool needs no renewal) {
  desk q;
  q.pool(1, 1);
  q.push(1);
  q.next();
  q.pool(2, 1);
  q.pass(1h);
  CAF_CHECK(q.sent.empty());
}

CAF_TEST(a renewal extends a lease from its own time and only what is still leased) {
  scenario("QUEUE-061 QUEUE-081 QUEUE-065");
  desk q{plain(1)};
  q.pool(1, 2, pool_kind::remote);
  q.push(2);
  const auto a = q.next();
  const auto b = q.next();
  q.pass(10s);
  q.renew(a);
  q.core.on_renew({2, {b.token}}, q.now, q.fx);  // another pool cannot
  q.pool(3, 2);
  q.pass(20s);
  const auto again = q.next();
  CAF_CHECK_EQUAL(again.items, b.items);  // only the one that ran out
  CAF_CHECK(q.sent.empty());
  q.renew(b);                             // too late: it is lost
  CAF_CHECK_EQUAL(q.counts().totals.leases_lost, 1u);
  q.pass(9'999ms);
  CAF_CHECK(q.sent.empty());
  q.pass(1ms);
  CAF_CHECK_EQUAL(q.next().items, a.items);
}

CAF_TEST(a silent pool gets nothing and keeps its demand for when it is heard of again) {
  desk q{plain(1)};
  q.pool(1, 3, pool_kind::remote);
  q.push(1);
  const auto b = q.next();
  q.pass(30s);
  CAF_CHECK(q.sent.empty());  // back in line, not to the same silent pool
  q.push(2);
  CAF_CHECK(q.sent.empty());
  q.core.on_renew({1, {b.token}}, q.now, q.fx);
  q.note();
  CAF_CHECK_EQUAL(q.sent.size(), 2u);  // the two it asked for
  q.done(b);
  CAF_CHECK_EQUAL(q.sent.size(), 3u);
}

CAF_TEST(a late answer counts unless the item was started again) {
  scenario("QUEUE-111");
  desk q{plain(2)};
  q.pool(1, 1, pool_kind::remote);
  q.push(2);
  const auto b = q.next();
  q.pass(30s);
  CAF_CHECK_EQUAL(q.counts().waiting, 2u);
  q.done(b, {{1, kind::unhandled, {}, 0ms}}, 0);
  CAF_CHECK_EQUAL(q.erased, (ids{1}));
  CAF_CHECK_EQUAL(q.counts().totals.stale_answers, 0u);
  q.pool(2, 1);
  CAF_CHECK_EQUAL(q.next().items, (ids{2}));
  q.done(b, {}, 0);  // a second time: unknown now
  CAF_CHECK_EQUAL(q.counts().totals.stale_answers, 1u);
}

CAF_TEST(a late answer is refused once the item was started again whatever became of it) {
  for (const auto what : {kind::failed, kind::unhandled, kind::later, kind::rejected}) {
    auto s = plain(1);
    s.requeue_delay = 10s;
    desk q{s};
    q.pool(1, 1, pool_kind::remote);
    q.push(1);
    const auto old = q.next();
    q.pass(30s);
    q.pool(2, 1);
    q.all(q.next(), what, 10s);
    q.done(old, {}, 0);
    CAF_CHECK_EQUAL(q.counts().totals.stale_answers, 1u);
    CAF_CHECK_EQUAL(q.counts().totals.handled, 0u);
    const auto c = q.counts();
    CAF_CHECK_EQUAL(c.waiting + c.delayed + c.dead, 1u);
  }
}

CAF_TEST(lost leases beyond the limit are forgotten and their late answers are refused) {
  queue_core::limits l;
  l.lost = 2;
  desk q{plain(1), {}, l};
  q.pool(1, 3);
  q.push(3);
  const auto a = q.next();
  q.next();
  const auto c = q.next();
  q.detach(1);
  q.done(a, {}, 0);
  CAF_CHECK_EQUAL(q.counts().totals.stale_answers, 1u);
  q.done(c, {}, 0);
  CAF_CHECK_EQUAL(q.erased, (ids{3}));
}

CAF_TEST(a report is answered with what did not count) {
  desk q(plain(1));
  q.pool(1, 3, pool_kind::remote);
  q.pool(2, 0, pool_kind::remote);
  q.push(3);
  const auto a = q.next(), b = q.next(), c = q.next();
  const auto report = [&](report_batches r) {
    auto said = q.core.on_report(r, q.now, q.fx);
    q.note();
    return said;
  };
  using tokens = std::vector<std::uint64_t>;
  auto said = report({1, {{1, a.token, {}, false, 0, 0}}, {}, {b.token, 999}});
  CAF_CHECK(said.attached);
  CAF_CHECK(said.refused == tokens{999});
  CAF_CHECK_EQUAL(q.erased, (ids{1}));
  said = report({1, {{1, a.token, {}, false, 0, 0}}, {}, {}});
  CAF_CHECK(said.refused == tokens{a.token});
  said = report({2, {{2, b.token, {}, false, 0, 0}}, {c.token}, {c.token}});  // not this pool's
  CAF_CHECK((said.refused == tokens{b.token, c.token}));
  CAF_CHECK_EQUAL(q.counts().running, 2u);
  (void)report({1, {}, {b.token}, {c.token}});
  CAF_CHECK_EQUAL(q.counts().running, 1u);
  CAF_CHECK_EQUAL(q.counts().totals.leases_lost, 1u);
  CAF_CHECK(!report({3, {}, {}, {}}).attached);
}

CAF_TEST(a demand may limit the size of batches and replace what was asked for before) {
  desk q;
  q.attach(1);
  q.core.on_demand({1, 3, 0, 1}, q.now, q.fx);
  q.note();
  q.push(1);
  CAF_CHECK_EQUAL(q.next().items, (ids{1}));
  q.core.on_demand({1, 1, 0, 1, true}, q.now, q.fx);
  q.note();
  q.push(3);
  CAF_CHECK_EQUAL(q.next().items, (ids{2}));
  CAF_CHECK(q.sent.empty());
  CAF_CHECK_EQUAL(q.counts().waiting, 2u);
}

CAF_TEST(a pool that attaches anew keeps its leases and renews them by that) {
  desk q{plain(1)};
  q.pool(1, 1);
  q.push(1);
  const auto b = q.next();
  q.pass(50s);
  q.attach(1, pool_kind::remote);
  q.pass(29s);
  CAF_CHECK_EQUAL(q.counts().running, 1u);
  q.pass(1s);
  CAF_CHECK_EQUAL(q.counts().running, 0u);
  q.done(b);
  CAF_CHECK_EQUAL(q.erased, (ids{1}));
}

// ---- delays and clocks ----

CAF_TEST(a delayed item becomes ready at its time) {
  scenario("QUEUE-085");
  desk q;
  q.pool(1, 1);
  q.push(1, 1s);
  CAF_CHECK_EQUAL(q.counts().delayed, 1u);
  q.pass(999ms);
  CAF_CHECK(q.sent.empty());
  q.pass(1ms);
  CAF_CHECK_EQUAL(q.next().items, (ids{1}));
}

CAF_TEST(delayed items with random due times come each at its own) {
  std::mt19937 random{3};
  desk q{plain(1)};
  q.pool(1, 200);
  std::map<std::uint64_t, wall_time> due;
  for (int i = 0; i < 200; ++i) {
    const std::chrono::milliseconds d{1 + random() % 60'000};
    due[q.push(1, d).front()] = q.now.wall + d;
  }
  std::size_t seen = 0;
  for (int i = 0; i < 60'000; ++i) {
    q.pass(1ms);
    for (const auto& s : q.sent) {
      CAF_CHECK(due[s.items.front()] == q.now.wall);
      ++seen;
    }
    q.sent.clear();
  }
  CAF_CHECK_EQUAL(seen, 200u);
}

CAF_TEST(delayed items follow the wall clock when it is set) {
  desk q{plain(1)};
  q.pool(1, 3);
  q.push(1, 10min);
  q.now.wall += 10min;  // set forward: noticed within half a minute
  q.pass(30s);
  CAF_CHECK_EQUAL(q.sent.size(), 1u);
  q.push(1, 10s);
  q.now.wall -= 1h;  // set back: it waits for its wall time
  q.pass(59min);
  CAF_CHECK_EQUAL(q.sent.size(), 1u);
  q.pass(2min);
  CAF_CHECK_EQUAL(q.sent.size(), 2u);
}

CAF_TEST(due items keep their place by id among the waiting ones) {
  desk q{plain(2)};
  q.push(1, 1s);
  q.push(3);
  q.pass(1s);
  q.tick();
  q.pool(1, 1);
  CAF_CHECK_EQUAL(q.next().items, (ids{1, 2}));
}

// ---- pause ----

CAF_TEST(a paused queue hands out nothing until it is resumed) {
  scenario("QUEUE-074");
  desk q;
  q.pool(1, 1);
  CAF_CHECK(q.core.pause({}, q.now, q.fx));
  q.push(1);
  q.pass(1h);
  CAF_CHECK(q.sent.empty());
  CAF_CHECK(!q.core.next_wake(q.now));
  CAF_CHECK(q.core.resume(q.now, q.fx));
  q.note();
  CAF_CHECK_EQUAL(q.sent.size(), 1u);
}

CAF_TEST(a pause with an end follows the wall clock) {
  desk q;
  q.pool(1, 2);
  CAF_CHECK(q.core.pause(q.now.wall + 5min, q.now, q.fx));
  q.push(1);
  q.pass(5min - 1ms);
  CAF_CHECK(q.sent.empty());
  q.pass(1ms);
  CAF_CHECK_EQUAL(q.sent.size(), 1u);
  CAF_CHECK(q.core.phase() == queue_phase::running);
  CAF_CHECK(q.core.pause(q.now.wall + 1h, q.now, q.fx));
  q.push(1);
  q.now.wall += 1h;
  q.pass(30s);
  CAF_CHECK_EQUAL(q.sent.size(), 2u);
  CAF_CHECK(q.core.pause(q.now.wall - 1s, q.now, q.fx));  // past already
  CAF_CHECK(q.core.phase() == queue_phase::running);
}

CAF_TEST(what runs goes on during a pause) {
  desk q;
  q.pool(1, 1);
  q.push(1);
  const auto b = q.next();
  CAF_CHECK(q.core.pause({}, q.now, q.fx));
  q.done(b);
  CAF_CHECK_EQUAL(q.erased.size(), 1u);
}

// ---- flush ----

CAF_TEST(a flush of an empty queue is answered at once) {
  desk q;
  q.flush(1s);
  CAF_REQUIRE_EQUAL(q.flushed.size(), 1u);
  CAF_CHECK(q.flushed[0].answer);
}

CAF_TEST(a flush waits for what waits and for what runs) {
  desk q{plain(1)};
  q.push(2);
  q.pool(1, 1);
  q.flush(1min, 1);
  q.flush(1min, 2);
  q.done(q.next());
  CAF_CHECK(q.flushed.empty());
  q.done(q.next());
  CAF_CHECK_EQUAL(q.flushed.size(), 2u);
  CAF_CHECK(!q.core.next_wake(q.now));
}

CAF_TEST(a flush waits for work that came back at once) {
  scenario("QUEUE-043");
  auto s = plain(1);
  s.requeue_delay = 0ms;
  desk q{s};
  q.push(1);
  q.pool(1, 1);
  q.flush(1min);
  q.all(q.next(), kind::unhandled);
  CAF_CHECK(q.flushed.empty());
  q.done(q.next());
  CAF_CHECK_EQUAL(q.flushed.size(), 1u);
}

CAF_TEST(a batch that failed as a whole does not come again during a flush) {
  desk q{plain(1)};
  q.push(2);
  q.pool(1, 1);
  q.flush(1min);
  q.all(q.next(), kind::unhandled);
  const auto second = q.next();
  q.pass(30s);
  CAF_CHECK(q.sent.empty());
  q.done(second);
  CAF_CHECK_EQUAL(q.flushed.size(), 1u);
  CAF_CHECK_EQUAL(q.next().items, (ids{1}));  // the flush is over
}

CAF_TEST(a flush that takes too long names the cause) {
  desk q;
  q.push(2);
  q.flush(2s);
  q.pass(1999ms);
  CAF_CHECK(q.flushed.empty());
  q.pass(1ms);
  CAF_REQUIRE_EQUAL(q.flushed.size(), 1u);
  CAF_REQUIRE(!q.flushed[0].answer);
  CAF_CHECK(q.flushed[0].answer.failure().code == errc::timed_out);
  CAF_CHECK_EQUAL(q.flushed[0].answer.failure().text,
                  "queue \"q\": the flush reached its timeout with 2 items waiting and 0 running; no worker pool is attached: give the queue a handler");
}

CAF_TEST(flushes are refused while paused and while stopping and end with a stop) {
  desk q;
  q.push(1);
  CAF_CHECK(q.core.pause({}, q.now, q.fx));
  q.flush(1s, 1);
  CAF_CHECK(q.flushed.back().answer.failure().code == errc::conflict);
  CAF_CHECK(q.core.resume(q.now, q.fx));
  q.flush(1s, 2);
  q.stop(queue_core::stop_mode::hand_back, 1s);
  CAF_CHECK(q.flushed.back().flush == 2 && q.flushed.back().answer.failure().code == errc::queue_closed);
  q.flush(1s, 3);
  CAF_CHECK(q.flushed.back().answer.failure().code == errc::queue_closed);
  CAF_CHECK_EQUAL(q.flushed.size(), 3u);
}

CAF_TEST(a flush ends when what it waited for is purged) {
  auto s = plain(1);
  desk q{s};
  q.pool(1, 1);
  q.push(3);
  q.flush(1min);
  const auto b = q.next();
  q.purge(record_state::waiting);
  CAF_CHECK(q.flushed.empty());
  q.all(b, kind::unhandled);
  CAF_CHECK_EQUAL(q.flushed.size(), 1u);
  CAF_CHECK(q.sent.empty());
}

CAF_TEST(a flush does not wait for a debounce) {
  auto s = plain(10);
  s.batch_debounce = 10s;
  desk q{s};
  q.pool(1, 1);
  q.push(1);
  CAF_CHECK(q.sent.empty());
  q.flush(1min);
  CAF_CHECK_EQUAL(q.sent.size(), 1u);
}

// ---- purge ----

CAF_TEST(a purge of what waits forgets all of it and nothing comes back from a handler) {
  scenario("QUEUE-013");
  desk q{plain(2)};
  q.pool(1, 1);
  q.push(2);
  const auto b = q.next();
  q.push(5);
  q.push(1, 1s);
  q.pass(1s);
  q.tick();
  q.push(2, 1h);
  CAF_CHECK_EQUAL(q.purge(record_state::waiting), 6u);
  CAF_CHECK(q.cleared == std::vector{record_state::waiting});
  CAF_CHECK_EQUAL(q.erased, (ids{8}));  // its row lies among the delayed ones
  CAF_CHECK_EQUAL(q.counts().delayed, 2u);
  q.done(b, {{0, kind::failed, "why", 0ms}}, 1);
  q.pass(30min);
  CAF_CHECK(q.sent.empty());
  CAF_CHECK_EQUAL(q.counts().totals.handled, 1u);
  CAF_CHECK_EQUAL(q.counts().totals.removed, 7u);
  CAF_CHECK(q.core.find_finished({1})->what == finished_item::kind::purged);
  q.push(1);
  CAF_CHECK_EQUAL(q.next().items, (ids{11}));
}

CAF_TEST(a purge of delayed items spares those whose time came) {
  desk q{plain(1)};
  q.pool(1, 1);
  q.push(3, 1s);
  q.push(2, 1h);
  q.pass(1s);
  const auto running = q.next();  // one in a handler, two due
  CAF_CHECK_EQUAL(q.purge(record_state::delayed), 2u);
  // Their rows would go with the state: they move first.
  CAF_REQUIRE_EQUAL(q.moved.size(), 3u);
  for (const auto& m : q.moved) CAF_CHECK(m.from.state == record_state::delayed && m.to.state == record_state::waiting);
  q.moved.clear();
  q.all(running, kind::unhandled);
  q.pass(1s);
  std::size_t handled = 0;
  for (; handled < 3 && !q.sent.empty(); ++handled) {
    const auto b = q.next();
    CAF_CHECK((*b.records)[0].state == record_state::waiting);
    q.done(b);
    q.pass(1s);
  }
  CAF_CHECK_EQUAL(handled, 3u);
  CAF_CHECK_EQUAL(q.counts().waiting + q.counts().delayed, 0u);
}

CAF_TEST(a purge of dead items forgets them) {
  desk q{plain(1), {0, 0, 3, {10}}};
  CAF_CHECK_EQUAL(q.counts().dead, 3u);
  CAF_CHECK_EQUAL(q.purge(record_state::dead), 3u);
  CAF_CHECK_EQUAL(q.counts().dead, 0u);
  CAF_CHECK(!q.retry(desk::row(1, record_state::dead)));
}

// ---- the end ----

CAF_TEST(a stop that hands back waits for what runs and hands out nothing) {
  desk q{plain(1)};
  q.pool(1, 1);
  q.push(3);
  const auto b = q.next();
  q.stop(queue_core::stop_mode::hand_back, 2s);
  CAF_CHECK(!q.stopped);
  q.done(b);
  CAF_CHECK(q.stopped && q.sent.empty());
  CAF_CHECK_EQUAL(q.counts().waiting, 2u);
  CAF_CHECK(!q.core.next_wake(q.now));
}

CAF_TEST(a stop does not wait longer than its deadline) {
  scenario("QUEUE-035");
  desk q{plain(1)};
  q.pool(1, 1);
  q.push(1);
  q.next();
  q.stop(queue_core::stop_mode::hand_back, 500ms);
  q.pass(499ms);
  CAF_CHECK(!q.stopped);
  q.pass(1ms);
  CAF_CHECK(q.stopped);
  CAF_CHECK(q.erased.empty());
}

CAF_TEST(a stop that runs the rest runs each item once) {
  auto s = plain(2);
  s.requeue_delay = 0ms;
  desk q{s};
  q.push(5);
  q.push(1, 1s);
  q.pool(1, 1);
  const auto first = q.next();
  q.core.stop(queue_core::stop_mode::run_rest, steady_point::max(), q.now, q.fx);
  q.note();
  q.all(first, kind::unhandled);
  q.all(q.next(), kind::failed);
  CAF_CHECK(!q.stopped);
  q.done(q.next());
  CAF_CHECK(q.stopped && q.sent.empty());
  CAF_CHECK_EQUAL(q.counts().waiting + q.counts().delayed, 5u);
}

CAF_TEST(a stop that runs the rest ends when nobody can run it) {
  desk q{plain(1)};
  q.push(2);
  q.pool(1, 1, pool_kind::remote);
  q.next();
  q.core.stop(queue_core::stop_mode::run_rest, steady_point::max(), q.now, q.fx);
  q.note();
  CAF_CHECK(!q.stopped);
  q.pass(30s);  // its only pool fell silent
  CAF_CHECK(q.stopped);
  desk none;
  none.push(1);
  none.core.stop(queue_core::stop_mode::run_rest, steady_point::max(), none.now, none.fx);
  none.note();
  CAF_CHECK(none.stopped);
  // Nor for items that the storage cannot give.
  desk unread{plain(1), {5, 0, 0, {5}}};
  unread.pool(1, 1);
  unread.core.stop(queue_core::stop_mode::run_rest, steady_point::max(), unread.now, unread.fx);
  unread.note();
  CAF_CHECK(!unread.stopped);
  unread.core.on_load_failed(unread.loads.back().generation, unread.now, unread.fx);
  unread.note();
  CAF_CHECK(unread.stopped);
  CAF_CHECK(!unread.core.next_wake(unread.now));
}

CAF_TEST(a drained queue hands out the rest and is stopped) {
  scenario("QUEUE-098");
  // Refusing pushes is the door's part: intake.close.
  desk q{plain(1)};
  q.push(2);
  q.push(1, 1h);
  q.pool(1, 1);
  CAF_CHECK(q.core.drain(q.now, q.fx));
  q.note();
  q.all(q.next(), kind::unhandled);
  q.done(q.next());
  CAF_CHECK(!q.stopped);  // one is postponed
  q.pass(1s);
  q.done(q.next());
  CAF_CHECK(q.stopped);
  CAF_CHECK_EQUAL(q.counts().delayed, 1u);
  CAF_CHECK(!q.core.resume(q.now, q.fx));
  CAF_CHECK(!q.core.drain(q.now, q.fx));
  CAF_CHECK(!q.core.pause({}, q.now, q.fx));
}

CAF_TEST(a draining queue can be resumed and not be paused) {
  desk q;
  q.push(1);
  CAF_CHECK(q.core.drain(q.now, q.fx));
  CAF_CHECK(!q.core.pause({}, q.now, q.fx));
  CAF_CHECK(q.core.resume(q.now, q.fx));
  CAF_CHECK(q.core.phase() == queue_phase::running && !q.fx.stopped);
}

// ---- retry and remove ----

CAF_TEST(a dead item that is retried waits at once and starts anew) {
  scenario("QUEUE-088 QUEUE-089");
  desk q{plain(1)};
  q.pool(1, 1);
  q.push(1);
  q.all(q.next(), kind::rejected);
  auto dead = q.moved.back().to;
  CAF_CHECK(q.retry(dead));
  CAF_CHECK_EQUAL(q.counts().dead, 0u);
  const auto b = q.next();
  CAF_CHECK_EQUAL((*b.records)[0].attempts, 0u);
  CAF_CHECK(!q.retry(dead));  // a handler has it
  q.done(b);
  CAF_CHECK(!q.retry(dead));  // gone
  CAF_CHECK_EQUAL(q.counts().waiting, 0u);
}

CAF_TEST(two retries of one dead item with the same old view move it once) {
  queue_core::limits l;
  l.window = 1;
  desk q{plain(1), {3, 0, 2, {10}}, l};  // the window is full or unread: memory does not hold the item
  auto dead = desk::row(9, record_state::dead);
  CAF_CHECK(q.retry(dead));
  const auto again = q.retry(dead);
  CAF_REQUIRE(!again);
  CAF_CHECK(again.failure().code == errc::conflict);
  CAF_CHECK_EQUAL(q.counts().dead, 1u);
  CAF_CHECK_EQUAL(q.counts().waiting, 4u);
  CAF_CHECK(!q.remove(dead));
  CAF_CHECK(q.remove(desk::row(9)));
  CAF_CHECK_EQUAL(q.counts().waiting, 3u);
}

CAF_TEST(items of every state can be retried and removed) {
  for (const bool retry : {true, false}) {
    desk q{plain(1)};
    q.push(1);                      // waiting
    q.push(1, 1h);                  // delayed
    q.push(1, 1s);                  // due
    q.pass(1s);
    q.tick();
    const auto change = [&](record r) { return retry ? q.retry(std::move(r)) : q.remove(std::move(r)); };
    CAF_CHECK(change(desk::row(1)));
    CAF_CHECK(change(desk::row(2, record_state::delayed, q.now.wall + 1h)));
    CAF_CHECK(change(desk::row(3, record_state::delayed)));
    CAF_CHECK_EQUAL(q.counts().waiting, retry ? 3u : 0u);
    CAF_CHECK_EQUAL(q.counts().delayed, 0u);
    if (!retry) {
      CAF_CHECK_EQUAL(q.erased, (ids{1, 2, 3}));
      CAF_CHECK_EQUAL(q.released, (ids{1, 2, 3}));  // their keys are free
      CAF_CHECK(q.core.find_finished({2})->what == finished_item::kind::removed);
    }
    // Postponed.
    q.pool(1, 1);
    q.purge(record_state::waiting);
    q.sent.clear();
    q.push(1);
    q.want(1, 1);
    q.all(q.sent.back(), kind::unhandled);
    q.sent.clear();
    CAF_CHECK(change(desk::row(4)));
    CAF_CHECK_EQUAL(q.sent.empty(), !retry);
  }
}

CAF_TEST(an item in a handler is neither retried nor removed) {
  scenario("QUEUE-099");
  desk q;
  q.pool(1, 1);
  q.push(1);
  CAF_CHECK(q.remove(desk::row(1)).failure().code == errc::conflict);
  CAF_CHECK(q.retry(desk::row(1)).failure().code == errc::conflict);
  q.done(q.next());
  CAF_CHECK_EQUAL(q.counts().totals.handled, 1u);
}

CAF_TEST(a view from before an item died does not bring it to life twice) {
  auto s = plain(1);
  s.max_attempts = 1;
  desk q{s};
  q.pool(1, 1);
  q.push(1);
  q.all(q.next(), kind::failed);
  CAF_CHECK(!q.retry(desk::row(1)));
  CAF_CHECK(!q.remove(desk::row(1)));
  CAF_CHECK_EQUAL(q.counts().waiting, 0u);
  CAF_CHECK_EQUAL(q.counts().dead, 1u);
}

// ---- reading what does not fit ----

CAF_TEST(items beyond the window are read when they are needed and come in order) {
  queue_core::limits l;
  l.window = 10;
  l.load = 4;
  desk q{plain(3), {}, l};
  q.push(100);
  CAF_CHECK_EQUAL(q.counts().waiting, 100u);
  q.pool(1, 1);
  std::uint64_t next = 1;
  std::set<std::uint64_t> gone;
  for (int round = 0; round < 500 && next <= 100; ++round) {
    for (const auto& load : std::exchange(q.loads, {})) {
      CAF_CHECK(load.max <= 4);
      std::vector<record> rows;
      for (auto id = load.after.id.value + 1; id <= 100 && rows.size() < load.max; ++id) rows.push_back(desk::row(id));
      q.loaded(load, rows);
    }
    if (q.sent.empty()) continue;
    const auto b = q.next();
    for (const auto id : b.items) CAF_CHECK_EQUAL(id, next++);
    q.done(b);
  }
  CAF_CHECK_EQUAL(next, 101u);
  CAF_CHECK_EQUAL(q.counts().waiting, 0u);
}

CAF_TEST(an item that a read sees before its announcement is handed out once) {
  desk q{plain(10), {2, 0, 0, {2}}};
  q.pool(1, 1);
  q.loaded(q.loads.back(), {desk::row(1), desk::row(2), desk::row(3)});
  const auto b = q.next();
  CAF_CHECK_EQUAL(b.items, (ids{1, 2}));
  q.last = 2;
  q.push(1);
  q.done(b);
  CAF_CHECK_EQUAL(q.next().items, (ids{3}));
  CAF_CHECK(q.sent.empty());
}

CAF_TEST(a read of rows that are all unannounced waits for their announcement) {
  queue_core::limits l;
  l.load = 2;
  desk q{plain(10), {0, 1, 0, {2}}, l};
  const auto first = q.loads.back();
  const auto soon = q.now.wall + 1s;
  q.loads.clear();
  q.loaded(first, {desk::row(3, record_state::delayed, soon), desk::row(4, record_state::delayed, soon)});
  CAF_CHECK(q.loads.empty());
  CAF_CHECK_EQUAL(q.counts().delayed, 1u);  // the one that was counted is still to be found
  q.last = 2;
  q.push(2, 1s);
  CAF_CHECK_EQUAL(q.loads.size(), 1u);
}

CAF_TEST(an item that was counted and announced is there once) {
  desk q{plain(10), {2, 0, 0, {2}}};
  std::vector<record> known{desk::row(2)};
  q.core.on_appended(known, q.now, q.fx);
  q.note();
  CAF_CHECK_EQUAL(q.counts().waiting, 2u);
}

CAF_TEST(rows that are gone are not counted for ever) {
  desk q{plain(10), {5, 0, 0, {5}}};
  q.pool(1, 1);
  q.loaded(q.loads.back(), {desk::row(2)});
  CAF_CHECK_EQUAL(q.counts().waiting, 4u);
  q.loaded(q.loads.back(), {});
  CAF_CHECK_EQUAL(q.counts().waiting, 0u);
  CAF_CHECK_EQUAL(q.outstanding, 0);  // and take up no room
  q.done(q.next());
  CAF_CHECK(!q.core.next_wake(q.now));
}

CAF_TEST(what comes while a read is under way is not lost behind its answer) {
  // A delayed item earlier than the rows of the answer, stored after the read.
  desk q{plain(10), {0, 3, 0, {10}}};
  const auto t = q.now.wall;
  const auto read = q.loads.back();
  q.push(1, 2s);
  q.loaded(read, {desk::row(8, record_state::delayed, t + 1s), desk::row(9, record_state::delayed, t + 3s), desk::row(10, record_state::delayed, t + 4s)});
  const auto next = q.loads.back();
  CAF_CHECK(next.generation > read.generation);
  CAF_CHECK(next.after.sort == t + 1s);  // the answer counted only up to the new item
  q.loaded(next, {desk::row(11, record_state::delayed, t + 2s), desk::row(9, record_state::delayed, t + 3s), desk::row(10, record_state::delayed, t + 4s)});
  q.pool(1, 1);
  q.pass(10s);
  ids seen;
  while (!q.sent.empty()) {
    const auto b = q.next();
    seen.insert(seen.end(), b.items.begin(), b.items.end());
    q.done(b);
  }
  std::sort(seen.begin(), seen.end());
  CAF_CHECK_EQUAL(seen, (ids{8, 9, 10, 11}));
}

CAF_TEST(an item removed while a read is under way does not come back with its answer) {
  desk q{plain(10), {3, 0, 0, {3}}};
  const auto read = q.loads.back();
  CAF_CHECK(q.remove(desk::row(2)));
  q.loaded(read, {desk::row(1), desk::row(2), desk::row(3)});
  q.loaded(q.loads.back(), {desk::row(3)});
  q.pool(1, 1);
  CAF_CHECK_EQUAL(q.next().items, (ids{1, 3}));
}

CAF_TEST(an answer from before a purge is void) {
  desk q{plain(10), {3, 0, 0, {3}}};
  const auto read = q.loads.back();
  CAF_CHECK_EQUAL(q.purge(record_state::waiting), 3u);
  q.loaded(read, {desk::row(1), desk::row(2), desk::row(3)});
  q.pool(1, 1);
  CAF_CHECK(q.sent.empty());
  CAF_CHECK_EQUAL(q.counts().waiting, 0u);
}

CAF_TEST(a purge of one state leaves a read of the other valid) {
  desk q{plain(10), {1, 1, 0, {3}}};
  CAF_REQUIRE_EQUAL(q.loads.size(), 2u);
  q.purge(record_state::delayed);
  q.loaded(q.loads[0], {desk::row(1)});
  q.pool(1, 1);
  CAF_CHECK_EQUAL(q.next().items, (ids{1}));
}

CAF_TEST(a failed read is asked for again after a while and the other one is not) {
  desk q{plain(10), {1, 1, 0, {3}}};
  CAF_REQUIRE_EQUAL(q.loads.size(), 2u);
  q.core.on_load_failed(q.loads[0].generation, q.now, q.fx);
  q.note();
  q.pass(999ms);
  CAF_CHECK_EQUAL(q.loads.size(), 2u);
  q.pass(1ms);
  CAF_REQUIRE_EQUAL(q.loads.size(), 3u);
  CAF_CHECK(q.loads[2].state == record_state::waiting);
  q.core.on_load_failed(q.loads[0].generation, q.now, q.fx);  // an old answer
  q.note();
  CAF_CHECK_EQUAL(q.loads.size(), 3u);
}

CAF_TEST(a window whose end fell back does not read again what is in a handler) {
  queue_core::limits l;
  l.window = 2;
  l.load = 10;
  desk q{plain(1), {0, 0, 10, {20}}, l};
  q.last = 20;
  q.push(2);
  q.pool(1, 2);
  CAF_CHECK_EQUAL(q.sent.size(), 2u);  // 21 and 22 run
  for (std::uint64_t id = 1; id <= 6; ++id) CAF_CHECK(q.retry(desk::row(id, record_state::dead)));
  for (const auto& load : q.loads) CAF_CHECK(load.after.id.value >= 22u);
}

// ---- low water and keys ----

CAF_TEST(the low water never rises above a waiting row that is not acknowledged) {
  desk q{plain(1)};
  q.pool(1, 3);
  q.push(5);
  const auto a = q.next(), b = q.next(), c = q.next();
  item_id low;
  const auto done = [&](const shipment& s, batch_result rest = {}) {
    q.core.on_done({1, s.token, std::move(rest), false, 0, 0}, q.now, q.fx);
    low = q.fx.low_water;
    q.note();
  };
  done(b);
  CAF_CHECK_EQUAL(low.value, 1u);
  done(a, whole_batch(1, kind::unhandled, {}));  // postponed
  done(c);
  CAF_CHECK_EQUAL(low.value, 1u);
  q.pass(1s);
  q.want(1, 3);
  while (!q.sent.empty()) done(q.next());
  CAF_CHECK_EQUAL(low.value, 6u);
}

CAF_TEST(the low water falls when an old dead item comes back in line) {
  desk q{plain(1), {0, 0, 1, {50}}};
  q.last = 50;
  q.push(1);
  CAF_CHECK(q.core.retry(desk::row(7, record_state::dead), q.now, q.fx));
  CAF_CHECK_EQUAL(q.fx.low_water.value, 7u);
  q.note();
}

CAF_TEST(with UNIQUE_UNTIL start the key is free when a worker has the item and taken again when it comes back) {
  auto s = plain(1);
  s.unique = true;
  s.until = config::unique_until::start;
  desk q{s};
  q.push(1, 0ms, {1, 2});
  CAF_CHECK(q.released.empty());
  q.pool(1, 1);
  CAF_CHECK_EQUAL(q.released, (ids{1}));
  q.all(q.next(), kind::unhandled);
  CAF_REQUIRE_EQUAL(q.moved.size(), 1u);  // rewritten in place: that takes the key again if nobody has it
  CAF_CHECK(q.moved[0].from.state == record_state::waiting && q.moved[0].to.state == record_state::waiting);
  q.pass(1s);
  CAF_CHECK_EQUAL(q.released, (ids{1, 1}));
  // One that goes out again at once does not take it in between: the rewrite would come after the release.
  q.moved.clear();
  q.done(q.next(), whole_batch(1, kind::unhandled, {}), 1, true);
  CAF_CHECK(q.moved.empty());
  CAF_CHECK_EQUAL(q.released, (ids{1, 1, 1}));
}

CAF_TEST(with UNIQUE_UNTIL done the key stays until the item is erased) {
  auto s = plain(1);
  s.unique = true;
  s.until = config::unique_until::done;
  desk q{s};
  q.push(1, 0ms, {1, 2});
  q.pool(1, 1);
  q.all(q.next(), kind::unhandled);
  CAF_CHECK(q.released.empty() && q.moved.empty());
}

CAF_TEST(the oldest waiting item is known) {
  desk q;
  CAF_CHECK(q.core.oldest_waiting() == wall_time{});
  const auto t = q.now.wall;
  q.push(1);
  q.pass(1s);
  q.push(1);
  CAF_CHECK(q.core.oldest_waiting() == t);
}

CAF_TEST(how long items wait and run is counted) {
  desk q{plain(2)};
  q.push(2);
  q.push(1, 4s);
  q.pass(500ms);
  q.pool(1, 1);
  const auto first = q.next();
  q.pass(3s);
  q.done(first);  // the pool wants one more
  q.pass(2s);     // the delayed one is handed out when it is due
  q.all(q.next(), kind::rejected);
  const auto& t = q.core.timings();
  const auto total = [](const time_histogram& h) { return std::accumulate(h.counts.begin(), h.counts.end(), std::uint64_t{0}); };
  CAF_CHECK_EQUAL(total(t.wait), 3u);
  CAF_CHECK(t.wait.sum == 1s);  // twice 500 ms; what waits for its time does not wait in line
  CAF_CHECK_EQUAL(total(t.run), 3u);
  CAF_CHECK(t.run.sum >= 6s && t.run.sum <= 8s);  // two of one batch count 3 s each
  CAF_CHECK_EQUAL(t.rejected, 1u);
}
