// The scenarios of a cron service, by id: steps and expectations as cases/cron_service_scenarios.md words them. Where
// that file lies beside the source, every id in it must have a test here.

#define CAF_SUITE cron_scenarios
#include "tests/support/cron_bench.hpp"

#include "caf/test/unit_test.hpp"

#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

using namespace caravan;
using namespace std::chrono;
using namespace std::chrono_literals;

namespace {

constexpr auto file = CARAVAN_SOURCE_DIR "/../shared/cases/cron_service_scenarios.jsonl";
constexpr cron_time midnight = sys_days{2026y / 2 / 10};

struct failed_case {
  std::string why;
};
void demand(bool holds, const std::string& why) {
  if (!holds) throw failed_case{why};
}
void demand_times(const cron_bench& b, const std::string& should) {
  demand(b.times() == should, "it ran at \"" + b.times() + "\", not at \"" + should + "\"");
}
std::string refusal(const std::string& text) {
  const auto s = schedule::parse(text, {.zone = "UTC"});
  return s ? "" : s.failure().text;
}

const std::map<std::string, std::function<void()>> scenarios = {
    {"CRONSVC-002",
     [] {
       cron_bench b(midnight);
       demand(b.add(task_of("a", "30 5 4 * * *")).has_value(), "refused");
       b.start();
       demand(b.status("a").next == floor<seconds>(midnight + 4h + 5min + 30s), "another next time");
     }},
    {"CRONSVC-003",
     [] {
       cron_bench b(midnight);
       demand(b.add(task_of("one", "1 * * * *")) && b.add(task_of("two", "2 * * * *")), "refused");
       const auto list = b.core.list(b.now);
       demand(list.size() == 2 && list[0].name == "one" && list[1].name == "two", "another list");
       demand(list[0].schedule_text == "1 * * * *" && list[1].schedule_text == "2 * * * *", "other schedules");
     }},
    {"CRONSVC-005",
     [] { demand(refusal("bad cron").find("it has 2 fields") != std::string::npos, refusal("bad cron")); }},
    {"CRONSVC-008",
     [] {
       cron_bench b(midnight + 10s);
       auto task = task_of("a", "* * * * *");
       task.settings.run_at_start = true;
       demand(b.add(task).has_value(), "refused");
       b.start();
       demand(b.started.size() == 1 && b.started[0].trigger == cron_trigger::start, "it did not run at the start");
       b.run_until(midnight + 61s);
       demand_times(b, "00:00:10 00:01:00");
     }},
    {"CRONSVC-009",
     [] {
       cron_bench b(midnight);
       auto task = task_of("a", "* * * * *");
       task.settings.run_at_start = true;
       task.settings.enabled = false;
       demand(b.add(task).has_value(), "refused");
       b.start();
       b.run_until(midnight + 5min);
       demand_times(b, "");
     }},
    {"CRONSVC-010",
     [] {
       cron_bench b(midnight);
       b.hold = true;
       demand(b.add(task_of("a", "* * * * * *")).has_value(), "refused");
       b.start();
       for (auto i = 0; i < 4; ++i) {  // each run takes 3 s
         b.run_until(midnight + i * 4s + 1s);
         demand(b.started.size() == static_cast<std::size_t>(i) + 1, "two at once, or none");
         b.run_until(midnight + i * 4s + 4s);
         b.end(b.started.back().token);
       }
       demand_times(b, "00:00:01 00:00:05 00:00:09 00:00:13");
     }},
    {"CRONSVC-014",
     [] {
       cron_bench b(midnight);
       b.hold = true;
       demand(b.add(task_of("a", "* * * * * *")).has_value(), "refused");
       b.start();
       b.run_until(midnight + 1s);
       b.stop(5s);
       demand(b.cancelled.size() == 1 && b.cancelled[0].token == b.started[0].token, "its stop token was not tripped");
       b.end(b.started[0].token, cron_outcome::cancelled);
       demand(b.stopped, "the service did not stop");
       b.run_until(midnight + 20s);
       demand(b.started.size() == 1, "it ran again");
     }},
    {"CRONSVC-015",
     [] {
       cron_bench b(midnight);
       demand(b.add(task_of("a", "*/10 * * * *")).has_value(), "refused");
       b.start();
       b.run_until(midnight + 5min);
       b.jump(midnight + 2h + 5min);
       demand_times(b, "02:00:00");
       demand(b.status("a").next == floor<seconds>(midnight + 2h + 10min), "another next time");
     }},
    {"CRONSVC-016",
     [] {
       cron_bench b(midnight);
       demand(b.add(task_of("a", "* * * * *")).has_value(), "refused");
       b.start();
       b.jump(midnight + 3min + 20s);
       demand_times(b, "00:03:00");
       b.run_until(midnight + 4min);
       demand_times(b, "00:03:00 00:04:00");
     }},
    {"CRONSVC-017", [] { demand(!schedule::every(0s), "it was accepted"); }},
    {"CRONSVC-019",
     [] {
       cron_bench b(midnight);
       demand(b.add(task_of("a", "CRON_TZ=Asia/Tokyo 0 9 * * *", "America/New_York")).has_value(), "refused");
       b.start();
       demand(b.status("a").zone == "Asia/Tokyo", "another zone");
       demand(b.status("a").next == floor<seconds>(midnight + 24h), "another next time");  // 09:00 there
     }},
    {"CRONSVC-020",
     [] {
       cron_bench b(midnight);
       demand(b.add(task_of("a", "TZ=UTC 5 * * * *", "Asia/Tokyo")).has_value(), "refused");
       b.start();
       b.run_until(midnight + 3h);
       demand_times(b, "00:05:00 01:05:00 02:05:00");
     }},
    {"CRONSVC-021",
     [] {
       const auto why = refusal("CRON_TZ=Mars/Base 0 9 * * *");
       demand(why.find("time zone \"Mars/Base\"") != std::string::npos, why);
     }},
    {"CRONSVC-022",
     [] {
       const auto why = refusal("TZ=UTC");
       demand(why.find("nothing stands after the zone") != std::string::npos, why);
     }},
    {"CRONSVC-023",
     [] {
       cron_bench b(midnight + 10h + 700ms);
       demand(b.add(task_of("a", "@every 1h30m")).has_value(), "refused");
       b.start();
       b.run_until(midnight + 12h);
       demand_times(b, "11:30:00");
     }},
    {"CRONSVC-025",
     [] {
       // New York's clocks go forward on 8 March 2026.
       cron_bench b(sys_days{2026y / 3 / 7} + 17h);
       demand(b.add(task_of("a", "@every 24h", "America/New_York")).has_value(), "refused");
       b.start();
       b.run_until(sys_days{2026y / 3 / 9});
       demand_times(b, "17:00:00");
       const auto s = schedule::parse("@every 24h", {.zone = "America/New_York"}).value();
       demand(s.format(b.started[0].occurrence) == "2026-03-08T13:00:00-04:00", s.format(b.started[0].occurrence));
     }},
};

}  // namespace

CAF_TEST(every scenario holds) {
  auto passed = 0;
  for (const auto& [id, run] : scenarios) {
    std::string outcome = "ok";
    try {
      run();
      ++passed;
    } catch (const failed_case& f) {
      outcome = f.why;
    }
    std::cout << id << ' ' << outcome << '\n';
    CAF_CHECK(outcome == "ok");
  }
  std::cout << passed << " of " << scenarios.size() << " passed\n";
}

CAF_TEST(no scenario is left out) {
  std::ifstream in(file);
  if (!in) {
    std::cout << "skipped: no " << file << '\n';
    return;
  }
  for (std::string line; std::getline(in, line);) {
    if (line.empty()) continue;
    const auto id = nlohmann::json::parse(line)["id"].get<std::string>();
    if (!scenarios.contains(id)) CAF_ERROR("no test for " << id);
  }
}
