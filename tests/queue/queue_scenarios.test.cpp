// Scenarios of queues as an application sees them, by id, on every backend that they concern.
#define CAF_SUITE queue_scenarios
#include <caravan/caravan.hpp>

#include "caf/test/unit_test.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/redis_server.hpp"
#include "tests/support/temp_folder.hpp"

#include <atomic>
#include <chrono>
#include <iostream>
#include <map>
#include <mutex>
#include <set>

using namespace caravan;
using namespace caravan::testing_support;
using namespace std::chrono_literals;
using steady = std::chrono::steady_clock;

namespace {

const std::string backends[] = {"channel", "level", "redis"};

void scenario(const char* id, const std::string& backend) { std::cout << "  " << id << " on " << backend << '\n'; }

/// A place of its own in the backend, which stays over restarts.
class backend_place {
public:
  std::string text(const std::string& type) {
    const auto head = "[queue]\nTYPE = " + type + "\n";
    if (type != "redis") return head;
    static redis_server server;
    static int next = 0;
    if (name_.empty()) name_ = "_" + std::to_string(++next);
    return head + "CONN_STR = " + server.url() + "\nQUEUE_NAME = " + name_ + "\n";
  }

private:
  std::string name_;
};

/// A node on a folder of its own, with settings for all queues.
class fixture {
public:
  explicit fixture(const std::string& type, const std::string& more = {}) {
    settings(type, more);
    start();
  }

  void start() {
    node_options o;
    o.config_text = text_;
    o.data_dir = folder_.path() / "data";
    o.use_environment = false;
    o.quiet = true;
    node_ = std::make_unique<node>(std::move(o));
  }
  void settings(const std::string& type, const std::string& more) { text_ = place_.text(type) + more + "\n"; }
  std::size_t stop() {
    const auto left = node_->stop();
    node_.reset();
    return left;
  }
  node& operator*() { return *node_; }
  node* operator->() { return node_.get(); }

private:
  temp_folder folder_;
  std::string text_;
  backend_place place_;
  std::unique_ptr<node> node_;
};

std::uint64_t waiting(queue<std::string>& q) { return q.info().value().waiting; }

}  // namespace

CAF_TEST(lengths and duplicates in simple and unique queues) {
  for (const auto& backend : backends) {
    scenario("QUEUE-002 003 004", backend);
    fixture n(backend);
    auto simple = n->open_queue<std::string>("simple");
    CAF_REQUIRE(simple.push("foo"));
    CAF_CHECK_EQUAL(simple.size().value(), 1u);
    CAF_REQUIRE(simple.push("foo"));
    CAF_CHECK_EQUAL(simple.size().value(), 2u);
    CAF_CHECK(!simple.has("foo").value());

    gate hold;
    std::atomic<bool> started{false};
    auto unique = n->create_unique_queue<std::string>("unique", [&](std::vector<std::string>&) {
      started = true;
      hold.wait();
    });
    CAF_REQUIRE(unique.pause());
    CAF_REQUIRE(unique.push("foo"));
    const auto again = unique.push("foo");
    CAF_REQUIRE(!again);
    CAF_CHECK(again.failure().code == errc::already_in_queue);
    CAF_CHECK_EQUAL(unique.size().value(), 1u);
    CAF_CHECK(unique.has("foo").value());

    scenario("QUEUE-007", backend);
    CAF_REQUIRE(unique.resume());
    CAF_CHECK(eventually([&] { return started.load(); }));
    CAF_CHECK(!unique.has("foo").value());
    CAF_CHECK(unique.push("foo"));
    hold.open();
    CAF_CHECK(unique.flush(30s));
  }
}

CAF_TEST(a handler may push its own item again at once) {
  for (const auto& backend : backends) {
    fixture n(backend);
    std::atomic<int> calls{0};
    std::atomic<int> refused{0};
    queue<std::string> q;
    gate ready;
    q = n->create_unique_queue<std::string>("again", [&](std::vector<std::string>& items) {
      ready.wait();
      if (++calls < 50 && !q.push(items.front())) ++refused;
    });
    ready.open();
    CAF_REQUIRE(q.push("x"));
    CAF_CHECK(eventually([&] { return calls >= 50 || refused > 0; }));
    CAF_CHECK_EQUAL(refused, 0);
    CAF_CHECK(q.flush(30s));
  }
}

CAF_TEST(items are handled in the order they came) {
  for (const auto& backend : backends) {
    scenario("QUEUE-006", backend);
    fixture n(backend, "MAX_WORKERS = 1\nBATCH_LENGTH = 3");
    std::vector<int> seen;
    auto q = n->create_unique_queue<int>("q", [&](std::vector<int>& items) { seen.insert(seen.end(), items.begin(), items.end()); });
    CAF_REQUIRE(q.pause());
    for (int i = 0; i < 1000; ++i) CAF_REQUIRE(q.push(i));
    CAF_REQUIRE(q.resume());
    CAF_REQUIRE(q.flush(30s));
    CAF_REQUIRE_EQUAL(seen.size(), 1000u);
    for (int i = 0; i < 1000; ++i) CAF_REQUIRE_EQUAL(seen[static_cast<std::size_t>(i)], i);
  }
}

CAF_TEST(a push to a full queue gives up after its timeout) {
  for (const auto& backend : backends) {
    scenario("QUEUE-011 013", backend);
    fixture n(backend, "LENGTH = 10\nPUSH_TIMEOUT = 30ms");
    auto q = n->open_queue<std::string>("full");
    for (int i = 0; i < 10; ++i) CAF_REQUIRE(q.push("x"));
    const auto begun = steady::now();
    const auto more = q.push("x");
    CAF_REQUIRE(!more);
    CAF_CHECK(more.failure().code == errc::queue_full);
    CAF_CHECK(more.failure().text.find("LENGTH = 10") != std::string::npos);
    CAF_CHECK(steady::now() - begun >= 20ms);
    CAF_CHECK_EQUAL(q.size().value(), 10u);
    CAF_CHECK_EQUAL(q.remove_all().value(), 10u);
    CAF_CHECK_EQUAL(q.size().value(), 0u);
    CAF_CHECK(q.push("x"));
  }
}

CAF_TEST(a waiting push goes on when room comes) {
  for (const auto& backend : backends) {
    fixture n(backend, "LENGTH = 1\nPUSH_TIMEOUT = 30s\nBATCH_LENGTH = 1");
    std::atomic<int> handled{0};
    auto q = n->create_simple_queue<int>("q", [&](std::vector<int>&) { ++handled; });
    for (int i = 0; i < 200; ++i) CAF_REQUIRE(q.push(i));
    CAF_REQUIRE(q.flush(30s));
    CAF_CHECK_EQUAL(handled, 200);
  }
}

CAF_TEST(the dummy backend swallows everything or handles inside push) {
  scenario("QUEUE-015", "dummy");
  fixture n("dummy");
  auto q = n->open_queue<std::string>("void");
  CAF_CHECK(q.push("foo"));
  CAF_CHECK_EQUAL(q.size().value(), 0u);
  CAF_CHECK(!q.has("foo").value());
  CAF_CHECK_EQUAL(q.remove_all().value(), 0u);

  scenario("QUEUE-046", "immediate");
  int got = 0;
  auto now = n->create_simple_queue<int>("now", [&](std::vector<int>& items) { got = items.at(0); });
  CAF_CHECK(now.push(5));
  CAF_CHECK_EQUAL(got, 5);

  scenario("QUEUE-050", "dummy and channel");
  CAF_CHECK(n->flush_all(30s));
}

CAF_TEST(unhandled items come back) {
  for (const auto& backend : backends) {
    scenario("QUEUE-022 043", backend);
    fixture n(backend, "LENGTH = 100\nBATCH_LENGTH = 3\nMAX_WORKERS = 1\nREQUEUE_DELAY = 0");
    std::map<int, int> calls;
    auto q = n->create_simple_queue<int>("q", [&](std::vector<int>& items) -> unhandled {
      unhandled rest;
      for (std::size_t i = 0; i < items.size(); ++i)
        if (++calls[items[i]] == 1 && items[i] % 2 == 0) rest.push_back(i);
      return rest;
    });
    for (int i = 0; i < 100; ++i) CAF_REQUIRE(q.push(i));
    CAF_REQUIRE(q.flush(30s));
    for (int i = 0; i < 100; ++i) CAF_CHECK_EQUAL(calls[i], i % 2 == 0 ? 2 : 1);
  }
}

CAF_TEST(a batch with nothing handled is delayed and a partly handled one is not) {
  for (const auto& backend : backends) {
    scenario("QUEUE-024", backend);
    {
      fixture n(backend, "REQUEUE_DELAY = 300ms");
      std::mutex mutex;
      std::vector<steady::time_point> times;
      auto q = n->create_simple_queue<int>("q", [&](std::vector<int>&) -> unhandled {
        const std::lock_guard lock(mutex);
        times.push_back(steady::now());
        return times.size() == 1 ? unhandled{0} : unhandled{};
      });
      CAF_REQUIRE(q.push(1));
      CAF_CHECK(eventually([&] { return q.info().value().handled == 1; }));
      CAF_REQUIRE_EQUAL(times.size(), 2u);
      CAF_CHECK(times[1] - times[0] >= 300ms);
    }
    scenario("QUEUE-025", backend);
    {
      fixture n(backend, "REQUEUE_DELAY = 60s\nBATCH_LENGTH = 2\nMAX_WORKERS = 1");
      std::atomic<int> calls{0};
      auto q = n->create_simple_queue<int>("q", [&](std::vector<int>& items) -> unhandled {
        return ++calls == 1 && items.size() == 2 ? unhandled{1} : unhandled{};
      });
      CAF_REQUIRE(q.pause());
      const std::vector<int> two{1, 2};
      CAF_REQUIRE(q.push_many(two));
      CAF_REQUIRE(q.resume());
      CAF_REQUIRE(q.flush(30s));
      CAF_CHECK_EQUAL(calls, 2);
    }
  }
}

CAF_TEST(jobs survive a restart and none runs twice) {
  const struct {
    const char* id;
    int batch, workers;
  } shapes[] = {{"QUEUE-027", 1, 1}, {"QUEUE-028", 3, 1}, {"QUEUE-029", 4, 5}};
  for (const auto& shape : shapes) {
    scenario(shape.id, "level");
    const auto settings = "LENGTH = 100\nBATCH_LENGTH = " + std::to_string(shape.batch) + "\nMAX_WORKERS = " +
                          std::to_string(shape.workers) + "\nSHUTDOWN_TIMEOUT = 1s";
    fixture n("level", settings);
    std::mutex mutex;
    std::multiset<std::string> first;
    std::multiset<std::string> second;
    {
      gate hold;
      std::atomic<bool> reached{false};
      auto q = n->create_unique_queue<std::string>("q", [&](std::vector<std::string>& items) {
        hold.wait();
        std::this_thread::sleep_for(10ms);
        const std::lock_guard lock(mutex);
        for (const auto& i : items) {
          first.insert(i);
          if (i == "task-20") reached = true;
        }
      });
      for (int i = 0; i < 100; ++i) CAF_REQUIRE(q.push("task-" + std::to_string(i)));
      hold.open();
      CAF_REQUIRE(eventually([&] { return reached.load(); }));
      CAF_CHECK_EQUAL(n.stop(), 0u);
    }
    n.start();
    auto q = n->create_unique_queue<std::string>("q", [&](std::vector<std::string>& items) {
      const std::lock_guard lock(mutex);
      second.insert(items.begin(), items.end());
    });
    CAF_REQUIRE(q.flush(30s));
    CAF_CHECK(!first.empty());
    CAF_CHECK(!second.empty());
    CAF_CHECK_EQUAL(first.size() + second.size(), 100u);
    for (int i = 0; i < 100; ++i) {
      const auto name = "task-" + std::to_string(i);
      CAF_CHECK_EQUAL(first.count(name) + second.count(name), 1u);
    }
  }
}

CAF_TEST(workers come with the work and go when idle but one) {
  const struct {
    const char* id;
    unsigned workers;
    int jobs;
  } shapes[] = {{"QUEUE-030", 1, 5}, {"QUEUE-031", 3, 15}};
  for (const auto& backend : backends) {
    for (const auto& shape : shapes) {
      scenario(shape.id, backend);
      fixture n(backend, "BATCH_LENGTH = 1\nWORKER_IDLE = 300ms\nMAX_WORKERS = " + std::to_string(shape.workers));
      gate hold;
      auto q = n->create_simple_queue<int>("q", [&](std::vector<int>&) { hold.wait(); });
      scenario("QUEUE-032", backend);
      CAF_CHECK_EQUAL(q.info().value().workers, 0u);
      CAF_CHECK_EQUAL(q.info().value().active, 0u);
      for (int i = 0; i < shape.jobs; ++i) CAF_REQUIRE(q.push(i));
      CAF_CHECK(eventually([&] { return q.info().value().active >= shape.workers; }));
      CAF_CHECK_EQUAL(q.info().value().workers, shape.workers);
      hold.open();
      CAF_REQUIRE(q.flush(30s));
      CAF_CHECK_EQUAL(q.info().value().active, 0u);
      CAF_CHECK(eventually([&] { return q.info().value().workers == 1; }));
    }
  }
}

CAF_TEST(a shutdown puts unhandled work back) {
  scenario("QUEUE-034", "level");
  fixture n("level", "LENGTH = 20\nBATCH_LENGTH = 3\nMAX_WORKERS = 4\nREQUEUE_DELAY = 100ms\nSHUTDOWN_TIMEOUT = 1s");
  std::atomic<bool> begun{false};
  auto q = n->create_simple_queue<int>("q", [&](std::vector<int>& items) -> unhandled {
    begun = true;
    std::this_thread::sleep_for(400ms);
    unhandled all;
    for (std::size_t i = 0; i < items.size(); ++i) all.push_back(i);
    return all;
  });
  CAF_REQUIRE(q.pause());
  for (int i = 0; i < 20; ++i) CAF_REQUIRE(q.push(i));
  CAF_REQUIRE(q.resume());
  CAF_REQUIRE(eventually([&] { return begun.load() && q.info().value().active == 4; }));
  CAF_CHECK_EQUAL(n.stop(), 0u);
  n.start();
  auto again = n->open_queue<std::string>("q");
  CAF_CHECK_EQUAL(waiting(again), 20u);
}

CAF_TEST(a shutdown does not wait for a stuck handler) {
  for (const auto& backend : backends) {
    scenario("QUEUE-035", backend);
    gate never;
    std::atomic<bool> begun_it{false};
    std::atomic<bool> ended{false};
    {
      fixture n(backend, "SHUTDOWN_TIMEOUT = 500ms");
      auto q = n->create_simple_queue<int>("q", [&](std::vector<int>&) {
        begun_it = true;
        never.wait();
        ended = true;
      });
      CAF_REQUIRE(q.push(1));
      CAF_REQUIRE(eventually([&] { return begun_it.load(); }));
      const auto begun = steady::now();
      CAF_CHECK_EQUAL(n.stop(), 1u);
      CAF_CHECK(steady::now() - begun >= 500ms);
    }
    never.open();
    CAF_CHECK(eventually([&] { return ended.load(); }));
  }
}

CAF_TEST(with a shutdown timeout of zero the rest is run once instead) {
  fixture n("channel", "SHUTDOWN_TIMEOUT = 0\nREQUEUE_DELAY = 0");
  std::atomic<int> calls{0};
  auto q = n->create_simple_queue<int>("q", [&](std::vector<int>& items) -> unhandled {
    calls += static_cast<int>(items.size());
    return {0};
  });
  CAF_REQUIRE(q.pause());
  for (int i = 0; i < 10; ++i) CAF_REQUIRE(q.push(i));
  n.stop();
  CAF_CHECK_EQUAL(calls, 10);
}

CAF_TEST(a debounced batch waits for more and not for ever) {
  for (const auto& backend : backends) {
    scenario("QUEUE-036", backend);
    fixture n(backend, "BATCH_LENGTH = 10\nBATCH_DEBOUNCE = 100ms");
    std::mutex mutex;
    std::vector<std::size_t> sizes;
    auto q = n->create_simple_queue<int>("q", [&](std::vector<int>& items) {
      const std::lock_guard lock(mutex);
      sizes.push_back(items.size());
    });
    const std::vector<int> three{1, 2, 3};
    CAF_REQUIRE(q.push_many(three));
    CAF_CHECK(eventually([&] { return q.info().value().handled == 3; }));
    CAF_REQUIRE_EQUAL(sizes.size(), 1u);
    CAF_CHECK_EQUAL(sizes[0], 3u);
  }
}

CAF_TEST(a handler that throws does not stop the queue) {
  for (const auto& backend : backends) {
    scenario("QUEUE-038", backend);
    fixture n(backend, "BATCH_LENGTH = 1\nMAX_ATTEMPTS = 1");
    std::atomic<int> handled{0};
    auto q = n->create_simple_queue<int>("q", [&](std::vector<int>& items) {
      if (items.at(0) == 1) throw std::runtime_error("one is bad");
      if (items.at(0) == 2) throw std::bad_alloc();
      if (items.at(0) == 3) throw 42;
      ++handled;
    });
    const auto bad = q.push(1);
    CAF_REQUIRE(bad);
    for (int i = 2; i <= 4; ++i) CAF_REQUIRE(q.push(i));
    CAF_REQUIRE(q.flush(30s));
    CAF_CHECK_EQUAL(handled, 1);
    CAF_CHECK(q.push(5));
    CAF_REQUIRE(q.flush(30s));
    const auto info = q.info().value();
    CAF_CHECK_EQUAL(info.dead, 3u);
    CAF_CHECK_EQUAL(info.failed, 3u);
    const auto job = q.find(*bad);
    CAF_REQUIRE(job);
    CAF_CHECK_EQUAL(job->state, "dead");
    CAF_CHECK_EQUAL(job->last_error, "the handler threw: one is bad");
  }
}

CAF_TEST(a stored item that cannot be read is set aside) {
  for (const auto& backend : backends) {
    scenario("QUEUE-039", backend);
    fixture n(backend);
    auto raw = n->open_queue<raw_json>("q");
    const auto bad = raw.push({"{ no json"});
    CAF_REQUIRE(bad);
    std::vector<int> seen;
    auto q = n->create_simple_queue<int>("q", [&](std::vector<int>& items) { seen.insert(seen.end(), items.begin(), items.end()); });
    CAF_REQUIRE(q.push(7));
    CAF_REQUIRE(q.flush(30s));
    CAF_CHECK_EQUAL(seen, std::vector<int>{7});
    const auto job = q.find(*bad);
    CAF_REQUIRE(job);
    CAF_CHECK_EQUAL(job->state, "dead");
    CAF_CHECK_EQUAL(job->payload, "{ no json");
  }
}

CAF_TEST(a limit of zero workers still leaves one) {
  for (const auto& backend : backends) {
    scenario("QUEUE-040", backend);
    fixture n(backend);
    std::atomic<int> handled{0};
    auto q = n->create_simple_queue<int>("q", [&](std::vector<int>&) { ++handled; });
    CAF_REQUIRE(q.set_max_workers(0));
    CAF_REQUIRE(q.push(1));
    CAF_REQUIRE(q.flush(30s));
    CAF_CHECK_EQUAL(handled, 1);
  }
}

CAF_TEST(queues are listed by id and name their item type) {
  scenario("QUEUE-048 051", "all");
  fixture n("channel");
  auto q1 = n->create_simple_queue<std::int64_t>("q1", [](std::vector<std::int64_t>&) {});
  auto q2 = n->create_simple_queue<std::string>("q2", [](std::vector<std::string>&) {});
  const auto list = n->queues();
  CAF_REQUIRE_EQUAL(list.size(), 2u);
  CAF_CHECK(list[0].id < list[1].id);
  CAF_CHECK_EQUAL(list[0].name, "q1");
  CAF_CHECK(n->find_queue(list[1].id) == n->find_queue("q2"));
  CAF_CHECK(list[0].item_type != list[1].item_type);
  CAF_CHECK(list[1].item_type.find("string") != std::string::npos);
  bool refused = false;
  try {
    (void)n->create_simple_queue<int>("q1", [](std::vector<int>&) {});
  } catch (const exception& e) {
    refused = e.why().code == errc::conflict;
  }
  CAF_CHECK(refused);
}

CAF_TEST(a delayed job becomes ready when its time comes) {
  for (const auto& backend : backends) {
    scenario("QUEUE-085", backend);
    fixture n(backend);
    std::atomic<int> handled{0};
    steady::time_point at;
    auto q = n->create_simple_queue<int>("q", [&](std::vector<int>&) {
      at = steady::now();
      ++handled;
    });
    const auto begun = steady::now();
    push_options later;
    later.delay = 200ms;
    const auto id = q.push(1, later);
    CAF_REQUIRE(id);
    CAF_CHECK_EQUAL(q.find(*id).value().state, "delayed");
    CAF_CHECK_EQUAL(q.info().value().delayed, 1u);
    CAF_CHECK(eventually([&] { return handled == 1; }));
    CAF_CHECK(at - begun >= 199ms);
  }
}

CAF_TEST(delayed and dead jobs survive a restart) {
  scenario("QUEUE-095", "level");
  fixture n("level", "MAX_ATTEMPTS = 1");
  item_id delayed;
  item_id dead;
  item_id plain;
  {
    auto q = n->create_simple_queue<int>("q", [](std::vector<int>&) { throw std::runtime_error("no"); });
    push_options later;
    later.delay = 1h;
    delayed = q.push(1, later).value();
    dead = q.push(2).value();
    CAF_REQUIRE(q.flush(30s));
    CAF_REQUIRE(q.pause());
    plain = q.push(3).value();
    n.stop();
  }
  n.start();
  auto q = n->open_queue<int>("q");
  CAF_CHECK_EQUAL(q.find(delayed).value().state, "delayed");
  CAF_CHECK_EQUAL(q.find(dead).value().state, "dead");
  CAF_CHECK_EQUAL(q.find(plain).value().state, "waiting");
  CAF_CHECK(q.push(4).value() > plain);
}

CAF_TEST(a draining queue refuses pushes and handles the rest) {
  for (const auto& backend : backends) {
    scenario("QUEUE-098", backend);
    fixture n(backend);
    std::atomic<int> handled{0};
    auto q = n->create_simple_queue<int>("q", [&](std::vector<int>&) { ++handled; });
    CAF_REQUIRE(q.pause());
    CAF_REQUIRE(q.push(1));
    CAF_REQUIRE(q.drain());
    const auto refused = q.push(2);
    CAF_REQUIRE(!refused);
    CAF_CHECK(refused.failure().code == errc::queue_closed);
    CAF_CHECK(eventually([&] { return q.info().value().phase == "stopped"; }));
    CAF_CHECK_EQUAL(handled, 1);
  }
}

CAF_TEST(a repeated push with its idempotency key is answered with the first id) {
  for (const auto& backend : backends) {
    scenario("QUEUE-117", backend);
    fixture n(backend);
    auto q = n->open_queue<int>("q");
    push_options once;
    once.idempotency_key = "order-17";
    const auto first = q.push(1, once);
    CAF_REQUIRE(first);
    CAF_CHECK_EQUAL(q.push(1, once).value().value, first->value);
    CAF_CHECK_EQUAL(q.size().value(), 1u);
    CAF_CHECK_EQUAL(q.remove_all().value(), 1u);
    CAF_CHECK_EQUAL(q.push(1, once).value().value, first->value);
    CAF_CHECK_EQUAL(q.size().value(), 0u);
    if (backend == "channel") continue;
    n.stop();
    n.start();
    auto again = n->open_queue<int>("q");
    CAF_CHECK_EQUAL(again.push(1, once).value().value, first->value);
  }
}

CAF_TEST(a handler past its timeout is asked to stop and its items fail) {
  for (const auto& backend : backends) {
    fixture n(backend, "TIMEOUT = 50ms\nMAX_ATTEMPTS = 1");
    std::atomic<bool> asked{false};
    auto q = n->create_simple_queue<int>("q", [&](std::vector<int>&, context& ctx) {
      if (eventually([&] { return ctx.stop().stop_requested(); })) asked = true;
    });
    const auto id = q.push(1);
    CAF_REQUIRE(id);
    CAF_CHECK(eventually([&] { return q.info().value().dead == 1; }));
    CAF_CHECK(asked);
    CAF_CHECK(q.find(*id).value().last_error.find("TIMEOUT = 50 ms") != std::string::npos);
  }
}

CAF_TEST(a flush that cannot end says why) {
  for (const auto& backend : backends) {
    fixture n(backend);
    auto q = n->open_queue<int>("q");
    CAF_REQUIRE(q.push(1));
    const auto ended = q.flush(20ms);
    CAF_REQUIRE(!ended);
    CAF_CHECK(ended.failure().code == errc::timed_out);
    CAF_CHECK(ended.failure().text.find("no worker pool is attached") != std::string::npos);
    CAF_CHECK(q.flush(-1ms));
    CAF_CHECK_EQUAL(q.size().value(), 0u);
  }
}

CAF_TEST(an open queue does not change its uniqueness) {
  fixture n("level");
  auto q = n->open_queue<int>("q");
  CAF_REQUIRE(q.push(1));
  bool refused = false;
  try {
    (void)n->create_unique_queue<int>("q", [](std::vector<int>&) {});
  } catch (const exception& e) {
    refused = e.why().code == errc::conflict;
  }
  CAF_CHECK(refused);
}

CAF_TEST(a node may be used and destroyed by other threads than the one that made it) {
  for (const auto& backend : backends) {
    temp_folder folder;
    backend_place place;
    node_options o;
    o.config_text = place.text(backend);
    o.data_dir = folder.path() / "data";
    o.quiet = true;
    auto made = node::start(std::move(o)).value();
    auto q = made->create_simple_queue<int>("q", [](std::vector<int>&) {});
    gate hold;
    std::atomic<int> asked{0};
    std::vector<std::jthread> users;
    for (int i = 0; i < 4; ++i)
      users.emplace_back([&] {
        if (q.push(1) && q.info() && q.flush(30s)) ++asked;
        hold.wait();  // still alive when the node ends
      });
    CAF_CHECK(eventually([&] { return asked == 4; }));
    std::atomic<bool> gone{false};
    std::thread([&] {
      made.reset();
      gone = true;
    }).join();
    CAF_CHECK(gone);
    hold.open();
  }
}

CAF_TEST(a level queue refuses a wrong place for its data) {
  const auto refusal = [](const std::string& settings) {
    temp_folder folder;
    node_options o;
    o.config_text = settings;
    o.data_dir = folder.path() / "data";
    o.use_environment = false;
    o.quiet = true;
    auto started = node::start(std::move(o));
    return started ? std::string() : started.failure().text;
  };
  scenario("QUEUE-016", "level");
  CAF_CHECK(refusal("[queue.q]\nTYPE = level\nCONN_STR = redis://\n").find("invalid connection string") != std::string::npos);
  scenario("QUEUE-017", "level");  // relative to the data folder, so the engine only ever sees absolute ones
  CAF_CHECK_EQUAL(refusal("[queue.q]\nTYPE = level\nDATADIR = relative\n"), "");
  CAF_CHECK(refusal("[queue.q]\nTYPE = level\nDATADIR = /proc/no-such-place/x\n").find("/proc/no-such-place/x") != std::string::npos);
}

CAF_TEST(a unique key is free again when its rule says so) {
  for (const auto& backend : backends) {
    scenario("QUEUE-053", backend);
    {
      fixture n(backend, "UNIQUE_UNTIL = done");
      gate hold;
      std::atomic<bool> begun{false};
      auto q = n->create_unique_queue<std::string>("q", [&](std::vector<std::string>&) {
        begun = true;
        hold.wait();
      });
      CAF_REQUIRE(q.push("K"));
      CAF_REQUIRE(eventually([&] { return begun.load(); }));
      CAF_CHECK(!q.push("K"));
      hold.open();
      CAF_REQUIRE(q.flush(30s));
      // The acknowledgement is written a moment after the flush.
      CAF_CHECK(eventually([&] { return q.push("K").has_value(); }));
    }
    scenario("QUEUE-055", backend);
    {
      fixture n(backend, "UNIQUE_UNTIL = 1s");
      auto q = n->create_unique_queue<std::string>("q", [](std::vector<std::string>&) {});
      CAF_REQUIRE(q.pause());
      const auto begun = steady::now();
      CAF_REQUIRE(q.push("K"));
      CAF_CHECK(!q.push("K"));
      CAF_CHECK(eventually([&] { return q.push("K").has_value(); }));
      CAF_CHECK(steady::now() - begun >= 990ms);
      CAF_CHECK_EQUAL(q.size().value(), 2u);
    }
  }
}

CAF_TEST(paused and empty queues hand out nothing) {
  for (const auto& backend : backends) {
    scenario("QUEUE-067 074 075", backend);
    fixture n(backend);
    std::atomic<int> calls{0};
    const auto count = [&](std::vector<int>&) { ++calls; };
    auto a = n->create_simple_queue<int>("a", count);
    auto b = n->create_simple_queue<int>("b", count);
    CAF_CHECK(n->flush_all(30s));
    CAF_CHECK_EQUAL(calls, 0);
    CAF_REQUIRE(a.pause());
    CAF_REQUIRE(a.push(1));
    CAF_REQUIRE(b.push(2));
    CAF_REQUIRE(b.flush(30s));
    CAF_CHECK_EQUAL(calls, 1);
    CAF_CHECK_EQUAL(a.size().value(), 1u);
    CAF_REQUIRE(b.pause());
    CAF_REQUIRE(b.push(3));
    CAF_CHECK(!n->flush_all(30s));
    CAF_CHECK_EQUAL(a.size().value() + b.size().value(), 2u);
    CAF_CHECK_EQUAL(calls, 1);
  }
}

CAF_TEST(what was in a handler at the end is delivered again) {
  scenario("QUEUE-114", "level");
  gate never;
  std::atomic<int> begun{0};
  std::atomic<int> ended{0};
  fixture n("level", "BATCH_LENGTH = 5\nMAX_WORKERS = 5\nSHUTDOWN_TIMEOUT = 10ms");
  {
    auto q = n->create_simple_queue<int>("q", [&](std::vector<int>& items) {
      begun += static_cast<int>(items.size());
      never.wait();
      ++ended;
    });
    CAF_REQUIRE(q.pause());
    for (int i = 0; i < 25; ++i) CAF_REQUIRE(q.push(i));
    CAF_REQUIRE(q.resume());
    CAF_REQUIRE(eventually([&] { return begun == 25; }));
    CAF_CHECK_EQUAL(n.stop(), 25u);
  }
  n.start();
  std::mutex mutex;
  std::multiset<int> again;
  auto q = n->create_simple_queue<int>("q", [&](std::vector<int>& items) {
    const std::lock_guard lock(mutex);
    again.insert(items.begin(), items.end());
  });
  CAF_REQUIRE(q.flush(30s));
  CAF_CHECK_EQUAL(again.size(), 25u);
  for (int i = 0; i < 25; ++i) CAF_CHECK_EQUAL(again.count(i), 1u);
  never.open();
  CAF_CHECK(eventually([&] { return ended == 5; }));
}
