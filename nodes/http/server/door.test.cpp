#define CAF_SUITE http_door
#include "nodes/http/server/rank.hpp"

#include <mutex>

#include "caf/test/unit_test.hpp"
#include "nodes/http/server/testing.hpp"

using namespace caravan;
using namespace caravan::http;
using namespace caravan::http::testing;

namespace {

options with_overload(std::size_t in_flight, std::size_t waiting, std::chrono::milliseconds target = 1h) {
  options o;
  o.overload = {true, in_flight, waiting, target};
  return o;
}

/// Requests wait here until they are answered.
struct fixture {
  explicit fixture(options o) : web(std::move(o)) {
    const auto keep = [this](request r, responder a) {
      const std::lock_guard guard{mutex};
      order.push_back(r.path);
      waiting.push_back(std::move(a));
    };
    web.route("GET", "/read", role::read, keep);
    web.route("POST", "/change", role::admin, keep);
    web.route("POST", "/push", role::push, keep);
    web.route("GET", "/health", role::anyone, [](request, responder a) { a.reply(text_response("ok")); });
    web.route("GET", "/events", role::read, [this](request, responder a) {
      const std::lock_guard guard{mutex};
      streams.push_back(a.stream());
    });
    web.route("POST", "/poll", role::admin, [this](request, responder a) {
      a.step_aside();
      const std::lock_guard guard{mutex};
      waiting.push_back(std::move(a));
    });
    started = web.start().has_value();
  }
  std::size_t running() {
    const std::lock_guard guard{mutex};
    return waiting.size();
  }
  std::size_t streaming() {
    const std::lock_guard guard{mutex};
    return streams.size();
  }
  /// The first that runs is done.
  void answer_one() {
    responder a;
    {
      const std::lock_guard guard{mutex};
      a = waiting.front();
      waiting.erase(waiting.begin());
    }
    a.reply(text_response("done"));
  }
  overload_statistics now() { return *web.overload(); }
  bool numbers(std::size_t in_flight, std::size_t in_line) {
    return eventually([&] {
      const auto s = *web.overload();
      return s.in_flight == in_flight && s.waiting == in_line;
    });
  }

  std::mutex mutex;
  std::vector<std::string> order;
  std::vector<responder> waiting;
  std::vector<event_stream> streams;
  bool started = false;
  server web;  // last: it calls into the rest until it has stopped
};

client asking(fixture& f, const std::string& text) {
  client c{f.web.port()};
  c.send(text);
  return c;
}

}  // namespace

CAF_TEST(the rule of three classes) {
  using toolbox::priority;
  CAF_CHECK(!rank_of("GET", role::anyone));
  CAF_CHECK(rank_of("GET", role::read) == priority::high);
  CAF_CHECK(rank_of("HEAD", role::admin) == priority::high);
  CAF_CHECK(rank_of("POST", role::admin) == priority::normal);
  CAF_CHECK(rank_of("POST", role::work) == priority::normal);
  CAF_CHECK(rank_of("POST", role::push) == priority::low);
}

CAF_TEST(off means that nobody waits) {
  fixture f{options{}};
  CAF_CHECK(!f.web.overload());
  auto a = asking(f, post("/push", ""));
  auto b = asking(f, post("/push", ""));
  CAF_CHECK(eventually([&] { return f.running() == 2; }));
}

CAF_TEST(reads go first then changes then pushes) {
  fixture f{with_overload(1, 10)};
  CAF_REQUIRE(f.started);
  auto first = asking(f, post("/push", ""));
  CAF_CHECK(f.numbers(1, 0));
  auto push = asking(f, post("/push", "more"));
  CAF_CHECK(f.numbers(1, 1));
  auto change = asking(f, post("/change", ""));
  CAF_CHECK(f.numbers(1, 2));
  auto read = asking(f, get("/read"));
  CAF_CHECK(f.numbers(1, 3));
  // Health does not ask.
  CAF_CHECK_EQUAL(asking(f, get("/health")).read().status, 200);
  for (auto* c : {&first, &read, &change, &push}) {
    CAF_CHECK(eventually([&] { return f.running() == 1; }));
    f.answer_one();
    CAF_CHECK_EQUAL(c->read().status, 200);
  }
  CAF_CHECK(f.numbers(0, 0));
  const std::vector<std::string> expected{"/push", "/read", "/change", "/push"};
  CAF_CHECK(f.order == expected);
  CAF_CHECK_EQUAL(f.now().admitted, 4u);
}

CAF_TEST(one that finds the line full is refused or takes the place of a lower one) {
  fixture f{with_overload(1, 1)};
  auto first = asking(f, get("/read"));
  CAF_CHECK(f.numbers(1, 0));
  auto push = asking(f, post("/push", ""));
  CAF_CHECK(f.numbers(1, 1));
  const auto refused = asking(f, post("/push", "")).read();
  CAF_CHECK_EQUAL(refused.status, 503);
  CAF_CHECK_EQUAL(refused.header("Retry-After"), "1");
  CAF_CHECK(refused.body.find("\"overloaded\"") != std::string::npos);
  auto change = asking(f, post("/change", ""));
  CAF_CHECK_EQUAL(push.read().status, 503);
  CAF_CHECK(f.numbers(1, 1));
  f.answer_one();
  CAF_CHECK(eventually([&] { return f.running() == 1; }));
  f.answer_one();
  CAF_CHECK_EQUAL(change.read().status, 200);
  CAF_CHECK_EQUAL(f.now().refused_full, 2u);
  // A connection that was refused goes on.
  CAF_CHECK_EQUAL(push.ask(get("/health")).status, 200);
}

CAF_TEST(a wait beyond the target is refused while nobody leaves) {
  fixture f{with_overload(1, 10, 20ms)};
  auto first = asking(f, get("/read"));
  CAF_CHECK(f.numbers(1, 0));
  auto push = asking(f, post("/push", ""));
  auto change = asking(f, post("/change", ""));
  CAF_CHECK_EQUAL(push.read().status, 503);
  CAF_CHECK_EQUAL(change.read().status, 503);
  CAF_CHECK_EQUAL(f.now().refused_late, 2u);
  CAF_CHECK(f.numbers(1, 0));
}

CAF_TEST(streams and long polls give their places back) {
  fixture f{with_overload(1, 0)};
  auto stream = asking(f, get("/events"));
  CAF_CHECK(eventually([&] { return f.streaming() == 1; }));
  CAF_CHECK(f.numbers(0, 0));
  auto poll = asking(f, post("/poll", ""));
  CAF_CHECK(eventually([&] { return f.running() == 1; }));
  CAF_CHECK(f.numbers(0, 0));
  auto read = asking(f, get("/read"));
  CAF_CHECK(f.numbers(1, 0));
  f.answer_one();  // the poll, which gives nothing back a second time
  CAF_CHECK_EQUAL(poll.read().status, 200);
  CAF_CHECK(f.numbers(1, 0));
}

CAF_TEST(a client that goes away gives up its place in the line) {
  fixture f{with_overload(1, 1)};
  auto first = asking(f, get("/read"));
  CAF_CHECK(f.numbers(1, 0));
  {
    auto gone = asking(f, post("/change", ""));
    CAF_CHECK(f.numbers(1, 1));
  }
  CAF_CHECK(f.numbers(1, 0));
  // While it is worked on the place is taken until that is done.
  first.abort();
  auto next = asking(f, get("/read"));
  CAF_CHECK(f.numbers(1, 1));
  f.answer_one();
  CAF_CHECK(eventually([&] { return f.running() == 1; }));
  f.answer_one();
  CAF_CHECK_EQUAL(next.read().status, 200);
  CAF_CHECK(f.numbers(0, 0));
}

CAF_TEST(a handler that drops its request frees the place) {
  fixture f{with_overload(1, 1)};
  auto first = asking(f, get("/read"));
  CAF_CHECK(f.numbers(1, 0));
  {
    const std::lock_guard guard{f.mutex};
    f.waiting.clear();
  }
  CAF_CHECK_EQUAL(first.read().status, 500);
  CAF_CHECK(f.numbers(0, 0));
}

CAF_TEST(a stop turns away who waits and an answer after it does no harm) {
  fixture f{with_overload(1, 5)};
  auto first = asking(f, get("/read"));
  CAF_CHECK(f.numbers(1, 0));
  auto second = asking(f, get("/read"));
  CAF_CHECK(f.numbers(1, 1));
  std::thread stopping{[&] { f.web.stop(20s); }};
  CAF_CHECK_EQUAL(second.read().status, 503);
  f.answer_one();
  CAF_CHECK_EQUAL(first.read().status, 200);
  stopping.join();
}
