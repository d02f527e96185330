// What must hold for any bytes that are given as a schedule or as a time zone's file. The entry is libFuzzer's;
// schedule_fuzz.test.cpp calls the same one, so that every test run covers some of it without clang.

#include "schedule/civil.hpp"
#include "schedule/zone.hpp"

#include <caravan/schedule.hpp>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

using namespace caravan;

namespace {

std::string_view input;  // of this run, for the message

void demand(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "violated: %s, by\n", what);
  for (const auto c : input)
    std::fprintf(stderr, c >= 0x20 && c < 0x7f && c != '\\' ? "%c" : "\\x%02x", static_cast<unsigned char>(c));
  std::fputc('\n', stderr);
  std::abort();
}

void occurrence_properties(const schedule& s, schedule::time from) {
  auto at = from;
  for (auto i = 0; i < 4; ++i) {
    const auto next = s.next(at);
    if (!next) break;
    demand(*next > at, "the next time is later");
    demand(s.interval() || s.matches(*next), "the next time matches");
    const auto back = s.previous(*next + std::chrono::seconds(1));
    demand(s.interval() || back == next, "from the second after a time the previous one is that time");
    demand(s.effect_at(*next) != clock_effect::skipped, "a time that is skipped does not fire");
    at = *next;
  }
  if (const auto previous = s.previous(from)) {
    demand(*previous < from, "the previous time is earlier");
    demand(s.interval() || s.matches(*previous), "the previous time matches");
  }
  const auto notes = s.clock_notes(from, from + std::chrono::days(800), 50);
  for (std::size_t i = 1; i < notes.size(); ++i) demand(notes[i - 1].at <= notes[i].at, "changes are in order");
  for (const auto& note : notes)
    demand((note.effect == clock_effect::skipped) != (s.matches(note.at) && s.effect_at(note.at) == note.effect),
           "a change is what effect_at says of it");
}

void schedule_properties(std::string_view text, const schedule_options& options) {
  const auto s = schedule::parse(text, options);
  if (!s) {
    demand(s.failure().text.size() > 20 && s.failure().text.size() < 700,
           "a refusal says something, and not endlessly");
    return;
  }
  const auto again = schedule::parse(s->text(), options);
  demand(again.has_value() && *again == *s, "its own text means the same");
  demand(again->text() == s->text(), "its own text is printed as it is");
  using std::chrono::sys_days, std::chrono::year;
  for (const auto y : {1, 1883, 1999, 2026, 2096, 9990}) occurrence_properties(*s, sys_days{year{y} / 3 / 20});
  const auto fires = s->fires_after(sys_days{year{2026} / 1 / 1});
  demand(fires || fires.failure().text.find("never fires") != std::string::npos, "one that never fires is said to");
}

void zone_properties(std::string_view bytes) {
  for (const auto& zone : {calendar::zone::parse(bytes, "fuzz")}) {
    if (!zone) continue;
    auto t = calendar::earliest;
    for (auto i = 0; i < 300 && t < calendar::latest; ++i) {
      const auto here = (*zone)->at(t);
      demand(here.begin <= t && t < here.end, "a segment holds its instant");
      t = here.end;
    }
  }
  if (const auto zone = calendar::zone::from_rule(bytes, "fuzz"))
    for (const auto y : {1, 1999, 2048, 9999}) {
      const auto t = calendar::days_from_civil(y, 6, 1) * calendar::seconds_per_day;
      const auto here = (*zone)->at(t);
      demand(here.begin <= t && t < here.end, "a segment holds its instant");
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  input = text;
  schedule_properties(text, {.zone = "America/New_York"});
  schedule_properties(text, {cron_dialect::extended, "Europe/Berlin", "task"});
  zone_properties(text);
  return 0;
}
