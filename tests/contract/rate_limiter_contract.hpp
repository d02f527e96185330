#pragma once

#include "integration/rate_limiter.hpp"
#include "tests/support/eventually.hpp"

#include <functional>
#include <memory>
#include <string>

#include "caf/test/unit_test.hpp"

namespace caravan::contract {

/// What every rate_limiter promises. Rates here are so slow that nothing comes back during a test, unless it waits for
/// that.
inline void check_rate_limiter_contract(const std::function<std::unique_ptr<rate_limiter>()>& make) {
  using namespace std::chrono_literals;
  using kind = rate_rule::kind;
  const auto taken = [](rate_limiter& l, std::string_view key, const rate_rule& rule, int tries) {
    int permitted = 0;
    for (int i = 0; i < tries; ++i) permitted += l.take(key, rule, 1).value() ? 1 : 0;
    return permitted;
  };
  for (const auto how : {kind::tokens, kind::period}) {
    const auto l = make();
    const rate_rule five{how, 5, std::chrono::hours{24}, 5};
    CAF_CHECK_EQUAL(taken(*l, "a", five, 9), 5);
    CAF_CHECK_EQUAL(taken(*l, "b", five, 9), 5);
    // Any bytes, also none, and none like another.
    CAF_CHECK_EQUAL(taken(*l, std::string_view("a\0x", 3), five, 6), 5);
    CAF_CHECK_EQUAL(taken(*l, "", five, 6), 5);
    CAF_CHECK_EQUAL(taken(*l, "\xff\n{a}:*", five, 6), 5);
    // All or none.
    CAF_CHECK(l->take("many", five, 4).value());
    CAF_CHECK(!l->take("many", five, 2).value());
    CAF_CHECK(l->take("many", five, 1).value());
    CAF_CHECK(!l->take("many", five, 1).value());
    CAF_CHECK(!l->take("too many", five, 6).value());
    CAF_CHECK(l->take("too many", five, 5).value());
    // Reset.
    CAF_CHECK(l->reset("many").has_value());
    CAF_CHECK(l->reset("never seen").has_value());
    CAF_CHECK_EQUAL(taken(*l, "many", five, 9), 5);
    CAF_CHECK_EQUAL(taken(*l, "a", five, 1), 0);
    // Comes back.
    const rate_rule fast{how, 1, 20ms, 1};
    CAF_CHECK(l->take("fast", fast, 1).value());
    CAF_CHECK(testing_support::eventually([&] { return l->take("fast", fast, 1).value(); }));
    // A key counts on when its rule changes.
    CAF_CHECK_EQUAL(taken(*l, "a", {how, 3, std::chrono::hours{24}, 3}, 3), 0);
  }
  const auto l = make();
  // A rate of zero gives the burst once.
  CAF_CHECK_EQUAL(taken(*l, "zero", {kind::tokens, 0, 1ms, 3}, 9), 3);
  CAF_CHECK(!l->take("zero", {kind::tokens, 0, 1ms, 3}, 1).value());
  // A rate far above the burst never permits more than the burst at once.
  const rate_rule wild{kind::tokens, 1'000'000, 1000ms, 2};
  CAF_CHECK(!l->take("wild", wild, 3).value());
  CAF_CHECK(testing_support::eventually([&] { return l->take("wild", wild, 2).value(); }));
  // A period permits what is left of a higher quota.
  CAF_CHECK_EQUAL(taken(*l, "raised", {kind::period, 2, std::chrono::hours{24}, 1}, 9), 2);
  CAF_CHECK_EQUAL(taken(*l, "raised", {kind::period, 5, std::chrono::hours{24}, 1}, 9), 3);
}

}  // namespace caravan::contract
