#define CAF_SUITE remote_worker
#include "nodes/client/remote_worker.hpp"

#include <caravan/client.hpp>
#include <caravan/worker.hpp>

#include "tests/support/http_node.hpp"

#include <atomic>
#include <condition_variable>
#include <mutex>

#include "caf/test/unit_test.hpp"

using namespace caravan;
using namespace std::chrono_literals;
using testing_support::eventually;
using testing_support::http_node;
using json = nlohmann::json;

namespace {

const std::string memory = "[queue]\nTYPE = channel\n[queue.mail]\n";

std::string address_of(http_node& f) { return "127.0.0.1:" + std::to_string(f.node().http_port()); }

/// Holds handlers until the test lets them go.
class gate {
public:
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  /// False: asked to stop before.
  bool pass(const std::stop_token& stop) {
    ++inside_;
    std::unique_lock lock(mutex_);
    const std::stop_callback wake(stop, [this] { changed_.notify_all(); });
    while (!open_ && !stop.stop_requested()) changed_.wait_for(lock, 50ms);
    return open_;
  }
  [[nodiscard]] int inside() const { return inside_; }

private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
  std::atomic<int> inside_{0};
};

}  // namespace

CAF_TEST(a worker handles what a client pushes and every outcome arrives) {
  http_node f(memory);
  client nodes({.addresses = "127.0.0.1:1," + address_of(f)});  // the first never answers
  std::vector<int> items{1, 2, 3, 4};
  const auto pushed = nodes.push_many<int>("mail", items);
  CAF_REQUIRE(pushed);
  CAF_REQUIRE_EQUAL(pushed->size(), 4u);
  CAF_CHECK((*pushed)[3].stored);
  worker w({.addresses = "127.0.0.1:1," + address_of(f), .queue = "mail", .concurrency = 2, .batch = 4},
           [](std::vector<int>& batch, context& ctx) {
             for (std::size_t i = 0; i < batch.size(); ++i) {
               CAF_CHECK(ctx.lease_token() > 0);
               if (batch[i] == 2) ctx.reject(i, "never");
               if (batch[i] == 3) ctx.later(i, 1h);
               if (batch[i] == 4) ctx.fail(i, "no luck");
             }
           });
  CAF_CHECK(eventually([&] { return w.figures().not_handled == 3 && w.figures().handled == 1; }));
  const auto st = nodes.status("mail");
  CAF_REQUIRE(st);
  CAF_CHECK_EQUAL(st->handled, 1u);
  CAF_CHECK_EQUAL(st->dead, 1u);
  CAF_CHECK_EQUAL(st->delayed, 2u);
  const auto job = nodes.find((*pushed)[1].id);
  CAF_REQUIRE(job);
  CAF_CHECK_EQUAL(job->state, "dead");
  CAF_CHECK_EQUAL(job->last_error, "never");
  CAF_CHECK_EQUAL(w.stop(), 0u);
}

CAF_TEST(a push that is said again is stored once) {
  http_node f(memory);
  client nodes({.addresses = address_of(f)});
  push_options o;
  o.idempotency_key = "order-7";
  const auto first = nodes.push("mail", 7, o), again = nodes.push("mail", 7, o);
  CAF_REQUIRE(first && again);
  CAF_CHECK_EQUAL(*first, *again);
  CAF_CHECK_EQUAL(f.count("mail", "waiting"), 1u);
  CAF_CHECK(nodes.push("none.of.them/at all", 7).failure().code == errc::invalid_argument);
  client nobody({.addresses = "127.0.0.1:1", .timeout = 200ms});
  CAF_CHECK(nobody.push("mail", 7).failure().code == errc::timed_out);
  try {
    client wrong({.addresses = "ftp://x"});
    CAF_ERROR("an address that is none was taken");
  } catch (const exception& e) {
    CAF_CHECK(e.why().code == errc::invalid_argument);
  }
}

CAF_TEST(a client takes and releases locks) {
  http_node f(memory);
  client nodes({.addresses = address_of(f)});
  const auto held = nodes.lock("nightly");
  CAF_REQUIRE(held);
  CAF_CHECK(nodes.lock("nightly").failure().code == errc::conflict);
  CAF_CHECK(nodes.extend(*held));
  CAF_CHECK(nodes.release(*held));
  CAF_CHECK(nodes.release(*held).failure().code == errc::fenced);
}

CAF_TEST(leases live as long as their handlers) {
  http_node f(memory);
  gate door;
  worker w({.addresses = address_of(f), .queue = "mail", .lease = 1s},
           [&](std::vector<int>&, context& ctx) { CAF_CHECK(door.pass(ctx.stop())); });
  (void)f.push("mail", R"({"payload":1})");
  CAF_CHECK(eventually([&] { return door.inside() == 1; }));
  // Others stand in line for three leases, and get nothing.
  CAF_CHECK(f.post("/v1/queues/mail/claim", R"({"wait":"3s"})").at("jobs").empty());
  door.open();
  CAF_CHECK(eventually([&] { return w.figures().handled == 1; }));
  CAF_CHECK_EQUAL(f.count("mail", "leases_lost"), 0u);
}

CAF_TEST(a handler whose lease is lost is asked to stop) {
  http_node f(memory + "TIMEOUT = 300ms\n");
  gate door;
  std::atomic<int> stopped{0};
  worker w({.addresses = address_of(f), .queue = "mail", .lease = 1s},
           [&](std::vector<int>&, context& ctx) { stopped += door.pass(ctx.stop()) ? 0 : 1; });
  (void)f.push("mail", R"({"payload":1,"max_attempts":1})");
  CAF_CHECK(eventually([&] { return stopped == 1; }));
  CAF_CHECK(eventually([&] { return w.figures().lost == 1; }));
  CAF_CHECK_EQUAL(f.count("mail", "dead"), 1u);
}

CAF_TEST(a worker that stops hands back what is not handled) {
  http_node f(memory);
  gate door;
  worker w({.addresses = address_of(f), .queue = "mail", .concurrency = 2, .shutdown_timeout = 50ms},
           [&](std::vector<int>&, context& ctx) -> unhandled {
             if (door.pass(ctx.stop())) return {};
             return {0};
           });
  (void)f.push("mail", R"([{"payload":1},{"payload":2},{"payload":3}])");
  CAF_CHECK(eventually([&] { return door.inside() == 2; }));
  CAF_CHECK_EQUAL(w.stop(), 0u);
  CAF_CHECK_EQUAL(w.figures().handed_back, 2u);
  CAF_CHECK_EQUAL(f.count("mail", "waiting"), 3u);
  CAF_CHECK_EQUAL(f.count("mail", "leases_lost"), 0u);
  CAF_CHECK(f.get("/v1/workers").at("workers").empty());
}

CAF_TEST(an operator makes a worker quiet and lets it run and scales and stops it) {
  http_node f(memory);
  std::atomic<int> handled{0};
  worker w({.addresses = address_of(f), .queue = "mail,other", .concurrency = 2, .name = "ann"},
           [&](std::vector<int>& batch) { handled += static_cast<int>(batch.size()); });
  const auto shown = [&](const char* field) {
    const auto list = f.get("/v1/workers").at("workers");
    for (const auto& x : list)
      if (x["kind"] == "worker") return x[field];
    return json{};
  };
  CAF_CHECK(eventually([&] { return shown("state") == "run"; }));
  CAF_CHECK_EQUAL(f.post("/v1/workers/ann/quiet").status, 200);
  CAF_CHECK(eventually([&] { return shown("state") == "quiet"; }));
  (void)f.push("mail", R"({"payload":1})");
  CAF_CHECK_EQUAL(f.count("mail", "waiting"), 1u);
  CAF_CHECK_EQUAL(f.post("/v1/workers/ann/run").status, 200);
  CAF_CHECK(eventually([&] { return handled == 1; }));
  CAF_CHECK_EQUAL(f.post("/v1/workers/ann/scale", R"({"concurrency":5})").status, 200);
  CAF_CHECK(eventually([&] { return shown("size") == 5; }));
  CAF_CHECK_EQUAL(f.post("/v1/workers/ann/stop").status, 200);
  w.wait();
  CAF_CHECK_EQUAL(w.stop(), 0u);
}
