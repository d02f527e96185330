#include "nodes/cli/client.hpp"
#include "nodes/cli/table.hpp"
#include "nodes/cli/verbs.hpp"
#include "nodes/http/api_json.hpp"
#include "nodes/http/schedule_preview.hpp"

#include <caravan/schedule.hpp>

#include <charconv>
#include <cstdio>

namespace caravan::cli {

namespace {

using std::chrono::sys_seconds;

constexpr auto most_times = http::most_previewed;

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

std::string remark(const std::string& effect) {
  if (effect == to_string(clock_effect::first_pass)) return "comes twice: the clocks go back; first";
  if (effect == to_string(clock_effect::second_pass)) return "comes twice: the clocks went back; second";
  return {};
}

exit_code run_preview(const arguments& given) {
  const auto count = count_of(given);
  const auto from = from_of(given);
  const auto s = schedule_of(given);
  const auto shown = http::schedule_preview(s, from, count);
  if (!shown) throw stop(exit_refused, shown.failure().text);
  if (given.has("--json")) {
    print_json(*shown);
    return exit_done;
  }
  if (const auto warning = s.warning(); !warning.empty()) std::fprintf(stderr, "warning: %s\n", clean(warning).c_str());
  table t({{"NEXT"}, {"REMARK"}});
  const auto& skipped = (*shown)["skipped"];
  auto gone = skipped.begin();
  for (const auto& entry : (*shown)["next"]) {
    const auto at = http::parse_instant(entry["at"].get<std::string>());
    for (; gone != skipped.end() && http::parse_instant((*gone)["clocks_jump_at"].get<std::string>()) <= at; ++gone)
      t.add({{(*gone)["wall"].get<std::string>(), colour::yellow}, "skipped: the clocks jump over it"});
    const auto effect = entry.value("clock_change", "");
    t.add({{entry["at"].get<std::string>(), effect.empty() ? colour::none : colour::yellow}, remark(effect)});
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
