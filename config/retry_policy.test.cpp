#define CAF_SUITE config_retry_policy
#include "config/retry_policy.hpp"

#include "caf/test/unit_test.hpp"

using namespace caravan;
using namespace caravan::config;
using namespace std::chrono_literals;

namespace {

std::vector<std::int64_t> seconds(std::string_view text, std::uint32_t n) {
  const auto p = parse_retry_policy(text).value();
  std::vector<std::int64_t> out;
  for (std::uint32_t i = 1; i <= n; ++i) out.push_back(p.pause_after(i) / 1s);
  return out;
}
using list = std::vector<std::int64_t>;

}  // namespace

CAF_TEST(pauses are as the policy says) {
  CAF_CHECK(seconds("exponential 1s..1h", 5) == (list{1, 2, 4, 8, 16}));
  CAF_CHECK(seconds("exponential 10s..30s", 4) == (list{10, 20, 30, 30}));
  CAF_CHECK(seconds("linear 30s", 4) == (list{30, 60, 90, 120}));
  CAF_CHECK(seconds(" linear  30s .. 1m ", 4) == (list{30, 60, 60, 60}));
  CAF_CHECK(seconds("list 1s,5s, 1m", 5) == (list{1, 5, 60, 60, 60}));
  const auto p = parse_retry_policy("exponential 1s..1h").value();
  CAF_CHECK(p.pause_after(4'000'000'000u) == 1h);
  CAF_CHECK(p.pause_after(0) == 1s);
  CAF_CHECK(parse_retry_policy("exponential 0s..1h").value().pause_after(100) == 0s);
  CAF_CHECK(parse_retry_policy("linear 1h..2h").value().pause_after(4'000'000'000u) == 2h);
}

CAF_TEST(what is no policy is refused with a hint) {
  for (const auto* bad : {"", "exponential", "exponential 1h..1s", "linear x", "list", "list 1s,", "list 1s,,2s", "list -1s",
                          "square 1s", "1s", "exponential 1s..9999h", "list 1ns"}) {
    const auto p = parse_retry_policy(bad);
    CAF_REQUIRE(!p);
    CAF_CHECK(p.failure().code == errc::invalid_argument);
    CAF_CHECK(p.failure().text.find("write for example") != std::string::npos);
  }
}

CAF_TEST(a policy as text is the same policy) {
  for (const auto* text : {"exponential 1s..1h", "linear 30s..10m", "list 1s,5s,1m", "list 1500ms"}) {
    const auto p = parse_retry_policy(text).value();
    const auto shown = to_string(p);
    CAF_CHECK_EQUAL(shown, std::string(text));
    CAF_CHECK(parse_retry_policy(shown).value() == p);
  }
}

CAF_TEST(rates are read) {
  CAF_CHECK(parse_rate("").value() == rate{});
  CAF_CHECK(parse_rate("100/s").value() == (rate{100, 1s, 1}));
  CAF_CHECK(parse_rate("1/10s").value() == (rate{1, 10s, 1}));
  CAF_CHECK(parse_rate("100 / m burst 500").value() == (rate{100, 60s, 500}));
  CAF_CHECK(parse_rate("100/s").value().interval() == 10ms);
  for (const auto* bad : {"100", "/s", "0/s", "1/0s", "x/s", "1/", "1/s burst 0", "1/s burst", "-1/s"}) {
    const auto r = parse_rate(bad);
    CAF_CHECK(!r);
  }
}
