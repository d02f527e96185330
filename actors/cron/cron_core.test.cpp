#define CAF_SUITE cron_core
#include "tests/support/cron_bench.hpp"

#include "caf/test/unit_test.hpp"

using namespace caravan;
using namespace std::chrono;
using namespace std::chrono_literals;

namespace {

constexpr cron_time noon = sys_days{2026y / 2 / 10} + 12h;

std::string refusal(const expected<void>& x) { return x ? "" : x.failure().text; }

void check_text(const std::string& is, const std::string& should) {
  if (is != should) CAF_MESSAGE("\"" << is << "\", not \"" << should << "\"");
  CAF_CHECK(is == should);
}

bool has(const std::string& text, std::string_view part) {
  if (text.find(part) != std::string::npos) return true;
  CAF_MESSAGE("\"" << text << "\" does not hold \"" << part << "\"");
  return false;
}

std::shared_ptr<cron_store> a_store() { return std::make_shared<memory_cron_store>(); }

}  // namespace

CAF_TEST(a registration is checked) {
  cron_bench b(noon);
  CAF_CHECK(b.add(task_of("a", "@hourly")));
  CAF_CHECK(has(refusal(b.add(task_of("a", "@daily"))), "task \"a\": there is one of this name"));
  auto silent = task_of("b", "@hourly");
  silent.description = " ";
  CAF_CHECK(has(refusal(b.add(silent)), "it has no description"));
  auto keyed = task_of("keyed", "@hourly");
  keyed.settings.own.add({"OLDER_THEN", "24h", {"f.ini", 3, ""}});
  keyed.keys = {"OLDER_THAN"};
  CAF_CHECK(has(refusal(b.add(keyed)), "OLDER_THEN: the task has no such key; did you mean OLDER_THAN?"));
  CAF_CHECK(has(refusal(b.add(task_of("c d", "@hourly"))), "this is no name for a task"));
  CAF_CHECK(has(refusal(b.add(task_of("e", ""))), "it is enabled and has no schedule"));
  CAF_CHECK(has(refusal(b.add(task_of("f", "0 0 30 2 *"))), "there is no such day in February"));
  CAF_CHECK_EQUAL(b.core.list(b.now).size(), 1u);
}

CAF_TEST(a disabled task is listed and runs by hand only) {
  cron_bench b(noon);
  auto off = task_of("off", "* * * * *");
  off.settings.enabled = false;
  off.settings.run_at_start = true;
  CAF_CHECK(b.add(off));
  b.start();
  b.run_until(noon + 5min);
  CAF_CHECK_EQUAL(b.started.size(), 0u);
  CAF_CHECK(!b.status("off").next);
  CAF_CHECK(b.run_now("off", "ada"));
  CAF_REQUIRE_EQUAL(b.started.size(), 1u);
  CAF_CHECK_EQUAL(b.started[0].who, "ada");
  CAF_CHECK(b.started[0].trigger == cron_trigger::manual);
  CAF_REQUIRE_EQUAL(b.replies.size(), 1u);
  CAF_CHECK(b.replies[0].result);
  const auto s = b.status("off");
  CAF_CHECK_EQUAL(s.status, "finished");
  CAF_CHECK_EQUAL(s.previous->who, "ada");
  CAF_CHECK_EQUAL(s.runs, 1u);
}

CAF_TEST(a task runs at its times and each run has an id and a token) {
  cron_bench b(noon);
  CAF_CHECK(b.add(task_of("a", "*/5 * * * *")));
  b.start();
  b.run_until(noon + 16min);
  check_text(b.times(), "12:05:00 12:10:00 12:15:00");
  check_text(b.started[1].id, "a@2026-02-10T12:10:00Z#2");
  CAF_CHECK(b.status("a").next == floor<seconds>(noon + 20min));
  check_text(b.misses(), "");
}

CAF_TEST(a failure raises a notice and a success only on request) {
  cron_bench b(noon);
  b.hold = true;
  auto quiet = task_of("quiet", "0 * * * *"), loud = task_of("loud", "0 * * * *");
  loud.settings.notice_on_success = true;
  CAF_CHECK(b.add(quiet) && b.add(loud));
  b.start();
  b.run_until(noon + 1h);
  CAF_REQUIRE_EQUAL(b.started.size(), 2u);
  b.end(b.started[0].token);
  for (const auto& run : std::vector(b.started)) b.end(run.token);
  CAF_REQUIRE_EQUAL(b.notices.size(), 1u);
  check_text(b.notices[0].text, "task \"loud\" finished");
  b.notices.clear();
  b.started.clear();
  b.run_until(noon + 2h);
  for (const auto& run : std::vector(b.started)) b.end(run.token, cron_outcome::error, "no space left");
  CAF_REQUIRE_EQUAL(b.notices.size(), 2u);
  CAF_CHECK(b.notices[0].failure);
  CAF_CHECK(has(b.notices[0].text, "failed: no space left"));
  const auto s = b.status("quiet");
  CAF_CHECK_EQUAL(s.status, "error");
  CAF_CHECK_EQUAL(s.previous->message, "no space left");
  CAF_CHECK_EQUAL(s.failures, 1u);
}

CAF_TEST(an interval goes on over restarts) {
  const auto store = a_store();
  std::string times;
  auto at = noon;
  for (auto life = 1u; life <= 6; ++life) {  // restarted every 90 minutes
    cron_bench b(at, store, {.node = {"one", life}});
    CAF_CHECK(b.add(task_of("a", "@every 2h")));
    b.start();
    b.run_until(at + 90min - 1s);
    times += b.times() + " ";
    at += 90min;
  }
  check_text(times, " 14:00:00 16:00:00  18:00:00 20:00:00 ");
}

CAF_TEST(what was due while nobody was there is skipped and recorded or run once) {
  for (const auto once : {false, true}) {
    const auto store = a_store();
    auto task = task_of("a", "0 * * * *");
    if (once) task.settings.missed = config::missed_mode::once;
    {
      cron_bench b(noon, store);
      CAF_CHECK(b.add(task));
      b.start();
      b.run_until(noon + 90min);
      check_text(b.times(), "13:00:00");
    }
    cron_bench b(noon + 5h + 10min, store, {.node = {"one", 2}});
    CAF_CHECK(b.add(task));
    b.start();
    check_text(b.times(), once ? "17:00:00" : "");
    check_text(b.misses(), once ? "no_node 3 14:00:00-16:00:00" : "no_node 3 14:00:00-16:00:00, no_node 1 17:00:00");
    b.run_until(noon + 6h + 1min);
    check_text(b.times(), once ? "17:00:00 18:00:00" : "18:00:00");
    if (once) CAF_CHECK(b.started[0].trigger == cron_trigger::missed);
  }
}

CAF_TEST(a clock that jumps forward a day makes one run) {
  cron_bench b(noon);
  CAF_CHECK(b.add(task_of("a", "*/10 * * * *")));
  b.start();
  b.run_until(noon + 25min);
  b.jump(noon + 24h + 25min);
  check_text(b.times(), "12:10:00 12:20:00 12:20:00");
  check_text(b.misses(), "no_node 143 12:30:00-12:10:00");
  CAF_CHECK(b.status("a").next == floor<seconds>(noon + 24h + 30min));
}

CAF_TEST(a clock set back an hour repeats no daily run and does not silence a frequent task) {
  cron_bench b(noon);
  CAF_CHECK(b.add(task_of("daily", "30 12 * * *")));
  CAF_CHECK(b.add(task_of("often", "*/5 * * * *")));
  b.start();
  b.run_until(noon + 41min);
  b.started.clear();
  b.jump(noon - 19min);
  CAF_CHECK(b.status("often").next == floor<seconds>(noon - 15min));
  b.run_until(noon + 61min);
  check_text(b.times().substr(0, 26), "11:45:00 11:50:00 11:55:00");
  auto daily = 0;
  for (const auto& run : b.started) daily += run.task == "daily";
  CAF_CHECK_EQUAL(daily, 0);
  auto notices = 0;
  for (const auto& n : b.notices) notices += has(n.text, "the clock was set back");
  CAF_CHECK_EQUAL(notices, 1);
}

CAF_TEST(a small correction of the clock repeats nothing) {
  cron_bench b(noon);
  CAF_CHECK(b.add(task_of("a", "* * * * * *")));
  b.start();
  b.run_until(noon + 60s);
  b.jump(noon + 50s);
  b.run_until(noon + 70s);
  CAF_CHECK_EQUAL(b.started.size(), 70u);
  for (std::size_t i = 1; i < b.started.size(); ++i) CAF_CHECK(b.started[i - 1].occurrence < b.started[i].occurrence);
}

CAF_TEST(times during a run are dropped and recorded) {
  cron_bench b(noon);
  b.hold = true;
  CAF_CHECK(b.add(task_of("a", "* * * * * *")));
  b.start();
  b.run_until(noon + 4s);
  CAF_CHECK_EQUAL(b.started.size(), 1u);
  b.end(1);
  b.run_until(noon + 5s);
  check_text(b.times(), "12:00:01 12:00:05");
  check_text(b.misses(), "overlap 1 12:00:02, overlap 1 12:00:03, overlap 1 12:00:04");
}

CAF_TEST(one time during a run is queued on request and no more) {
  cron_bench b(noon);
  b.hold = true;
  auto task = task_of("a", "* * * * * *");
  task.settings.overlap = config::overlap_mode::queue;
  CAF_CHECK(b.add(task));
  b.start();
  b.run_until(noon + 4s);
  b.end(1);
  check_text(b.times(), "12:00:01 12:00:02");
  CAF_CHECK(b.started[1].trigger == cron_trigger::queued);
  check_text(b.misses(), "overlap 1 12:00:03, overlap 1 12:00:04");
  b.end(2);
  b.run_until(noon + 5s);
  check_text(b.times(), "12:00:01 12:00:02 12:00:05");
}

CAF_TEST(a task that runs is not run by hand as well) {
  cron_bench b(noon);
  b.hold = true;
  CAF_CHECK(b.add(task_of("a", "@hourly")));
  b.start();
  CAF_CHECK(b.run_now("a", "ada"));
  CAF_CHECK(b.run_now("a", "bob"));
  CAF_REQUIRE_EQUAL(b.replies.size(), 2u);
  CAF_CHECK(b.replies[0].result);
  CAF_CHECK(b.replies[1].result.failure().code == errc::conflict);
  CAF_CHECK(has(b.replies[1].result.failure().text, "it runs already on node one"));
  const auto unknown = b.run_now("b", "ada");
  CAF_CHECK(unknown.failure().code == errc::not_found);
}

CAF_TEST(a paused task waits and its times are not missed) {
  cron_bench b(noon);
  CAF_CHECK(b.add(task_of("a", "*/10 * * * *")));
  b.start();
  CAF_CHECK(b.set_paused("a", true, "ada"));
  CAF_CHECK(b.status("a").paused);
  b.run_until(noon + 35min);
  CAF_CHECK(b.run_now("a", "ada"));
  CAF_CHECK_EQUAL(b.started.size(), 1u);
  CAF_CHECK(b.set_paused("a", false, "ada"));
  b.run_until(noon + 45min);
  CAF_REQUIRE_EQUAL(b.started.size(), 2u);
  check_text(b.clock(b.started[1].occurrence), "12:40:00");
  check_text(b.misses(), "");
}

CAF_TEST(the next time can be skipped) {
  cron_bench b(noon);
  CAF_CHECK(b.add(task_of("a", "*/10 * * * *")));
  b.start();
  CAF_CHECK(b.skip_next("a", "ada"));
  CAF_CHECK(b.status("a").next == floor<seconds>(noon + 20min));
  b.run_until(noon + 25min);
  check_text(b.times(), "12:20:00");
  check_text(b.misses(), "skipped 1 12:10:00");
  CAF_CHECK_EQUAL(b.records[0].who, "ada");
}

CAF_TEST(a stop ends what runs and starts nothing more) {
  cron_bench b(noon);
  b.hold = true;
  CAF_CHECK(b.add(task_of("a", "* * * * * *")));
  b.start();
  b.run_until(noon + 1s);
  b.stop(2s);
  CAF_REQUIRE_EQUAL(b.cancelled.size(), 1u);
  CAF_CHECK(!b.stopped);
  b.run_until(noon + 2500ms);
  CAF_CHECK_EQUAL(b.started.size(), 1u);
  b.end(1, cron_outcome::cancelled, "asked to");
  CAF_CHECK(b.stopped);
  CAF_CHECK(b.run_now("a", "ada").failure().code == errc::queue_closed);
}

CAF_TEST(a stop does not wait for ever) {
  cron_bench b(noon);
  b.hold = true;
  CAF_CHECK(b.add(task_of("a", "* * * * * *")));
  b.start();
  b.run_until(noon + 1s);
  b.stop(2s);
  b.run_until(noon + 3s);
  CAF_CHECK(b.stopped);
  CAF_CHECK(has(b.notices.back().text, "was still running when the node stopped"));
}

CAF_TEST(a store that is down delays and loses nothing) {
  cron_bench b(noon);
  CAF_CHECK(b.add(task_of("a", "* * * * *")));
  b.start();
  b.run_until(noon + 65s);
  b.broken = true;
  const auto calls = b.calls;
  b.run_until(noon + 10min);
  CAF_CHECK(b.calls - calls < 60);
  check_text(b.times(), "12:01:00");
  b.broken = false;
  b.run_until(noon + 11min - 1s);
  check_text(b.times(), "12:01:00 12:10:00");
  check_text(b.misses(), "no_node 8 12:02:00-12:09:00");
}

CAF_TEST(a lost answer does not run an occurrence twice) {
  cron_bench b(noon);
  CAF_CHECK(b.add(task_of("a", "* * * * *")));
  b.start();
  b.answers_lost = true;
  b.run_until(noon + 62s);
  b.answers_lost = false;
  b.run_until(noon + 121s);
  check_text(b.times(), "12:01:00 12:02:00");
  check_text(b.misses(), "");
}

CAF_TEST(the run of a node that is gone is told by the next) {
  const auto store = a_store();
  auto task = task_of("a", "*/10 * * * *");
  {
    cron_bench b(noon, store, {.node = {"one", 1}, .shared_store = true});
    b.hold = true;
    CAF_CHECK(b.add(task));
    b.start();
    b.run_until(noon + 10min);
    CAF_CHECK_EQUAL(b.started.size(), 1u);
  }
  cron_bench b(noon + 11min, store, {.node = {"two", 1}, .shared_store = true});
  CAF_CHECK(b.add(task));
  b.start();
  b.run_until(noon + 20min);
  check_text(b.times(), "12:20:00");
  check_text(b.misses(), "lost 1 12:10:00");
  CAF_CHECK(has(b.notices[0].text, "node one was gone"));
}

CAF_TEST(a long run keeps its lease and a run that lost it is asked to stop) {
  auto store_time = noon;
  const auto store = std::make_shared<memory_cron_store>([&] { return store_time; });
  cron_bench b(noon, store, {.node = {"one", 1}, .shared_store = true});
  b.hold = true;
  CAF_CHECK(b.add(task_of("a", "0 * * * *")));
  b.start();
  while (b.now < noon + 62min) {
    store_time = b.now + 500ms;
    b.run_until(b.now + 500ms);
  }
  CAF_REQUIRE_EQUAL(b.started.size(), 1u);
  CAF_CHECK_EQUAL(b.cancelled.size(), 0u);
  b.broken = true;
  b.run_until(b.now + 15s);
  CAF_CHECK_EQUAL(b.cancelled.size(), 1u);
}

CAF_TEST(a wrong clock follows that of the store) {
  auto real = noon;
  const auto store = std::make_shared<memory_cron_store>([&] { return real; });
  cron_bench fast(noon + 3min, store, {.node = {"fast", 1}, .shared_store = true});
  CAF_CHECK(fast.add(task_of("a", "*/5 * * * *")));
  fast.start();
  CAF_CHECK(fast.core.clock_offset() == -3min);
  for (auto i = 0; i < 1200; ++i) {
    real += 500ms;
    fast.run_until(real + 3min);
    if (fast.started.size() == 1 && real < noon + 5min) CAF_FAIL("it ran early");
  }
  check_text(fast.times(), "12:05:00 12:10:00");
}

CAF_TEST(all nodes show the same next time) {
  const auto store = a_store();
  std::optional<cron_instant> next;
  for (const auto* name : {"one", "two", "three"}) {
    cron_bench b(noon + 7s, store, {.node = {name, 1}, .shared_store = true});
    auto task = task_of("a", "@every 7m");
    task.settings.jitter = 1min;
    CAF_CHECK(b.add(task));
    b.start();
    if (next) CAF_CHECK(b.status("a").next == next);
    next = b.status("a").next;
    CAF_CHECK(next.has_value());
  }
}
