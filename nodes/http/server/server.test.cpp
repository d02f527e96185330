#define CAF_SUITE http_server
#include "nodes/http/server/server.hpp"

#include <future>
#include <mutex>
#include <nlohmann/json.hpp>

#include "caf/test/unit_test.hpp"
#include "nodes/http/server/testing.hpp"

using namespace caravan;
using namespace caravan::http;
using namespace caravan::http::testing;

namespace {

void echo(request r, responder answer) {
  answer.reply(text_response(r.method + " " + std::string{r.param("name")} + " " +
                             std::string{r.query_value("q").value_or("-")} + " " + r.body));
}

void add_echo(server& s) {
  s.route("GET", "/echo/{name}", role::read, echo);
  s.route("POST", "/echo/{name}", role::push, echo);
}

std::string code_of(const answer& a) {
  const auto body = nlohmann::json::parse(a.body, nullptr, false);
  return body.is_object() ? body.value("code", "none") : "no json";
}

}  // namespace

CAF_TEST(requests are routed with their names and queries decoded) {
  server s{{}};
  add_echo(s);
  CAF_REQUIRE(s.start());
  CAF_CHECK(s.port() != 0);
  client c{s.port()};
  CAF_CHECK_EQUAL(c.ask(get("/echo/a%2Fb%20c?q=x%26y+z")).body, "GET a/b c x&y z ");
  CAF_CHECK_EQUAL(c.ask(post("/echo/p", "{\"n\":1}")).body, "POST p - {\"n\":1}");
  const auto absolute = c.ask("GET http://test/echo/abs?q=1 HTTP/1.1\r\nHost: test\r\n\r\n");
  CAF_CHECK_EQUAL(absolute.body, "GET abs 1 ");
  const auto missing = c.ask(get("/nowhere"));
  CAF_CHECK_EQUAL(missing.status, 404);
  CAF_CHECK_EQUAL(code_of(missing), "not_found");
  CAF_CHECK_EQUAL(missing.header("Content-Type"), "application/problem+json");
  const auto wrong = c.ask("DELETE /echo/x HTTP/1.1\r\nHost: test\r\n\r\n");
  CAF_CHECK_EQUAL(wrong.status, 405);
  CAF_CHECK_EQUAL(wrong.header("Allow"), "GET, HEAD, POST");
  CAF_CHECK_EQUAL(c.ask(get("/echo/%zz")).status, 400);
  CAF_CHECK_EQUAL(c.ask(get("/echo/a?q=%")).status, 400);
  CAF_CHECK_EQUAL(c.ask(get("/echo/last")).status, 200);  // all on one connection
  CAF_CHECK_EQUAL(s.connections(), 1u);
}

CAF_TEST(HEAD has the headers of GET and no body) {
  server s{{}};
  add_echo(s);
  CAF_REQUIRE(s.start());
  client c{s.port()};
  const auto a = c.ask("HEAD /echo/n HTTP/1.1\r\nHost: test\r\n\r\n", true);
  CAF_CHECK_EQUAL(a.status, 200);
  CAF_CHECK_EQUAL(a.header("Content-Length"), "9");
  CAF_CHECK_EQUAL(c.ask(get("/echo/n")).body, "GET n - ");
}

CAF_TEST(tokens open what their role covers) {
  options o;
  o.tokens = {{"r-token", role::read}, {"p-token", role::push}, {"a-token", role::admin}};
  std::mutex mutex;
  std::string logged;
  o.access_log = [&](const access_entry& a) {
    const std::lock_guard guard{mutex};
    logged.append(a.method).append(" ").append(a.path).append(" ").append(a.remote).append("\n");
  };
  server s{o};
  add_echo(s);
  s.route("GET", "/healthz", role::anyone, [](request, responder a) { a.reply(empty_response()); });
  s.route("DELETE", "/everything", role::admin, [](request, responder a) { a.reply(empty_response()); });
  CAF_REQUIRE(s.start());
  client c{s.port()};
  const auto as = [](std::string token) { return "Authorization: Bearer " + token + "\r\n"; };
  CAF_CHECK_EQUAL(c.ask(get("/healthz")).status, 204);
  const auto none = c.ask(get("/echo/x"));
  CAF_CHECK_EQUAL(none.status, 401);
  CAF_CHECK(none.header("WWW-Authenticate").starts_with("Bearer"));
  const auto unknown = c.ask(get("/echo/x?q=secret", as("wrong-token")));
  CAF_CHECK_EQUAL(unknown.status, 401);
  CAF_CHECK(unknown.body.find("wrong-token") == std::string::npos);
  CAF_CHECK_EQUAL(c.ask(get("/echo/x", as("r-token"))).status, 200);
  CAF_CHECK_EQUAL(c.ask(get("/echo/x", as("p-token"))).status, 200);
  const auto refused = c.ask(post("/echo/x", "b", as("r-token")));
  CAF_CHECK_EQUAL(refused.status, 403);
  CAF_CHECK_EQUAL(code_of(refused), "forbidden");
  CAF_CHECK(refused.body.find("role push") != std::string::npos);
  CAF_CHECK_EQUAL(c.ask(post("/echo/x", "b", as("p-token"))).status, 200);
  const auto everything = [&](std::string token) {
    return c.ask("DELETE /everything HTTP/1.1\r\nHost: t\r\n" + as(std::move(token)) + "\r\n").status;
  };
  CAF_CHECK_EQUAL(everything("p-token"), 403);
  CAF_CHECK_EQUAL(everything("a-token"), 204);
  s.stop();
  CAF_CHECK(logged.find("token") == std::string::npos);
  CAF_CHECK(logged.find("secret") == std::string::npos);
  CAF_CHECK(logged.find("GET /echo/x 127.0.0.1:") != std::string::npos);
}

CAF_TEST(a refused upload is not read) {
  options o;
  o.tokens = {{"t", role::admin}};
  server s{o};
  add_echo(s);
  CAF_REQUIRE(s.start());
  client c{s.port()};
  // The body never comes: the answer must not wait for it.
  CAF_CHECK_EQUAL(c.ask("POST /echo/x HTTP/1.1\r\nHost: t\r\nContent-Length: 1000\r\n\r\n").status, 401);
  CAF_CHECK_EQUAL(c.read_to_end(), "");
  CAF_CHECK(c.ended());
  client asking{s.port()};
  asking.send("POST /no HTTP/1.1\r\nHost: t\r\nExpect: 100-continue\r\nContent-Length: 1000\r\n\r\n");
  CAF_CHECK(asking.read_to_end().starts_with("HTTP/1.1 404 "));
}

CAF_TEST(pipelined requests are answered in their order) {
  server s{{}};
  add_echo(s);
  std::vector<responder> kept;
  std::mutex mutex;
  s.route("GET", "/later", role::read, [&](request, responder a) {
    const std::lock_guard guard{mutex};
    kept.push_back(std::move(a));
  });
  CAF_REQUIRE(s.start());
  client c{s.port()};
  std::string all = get("/later");
  for (int i = 0; i < 500; ++i)
    all += i % 3 == 0 ? post("/echo/" + std::to_string(i), "b") : get("/echo/" + std::to_string(i));
  CAF_REQUIRE(c.send(all));
  CAF_REQUIRE(eventually([&] {
    const std::lock_guard guard{mutex};
    return kept.size() == 1;
  }));
  kept.front().reply(text_response("first"));
  CAF_CHECK_EQUAL(c.read().body, "first");
  int wrong = 0;
  for (int i = 0; i < 500; ++i) {
    const auto body = c.read().body;
    wrong += body != (i % 3 == 0 ? "POST " + std::to_string(i) + " - b" : "GET " + std::to_string(i) + " - ");
  }
  CAF_CHECK_EQUAL(wrong, 0);
}

CAF_TEST(a request may come in single bytes) {
  server s{{}};
  add_echo(s);
  CAF_REQUIRE(s.start());
  client c{s.port()};
  for (const auto& text : {post("/echo/slow", "body"),
                           std::string{"POST /echo/slow HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n"
                                       "2;ext=\"1\"\r\nbo\r\n2\r\ndy\r\n0\r\nTrailer: x\r\n\r\n"}}) {
    for (const auto byte : text) CAF_REQUIRE(c.send({&byte, 1}));
    CAF_CHECK_EQUAL(c.read().body, "POST slow - body");
  }
}

CAF_TEST(bodies may be chunked and asked for first) {
  server s{{}};
  add_echo(s);
  CAF_REQUIRE(s.start());
  client c{s.port()};
  c.send("POST /echo/c HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: Chunked\r\n\r\n5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n");
  CAF_CHECK_EQUAL(c.read().body, "POST c - hello!");
  c.send("POST /echo/e HTTP/1.1\r\nHost: t\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
  CAF_CHECK_EQUAL(c.read_until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  c.send("abc");
  CAF_CHECK_EQUAL(c.read().body, "POST e - abc");
  // Whoever sends the body at once needs no permission.
  c.send(post("/echo/f", "abc", "Expect: 100-continue\r\n"));
  CAF_CHECK(c.read_until("\r\n\r\n").starts_with("HTTP/1.1 200 "));
  CAF_CHECK_EQUAL(c.read_bytes(12), "POST f - abc");
}

CAF_TEST(old clients are closed unless they ask) {
  server s{{}};
  add_echo(s);
  CAF_REQUIRE(s.start());
  client c{s.port()};
  const auto kept = c.ask("GET /echo/x HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  CAF_CHECK_EQUAL(kept.header("Connection"), "keep-alive");
  CAF_CHECK_EQUAL(c.ask("GET /echo/x HTTP/1.0\r\n\r\n").header("Connection"), "close");
  CAF_CHECK_EQUAL(c.read_to_end(), "");
  client d{s.port()};
  CAF_CHECK_EQUAL(d.ask(get("/echo/x", "Connection: close\r\n")).header("Connection"), "close");
  CAF_CHECK_EQUAL(d.read_to_end(), "");
  client half{s.port()};  // ends its side and waits for the answer
  half.send(get("/echo/half"));
  half.half_close();
  CAF_CHECK_EQUAL(half.read().body, "GET half - ");
  CAF_CHECK_EQUAL(half.read_to_end(), "");
}

CAF_TEST(an answer may come later from any thread but once) {
  server s{{.threads = 2}};
  std::promise<responder> got;
  s.route("GET", "/later", role::read, [&](request, responder a) { got.set_value(std::move(a)); });
  CAF_REQUIRE(s.start());
  client c{s.port()};
  c.send(get("/later"));
  auto a = got.get_future().get();
  const auto copy = a;
  CAF_CHECK(!a.client_left());
  std::thread{[a = std::move(a)] { a.reply(json_response("{\"late\":true}", 202)); }}.join();
  CAF_CHECK(!copy.reply(text_response("again")));
  CAF_CHECK(copy.stream().closed());
  const auto answered = c.read();
  CAF_CHECK_EQUAL(answered.status, 202);
  CAF_CHECK_EQUAL(answered.body, "{\"late\":true}");
  CAF_CHECK_EQUAL(answered.header("Content-Type"), "application/json");
}

CAF_TEST(a dropped responder and a throwing handler answer 500) {
  options o;
  std::atomic<int> reports{0};
  o.error_log = [&](std::string_view) { ++reports; };
  server s{o};
  std::promise<responder> got;
  s.route("GET", "/drop", role::read, [](request, responder) {});
  s.route("GET", "/drop-later", role::read, [&](request, responder a) { got.set_value(std::move(a)); });
  s.route("GET", "/throw", role::read, [](request, responder) { throw std::runtime_error("secret"); });
  s.route("GET", "/bad-status", role::read, [](request, responder a) { a.reply(text_response("", 42)); });
  s.route("GET", "/split", role::read, [](request, responder a) {
    a.reply(response{200, "text/plain", {{"X-Name", "a\r\nSet-Cookie: b"}}, ""});
  });
  CAF_REQUIRE(s.start());
  client c{s.port()};
  const auto dropped = c.ask(get("/drop"));
  CAF_CHECK_EQUAL(dropped.status, 500);
  CAF_CHECK_EQUAL(code_of(dropped), "no_answer");
  c.send(get("/drop-later"));
  { const auto dies = got.get_future().get(); }
  CAF_CHECK_EQUAL(c.read().status, 500);
  const auto thrown = c.ask(get("/throw"));
  CAF_CHECK_EQUAL(thrown.status, 500);
  CAF_CHECK(thrown.body.find("secret") == std::string::npos);
  CAF_CHECK_EQUAL(reports.load(), 1);
  CAF_CHECK_EQUAL(c.ask(get("/bad-status")).status, 500);
  const auto split = c.ask(get("/split"));
  CAF_CHECK_EQUAL(split.header("X-Name"), "a  Set-Cookie: b");
  CAF_CHECK_EQUAL(split.header("Set-Cookie"), "");
}

CAF_TEST(slow work runs elsewhere and too much of it is refused) {
  server s{{.blocking_threads = 2, .blocking_queue = 3}};
  std::promise<void> go;
  const auto gate = go.get_future().share();
  std::atomic<int> running{0};
  s.route("GET", "/slow", role::read, [&](request, responder a) {
    s.post_blocking(std::move(a), [&, gate](const responder& out) {
      ++running;
      gate.wait();
      out.reply(text_response("done"));
    });
  });
  s.route("GET", "/fails", role::read, [&](request, responder a) {
    s.post_blocking(std::move(a), [](const responder&) { throw std::runtime_error("x"); });
  });
  s.route("GET", "/fast", role::read, [](request, responder a) { a.reply(text_response("fast")); });
  CAF_REQUIRE(s.start());
  std::vector<client> busy;
  for (int i = 0; i < 2; ++i) busy.emplace_back(s.port()).send(get("/slow"));
  CAF_REQUIRE(eventually([&] { return running == 2; }));
  for (int i = 0; i < 3; ++i) busy.emplace_back(s.port()).send(get("/slow"));
  // Which of four comes last is open: one of them must be refused, at once.
  client fourth{s.port()};
  fourth.send(get("/slow"));
  client fast{s.port()};
  CAF_CHECK_EQUAL(fast.ask(get("/fast")).body, "fast");
  CAF_CHECK_EQUAL(s.connections(), 7u);
  go.set_value();
  int done = 0;
  int refused = 0;
  busy.push_back(std::move(fourth));
  for (auto& c : busy) {
    const auto a = c.read();
    done += a.status == 200;
    refused += a.status == 503 && a.header("Retry-After") == "1";
  }
  CAF_CHECK_EQUAL(done + refused, 6);
  CAF_CHECK(done >= 5);
  CAF_CHECK_EQUAL(fast.ask(get("/fails")).status, 500);
}

CAF_TEST(a port in use is named with a remedy) {
  server first{{}};
  CAF_REQUIRE(first.start());
  server second{{.port = first.port()}};
  const auto taken = second.start();
  CAF_REQUIRE(!taken);
  CAF_CHECK_EQUAL(to_string(taken.failure().code), "conflict");
  CAF_CHECK(taken.failure().text.find("127.0.0.1:" + std::to_string(first.port())) != std::string::npos);
  CAF_CHECK(taken.failure().text.find("address in use") != std::string::npos);
  const auto code = [](options o) {
    server s{std::move(o)};
    const auto started = s.start();
    return started ? std::string_view{"started"} : to_string(started.failure().code);
  };
  CAF_CHECK_EQUAL(code({.address = "nonsense"}), "invalid_argument");
  CAF_CHECK_EQUAL(code({.address = "192.0.2.1"}), "invalid_argument");
  CAF_CHECK_EQUAL(code({.tls_certificate = "/nowhere.pem"}), "invalid_argument");
  CAF_CHECK_EQUAL(code({.tls_certificate = "/nowhere.pem", .tls_key = "/nowhere.pem"}), "invalid_argument");
  CAF_CHECK_EQUAL(code({.address = "localhost"}), "started");
  CAF_CHECK_EQUAL(first.start().has_value(), false);
  CAF_CHECK(is_loopback("127.0.0.1") && is_loopback("::1") && is_loopback("localhost") && is_loopback("127.9.9.9"));
  CAF_CHECK(!is_loopback("0.0.0.0") && !is_loopback("::") && !is_loopback("example.org") && !is_loopback(""));
}
