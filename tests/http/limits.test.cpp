#define CAF_SUITE http_limits_api
#include "tests/support/http_node.hpp"
#include "tests/support/redis_server.hpp"

#include "caf/test/unit_test.hpp"

using namespace caravan;
using namespace std::chrono_literals;
using testing_support::http_node;
using testing_support::redis_server;
using json = nlohmann::json;

namespace {

bool holds(const std::string& text, std::string_view part) {
  if (text.find(part) != std::string::npos) return true;
  CAF_ERROR("no \"" + std::string(part) + "\" in: " + text);
  return false;
}

int permitted(http_node& f, const std::string& name, int tries) {
  int n = 0;
  for (int i = 0; i < tries; ++i)
    n += f.post("/v1/limits/" + name + "/take", R"({"key":"ann"})").at("permitted") == json(true);
  return n;
}

}  // namespace

CAF_TEST(a limit over http and in the program is one) {
  http_node f("[limit.sms]\nRATE = 5\nPER = 24h\n");
  auto sms = f.node().limit("sms");
  CAF_CHECK(sms.take("ann", 2).value());
  CAF_CHECK_EQUAL(permitted(f, "sms", 9), 3);
  CAF_CHECK(!sms.take("ann").value());
  CAF_CHECK(sms.take("bob").value());
  const auto list = f.get("/v1/limits").at("limits");
  CAF_REQUIRE(list.size() == 1);
  CAF_CHECK_EQUAL(list[0].value("taken", 0), 6);
  CAF_CHECK_EQUAL(list[0].value("refused", 0), 7);
  CAF_CHECK_EQUAL(f.get("/v1/limits/sms").at("top")[0].value("key", ""), "ann");
  CAF_CHECK_EQUAL(f.post("/v1/limits/sms/reset", R"({"key":"ann"})").status, 200);
  CAF_CHECK_EQUAL(permitted(f, "sms", 9), 5);
  CAF_CHECK_EQUAL(f.ask("PUT", "/v1/limits/sms/rate", R"({"rate":7,"burst":7,"per":"1h"})").at("burst"), json(7));
  CAF_CHECK_EQUAL(f.post("/v1/limits/sms/take", R"({"key":"eve","n":7})").at("permitted"), json(true));
}

CAF_TEST(wrong calls name what is wrong) {
  http_node f("[limit.sms]\nRATE = 5\nPER = 24h\n");
  CAF_CHECK_EQUAL(f.post("/v1/limits/smss/take", R"({"key":"a"})").status, 404);
  CAF_CHECK(holds(f.post("/v1/limits/smss/take", R"({"key":"a"})").detail(), "did you mean \"sms\"?"));
  CAF_CHECK_EQUAL(f.post("/v1/limits/sms/take", "{}").status, 400);
  CAF_CHECK_EQUAL(f.post("/v1/limits/sms/take", R"({"key":"a","n":0})").status, 400);
  CAF_CHECK_EQUAL(f.post("/v1/limits/sms/take", R"({"key":"a","n":6})").status, 400);
  CAF_CHECK_EQUAL(f.post("/v1/limits/sms/take", R"({"key":"a","m":1})").status, 400);
  CAF_CHECK_EQUAL(f.ask("PUT", "/v1/limits/sms/rate", R"({"burst":1})").status, 400);
  CAF_CHECK_EQUAL(f.ask("PUT", "/v1/limits/sms/rate", R"({"rate":1,"per":"0s"})").status, 400);
  try {
    (void)f.node().limit("none");
    CAF_ERROR("a limit that no section names");
  } catch (const exception& e) {
    CAF_CHECK(e.why().code == errc::not_found);
  }
}

CAF_TEST(two nodes count together in redis and each for itself while it is down) {
  redis_server server;
  const auto settings =
      "[redis]\nCONN_STR = " + server.url() + "\n[limit.sms]\nRATE = 5\nPER = 24h\nSTORE = redis\nWHEN_DOWN = local\n";
  http_node one(settings), two(settings);
  CAF_CHECK_EQUAL(permitted(one, "sms", 3) + permitted(two, "sms", 9), 5);
  server.stop();
  CAF_CHECK_EQUAL(permitted(one, "sms", 9), 5);
  CAF_CHECK_EQUAL(permitted(two, "sms", 9), 5);
  CAF_CHECK_EQUAL(one.get("/v1/limits").at("limits")[0].value("down", false), true);
  CAF_CHECK_EQUAL(one.post("/v1/limits/sms/reset", R"({"key":"ann"})").status, 503);
  server.start();
  CAF_CHECK(testing_support::eventually([&] {
    (void)permitted(one, "sms", 1);
    return !one.get("/v1/limits").at("limits")[0].value("down", true);
  }));
  CAF_CHECK_EQUAL(permitted(one, "sms", 3), 0);
}

CAF_TEST(a node turns requests away when it is asked too much) {
  http_node f("[qos]\nENABLED = true\nMAX_INFLIGHT = 1\nMAX_WAITING = 0\n");
  CAF_CHECK_EQUAL(f.get("/v1/queues").status, 200);
  const auto shown = f.get("/v1/node").at("overload");
  CAF_CHECK_EQUAL(shown.value("in_flight", 0), 1);
  CAF_CHECK(shown.value("admitted", 0) >= 2);
  http_node off;
  CAF_CHECK(off.get("/v1/node").at("overload").is_null());
}
