// Two nodes of one process on one Redis, asked as the API and applications ask them. Nodes that die are the subject of tests/crash.
#define CAF_SUITE shared_nodes
#include "integration/redis/redis_nodes.hpp"
#include "messages/caf_error.hpp"
#include "nodes/foreign_thread.hpp"
#include "nodes/node_runtime.hpp"
#include "nodes/ownership.hpp"
#include "tests/support/certificates.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/redis_server.hpp"
#include "tests/support/temp_folder.hpp"

#include <caravan/caravan.hpp>

#include <caf/all.hpp>
#include <caf/test/unit_test.hpp>

#include <atomic>
#include <mutex>
#include <set>

using namespace caravan;
using namespace caravan::testing_support;
using namespace std::chrono_literals;

namespace {

class counting_runner final : public runner {
public:
  explicit counting_runner(std::string name) : name_(std::move(name)) {}
  batch_result run(const batch& work, const run_context&) override {
    const std::lock_guard lock(mutex_);
    for (const auto& r : *work.items) handled_.insert(r.payload);
    calls_ += work.items->size();
    return {};
  }
  [[nodiscard]] std::string describe() const override { return name_; }
  [[nodiscard]] std::size_t calls() {
    const std::lock_guard lock(mutex_);
    return calls_;
  }
  [[nodiscard]] std::set<std::string> handled() {
    const std::lock_guard lock(mutex_);
    return handled_;
  }

private:
  std::string name_;
  std::mutex mutex_;
  std::set<std::string> handled_;
  std::size_t calls_ = 0;
};

struct cluster {
  redis_server redis;
  temp_folder folder;
  std::shared_ptr<counting_runner> handlers[2] = {std::make_shared<counting_runner>("first"), std::make_shared<counting_runner>("second")};
  std::unique_ptr<node_runtime> nodes[2];
  std::shared_ptr<hosted_queue> queues[2];

  explicit cluster(const std::string& more = {}, const certificates* tls = nullptr) : tls_(tls) {
    for (int i = 0; i < 2; ++i) start(i, more);
  }
  void start(int i, const std::string& more = {}) {
    node_options o;
    o.config_text = "[node]\nNAME = node" + std::to_string(i) + "\n[redis]\nCONN_STR = " + redis.url() +
                    "\n[cluster]\nOWNER_LEASE = 2s\n" + tls_lines("node" + std::to_string(i)) + "[queue]\nTYPE = redis\nBATCH_LENGTH = 1\nMAX_WORKERS = 1\n" + more;
    o.data_dir = folder.path() / std::to_string(i);
    o.use_environment = false;
    o.quiet = true;
    nodes[i] = std::make_unique<node_runtime>(o);
    queues[i] = nodes[i]->create("q", node_runtime::uniqueness::as_configured, handlers[i], {}).value();
  }
  [[nodiscard]] std::string owner(int seen_by) const { return queues[seen_by]->info().value_or(queue_info{}).owner; }
  /// Both know the owner, and each has a way to it.
  [[nodiscard]] bool settled() const {
    const auto a = queues[0]->info();
    const auto b = queues[1]->info();
    return a && b && a->phase == "running" && b->phase == "running" && a->owner == b->owner && !a->owner.empty();
  }
  [[nodiscard]] bool done() const {
    const auto i = queues[0]->info();
    return i && i->waiting == 0 && i->running == 0;
  }
  expected<void> move(int asked, const std::string& to) {
    const foreign_thread here;
    caf::scoped_actor self{nodes[asked]->system()};
    expected<void> answer{errc::timed_out, "no answer"};
    self->request(queues[asked]->actor(), 10s, move_queue{to, "test"}).receive([&](ack) { answer = {}; }, [&](caf::error& e) { answer = from_caf(e); });
    return answer;
  }

private:
  [[nodiscard]] std::string tls_lines(const std::string& name) const {
    if (!tls_) return "";
    const auto files = tls_->of(name);
    return "TLS_CERT = " + files.certificate + "\nTLS_KEY = " + files.key + "\nTLS_CA = " + files.ca + "\nNODES = node0, node1\n";
  }
  const certificates* tls_;
};

item_draft draft(const std::string& payload, const std::string& key = {}) {
  item_draft d;
  d.payload = payload;
  d.options.key = key;
  return d;
}

}  // namespace

CAF_TEST(both nodes push and handle and answer alike) {
  cluster c;
  CAF_REQUIRE(eventually([&] { return c.settled(); }));
  for (int i = 0; i < 400; ++i) CAF_REQUIRE(c.queues[i % 2]->push_one(draft(std::to_string(i))));
  // What the other node pushed counts as waiting only when the owner has heard of it.
  CAF_REQUIRE(eventually([&] { return c.handlers[0]->calls() + c.handlers[1]->calls() >= 400 && c.done(); }));
  CAF_CHECK_EQUAL(c.handlers[0]->calls() + c.handlers[1]->calls(), 400u);
  CAF_CHECK(c.handlers[0]->calls() > 0);
  CAF_CHECK(c.handlers[1]->calls() > 0);
  auto all = c.handlers[0]->handled();
  all.merge(c.handlers[1]->handled());
  CAF_CHECK_EQUAL(all.size(), 400u);
}

CAF_TEST(what one node is asked holds for the other) {
  cluster c("UNIQUE = true\nUNIQUE_UNTIL = done\n");
  CAF_REQUIRE(eventually([&] { return c.settled(); }));
  const int other = c.owner(0) == "node0" ? 1 : 0;
  CAF_REQUIRE(c.queues[other]->pause({}));
  const auto seen = c.queues[1 - other]->info().value();
  CAF_CHECK_EQUAL(seen.phase, "paused");
  const auto id = c.queues[other]->push_one(draft("\"a\"", "k"));
  CAF_REQUIRE(id);
  const auto again = c.queues[1 - other]->push_one(draft("\"b\"", "k"));
  CAF_CHECK(!again && again.failure().code == errc::already_in_queue);
  CAF_CHECK(c.queues[other]->has("", "k").value());
  CAF_REQUIRE(eventually([&] { return c.queues[other]->info()->waiting == 1; }));
  const auto job = c.queues[other]->find(*id);
  CAF_REQUIRE(job);
  CAF_CHECK_EQUAL(job->state, "waiting");
  CAF_CHECK_EQUAL(c.queues[other]->purge("waiting").value(), 1u);
  CAF_CHECK(eventually([&] { return !c.queues[1 - other]->has("", "k").value(); }));
  CAF_REQUIRE(c.queues[other]->resume());
  CAF_CHECK(c.queues[other]->flush(10s));
}

CAF_TEST(a queue moves by hand and stays where it was moved to) {
  cluster c;
  CAF_REQUIRE(eventually([&] { return c.settled(); }));
  int pushed = 0;
  const auto push = [&](int n) {
    for (int i = 0; i < n; ++i, ++pushed) CAF_REQUIRE(c.queues[pushed % 2]->push_one(draft(std::to_string(pushed))));
  };
  for (int round = 0; round < 4; ++round) {
    const std::string from = c.owner(0);
    const std::string to = from == "node0" ? "node1" : "node0";
    push(50);
    CAF_REQUIRE(c.move(round % 2, to));
    push(50);
    CAF_REQUIRE(eventually([&] { return c.settled() && c.owner(0) == to; }));
  }
  CAF_REQUIRE(eventually([&] { return c.handlers[0]->calls() + c.handlers[1]->calls() >= static_cast<std::size_t>(pushed) && c.done(); }));
  // None was lost, and none handled twice: what ran could end before each move.
  CAF_CHECK_EQUAL(c.handlers[0]->calls() + c.handlers[1]->calls(), static_cast<std::size_t>(pushed));
  const auto here = c.owner(0);
  const auto same = c.move(0, here);
  CAF_CHECK(!same && same.failure().code == errc::conflict);
}

CAF_TEST(a pause goes along with a move and with an orderly stop) {
  cluster c;
  CAF_REQUIRE(eventually([&] { return c.settled(); }));
  const int first = c.owner(0) == "node0" ? 0 : 1;
  const int second = 1 - first;
  CAF_REQUIRE(c.queues[first]->pause(std::chrono::system_clock::now() + 1h));
  CAF_REQUIRE(c.move(first, "node" + std::to_string(second)));
  CAF_REQUIRE(eventually([&] { return c.owner(second) == "node" + std::to_string(second) && c.queues[second]->info()->phase == "paused"; }));
  CAF_CHECK(c.queues[second]->info()->paused_until > std::chrono::system_clock::now() + 50min);
  CAF_REQUIRE(c.queues[second]->push_one(draft("1")));
  c.queues[second].reset();
  c.nodes[second].reset();
  CAF_REQUIRE(eventually([&] { return c.queues[first]->info().value_or(queue_info{}).phase == "paused"; }));
  CAF_CHECK_EQUAL(c.handlers[0]->calls() + c.handlers[1]->calls(), 0u);
  CAF_REQUIRE(c.queues[first]->resume());
  CAF_CHECK(c.queues[first]->flush(10s));
  CAF_CHECK_EQUAL(c.handlers[first]->calls(), 1u);
}

CAF_TEST(a second node of one name is refused) {
  cluster c;
  CAF_REQUIRE(eventually([&] {
    const auto all = c.nodes[0]->shared_places().at(0)->nodes();
    return all && all->size() == 2;
  }));
  node_options o;
  o.config_text = "[node]\nNAME = node0\n[redis]\nCONN_STR = " + c.redis.url() + "\n[queue.q]\nTYPE = redis\n";
  o.data_dir = c.folder.path() / "third";
  o.use_environment = false;
  o.quiet = true;
  std::string why;
  try {
    node_runtime third(o);
  } catch (const exception& e) {
    why = e.why().text;
    CAF_CHECK(e.why().code == errc::conflict);
  }
  CAF_CHECK(why.find("NAME = node0: a node of that name runs already") != std::string::npos);
  // One that is gone leaves its name free, also when nobody told.
  c.queues[0].reset();
  c.nodes[0].reset();
  c.start(0);
  CAF_CHECK(eventually([&] { return c.settled(); }));
}

CAF_TEST(an orderly stop hands the queue to the other at once) {
  cluster c;
  CAF_REQUIRE(eventually([&] { return c.settled(); }));
  const int first = c.owner(0) == "node0" ? 0 : 1;
  CAF_REQUIRE(c.queues[1 - first]->push_one(draft("1")));
  c.queues[first].reset();
  c.nodes[first].reset();
  CAF_REQUIRE(eventually([&] { return c.queues[1 - first]->info().value_or(queue_info{}).phase == "running"; }));
  CAF_CHECK_EQUAL(c.owner(1 - first), "node" + std::to_string(1 - first));
  CAF_REQUIRE(c.queues[1 - first]->push_one(draft("2")));
  CAF_CHECK(c.queues[1 - first]->flush(10s));
  CAF_CHECK_EQUAL(c.handlers[0]->calls() + c.handlers[1]->calls(), 2u);
}

CAF_TEST(a cordoned node takes over nothing) {
  cluster c;
  CAF_REQUIRE(eventually([&] { return c.settled(); }));
  const int first = c.owner(0) == "node0" ? 0 : 1;
  const auto place = c.nodes[1 - first]->shared_places().at(0);
  place->cordon(true);
  CAF_REQUIRE(eventually([&] {
    const auto all = place->nodes();
    return all && all->size() == 2 && (*all)[static_cast<std::size_t>(1 - first)].cordoned && (*all)[static_cast<std::size_t>(first)].alive;
  }));
  c.queues[first].reset();
  c.nodes[first].reset();
  CAF_REQUIRE(c.queues[1 - first]->push_one(draft("1")));  // it is kept for whoever comes
  CAF_CHECK(c.queues[1 - first]->info()->phase != "running");
  place->cordon(false);
  CAF_CHECK(eventually([&] { return c.queues[1 - first]->info().value_or(queue_info{}).phase == "running"; }));
  CAF_CHECK(c.queues[1 - first]->flush(10s));
}

CAF_TEST(with certificates nodes work together and strangers at the door disturb nobody) {
  const certificates ours("node0 node1 node2");
  const certificates others("node0 node1");
  cluster c({}, &ours);
  CAF_REQUIRE(eventually([&] { return c.settled(); }));
  redis_options at;
  at.address = config::parse_redis_address(c.redis.url()).value();
  redis_client client(at);
  std::vector<std::uint16_t> ports;
  for (const auto& n : redis_nodes(client).list().value())
    ports.push_back(static_cast<std::uint16_t>(std::stoi(n.address.substr(n.address.rfind(':') + 1))));
  CAF_REQUIRE_EQUAL(ports.size(), 2u);

  const auto stranger = [](const std::string& name, const peer_tls& tls) {
    peer_door::options o;
    o.me = {name, "x", 1};
    o.tls = tls;
    o.passed = [](int fd, const peer_greeting&) { ::close(fd); };
    return std::make_unique<peer_door>(o);
  };
  const auto other_ca = stranger("node0", others.of("node0"));
  const auto not_listed = stranger("node2", ours.of("node2"));
  const auto liar = stranger("node1", ours.of("node2"));
  const auto no_tls = stranger("node0", {});
  int handled = 0;
  for (int round = 0; round < 5; ++round) {
    for (const auto port : ports) {
      CAF_CHECK(!other_ca->dial("127.0.0.1", port, 20s));
      CAF_CHECK(!not_listed->dial("127.0.0.1", port, 20s));
      CAF_CHECK(!liar->dial("127.0.0.1", port, 20s));
      CAF_CHECK(!no_tls->dial("127.0.0.1", port, 20s));
    }
    for (int i = 0; i < 40; ++i) CAF_REQUIRE(c.queues[i % 2]->push_one(draft(std::to_string(handled++))));
    CAF_REQUIRE(eventually([&] { return c.handlers[0]->calls() + c.handlers[1]->calls() >= static_cast<std::size_t>(handled) && c.done(); }));
  }
  const auto status = c.queues[0]->info().value();
  CAF_CHECK_EQUAL(status.leases_lost, 0u);
  CAF_CHECK_EQUAL(status.redelivered, 0u);
  CAF_CHECK_EQUAL(c.handlers[0]->calls() + c.handlers[1]->calls(), 200u);
  CAF_CHECK(c.handlers[0]->calls() > 0);
  CAF_CHECK(c.handlers[1]->calls() > 0);
}
