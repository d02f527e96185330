#define CAF_SUITE worker_pool_core
#include "actors/worker_pool/worker_pool_core.hpp"

#include <algorithm>
#include <iostream>
#include <map>

#include "caf/test/unit_test.hpp"

using namespace caravan;
using namespace std::chrono_literals;
using kind = item_outcome::kind;

namespace {

void scenario(const char* id) { std::cout << "scenario " << id << "\n"; }

worker_pool_core::limits limits(std::optional<unsigned> most, std::chrono::milliseconds idle = 1000ms,
                                std::chrono::milliseconds timeout = 0ms) {
  return {most, idle, timeout, 3000ms};
}

/// A pool whose threads obey at once, before a queue with a pile of batches.
struct desk {
  explicit desk(worker_pool_core::limits l) : core(7, l) {
    core.on_attached(now, fx);
    note();
  }

  worker_pool_core::time_point now{1h};
  worker_pool_core core;
  pool_effects fx;
  std::size_t threads = 0, retired = 0;
  std::uint32_t idle = 0, prefetch = 0;  ///< credits at the queue
  std::vector<batch> shelf;
  std::vector<running_call> running;
  std::map<std::uint64_t, std::size_t> sizes;
  std::vector<std::uint64_t> asked, abandoned;
  std::vector<batch_done> done;
  bool stopped = false;
  std::uint64_t token = 0;

  void note() {
    threads += fx.start;
    retired += fx.retire;
    threads -= fx.retire;
    for (auto& b : fx.run) shelf.push_back(b);
    asked.insert(asked.end(), fx.ask.begin(), fx.ask.end());
    for (const auto t : fx.abandon) {
      abandoned.push_back(t);
      std::erase_if(running, [&](const auto& r) { return r.token == t; });
      --threads;
    }
    idle += fx.more.idle;
    prefetch += fx.more.prefetch;
    for (auto& d : fx.done) {
      idle += d.idle;
      prefetch += d.prefetch;
      done.push_back(d);
    }
    stopped = stopped || fx.stopped;
    fx = {};
    begin_calls();
    CAF_CHECK_EQUAL(core.workers(), threads);
    CAF_CHECK_EQUAL(core.active(), running.size() + shelf.size());
  }
  void begin_calls() {
    while (!shelf.empty() && running.size() < threads) {
      running.push_back({shelf.front().token, now});
      shelf.erase(shelf.begin());
    }
  }
  /// The queue sends one batch, if it may.
  std::uint64_t deliver(std::size_t size = 1, std::chrono::milliseconds timeout = 0ms) {
    if (idle > 0)
      --idle;
    else if (prefetch > 0)
      --prefetch;
    std::vector<record> items(size);
    for (auto& r : items) r.timeout = timeout;
    batch b{"q", ++token, 30s, std::make_shared<const std::vector<record>>(std::move(items))};
    core.on_batch(std::move(b), now, fx);
    note();
    return token;
  }
  void end(std::uint64_t t, batch_result rest = {}, std::chrono::nanoseconds took = 100ms) {
    std::erase_if(running, [&](const auto& r) { return r.token == t; });
    core.on_call_ended(t, std::move(rest), took, now, fx);
    note();
  }
  void tick() { core.on_tick(running, now, fx), note(); }
  void pass(std::chrono::milliseconds by) {
    const auto end = now + by;
    for (int n = 0;; ++n) {
      CAF_REQUIRE(n < 10'000);
      const auto wake = core.next_wake(running, now);
      if (!wake || *wake > end) break;
      now = std::max(now, *wake);
      tick();
      if (const auto next = core.next_wake(running, now)) CAF_REQUIRE(*next > now);
    }
    now = end;
  }
  void stop(std::chrono::milliseconds timeout) {
    core.stop(running, now + timeout, now, fx);
    note();
  }
};

/// Handlers that sleep 100 ms, and `n` items waiting, one a batch. Calls `look` at each 10 ms.
void sleepers(desk& p, std::size_t n, std::chrono::milliseconds until, const std::function<void(std::chrono::milliseconds)>& look) {
  for (auto t = 0ms; t <= until; t += 10ms) {
    const auto running = p.running;
    for (const auto& r : running)
      if (p.now - r.started >= 100ms) p.end(r.token);
    while (n > 0 && p.idle > 0) p.deliver(), --n;
    look(t);
    p.pass(10ms);
  }
}

}  // namespace

CAF_TEST(there is no worker before the first batch) {
  scenario("QUEUE-032");
  desk p{limits(4)};
  CAF_CHECK_EQUAL(p.core.workers(), 0u);
  CAF_CHECK_EQUAL(p.core.active(), 0u);
  CAF_CHECK_EQUAL(p.idle, 4u);
  CAF_CHECK(!p.core.next_wake({}, p.now));
}

CAF_TEST(one worker at most works and stays) {
  scenario("QUEUE-030");
  desk p{limits(1, 300ms)};
  sleepers(p, 5, 850ms, [&](auto t) {
    if (t == 50ms) CAF_CHECK(p.core.workers() == 1 && p.core.active() == 1);
    if (t == 550ms) CAF_CHECK(p.core.workers() == 1 && p.core.active() == 0);
    if (t == 850ms) CAF_CHECK(p.core.workers() == 1 && p.core.active() == 0);
  });
}

CAF_TEST(three workers at most work and one stays) {
  scenario("QUEUE-031");
  desk p{limits(3, 300ms)};
  sleepers(p, 15, 850ms, [&](auto t) {
    if (t == 50ms) CAF_CHECK(p.core.workers() == 3 && p.core.active() == 3);
    if (t == 550ms) CAF_CHECK(p.core.workers() == 3 && p.core.active() == 0);
    if (t == 850ms) CAF_CHECK(p.core.workers() == 1 && p.core.active() == 0);
  });
}

CAF_TEST(a pool grows only when a batch finds no idle worker) {
  desk p{limits(4)};
  for (int i = 0; i < 10; ++i) p.end(p.deliver());
  CAF_CHECK_EQUAL(p.core.workers(), 1u);
  p.deliver(), p.deliver();
  CAF_CHECK_EQUAL(p.core.workers(), 2u);
  p.deliver(), p.deliver();
  CAF_CHECK_EQUAL(p.core.workers(), 4u);
  CAF_CHECK_EQUAL(p.idle, 0u);
}

CAF_TEST(max workers 0 still gives one) {
  scenario("QUEUE-040");
  desk p{limits(0)};
  CAF_CHECK_EQUAL(p.idle, 1u);
  p.end(p.deliver());
  CAF_CHECK_EQUAL(p.done.size(), 1u);
  desk q{limits(3)};
  q.core.set_max_workers(0, q.now, q.fx);
  q.note();
  const auto t = q.deliver();
  CAF_CHECK_EQUAL(q.core.workers(), 1u);
  q.end(t);
}

CAF_TEST(without a limit the demand stays ahead of what runs) {
  desk p{limits(std::nullopt)};
  CAF_CHECK_EQUAL(p.idle, 16u);
  for (int i = 0; i < 16; ++i) p.deliver();
  CAF_CHECK_EQUAL(p.core.workers(), 16u);
  p.end(1);
  CAF_CHECK(p.idle >= 16u);
}

CAF_TEST(what is asked for never exceeds what the limit allows) {
  desk p{limits(3)};
  CAF_CHECK_EQUAL(p.idle, 3u);
  const auto a = p.deliver(), b = p.deliver();
  CAF_CHECK_EQUAL(p.idle, 1u);
  p.end(a);
  CAF_CHECK_EQUAL(p.idle, 2u);
  p.end(b);
  CAF_CHECK_EQUAL(p.idle, 3u);
}

CAF_TEST(idle workers end one by one after their time and the last stays) {
  desk p{limits(3, 1000ms)};
  const auto a = p.deliver(), b = p.deliver(), c = p.deliver();
  p.end(a);
  p.pass(500ms);
  p.end(b);
  p.end(c);
  p.pass(499ms);
  CAF_CHECK_EQUAL(p.core.workers(), 3u);
  p.pass(1ms);
  CAF_CHECK_EQUAL(p.core.workers(), 2u);
  p.pass(500ms);
  CAF_CHECK_EQUAL(p.core.workers(), 1u);
  p.pass(1h);
  CAF_CHECK_EQUAL(p.core.workers(), 1u);
  CAF_CHECK(!p.core.next_wake({}, p.now));
}

CAF_TEST(only short calls get batches in reserve) {
  desk slow{limits(2)};
  slow.end(slow.deliver(), {}, 50ms);
  CAF_CHECK_EQUAL(slow.prefetch, 0u);
  desk fast{limits(2)};
  const auto a = fast.deliver(), b = fast.deliver();
  fast.end(a, {}, 900us);
  fast.end(b, {}, 900us);
  CAF_CHECK_EQUAL(fast.prefetch, 2u);
  CAF_CHECK_EQUAL(fast.idle, 2u);
  for (int i = 0; i < 4; ++i) fast.deliver(20);
  CAF_CHECK_EQUAL(fast.core.workers(), 2u);
  CAF_CHECK_EQUAL(fast.shelf.size(), 2u);
  fast.end(3, {}, 900us);  // takes from the shelf: nothing new beyond one in reserve
  CAF_CHECK_EQUAL(fast.idle + fast.prefetch, 1u);
  // About a millisecond of work for each worker, and never more than eight batches.
  const auto reserve = [](std::chrono::nanoseconds took) {
    desk d{limits(1)};
    d.end(d.deliver(), {}, took);
    return d.prefetch;
  };
  CAF_CHECK_EQUAL(reserve(3ms), 0u);
  CAF_CHECK_EQUAL(reserve(1900us), 1u);
  CAF_CHECK_EQUAL(reserve(250us), 4u);
  CAF_CHECK_EQUAL(reserve(1us), 8u);
  desk timed{limits(2, 1000ms, 1s)};
  timed.end(timed.deliver(), {}, 100us);
  CAF_CHECK_EQUAL(timed.prefetch, 0u);
}

CAF_TEST(a handler past its timeout is asked to stop and its items failed) {
  desk p{limits(1, 1000ms, 500ms)};
  const auto t = p.deliver(3);
  p.pass(499ms);
  CAF_CHECK(p.asked.empty());
  p.pass(1ms);
  CAF_CHECK_EQUAL(p.asked, (std::vector<std::uint64_t>{t}));
  p.end(t, {{1, kind::unhandled, {}, 0ms}, {2, kind::rejected, "no", 0ms}});
  CAF_REQUIRE_EQUAL(p.done.size(), 1u);
  std::map<std::uint32_t, kind> what;
  for (const auto& o : p.done[0].rest) what[o.index] = o.what;
  CAF_CHECK(what[0] == kind::failed && what[1] == kind::failed && what[2] == kind::rejected);
  CAF_CHECK(p.done[0].rest.back().text.find("TIMEOUT = 500 ms") != std::string::npos);
  CAF_CHECK(p.abandoned.empty());
  CAF_CHECK_EQUAL(p.idle, 1u);
}

CAF_TEST(the shortest timeout of its items bounds a batch) {
  desk p{limits(1, 1000ms, 500ms)};
  p.deliver(1, 100ms);
  p.pass(100ms);
  CAF_CHECK_EQUAL(p.asked.size(), 1u);
  desk q{limits(1)};
  q.deliver(1, 200ms);
  q.pass(200ms);
  CAF_CHECK_EQUAL(q.asked.size(), 1u);
}

CAF_TEST(a handler that does not stop is abandoned and its place is given to another) {
  desk p{limits(1, 1000ms, 500ms)};
  const auto t = p.deliver(2);
  p.pass(3499ms);
  CAF_CHECK(p.abandoned.empty());
  p.pass(1ms);
  CAF_CHECK_EQUAL(p.abandoned, (std::vector<std::uint64_t>{t}));
  CAF_REQUIRE_EQUAL(p.done.size(), 1u);
  CAF_CHECK_EQUAL(p.done[0].rest.size(), 2u);
  CAF_CHECK(p.done[0].rest[0].what == kind::failed);
  CAF_CHECK_EQUAL(p.core.workers(), 0u);
  CAF_CHECK_EQUAL(p.core.abandoned(), 1u);
  CAF_CHECK_EQUAL(p.idle, 1u);
  p.end(p.deliver());
  CAF_CHECK_EQUAL(p.core.workers(), 1u);
  CAF_CHECK_EQUAL(p.done.size(), 2u);
}

CAF_TEST(a batch in reserve gets a new worker when the old one is lost) {
  desk p{limits(1)};
  p.end(p.deliver(), {}, 1us);
  const auto stuck = p.deliver(1, 100ms);
  const auto waiting = p.deliver(1);
  CAF_CHECK_EQUAL(p.shelf.size(), 1u);
  p.pass(3100ms);
  CAF_CHECK_EQUAL(p.abandoned, (std::vector<std::uint64_t>{stuck}));
  CAF_CHECK(p.shelf.empty());
  p.end(waiting);
  CAF_CHECK_EQUAL(p.core.workers(), 1u);
}

CAF_TEST(a call that ends while it is given up does not leave a thread too many) {
  desk p{limits(1, 1000ms, 100ms)};
  const auto t = p.deliver();
  p.pass(3100ms);
  CAF_CHECK_EQUAL(p.core.abandoned(), 1u);
  // Its report was on its way: the thread lives, so the pool ends one.
  p.core.on_call_ended(t, {}, 1ms, p.now, p.fx);
  CAF_CHECK_EQUAL(p.fx.retire, 1u);
  CAF_CHECK(p.fx.done.empty());
  CAF_CHECK_EQUAL(p.core.abandoned(), 0u);
  p.fx = {};
  p.core.on_call_ended(t, {}, 1ms, p.now, p.fx);
  p.core.on_call_ended(4711, {}, 1ms, p.now, p.fx);
  CAF_CHECK(p.fx.retire == 0 && p.fx.done.empty());
}

CAF_TEST(a call that no worker has begun yet has its timeout looked after) {
  desk p{limits(1, 1000ms, 500ms)};
  p.deliver();
  // The thread takes the batch without telling anybody: what runs is empty when the timer is set.
  const auto wake = p.core.next_wake({}, p.now);
  CAF_REQUIRE(wake);
  CAF_CHECK(*wake > p.now && *wake <= p.now + 500ms);
}

CAF_TEST(more workers at run time take what lies in reserve) {
  desk p{limits(1)};
  p.end(p.deliver(), {}, 1us);
  p.deliver(), p.deliver();
  CAF_CHECK_EQUAL(p.shelf.size(), 1u);
  p.core.set_max_workers(4, p.now, p.fx);
  p.note();
  CAF_CHECK(p.shelf.empty());
  CAF_CHECK_EQUAL(p.core.workers(), 2u);
  CAF_CHECK_EQUAL(p.idle, 2u);
}

CAF_TEST(fewer workers at run time let what runs finish and respect credits that are out) {
  desk p{limits(4)};
  const auto a = p.deliver(), b = p.deliver(), c = p.deliver();
  CAF_CHECK_EQUAL(p.idle, 1u);
  p.core.set_max_workers(1, p.now, p.fx);
  p.note();
  CAF_CHECK_EQUAL(p.core.workers(), 3u);
  const auto late = p.deliver();  // was asked for before
  CAF_CHECK_EQUAL(p.core.workers(), 3u);
  p.end(a), p.end(b), p.end(c);
  CAF_CHECK_EQUAL(p.core.workers(), 1u);
  CAF_CHECK_EQUAL(p.idle, 0u);
  p.end(late);
  CAF_CHECK_EQUAL(p.idle, 1u);
  CAF_CHECK_EQUAL(p.core.workers(), 1u);
  p.core.set_max_workers(std::nullopt, p.now, p.fx);
  p.note();
  CAF_CHECK_EQUAL(p.idle, 16u);
}

CAF_TEST(a stop ends with the last call) {
  desk p{limits(2)};
  const auto a = p.deliver(), b = p.deliver();
  p.stop(2s);
  CAF_CHECK(!p.stopped);
  p.end(a);
  CAF_CHECK(!p.stopped);
  CAF_CHECK_EQUAL(p.idle, 0u);  // asks for no more
  p.end(b);
  CAF_CHECK(p.stopped);
  CAF_CHECK(!p.core.next_wake({}, p.now));
  desk idle{limits(2)};
  idle.stop(2s);
  CAF_CHECK(idle.stopped);
}

CAF_TEST(a stop with a stuck handler is bounded) {
  scenario("QUEUE-035");
  desk p{limits(1)};
  const auto t = p.deliver();
  const auto begun = p.now;
  p.stop(500ms);
  p.pass(500ms);
  CAF_CHECK_EQUAL(p.asked, (std::vector<std::uint64_t>{t}));
  CAF_CHECK(!p.stopped);
  while (!p.stopped) p.pass(10ms);
  CAF_CHECK(p.now - begun <= 800ms);
  CAF_CHECK_EQUAL(p.core.active(), 1u);  // and says so
  CAF_CHECK(!p.core.next_wake(p.running, p.now));
}

CAF_TEST(what a handler that stopped when asked did not do is handed back) {
  desk p{limits(1)};
  const auto t = p.deliver(2);
  p.stop(100ms);
  p.pass(100ms);
  p.end(t, {{1, kind::unhandled, {}, 0ms}});
  CAF_REQUIRE_EQUAL(p.done.size(), 1u);
  CAF_CHECK(p.done[0].handed_back);
  CAF_CHECK_EQUAL(p.done[0].rest.size(), 1u);
  CAF_CHECK(p.stopped);
}

CAF_TEST(batches that come or lie unstarted at a stop are handed back) {
  desk p{limits(1)};
  p.end(p.deliver(), {}, 1us);
  p.deliver(3);
  p.deliver(2);
  CAF_REQUIRE_EQUAL(p.shelf.size(), 1u);
  p.done.clear();
  p.core.hand_back_unstarted(p.shelf.front(), p.fx);
  p.shelf.clear();
  p.core.stop(p.running, p.now + 1s, p.now, p.fx);
  p.note();
  p.deliver(4);
  CAF_REQUIRE_EQUAL(p.done.size(), 2u);
  CAF_CHECK(p.done[0].handed_back && p.done[1].handed_back);
  CAF_CHECK_EQUAL(p.done[0].rest.size(), 2u);
  CAF_CHECK_EQUAL(p.done[1].rest.size(), 4u);
  batch unknown{"q", 99, 1s, std::make_shared<const std::vector<record>>(1)};
  p.core.hand_back_unstarted(unknown, p.fx);
  CAF_CHECK(p.fx.done.empty());
}

CAF_TEST(a pool that attaches anew asks for everything again and for nothing in between) {
  desk p{limits(3)};
  const auto t = p.deliver();
  p.core.on_detached();
  p.idle = 0;
  p.end(t);
  CAF_CHECK_EQUAL(p.idle, 0u);
  p.core.on_attached(p.now, p.fx);
  p.note();
  CAF_CHECK_EQUAL(p.idle, 3u);
}

CAF_TEST(tokens in hand are named for the renewal of their leases) {
  desk p{limits(2)};
  const auto a = p.deliver(), b = p.deliver();
  auto tokens = p.core.in_hand();
  std::sort(tokens.begin(), tokens.end());
  CAF_CHECK_EQUAL(tokens, (std::vector<std::uint64_t>{a, b}));
  p.end(a);
  CAF_CHECK_EQUAL(p.core.in_hand(), (std::vector<std::uint64_t>{b}));
}
