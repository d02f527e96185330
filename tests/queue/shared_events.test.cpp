// Events of three nodes on one Redis. A node that is killed is the subject of tests/crash.
#define CAF_SUITE shared_events
#include "nodes/event_host.hpp"
#include "nodes/node_runtime.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/redis_server.hpp"
#include "tests/support/temp_folder.hpp"

#include <caravan/caravan.hpp>

#include <caf/test/unit_test.hpp>

#include <algorithm>
#include <memory>
#include <mutex>
#include <set>

using namespace caravan;
using namespace caravan::testing_support;
using namespace std::chrono_literals;

namespace {

/// What the subscribers of a node heard.
struct ears {
  std::mutex mutex;
  std::vector<event> heard;
  event_subscription sub;

  void listen(node& n, const std::string& pattern) {
    sub = n.events()
              .subscribe(pattern,
                         [this](const event& e) {
                           const std::lock_guard lock(mutex);
                           heard.push_back(e);
                         })
              .value();
  }
  std::size_t count(const std::string& topic, const std::string& subject) {
    const std::lock_guard lock(mutex);
    return static_cast<std::size_t>(std::count_if(heard.begin(), heard.end(), [&](const event& e) {
      return e.topic == topic && (subject.empty() || e.subject == subject);
    }));
  }
  std::set<std::string> nodes_of(const std::string& topic) {
    const std::lock_guard lock(mutex);
    std::set<std::string> out;
    for (const auto& e : heard)
      if (e.topic == topic) out.insert(e.node);
    return out;
  }
};

struct cluster {
  redis_server redis;
  temp_folder folder;
  ears at[3];  // outlives the nodes
  std::unique_ptr<node> nodes[3];
  int asked = 0;

  void start(int i) {
    node_options o;
    o.config_text = "[node]\nNAME = node" + std::to_string(i) + "\n[redis]\nCONN_STR = " + redis.url() +
                    "\n[cluster]\nOWNER_LEASE = 3s\n[queue]\nTYPE = redis\n[queue.q]\n";
    o.data_dir = folder.path() / std::to_string(i);
    o.use_environment = false;
    o.quiet = true;
    nodes[i] = std::make_unique<node>(o);
  }
  cluster() {
    for (int i = 0; i < 3; ++i) start(i);
    for (int i = 0; i < 3; ++i) at[i].listen(*nodes[i], i == 2 ? "queue.#" : "#");
  }
  ~cluster() {
    for (auto& a : at) a.sub.end();
  }
  /// Asked again and again: each node tells the others something now and then. Heard once, it will be heard again.
  bool all_know_all() {
    if (asked++ % 50 == 0)
      for (const auto& n : nodes) (void)n->events().publish(topic<int>{"app.hello"}, 1);
    return at[0].nodes_of("app.hello").size() == 3 && at[1].nodes_of("app.hello").size() == 3;
  }
};

}  // namespace

CAF_TEST(every node hears once what happens on any) {
  cluster c;
  CAF_REQUIRE(eventually([&] { return c.all_know_all(); }));
  for (int i = 0; i < 3; ++i)
    CAF_REQUIRE(c.nodes[i]->events().publish(topic<int>{"app.once"}, i, {.subject = "s" + std::to_string(i)}));
  CAF_CHECK(
      eventually([&] { return c.at[0].nodes_of("app.once").size() == 3 && c.at[1].nodes_of("app.once").size() == 3; }));
  const auto q = c.nodes[0]->find_queue("q");
  CAF_REQUIRE(q && q->pause({}));
  CAF_CHECK(eventually([&] {
    return c.at[0].count("queue.paused", "q") > 0 && c.at[1].count("queue.paused", "q") > 0 &&
           c.at[2].count("queue.paused", "q") > 0;
  }));
  // What followed would have come after a second telling: each link keeps the order.
  CAF_REQUIRE(q->resume());
  CAF_CHECK(eventually([&] {
    return c.at[0].count("queue.resumed", "q") > 0 && c.at[1].count("queue.resumed", "q") > 0 &&
           c.at[2].count("queue.resumed", "q") > 0;
  }));
  for (auto& a : c.at) CAF_CHECK_EQUAL(a.count("queue.paused", "q"), 1u);
  for (int i = 0; i < 2; ++i)
    for (int n = 0; n < 3; ++n) CAF_CHECK_EQUAL(c.at[i].count("app.once", "s" + std::to_string(n)), 1u);
  CAF_CHECK_EQUAL(c.at[2].count("app.once", ""), 0u);  // it listens to queues only

  // Jobs are told to a node that listens to them, wherever the queue is.
  CAF_REQUIRE(q->push_one({"1", {}}));
  CAF_CHECK(eventually([&] { return c.at[0].count("job.pushed", "q") == 1 && c.at[1].count("job.pushed", "q") == 1; }));
  CAF_CHECK_EQUAL(c.at[2].count("job.pushed", "q"), 0u);
}

CAF_TEST(nodes that go and come back are noticed and told again) {
  cluster c;
  CAF_REQUIRE(eventually([&] { return c.all_know_all(); }));
  c.nodes[1]->stop();
  c.at[1].sub.end();
  c.nodes[1].reset();
  CAF_CHECK(eventually([&] { return c.at[0].count("cluster.node_down", "node1") == 1; }));
  CAF_REQUIRE(c.nodes[0]->events().publish(topic<int>{"app.meanwhile"}, 1));
  c.at[1].heard.clear();
  c.start(1);
  c.at[1].listen(*c.nodes[1], "#");
  CAF_CHECK(eventually([&] { return c.at[0].count("cluster.node_up", "node1") == 1; }));
  CAF_CHECK(eventually([&] { return c.all_know_all(); }));
  CAF_CHECK_EQUAL(c.at[1].count("app.meanwhile", ""), 0u);
  CAF_CHECK_EQUAL(c.at[0].count("cluster.node_up", "node1"), 1u);
}
