#define CAF_SUITE cron_node
#include <caravan/node.hpp>

#include "tests/support/eventually.hpp"
#include "tests/support/temp_folder.hpp"

#include "caf/test/unit_test.hpp"

#include <atomic>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <sstream>

using namespace caravan;
using namespace std::chrono_literals;
using testing_support::eventually;
using testing_support::temp_folder;

namespace {

class fixture {
public:
  std::unique_ptr<node> start(const std::string& more) {
    node_options o;
    o.config_text = "[node]\nNAME = tester\nAUTO_CREATE = true\n[cron]\nTIME_ZONE = UTC\n" + more;
    o.data_dir = folder.path().string() + "/data";
    o.use_environment = false;
    o.quiet = true;
    return node::start(o).value();
  }
  std::string refusal(const std::string& more) {
    node_options o;
    o.config_text = more;
    o.data_dir = folder.path().string() + "/data";
    o.use_environment = false;
    o.quiet = true;
    const auto made = node::start(o);
    return made ? std::string("nothing was refused") : made.failure().text;
  }
  std::string file(const std::string& name) const { return (folder.path() / name).string(); }
  std::string read(const std::string& name) const {
    std::ifstream in(file(name));
    std::ostringstream text;
    text << in.rdbuf();
    return std::move(text).str();
  }
  bool ended(const node& n, const std::string& task, const std::string& status) {
    return eventually([&] { return n.cron().find(task).value().status == status; });
  }
  temp_folder folder;
};

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

CAF_TEST_FIXTURE_SCOPE(cron_node_tests, fixture)

CAF_TEST(a node without tasks lists the built in ones and has no folder for them) {
  const auto n = start("");
  const auto tasks = n->cron().list().value();
  CAF_REQUIRE(tasks.size() == 3);
  for (const auto& t : tasks) {
    CAF_CHECK(!t.enabled);
    CAF_CHECK_EQUAL(t.action, "built-in");
    CAF_CHECK(!t.description.empty());
  }
  CAF_CHECK(!std::filesystem::exists(file("data/cron")));
  CAF_CHECK(n->cron().find("check_storag").failure().code == errc::not_found);
  CAF_CHECK(has(n->cron().find("check_storag").failure().text, "did you mean check_storage"));
}

CAF_TEST(a disabled built in task runs by hand) {
  const auto n = start("[queue.mail]\nTYPE = level\n");
  n->open_queue<int>("mail").push(1).value();
  CAF_REQUIRE(n->cron().run("check_storage"));
  CAF_CHECK(ended(*n, "check_storage", "finished"));
  CAF_CHECK_EQUAL(n->cron().find("check_storage").value().last.message, "1 queues, 1 rows");
  CAF_CHECK_EQUAL(n->cron().history("check_storage").value().size(), 1u);
  CAF_CHECK(std::filesystem::exists(file("data/cron")));
  CAF_REQUIRE(n->cron().run("compact_storage"));
  CAF_CHECK(ended(*n, "compact_storage", "finished"));
}

CAF_TEST(dead jobs that are old go and younger ones stay) {
  const auto n = start(
      "[queue.mail]\nTYPE = level\nMAX_ATTEMPTS = 1\n"
      "[cron.delete_old_dead_jobs]\nOLDER_THAN = 1m\nQUEUE = mail\n");
  auto mail = n->create_simple_queue<int>("mail", [](std::vector<int>&, context& c) {
    for (std::size_t i = 0; i < c.size(); ++i) c.reject(i, "no");
  });
  mail.push(1).value();
  CAF_CHECK(eventually([&] { return mail.info().value().dead == 1; }));
  CAF_REQUIRE(n->cron().run("delete_old_dead_jobs"));
  CAF_CHECK(ended(*n, "delete_old_dead_jobs", "finished"));
  CAF_CHECK_EQUAL(n->cron().find("delete_old_dead_jobs").value().last.message, "0 dead jobs deleted");
  CAF_CHECK_EQUAL(mail.info().value().dead, 1u);
}

CAF_TEST(a push has the run as its key and its header) {
  const auto n = start("[cron.fill]\nENABLED = false\nPUSH = box {\"b\": 1, \"a\": [2]}\n");
  std::mutex mutex;
  std::string payload, run_id;
  auto box = n->create_queue<raw_json>("box", [&](std::vector<raw_json>& items, context& c) {
    const std::lock_guard lock(mutex);
    payload = items.at(0).text;
    for (const auto& [name, value] : c.item(0).headers)
      if (name == "caravan-run-id") run_id = value;
  });
  CAF_REQUIRE(n->cron().run("fill", "ann"));
  CAF_CHECK(ended(*n, "fill", "finished"));
  CAF_CHECK(eventually([&] {
    const std::lock_guard lock(mutex);
    return !payload.empty();
  }));
  const std::lock_guard lock(mutex);
  CAF_CHECK_EQUAL(payload, "{\"a\":[2],\"b\":1}");
  CAF_CHECK(has(run_id, "fill@"));
  const auto t = n->cron().find("fill").value();
  CAF_CHECK_EQUAL(t.last.who, "ann");
  CAF_CHECK_EQUAL(t.action, "PUSH box");
  CAF_CHECK(has(t.last.message, "pushed box."));
}

CAF_TEST(a program gets its run by its environment and fails by its exit code) {
  const auto n =
      start("[cron.good]\nENABLED = false\nEXEC = `sh -c 'echo $CARAVAN_RUN_ID $CARAVAN_RUN_TOKEN $CARAVAN_TASK >" +
            file("out") +
            "'`\n[cron.bad]\nENABLED = false\nEXEC = `sh -c 'echo no luck >&2; exit 3'`\n"
            "[cron.slow]\nENABLED = false\nTIMEOUT = 100ms\nEXEC = sleep 60\n"
            "[cron.none]\nENABLED = false\nEXEC = /nowhere/at/all\n");
  std::mutex mutex;
  std::string notice;
  n->cron().on_notice([&](const task_notice& t) {
    const std::lock_guard lock(mutex);
    if (t.task == "bad") notice = t.text;
  });
  for (const auto* task : {"good", "bad", "slow", "none"}) CAF_REQUIRE(n->cron().run(task));
  CAF_CHECK(ended(*n, "good", "finished"));
  const auto out = read("out");
  CAF_CHECK(has(out, "good@"));
  CAF_CHECK(has(out, "#1 1 good\n"));
  CAF_CHECK(ended(*n, "bad", "error"));
  const auto bad = n->cron().find("bad").value().last.message;
  CAF_CHECK(has(bad, "exited with 3"));
  CAF_CHECK(has(bad, "no luck"));
  CAF_CHECK(ended(*n, "slow", "error"));
  CAF_CHECK(has(n->cron().find("slow").value().last.message, "timed out after"));
  CAF_CHECK(ended(*n, "none", "error"));
  CAF_CHECK(has(n->cron().find("none").value().last.message, "correct EXEC"));
  const std::lock_guard lock(mutex);
  CAF_CHECK(has(notice, "task \"bad\" failed: "));
}

CAF_TEST(a function of the application runs at its times with its own settings) {
  const auto n = start("[cron.count]\nSTEP = 3\n");
  std::atomic<int> sum{0};
  const task_options what{.description = "Counts", .schedule = "@every 1s", .keys = {{"STEP", std::int64_t{1}}}};
  const auto count = [&](const task_run& run) -> expected<std::string> {
    sum += static_cast<int>(run.settings.integer("STEP"));
    return std::string("counted");
  };
  CAF_REQUIRE(n->cron().add("count", what, count));
  CAF_CHECK(eventually([&] { return sum >= 6; }));
  CAF_CHECK(n->cron().add("count", what, count).failure().code == errc::conflict);
  CAF_REQUIRE(n->cron().pause("count", "ann"));
  CAF_CHECK(n->cron().find("count").value().paused);
  CAF_REQUIRE(n->cron().resume("count"));
  n->stop();
  CAF_CHECK(sum % 3 == 0);
  CAF_CHECK(n->cron().list().failure().code == errc::queue_closed);
  CAF_CHECK(n->cron().add("more", what, count).failure().code == errc::queue_closed);
}

CAF_TEST(what is wrong with a task is refused and names it) {
  const auto n = start("[cron.typo]\nSTEPS = 3\n[cron.wrong]\nSTEP = three\n");
  const auto nothing = [](const task_run&) {};
  const auto add = [&](const std::string& name, task_options o) {
    const auto done = n->cron().add(name, std::move(o), nothing);
    return done ? std::string("nothing was refused") : done.failure().text;
  };
  const std::vector<task_key> keys{{"STEP", std::int64_t{1}}};
  CAF_CHECK(has(add("a", {.description = "", .schedule = "@daily"}), "no description"));
  CAF_CHECK(has(add("a", {.description = "A"}), "no schedule"));
  CAF_CHECK(has(add("a", {.description = "A", .schedule = "0 0 30 2 *"}), "task \"a\""));
  CAF_CHECK(has(add("a", {.description = "A", .schedule = "nonsense"}), "task \"a\""));
  CAF_CHECK(has(add("typo", {.description = "A", .schedule = "@daily", .keys = keys}), "STEPS"));
  CAF_CHECK(has(add("wrong", {.description = "A", .schedule = "@daily", .keys = keys}), "no whole number"));
  CAF_CHECK(has(add("check_storage", {.description = "A", .schedule = "@daily"}), "there is one of this name"));
  CAF_CHECK(has(add("preview", {.description = "A", .schedule = "@daily"}), "preview"));
  CAF_CHECK_EQUAL(n->cron().list().value().size(), 3u);
  CAF_CHECK(has(refusal("[cron.x]\nSCHEDULE = @daily\nPUSH = q {\n"), "[cron.x] PUSH"));
  CAF_CHECK(has(refusal("[cron.x]\nSCHEDULE = @daily\nEXEC = `sh 'a`\n"), "[cron.x] EXEC"));
  CAF_CHECK(has(refusal("[cron]\nSTORE = redis\n[cron.x]\nSCHEDULE = @daily\nEXEC = true\n"), "CONN_STR"));
  CAF_CHECK(has(refusal("[cron.x]\nSTORE = memory\nSCHEDULE = @daily\nEXEC = true\n"), "put it into [cron]"));
}

CAF_TEST(a stop ends what runs and RUN_AT_START does not hold up the start) {
  std::atomic<bool> began{false}, stopped{false};
  const auto n = start(
      "[cron.wait]\nRUN_AT_START = true\n[cron.sleep]\nRUN_AT_START = true\nSCHEDULE = @daily\nEXEC = sleep 60\n");
  CAF_REQUIRE(n->cron().add("wait", {.description = "Waits", .schedule = "@daily"}, [&](const task_run& run) {
    began = true;
    while (!run.stop.stop_requested()) std::this_thread::sleep_for(1ms);
    stopped = true;
  }));
  CAF_CHECK(eventually([&] { return began.load(); }));
  CAF_CHECK(ended(*n, "sleep", "running"));
  CAF_CHECK(n->cron().run("wait").failure().code == errc::conflict);
  CAF_CHECK_EQUAL(n->stop(), 0u);
  CAF_CHECK(stopped);
  // What ran is known after a restart.
  const auto again = start("[cron.sleep]\nSCHEDULE = @daily\nEXEC = sleep 60\n");
  CAF_CHECK(ended(*again, "sleep", "cancelled"));
}

CAF_TEST_FIXTURE_SCOPE_END()
