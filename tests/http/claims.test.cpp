#define CAF_SUITE http_claims
#include "tests/support/http_node.hpp"

#include <thread>

#include "caf/test/unit_test.hpp"

using namespace caravan;
using namespace std::chrono_literals;
using testing_support::eventually;
using testing_support::http_node;
using json = nlohmann::json;

namespace {

const std::string memory = "[queue]\nTYPE = channel\nMAX_ATTEMPTS = 0\n";

bool holds(const std::string& text, std::string_view part) {
  if (text.find(part) != std::string::npos) return true;
  CAF_ERROR("no \"" + std::string(part) + "\" in: " + text);
  return false;
}

std::string lease_of(const testing_support::answer& a) {
  CAF_REQUIRE_EQUAL(a.status, 200);
  const auto lease = a.at("lease");
  CAF_REQUIRE(lease.is_string());
  return lease.get<std::string>();
}

}  // namespace

CAF_TEST(jobs are claimed and acknowledged in part and as a whole) {
  http_node f(memory);
  CAF_REQUIRE_EQUAL(
      f.push("mail", R"([{"payload":{"n":1},"key":"k","headers":{"h":"v"}},{"payload":2},{"payload":3}])").status, 201);
  const auto got = f.post("/v1/queues/mail/claim", R"({"max":10,"lease":"20s","worker":"ann"})");
  const auto lease = lease_of(got);
  const auto jobs = got.at("jobs");
  CAF_REQUIRE_EQUAL(jobs.size(), 3u);
  CAF_CHECK(jobs[0]["payload"] == json({{"n", 1}}));
  CAF_CHECK_EQUAL(jobs[0]["attempt"], json(1));
  CAF_CHECK_EQUAL(jobs[0]["headers"]["h"], json("v"));
  const auto token = [&](std::size_t i) { return std::stoull(jobs[i]["token"].get<std::string>()); };
  CAF_CHECK(token(0) < token(1));
  CAF_CHECK(jobs[0]["deadline"].is_null());
  CAF_CHECK_EQUAL(got.at("remaining"), json("20s"));
  CAF_CHECK_EQUAL(f.count("mail", "running"), 3u);

  const auto path = "/v1/leases/" + lease;
  const auto part = json({{"jobs", {{{"id", jobs[1]["id"]}, {"outcome", "rejected"}, {"error", "never"}}}}}).dump();
  auto said = f.post(path + "/ack", part);
  CAF_REQUIRE_EQUAL(said.status, 200);
  CAF_CHECK_EQUAL(said.at("left"), json(2));
  const auto first = said.at("jobs");
  CAF_CHECK_EQUAL(first[0]["counted"], json(true));
  CAF_CHECK_EQUAL(f.count("mail", "dead"), 1u);
  CAF_CHECK_EQUAL(f.post(path + "/ack", part).text, said.text);  // the same again

  CAF_CHECK_EQUAL(f.post(path + "/extend").at("jobs").size(), 2u);
  said = f.post(path + "/ack");
  CAF_CHECK_EQUAL(said.at("left"), json(0));
  CAF_CHECK_EQUAL(f.count("mail", "handled"), 2u);
  CAF_CHECK_EQUAL(f.count("mail", "running"), 0u);
}

CAF_TEST(what is handed back and what comes later) {
  http_node f(memory);
  (void)f.push("mail", R"([{"payload":1},{"payload":2},{"payload":3}])");
  const auto got = f.post("/v1/queues/mail/claim", R"({"max":3})");
  const auto lease = lease_of(got);
  const auto jobs = got.at("jobs");
  const auto body = json({{"jobs",
                           {{{"id", jobs[0]["id"]}, {"outcome", "later"}, {"delay", "1h"}},
                            {{"id", jobs[1]["id"]}, {"outcome", "failed"}, {"error", "no luck"}, {"delay", "1h"}}}}})
                        .dump();
  CAF_CHECK_EQUAL(f.post("/v1/leases/" + lease + "/ack", body).status, 200);
  CAF_CHECK_EQUAL(f.count("mail", "delayed"), 2u);
  CAF_CHECK_EQUAL(f.post("/v1/leases/" + lease + "/release").at("jobs").size(), 1u);
  CAF_CHECK_EQUAL(f.count("mail", "waiting"), 1u);
  const auto failed = f.get("/v1/jobs/" + jobs[1]["id"].get<std::string>());
  CAF_CHECK_EQUAL(failed.at("attempts"), json(1));
  CAF_CHECK_EQUAL(failed.at("last_error"), json("no luck"));
}

CAF_TEST(a claim waits for a job and one that gives up leaves nothing behind) {
  http_node f(memory + "[queue.mail]\n");
  testing_support::answer got;
  std::thread waits([&] { got = f.post("/v1/queues/mail/claim", R"({"max":5,"wait":"30s"})"); });
  CAF_CHECK(eventually([&] {
    const auto w = f.get("/v1/workers").at("workers");
    return w.size() == 1 && w[0]["state"] == "waiting";
  }));
  (void)f.push("mail", R"({"payload":7})");
  waits.join();
  const auto jobs = got.at("jobs");
  CAF_REQUIRE_EQUAL(jobs.size(), 1u);
  CAF_CHECK_EQUAL(jobs[0]["payload"], json(7));
  const auto none = f.post("/v1/queues/mail/claim", R"({"wait":"20ms"})");
  CAF_CHECK_EQUAL(none.status, 200);
  CAF_CHECK(none.at("jobs").empty());
  CAF_CHECK(none.at("lease").is_null());
  (void)f.push("mail", R"({"payload":8})");
  CAF_CHECK_EQUAL(f.count("mail", "waiting"), 1u);
}

CAF_TEST(a lost lease is fenced and its jobs go to others) {
  http_node f(memory);
  (void)f.push("mail", R"({"payload":1})");
  const auto lease = lease_of(f.post("/v1/queues/mail/claim", R"({"lease":"1s"})"));
  const auto other = f.post("/v1/queues/mail/claim", R"({"wait":"30s","lease":"1m"})");
  CAF_CHECK_EQUAL(other.at("jobs").size(), 1u);
  for (const auto* what : {"/ack", "/extend"}) {
    const auto no = f.post("/v1/leases/" + lease + what);
    CAF_CHECK_EQUAL(no.status, 409);
    CAF_CHECK_EQUAL(no.code(), "fenced");
    CAF_CHECK(holds(no.detail(), "ran out"));
  }
  CAF_CHECK_EQUAL(f.count("mail", "leases_lost"), 1u);
  CAF_CHECK_EQUAL(f.post("/v1/leases/" + lease_of(other) + "/ack").status, 200);
}

CAF_TEST(mistakes name what is wrong) {
  http_node f(memory + "[queue.dumb]\nTYPE = dummy\n");
  (void)f.push("mail", R"({"payload":1})");
  CAF_CHECK_EQUAL(f.post("/v1/queues/none/claim").status, 404);
  CAF_CHECK_EQUAL(f.post("/v1/queues/dumb/claim").status, 501);
  for (const auto* body :
       {R"({"max":0})", R"({"max":1001})", R"({"wait":"2h"})", R"({"lease":"1ms"})", R"({"mx":1})", "[]", "{"})
    CAF_CHECK_EQUAL(f.post("/v1/queues/mail/claim", body).status, 400);
  CAF_CHECK_EQUAL(f.count("mail", "waiting"), 1u);
  const auto lease = lease_of(f.post("/v1/queues/mail/claim"));
  for (const auto* body :
       {R"({"jobs":[{"id":"mail.0000000000001"}]})", R"({"jobs":[{"id":"x"}]})", R"({"jobs":7})", R"({"jobs":[7]})",
        R"({"jobs":[{"id":"mail.0000000000001","outcome":"done"}]})", R"({"rest":1})"})
    CAF_CHECK_EQUAL(f.post("/v1/leases/" + lease + "/ack", body).status, 400);
  CAF_CHECK_EQUAL(f.post("/v1/leases/nonsense/ack").status, 400);
  CAF_CHECK_EQUAL(f.post("/v1/leases/none.00000000000000000000000000000000/ack").status, 404);
  CAF_CHECK_EQUAL(f.post("/v1/leases/mail.00000000000000000000000000000000/ack").code(), "fenced");
  CAF_CHECK_EQUAL(f.post("/v1/leases/" + lease + "/ack").status, 200);
}

CAF_TEST(claims beyond CLAIM_RATE are throttled) {
  http_node f(memory + "[queue.mail]\nCLAIM_RATE = 1\nCLAIM_BURST = 2\n");
  for (int i = 0; i < 2; ++i) CAF_CHECK_EQUAL(f.post("/v1/queues/mail/claim", R"({"worker":"a"})").status, 200);
  const auto no = f.post("/v1/queues/mail/claim", R"({"worker":"a"})");
  CAF_CHECK_EQUAL(no.status, 429);
  CAF_CHECK_EQUAL(no.code(), "throttled");
  CAF_CHECK(holds(no.headers, "Retry-After: 1"));
  CAF_CHECK_EQUAL(f.post("/v1/queues/mail/claim", R"({"worker":"b"})").status, 200);
}

CAF_TEST(workers tell of themselves and hear what an operator wants) {
  http_node f(memory + "[queue.mail]\n");
  const std::string me = "/v1/workers/ann";
  const std::string told =
      R"({"host":"h","pid":7,"version":"1","started":"2026-05-01T12:00:00Z","queues":["mail"],"concurrency":8,"busy":2})";
  CAF_CHECK_EQUAL(f.post("/v1/workers/ann/quiet").status, 404);
  CAF_CHECK_EQUAL(f.post(me + "/beat", told).at("state"), json("run"));
  testing_support::answer woken;
  std::thread waits([&] { woken = f.post("/v1/queues/mail/claim", R"({"wait":"1h","worker":"ann"})"); });
  CAF_CHECK(eventually([&] { return f.post(me + "/quiet").status == 200 && !woken.text.empty(); }));
  waits.join();
  const auto heard = woken.at("orders");
  CAF_CHECK_EQUAL(heard["state"], json("quiet"));
  CAF_CHECK_EQUAL(f.post(me + "/scale", R"({"concurrency":3})").status, 200);
  CAF_CHECK_EQUAL(f.post(me + "/scale", R"({"concurrency":0})").status, 400);
  const auto orders = f.post(me + "/beat", told);
  CAF_CHECK_EQUAL(orders.at("state"), json("quiet"));
  CAF_CHECK_EQUAL(orders.at("concurrency"), json(3));
  const auto list = f.get("/v1/workers").at("workers");
  CAF_REQUIRE_EQUAL(list.size(), 1u);
  CAF_CHECK_EQUAL(list[0]["kind"], json("worker"));
  CAF_CHECK_EQUAL(list[0]["busy"], json(2));
  CAF_CHECK_EQUAL(list[0]["pid"], json(7));
  CAF_CHECK_EQUAL(f.post(me + "/beat", R"({"state":"stopped"})").status, 200);
  CAF_CHECK(f.get("/v1/workers").at("workers").empty());
}

CAF_TEST(a node that stops hands back what is in hand) {
  http_node f("[queue]\nTYPE = level\nSHUTDOWN_TIMEOUT = 300ms\n");
  (void)f.push("mail", R"([{"payload":1},{"payload":2}])");
  CAF_CHECK_EQUAL(f.post("/v1/queues/mail/claim", R"({"max":2})").at("jobs").size(), 2u);
  CAF_CHECK_EQUAL(f.node().stop(), 0u);
}
