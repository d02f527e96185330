#define CAF_SUITE http_streams
#include <mutex>

#include "caf/test/unit_test.hpp"
#include "nodes/http/server/server.hpp"
#include "nodes/http/server/testing.hpp"

using namespace caravan;
using namespace caravan::http;
using namespace caravan::http::testing;

namespace {

using clock = std::chrono::steady_clock;

/// A server whose GET /events leaves its streams here.
struct fixture {
  explicit fixture(options o = {}) : web(std::move(o)) {
    web.route("GET", "/events", role::read, [this](request r, responder a) {
      auto s = a.stream();
      s.on_close([this] { ++closed; });
      const std::lock_guard guard{mutex};
      last_id = r.last_event_id();
      streams.push_back(std::move(s));
    });
    web.route("GET", "/hello", role::read, [](request, responder a) { a.reply(text_response("hello")); });
    web.route("GET", "/wait", role::read, [this](request, responder a) {
      const std::lock_guard guard{mutex};
      waiting.push_back(std::move(a));
    });
    started = web.start().has_value();
  }
  std::size_t open() {
    const std::lock_guard guard{mutex};
    return streams.size();
  }
  event_stream stream(std::size_t i = 0) {
    const std::lock_guard guard{mutex};
    return streams.at(i);
  }
  std::size_t running() {
    const std::lock_guard guard{mutex};
    return waiting.size();
  }

  std::atomic<int> closed{0};
  std::mutex mutex;
  std::vector<event_stream> streams;
  std::vector<responder> waiting;
  std::string last_id;
  bool started = false;
  server web;  // last: it calls into the rest until it has stopped
};

}  // namespace

CAF_TEST(events arrive as they are sent) {
  fixture f;
  CAF_REQUIRE(f.started);
  client c{f.web.port()};
  c.send(get("/events", "Last-Event-ID: 41\r\n"));
  const auto head = c.read_until("\r\n\r\n");
  CAF_CHECK(head.starts_with("HTTP/1.1 200 "));
  CAF_CHECK(head.find("Content-Type: text/event-stream\r\n") != std::string::npos);
  CAF_CHECK(head.find("Cache-Control: no-cache\r\n") != std::string::npos);
  CAF_REQUIRE(eventually([&] { return f.open() == 1; }));
  CAF_CHECK_EQUAL(f.last_id, "41");
  CAF_CHECK(f.stream().send(sse_event("{\"n\":42}", "moved", "42")));
  CAF_CHECK_EQUAL(c.read_until("\n\n\r\n"), "24\r\nid: 42\nevent: moved\ndata: {\"n\":42}\n\n\r\n");
  f.stream().send("a");
  f.stream().send("");
  f.stream().send("b");
  f.stream().close();
  CAF_CHECK(!f.stream().send("c"));
  std::string rest = c.read_until("0\r\n\r\n");
  CAF_CHECK_EQUAL(rest, "1\r\na\r\n1\r\nb\r\n0\r\n\r\n");
  CAF_CHECK(eventually([&] { return f.closed == 1; }));
  CAF_CHECK_EQUAL(c.ask(get("/hello")).body, "hello");  // the connection goes on
}

CAF_TEST(a quiet stream shows that it lives) {
  options o;
  o.heartbeat = 20ms;
  fixture f{o};
  client c{f.web.port()};
  c.send(get("/events"));
  c.read_until("\r\n\r\n");
  for (int i = 0; i < 5; ++i) CAF_CHECK_EQUAL(c.read_until("\n\n\r\n"), "3\r\n:\n\n\r\n");
  client old{f.web.port()};
  old.send("GET /events HTTP/1.0\r\n\r\n");
  CAF_CHECK(old.read_until("\r\n\r\n").find("chunked") == std::string::npos);
  CAF_CHECK_EQUAL(old.read_until("\n\n"), ":\n\n");
}

CAF_TEST(HEAD of a stream ends at once) {
  fixture f;
  client c{f.web.port()};
  CAF_CHECK_EQUAL(c.ask("HEAD /events HTTP/1.1\r\nHost: t\r\n\r\n", true).status, 200);
  CAF_CHECK(eventually([&] { return f.closed == 1; }));
  CAF_CHECK_EQUAL(c.ask(get("/hello")).body, "hello");
}

CAF_TEST(fifty clients hear everything in order) {
  options o;
  o.threads = 2;
  o.stream_messages = 10'000;
  fixture f{o};
  std::vector<client> clients;
  for (int i = 0; i < 50; ++i) clients.emplace_back(f.web.port()).send(get("/events"));
  CAF_REQUIRE(eventually([&] { return f.open() == 50; }));
  const auto produce = [&](int from) {
    for (int n = 0; n < 100; ++n)
      for (std::size_t i = 0; i < 50; ++i) f.stream(i).send("<" + std::to_string(from + n) + ">");
  };
  std::thread other{produce, 1000};
  produce(0);
  other.join();
  CAF_CHECK_EQUAL(client{f.web.port()}.ask(get("/hello")).body, "hello");
  for (std::size_t i = 0; i < 50; ++i) f.stream(i).close();
  int wrong = 0;
  for (auto& c : clients) {
    const auto text = c.read().body;
    std::size_t at[2] = {0, 0};
    for (int n = 0; n < 100; ++n)
      for (int p = 0; p < 2; ++p) {
        const auto found = text.find("<" + std::to_string(p * 1000 + n) + ">", at[p]);
        wrong += found == std::string::npos;
        at[p] = found == std::string::npos ? at[p] : found;
      }
  }
  CAF_CHECK_EQUAL(wrong, 0);
}

CAF_TEST(a slow client is dropped and the others are not ) {
  fixture f;
  client slow{f.web.port(), 4096};
  slow.send(get("/events"));
  CAF_REQUIRE(eventually([&] { return f.open() == 1; }));
  client good{f.web.port()};
  good.send(get("/events"));
  good.read_until("\r\n\r\n");
  CAF_REQUIRE(eventually([&] { return f.open() == 2; }));
  const std::string message(100'000, 'm');
  int sent = 0;
  std::size_t most = 0;
  while (f.stream(0).send(message) && sent < 10'000) {
    ++sent;
    most = std::max(most, f.stream(0).waiting());
    if (sent % 10 == 0) {
      CAF_REQUIRE(f.stream(1).send(message));
      CAF_REQUIRE(good.read_until("m\r\n").size() > message.size());
    }
  }
  CAF_CHECK(sent < 10'000);
  CAF_CHECK(most <= 64);
  CAF_CHECK(f.stream(0).closed());
  CAF_CHECK(eventually([&] { return f.closed == 1; }));
  CAF_CHECK(!f.stream(1).closed());
  CAF_CHECK(eventually([&] { return f.web.connections() == 1; }));
}

CAF_TEST(a client that never reads is dropped by time as well) {
  options o;
  o.write_deadline = 50ms;
  o.stream_messages = 100'000;
  o.stream_bytes = 1u << 30;
  fixture f{o};
  client slow{f.web.port(), 4096};
  slow.send(get("/events"));
  CAF_REQUIRE(eventually([&] { return f.open() == 1; }));
  for (int i = 0; i < 200; ++i) f.stream().send(std::string(100'000, 'm'));
  CAF_CHECK(eventually([&] { return f.closed == 1; }));
  CAF_CHECK(!f.stream().send("x"));
}

CAF_TEST(a leaving client is noticed) {
  fixture f;
  for (int i = 0; i < 10; ++i) {
    client c{f.web.port()};
    c.send(get("/events"));
    c.read_until("\r\n\r\n");
    if (i % 2 == 0)
      c.abort();
    else
      c.close();
  }
  CAF_CHECK(eventually([&] { return f.closed == 10; }));
  CAF_CHECK(f.stream(3).closed());
  CAF_CHECK(eventually([&] { return f.web.connections() == 0; }));
  bool called = false;
  f.stream(0).on_close([&] { called = true; });
  CAF_CHECK(called);
}

CAF_TEST(a stream ends with its last handle) {
  fixture f;
  client c{f.web.port()};
  c.send(get("/events"));
  CAF_REQUIRE(eventually([&] { return f.open() == 1; }));
  f.stream().send("last words");
  {
    const std::lock_guard guard{f.mutex};
    f.streams.clear();
  }
  CAF_CHECK_EQUAL(c.read().body, "last words");
}

CAF_TEST(stop is quick when nothing runs) {
  fixture f;
  std::vector<client> idle;
  for (int i = 0; i < 20; ++i) CAF_CHECK_EQUAL(idle.emplace_back(f.web.port()).ask(get("/hello")).status, 200);
  client stream{f.web.port()};
  stream.send(get("/events"));
  stream.read_until("\r\n\r\n");
  CAF_REQUIRE(eventually([&] { return f.open() == 1; }));
  const auto port = f.web.port();
  std::thread reader{[&] {
    stream.read_to_end();
    stream.close();
  }};
  const auto began = clock::now();
  f.web.stop(60s);
  CAF_CHECK(clock::now() - began < 20s);
  reader.join();
  CAF_CHECK(stream.ended());
  CAF_CHECK_EQUAL(f.closed.load(), 1);
  CAF_CHECK_EQUAL(f.web.connections(), 0u);
  CAF_CHECK(!client{port}.connected());
  CAF_CHECK(!f.stream().send("x"));
  f.web.stop(60s);
}

CAF_TEST(stop lets a running request finish) {
  fixture f;
  client c{f.web.port()};
  c.send(get("/wait") + get("/hello"));
  CAF_REQUIRE(eventually([&] { return f.running() == 1; }));
  std::thread stopper{[&] { f.web.stop(60s); }};
  CAF_REQUIRE(eventually([&] { return !client{f.web.port()}.connected(); }));
  f.waiting.front().reply(text_response("finished"));
  const auto a = c.read();
  CAF_CHECK_EQUAL(a.body, "finished");
  CAF_CHECK_EQUAL(a.header("Connection"), "close");
  CAF_CHECK_EQUAL(c.read_to_end(), "");
  c.close();
  stopper.join();
}

CAF_TEST(stop cuts what does not finish and late answers are harmless) {
  fixture f;
  client c{f.web.port()};
  c.send(get("/wait"));
  client partial{f.web.port()};
  partial.send("POST /x HTTP/1.1\r\n");
  CAF_REQUIRE(eventually([&] { return f.running() == 1; }));
  const auto began = clock::now();
  f.web.stop(50ms);
  CAF_CHECK(clock::now() - began >= 50ms);
  CAF_CHECK_EQUAL(c.read_to_end(), "");
  CAF_CHECK(c.ended());
  CAF_CHECK(f.waiting.front().client_left());
  f.waiting.front().reply(text_response("too late"));
}

CAF_TEST(responders and streams may outlive the server) {
  responder kept;
  event_stream open;
  std::atomic<bool> got{false};
  client c{0};
  {
    server s{{}};
    s.route("GET", "/wait", role::read, [&](request, responder a) {
      kept = std::move(a);
      got = true;
    });
    s.route("GET", "/events", role::read, [&](request, responder a) {
      open = a.stream();
      got = true;
    });
    CAF_REQUIRE(s.start());
    client first{s.port()};
    first.send(get("/wait"));
    CAF_REQUIRE(eventually([&] { return got.exchange(false); }));
    client second{s.port()};
    second.send(get("/events"));
    CAF_REQUIRE(eventually([&] { return got.load(); }));
  }
  kept.reply(text_response("nobody"));
  CAF_CHECK(!kept.stream().send("x"));
  CAF_CHECK(!open.send("x"));
  CAF_CHECK(open.closed());
}

CAF_TEST(servers start and stop again and again under load) {
  for (int round = 0; round < 20; ++round) {
    options o;
    o.threads = 1 + static_cast<unsigned>(round % 3);
    fixture f{o};
    CAF_REQUIRE(f.started);
    std::vector<std::thread> load;
    std::atomic<bool> stopped{false};
    for (int i = 0; i < 4; ++i)
      load.emplace_back([&] {
        while (!stopped) {
          client c{f.web.port()};
          c.ask(get("/hello"));
          c.send(get("/events"));
        }
      });
    eventually([&] { return f.open() > 5; });
    f.web.stop(round % 2 == 0 ? 0ms : 5s);
    stopped = true;
    for (auto& t : load) t.join();
    CAF_CHECK_EQUAL(f.web.connections(), 0u);
  }
}
