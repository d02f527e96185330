#define CAF_SUITE cron_due
#include "actors/cron/due.hpp"

#include "caf/test/unit_test.hpp"

#include <random>
#include <set>

using namespace caravan;
using namespace std::chrono;
using namespace std::chrono_literals;

namespace {

constexpr cron_instant noon = sys_days{2026y / 2 / 10} + 12h;

cron_timing timing(const char* text, milliseconds jitter = 0ms) {
  return {"task", schedule::parse(text, {.zone = "UTC"}).value(), jitter};
}

}  // namespace

CAF_TEST(jitter is the same for the same occurrence and stays before the next one) {
  const auto t = timing("* * * * *", 24h);
  std::set<milliseconds> seen;
  for (auto at = noon; at < noon + 2h; at += 1min) {
    const auto start = start_of(t, at);
    CAF_CHECK(start >= at && start < at + 1min);
    CAF_CHECK(start == start_of(timing("* * * * *", 24h), at));
    seen.insert(start - at);
  }
  CAF_CHECK(seen.size() > 100);
  CAF_CHECK(start_of(timing("* * * * *"), noon) == noon);
}

CAF_TEST(the latest due time agrees with walking through all of them) {
  std::mt19937 chance(7);
  for (const auto* text : {"* * * * * *", "*/7 * * * *", "0 */3 * * *", "30 2 29 2 *"})
    for (const auto jitter : {0ms, 900ms, 20min + 0ms})
      for (auto i = 0; i < 60; ++i) {
        const auto t = timing(text, jitter);
        const cron_instant cursor = noon + seconds(chance() % 3600);
        const cron_time now = cursor + milliseconds(chance() % 1'500'000);
        std::optional<cron_instant> should;
        for (auto at = t.when.next(cursor); at && *at <= now; at = t.when.next(*at))
          if (start_of(t, *at) <= now) should = at;
        CAF_CHECK(latest_due(t, cursor, now) == should);
      }
}

CAF_TEST(an interval that is late begins anew) {
  const auto t = timing("@every 2h");
  CAF_CHECK(!latest_due(t, noon, noon + 2h - 1ms));
  CAF_CHECK(latest_due(t, noon, noon + 2h + 5min) == noon + 2h);
  CAF_CHECK(latest_due(t, noon, noon + 7h + 500ms) == noon + 7h);
}

CAF_TEST(counting is bounded) {
  const auto p = between(timing("* * * * * *"), noon, noon + 24h);
  CAF_CHECK_EQUAL(p.count, most_counted);
  CAF_CHECK(p.first == noon + 1s && p.last == noon + 24h - 1s);
  CAF_CHECK_EQUAL(between(timing("* * * * *"), noon, noon + 1min).count, 0u);
}

CAF_TEST(a clock set back is told from clocks that differ) {
  const auto often = timing("* * * * * *"), daily = timing("@daily");
  CAF_CHECK(!clock_was_set_back(often, noon, noon - 10min));
  CAF_CHECK(clock_was_set_back(often, noon, noon - 11min));
  CAF_CHECK(!clock_was_set_back(daily, noon, noon - 11h));
  CAF_CHECK(clock_was_set_back(daily, noon, noon - 1000h));
  // Office hours: the next time, skipped by hand, is further away than the one after it from there.
  const auto office = timing("*/5 0-7,20-23 * * *");
  CAF_CHECK(!clock_was_set_back(office, noon + 8h, noon));
  CAF_CHECK(clock_was_set_back(office, noon + 8h + 5min, noon));
}
