#include "nodes/http/schedule_preview.hpp"

#include <cstdio>

namespace caravan::http {

namespace {

constexpr std::size_t most_notes = 100;

std::string wall_text(const clock_note& note) {
  const auto day = std::chrono::floor<std::chrono::days>(note.wall);
  const std::chrono::year_month_day date{day};
  const std::chrono::hh_mm_ss time{note.wall - day};
  char text[32];
  std::snprintf(text, sizeof text, "%04d-%02u-%02uT%02d:%02d:%02d", static_cast<int>(date.year()),
                static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                static_cast<int>(time.hours().count()), static_cast<int>(time.minutes().count()),
                static_cast<int>(time.seconds().count()));
  return text;
}

}  // namespace

expected<ordered_json> schedule_preview(const schedule& s, std::chrono::sys_seconds from, std::size_t count) {
  if (const auto fires = s.fires_after(from); !fires) return fires.failure();
  const auto next = s.next_n(from, count);
  auto times = ordered_json::array(), gone = ordered_json::array();
  for (const auto at : next) {
    ordered_json entry{{"at", s.format(at)}};
    if (const auto effect = s.effect_at(at); effect != clock_effect::none) entry["clock_change"] = to_string(effect);
    times.push_back(std::move(entry));
  }
  // What is skipped has no time of its own: it stands where the clocks jump.
  for (const auto& note : s.clock_notes(from, next.back() + std::chrono::seconds(1), most_notes))
    if (note.effect == clock_effect::skipped)
      gone.push_back({{"wall", wall_text(note)}, {"clocks_jump_at", s.format(note.at)}});
  ordered_json out{
      {"schedule", s.text()}, {"zone", s.zone()}, {"next", std::move(times)}, {"skipped", std::move(gone)}};
  if (const auto warning = s.warning(); !warning.empty()) out["warning"] = warning;
  return out;
}

}  // namespace caravan::http
