#define CAF_SUITE backoff
#include "toolbox/backoff.hpp"

#include <random>

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

CAF_TEST(a count of failures gives the pauses of the class) {
  const backoff_options options{.first = 100ms, .most = 5s, .factor = 3, .jitter = 0.5, .seed = 7};
  backoff pause{options};
  std::minstd_rand random{7};
  for (std::uint64_t failures = 1; failures <= 20; ++failures)
    CAF_CHECK(pause_after(options, failures, random) == pause.next());
}

CAF_TEST(any count of failures has a pause within its bounds) {
  std::mt19937_64 random{1};
  const backoff_options exact{.first = 1s, .most = 1h, .jitter = 0};
  for (const std::uint64_t many : {std::uint64_t{13}, std::uint64_t{100'000}, ~std::uint64_t{0}})
    CAF_CHECK(pause_after(exact, many, random) == 1h);
  CAF_CHECK(pause_after(exact, 0, random) == 1s);
  CAF_CHECK(pause_after(exact, 1, random) == 1s);
  CAF_CHECK(pause_after(exact, 12, random) == 2048s);
  CAF_CHECK(pause_after({.first = 0ns, .most = 1h}, ~std::uint64_t{0}, random) == 0ns);
  CAF_CHECK(holds("bounds by count", [&] {
    const auto jitter = *rc::gen::inRange(0, 11) / 10.0;
    const auto failures = *rc::gen::arbitrary<std::uint64_t>();
    const auto whole = pause_after(exact, failures, random);
    auto spread = exact;
    spread.jitter = jitter;
    const auto got = pause_after(spread, failures, random);
    RC_ASSERT(got <= whole);
    RC_ASSERT(static_cast<double>(got.count()) >= static_cast<double>(whole.count()) * (1 - jitter) - 1);
  }));
}
