#define CAF_SUITE schedule
#include <caravan/schedule.hpp>

#include "caf/test/unit_test.hpp"

#include <chrono>
#include <set>

using namespace caravan;
using namespace std::chrono;
using namespace std::chrono_literals;

namespace {

schedule cron(std::string_view text, const std::string& zone = "UTC") {
  return schedule::parse(text, {.zone = zone}).value();
}
schedule extended(std::string_view text, const std::string& name = "", const std::string& zone = "UTC") {
  return schedule::parse(text, {cron_dialect::extended, zone, name}).value();
}

constexpr sys_seconds at(int y, int m, int d, int hour = 0, int minute = 0, int second = 0) {
  return sys_days{year{y} / m / d} + hours(hour) + minutes(minute) + seconds(second);
}

/// The next ones as text in the schedule's zone, a blank between them.
std::string next(const schedule& s, sys_seconds after, std::size_t count = 1) {
  std::string out;
  for (const auto t : s.next_n(after, count)) out += (out.empty() ? "" : " ") + s.format(t);
  return out;
}

std::string refusal(std::string_view text, const schedule_options& options = {.zone = "UTC"}) {
  const auto s = schedule::parse(text, options);
  if (!s) return s.failure().text;
  const auto fires = s->fires_after(at(2026, 1, 1));
  return fires ? "" : fires.failure().text;
}

void check_text(const std::string& is, const std::string& should) {
  if (is != should) CAF_MESSAGE("\"" << is << "\", not \"" << should << "\"");
  CAF_CHECK(is == should);
}

bool has(const std::string& text, std::string_view part) {
  if (text.find(part) != std::string::npos) return true;
  CAF_MESSAGE("\"" << text << "\" does not hold \"" << part << "\"");
  return false;
}

}  // namespace

CAF_TEST(a leap day is found across a century) {
  check_text(next(cron("0 0 29 2 *"), at(2096, 2, 29)), "2104-02-29T00:00:00Z");
  const auto s = cron("0 0 29 2 *");
  CAF_CHECK(s.previous(at(2104, 2, 29)) == at(2096, 2, 29));
}

CAF_TEST(summer time goes on beyond 2037) {
  check_text(next(cron("0 12 1 7 *", "America/New_York"), at(2037, 12, 31), 2),
             "2038-07-01T12:00:00-04:00 2039-07-01T12:00:00-04:00");
  check_text(next(cron("0 12 1 1 *", "Australia/Lord_Howe"), at(2099, 12, 30)), "2100-01-01T12:00:00+11:00");
  check_text(next(cron("30 2 * 3 *", "Europe/Berlin"), at(2050, 3, 26, 12), 2),
             "2050-03-28T02:30:00+02:00 2050-03-29T02:30:00+02:00");
}

CAF_TEST(a fraction of a second changes nothing) {
  const auto s = cron("* * * * * *");
  CAF_CHECK(s.next(at(2026, 1, 1) + 999ms) == at(2026, 1, 1, 0, 0, 1));
  CAF_CHECK(s.previous(at(2026, 1, 1) + 1ms) == at(2026, 1, 1));
  CAF_CHECK(s.previous(at(2026, 1, 1)) == at(2025, 12, 31, 23, 59, 59));
  const auto every = cron("@every 1h30m");
  CAF_CHECK(every.next(at(2026, 1, 1, 10) + 700ms) == at(2026, 1, 1, 11, 30));
}

CAF_TEST(refusals name the field and the remedy and the reason) {
  CAF_CHECK(
      has(refusal("* 24 * * *"), "schedule \"* 24 * * *\": hour field \"24\": \"24\" is out of range; write 0 to 23"));
  CAF_CHECK(has(refusal("* * * * 7"), "weekday field \"7\": Sunday is 0; write 0 or sun"));
  CAF_CHECK(has(refusal("0 22-2 * * *"), "the range begins after its end; write two ranges"));
  CAF_CHECK(has(refusal("0 0 L * *"), "L, W, # and H are of the extended dialect"));
  CAF_CHECK(has(refusal("* * * *"), "it has 4 fields; write five"));
  CAF_CHECK(has(refusal("0 0 30 2 *"), "it never fires: there is no such day in February, which ends with day 29"));
  CAF_CHECK(has(refusal("0 0 31 4,6 *"), "there is no such day in April, June, which ends with day 30"));
  CAF_CHECK(has(refusal("CRON_TZ=Mars/Base 0 9 * * *"), "time zone \"Mars/Base\": there is none of this name"));
  CAF_CHECK(has(refusal("TZ=../../etc/passwd 0 9 * * *"), "no zone can have this name"));
  CAF_CHECK(has(refusal("TZ=UTC"), "nothing stands after the zone"));
  CAF_CHECK(has(refusal("@every soon"), "@every needs a duration"));
  CAF_CHECK(has(refusal("@reboot"), "there is no such macro"));
  CAF_CHECK(has(refusal(std::string(5000, '*')), "the limit is 4096"));
  CAF_CHECK(has(refusal("0 0 * * 0 2020 1", {cron_dialect::extended, "UTC", ""}), "2020"));
  CAF_CHECK(has(refusal("0 0 0 1 1 * 2020", {cron_dialect::extended, "UTC", ""}), "its last year is over"));
  const auto none = schedule::every(0s);
  CAF_CHECK(!none);
}

CAF_TEST(a schedule each second warns) {
  CAF_CHECK(has(cron("* 5 * * * *").warning(), "sixty runs a minute"));
  check_text(cron("0 5 * * * *").warning(), "");
  check_text(cron("* * * * *").warning(), "");
  check_text(cron("@every 1s").warning(), "");
  for (const auto* text : {"@every 0s", "@every -5s", "@every 100ms"}) CAF_CHECK(has(cron(text).warning(), "counts as one second"));
}

CAF_TEST(equal schedules are equal however they are written) {
  CAF_CHECK(cron("@daily") == cron("0 0 * * *"));
  CAF_CHECK(cron("0 0 1-31 * *") == cron("0 0 * * *"));
  CAF_CHECK(cron("0 0 1-29 2 *") == cron("0 0 * 2 *"));
  CAF_CHECK(cron("0 0 30 2 1") == cron("0 0 * 2 1"));
  CAF_CHECK(cron("0 0 1-31 * 1") == cron("@daily"));
  CAF_CHECK(!(cron("0 0 1 * 1") == cron("0 0 1 * *")));
  CAF_CHECK(!(cron("@daily") == cron("@daily", "Europe/Berlin")));
  CAF_CHECK(cron("@every 90s") == cron("@every 1m30s"));
  CAF_CHECK(!(cron("@every 60s") == cron("* * * * *")));
  check_text(cron("  TZ=UTC   5  4 * * *").text(), "TZ=UTC 5 4 * * *");
}

CAF_TEST(clock changes are shown) {
  const auto spring = cron("30 2 * * *", "America/New_York");
  const auto skipped = spring.clock_notes(at(2026, 1, 1), at(2027, 1, 1), 10);
  CAF_REQUIRE_EQUAL(skipped.size(), 1u);
  CAF_CHECK(skipped[0].effect == clock_effect::skipped);
  CAF_CHECK(skipped[0].wall == local_days{2026y / 3 / 8} + 2h + 30min);
  CAF_CHECK(skipped[0].at == at(2026, 3, 8, 7));

  const auto autumn = cron("30 1 * * *", "America/New_York");
  const auto doubled = autumn.clock_notes(at(2026, 1, 1), at(2027, 1, 1), 10);
  CAF_REQUIRE_EQUAL(doubled.size(), 2u);
  CAF_CHECK(doubled[0].effect == clock_effect::first_pass);
  CAF_CHECK(doubled[0].at == at(2026, 11, 1, 5, 30));
  CAF_CHECK(doubled[1].effect == clock_effect::second_pass);
  CAF_CHECK(doubled[1].at == at(2026, 11, 1, 6, 30));
  CAF_CHECK(autumn.effect_at(at(2026, 11, 1, 5, 30)) == clock_effect::first_pass);
  CAF_CHECK(autumn.effect_at(at(2026, 11, 1, 6, 30)) == clock_effect::second_pass);
  CAF_CHECK(autumn.effect_at(at(2026, 11, 2, 6, 30)) == clock_effect::none);
  const auto cut = autumn.clock_notes(at(2026, 11, 1, 6), at(2027, 1, 1), 10);
  CAF_REQUIRE_EQUAL(cut.size(), 1u);
  CAF_CHECK(cut[0].effect == clock_effect::second_pass);
  const auto many = cron("* * * * * *", "Pacific/Apia").clock_notes(at(2011, 12, 1), at(2012, 1, 31), 50);
  CAF_CHECK_EQUAL(many.size(), 50u);
}

CAF_TEST(times beyond the calendar have no occurrences) {
  const auto s = cron("* * * * * *");
  CAF_CHECK(!s.next(sys_seconds::max()));
  CAF_CHECK(!s.previous(sys_seconds::min()));
  CAF_CHECK(s.next(sys_seconds::min()) == at(1, 1, 1));
  CAF_CHECK(s.previous(sys_seconds::max()).has_value());
  CAF_CHECK(!cron("@every 2562047h").next(at(9999, 12, 31)));
  CAF_CHECK(!s.matches(sys_seconds::max()));
  CAF_CHECK(s.format(sys_seconds::max()).ends_with("Z"));
}

CAF_TEST(the extended dialect has last days) {
  check_text(next(extended("0 0 L * *"), at(2026, 1, 15), 3),
             "2026-01-31T00:00:00Z 2026-02-28T00:00:00Z 2026-03-31T00:00:00Z");
  check_text(next(extended("0 0 L-2 * *"), at(2026, 2, 1)), "2026-02-26T00:00:00Z");
  check_text(next(extended("0 0 LW * *"), at(2026, 1, 15), 2), "2026-01-30T00:00:00Z 2026-02-27T00:00:00Z");
  check_text(next(extended("0 0 * * friL"), at(2026, 1, 1), 2), "2026-01-30T00:00:00Z 2026-02-27T00:00:00Z");
  check_text(next(extended("0 0 * * 5L"), at(2026, 1, 1)), "2026-01-30T00:00:00Z");
}

CAF_TEST(the extended dialect has weekdays near a day) {
  check_text(next(extended("0 0 15W * *"), at(2026, 2, 1)), "2026-02-16T00:00:00Z");  // the 15th is a Sunday
  check_text(next(extended("0 0 1W * *"), at(2026, 7, 31)), "2026-08-03T00:00:00Z");  // the 1st is a Saturday
  check_text(next(extended("0 0 31W * *"), at(2026, 5, 1)), "2026-05-29T00:00:00Z");  // the 31st is a Sunday
  check_text(next(extended("0 0 31W * *"), at(2026, 2, 1)), "2026-03-31T00:00:00Z");
}

CAF_TEST(the extended dialect counts weekdays) {
  check_text(next(extended("0 0 * * mon#2"), at(2026, 1, 1), 2), "2026-01-12T00:00:00Z 2026-02-09T00:00:00Z");
  check_text(next(extended("0 0 * 2 fri#5"), at(2064, 3, 1), 2), "2092-02-29T00:00:00Z 2104-02-29T00:00:00Z");
  check_text(next(extended("0 0 * * 7"), at(2026, 1, 1)), "2026-01-04T00:00:00Z");
}

CAF_TEST(the extended dialect has ranges over the end) {
  CAF_CHECK(extended("0 0 * * fri-mon") == extended("0 0 * * 0,1,5,6"));
  CAF_CHECK(extended("0 0 * * 5-7") == extended("0 0 * * 0,5,6"));
  CAF_CHECK(extended("0 0 * * 0-7") == extended("0 0 * * *"));
  CAF_CHECK(extended("0 22-2 * * *") == extended("0 22,23,0,1,2 * * *"));
  CAF_CHECK(extended("50-10/5 * * * *") == extended("50,55,0,5,10 * * * *"));
  CAF_CHECK(extended("0 0 1 nov-feb *") == extended("0 0 1 1,2,11,12 *"));
}

CAF_TEST(the extended dialect has years) {
  check_text(next(extended("0 0 12 1 1 * 2030-2031,2090"), at(2026, 1, 1), 4),
             "2030-01-01T12:00:00Z 2031-01-01T12:00:00Z 2090-01-01T12:00:00Z");
  check_text(next(extended("0 0 12 1 1 * *"), at(2026, 1, 1)), "2026-01-01T12:00:00Z");
  CAF_CHECK(has(refusal("0 0 12 1 1 * 2200", {cron_dialect::extended, "UTC", ""}), "write 1970 to 2199"));
}

CAF_TEST(H spreads by name and stays the same) {
  const auto a = extended("H H * * *", "backup"), again = extended("H H * * *", "backup");
  CAF_CHECK(a == again);
  std::set<std::string> minutes;
  for (auto i = 0; i < 100; ++i)
    minutes.insert(next(extended("H * * * *", "task" + std::to_string(i)), at(2026, 1, 1)));
  CAF_CHECK(minutes.size() > 40);
  const auto quarter = extended("H/15 * * * *", "x").next_n(at(2026, 1, 1) - 1s, 2);
  CAF_CHECK(quarter[1] - quarter[0] == 15min);
  const auto night = extended("H H(0-3) * * *", "y").next(at(2026, 1, 1) - 1s);
  CAF_CHECK(*night < at(2026, 1, 1, 4));
  // Fixed for ever: a new version must not move anybody's tasks.
  check_text(next(extended("H H H H *", "backup"), at(2026, 1, 1)), "2026-09-08T12:58:00Z");
  CAF_CHECK(has(refusal("H * * * *", {cron_dialect::extended, "UTC", ""}), "H spreads by the name of the task"));
  CAF_CHECK(has(refusal("H(30-10) * * * *", {cron_dialect::extended, "UTC", "x"}), "begins after its end"));
}

CAF_TEST(the dialects differ only where they say so) {
  for (const auto* text : {"0 0 L * *", "0 0 * * 7", "0 22-2 * * *", "0 0 0 1 1 * 2030", "H * * * *", "0 0 * * 5#2"}) {
    const auto s = schedule::parse(text, {.zone = "UTC", .name = "x"});
    CAF_CHECK(!s);
  }
  for (const auto* text : {"0 0 1 * 1", "*/5 * * * *", "@weekly", "1/6 * * * * *"})
    CAF_CHECK(cron(text) == extended(text));
}
