#define CAF_SUITE limit_host
#include "nodes/limit_host.hpp"

#include "caf/test/unit_test.hpp"

using namespace caravan;
using namespace std::chrono_literals;

namespace {

/// A store that is told what to answer.
struct told final : rate_limiter {
  bool down = false;
  bool permits = true;
  int asked = 0;
  [[nodiscard]] std::string name() const override { return "told"; }
  expected<bool> take(std::string_view, const rate_rule&, std::uint64_t) override {
    ++asked;
    if (down) return error{errc::backend_failed, "redis at h:1: no answer"};
    return permits;
  }
  expected<void> reset(std::string_view) override {
    if (down) return error{errc::backend_failed, "redis at h:1: no answer"};
    return {};
  }
};

struct fixture {
  explicit fixture(config::when_down down) {
    config::limit_settings s;
    s.name = "sms";
    s.rate = 2;
    s.per = 1h;
    s.burst = 3;
    s.store = config::limit_store::redis;
    s.down = down;
    limit = std::make_unique<hosted_limit>(
        s, store, [this](const std::string& text) { alarms.push_back(text); }, time);
  }
  int taken(int tries) {
    int permitted = 0;
    for (int i = 0; i < tries; ++i) permitted += limit->take("k", 1).value() ? 1 : 0;
    return permitted;
  }
  toolbox::manual_clock time;
  std::shared_ptr<told> store = std::make_shared<told>();
  std::vector<std::string> alarms;
  std::unique_ptr<hosted_limit> limit;
};

bool holds(const std::string& text, std::string_view part) {
  if (text.find(part) != std::string::npos) return true;
  CAF_ERROR("no \"" + std::string(part) + "\" in: " + text);
  return false;
}

}  // namespace

CAF_TEST(a store that is down is said once and asked once a second) {
  fixture f{config::when_down::closed};
  CAF_CHECK_EQUAL(f.taken(2), 2);
  f.store->down = true;
  CAF_CHECK_EQUAL(f.taken(10), 0);
  CAF_CHECK_EQUAL(f.store->asked, 3);
  f.time.advance(1s);
  CAF_CHECK_EQUAL(f.taken(10), 0);
  CAF_CHECK_EQUAL(f.store->asked, 4);
  CAF_REQUIRE(f.alarms.size() == 1);
  CAF_CHECK(holds(f.alarms[0], "no answer"));
  CAF_CHECK(f.limit->statistics().down);
  CAF_CHECK_EQUAL(f.limit->statistics().failures, 20u);
  f.store->down = false;
  CAF_CHECK_EQUAL(f.taken(5), 0);
  f.time.advance(1s);
  CAF_CHECK_EQUAL(f.taken(5), 5);
  CAF_REQUIRE(f.alarms.size() == 2);
  CAF_CHECK_EQUAL(f.alarms[1], "");
  CAF_CHECK(!f.limit->statistics().down);
  CAF_CHECK_EQUAL(f.limit->statistics().taken, 7u);
  CAF_CHECK_EQUAL(f.limit->statistics().refused, 25u);
}

CAF_TEST(open permits everything while the store is down) {
  fixture f{config::when_down::open};
  f.store->down = true;
  CAF_CHECK_EQUAL(f.taken(10), 10);
}

CAF_TEST(local permits what this node alone would) {
  fixture f{config::when_down::local};
  f.store->down = true;
  CAF_CHECK_EQUAL(f.taken(10), 3);
  f.time.advance(1h);
  CAF_CHECK_EQUAL(f.taken(10), 2);
  CAF_CHECK(!f.limit->reset("k"));  // the store has not heard of it
}

CAF_TEST(what can never be taken is told apart from not now) {
  fixture f{config::when_down::closed};
  CAF_CHECK(
      holds(f.limit->take("k", 4).failure().text, "limit \"sms\": 4 can never be taken at once; take 1 to 3 (BURST)"));
  CAF_CHECK(f.limit->take("k", 0).failure().code == errc::invalid_argument);
  CAF_CHECK(f.limit->take(std::string(1025, 'x'), 1).failure().code == errc::invalid_argument);
  CAF_CHECK_EQUAL(f.store->asked, 0);
  CAF_CHECK(f.limit->set_rule({rate_rule::kind::tokens, 9, 1s, 9}).has_value());
  CAF_CHECK(f.limit->take("k", 4).value());
  CAF_CHECK(!f.limit->set_rule({rate_rule::kind::tokens, 9, 1s, 0}));
  CAF_CHECK(!f.limit->set_rule({rate_rule::kind::tokens, 9, 0ms, 1}));
  CAF_CHECK(!f.limit->set_rule({rate_rule::kind::period, 0, 1s, 1}));
  CAF_CHECK_EQUAL(f.limit->rule().burst, 9u);
}

CAF_TEST(the busiest keys stay in bounded memory) {
  busy_keys keys{4};
  for (int i = 0; i < 100; ++i) keys.count("busy", i % 4 != 0, 1);
  for (int i = 0; i < 1000; ++i) {
    keys.count("rare" + std::to_string(i), true, 1);
    keys.count("busy", true, 1);
    CAF_CHECK(keys.size() <= 4);
  }
  const auto top = keys.top(2);
  CAF_REQUIRE(!top.empty());
  CAF_CHECK_EQUAL(top[0].key, "busy");
  busy_keys few{10};
  few.count("b", true, 2);
  few.count("a", false, 2);
  few.count("c", true, 1);
  const auto all = few.top(10);
  CAF_REQUIRE(all.size() == 3);
  CAF_CHECK_EQUAL(all[0].key + all[1].key + all[2].key, "abc");
  CAF_CHECK_EQUAL(all[0].refused, 2u);
}
