#define CAF_SUITE cron_shell
#include "actors/cron/cron_shell.hpp"

#include "integration/memory/memory_cron_store.hpp"

#include <string>
#include <vector>

#include "tests/support/shell_fixture.hpp"

using namespace caravan;
using namespace std::chrono_literals;

namespace {

/// Begins runs and keeps them until the test ends them.
class held_runs final : public cron_runs {
public:
  bool start(const cron_run& run, const cron_work& work, on_ended ended) override {
    if (no_threads) return false;
    started.push_back(run);
    ends.push_back(std::move(ended));
    timeouts.push_back(work.timeout);
    return true;
  }
  void ask_stop(const std::string& task, std::uint64_t token) override {
    asked.push_back(task + " " + std::to_string(token));
  }
  void end(std::size_t which, cron_result result = {}) {
    ends.at(which)(started.at(which).task, started.at(which).token, std::move(result));
  }
  std::vector<cron_run> started;
  std::vector<on_ended> ends;
  std::vector<std::chrono::milliseconds> timeouts;
  std::vector<std::string> asked;
  bool no_threads = false;
};

/// A store whose calls fail or throw while it is told to.
class moody_store final : public cron_store {
public:
  expected<cron_view> open(const std::string& t, cron_instant c, cron_time n) override {
    return call([&] { return real_.open(t, c, n); });
  }
  expected<cron_answer> claim(const cron_claim& c, cron_time n) override {
    return call([&] { return real_.claim(c, n); });
  }
  expected<cron_view> renew(const std::string& t, std::uint64_t k, std::chrono::milliseconds l, cron_time n) override {
    return call([&] { return real_.renew(t, k, l, n); });
  }
  expected<cron_ended> finish(const cron_end& e, cron_time n) override {
    return call([&] { return real_.finish(e, n); });
  }
  expected<cron_view> set_paused(const std::string& t, bool p, const std::string& w, cron_instant c,
                                 cron_time n) override {
    return call([&] { return real_.set_paused(t, p, w, c, n); });
  }
  bool broken = false;
  bool throwing = false;
  std::size_t calls = 0;

private:
  template <class F>
  auto call(F f) -> decltype(f()) {
    ++calls;
    if (throwing) throw std::runtime_error("no luck");
    if (broken) return error{errc::backend_failed, "the store is down"};
    return f();
  }
  memory_cron_store real_;
};

add_cron_task task_of(const std::string& name, const std::string& text) {
  add_cron_task out;
  out.task.name = name;
  out.task.description = "Does " + name;
  if (!text.empty()) out.task.when = schedule::parse(text, {.zone = "UTC"}).value();
  out.task.settings.name = name;
  out.task.settings.enabled = !text.empty();
  out.work.function = [](const cron_run&, const cron_call&) { return cron_result{}; };
  out.action = "test";
  return out;
}

struct fixture : test::shell_fixture {
  test::virtual_clock clock{sched.clock()};
  std::shared_ptr<moody_store> store = std::make_shared<moody_store>();
  std::shared_ptr<held_runs> runs = std::make_shared<held_runs>();
  std::shared_ptr<trouble> health = std::make_shared<trouble>();
  std::vector<cron_notice> notices;
  std::vector<cron_record> records;
  cron_store_actor keeper;
  local_cron_actor cron;

  void begin(std::vector<add_cron_task> tasks) {
    keeper = sys.spawn(cron_store_behavior, std::shared_ptr<cron_store>(store), health,
                       static_cast<const toolbox::clock*>(&clock));
    cron_parts p;
    p.options.node = {"one", 1};
    p.store = keeper;
    p.runs = runs;
    p.clock = &clock;
    p.tasks = std::move(tasks);
    p.notice = [this](const cron_notice& n) { notices.push_back(n); };
    p.record = [this](const cron_record& r) { records.push_back(r); };
    cron = sys.spawn(cron_behavior, std::move(p));
    consume_messages();
  }
  ~fixture() {
    runs->ends.clear();
    kill(cron);
    kill(keeper);
  }
  task_info info(const std::string& name) {
    for (auto& t : must<cron_list>(cron, get_cron_list{}).tasks)
      if (t.name == name) return t;
    return {};
  }
};

}  // namespace

CAF_TEST_FIXTURE_SCOPE(shell_tests, fixture)

CAF_TEST(a task runs at each of its times and the timer follows the virtual clock) {
  begin({task_of("tidy", "* * * * *")});
  CAF_CHECK(runs->started.empty());
  pass(60s);
  CAF_REQUIRE(runs->started.size() == 1);
  CAF_CHECK_EQUAL(runs->started[0].id, "tidy@2024-05-01T00:01:00Z#1");
  CAF_CHECK_EQUAL(info("tidy").status, "running");
  runs->end(0, {cron_outcome::finished, "all tidy"});
  consume_messages();
  const auto t = info("tidy");
  CAF_CHECK_EQUAL(t.status, "finished");
  CAF_CHECK_EQUAL(t.last.message, "all tidy");
  CAF_CHECK(t.next == clock.wall() + 60s);
  pass(180s);
  CAF_CHECK_EQUAL(runs->started.size(), 2u);  // the second run still holds the others off
  const auto h = must<cron_history>(cron, get_cron_history{"tidy"});
  CAF_REQUIRE(h.events.size() == 3);
  CAF_CHECK_EQUAL(h.events[0].what, "overlap");
  CAF_CHECK_EQUAL(h.events[2].what, "finished");
}

CAF_TEST(no timer gathers behind the first) {
  begin({task_of("rare", "@yearly"), task_of("never", "")});
  pass(1min, 1s);  // CAF keeps the time limit of an answered request until it is over
  for (int i = 0; i < 20; ++i) {
    CAF_CHECK(ask<ack>(cron, change_cron{"none", cron_change::run, "ann"})->failure);
    pass(10s, 1s);
  }
  CAF_CHECK_LESS(timers(), 3u);
}

CAF_TEST(a task runs by hand although it is disabled and only once at a time) {
  begin({task_of("tidy", "")});
  CAF_CHECK(ask<ack>(cron, change_cron{"tidy", cron_change::run, "ann"})->value);
  CAF_REQUIRE(runs->started.size() == 1);
  CAF_CHECK(runs->started[0].trigger == cron_trigger::manual);
  CAF_CHECK_EQUAL(info("tidy").running.who, "ann");
  const auto again = ask<ack>(cron, change_cron{"tidy", cron_change::run, "bob"});
  CAF_CHECK(again->code() == errc::conflict);
  const auto none = ask<ack>(cron, change_cron{"tydi", cron_change::run, "bob"});
  CAF_CHECK(none->code() == errc::not_found);
  CAF_CHECK(ask<cron_history>(cron, get_cron_history{"tydi"})->code() == errc::not_found);
}

CAF_TEST(a paused task does not run until it is resumed) {
  begin({task_of("tidy", "* * * * *")});
  CAF_CHECK(ask<ack>(cron, change_cron{"tidy", cron_change::pause, "ann"})->value);
  pass(5min, 1s);
  CAF_CHECK(runs->started.empty());
  CAF_CHECK_EQUAL(info("tidy").paused_by, "ann");
  CAF_CHECK(ask<ack>(cron, change_cron{"tidy", cron_change::resume, "ann"})->value);
  CAF_CHECK(runs->started.empty());  // what was due meanwhile is not made up
  pass(60s);
  CAF_CHECK_EQUAL(runs->started.size(), 1u);
}

CAF_TEST(a store that fails or throws runs nothing and is asked again) {
  store->throwing = true;
  begin({task_of("tidy", "* * * * *")});
  CAF_CHECK(health->text().find("threw: no luck") != std::string::npos);
  store->throwing = false;
  store->broken = true;
  pass(2min, 1s);
  CAF_CHECK(runs->started.empty());
  CAF_CHECK_EQUAL(health->text(), "the store is down");
  const auto asked = ask<ack>(cron, change_cron{"tidy", cron_change::run, "ann"});
  CAF_CHECK(!*asked);
  store->broken = false;
  pass(16s);
  CAF_CHECK(asked->value);
  CAF_CHECK_EQUAL(runs->started.size(), 1u);
  CAF_CHECK_EQUAL(health->text(), "");
}

CAF_TEST(a stop trips what runs and waits for it) {
  begin({task_of("tidy", "* * * * *")});
  pass(60s);
  CAF_REQUIRE(runs->started.size() == 1);
  const auto stopped = ask<ack>(cron, stop_cron{10s});
  CAF_CHECK(!*stopped);
  CAF_REQUIRE(runs->asked.size() == 1);
  CAF_CHECK_EQUAL(runs->asked[0], "tidy 1");
  CAF_CHECK(ask<ack>(cron, change_cron{"tidy", cron_change::run, "ann"})->code() == errc::queue_closed);
  pass(2s);
  CAF_CHECK(!*stopped);
  runs->end(0, {cron_outcome::cancelled, ""});
  consume_messages();
  CAF_CHECK(stopped->value);
  pass(5min, 1s);
  CAF_CHECK_EQUAL(runs->started.size(), 1u);
}

CAF_TEST(a stop does not wait longer than its patience) {
  begin({task_of("tidy", "* * * * *")});
  pass(60s);
  const auto stopped = ask<ack>(cron, stop_cron{3s});
  pass(2900ms);
  CAF_CHECK(!*stopped);
  pass(200ms);
  CAF_CHECK(stopped->value);
  CAF_REQUIRE(!notices.empty());
  CAF_CHECK(notices.back().failure);
}

CAF_TEST(a run without a thread is a failure with a notice) {
  runs->no_threads = true;
  begin({task_of("tidy", "* * * * *")});
  pass(60s);
  CAF_CHECK_EQUAL(info("tidy").status, "error");
  CAF_REQUIRE(notices.size() == 1);
  CAF_CHECK(notices[0].text.find("no thread") != std::string::npos);
}

CAF_TEST(a task that comes later runs too and a second of its name does not ) {
  begin({});
  auto late = task_of("late", "* * * * *");
  late.work.timeout = 7s;
  CAF_CHECK(ask<ack>(cron, late)->value);
  CAF_CHECK(ask<ack>(cron, late)->code() == errc::conflict);
  pass(60s);
  CAF_REQUIRE(runs->started.size() == 1);
  CAF_CHECK(runs->timeouts[0] == 7s);
}

CAF_TEST(a jump of the wall clock is noticed within half a minute) {
  begin({task_of("tidy", "0 12 * * *")});
  pass(1s);
  clock.shift_wall(13h);
  pass(30s, 1s);
  CAF_REQUIRE(runs->started.size() == 1);
  CAF_CHECK_EQUAL(runs->started[0].id, "tidy@2024-05-01T12:00:00Z#1");
}

CAF_TEST_FIXTURE_SCOPE_END()
