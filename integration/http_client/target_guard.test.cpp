#define CAF_SUITE target_guard
#include "integration/http_client/target_guard.hpp"

#include <caf/test/unit_test.hpp>

#include <deque>
#include <string>
#include <vector>

using namespace caravan;
using namespace caravan::http_client;
using namespace std::chrono_literals;

namespace {

struct fixture {
  toolbox::manual_clock clock;
  std::vector<std::string> changes;
  int load = 0;

  guard_options options(bool breaker, bool shedder) {
    guard_options o;
    o.breaker = breaker;
    o.shedder = shedder;
    o.clock = &clock;
    o.seed = 7;
    o.load = [this] { return load; };
    o.on_change = [this](target_change what, const std::string& text, std::chrono::milliseconds length) {
      constexpr const char* names[] = {"opened", "closed", "paused"};
      changes.push_back(std::string(names[static_cast<std::size_t>(what)]) + " " + std::to_string(length.count()) +
                        " " + text);
    };
    return o;
  }
  static bool permitted(target_guard& g, bool good) {
    auto may = g.begin();
    auto* call = std::get_if<target_guard::call>(&may);
    if (!call) return false;
    if (good)
      call->succeeded();
    else
      call->failed();
    return true;
  }
};

}  // namespace

CAF_TEST_FIXTURE_SCOPE(target_guard_tests, fixture)

CAF_TEST(a pause holds for every call until it is over) {
  target_guard g(options(false, false));
  CAF_CHECK(permitted(g, true));
  g.pause(5s, 429);
  for (int i = 0; i < 3; ++i) {
    auto may = g.begin();
    const auto* refused = std::get_if<target_guard::refusal>(&may);
    CAF_REQUIRE(refused);
    CAF_CHECK(refused->why == target_guard::reason::paused);
    CAF_CHECK(refused->delay == 5s - i * 1s);
    clock.advance(1s);
  }
  g.pause(1s, 503);  // shorter than what is left: nothing new
  CAF_CHECK(g.restraint().find("paused for another 2 s: it answered 429") != std::string::npos);
  clock.advance(2s);
  CAF_CHECK(g.restraint().empty());
  CAF_CHECK(permitted(g, true));
  const std::vector<std::string> told{"paused 5000 it answered 429"};
  CAF_CHECK_EQUAL(changes, told);
  g.pause(0s, 429);
  CAF_CHECK(permitted(g, true));
}

CAF_TEST(the breaker opens while calls fail and closes when they succeed) {
  target_guard g(options(true, false));
  int sent = 0;
  for (int i = 0; i < 1'000; ++i) {
    sent += permitted(g, false) ? 1 : 0;
    clock.advance(10ms);
  }
  CAF_CHECK(sent < 200);
  CAF_CHECK(sent >= 10);  // it goes on trying, about once a second
  CAF_CHECK(g.restraint().find("the breaker is open") != std::string::npos);
  CAF_REQUIRE_EQUAL(changes.size(), 1u);
  CAF_CHECK(changes[0].starts_with("opened"));
  for (int i = 0; i < 3'000 && changes.size() < 2; ++i) {
    permitted(g, true);
    clock.advance(10ms);
  }
  CAF_REQUIRE_EQUAL(changes.size(), 2u);
  CAF_CHECK(changes[1].starts_with("closed"));
  CAF_CHECK(g.restraint().empty());
  int refused = 0;
  for (int i = 0; i < 100; ++i) refused += permitted(g, true) ? 0 : 1;
  CAF_CHECK_EQUAL(refused, 0);
}

CAF_TEST(a call that was broken off says nothing against the target) {
  target_guard g(options(true, false));
  for (int i = 0; i < 100; ++i) {
    auto may = g.begin();
    CAF_REQUIRE(std::holds_alternative<target_guard::call>(may));
    clock.advance(1ms);
  }
  CAF_CHECK(changes.empty());
}

CAF_TEST(the shedder refuses what is too much for this machine while it is busy) {
  target_guard g(options(false, true));
  for (int i = 0; i < 500; ++i) {  // it learns: one at a time, 10 ms each
    auto may = g.begin();
    clock.advance(10ms);
    std::get<target_guard::call>(may).succeeded();
  }
  const auto pile = [&] {
    std::deque<target_guard::call> calls;
    int refused = 0;
    for (int i = 0; i < 200; ++i) {
      auto may = g.begin();
      if (auto* c = std::get_if<target_guard::call>(&may))
        calls.push_back(std::move(*c));
      else
        ++refused;
      // Its average follows what ends.
      if (i % 2 == 1 && !calls.empty()) calls.pop_front();
    }
    return refused;
  };
  CAF_CHECK_EQUAL(pile(), 0);
  load = 1'000;
  CAF_CHECK(pile() > 0);
  CAF_CHECK(changes.empty());
}

CAF_TEST(the load of the processors is a share) {
  for (int i = 0; i < 3; ++i) {
    const auto load_now = processor_load();
    CAF_CHECK(load_now >= 0);
    CAF_CHECK(load_now <= 1'000);
  }
}

CAF_TEST_FIXTURE_SCOPE_END()
