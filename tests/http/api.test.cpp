#define CAF_SUITE http_api
#include <caravan/node.hpp>

#include "nodes/log.hpp"
#include "tests/support/http_node.hpp"

#include <nlohmann/json.hpp>

#include "caf/test/unit_test.hpp"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

using namespace caravan;
using namespace std::chrono_literals;
using testing_support::answer;
using testing_support::eventually;
using testing_support::temp_folder;
using fixture = testing_support::http_node;
using json = nlohmann::json;

namespace {

constexpr auto patience = 20s;

/// Handlers wait in it until it opens.
class gate {
public:
  void pass() {
    std::unique_lock lock(mutex_);
    ++waiting_;
    opened_.wait_for(lock, patience, [&] { return open_; });
  }
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    opened_.notify_all();
  }
  int waiting() {
    const std::lock_guard lock(mutex_);
    return waiting_;
  }

private:
  std::mutex mutex_;
  std::condition_variable opened_;
  bool open_ = false;
  int waiting_ = 0;
};

bool holds(const std::string& text, std::string_view part) {
  if (text.find(part) != std::string::npos) return true;
  CAF_ERROR("no \"" + std::string(part) + "\" in: " + text);
  return false;
}

}  // namespace

CAF_TEST(health and the node) {
  fixture f;
  CAF_CHECK_EQUAL(std::string(f.get("/healthz").text), "ok\n");
  CAF_CHECK_EQUAL(f.get("/readyz").at("ready"), true);
  const auto node = f.get("/v1/node");
  CAF_CHECK_EQUAL(node.status, 200);
  CAF_CHECK_EQUAL(node.body.value("name", ""), "tester");
  CAF_CHECK_EQUAL(node.body.value("data_dir", ""), f.folder() + "/data");
  CAF_CHECK_EQUAL(node.body.value("queues", -1), 0);
  CAF_CHECK(!node.body.value("version", "").empty());
  CAF_CHECK(node.body.value("started", "").starts_with("20"));
  CAF_CHECK(holds(f.get("/").text, "/v1/queues"));
  CAF_CHECK_EQUAL(+f.get("/v1/nothing").status, 404);
  CAF_CHECK_EQUAL(+f.ask("PUT", "/v1/queues").status, 405);
}

CAF_TEST(a push makes its queue and answers with an id) {
  fixture f;
  const auto a =
      f.push("mail", R"({"payload": {"to": "ann"}, "key": "k", "headers": {"x": "y"}})", {"traceparent: 00-1-2-03"});
  CAF_REQUIRE_EQUAL(a.status, 201);
  const auto id = a.body.value("id", "");
  CAF_CHECK(id.starts_with("mail."));
  const auto job = f.get("/v1/jobs/" + id);
  CAF_REQUIRE_EQUAL(job.status, 200);
  CAF_CHECK_EQUAL(job.body["payload"], json({{"to", "ann"}}));
  CAF_CHECK_EQUAL(job.body["state"], "waiting");
  CAF_CHECK_EQUAL(job.body["queue"], "mail");
  CAF_CHECK_EQUAL(job.body["attempts"], 0);
  CAF_CHECK_EQUAL(job.body["due"], nullptr);
  CAF_CHECK_EQUAL(job.body["headers"], json({{"x", "y"}, {"traceparent", "00-1-2-03"}}));
  const auto q = f.get("/v1/queues/mail");
  CAF_CHECK_EQUAL(q.status, 200);
  for (const auto* name :
       {"name",           "id",          "type",    "item_type", "unique",   "phase",     "paused_by",
        "paused_until",   "trouble",     "handler", "waiting",   "running",  "delayed",   "dead",
        "oldest_waiting", "pushed",      "handled", "failed",    "returned", "died",      "removed",
        "redelivered",    "leases_lost", "length",  "workers",   "active",   "abandoned", "max_workers"})
    CAF_CHECK(q.body.contains(name));
  CAF_CHECK_EQUAL(q.body["waiting"], 1);
  CAF_CHECK_EQUAL(q.body["type"], "level");
  CAF_CHECK_EQUAL(f.get("/v1/queues").at("queues").size(), 1u);
  CAF_CHECK_EQUAL(f.push("bad%20name", R"({"payload":1})").code(), "invalid_argument");
}

CAF_TEST(arrays and lines) {
  fixture f;
  const auto array = f.push("q", R"([{"payload":1},{"payload":"two","delay":60}])");
  CAF_CHECK_EQUAL(array.status, 201);
  CAF_CHECK_EQUAL(array.body["stored"], 2);
  CAF_CHECK_EQUAL(array.body["jobs"].size(), 2u);
  CAF_CHECK_EQUAL(array.body["jobs"][1]["stored"], true);
  CAF_CHECK_EQUAL(f.count("q", "delayed"), 1u);
  const std::vector<std::string> lines{"Content-Type: application/x-ndjson"};
  CAF_CHECK_EQUAL(f.push("q", "{\"payload\":3}\n{\"payload\":4}\n", lines).at("stored"), 2);
  // One bad line refuses them all, so that sending the mended text again stores nothing twice.
  const auto bad = f.push("q", "{\"payload\":5}\n{\"payload\":\n{\"payload\":6}\n", lines);
  CAF_CHECK_EQUAL(bad.status, 400);
  CAF_CHECK(holds(bad.detail(), "line 2: "));
  CAF_CHECK_EQUAL(f.count("q", "waiting"), 3u);
  CAF_CHECK_EQUAL(f.push("q", "[]").at("jobs"), json::array());
}

CAF_TEST(bad calls are refused with the remedy) {
  fixture f;
  CAF_CHECK_EQUAL(+f.push("q", R"({"payload":0})").status, 201);
  const auto bad = [&](const std::string& body, std::string_view words) {
    const auto a = f.push("q", body);
    CAF_CHECK_EQUAL(a.status, 400);
    CAF_CHECK_EQUAL(a.code(), "invalid_argument");
    CAF_CHECK(holds(a.detail(), words));
    CAF_CHECK(holds(a.headers, "application/problem+json"));
  };
  bad("", "the body");
  bad("{\"payload\":", "the body");
  bad("{\"payload\":\"\xc3\x28\"}", "UTF-8");
  bad(R"({"payload":1,"delay":-5})", "delay");
  bad(R"({"payload":1,"dealy":5})", "did you mean \"delay\"");
  bad(R"({"payload":1,"at":"yesterday"})", "RFC 3339");
  bad(std::string(100'000, '['), "levels of nesting");
  CAF_CHECK_EQUAL(f.count("q", "waiting"), 1u);
  const auto large = f.push("q", "{\"payload\":\"" + std::string(2u << 20, 'x') + "\"}");
  CAF_CHECK_EQUAL(large.status, 413);
  CAF_CHECK(holds(large.detail(), "MAX_ITEM_SIZE"));
  CAF_CHECK_EQUAL(+f.push("q", "{\"payload\":\"" + std::string(9u << 20, 'x') + "\"}").status, 413);
  const auto foreign = f.push("q", R"({"payload":1})", {"Origin: https://evil.example"});
  CAF_CHECK_EQUAL(foreign.status, 403);
  const auto own =
      f.push("q", R"({"payload":1})", {"Origin: http://127.0.0.1:" + std::to_string(f.node().http_port())});
  CAF_CHECK_EQUAL(own.status, 201);
}

CAF_TEST(an unknown queue) {
  fixture closed("[queue.mail]\n");
  CAF_CHECK(holds(closed.get("/v1/queues/mial").detail(), "did you mean \"mail\"?"));
  CAF_CHECK_EQUAL(closed.get("/v1/queues/mial").code(), "not_found");
  for (const auto* verb : {"pause", "resume", "flush", "drain", "purge", "scale"})
    CAF_CHECK_EQUAL(+closed.post("/v1/queues/other/" + std::string(verb)).status, 404);
  CAF_CHECK_EQUAL(+closed.get("/v1/queues/other/jobs").status, 404);
  CAF_CHECK_EQUAL(+closed.get("/v1/jobs/other.0000000000001").status, 404);
  CAF_CHECK_EQUAL(+closed.get("/v1/jobs/nonsense").status, 400);
  CAF_CHECK_EQUAL(+closed.get("/v1/jobs/mail.0000000000001").status, 404);
}

CAF_TEST(a queue is made only where that is permitted) {
  temp_folder folder;
  node_options o;
  o.config_text = "[http]\nADDR = 127.0.0.1:0\n[queue.mail]\n";
  o.data_dir = folder.path();
  o.use_environment = false;
  o.serve_http = true;
  o.quiet = true;
  caravan::node n(o);
  CURL* curl = curl_easy_init();
  std::string text;
  curl_easy_setopt(curl, CURLOPT_URL,
                   ("http://127.0.0.1:" + std::to_string(n.http_port()) + "/v1/queues/mial/jobs").c_str());
  curl_easy_setopt(curl, CURLOPT_POSTFIELDS, "{\"payload\":1}");
  curl_easy_setopt(curl, CURLOPT_PROXY, "");
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, caravan::testing_support::take_text);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &text);
  CAF_CHECK_EQUAL(curl_easy_perform(curl), CURLE_OK);
  long status = 0;
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
  curl_easy_cleanup(curl);
  CAF_CHECK_EQUAL(status, 404);
  CAF_CHECK(holds(text, "AUTO_CREATE"));
}

CAF_TEST(a repeated push answers with the first id) {
  fixture f;
  const std::vector<std::string> key{"Idempotency-Key: abc"};
  const auto first = f.push("q", R"({"payload":1})", key);
  const auto again = f.push("q", R"({"payload":1})", key);
  CAF_CHECK_EQUAL(first.status, 201);
  CAF_CHECK_EQUAL(again.status, 201);
  CAF_CHECK_EQUAL(first.body["id"], again.body["id"]);
  CAF_CHECK_EQUAL(again.body["repeated"], true);
  const auto field = f.push("q", R"({"payload":1,"idempotency_key":"abc"})");
  CAF_CHECK_EQUAL(first.body["id"], field.body["id"]);
  const auto bulk = f.push("q", R"([{"payload":1},{"payload":2}])", key);
  const auto twice = f.push("q", R"([{"payload":1},{"payload":2}])", key);
  CAF_CHECK_EQUAL(bulk.body["stored"], 2);
  CAF_CHECK_EQUAL(twice.body["stored"], 0);
  CAF_CHECK_EQUAL(twice.body["jobs"][1]["repeated"], true);
  CAF_CHECK_EQUAL(twice.body["jobs"][1]["id"], bulk.body["jobs"][1]["id"]);
  CAF_CHECK_EQUAL(f.count("q", "waiting"), 3u);
}

CAF_TEST(a unique queue answers alike one by one and in bulk) {
  fixture f("[queue.u]\nUNIQUE = true\n");
  const auto first = f.push("u", R"({"payload":{"a":1,"b":2}})");
  CAF_CHECK_EQUAL(first.status, 201);
  const auto again = f.push("u", R"({"payload":{ "b":2, "a":1 }})");  // equal, though written otherwise
  CAF_CHECK_EQUAL(again.status, 409);
  CAF_CHECK_EQUAL(again.code(), "already_in_queue");
  CAF_CHECK_EQUAL(again.body["holder"], first.body["id"]);
  CAF_CHECK(holds(again.detail(), first.body["id"].get<std::string>()));
  const auto bulk = f.push("u", R"([{"payload":{"a":1,"b":2}},{"payload":3},{"payload":3}])");
  CAF_CHECK_EQUAL(bulk.status, 201);
  CAF_CHECK_EQUAL(bulk.body["stored"], 1);
  CAF_CHECK_EQUAL(bulk.body["jobs"][0]["error"], "already_in_queue");
  CAF_CHECK_EQUAL(bulk.body["jobs"][0]["holder"], first.body["id"]);
  CAF_CHECK_EQUAL(bulk.body["jobs"][2]["holder"], bulk.body["jobs"][1]["id"]);
  CAF_CHECK_EQUAL(+f.push("u", R"({"payload":4,"key":"k"})").status, 201);
  CAF_CHECK_EQUAL(+f.push("u", R"({"payload":5,"key":"k"})").status, 409);
}

CAF_TEST(a full queue) {
  fixture f("[queue.small]\nLENGTH = 2\nPUSH_TIMEOUT = 100ms\n");
  CAF_CHECK_EQUAL(+f.push("small", R"([{"payload":1},{"payload":2}])").status, 201);
  const auto full = f.push("small", R"({"payload":3})");
  CAF_CHECK_EQUAL(full.status, 429);
  CAF_CHECK_EQUAL(full.code(), "queue_full");
  CAF_CHECK(holds(full.headers, "Retry-After"));
  CAF_CHECK_EQUAL(+f.push("small", R"([{"payload":1},{"payload":2},{"payload":3}])").status, 413);  // it could never fit
}

CAF_TEST(pause resume drain and flush) {
  fixture f;
  std::atomic<int> handled{0};
  auto q = f.node().create_simple_queue<int>(
      "q", [&](std::vector<int>& batch) { handled += static_cast<int>(batch.size()); });
  auto paused = f.post("/v1/queues/q/pause", R"({"for":"10m"})");
  CAF_CHECK_EQUAL(paused.status, 200);
  CAF_CHECK_EQUAL(paused.body["phase"], "paused");
  CAF_CHECK(paused.body["paused_until"].is_string());
  CAF_CHECK(paused.body["paused_by"].get<std::string>().starts_with("127.0.0.1:"));
  CAF_CHECK_EQUAL(paused.body["item_type"], "int");
  CAF_CHECK_EQUAL(+f.push("q", R"({"payload":1})").status, 201);
  CAF_CHECK_EQUAL(+f.post("/v1/queues/q/flush").status, 409);
  CAF_CHECK_EQUAL(f.post("/v1/queues/q/pause", R"({"until":"2100-01-01T00:00:00Z"})").at("paused_until"),
                  "2100-01-01T00:00:00.000Z");
  CAF_CHECK_EQUAL(f.post("/v1/queues/q/pause").at("paused_until"), nullptr);
  CAF_CHECK_EQUAL(+f.post("/v1/queues/q/pause", R"({"until":null})").status, 200);
  CAF_CHECK_EQUAL(handled.load(), 0);
  CAF_CHECK_EQUAL(f.post("/v1/queues/q/resume").at("phase"), "running");
  CAF_CHECK(eventually([&] { return handled == 1; }));
  CAF_CHECK_EQUAL(+f.push("q", R"([{"payload":1},{"payload":2,"delay":3600}])").status, 201);
  const auto flushed = f.post("/v1/queues/q/flush", R"({"timeout":"20s"})");
  CAF_CHECK_EQUAL(flushed.status, 200);
  CAF_CHECK_EQUAL(handled.load(), 2);
  // A drain ends when nothing is left to hand out; what is due later waits for the next start.
  CAF_CHECK_EQUAL(f.post("/v1/queues/q/drain").at("phase"), "stopped");
  const auto closed = f.push("q", R"({"payload":1})");
  CAF_CHECK_EQUAL(closed.status, 503);
  CAF_CHECK_EQUAL(closed.code(), "queue_closed");
  CAF_CHECK_EQUAL(+f.post("/v1/queues/q/pause").status, 409);
  CAF_CHECK_EQUAL(f.post("/v1/queues/q/resume").code(), "queue_closed");
  // With something left it can be taken back.
  CAF_CHECK_EQUAL(+f.push("other", R"({"payload":1})").status, 201);
  CAF_CHECK_EQUAL(f.post("/v1/queues/other/drain").at("phase"), "draining");
  CAF_CHECK_EQUAL(+f.push("other", R"({"payload":1})").status, 503);
  CAF_CHECK_EQUAL(f.post("/v1/queues/other/resume").at("phase"), "running");
  CAF_CHECK_EQUAL(+f.push("other", R"({"payload":1})").status, 201);
  for (const auto& [verb, body] :
       std::vector<std::pair<std::string, std::string>>{{"pause", R"({"until":"2020-01-01T00:00:00Z"})"},
                                                        {"pause", R"({"for":"1m","until":"2100-01-01T00:00:00Z"})"},
                                                        {"pause", R"({"fro":"1m"})"},
                                                        {"pause", R"({"for":"-1m"})"},
                                                        {"pause", "[]"},
                                                        {"pause", "{"},
                                                        {"flush", R"({"timeout":-1})"},
                                                        {"flush", R"({"timeout":"48h"})"},
                                                        {"purge", "{}"},
                                                        {"purge", R"({"state":"running"})"},
                                                        {"scale", "{}"},
                                                        {"scale", R"({"max_workers":1.5})"},
                                                        {"scale", R"({"max_workers":100000})"}})
    CAF_CHECK_EQUAL(+f.post("/v1/queues/q/" + verb, body).status, 400);
}

CAF_TEST(a flush that cannot end answers in time) {
  fixture f;
  gate hold;
  auto q = f.node().create_simple_queue<int>("q", [&](std::vector<int>&) { hold.pass(); });
  CAF_CHECK_EQUAL(+f.push("q", R"({"payload":1})").status, 201);
  CAF_CHECK(eventually([&] { return hold.waiting() == 1; }));
  CAF_CHECK_EQUAL(+f.post("/v1/queues/q/flush", R"({"timeout":"200ms"})").status, 504);
  // What runs is shown and cannot be changed.
  const auto running = f.get("/v1/queues/q/jobs?state=running");
  CAF_REQUIRE_EQUAL(running.body["jobs"].size(), 1u);
  const auto id = running.body["jobs"][0]["id"].get<std::string>();
  CAF_CHECK_EQUAL(f.get("/v1/jobs/" + id).at("state"), "running");
  CAF_CHECK_EQUAL(+f.ask("DELETE", "/v1/jobs/" + id).status, 409);
  CAF_CHECK_EQUAL(+f.post("/v1/jobs/" + id + "/retry").status, 409);
  CAF_CHECK_EQUAL(f.get("/v1/queues/q/jobs").at("jobs").size(), 0u);
  hold.open();
  CAF_CHECK(eventually([&] { return f.get("/v1/jobs/" + id).body.value("state", "") == "handled"; }));
}

CAF_TEST(workers are scaled) {
  fixture f;
  auto q = f.node().create_simple_queue<int>("q", [](std::vector<int>&) {});
  CAF_CHECK_EQUAL(f.post("/v1/queues/q/scale", R"({"max_workers":7})").at("max_workers"), 7);
  CAF_CHECK_EQUAL(f.post("/v1/queues/q/scale", R"({"max_workers":0})").at("max_workers"), 0);
  CAF_CHECK_EQUAL(+f.push("none", R"({"payload":1})").status, 201);
  const auto none = f.post("/v1/queues/none/scale", R"({"max_workers":7})");
  CAF_CHECK_EQUAL(none.status, 409);
  CAF_CHECK(holds(none.detail(), "HANDLER"));
}

CAF_TEST(jobs are listed page by page) {
  fixture f("[queue.q]\nTYPE = channel\n");
  json many = json::array();
  for (int i = 0; i < 25; ++i) many.push_back({{"payload", i}});
  for (int i = 0; i < 5; ++i) many.push_back({{"payload", 100 + i}, {"delay", 3600 + i}});
  CAF_CHECK_EQUAL(f.push("q", many.dump()).at("stored"), 30);
  const auto walk = [&](const std::string& state, int limit) {
    std::vector<int> seen;
    std::string after;
    for (int pages = 0; pages < 50; ++pages) {
      const auto page = f.get("/v1/queues/q/jobs?state=" + state + "&limit=" + std::to_string(limit) + after);
      if (page.status != 200) break;
      for (const auto& j : page.body["jobs"]) {
        seen.push_back(j["payload"].get<int>());
        CAF_CHECK_EQUAL(j["state"], state);
      }
      if (page.body["next"].is_null()) break;
      after = "&after=" + page.body["next"].get<std::string>();
    }
    return seen;
  };
  std::vector<int> wanted;
  for (int i = 0; i < 25; ++i) wanted.push_back(i);
  CAF_CHECK_EQUAL(walk("waiting", 7), wanted);
  CAF_CHECK_EQUAL(walk("waiting", 25), wanted);
  CAF_CHECK_EQUAL(walk("waiting", 1000), wanted);
  CAF_CHECK_EQUAL(walk("delayed", 2), (std::vector<int>{100, 101, 102, 103, 104}));
  CAF_CHECK(walk("dead", 2).empty());
  CAF_CHECK(walk("running", 2).empty());
  for (const auto* bad : {"state=gone", "limit=0", "limit=1001", "limit=x", "after=x", "after=w.",
                          "after=d.5.0000000000001x", "stat=dead", "state=dead&after=w.0000000000001"})
    CAF_CHECK_EQUAL(+f.get("/v1/queues/q/jobs?" + std::string(bad)).status, 400);
}

CAF_TEST(a page of large jobs is shorter) {
  fixture f("[queue.q]\nTYPE = channel\n");
  for (int i = 0; i < 12; ++i)
    CAF_REQUIRE_EQUAL(+f.push("q", "{\"payload\":\"" + std::string(1'000'000, 'x') + "\"}").status, 201);
  const auto first = f.get("/v1/queues/q/jobs?limit=1000");
  CAF_CHECK_EQUAL(first.body["jobs"].size(), 9u);
  const auto rest = f.get("/v1/queues/q/jobs?limit=1000&after=" + first.body["next"].get<std::string>());
  CAF_CHECK_EQUAL(rest.body["jobs"].size(), 3u);
  CAF_CHECK_EQUAL(rest.body["next"], nullptr);
}

CAF_TEST(a delayed job whose time has come counts as waiting) {
  fixture f;
  CAF_CHECK_EQUAL(+f.push("q", R"({"payload":1,"delay":0.05})").status, 201);
  CAF_CHECK(eventually([&] { return f.get("/v1/queues/q/jobs?state=waiting").at("jobs").size() == 1; }));
  CAF_CHECK_EQUAL(f.get("/v1/queues/q/jobs?state=delayed").at("jobs").size(), 0u);
}

CAF_TEST(dead jobs are listed retried and deleted) {
  fixture f("[queue]\nMAX_ATTEMPTS = 1\n");
  std::atomic<bool> fails{true};
  auto q = f.node().create_simple_queue<int>("q", [&](std::vector<int>&) {
    if (fails) throw std::runtime_error("no <b>luck</b>");
  });
  CAF_CHECK_EQUAL(+f.push("q", R"({"payload":1})").status, 201);
  CAF_CHECK(eventually([&] { return f.count("q", "dead") == 1; }));
  const auto dead = f.get("/v1/queues/q/jobs?state=dead");
  CAF_REQUIRE_EQUAL(dead.body["jobs"].size(), 1u);
  const auto& job = dead.body["jobs"][0];
  CAF_CHECK_EQUAL(job["attempts"], 1);
  CAF_CHECK_EQUAL(job["max_attempts"], 1);
  CAF_CHECK(holds(job["last_error"].get<std::string>(), "no <b>luck</b>"));
  const auto id = job["id"].get<std::string>();
  CAF_CHECK_EQUAL(+f.post("/v1/jobs/" + id + "/retry").status, 200);
  CAF_CHECK(eventually([&] { return f.get("/v1/jobs/" + id).body.value("state", "") == "dead"; }));
  fails = false;
  CAF_CHECK_EQUAL(f.post("/v1/jobs/" + id + "/retry").at("done"), "retry");
  CAF_CHECK(eventually([&] { return f.get("/v1/jobs/" + id).body.value("state", "") == "handled"; }));
  CAF_CHECK_EQUAL(+f.post("/v1/jobs/" + id + "/retry").status, 404);
  const auto late = f.push("q", R"({"payload":2,"delay":"1h"})").at("id").get<std::string>();
  CAF_CHECK_EQUAL(f.ask("DELETE", "/v1/jobs/" + late).at("done"), "delete");
  CAF_CHECK_EQUAL(f.get("/v1/jobs/" + late).at("state"), "removed");
  CAF_CHECK_EQUAL(+f.ask("DELETE", "/v1/jobs/" + late).status, 404);
}

CAF_TEST(a purge forgets one state) {
  fixture f;
  CAF_CHECK_EQUAL(+f.push("q", R"([{"payload":1},{"payload":2},{"payload":3,"delay":3600}])").status, 201);
  CAF_CHECK_EQUAL(f.post("/v1/queues/q/purge", R"({"state":"delayed"})").at("purged"), 1);
  CAF_CHECK_EQUAL(f.count("q", "waiting"), 2u);
  CAF_CHECK_EQUAL(f.post("/v1/queues/q/purge", R"({"state":"waiting"})").at("purged"), 2);
  CAF_CHECK_EQUAL(f.post("/v1/queues/q/purge", R"({"state":"dead"})").at("purged"), 0);
}

CAF_TEST(a dummy queue keeps nothing) {
  fixture f("[queue.d]\nTYPE = dummy\n");
  const auto pushed = f.push("d", R"({"payload":1})");
  CAF_CHECK_EQUAL(pushed.status, 201);
  CAF_CHECK_EQUAL(f.push("d", R"([{"payload":1},{"payload":2}])").at("stored"), 2);
  CAF_CHECK_EQUAL(f.get("/v1/queues/d").at("pushed"), 3);
  CAF_CHECK_EQUAL(f.get("/v1/queues/d/jobs").at("jobs").size(), 0u);
  CAF_CHECK_EQUAL(+f.get("/v1/jobs/" + pushed.body.value("id", "")).status, 404);
  for (const auto* verb : {"pause", "resume", "flush", "drain", "purge", "scale"})
    CAF_CHECK_EQUAL(+f.post("/v1/queues/d/" + std::string(verb)).status, 501);
}

CAF_TEST(a payload that is no JSON is shown as base64) {
  fixture f;
  auto q = f.node().open_queue<raw_json>("q");
  const auto id = q.push(raw_json{"\xff\xfe"});
  CAF_REQUIRE(id.has_value());
  const auto job = f.get("/v1/jobs/q." + to_string(*id));
  CAF_CHECK_EQUAL(job.status, 200);
  CAF_CHECK_EQUAL(job.body["payload_base64"], "//4=");
  CAF_CHECK(!job.body.contains("payload"));
}

CAF_TEST(what a push made is there after a restart) {
  temp_folder folder;
  node_options o;
  o.data_dir = folder.path();
  o.config_text = "[node]\nAUTO_CREATE = true\n[http]\nADDR = 127.0.0.1:0\n";
  o.use_environment = false;
  o.serve_http = true;
  o.quiet = true;
  for (int start = 0; start < 2; ++start) {
    caravan::node n(o);
    if (start == 1) CAF_CHECK_EQUAL(n.queues().size(), 1u);
    CURL* curl = curl_easy_init();
    std::string text;
    curl_easy_setopt(curl, CURLOPT_URL,
                     ("http://127.0.0.1:" + std::to_string(n.http_port()) + "/v1/queues/mail/jobs").c_str());
    if (start == 0) curl_easy_setopt(curl, CURLOPT_POSTFIELDS, "{\"payload\":1}");
    curl_easy_setopt(curl, CURLOPT_PROXY, "");
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, caravan::testing_support::take_text);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, &text);
    CAF_CHECK_EQUAL(curl_easy_perform(curl), CURLE_OK);
    curl_easy_cleanup(curl);
    CAF_CHECK(holds(text, "\"id\":\"mail."));
  }
}

CAF_TEST(tokens have roles) {
  fixture f("READ_TOKEN = r3ad-token\nPUSH_TOKEN = pu5h-token\nADMIN_TOKEN = adm1n-token\n");
  const auto bearer = [](const std::string& t) { return std::vector<std::string>{"Authorization: Bearer " + t}; };
  const auto job = R"({"payload":1})";
  CAF_CHECK_EQUAL(+f.get("/healthz").status, 200);
  CAF_CHECK_EQUAL(+f.get("/readyz").status, 200);
  CAF_CHECK_EQUAL(+f.get("/").status, 200);
  CAF_CHECK_EQUAL(+f.get("/v1/queues").status, 401);
  CAF_CHECK_EQUAL(+f.get("/v1/queues", bearer("wrong")).status, 401);
  CAF_CHECK_EQUAL(+f.get("/v1/queues", bearer("r3ad-token")).status, 200);
  CAF_CHECK_EQUAL(+f.push("q", job).status, 401);
  CAF_CHECK_EQUAL(+f.push("q", job, bearer("r3ad-token")).status, 403);
  const auto pushed = f.push("q", job, bearer("pu5h-token"));
  CAF_CHECK_EQUAL(pushed.status, 201);
  const auto id = pushed.body.value("id", "");
  CAF_CHECK_EQUAL(+f.get("/v1/jobs/" + id, bearer("pu5h-token")).status, 200);
  CAF_CHECK_EQUAL(+f.get("/v1/jobs/" + id).status, 401);
  CAF_CHECK_EQUAL(+f.get("/v1/node").status, 401);
  for (const auto* verb : {"pause", "resume", "flush", "drain", "purge", "scale"})
    CAF_CHECK_EQUAL(+f.post("/v1/queues/q/" + std::string(verb), "{}", bearer("pu5h-token")).status, 403);
  CAF_CHECK_EQUAL(+f.ask("DELETE", "/v1/jobs/" + id, {}, bearer("pu5h-token")).status, 403);
  const auto paused = f.post("/v1/queues/q/pause", "{}", bearer("adm1n-token"));
  CAF_CHECK_EQUAL(paused.status, 200);
  CAF_CHECK(holds(paused.body["paused_by"].get<std::string>(), "(admin token)"));
  CAF_CHECK_EQUAL(+f.ask("DELETE", "/v1/jobs/" + id, {}, bearer("adm1n-token")).status, 200);
  CAF_CHECK(f.get("/v1/queues", bearer("adm1n-wrong")).text.find("adm1n-wrong") == std::string::npos);
}

CAF_TEST(many at once) {
  fixture f("[queue.q]\nTYPE = channel\n");
  std::vector<std::thread> threads;
  std::atomic<int> good{0};
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 25; ++i)
        if (f.push("q", R"({"payload":1})").status == 201 && f.get("/v1/queues").status == 200) ++good;
    });
  for (auto& t : threads) t.join();
  CAF_CHECK_EQUAL(good.load(), 200);
  CAF_CHECK_EQUAL(f.count("q", "waiting"), 200u);
}
