#define CAF_SUITE lock_api

/// Locks of a real node over HTTP, side by side with its C++ face.

#include "tests/crash/real_node.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/temp_folder.hpp"

#include <caravan/caravan.hpp>

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "caf/test/unit_test.hpp"

using namespace caravan;
using namespace std::chrono_literals;
using crash::answer;
using crash::http_client;
using testing_support::eventually;
using json = nlohmann::json;

namespace {

struct fixture {
  testing_support::temp_folder folder;
  std::unique_ptr<caravan::node> node = [&] {
    node_options o;
    o.config_text = "[http]\nADDR = 127.0.0.1:0\n";
    o.data_dir = folder.path();
    o.use_environment = false;
    o.serve_http = true;
    o.quiet = true;
    return std::make_unique<caravan::node>(o);
  }();
  http_client http;

  answer post(const std::string& path, const json& body) {
    return http.post(node->http_port(), "/v1/locks/" + path, body);
  }
  answer get(const std::string& path) { return http.get(node->http_port(), "/v1/locks" + path); }
  static std::string value(const answer& a) { return a.body.value("value", ""); }
  static std::string code(const answer& a) { return a.body.value("code", ""); }
  bool waiting(int n) {
    return eventually([&] { return get("/k").body.value("waiting", -1) == n; });
  }
};

}  // namespace

CAF_TEST_FIXTURE_SCOPE(lock_api_tests, fixture)

CAF_TEST(a lock is acquired extended and released by its value) {
  const auto got = post("k/acquire", {{"ttl", "10s"}, {"owner", "ann"}});
  CAF_REQUIRE_EQUAL(got.status, 200);
  CAF_CHECK(got.body["token"].get<std::uint64_t>() > 0);
  const auto busy = post("k/acquire", json::object());
  CAF_CHECK(busy.status == 409 && code(busy) == "conflict");
  CAF_CHECK(!node->locks().try_lock("k").value());
  CAF_CHECK_EQUAL(post("k/extend", {{"value", value(got)}}).status, 200);
  const auto others = post("k/extend", {{"value", "77"}});
  CAF_CHECK(others.status == 409 && code(others) == "fenced");
  const auto shown = get("/k");
  CAF_CHECK_EQUAL(shown.status, 200);
  CAF_CHECK(shown.body["holder"]["owner"] == "ann" && shown.body["ttl"] == "10s" && !shown.body.contains("value"));
  CAF_CHECK(get("").body["locks"].size() == 1);
  CAF_CHECK_EQUAL(post("k/release", {{"value", value(got)}}).status, 200);
  CAF_CHECK(code(post("k/release", {{"value", value(got)}})) == "fenced");
  CAF_CHECK(code(get("/k")) == "not_found");
}

CAF_TEST(a lock ends with its time to live) {
  CAF_CHECK_EQUAL(post("k/acquire", {{"ttl", "100ms"}}).status, 200);
  lock_options o;
  o.timeout = 5s;
  CAF_CHECK(node->locks().lock("k", o).has_value());
}

CAF_TEST(who waits gets it in turn and whoever leaves is gone) {
  auto held = node->locks().lock("k").value();
  // A client that hangs up in the middle of its wait.
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  a.sin_port = htons(node->http_port());
  CAF_REQUIRE(::connect(fd, reinterpret_cast<sockaddr*>(&a), sizeof a) == 0);
  const std::string body = R"({"wait": "60s"})";
  const auto request =
      "POST /v1/locks/k/acquire HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + std::to_string(body.size()) +
      "\r\n\r\n" + body;
  CAF_REQUIRE(::write(fd, request.data(), request.size()) == static_cast<ssize_t>(request.size()));
  CAF_CHECK(waiting(1));
  answer got;
  std::jthread second([&] {
    http_client own;
    got = own.post(node->http_port(), "/v1/locks/k/acquire", {{"wait", "60s"}});
  });
  CAF_CHECK(waiting(2));
  ::close(fd);
  CAF_CHECK(waiting(1));
  CAF_CHECK(held.release());
  second.join();
  CAF_CHECK_EQUAL(got.status, 200);
}

CAF_TEST(a wait that was in vain says so) {
  const auto held = node->locks().lock("k").value();
  const auto in_vain = post("k/acquire", {{"wait", "100ms"}});
  CAF_CHECK(in_vain.status == 409 && code(in_vain) == "conflict");
}

CAF_TEST(an operator may take a lock away) {
  const auto held = node->locks().lock("k").value();
  CAF_CHECK_EQUAL(post("k/release", {{"force", true}}).status, 200);
  CAF_CHECK(held.lost().stop_requested());
  CAF_CHECK(code(post("k/release", {{"force", true}})) == "not_found");
}

CAF_TEST(mistakes are named) {
  const auto detail = [](const answer& a) {
    return a.status == 400 ? a.body.value("detail", "") : "status " + std::to_string(a.status);
  };
  CAF_CHECK(detail(post("k/acquire", {{"wait", "25h"}})).find("24h") != std::string::npos);
  CAF_CHECK(detail(post("k/acquire", {{"ttl", "1ms"}})).find("100ms") != std::string::npos);
  CAF_CHECK(detail(post("k/acquire", {{"tll", "1s"}})).find("did you mean") != std::string::npos);
  CAF_CHECK(detail(post("k/release", json::object())).find("value") != std::string::npos);
  CAF_CHECK(detail(post("k/release", {{"value", "1"}, {"force", true}})).find("both") != std::string::npos);
  CAF_CHECK(detail(post("k/extend", {{"value", "xyz"}})).find("value") != std::string::npos);
  CAF_CHECK(detail(post("%0a/acquire", json::object())).find("control character") != std::string::npos);
  CAF_CHECK(detail(post(std::string(600, 'k') + "/acquire", json::object())).find("512") != std::string::npos);
}

CAF_TEST(a node that stops answers whoever waits) {
  auto held = node->locks().lock("k").value();
  std::optional<errc> told;
  std::jthread waits([&] { told = node->locks().lock("k").failure().code; });
  CAF_CHECK(waiting(1));
  node->stop();
  waits.join();
  CAF_CHECK(told == errc::queue_closed);
  CAF_CHECK(held.lost().stop_requested());
  node.reset();
  CAF_CHECK(held.release());  // a handle may outlive its node
}

CAF_TEST_FIXTURE_SCOPE_END()
