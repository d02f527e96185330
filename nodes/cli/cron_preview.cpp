#include "nodes/cli/client.hpp"
#include "nodes/cli/table.hpp"
#include "nodes/cli/verbs.hpp"
#include "nodes/http/api_json.hpp"

#include <caravan/schedule.hpp>

#include <charconv>
#include <cstdio>

namespace caravan::cli {

namespace {

using json = nlohmann::ordered_json;
using std::chrono::sys_seconds;

constexpr std::size_t most_times = 1000;
constexpr std::size_t most_notes = 100;

std::size_t count_of(const arguments& given) {
  const auto text = given.get("--count", "5");
  std::size_t count = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (failed != std::errc{} || end != text.data() + text.size() || count < 1 || count > most_times)
    throw stop(exit_usage, "--count: \"" + text + "\" is no number from 1 to " + std::to_string(most_times));
  return count;
}

sys_seconds from_of(const arguments& given) {
  const auto text = given.find("--from");
  if (!text) return std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
  const auto at = http::parse_instant(*text);
  if (!at)
    throw stop(exit_usage, "--from: \"" + clean(*text) + "\" is no instant; write for example 2026-05-01T12:00:00Z");
  return std::chrono::floor<std::chrono::seconds>(*at);
}

schedule schedule_of(const arguments& given) {
  schedule_options options;
  const auto dialect = given.get("--dialect", "standard");
  if (dialect == "extended")
    options.dialect = cron_dialect::extended;
  else if (dialect != "standard")
    throw stop(exit_usage, "--dialect: \"" + clean(dialect) + "\" is none of standard, extended");
  options.zone = given.get("--zone");
  options.name = given.get("--name");
  auto parsed = schedule::parse(given.get("SPEC"), options);
  if (!parsed) throw stop(exit_usage, parsed.failure().text);
  return *parsed;
}

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

std::string remark(clock_effect effect) {
  switch (effect) {
    case clock_effect::first_pass:
      return "comes twice: the clocks go back; first";
    case clock_effect::second_pass:
      return "comes twice: the clocks went back; second";
    case clock_effect::skipped:
      return "skipped: the clocks jump over it";
    case clock_effect::none:
      break;
  }
  return {};
}

exit_code run_preview(const arguments& given) {
  const auto count = count_of(given);
  const auto from = from_of(given);
  const auto s = schedule_of(given);
  if (const auto fires = s.fires_after(from); !fires) throw stop(exit_refused, fires.failure().text);
  const auto next = s.next_n(from, count);
  // What is skipped has no time of its own: it stands where the clocks jump.
  std::vector<clock_note> skipped;
  for (const auto& note : s.clock_notes(from, next.back() + std::chrono::seconds(1), most_notes))
    if (note.effect == clock_effect::skipped) skipped.push_back(note);

  const auto warning = s.warning();
  if (given.has("--json")) {
    auto times = json::array(), gone = json::array();
    for (const auto at : next) {
      json entry{{"at", s.format(at)}};
      if (const auto effect = s.effect_at(at); effect != clock_effect::none) entry["clock_change"] = to_string(effect);
      times.push_back(std::move(entry));
    }
    for (const auto& note : skipped) gone.push_back({{"wall", wall_text(note)}, {"clocks_jump_at", s.format(note.at)}});
    json out{{"schedule", s.text()}, {"zone", s.zone()}, {"next", std::move(times)}, {"skipped", std::move(gone)}};
    if (!warning.empty()) out["warning"] = warning;
    print_json(out);
    return exit_done;
  }
  if (!warning.empty()) std::fprintf(stderr, "warning: %s\n", clean(warning).c_str());
  table t({{"NEXT"}, {"REMARK"}});
  auto gone = skipped.begin();
  for (const auto at : next) {
    for (; gone != skipped.end() && gone->at <= at; ++gone)
      t.add({{wall_text(*gone), colour::yellow}, remark(gone->effect)});
    const auto effect = s.effect_at(at);
    t.add({{s.format(at), effect == clock_effect::none ? colour::none : colour::yellow}, remark(effect)});
  }
  t.print();
  return exit_done;
}

}  // namespace

std::vector<verb> cron_preview_verbs() {
  return {
      {"cron",
       "preview",
       "Shows the next times of a schedule, and what changes of clocks do to them. Needs no node.",
       {{"SPEC", "", "The schedule, in quotes: \"30 2 * * mon-fri\", @daily, \"@every 10m\"", times::once},
        {"--zone", "ZONE", "Its time zone, such as Europe/Berlin; the machine's without it"},
        {"--count", "N", "How many times, 1 to 1000; 5 without it"},
        {"--from", "TIME", "After this instant (RFC 3339); now without it"},
        {"--dialect", "DIALECT", "standard or extended"},
        {"--name", "NAME", "The task's name, which H spreads by"},
        {"--json", "", "Prints JSON"}},
       "caravan cron preview \"30 1 * * *\" --zone America/New_York --from 2026-10-31T12:00:00Z",
       run_preview,
       talks_to::nobody,
       "A time that the clocks jump over is listed as skipped: it does not fire. One that comes twice when they go "
       "back is "
       "listed twice. With --json: `{\"next\": [{\"at\", \"clock_change\"}], \"skipped\": [{\"wall\", "
       "\"clocks_jump_at\"}]}`."},
  };
}

}  // namespace caravan::cli
