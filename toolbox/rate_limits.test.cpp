#define CAF_SUITE rate_limits
#include "caf/test/unit_test.hpp"
#include "toolbox/period_limit.hpp"
#include "toolbox/testing/support.hpp"
#include "toolbox/token_limit.hpp"

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

struct tally {
  int allowed = 0;
  int hit = 0;
  int over = 0;
  void add(quota q) { ++(q == quota::allowed ? allowed : q == quota::hit ? hit : over); }
};

}  // namespace

CAF_TEST("TOOL-143" quota) {
  for (const bool aligned : {false, true}) {
    manual_clock time;
    period_limit l{{.period = 1s, .quota = 5, .aligned = aligned}, time};
    tally t;
    for (int i = 0; i < 100; ++i) t.add(l.take("first"));
    CAF_CHECK_EQUAL(t.allowed, 4);
    CAF_CHECK_EQUAL(t.hit, 1);
    CAF_CHECK_EQUAL(t.over, 95);
    CAF_CHECK(l.take("second") == quota::allowed);
    time.advance(1s);
    CAF_CHECK(l.take("first") == quota::allowed);
  }
}

CAF_TEST("TOOL-144" a quota of one is hit at once) {
  period_limit l{{.period = 1s, .quota = 1}};
  CAF_CHECK(l.take("first") == quota::hit);
}

CAF_TEST(a period begins with the first take unless aligned) {
  manual_clock time;
  time.advance(400ms);
  period_limit own{{.period = 1s, .quota = 1}, time};
  period_limit aligned{{.period = 1s, .quota = 1, .aligned = true}, time};
  CAF_CHECK(own.take("a") == quota::hit);
  CAF_CHECK(aligned.take("a") == quota::hit);
  time.advance(600ms);
  CAF_CHECK(own.take("a") == quota::over);
  CAF_CHECK(aligned.take("a") == quota::hit);
  time.advance(400ms);
  CAF_CHECK(own.take("a") == quota::hit);
  CAF_CHECK(time_left(wall_time{1400ms}, 1s) == 600ms);
  CAF_CHECK(time_left(wall_time{1000ms}, 1s) == 1s);
  CAF_CHECK(time_left(wall_time{-1ms}, 1s) == 1ms);
}

CAF_TEST(bad options are refused) {
  CAF_CHECK(refuses([] { period_limit{{.period = 0ms, .quota = 1}}; }));
  CAF_CHECK(refuses([] { period_limit{{.period = 1s, .quota = 0}}; }));
  CAF_CHECK(refuses([] { token_bucket{{.rate = 0, .burst = 1}}; }));
  CAF_CHECK(refuses([] { token_bucket{{.rate = 1, .burst = 0}}; }));
}

CAF_TEST(a period limit equals a count of stamped takes) {
  CAF_CHECK(holds("period_limit equals a count of stamped takes", [] {
    manual_clock time;
    const auto most = *rc::gen::inRange<std::uint64_t>(1, 6);
    period_limit l{{.period = 1s, .quota = most}, time};
    std::array<std::pair<steady_time, std::uint64_t>, 3> plain{};  // begin of the period, takes in it
    const auto steps = *rc::gen::inRange(1, 100);
    for (int i = 0; i < steps; ++i) {
      time.advance(std::chrono::milliseconds{*rc::gen::inRange(0, 300)});
      const auto key = *rc::gen::inRange<std::size_t>(0, 3);
      auto& [begin, count] = plain[key];
      if (count == 0 || time.now() - begin >= 1s) plain[key] = {time.now(), 0};
      ++count;
      RC_ASSERT(l.take(std::to_string(key)) == (count < most    ? quota::allowed
                                                : count == most ? quota::hit
                                                                : quota::over));
    }
  }));
}

CAF_TEST("TOOL-146" burst) {
  manual_clock time;
  token_limit l{{.rate = 5, .burst = 10}, {}, time};
  int allowed = 0;
  for (int i = 0; i < 100; ++i) {
    time.advance(1ms);
    allowed += l.allow();
  }
  CAF_CHECK(allowed >= 10 && allowed <= 15);
}

CAF_TEST("TOOL-148" a local limiter takes over while the store is down) {
  manual_clock time;
  bool up = false;
  int asked = 0;
  token_bucket remote{{.rate = 5, .burst = 10}};
  token_limit l{{.rate = 5, .burst = 10},
                [&](std::uint64_t n) -> outcome<bool> {
                  ++asked;
                  if (!up) throw std::runtime_error("connection refused");
                  return remote.try_take(time.now(), n);
                },
                time};
  int allowed = 0;
  bool was_down = false;
  for (int i = 0; i < 100; ++i) {
    time.advance(10ms);
    if (i == 50) {
      was_down = l.store_is_down();
      up = true;
    }
    allowed += l.allow();
  }
  CAF_CHECK(was_down);
  CAF_CHECK(!l.store_is_down());
  CAF_CHECK(allowed >= 15);
  CAF_CHECK(asked < 60);  // while it was down it was tried every 100 ms only
}

CAF_TEST("TOOL-149" a cancelled caller is refused and does not start the local limiter) {
  int asked = 0;
  token_limit l{{.rate = 1000, .burst = 100}, [&](std::uint64_t) -> outcome<bool> {
                  ++asked;
                  return true;
                }};
  std::stop_source stop;
  CAF_CHECK(l.allow(1, stop.get_token()));
  stop.request_stop();
  int allowed = 0;
  for (int i = 0; i < 100; ++i) allowed += l.allow(1, stop.get_token());
  CAF_CHECK_EQUAL(allowed, 0);
  CAF_CHECK_EQUAL(asked, 1);
  CAF_CHECK(!l.store_is_down());
}

CAF_TEST(a bucket tells how long to wait) {
  manual_clock time;
  token_bucket b{{.rate = 10, .burst = 2}};
  CAF_CHECK(b.wait_for(time.now()) == 0ns);
  CAF_CHECK(b.try_take(time.now(), 2));
  CAF_CHECK(!b.try_take(time.now()));
  const auto wait = b.wait_for(time.now());
  CAF_CHECK(wait >= 100ms && wait < 101ms);
  CAF_CHECK(b.wait_for(time.now(), 3) == std::chrono::nanoseconds::max());
  time.advance(wait);
  CAF_CHECK(b.try_take(time.now()));
}

CAF_TEST(a bucket never gives more than burst and rate allow and never less) {
  CAF_CHECK(holds("token_bucket bounds", [] {
    manual_clock time;
    const auto rate = *rc::gen::inRange(1, 50);
    const auto burst = *rc::gen::inRange(1, 20);
    token_bucket b{{.rate = static_cast<double>(rate), .burst = static_cast<std::uint64_t>(burst)}};
    // In units of 1/1000 token, exactly.
    std::int64_t plain = burst * 1000;
    const auto steps = *rc::gen::inRange(1, 200);
    for (int i = 0; i < steps; ++i) {
      const auto pause = *rc::gen::inRange(0, 100);
      time.advance(std::chrono::milliseconds{pause});
      plain = std::min<std::int64_t>(burst * 1000, plain + rate * pause);
      const auto n = *rc::gen::inRange(1, 5);
      const bool got = b.try_take(time.now(), static_cast<std::uint64_t>(n));
      // A double may be off at the very edge; there either answer is right.
      if (plain != n * 1000) RC_ASSERT(got == (plain > n * 1000));
      if (got) plain -= n * 1000;
    }
  }));
}

CAF_TEST(eight threads take tokens and quota) {
  manual_clock time;
  std::atomic<int> calls{0};
  token_limit l{{.rate = 1, .burst = 100},
                [&](std::uint64_t) -> outcome<bool> {
                  ++calls;
                  return failure{fault::failed, "down"};
                },
                time};
  period_limit p{{.period = 1h, .quota = 100}, time};
  std::atomic<int> tokens{0};
  std::atomic<int> takes{0};
  all_at_once(8, [&](int) {
    for (int i = 0; i < 1000 / slowdown; ++i) {
      tokens += l.allow();
      takes += p.take("key") != quota::over;
    }
  });
  CAF_CHECK_EQUAL(tokens.load(), 100);
  CAF_CHECK_EQUAL(takes.load(), 100);
  CAF_CHECK(calls <= 8);
}
