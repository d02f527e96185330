#define CAF_SUITE backoff
#include "toolbox/backoff.hpp"

#include "caf/test/unit_test.hpp"
#include "toolbox/testing/support.hpp"

using namespace caravan::toolbox;
using namespace caravan::toolbox::testing;

CAF_TEST(without jitter the pauses double up to the longest) {
  backoff pause{{.first = 100ms, .most = 1s, .factor = 2, .jitter = 0}};
  for (const auto expected : {100ms, 200ms, 400ms, 800ms, 1000ms, 1000ms}) CAF_CHECK(pause.next() == expected);
  CAF_CHECK_EQUAL(pause.tries(), 6u);
  pause.reset();
  CAF_CHECK(pause.next() == 100ms);
  CAF_CHECK_EQUAL(pause.tries(), 1u);
}

CAF_TEST(bad options are refused) {
  const auto refuses = [](backoff_options options) {
    try {
      backoff pause{options};
    } catch (const std::invalid_argument&) {
      return true;
    }
    return false;
  };
  CAF_CHECK(refuses({.first = -1ns}));
  CAF_CHECK(refuses({.first = 2s, .most = 1s}));
  CAF_CHECK(refuses({.factor = 0.5}));
  CAF_CHECK(refuses({.jitter = 1.5}));
  CAF_CHECK(refuses({.jitter = -0.5}));
  CAF_CHECK(!refuses({.first = 0ns, .most = 0ns}));
}

CAF_TEST(a pause stays within its bounds) {
  CAF_CHECK(holds("bounds of a pause", [] {
    backoff_options options;
    options.first = std::chrono::milliseconds{*rc::gen::inRange(0, 1000)};
    options.most = options.first + std::chrono::milliseconds{*rc::gen::inRange(0, 100'000)};
    options.factor = *rc::gen::inRange(10, 50) / 10.0;
    options.jitter = *rc::gen::inRange(0, 11) / 10.0;
    options.seed = *rc::gen::inRange<std::uint64_t>(1, 1000);
    backoff pause{options};
    auto whole = static_cast<double>(options.first.count());
    for (int i = 0; i < 100; ++i) {
      const auto got = static_cast<double>(pause.next().count());
      RC_ASSERT(got <= whole + 1);
      RC_ASSERT(got >= whole * (1 - options.jitter) - 1);
      whole = std::min(whole * options.factor, static_cast<double>(options.most.count()));
    }
  }));
}

CAF_TEST(two seeds spread and one seed repeats) {
  backoff a{{.seed = 1}};
  backoff b{{.seed = 1}};
  backoff c{{.seed = 99}};
  const auto x = a.next();
  CAF_CHECK(x == b.next());
  CAF_CHECK(x != c.next());
}
