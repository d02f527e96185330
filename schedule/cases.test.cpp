// Expected times, verdicts and equalities as data. They are read where they lie beside the source, when they are there.
//
//   CARAVAN_LIST_CASES=1   prints the id of every case, not only of those that fail

#define CAF_SUITE schedule_cases
#include <caravan/schedule.hpp>

#include "caf/test/unit_test.hpp"

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <set>

using namespace caravan;
using namespace std::chrono_literals;
using nlohmann::json;

namespace {

using instant = schedule::time;

constexpr auto folder = CARAVAN_SOURCE_DIR "/../shared/cases/";
/// What registration is asked at: an expression that has no time from then on is refused.
constexpr instant registration = std::chrono::sys_days{std::chrono::year{2026} / 2 / 10};

/// Valid expressions that the dialect's origin gives up on around a date that its zone leaves out, because it never
/// returns there. The wall-clock rule has an answer, which is the one that the case names.
const std::set<std::string> refused_for_a_hang = {"stiny-0009"};

struct failed_case {
  std::string why;
};

void demand(bool holds, const std::string& why) {
  if (!holds) throw failed_case{why};
}

/// A fraction of a second is cut: next begins at the whole second anyway.
instant parse_instant(std::string text) {
  if (const auto dot = text.find('.'); dot != std::string::npos)
    text.erase(dot, text.find_first_not_of("0123456789", dot + 1) - dot);
  int year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0, offset_hour = 0, offset_minute = 0;
  char sign = '+';
  const auto n = std::sscanf(text.c_str(), "%d-%d-%dT%d:%d:%d%c%d:%d", &year, &month, &day, &hour, &minute, &second,
                             &sign, &offset_hour, &offset_minute);
  demand(n == 9 || (n == 7 && sign == 'Z'), "no instant: " + text);
  const auto date = std::chrono::sys_days{std::chrono::year{year} / month / day};
  const auto offset = 1h * offset_hour + 1min * offset_minute;
  return date + 1h * hour + 1min * minute + 1s * second - (sign == '-' ? -offset : offset);
}

expected<schedule> parse(const json& c, const std::string& text) {
  return schedule::parse(text, {.zone = c.value("tz", "UTC")});
}

schedule parsed(const json& c, const std::string& text) {
  auto out = parse(c, text);
  demand(out.has_value(), out ? "" : out.failure().text);
  return *out;
}

/// As a registration decides.
bool accepted(const json& c, std::string& why) {
  const auto out = parse(c, c["expr"].get<std::string>());
  if (!out) {
    why = out.failure().text;
    return false;
  }
  const auto fires = out->fires_after(registration);
  if (!fires) why = fires.failure().text;
  return fires.has_value();
}

void check_next(const json& c, const json& next) {
  const auto s = parsed(c, c["expr"].get<std::string>());
  auto at = parse_instant(c["from"].get<std::string>());
  std::vector<instant> found;
  for (const auto& text : next) {
    const auto should = parse_instant(text.get<std::string>());
    const auto is = s.next(at);
    demand(is.has_value(), "nothing after " + s.format(at) + ", not " + text.get<std::string>());
    demand(*is == should, s.format(*is) + " comes after " + s.format(at) + ", not " + text.get<std::string>());
    demand(s.matches(*is) || s.interval(), s.format(*is) + " does not match");
    found.push_back(*is);
    at = *is;
  }
  if (!s.interval())
    for (auto i = found.size(); i > 1; --i)
      demand(s.previous(found[i - 1]) == found[i - 2], "previous of " + s.format(found[i - 1]) + " differs");
  if (c.value("exhausted", false) || c.value("never", false)) demand(!s.next(at), "there is a time after the last one");
}

void check_validity(const json& c, bool valid) {
  std::string why;
  const auto ok = accepted(c, why);
  demand(ok == valid, valid ? "refused: " + why : "accepted");
  demand(ok || why.find("; ") != std::string::npos || why.find("never fires") != std::string::npos,
         "the refusal has no remedy: " + why);
}

/// What the case says about this dialect; nothing when it says nothing.
bool run(const json& c, const std::string& file) {
  const auto verdict = c.value("gocron", "same");
  if (verdict.starts_with("not comparable")) return false;
  if (file == "cron_equal.jsonl") {
    const auto a = c["equal"][0].get<std::string>(), b = c["equal"][1].get<std::string>();
    if (verdict == "same") {
      demand(parsed(c, a) == parsed(c, b), "they differ");
    } else {
      demand(!parse(c, a) || !parse(c, b), "both were accepted");
    }
    return true;
  }
  if (verdict.starts_with("rejects") && !refused_for_a_hang.contains(c["id"].get<std::string>())) {
    check_validity(c, false);
    return true;
  }
  if (verdict == "accepts") {
    check_validity(c, true);
    return true;
  }
  if (file == "cron_grammar.jsonl") {
    if (c.value("lenient", false) && !parse(c, c["expr"].get<std::string>())) return true;  // refusing is allowed
    check_validity(c, c["valid"].get<bool>());
    if (c["valid"].get<bool>()) check_next(c, c["next"]);
    return true;
  }
  if (c.contains("match")) {
    const auto s = parsed(c, c["expr"].get<std::string>());
    demand(s.matches(parse_instant(c["at"].get<std::string>())) == c["match"].get<bool>(),
           "it matches or not, the other way");
    return true;
  }
  if (c.contains("not_next")) {
    const auto s = parsed(c, c["expr"].get<std::string>());
    for (const auto& text : c["not_next"])
      demand(s.next(parse_instant(c["from"].get<std::string>())) != parse_instant(text.get<std::string>()),
             text.get<std::string>() + " is the next one");
    return true;
  }
  check_next(c, c.contains("gocron_next")      ? c["gocron_next"]
                : c.contains("next_wallclock") ? c["next_wallclock"]
                                               : c["next"]);
  return true;
}

void run_file(const std::string& name) {
  std::ifstream file(folder + name);
  if (!file) {
    std::cout << name << ": skipped, not there\n";
    return;
  }
  const auto list = std::getenv("CARAVAN_LIST_CASES") != nullptr;
  auto passed = 0, lenient = 0, not_ours = 0;
  std::vector<std::string> failed;
  for (std::string line; std::getline(file, line);) {
    if (line.empty()) continue;
    const auto c = json::parse(line);
    const auto id = c["id"].get<std::string>();
    std::string outcome = "ok";
    try {
      if (!run(c, name)) {
        ++not_ours;
        outcome = "says nothing about this dialect";
      } else {
        ++passed;
      }
    } catch (const failed_case& f) {
      outcome = f.why;
      failed.push_back(id + " (" + (c.contains("expr") ? c["expr"].dump() : c["equal"].dump()) + "): " + f.why);
    }
    if (c.value("lenient", false) && outcome == "ok" && !parse(c, c["expr"].get<std::string>())) ++lenient;
    if (list) std::cout << id << ' ' << outcome << '\n';
  }
  for (const auto& f : failed) std::cout << "failed: " << f << '\n';
  std::cout << name << ": " << passed << " passed, " << failed.size() << " failed, " << not_ours
            << " of other dialects; refused as the case allows: " << lenient << '\n';
  CAF_CHECK_EQUAL(failed.size(), 0u);
  CAF_CHECK(passed > 0);
}

}  // namespace

CAF_TEST(next times that other schedulers agree on) { run_file("cron_differential.jsonl"); }
CAF_TEST(next times where others differ) { run_file("cron_divergent.jsonl"); }
CAF_TEST(every kind of clock change) { run_file("cron_dst_matrix.jsonl"); }
CAF_TEST(the wall clock rule where its origin leaves it) { run_file("cron_quirks.jsonl"); }
CAF_TEST(next times of other test suites) { run_file("cron_peers.jsonl"); }
CAF_TEST(the grammar) { run_file("cron_grammar.jsonl"); }
CAF_TEST(what is refused) { run_file("cron_invalid.jsonl"); }
CAF_TEST(what is accepted) { run_file("cron_accepted.jsonl"); }
CAF_TEST(what is equal) { run_file("cron_equal.jsonl"); }
