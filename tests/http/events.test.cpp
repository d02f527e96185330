// Events over HTTP and in C++ on a real node.
#define CAF_SUITE http_events
#include "nodes/event_host.hpp"
#include "nodes/http/server/testing.hpp"
#include "nodes/node_runtime.hpp"
#include "tests/support/http_node.hpp"

#include <caravan/caravan.hpp>

#include "caf/test/unit_test.hpp"

#include <atomic>
#include <filesystem>
#include <mutex>

using namespace caravan;
using namespace std::chrono_literals;
using stream_client = http::testing::client;
using testing_support::answer;
using testing_support::eventually;
using testing_support::http_node;
using json = nlohmann::json;

namespace {

struct order {
  int id = 0;
};
void to_json(json& j, const order& o) { j = {{"id", o.id}}; }
void from_json(const json& j, order& o) { j.at("id").get_to(o.id); }

const topic<order> placed{"app.order.placed"};

/// A node without tokens answers to its own names only.
std::string get(const std::string& path, const std::string& headers = {}) {
  return "GET " + path + " HTTP/1.1\r\nHost: 127.0.0.1\r\n" + headers + "\r\n";
}

/// What a stream says, in the order of its events.
class listener {
public:
  listener(http_node& node, const std::string& query, const std::string& headers = {})
      : client_(node.node().http_port()) {
    client_.send(get("/v1/events" + query, headers));
    head = client_.read_until("\r\n\r\n");
  }
  /// The next message: its lines without the chunk's frame.
  std::string next() { return client_.read_until("\n\n"); }
  json next_event() {
    const auto text = next();
    const auto at = text.find("data: ");
    return at == std::string::npos ? json::object() : json::parse(text.substr(at + 6), nullptr, false);
  }
  std::string head;

private:
  stream_client client_;
};

std::uint64_t subscribers(http_node& f) { return f.get("/v1/events/topics").at("subscribers").get<std::uint64_t>(); }

std::uint64_t count_of(http_node& f, const std::string& topic) {
  for (const auto& t : f.get("/v1/events/topics").at("topics"))
    if (t.value("topic", "") == topic) return t.value("count", std::uint64_t{0});
  return 999'999;
}

std::size_t threads() {
  std::size_t n = 0;
  for ([[maybe_unused]] const auto& t : std::filesystem::directory_iterator("/proc/self/task")) ++n;
  return n;
}

}  // namespace

CAF_TEST(a stream tells what happens and goes on where it broke off) {
  http_node f;
  CAF_REQUIRE_EQUAL(f.push("mail", R"({"payload":1})").status, 201);
  std::string last;
  {
    listener l(f, "?topic=queue.*");
    CAF_CHECK(l.head.find("text/event-stream") != std::string::npos);
    CAF_REQUIRE(eventually([&] { return subscribers(f) == 1; }));
    CAF_CHECK_EQUAL(f.post("/v1/queues/mail/pause", R"({"for":"1h"})").status, 200);
    const auto e = l.next_event();
    CAF_CHECK_EQUAL(e.value("topic", ""), "queue.paused");
    CAF_CHECK_EQUAL(e.value("subject", ""), "mail");
    CAF_CHECK_EQUAL(e.value("node", ""), "tester");
    CAF_CHECK(e["body"]["until_ms"].is_number());
    last = e.value("id", "");
  }
  CAF_REQUIRE(eventually([&] { return subscribers(f) == 0; }));
  CAF_CHECK_EQUAL(f.post("/v1/queues/mail/resume").status, 200);
  CAF_CHECK_EQUAL(f.post("/v1/queues/mail/purge", R"({"state":"waiting"})").status, 200);
  listener again(f, "?topic=queue.*", "Last-Event-ID: " + last + "\r\n");
  CAF_CHECK_EQUAL(again.next_event().value("topic", ""), "queue.resumed");
  const auto purged = again.next_event();
  CAF_CHECK_EQUAL(purged.value("topic", ""), "queue.purged");
  CAF_CHECK_EQUAL(purged["body"].value("count", 0), 1);
  listener other(f, "?after=elsewhere-7");
  CAF_CHECK(other.next().find("event: dropped\ndata: {\"dropped\":null") != std::string::npos);
  CAF_CHECK_EQUAL(other.next_event().value("topic", ""), "queue.paused");
}

CAF_TEST(what happens to jobs is told while somebody listens) {
  http_node f("[queue]\nMAX_ATTEMPTS = 2\n");
  CAF_REQUIRE_EQUAL(f.push("q", R"({"payload":1})").status, 201);
  CAF_CHECK_EQUAL(count_of(f, "job.pushed"), 0u);
  std::atomic<int> pushed{0}, handled{0}, failed{0}, dead{0};
  auto sub = f.node().events().subscribe(event_filter{"job.*", "work"}, [&](const event& e) {
    if (e.topic == "job.pushed") ++pushed;
    if (e.topic == "job.handled") ++handled;
    if (e.topic == "job.failed") ++failed;
    if (e.topic == "job.dead") ++dead;
  });
  CAF_REQUIRE(sub);
  auto q = f.node().create_simple_queue<int>("work", [](std::vector<int>& items) {
    for (const auto i : items)
      if (i < 0) throw std::runtime_error("negative");
  });
  CAF_REQUIRE(q.push(1));
  CAF_CHECK(eventually([&] { return pushed == 1 && handled == 1; }));
  CAF_REQUIRE(q.push(-1, {.max_attempts = 1}));
  CAF_CHECK(eventually([&] { return dead == 1; }));
  CAF_REQUIRE(q.push(-2));
  CAF_CHECK(eventually([&] { return failed == 1; }));
  CAF_CHECK_EQUAL(pushed.load(), 3);
  CAF_CHECK_EQUAL(handled.load(), 1);
  sub->end();
  CAF_CHECK(eventually([&] { return subscribers(f) == 0; }));
}

CAF_TEST(typed topics and drafts and the gate) {
  http_node f;
  auto events = f.node().events();
  std::mutex mutex;
  std::vector<int> got;
  std::atomic<int> others{0};
  auto typed = events.subscribe(placed, [&](const order& o, const event& e) {
    CAF_CHECK_EQUAL(e.subject, "shop");
    const std::lock_guard lock(mutex);
    got.push_back(o.id);
  });
  auto throwing = events.subscribe("#", [&](const event&) {
    ++others;
    throw std::runtime_error("no");
  });
  CAF_REQUIRE(typed && throwing);
  CAF_CHECK(events.publish(placed, order{1}, {.subject = "shop"}));
  CAF_CHECK(events.publish(placed, order{2}, {.subject = "shop", .draft = true}));
  events.gate([](const event& e) { return e.body.find("13") == std::string::npos; });
  CAF_CHECK(events.publish(placed, order{13}, {.subject = "shop"}));
  CAF_CHECK(events.publish(placed, order{3}, {.subject = "shop"}));
  const std::vector<int> wanted{1, 3};
  CAF_CHECK(eventually([&] {
    const std::lock_guard lock(mutex);
    return got == wanted && others == 2;
  }));
  const auto st = f.get("/v1/events/topics");
  CAF_CHECK_EQUAL(st.at("drafts"), 1);
  CAF_CHECK_EQUAL(st.at("held_back"), 1);

  const auto not_ours = events.publish(topic<order>{"queue.paused"}, order{1});
  CAF_CHECK(!not_ours && not_ours.failure().code == errc::invalid_argument);
  const auto large = events.publish(topic<std::string>{"app.large"}, std::string(70'000, 'x'));
  CAF_CHECK(!large && large.failure().code == errc::too_large);
  const auto no_pattern = events.subscribe("a b", [](const event&) {});
  CAF_CHECK(!no_pattern && no_pattern.failure().code == errc::invalid_argument);
  // Handles may be kept longer than their node.
  f.node().stop();
  const auto late = events.publish(placed, order{4});
  CAF_CHECK(!late && late.failure().code == errc::queue_closed);
  const auto late_too = events.subscribe("#", [](const event&) {});
  CAF_CHECK(!late_too && late_too.failure().code == errc::queue_closed);
}

CAF_TEST(publishing over HTTP) {
  http_node f;
  const auto ok = f.post("/v1/events", R"({"topic":"app.deploy","subject":"web","body":{"version":7}})");
  CAF_CHECK_EQUAL(ok.status, 202);
  CAF_CHECK_EQUAL(f.post("/v1/events", R"({"topic":"app.deploy","draft":true})").at("draft"), true);
  CAF_CHECK(eventually([&] { return f.get("/v1/events/recent").at("events").size() == 1; }));
  const auto e = f.get("/v1/events/recent?topic=app.%23&limit=5").at("events")[0];
  CAF_CHECK_EQUAL(e["body"]["version"], 7);
  CAF_CHECK_EQUAL(e["subject"], "web");
  CAF_CHECK_EQUAL(count_of(f, "app.deploy"), 1u);
  struct bad {
    const char* body;
    const char* part;
  };
  for (const auto& b : {bad{"{", "the body"}, bad{"{}", "needs \"topic\""},
                        bad{R"({"topic":"queue.paused"})", "\"app.\""}, bad{R"({"topic":"app..x"})", "no topic"},
                        bad{R"({"topic":"app.x","draft":1})", "draft"}, bad{R"({"topic":"app.x","bdy":1})", "body"}}) {
    const auto a = f.post("/v1/events", b.body);
    CAF_CHECK_EQUAL(a.status, 400);
    if (a.detail().find(b.part) == std::string::npos) CAF_ERROR("no \"" << b.part << "\" in " << a.detail());
  }
  for (const auto* q : {"?topic=a%20b", "?topic=%23.a", "?after=7", "?after=run-x"})
    CAF_CHECK_EQUAL(f.get("/v1/events" + std::string(q)).status, 400);
  for (const auto* q : {"?limit=0", "?limit=x", "?limit=1001", "?topic=,"})
    CAF_CHECK_EQUAL(f.get("/v1/events/recent" + std::string(q)).status, 400);
}

CAF_TEST(the roles of tokens hold for events) {
  http_node f("READ_TOKEN = r\nADMIN_TOKEN = a\n");
  CAF_CHECK_EQUAL(f.get("/v1/events/recent").status, 401);
  CAF_CHECK_EQUAL(f.get("/v1/events/recent", {"Authorization: Bearer r"}).status, 200);
  CAF_CHECK_EQUAL(f.post("/v1/events", R"({"topic":"app.x"})", {"Authorization: Bearer r"}).status, 403);
  CAF_CHECK_EQUAL(f.post("/v1/events", R"({"topic":"app.x"})", {"Authorization: Bearer a"}).status, 202);
}

CAF_TEST(locks and tasks and the door tell what happens) {
  http_node f("[cron.hello]\nSCHEDULE = @every 1h\nPUSH = q 1\n");
  std::mutex mutex;
  std::vector<std::string> seen;
  auto sub = f.node().events().subscribe("#", [&](const event& e) {
    const std::lock_guard lock(mutex);
    seen.push_back(e.topic + " " + e.subject);
  });
  CAF_REQUIRE(sub);
  const auto saw = [&](const std::string& what) {
    return eventually([&] {
      const std::lock_guard lock(mutex);
      return std::find(seen.begin(), seen.end(), what) != seen.end();
    });
  };
  {
    auto held = f.node().locks().lock("k");
    CAF_REQUIRE(held);
    CAF_CHECK(saw("lock.acquired k"));
  }
  CAF_CHECK(saw("lock.released k"));
  auto held = f.node().locks().lock("k");
  CAF_REQUIRE(held);
  CAF_REQUIRE(f.node().locks().force_release("k"));
  CAF_CHECK(saw("lock.lost k"));
  CAF_CHECK(saw("lock.forced k"));
  CAF_REQUIRE(f.node().cron().run("hello", "test"));
  CAF_CHECK(saw("cron.started hello"));
  CAF_CHECK(saw("cron.finished hello"));
  CAF_CHECK(saw("job.pushed q"));
}

CAF_TEST(a client that does not read misses a counted number and others miss nothing) {
  http_node f;
  stream_client stalled{f.node().http_port(), 4096};
  stalled.send(get("/v1/events?topic=app.%23"));
  CAF_REQUIRE(eventually([&] { return subscribers(f) == 1; }));
  std::atomic<int> got{0};
  auto good = f.node().events().subscribe("app.#", [&](const event&) { ++got; });
  CAF_REQUIRE(good);
  const std::string large(20'000, 'x');
  const topic<std::string> filler{"app.filler"};
  int published = 0;
  while (f.get("/v1/events/topics").at("dropped").get<int>() == 0 && published < 20'000) {
    for (int i = 0; i < 100; ++i) CAF_REQUIRE(f.node().events().publish(filler, large));
    published += 100;
    CAF_REQUIRE(eventually([&] { return got == published; }));
  }
  CAF_CHECK(published < 20'000);
  // It reads on: somewhere in what comes is the number that it missed.
  CAF_CHECK(stalled.read_until("event: dropped\n").find("event: dropped\n") != std::string::npos);
  const auto said = stalled.read_until("\n\n");
  const auto missed = json::parse(said.substr(said.find('{')), nullptr, false);
  CAF_CHECK(missed.value("dropped", 0) > 0);
  CAF_CHECK_EQUAL(got.load(), published);
}

CAF_TEST(a thousand listeners cost no thread and no place at the door) {
  http_node f("[qos]\nENABLED = true\nMAX_INFLIGHT = 2\nMAX_WAITING = 2\n");
  const auto before = threads();
  std::vector<std::unique_ptr<stream_client>> clients;
  for (int i = 0; i < 1'000; ++i) {
    clients.push_back(std::make_unique<stream_client>(f.node().http_port()));
    clients.back()->send(get("/v1/events?topic=app.%23"));
    clients.back()->read_until("\r\n\r\n");
  }
  CAF_REQUIRE(eventually([&] { return subscribers(f) == 1'000; }));
  CAF_CHECK_EQUAL(threads(), before);
  CAF_CHECK_EQUAL(f.post("/v1/events", R"({"topic":"app.x"})").status, 202);
  int heard = 0;
  for (auto& c : clients) heard += c->read_until("\n\n").find("app.x") != std::string::npos ? 1 : 0;
  CAF_CHECK_EQUAL(heard, 1'000);
  clients.clear();
  CAF_CHECK(eventually([&] { return subscribers(f) == 0; }));
}
