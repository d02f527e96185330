#define CAF_SUITE key_limits
#include "caf/test/unit_test.hpp"
#include "toolbox/debounce.hpp"
#include "toolbox/limit_table.hpp"
#include "toolbox/pick_limit.hpp"
#include "toolbox/testing/support.hpp"
#include "toolbox/ttl_limit.hpp"

using namespace caravan::toolbox;
using namespace caravan::toolbox::testing;

namespace {

template <class Make>
bool refuses(Make make) {
  try {
    make();
  } catch (const std::invalid_argument&) {
    return true;
  }
  return false;
}

int taken(limit_table& table, const token_options& options, int tries) {
  int n = 0;
  for (int i = 0; i < tries; ++i) n += table.take_tokens("k", options);
  return n;
}

}  // namespace

CAF_TEST(only so many pick at once and the others learn when to come back) {
  pick_limit picks{{.at_once = 2, .least_pause = 50ms, .most_pause = 400ms}};
  auto first = std::optional(picks.try_pick());
  const auto second = picks.try_pick();
  CAF_CHECK(*first && second);
  CAF_CHECK(first->retry_after() == 0ms);
  for (int i = 0; i < 100; ++i) {
    const auto third = picks.try_pick();
    CAF_CHECK(!third);
    const auto full = std::min(50 * (1 + i / 2), 400);
    CAF_CHECK(third.retry_after() <= std::chrono::milliseconds{full});
    CAF_CHECK(third.retry_after() >= std::chrono::milliseconds{full / 2});
  }
  CAF_CHECK_EQUAL(picks.picking(), 2u);
  first.reset();
  CAF_CHECK(picks.try_pick());
  CAF_CHECK(picks.try_pick());  // the one before was given back at the end of its line
  CAF_CHECK_EQUAL(picks.statistics().picked, 4u);
  CAF_CHECK_EQUAL(picks.statistics().throttled, 100u);
  CAF_CHECK(refuses([] { pick_limit{{.at_once = 0}}; }));
  CAF_CHECK(refuses([] { pick_limit{{.least_pause = 0ms}}; }));
  CAF_CHECK(refuses([] { pick_limit{{.least_pause = 2s, .most_pause = 1s}}; }));
}

CAF_TEST(never more picks than allowed) {
  pick_limit picks{{.at_once = 3}};
  std::atomic<int> inside{0}, most{0};
  all_at_once(8, [&](int) {
    for (int i = 0; i < 20'000 / slowdown; ++i) {
      const auto turn = picks.try_pick();
      if (!turn) continue;
      const auto n = ++inside;
      for (auto seen = most.load(); n > seen && !most.compare_exchange_weak(seen, n);) {
      }
      --inside;
    }
  });
  CAF_CHECK(most.load() <= 3);
  CAF_CHECK_EQUAL(picks.picking(), 0u);
  CAF_CHECK_EQUAL(picks.statistics().picked + picks.statistics().throttled,
                  static_cast<std::uint64_t>(8 * (20'000 / slowdown)));
}

CAF_TEST(a key passes once until its time is over) {
  manual_clock time;
  ttl_limit l{time};
  CAF_CHECK(!l.try_take("a", 3s));
  CAF_CHECK(!l.try_take("b", 5s));
  time.advance(1s);
  CAF_CHECK(l.try_take("a", 10s) == 2s);
  time.advance(1999ms);
  CAF_CHECK(l.try_take("a", 10s) == 1ms);
  time.advance(1ms);
  CAF_CHECK(!l.try_take("a", 1s));
  CAF_CHECK(l.release("a"));
  CAF_CHECK(!l.release("a"));
  CAF_CHECK(!l.try_take("a", 0s));
  CAF_CHECK(!l.try_take("a", -1s));
  CAF_CHECK_EQUAL(l.size(), 1u);
  time.advance(1h);
  CAF_CHECK_EQUAL(l.size(), 0u);
}

CAF_TEST(of many who want a key one gets it) {
  ttl_limit l;
  std::atomic<int> got{0};
  all_at_once(8, [&](int) {
    for (int i = 0; i < 1000 / slowdown; ++i) got += !l.try_take(std::to_string(i), 1h);
  });
  CAF_CHECK_EQUAL(got.load(), 1000 / slowdown);
}

CAF_TEST(keys of a ttl limit that nobody asks for are forgotten) {
  manual_clock time;
  ttl_limit l{time};
  std::size_t most = 0;
  for (int i = 0; i < 100'000 / slowdown; ++i) {
    CAF_REQUIRE(!l.try_take(std::to_string(i), 1s));
    time.advance(1ms);
    if (i % 1000 == 0) most = std::max(most, l.size());
  }
  CAF_CHECK(most <= 1100);
}

CAF_TEST(a table counts periods by its own clock) {
  manual_clock time;
  limit_table table{time};
  const period_limit_options two{.period = 10s, .quota = 2};
  CAF_CHECK(table.take_period("a", two) == quota::allowed);
  CAF_CHECK(table.take_period("a", two) == quota::hit);
  CAF_CHECK(table.take_period("a", two) == quota::over);
  CAF_CHECK(table.take_period("b", two) == quota::allowed);
  time.shift_wall(10s);
  CAF_CHECK(table.take_period("a", two) == quota::allowed);
  CAF_CHECK_EQUAL(table.size(), 1u);
  CAF_CHECK(refuses([&] { (void)table.take_period("a", {.period = 0ms}); }));
  CAF_CHECK(refuses([&] { (void)table.take_period("a", {.quota = 0}); }));
}

CAF_TEST(a clock that is set back does not lengthen a period beyond one more) {
  for (const bool aligned : {false, true}) {
    manual_clock time;
    limit_table table{time};
    const period_limit_options one{.period = 10s, .quota = 1, .aligned = aligned};
    CAF_CHECK(table.take_period("a", one) == quota::hit);
    time.shift_wall(-30min);
    CAF_CHECK(table.take_period("a", one) == quota::over);
    time.advance(9999ms);
    CAF_CHECK(table.take_period("a", one) == quota::over);
    time.advance(1ms);
    CAF_CHECK(table.take_period("a", one) == quota::hit);
  }
}

CAF_TEST(a table of buckets gives burst and rate) {
  manual_clock time;
  limit_table table{time};
  const token_options options{.rate = 10, .burst = 5};
  CAF_CHECK_EQUAL(taken(table, options, 100), 5);
  time.advance(100ms);
  CAF_CHECK_EQUAL(taken(table, options, 100), 1);
  time.advance(1h);
  CAF_CHECK_EQUAL(taken(table, options, 100), 5);
  CAF_CHECK(!table.take_tokens("k2", options, 6));
  CAF_CHECK(table.take_tokens("k2", options, 5));
  CAF_CHECK(table.take_tokens("k2", options, 0));
  CAF_CHECK(refuses([&] { (void)table.take_tokens("k", {.rate = -1, .burst = 1}); }));
  CAF_CHECK(refuses([&] { (void)table.take_tokens("k", {.rate = 1, .burst = 0}); }));
}

CAF_TEST(a rate above twice the burst fills the bucket and no more) {
  manual_clock time;
  limit_table table{time};
  const token_options options{.rate = 1000, .burst = 5};
  CAF_CHECK_EQUAL(taken(table, options, 100), 5);
  time.advance(1ms);
  CAF_CHECK_EQUAL(taken(table, options, 100), 1);
  time.advance(5ms);
  CAF_CHECK_EQUAL(taken(table, options, 100), 5);
  time.advance(1s);
  CAF_CHECK_EQUAL(table.size(), 0u);
  CAF_CHECK_EQUAL(taken(table, options, 100), 5);
}

CAF_TEST(a rate of zero gives the burst once) {
  manual_clock time;
  limit_table table{time};
  const token_options options{.rate = 0, .burst = 3};
  CAF_CHECK_EQUAL(taken(table, options, 100), 3);
  time.advance(std::chrono::hours{24 * 365});
  CAF_CHECK_EQUAL(taken(table, options, 100), 0);
}

CAF_TEST(a clock that is set back neither gives tokens nor stops the filling) {
  manual_clock time;
  limit_table table{time};
  const token_options options{.rate = 1, .burst = 10};
  CAF_CHECK_EQUAL(taken(table, options, 100), 10);
  time.shift_wall(-30min);
  CAF_CHECK_EQUAL(taken(table, options, 100), 0);
  time.advance(2s);
  CAF_CHECK_EQUAL(taken(table, options, 100), 2);
}

CAF_TEST(buckets that are full again and periods that are over take no room) {
  manual_clock time;
  limit_table table{time};
  std::size_t most = 0;
  for (int i = 0; i < 50'000 / slowdown; ++i) {
    (void)table.take_tokens(std::to_string(i), {.rate = 1, .burst = 5});
    (void)table.take_period(std::to_string(i), {.period = 1s, .quota = 5});
    time.advance(1ms);
    most = std::max(most, table.size());
  }
  CAF_CHECK(most <= 2002);
}

CAF_TEST(a debounce runs once after the triggers got quiet) {
  manual_clock time;
  std::atomic<int> runs{0};
  debounce d{[&] { ++runs; }, {.quiet = 1s}, time};
  for (int i = 0; i < 20; ++i) {
    d.trigger();
    time.advance(500ms);
  }
  CAF_CHECK_EQUAL(runs.load(), 0);
  CAF_CHECK(move_until(time, 100ms, [&] { return runs == 1; }));
  d.trigger();
  CAF_CHECK(move_until(time, 100ms, [&] { return runs == 2; }));
}

CAF_TEST(triggers that never get quiet run at the latest after a while) {
  manual_clock time;
  std::atomic<int> runs{0};
  debounce d{[&] { ++runs; }, {.quiet = 1s, .at_most = 3s}, time};
  CAF_CHECK(comes_true([&] {
    d.trigger();
    time.advance(10ms);
    return runs.load() == 3;
  }));
  CAF_CHECK(time.now() - manual_clock{}.now() >= 9s);
}

CAF_TEST(a debounce is hurried and given up) {
  manual_clock time;
  std::atomic<int> runs{0};
  debounce d{[&] { ++runs; }, {.quiet = 1h}, time};
  d.flush();  // nothing waits
  d.trigger();
  d.flush();
  d.trigger();
  CAF_CHECK(comes_true([&] { return runs >= 1; }));
  (void)d.cancel();
  d.trigger();
  CAF_CHECK(d.cancel());
  CAF_CHECK(!d.cancel());
  const auto before = runs.load();
  time.advance(2h);
  d.trigger();
  CAF_CHECK(move_until(time, 30min, [&] { return runs == before + 1; }));
  CAF_CHECK(refuses([] { debounce{nullptr, {}}; }));
}
