#define CAF_SUITE job_life
#include "messages/record_more.hpp"
#include "tests/support/queue_desk.hpp"

#include <map>

using namespace caravan;
using namespace caravan::test;

namespace {

record with_priority(std::int32_t priority) {
  record r;
  r.priority = priority;
  return r;
}
record of_key(const std::string& key) {
  record r;
  r.order_by = key;
  return r;
}
config::queue_settings one_by_one() { return plain(1); }

/// A desk has no storage to read from.
queue_core::limits all_in_memory() {
  queue_core::limits l;
  l.key_window = 20'000;
  return l;
}

/// The record that the last move of this id left behind.
record moved_to(const desk& q, std::uint64_t id) {
  for (auto it = q.moved.rbegin(); it != q.moved.rend(); ++it)
    if (it->to.id.value == id) return it->to;
  CAF_FAIL("it was not moved");
  return {};
}

}  // namespace

// ---- priorities ----

CAF_TEST(priorities above zero go first and those below it last) {
  desk q;
  q.push(2);
  const auto low = q.push(with_priority(-5));
  const auto high = q.push(with_priority(7));
  const auto higher = q.push(with_priority(8));
  const auto high_too = q.push(with_priority(7));
  q.push(1);
  q.pool(1, 1);
  const auto got = q.next().items;
  CAF_CHECK_EQUAL(got, (ids{higher, high, high_too, 1, 2, 7, low}));
}

CAF_TEST(a priority counts through retries and delays) {
  desk q{one_by_one()};
  q.pool(1, 1);
  const auto high = q.push(with_priority(7));
  const auto b = q.next();
  q.push(3);
  q.all(b, kind::failed, 5s, 0);
  CAF_CHECK(moved_to(q, high).state == record_state::delayed);
  q.pass(6s);
  q.want(1, 1);
  const auto again = q.next();
  CAF_CHECK_EQUAL(again.items, (ids{high}));
  // Handed back at once it takes its place too.
  q.all(again, kind::later, 0ms, 0);
  q.pass(2s);
  q.want(1, 1);
  CAF_CHECK_EQUAL(q.next().items, (ids{high}));
}

CAF_TEST(a line of priorities longer than the memory is read as it is needed) {
  queue_core::limits l;
  l.window = 4;
  l.load = 2;
  desk q{one_by_one(), {}, l};
  std::vector<record> stored;
  for (int i = 0; i < 12; ++i) {
    auto r = with_priority(1 + i % 3);
    q.push(r);
    r.id = {q.last};
    r.state = record_state::ranked;
    r.payload = "x";
    stored.push_back(r);
  }
  std::sort(stored.begin(), stored.end(), [](const record& a, const record& b) { return std::pair{sort_of(a), a.id} < std::pair{sort_of(b), b.id}; });
  ids order;
  for (const auto& r : stored) order.push_back(r.id.value);
  q.attach(1);
  ids got;
  for (int i = 0; i < 40 && got.size() < 12; ++i) {
    q.want(1, 1);
    while (!q.sent.empty()) {
      const auto b = q.next();
      got.push_back(b.items[0]);
      q.done(b, {}, 0);
      std::erase_if(stored, [&](const record& r) { return r.id.value == b.items[0]; });
    }
    for (const auto& load : std::exchange(q.loads, {})) {
      std::vector<record> page;
      for (const auto& r : stored)
        if (std::pair{sort_of(r), r.id} > std::pair{load.after.sort, load.after.id} && page.size() < load.max) page.push_back(r);
      q.loaded(load, page);
    }
  }
  CAF_CHECK_EQUAL(got.size(), 12u);
  CAF_CHECK_EQUAL(std::set<std::uint64_t>(got.begin(), got.end()).size(), 12u);
  CAF_CHECK_EQUAL(q.counts().waiting, 0u);
}

// ---- deadlines ----

CAF_TEST(past its deadline an item is dead and no handler is called) {
  desk q;
  record r;
  r.deadline = q.now.wall + 10s;
  const auto late = q.push(r);
  r.due = q.now.wall + 20s;
  const auto delayed = q.push(r);
  const auto fine = q.push(1)[0];
  q.pass(30s);
  q.pool(1, 1);
  CAF_CHECK_EQUAL(q.next().items, (ids{fine}));
  CAF_CHECK_EQUAL(q.counts().dead, 2u);
  CAF_CHECK(moved_to(q, late).state == record_state::dead);
  CAF_CHECK(moved_to(q, delayed).last_error.find("deadline") != std::string::npos);
}

CAF_TEST(a batch says how long the nearest deadline leaves) {
  desk q;
  record r;
  q.push(r);
  r.deadline = q.now.wall + 10s;
  q.push(r);
  queue_effects fx;
  q.core.on_attach(1, pool_kind::local, q.now, fx);
  q.core.on_demand({1, 1, 0}, q.now, fx);
  CAF_REQUIRE_EQUAL(fx.send.size(), 1u);
  CAF_CHECK(fx.send[0].work.limit == 10s);
}

// ---- retries ----

CAF_TEST(pauses follow the queue and a job may have its own) {
  auto s = one_by_one();
  s.retry = config::parse_retry_policy("list 1s,5s,1m").value();
  s.retry_jitter = 0;
  desk q{s};
  q.pool(1, 1);
  record own;
  record_more more;
  more.retry = "linear 30s";
  set_more(own, more);
  const auto a = q.push(record{});
  std::vector<std::chrono::milliseconds> pauses;
  for (int i = 0; i < 4; ++i) {
    q.all(q.next(), kind::failed);
    pauses.push_back(moved_to(q, a).due - q.now.wall);
    q.pass(pauses.back());
  }
  CAF_CHECK(pauses == (std::vector<std::chrono::milliseconds>{1s, 5s, 1min, 1min}));
  q.done(q.next());
  const auto b = q.push(own);
  q.all(q.next(), kind::failed);
  CAF_CHECK(moved_to(q, b).due - q.now.wall == 30s);
}

CAF_TEST(the last errors are kept and a pause asked for counts no attempt) {
  auto s = one_by_one();
  s.retry_jitter = 0;
  desk q{s};
  q.pool(1, 1);
  const auto a = q.push(record{});
  for (int i = 0; i < 7; ++i) {
    const auto b = q.next();
    q.done(b, {{0, kind::failed, "error " + std::to_string(i), 1s}});
    q.pass(1s);
  }
  const auto more = more_of(moved_to(q, a));
  CAF_REQUIRE_EQUAL(more.errors.size(), record_more::errors_kept);
  CAF_CHECK_EQUAL(more.errors.back().text, "error 6");
  CAF_CHECK_EQUAL(more.errors.back().attempt, 7u);
  q.all(q.next(), kind::later, 1s);
  CAF_CHECK_EQUAL(moved_to(q, a).attempts, 7u);
}

// ---- keys ----

CAF_TEST(items of one key run one after another also through retries) {
  auto s = one_by_one();
  s.retry_jitter = 0;
  desk q{s};
  q.pool(1, 4);
  const auto a1 = q.push(of_key("a"));
  const auto a2 = q.push(of_key("a"));
  const auto b1 = q.push(of_key("b"));
  const auto first = q.next();
  CAF_CHECK_EQUAL(first.items, (ids{a1}));
  CAF_CHECK_EQUAL(q.next().items, (ids{b1}));
  CAF_CHECK(q.sent.empty());
  q.all(first, kind::failed);
  CAF_CHECK(moved_to(q, a1).state == record_state::keyed);
  CAF_CHECK(q.sent.empty());  // its key waits with it
  q.pass(1s);
  const auto again = q.next();
  CAF_CHECK_EQUAL(again.items, (ids{a1}));
  q.done(again);
  CAF_CHECK_EQUAL(q.next().items, (ids{a2}));
}

CAF_TEST(ten thousand items of one key never exceed its cap) {
  auto s = plain(3);
  s.key_concurrency = 5;
  desk q{s, {}, all_in_memory()};
  for (pool_id p = 1; p <= 3; ++p) q.pool(p, 4);
  std::size_t pushed = 0;
  std::size_t most = 0;
  std::size_t handled = 0;
  std::minstd_rand random{7};
  std::vector<shipment> running;
  while (handled < 10'000) {
    for (int i = 0; i < 7 && pushed < 10'000; ++i, ++pushed) q.push(of_key("k"));
    while (!q.sent.empty()) running.push_back(q.next());
    std::size_t now = 0;
    for (const auto& b : running) now += b.items.size();
    most = std::max(most, now);
    CAF_REQUIRE(now <= 5);
    if (running.empty()) continue;
    const auto i = random() % running.size();
    handled += running[i].items.size();
    const auto b = running[i];
    running.erase(running.begin() + static_cast<std::ptrdiff_t>(i));
    q.done(b);
  }
  CAF_CHECK_EQUAL(most, 5u);
}

CAF_TEST(a throttled key of a thousand items does not delay a free one) {
  auto s = one_by_one();
  s.key_rate = config::parse_rate("1/10s").value();
  desk q{s, {}, all_in_memory()};
  for (int i = 0; i < 1000; ++i) q.push(of_key("slow"));
  q.pool(1, 10);
  CAF_CHECK_EQUAL(q.sent.size(), 1u);
  q.done(q.next());
  // A thousand keys behind them: each at once.
  for (int i = 0; i < 1000; ++i) {
    const auto id = q.push(of_key("free " + std::to_string(i)));
    CAF_REQUIRE_EQUAL(q.sent.size(), 1u);
    const auto b = q.next();
    CAF_REQUIRE_EQUAL(b.items, (ids{id}));
    q.done(b);
  }
  std::size_t slow = 0;
  for (int i = 0; i < 100; ++i) {
    q.pass(1s);
    while (!q.sent.empty()) {
      q.done(q.next());
      ++slow;
    }
  }
  CAF_CHECK_EQUAL(slow, 10u);
}

CAF_TEST(keys take turns with each other and with the plain line) {
  desk q{one_by_one()};
  for (int i = 0; i < 50; ++i) q.push(of_key("a"));
  for (int i = 0; i < 5; ++i) q.push(of_key("b"));
  for (int i = 0; i < 5; ++i) q.push(1);
  q.pool(1, 1);
  std::map<std::string, int> got;
  for (int i = 0; i < 20; ++i) {
    const auto b = q.next();
    ++got[(*b.records)[0].order_by];
    q.done(b);
  }
  CAF_CHECK_EQUAL(got["b"], 5);
  CAF_CHECK_EQUAL(got[""], 5);
  CAF_CHECK_EQUAL(got["a"], 10);
}

CAF_TEST(the queue itself has a cap and a rate) {
  auto s = plain(20);
  s.max_running = 3;
  desk q{s};
  q.push(10);
  q.pool(1, 4);
  CAF_CHECK_EQUAL(q.counts().running, 3u);
  q.done(q.next());
  CAF_CHECK_EQUAL(q.counts().running, 3u);

  auto t = one_by_one();
  t.start_rate = config::parse_rate("2/s burst 2").value();
  desk r{t};
  r.push(100);
  r.pool(1, 100);
  CAF_CHECK_EQUAL(r.sent.size(), 2u);
  r.pass(10s);
  CAF_CHECK_EQUAL(r.sent.size(), 22u);
}

CAF_TEST(keys found in the storage begin when all of their rows were seen) {
  std::vector<record> stored;
  for (const auto* key : {"a", "b", "a", "c", "a", "b"}) {
    auto r = of_key(key);
    r.id = {stored.size() + 1};
    r.state = record_state::keyed;
    r.payload = "x";
    stored.push_back(r);
  }
  storage_counts counts;
  counts.keyed = stored.size();
  counts.last = {6};
  queue_core::limits l;
  l.load = 2;
  l.key_window = 2;
  desk q{one_by_one(), counts, l};
  q.pool(1, 1);
  std::map<std::string, ids> got;
  for (int i = 0; i < 100 && q.counts().waiting + q.counts().running > 0; ++i) {
    for (const auto& load : std::exchange(q.loads, {})) {
      auto line = stored;
      std::sort(line.begin(), line.end(), [](const record& a, const record& b) { return std::pair{sort_of(a), a.id} < std::pair{sort_of(b), b.id}; });
      std::erase_if(line, [&](const record& r) { return std::pair{sort_of(r), r.id} <= std::pair{load.after.sort, load.after.id}; });
      if (line.size() > load.max) line.resize(load.max);
      q.loaded(load, line);
    }
    while (!q.sent.empty()) {
      const auto b = q.next();
      got[(*b.records)[0].order_by].push_back(b.items[0]);
      std::erase_if(stored, [&](const record& r) { return r.id.value == b.items[0]; });
      q.done(b);
    }
  }
  CAF_CHECK_EQUAL(got["a"], (ids{1, 3, 5}));
  CAF_CHECK_EQUAL(got["b"], (ids{2, 6}));
  CAF_CHECK_EQUAL(got["c"], (ids{4}));
}

// ---- cancel ----

CAF_TEST(a cancelled item in line ends and is told of) {
  desk q;
  const auto a = q.push(record{});
  CAF_CHECK(q.cancel(desk::row(a)));
  CAF_CHECK_EQUAL(q.erased, (ids{a}));
  CAF_CHECK(q.core.find_finished({a})->what == finished_item::kind::cancelled);
  q.pool(1, 1);
  CAF_CHECK(q.sent.empty());
}

CAF_TEST(a cancelled item in a handler is asked to stop and not tried again) {
  desk q{one_by_one()};
  q.pool(1, 1);
  const auto a = q.push(record{});
  const auto b = q.next();
  CAF_CHECK(q.cancel(desk::row(a)));
  CAF_CHECK(q.asked_to_stop == (std::vector<std::pair<pool_id, std::uint64_t>>{{1, b.token}}));
  CAF_CHECK(more_of(moved_to(q, a)).cancelled);
  q.all(b, kind::failed);
  CAF_CHECK_EQUAL(q.erased, (ids{a}));
  CAF_CHECK(q.core.find_finished({a})->what == finished_item::kind::cancelled);
  // One that succeeded all the same was handled.
  const auto c = q.push(record{});
  const auto d = q.next();
  CAF_CHECK(q.cancel(desk::row(c)));
  q.done(d);
  CAF_CHECK(q.core.find_finished({c})->what == finished_item::kind::handled);
}

CAF_TEST(a cancel wins over a lost pool and over a restart) {
  desk q{one_by_one()};
  q.pool(1, 1);
  q.pool(2, 1);
  const auto a = q.push(record{});
  const auto b = q.next();
  CAF_CHECK(q.cancel(desk::row(a)));
  const auto marked = moved_to(q, a);
  q.detach(b.pool);
  CAF_CHECK_EQUAL(q.erased, (ids{a}));
  CAF_CHECK(q.sent.empty());
  // What a new owner finds.
  storage_counts counts;
  counts.waiting = 1;
  counts.last = {a};
  desk fresh{one_by_one(), counts};
  fresh.loaded(fresh.loads.back(), {marked});
  fresh.pool(1, 1);
  CAF_CHECK(fresh.sent.empty());
  CAF_CHECK_EQUAL(fresh.erased, (ids{a}));
}

// ---- retention ----

CAF_TEST(a finished item is kept for its time and no longer) {
  auto s = one_by_one();
  s.retention = 1h;
  desk q{s};
  q.pool(1, 1);
  const auto a = q.push(record{});
  q.done(q.next(), {{0, kind::handled, "{\"sum\":3}", 0ms}});
  const auto kept = moved_to(q, a);
  CAF_CHECK(kept.state == record_state::done);
  CAF_CHECK_EQUAL(more_of(kept).result, "{\"sum\":3}");
  CAF_CHECK_EQUAL(q.counts().done, 1u);
  CAF_CHECK(q.erased.empty());
  q.pass(59min);
  for (const auto& l : std::exchange(q.loads, {})) q.loaded(l, {kept});
  CAF_CHECK(q.erased.empty());
  q.pass(2min);
  for (const auto& l : std::exchange(q.loads, {})) q.loaded(l, {kept});
  CAF_CHECK_EQUAL(q.erased, (ids{a}));
  CAF_CHECK_EQUAL(q.counts().done, 0u);
}

CAF_TEST(no more than RETAIN COUNT are kept) {
  auto s = one_by_one();
  s.retention = 1h;
  s.retain_count = 2;
  desk q{s};
  q.pool(1, 1);
  std::vector<record> kept;
  for (int i = 0; i < 5; ++i) {
    q.loads.clear();
    const auto id = q.push(record{});
    q.done(q.next());
    kept.push_back(moved_to(q, id));
    q.pass(1s);
    while (!q.loads.empty()) {
      const auto erased = q.erased.size();
      const auto l = q.loads.back();
      q.loads.clear();
      q.loaded(l, kept);
      for (auto n = erased; n < q.erased.size(); ++n) kept.erase(kept.begin());
    }
  }
  CAF_CHECK_EQUAL(q.erased, (ids{1, 2, 3}));
  CAF_CHECK_EQUAL(q.counts().done, 2u);
}
