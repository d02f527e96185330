#define CAF_SUITE http_caches
#include "nodes/cache_host.hpp"

#include "config/ini.hpp"
#include "tests/support/http_node.hpp"
#include "tests/support/redis_server.hpp"

#include "caf/test/unit_test.hpp"

using namespace caravan;
using namespace std::chrono_literals;
using testing_support::answer;
using testing_support::http_node;
using testing_support::redis_server;
using json = nlohmann::json;

namespace {

bool holds(const std::string& text, std::string_view part) {
  if (text.find(part) != std::string::npos) return true;
  CAF_ERROR("no \"" + std::string(part) + "\" in: " + text);
  return false;
}

json cache_in(const answer& a, const std::string& name) {
  for (const auto& c : a.at("caches"))
    if (c.value("name", "") == name) return c;
  return {};
}

node_log silent() {
  return node_log(config::log_settings{config::log_level::error, config::log_format::json, "/dev/null"});
}

}  // namespace

CAF_TEST(a node without a cache section has a cache in memory that is not open before it is used) {
  http_node f;
  CAF_CHECK(cache_in(f.get("/v1/caches"), "default").value("open", true) == false);
  auto cache = f.node().cache();
  CAF_CHECK(cache.put("user:7", "ann", 1h).has_value());
  CAF_CHECK(f.node().cache().get("user:7").value() == "ann");
  const auto shown = cache_in(f.get("/v1/caches"), "default");
  CAF_CHECK(shown.value("open", false) == true);
  CAF_CHECK_EQUAL(shown.value("entries", 0), 1);
  CAF_CHECK_EQUAL(shown.value("hits", 0), 1);
}

CAF_TEST(values over http) {
  http_node f("[cache.avatars]\nADAPTER = twoqueue\nHOST = 10\n[cache.off]\nENABLED = false\n");
  auto cache = f.node().cache("avatars");
  CAF_CHECK(cache.put("a/b", "text", 0s).has_value());
  CAF_CHECK(cache.put("raw", "\xff\x01", 0s).has_value());
  CAF_CHECK_EQUAL(f.get("/v1/caches/avatars/a%2Fb").at("value"), json("text"));
  CAF_CHECK_EQUAL(f.get("/v1/caches/avatars/raw").at("value_base64"), json("/wE="));
  CAF_CHECK_EQUAL(f.get("/v1/caches/avatars/none").status, 404);
  CAF_CHECK_EQUAL(f.get("/v1/caches/default/raw").status, 404);
  const auto unknown = f.get("/v1/caches/avatar/raw");
  CAF_CHECK_EQUAL(unknown.status, 404);
  CAF_CHECK(holds(unknown.detail(), "did you mean \"avatars\"?"));
  CAF_CHECK_EQUAL(f.get("/v1/caches/off/raw").status, 409);
  CAF_CHECK_EQUAL(f.ask("DELETE", "/v1/caches/avatars/raw").at("removed"), json(true));
  CAF_CHECK_EQUAL(f.ask("DELETE", "/v1/caches/avatars/raw").at("removed"), json(false));
  CAF_CHECK(f.node().cache().put("theirs", "stays", 0s).has_value());
  CAF_CHECK_EQUAL(f.post("/v1/caches/avatars/clear").status, 200);
  CAF_CHECK(cache.exists("a/b").value() == false);
  CAF_CHECK(f.node().cache().exists("theirs").value());
  // A key that is called like the action.
  CAF_CHECK(cache.put("clear", "me", 0s).has_value());
  CAF_CHECK_EQUAL(f.get("/v1/caches/avatars/clear").at("value"), json("me"));
}

CAF_TEST(only an admin token looks into a cache) {
  http_node f(
      "READ_TOKEN = read-0123456789abcdef\nADMIN_TOKEN = admin-0123456789abcdef\n"
      "PUSH_TOKEN = push-0123456789abcdef\nWORK_TOKEN = work-0123456789abcdef\n");
  const std::vector<std::string> reader{"Authorization: Bearer read-0123456789abcdef"};
  const std::vector<std::string> admin{"Authorization: Bearer admin-0123456789abcdef"};
  CAF_CHECK(f.node().cache().put("k", "v", 0s).has_value());
  CAF_CHECK_EQUAL(f.get("/v1/caches", reader).status, 200);
  CAF_CHECK_EQUAL(f.get("/v1/caches/default/k", reader).status, 403);
  CAF_CHECK_EQUAL(f.post("/v1/caches/default/clear", "", reader).status, 403);
  CAF_CHECK_EQUAL(f.get("/v1/caches/default/k", admin).status, 200);
}

CAF_TEST(two nodes share a cache in redis) {
  redis_server server;
  const auto settings = "[cache]\nADAPTER = redis\nHOST = " + server.url() + "\n[cache.last_commit]\n";
  http_node one(settings), two(settings);
  CAF_CHECK(one.node().cache("last_commit").put("main", "abc", 1h).has_value());
  CAF_CHECK_EQUAL(two.get("/v1/caches/last_commit/main").at("value"), json("abc"));
  CAF_CHECK_EQUAL(two.get("/v1/caches/default/main").status, 404);
  CAF_CHECK(holds(cache_in(two.get("/v1/caches"), "last_commit").value("engine", ""), "redis at 127.0.0.1"));
  server.stop();
  CAF_CHECK_EQUAL(two.get("/v1/caches/last_commit/main").status, 503);
  CAF_CHECK(one.node().cache("last_commit").get_string("main", [] { return std::string("loaded"); }).value() ==
            "loaded");
}

CAF_TEST(an engine without an address is refused where it is opened) {
  http_node f("[cache.a]\nADAPTER = memcache\n[cache.b]\nADAPTER = redis\n");
  const auto refused = [&](const char* name) {
    try {
      (void)f.node().cache(name);
      return error{};
    } catch (const exception& e) {
      return e.why();
    }
  };
  CAF_CHECK(refused("a").code == errc::invalid_argument);
  CAF_CHECK(holds(refused("a").text, "cache \"a\": no memcached is named; set HOST in [cache.a]"));
  CAF_CHECK(holds(refused("b").text, "cache \"b\": no Redis is named; set HOST in [cache.b], or CONN_STR in [redis]"));
  CAF_CHECK_EQUAL(f.get("/v1/caches/b/x").status, 400);
}

CAF_TEST(an engine that is down at the start is tried ten times and found when it comes) {
  redis_server server;
  const auto text = "[cache]\nADAPTER = redis\nHOST = " + server.url() + "\n";
  server.stop();
  const auto parsed = config::parse_ini(text, "test");
  auto log = silent();
  int pauses = 0;
  std::vector<std::string> troubles;
  cache_host host({&parsed.content, &log,
                   [&](const std::string& name, const std::string& what) { troubles.push_back(name + ": " + what); },
                   [&](std::chrono::milliseconds pause) {
                     CAF_CHECK(pause == 1s);
                     return ++pauses > 0;
                   }});
  auto cache = host.open("");
  CAF_REQUIRE(cache.has_value());
  CAF_CHECK_EQUAL(pauses, 9);
  CAF_REQUIRE(troubles.size() == 1);
  CAF_CHECK(holds(troubles[0], "default: "));
  CAF_CHECK(holds(troubles[0], "tried 10 times"));
  CAF_CHECK(!cache->get("k"));
  server.start();
  CAF_CHECK(cache->put("k", "v", 0s).has_value());
  CAF_CHECK(host.open("default")->get("k").value() == "v");
  CAF_CHECK_EQUAL(pauses, 9);
}

CAF_TEST(a wait that is given up ends at once) {
  const auto parsed = config::parse_ini("[cache]\nADAPTER = memcache\nHOST = 127.0.0.1:1\n", "test");
  auto log = silent();
  int pauses = 0;
  cache_host host({&parsed.content, &log, {}, [&](std::chrono::milliseconds) { return ++pauses < 3; }});
  CAF_CHECK(host.open("").has_value());
  CAF_CHECK_EQUAL(pauses, 3);
}
