// Two nodes of one process that joined by address, asked as the API and applications ask them. Nodes that die are the
// subject of tests/crash.
#define CAF_SUITE joined_nodes
#include "messages/caf_error.hpp"
#include "nodes/foreign_thread.hpp"
#include "nodes/home_queue.hpp"
#include "nodes/node_runtime.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/temp_folder.hpp"

#include <caravan/caravan.hpp>

#include <caf/all.hpp>
#include <caf/test/unit_test.hpp>

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <mutex>
#include <thread>

using namespace caravan;
using namespace caravan::testing_support;
using namespace std::chrono_literals;

namespace {

int free_port() {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof a;
  CAF_REQUIRE(::bind(fd, reinterpret_cast<sockaddr*>(&a), size) == 0);
  CAF_REQUIRE(::getsockname(fd, reinterpret_cast<sockaddr*>(&a), &size) == 0);
  ::close(fd);
  return ntohs(a.sin_port);
}

/// Notes what it handles; waits at a gate where it has one.
class noting_runner final : public runner {
public:
  batch_result run(const batch& work, const run_context&) override {
    if (at_gate) {
      ++waiting;
      at_gate->wait();
    }
    const std::lock_guard lock(mutex_);
    for (const auto& r : *work.items) ++handled_[r.payload];
    tokens_.push_back(work.token);
    done += static_cast<int>(work.items->size());
    return {};
  }
  [[nodiscard]] std::string describe() const override { return "noting"; }
  [[nodiscard]] std::map<std::string, int> handled() {
    const std::lock_guard lock(mutex_);
    return handled_;
  }
  [[nodiscard]] std::vector<std::uint64_t> tokens() {
    const std::lock_guard lock(mutex_);
    return tokens_;
  }
  std::shared_ptr<gate> at_gate;
  std::atomic<int> waiting{0};
  std::atomic<int> done{0};

private:
  std::mutex mutex_;
  std::map<std::string, int> handled_;
  std::vector<std::uint64_t> tokens_;
};

struct cluster {
  temp_folder folder;
  std::string type;
  std::string more;
  std::array<int, 2> ports{free_port(), free_port()};
  std::shared_ptr<noting_runner> handlers[2] = {std::make_shared<noting_runner>(), std::make_shared<noting_runner>()};
  std::unique_ptr<node_runtime> nodes[2];
  std::shared_ptr<hosted_queue> queues[2];

  explicit cluster(std::string queue_type, std::string settings = {})
      : type(std::move(queue_type)), more(std::move(settings)) {}
  [[nodiscard]] node_options options(int i) const {
    node_options o;
    const auto n = static_cast<std::size_t>(i);
    o.config_text = "[node]\nNAME = node" + std::to_string(i) +
                    "\n[cluster]\nADDR = 127.0.0.1:" + std::to_string(ports[n]) +
                    "\nJOIN = 127.0.0.1:" + std::to_string(ports[1 - n]) + "\n[queue]\nTYPE = " + type +
                    "\nMAX_WORKERS = 1\n" + more;
    o.data_dir = folder.path() / std::to_string(i);
    o.use_environment = false;
    o.quiet = true;
    return o;
  }
  void start(int i, bool with_handler = true) {
    nodes[i] = std::make_unique<node_runtime>(options(i));
    queues[i] = nodes[i]
                    ->create("q", node_runtime::uniqueness::as_configured, with_handler ? handlers[i] : nullptr, {})
                    .value();
  }
  void stop(int i) {
    queues[i] = nullptr;
    nodes[i] = nullptr;
  }
  [[nodiscard]] std::string owner(int seen_by) const {
    const auto i = queues[seen_by]->info();
    return i && i->phase != "standby" ? i->owner : "";
  }
  [[nodiscard]] bool settled(const std::string& home = {}) const {
    const auto a = owner(0);
    return !a.empty() && a == owner(1) && (home.empty() || a == home);
  }
  [[nodiscard]] expected<void> move(int asked, const std::string& to) {
    const foreign_thread here;
    caf::scoped_actor self{nodes[asked]->system()};
    expected<void> answer{errc::timed_out, "no answer"};
    self->request(queues[asked]->actor(), 10s, move_queue{to, "test"})
        .receive([&](ack) { answer = {}; }, [&](caf::error& e) { answer = from_caf(e); });
    return answer;
  }
  [[nodiscard]] std::map<std::string, int> handled() {
    auto all = handlers[0]->handled();
    for (const auto& [what, n] : handlers[1]->handled()) all[what] += n;
    return all;
  }
};

item_draft draft(const std::string& payload, const std::string& key = {}) {
  item_draft d;
  d.payload = payload;
  d.options.key = key;
  return d;
}

bool each_once(const std::map<std::string, int>& handled, int n) {
  if (handled.size() != static_cast<std::size_t>(n)) return false;
  return std::all_of(handled.begin(), handled.end(), [](const auto& h) { return h.second == 1; });
}

}  // namespace

CAF_TEST(one node is the home and both push and answer and handle) {
  for (const auto* type : {"level", "channel"}) {
    cluster c(type, "BATCH_LENGTH = 1\nUNIQUE = true\nUNIQUE_UNTIL = done\n");
    c.start(0);
    c.start(1);
    CAF_REQUIRE(eventually([&] { return c.settled(); }));
    const auto owner = c.owner(1);
    CAF_CHECK_EQUAL(owner, "node0");
    for (int i = 0; i < 200; ++i) CAF_REQUIRE(c.queues[i % 2]->push_one(draft(std::to_string(i))));
    CAF_CHECK(eventually([&] { return each_once(c.handled(), 200); }));
    // Asked of the node that is not its home.
    auto& other = *c.queues[1];
    CAF_REQUIRE(other.pause({}));
    const auto id = other.push_one(draft("held"));
    CAF_REQUIRE(id);
    CAF_CHECK(other.push_one(draft("held")).failure().code == errc::already_in_queue);
    CAF_CHECK(other.has("held", {}).value());
    CAF_CHECK(!other.has("other", {}).value());
    const auto held = other.find(*id).value();
    CAF_CHECK_EQUAL(held.state, "waiting");
    const auto seen = other.info().value();
    CAF_CHECK_EQUAL(seen.phase, "paused");
    CAF_CHECK_EQUAL(seen.waiting, 1u);
    const auto purged = other.purge("waiting").value();
    CAF_CHECK_EQUAL(purged, 1u);
    CAF_CHECK(other.resume());
  }
}

CAF_TEST(a queue moves while both push and nothing is lost or handled twice) {
  for (const auto* type : {"level", "channel"}) {
    cluster c(type);
    c.start(0);
    c.start(1);
    CAF_REQUIRE(eventually([&] { return c.settled("node0"); }));
    std::atomic<int> pushed{0}, failed{0};
    {
      std::vector<std::jthread> pushers;
      for (int i = 0; i < 2; ++i)
        pushers.emplace_back([&, i](const std::stop_token& stop) {
          while (!stop.stop_requested()) {
            // Not faster than they are handled: a queue that changes faster than it can be copied does not move.
            if (pushed > c.handlers[0]->done + c.handlers[1]->done + 4) {
              std::this_thread::yield();
              continue;
            }
            const auto stored = c.queues[i]->push_one(draft(std::to_string(pushed++)));
            if (stored) continue;
            if (failed++ == 0) CAF_MESSAGE("a push failed: " << stored.failure().text);
          }
        });
      for (int m = 0; m < 4; ++m) {
        const auto to = m % 2 == 0 ? "node1" : "node0";
        // Both may be asked.
        const auto begun = c.move(m / 2, to);
        CAF_REQUIRE(begun);
        const bool there = eventually([&] { return c.settled(to); });
        if (!there) {
          std::string why;
          for (const auto& n : c.nodes)
            for (const auto& one : n->moves()) why += one.to + (one.moved ? " moved; " : ": " + one.why + "; ");
          CAF_FAIL("not at " << to << ": " << why);
        }
      }
    }
    const int errors = failed;
    CAF_CHECK_EQUAL(errors, 0);
    CAF_CHECK(pushed > 0);
    CAF_CHECK(eventually([&] { return each_once(c.handled(), pushed); }));
    const auto moves = c.nodes[0]->moves();
    CAF_REQUIRE_EQUAL(moves.size(), 2u);
    CAF_CHECK(moves[0].moved);
    CAF_CHECK_EQUAL(moves[0].to, "node1");
    CAF_CHECK_EQUAL(moves[0].by, "test");
  }
}

CAF_TEST(what a handler has goes on through the move and its answer counts) {
  cluster c("level", "BATCH_LENGTH = 1\n");
  const auto waits = std::make_shared<gate>();
  c.handlers[0]->at_gate = waits;
  c.start(0);
  c.start(1, false);
  CAF_REQUIRE(eventually([&] { return c.settled("node0"); }));
  for (int i = 0; i < 3; ++i) CAF_REQUIRE(c.queues[0]->push_one(draft(std::to_string(i))));
  CAF_REQUIRE(eventually([&] { return c.handlers[0]->waiting == 1; }));
  CAF_REQUIRE(c.move(0, "node1"));
  CAF_REQUIRE(eventually([&] { return c.settled("node1"); }));
  const auto running = c.queues[1]->info().value().running;
  CAF_CHECK_EQUAL(running, 1u);
  waits->open();
  CAF_CHECK(eventually([&] { return each_once(c.handled(), 3); }));
  CAF_CHECK(eventually([&] { return c.queues[1]->info()->handled == 3 && c.queues[1]->info()->running == 0; }));
  const auto tokens = c.handlers[0]->tokens();
  CAF_CHECK(std::is_sorted(tokens.begin(), tokens.end()));
  CAF_CHECK(std::adjacent_find(tokens.begin(), tokens.end()) == tokens.end());
}

CAF_TEST(pauses keys and times come along and a repeat is known) {
  cluster c("level", "UNIQUE = true\nUNIQUE_UNTIL = done\n");
  c.start(0, false);
  c.start(1, false);
  CAF_REQUIRE(eventually([&] { return c.settled("node0"); }));
  auto once = draft("once");
  once.options.idempotency_key = "k";
  const auto id = c.queues[0]->push_one(once);
  CAF_REQUIRE(id);
  auto later = draft("later");
  later.options.delay = 1h;
  CAF_REQUIRE(c.queues[0]->push_one(later));
  CAF_REQUIRE(c.queues[0]->pause({}));
  CAF_REQUIRE(c.move(1, "node1"));
  CAF_REQUIRE(eventually([&] { return c.settled("node1"); }));
  const auto info = c.queues[0]->info();
  CAF_REQUIRE(info);
  CAF_CHECK_EQUAL(info->phase, "paused");
  CAF_CHECK_EQUAL(info->waiting, 1u);
  CAF_CHECK_EQUAL(info->delayed, 1u);
  const auto again = c.queues[0]->push({once});
  CAF_REQUIRE(again);
  CAF_CHECK(again->front().repeated);
  CAF_CHECK(again->front().id == *id);
  CAF_CHECK(c.queues[1]->has("later", {}).value());
}

CAF_TEST(a home that starts again on its port is found and has its data) {
  cluster c("level");
  c.start(0, false);
  c.start(1, false);
  CAF_REQUIRE(eventually([&] { return c.settled("node0"); }));
  CAF_REQUIRE(c.queues[1]->push_one(draft("kept")));
  c.nodes[1]->members()->cordon(true);  // else the queue would come here
  CAF_REQUIRE(eventually([&] {
    const auto all = c.nodes[0]->members()->members();
    return std::any_of(all.begin(), all.end(), [](const auto& m) { return m.last.cordoned; });
  }));
  c.stop(0);
  CAF_CHECK(eventually([&] { return c.queues[1]->info()->phase == "standby"; }));
  const auto lost = c.queues[1]->info().value();
  CAF_CHECK_EQUAL(lost.owner, "node0");
  CAF_CHECK(c.queues[1]->trouble_text().find("node \"node0\"") != std::string::npos);
  // It waits for the home as long as a push may wait.
  std::jthread back([&] { c.start(0); });
  CAF_CHECK(c.queues[1]->push_one(draft("meanwhile")));
  back.join();
  CAF_CHECK(eventually([&] { return each_once(c.handled(), 2); }));
  CAF_CHECK(c.queues[1]->trouble_text().empty());
}

CAF_TEST(two homes with data are refused by name) {
  cluster c("level");
  for (int i = 0; i < 2; ++i) {
    auto o = c.options(i);
    o.config_text = "[node]\nNAME = node" + std::to_string(i) + "\n[queue]\nTYPE = level\n";
    node_runtime alone(o);
    CAF_REQUIRE(alone.create("q", node_runtime::uniqueness::as_configured, nullptr, {}).value()->push_one(draft("x")));
  }
  c.start(0, false);
  c.nodes[1] = std::make_unique<node_runtime>(c.options(1));
  const auto refused = c.nodes[1]->create("q", node_runtime::uniqueness::as_configured, nullptr, {});
  CAF_REQUIRE(!refused);
  CAF_CHECK(refused.failure().code == errc::conflict);
  CAF_CHECK(refused.failure().text.find("node \"node0\"") != std::string::npos);
  CAF_CHECK(refused.failure().text.find("node \"node1\"") != std::string::npos);
}

CAF_TEST(a name that is taken is refused) {
  cluster c("level");
  c.start(0);
  auto o = c.options(1);
  o.config_text.replace(o.config_text.find("NAME = node1"), 12, "NAME = node0");
  try {
    node_runtime second(o);
    CAF_FAIL("it was let in");
  } catch (const exception& e) {
    CAF_CHECK(e.why().code == errc::conflict);
    CAF_CHECK(std::string(e.what()).find("NAME = node0") != std::string::npos);
  }
}

CAF_TEST(a move that cannot be is refused with its reason) {
  cluster c("level");
  c.start(0);
  c.start(1);
  CAF_REQUIRE(eventually([&] { return c.settled("node0"); }));
  CAF_CHECK(c.move(0, "node0").failure().code == errc::conflict);
  const auto nobody = c.move(1, "elsewhere");
  CAF_CHECK(nobody.failure().code == errc::not_found);
  CAF_CHECK(nobody.failure().text.find("node0, node1") != std::string::npos);
}
