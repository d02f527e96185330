// Jobs of a shared queue, claimed over HTTP at a node that does not own it, before and after a move.
#define CAF_SUITE shared_claims
#include "messages/caf_error.hpp"
#include "nodes/foreign_thread.hpp"
#include "nodes/node_runtime.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/redis_server.hpp"
#include "tests/support/temp_folder.hpp"

#include <caravan/client.hpp>
#include <caravan/worker.hpp>

#include <caf/all.hpp>
#include <caf/test/unit_test.hpp>

#include <mutex>
#include <set>

using namespace caravan;
using namespace caravan::testing_support;
using namespace std::chrono_literals;

namespace {

struct cluster {
  redis_server redis;
  temp_folder folder;
  std::unique_ptr<node_runtime> nodes[2];
  std::shared_ptr<hosted_queue> queues[2];

  cluster() {
    for (int i = 0; i < 2; ++i) {
      node_options o;
      o.config_text = "[node]\nNAME = node" + std::to_string(i) + "\n[http]\nADDR = 127.0.0.1:0\n[redis]\nCONN_STR = " +
                      redis.url() + "\n[cluster]\nOWNER_LEASE = 2s\n[queue.q]\nTYPE = redis\nLEASE = 1s\n";
      o.data_dir = folder.path() / std::to_string(i);
      o.use_environment = false;
      o.quiet = true;
      o.serve_http = true;
      nodes[i] = std::make_unique<node_runtime>(o);
      queues[i] = nodes[i]->find("q");
    }
  }
  /// The number of the owner, once both know it; -1: not yet.
  [[nodiscard]] int owner() const {
    const auto a = queues[0]->info(), b = queues[1]->info();
    if (!a || !b || a->phase != "running" || b->phase != "running" || a->owner != b->owner) return -1;
    return a->owner == "node0" ? 0 : a->owner == "node1" ? 1 : -1;
  }
  [[nodiscard]] std::string address(int i) const { return "127.0.0.1:" + std::to_string(nodes[i]->http_port()); }
  expected<void> move(int from, int to) {
    const foreign_thread here;
    caf::scoped_actor self{nodes[from]->system()};
    expected<void> answer{errc::timed_out, "no answer"};
    self->request(queues[from]->actor(), 10s, move_queue{"node" + std::to_string(to), "test"})
        .receive([&](ack) { answer = {}; }, [&](caf::error& e) { answer = from_caf(e); });
    return answer;
  }
};

}  // namespace

CAF_TEST(a worker at a node that does not own the queue handles its jobs also after a move) {
  cluster c;
  CAF_REQUIRE(eventually([&] { return c.owner() >= 0; }));
  const int owner = c.owner(), other = 1 - owner;
  std::mutex mutex;
  std::multiset<int> handled;
  worker w({.addresses = c.address(other), .queue = "q", .concurrency = 4, .lease = 2s}, [&](std::vector<int>& batch) {
    const std::lock_guard lock(mutex);
    handled.insert(batch.begin(), batch.end());
  });
  const auto count = [&] {
    const std::lock_guard lock(mutex);
    return handled.size();
  };
  client nodes({.addresses = c.address(owner) + "," + c.address(other)});
  int next = 0;
  const auto push = [&] {
    std::vector<int> items;
    for (int i = 0; i < 100; ++i) items.push_back(next++);
    CAF_REQUIRE(nodes.push_many<int>("q", items));
  };
  push();
  CAF_CHECK(eventually([&] { return count() == 100; }));
  CAF_CHECK(eventually([&] { return c.queues[owner]->info()->handled == 100; }));
  CAF_CHECK(c.move(owner, other));
  CAF_CHECK(eventually([&] { return c.owner() == other; }));
  push();
  CAF_CHECK(eventually([&] { return count() == 200; }));
  CAF_CHECK(c.move(other, owner));
  CAF_CHECK(eventually([&] { return c.owner() == owner; }));
  push();
  CAF_CHECK(eventually([&] { return count() == 300; }));
  for (int i = 0; i < 300; ++i) CAF_CHECK_EQUAL(handled.count(i), 1u);
  CAF_CHECK_EQUAL(w.stop(), 0u);
}
