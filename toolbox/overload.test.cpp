#define CAF_SUITE overload
#include <optional>

#include "caf/test/unit_test.hpp"
#include "toolbox/breaker.hpp"
#include "toolbox/shedder.hpp"
#include "toolbox/testing/support.hpp"

using namespace caravan::toolbox;
using namespace caravan::toolbox::testing;

namespace {

constexpr breaker_options seeded{.seed = 42};

int passes_of(breaker& b, int tries) {
  int passed = 0;
  for (int i = 0; i < tries; ++i)
    if (auto pass = b.allow()) {
      pass->accept(true);
      ++passed;
    }
  return passed;
}

constexpr shedder_options half_second{.window = 500ms, .buckets = 10, .scale = 0.01};

}  // namespace

// -- breaker --------------------------------------------------------------------------------------------------------

CAF_TEST("TOOL-152" a few failures do not open it) {
  manual_clock time;
  breaker b{seeded, time};
  for (int i = 0; i < 4; ++i) b.mark(false);
  CAF_CHECK(b.allow());
  CAF_CHECK_EQUAL(b.refused_share(), 0.0);
}

CAF_TEST(many failures open it) {
  manual_clock time;
  breaker b{seeded, time};
  for (int i = 0; i < 10'000; ++i) b.mark(false);
  CAF_CHECK(b.refused_share() > 0.99);
  int refused = 0;
  for (int i = 0; i < 100; ++i) {
    auto pass = b.allow();
    refused += pass.is(fault::rejected);
    if (pass) pass->accept(false);
  }
  CAF_CHECK(refused > 90);
}

CAF_TEST("TOOL-153" it recovers) {
  manual_clock time;
  breaker b{seeded, time};
  for (int i = 0; i < 100; ++i) b.mark(false);
  CAF_CHECK(b.refused_share() > 0.9);
  // A window of success.
  for (int i = 0; i < 40; ++i) {
    time.advance(250ms);
    for (int n = 0; n < 10; ++n) b.mark(true);
  }
  CAF_CHECK(passes_of(b, 100) > 90);
}

CAF_TEST("TOOL-155" after a second without a pass one request is let through) {
  manual_clock time;
  breaker b{seeded, time};
  CAF_CHECK(b.allow());
  for (int i = 0; i < 1'000'000; ++i) b.mark(false);
  CAF_CHECK_EQUAL(passes_of(b, 10), 0);
  time.advance(1s + 1ms);
  CAF_CHECK(b.allow());
  CAF_CHECK_EQUAL(passes_of(b, 10), 0);
}

CAF_TEST("TOOL-156" fallback and acceptable errors) {
  manual_clock time;
  breaker open{seeded, time};
  CAF_CHECK(open.allow());
  for (int i = 0; i < 1'000'000; ++i) open.mark(false);
  int called = 0;
  const auto shown = open.run_or(
      [&] {
        ++called;
        return 1;
      },
      [](const failure& why) { return why.code == fault::rejected ? 2 : 3; });
  CAF_CHECK_EQUAL(shown, 2);
  CAF_CHECK_EQUAL(called, 0);
  CAF_CHECK(open.run([] { return 1; }).is(fault::rejected));

  breaker closed{seeded, time};
  const auto not_found = [] { return outcome<int>{failure{fault::failed, "not found"}}; };
  const auto harmless = [](const outcome<int>& r) { return r.error().text == "not found"; };
  const auto got = closed.run(not_found, harmless);
  CAF_REQUIRE(got);
  CAF_CHECK_EQUAL(got->error().text, "not found");
  CAF_CHECK_EQUAL(closed.history().accepted, 1u);
  CAF_CHECK_EQUAL(closed.history().total, 1u);

  const auto broken = closed.run([] { return outcome<int>{failure{fault::failed, "broken"}}; }, harmless);
  CAF_REQUIRE(broken);
  CAF_CHECK_EQUAL(broken->error().text, "broken");
  CAF_CHECK_EQUAL(closed.history().accepted, 1u);
  CAF_CHECK_EQUAL(closed.history().total, 2u);
}

CAF_TEST("TOOL-158" history) {
  const auto marks = [](auto good) {
    manual_clock time;
    breaker b{seeded, time};
    for (int i = 0; i < 10; ++i) {
      b.mark(good(i));
      if (i % 2 == 1 && i < 9) time.advance(250ms);
    }
    const auto full = b.history();
    time.advance(10s);
    const auto empty = b.history();
    CAF_CHECK_EQUAL(empty.accepted + empty.total + empty.failing_buckets + empty.working_buckets, 0u);
    return full;
  };
  const auto good = marks([](int) { return true; });
  CAF_CHECK_EQUAL(good.accepted, 10u);
  CAF_CHECK_EQUAL(good.total, 10u);
  CAF_CHECK_EQUAL(good.working_buckets, 5u);
  const auto bad = marks([](int) { return false; });
  CAF_CHECK_EQUAL(bad.accepted, 0u);
  CAF_CHECK_EQUAL(bad.total, 10u);
  CAF_CHECK_EQUAL(bad.failing_buckets, 5u);
  const auto half = marks([](int i) { return i % 2 == 0; });
  CAF_CHECK_EQUAL(half.accepted, 5u);
  CAF_CHECK_EQUAL(half.total, 10u);
}

CAF_TEST(a throw counts as a failure and passes on) {
  breaker b;
  bool thrown = false;
  try {
    (void)b.run([]() -> int { throw 1; });
  } catch (int) {
    thrown = true;
  }
  CAF_CHECK(thrown);
  CAF_CHECK(b.run([] {}));
  CAF_CHECK(b.run([] { return 0; }));  // a number is a result
  { auto forgotten = b.allow(); }
  CAF_CHECK_EQUAL(b.history().total, 4u);
  CAF_CHECK_EQUAL(b.history().accepted, 2u);
}

CAF_TEST(the refused share is a share) {
  CAF_CHECK(holds("0 <= share < 1 and none without failures", [](std::vector<bool> calls) {
    manual_clock time;
    breaker b{seeded, time};
    bool failed = false;
    for (const bool good : calls) {
      time.advance(std::chrono::milliseconds{*rc::gen::inRange(0, 500)});
      b.mark(good);
      failed |= !good;
      const auto share = b.refused_share();
      RC_ASSERT(share >= 0 && share < 1);
      if (!failed) RC_ASSERT(share == 0);
    }
  }));
}

CAF_TEST(eight threads through one breaker) {
  breaker b;
  std::atomic<int> calls{0};
  all_at_once(8, [&](int thread) {
    for (int i = 0; i < 1000 / slowdown; ++i) {
      if (auto pass = b.allow()) pass->accept((i + thread) % 2 == 0);
      ++calls;
    }
  });
  CAF_CHECK_EQUAL(b.history().total, static_cast<std::uint64_t>(calls.load()));
}

// -- shedder --------------------------------------------------------------------------------------------------------

CAF_TEST("TOOL-159" most passes) {
  manual_clock time;
  shedder s{half_second, [] { return 0; }, time};
  for (int i = 1; i <= 10; ++i) {
    s.note_passes(i * 100);
    time.advance(50ms);
  }
  CAF_CHECK_EQUAL(s.most_passes(), 1000.0);
  shedder empty{half_second, [] { return 0; }, time};
  CAF_CHECK_EQUAL(empty.most_passes(), 1.0);
}

CAF_TEST("TOOL-160" least response time) {
  manual_clock time;
  shedder s{half_second, [] { return 0; }, time};
  for (int i = 0; i < 10; ++i) {
    if (i > 0) time.advance(50ms);
    for (int j = i * 10 + 1; j <= i * 10 + 10; ++j) s.note_response(j);
  }
  CAF_CHECK_EQUAL(s.least_response_ms(), 6.0);
  shedder empty{half_second, [] { return 0; }, time};
  CAF_CHECK_EQUAL(empty.least_response_ms(), 1000.0);
}

CAF_TEST("TOOL-161" most in flight) {
  manual_clock time;
  shedder s{half_second, [] { return 0; }, time};
  for (int i = 0; i < 10; ++i) {
    if (i > 0) time.advance(50ms);
    s.note_passes((i + 1) * 100);
    for (int j = i * 10 + 1; j <= i * 10 + 10; ++j) s.note_response(j);
  }
  CAF_CHECK_EQUAL(s.most_in_flight(), 54);
}

CAF_TEST(it refuses only under load and cools off) {
  manual_clock time;
  int load = 0;
  shedder s{half_second, [&] { return load; }, time};
  std::vector<shedder::pass> held;
  for (int i = 0; i < 300; ++i) {
    auto pass = s.allow();
    CAF_REQUIRE(pass);
    held.push_back(std::move(*pass));
  }
  // Enough completions to move the average above the bound of 10 (1 pass x 1000 ms x 0.01).
  for (int i = 0; i < 100; ++i) {
    held.back().fail();
    held.pop_back();
  }
  CAF_CHECK_EQUAL(s.in_flight(), 200);
  CAF_CHECK(s.allow());
  load = 950;
  CAF_CHECK(s.allow().is(fault::rejected));
  load = 100;
  CAF_CHECK(s.allow().is(fault::rejected));  // still hot
  time.advance(1s);
  CAF_CHECK(s.allow());
  load = 950;
  held.clear();
  CAF_CHECK_EQUAL(s.in_flight(), 0);
  CAF_CHECK(s.allow());  // under load with room
}

CAF_TEST(a pass measures its response time) {
  manual_clock time;
  shedder s{half_second, [] { return 0; }, time};
  {
    auto pass = s.allow();
    time.advance(20ms);
    pass->succeed();
    auto failed = s.allow();
  }
  time.advance(50ms);
  CAF_CHECK_EQUAL(s.least_response_ms(), 20.0);
  CAF_CHECK_EQUAL(s.most_passes(), 1.0);
}

CAF_TEST(eight threads through one shedder) {
  std::atomic<int> load{0};
  shedder s{{}, [&] { return load.load(); }};
  all_at_once(8, [&](int thread) {
    for (int i = 0; i < 1000 / slowdown; ++i) {
      if (thread == 0) load = i % 1000;
      if (auto pass = s.allow(); pass && i % 2 == 0) pass->succeed();
    }
  });
  CAF_CHECK_EQUAL(s.in_flight(), 0);
}
