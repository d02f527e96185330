// Sealed items through whole nodes: on LevelDB over restarts, and on a Redis that two nodes share.
#define CAF_SUITE encrypted
#include "nodes/ask_actor.hpp"
#include "nodes/node_runtime.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/redis_server.hpp"
#include "tests/support/temp_folder.hpp"

#include <caravan/caravan.hpp>

#include "caf/test/unit_test.hpp"

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <set>

using namespace caravan;
using namespace caravan::testing_support;
using namespace std::chrono_literals;

namespace {

const std::string one(64, '1');
const std::string two(64, '2');

struct keys {
  explicit keys(const std::string& text) { ::setenv("CARAVAN_TEST_KEYS", text.c_str(), 1); }
  ~keys() { ::unsetenv("CARAVAN_TEST_KEYS"); }
};

node_options options(const std::filesystem::path& folder, const std::string& config) {
  node_options o;
  o.config_text = config;
  o.data_dir = folder;
  o.use_environment = false;
  o.quiet = true;
  return o;
}

const std::string level = "[queue]\nENCRYPT = env:CARAVAN_TEST_KEYS\nMAX_ATTEMPTS = 1\n";

std::string refusal(const node_options& o) {
  try {
    node n(o);
    (void)n.open_queue<std::string>("mail");
  } catch (const exception& e) {
    return e.what();
  }
  return "";
}

/// Remembers what it handled.
struct log {
  std::mutex mutex;
  std::multiset<std::string> items;
  auto handler() {
    return [this](std::vector<std::string>& batch) {
      const std::lock_guard lock(mutex);
      for (auto& i : batch) items.insert(i);
    };
  }
  std::size_t count(const std::string& item) {
    const std::lock_guard lock(mutex);
    return items.count(item);
  }
};

}  // namespace

CAF_TEST(items wait sealed on LevelDB and come out as they were) {
  const temp_folder folder;
  {
    const keys k(one);
    node n(options(folder.path(), level));
    auto q = n.open_queue<std::string>("mail");
    q.push("payload-secret").value();
    q.push("later-secret", {.delay = 24h}).value();
  }
  for (const auto& f : std::filesystem::recursive_directory_iterator(folder.path())) {
    if (!f.is_regular_file()) continue;
    std::ifstream in(f.path(), std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(in), {}};
    CAF_CHECK(bytes.find("-secret") == std::string::npos);
  }
  CAF_CHECK(refusal(options(folder.path(), "")).find("is sealed, and this node has no key") != std::string::npos);
  {
    const keys k(two);
    CAF_CHECK(refusal(options(folder.path(), level)).find("not among the keys of ENCRYPT") != std::string::npos);
  }
  CAF_CHECK(refusal(options(folder.path(), level))
                .find("[queue.mail] ENCRYPT = env:CARAVAN_TEST_KEYS: there is no such environment variable") !=
            std::string::npos);
  const keys k(two + "\n" + one);
  node n(options(folder.path(), level));
  log handled;
  auto q = n.create_queue<std::string>("mail", handled.handler());
  CAF_REQUIRE(q.flush(30s));
  CAF_CHECK(handled.count("payload-secret") == 1);
  CAF_CHECK(q.info()->delayed == 1);
}

CAF_TEST(an item whose key is lost is dead and the queue goes on) {
  const temp_folder folder;
  item_id lost;
  {
    const keys k(one);
    node n(options(folder.path(), level));
    n.open_queue<std::string>("mail").push("first").value();
  }
  {
    const keys k(two + "\n" + one);
    node n(options(folder.path(), level));
    lost = n.open_queue<std::string>("mail").push("lost").value();
  }
  const keys k(one);
  node n(options(folder.path(), level));
  log handled;
  auto q = n.create_queue<std::string>("mail", handled.handler());
  q.push("last").value();
  CAF_REQUIRE(eventually([&] { return handled.count("first") == 1 && handled.count("last") == 1; }));
  CAF_CHECK(q.flush(30s));
  const auto job = q.find(lost).value();
  CAF_CHECK(job.state == "dead");
  CAF_CHECK(job.last_error.find("cannot be opened") != std::string::npos);
  // A retry would hand the sealed bytes to the handler.
  const auto retried = ask_actor<ack>(n.runtime().system(), n.runtime().find("mail")->actor(), change_job{lost, job_change::retry}, 10s, "mail");
  CAF_REQUIRE(!retried);
  CAF_CHECK(retried.failure().code == errc::conflict);
  CAF_CHECK(q.find(lost)->state == "dead");
}

CAF_TEST(two nodes share sealed items in Redis) {
  redis_server redis;
  const temp_folder folder;
  const keys k(one);
  const auto config = [&](const std::string& name) {
    return "[node]\nNAME = " + name + "\n[redis]\nCONN_STR = " + redis.url() +
           "\n[cluster]\nOWNER_LEASE = 2s\n[queue]\nTYPE = redis\nENCRYPT = env:CARAVAN_TEST_KEYS\n";
  };
  node a(options(folder.path() / "a", config("a")));
  node b(options(folder.path() / "b", config("b")));
  auto qa = a.open_queue<std::string>("mail");
  auto qb = b.open_queue<std::string>("mail");
  for (int i = 0; i < 50; ++i) {
    qa.push("a-secret-" + std::to_string(i)).value();
    qb.push("b-secret-" + std::to_string(i)).value();
  }
  CAF_REQUIRE(eventually([&] { return qa.info()->waiting == 100 && qb.info()->waiting == 100; }));
  const auto kept = redis.appended();
  CAF_CHECK(kept.find("mail_queue") != std::string::npos);
  CAF_CHECK(kept.find("-secret-") == std::string::npos);
  log handled;
  qb = b.create_queue<std::string>("mail", handled.handler());
  CAF_REQUIRE(eventually([&] { return qa.info()->waiting == 0 && qa.info()->running == 0; }));
  for (int i = 0; i < 50; ++i) {
    CAF_CHECK(handled.count("a-secret-" + std::to_string(i)) == 1);
    CAF_CHECK(handled.count("b-secret-" + std::to_string(i)) == 1);
  }
}
