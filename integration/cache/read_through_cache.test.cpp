#define CAF_SUITE read_through_cache
#include "integration/cache/read_through_cache.hpp"

#include "integration/cache/memory_cache.hpp"
#include "tests/support/eventually.hpp"

#include "caf/test/unit_test.hpp"

#include <latch>
#include <stdexcept>
#include <thread>
#include <vector>

using namespace caravan;
using namespace std::chrono_literals;

namespace {

/// An engine that is down when told.
class failing_adapter final : public cache_adapter {
public:
  std::atomic<bool> down{false};
  std::atomic<int> calls{0};

  std::string name() const override { return "failing"; }
  expected<void> ping() override {
    return ask<void>([&] { return real_.ping(); });
  }
  expected<std::optional<std::string>> get(std::string_view key) override {
    return ask<std::optional<std::string>>([&] { return real_.get(key); });
  }
  expected<void> put(std::string_view key, std::string_view value, std::chrono::milliseconds ttl) override {
    return ask<void>([&] { return real_.put(key, value, ttl); });
  }
  expected<bool> remove(std::string_view key) override {
    return ask<bool>([&] { return real_.remove(key); });
  }
  expected<std::optional<std::string>> take(std::string_view key) override {
    return ask<std::optional<std::string>>([&] { return real_.take(key); });
  }
  expected<bool> exists(std::string_view key) override {
    return ask<bool>([&] { return real_.exists(key); });
  }
  expected<void> clear() override {
    return ask<void>([&] { return real_.clear(); });
  }
  expected<cache_usage> usage() override {
    return ask<cache_usage>([&] { return real_.usage(); });
  }

private:
  template <class T, class Call>
  expected<T> ask(Call call) {
    ++calls;
    if (down) return error{errc::backend_failed, "the engine is down"};
    return call();
  }
  memory_cache real_;
};

struct bench {
  bench() {
    auto made = std::make_unique<failing_adapter>();
    engine = made.get();
    cache = string_cache{std::make_shared<read_through_cache>(std::move(made), read_through_options{1h, 1s, &time})};
  }
  toolbox::manual_clock time;
  failing_adapter* engine;
  string_cache cache;
};

}  // namespace

CAF_TEST(a cache that is down does not break those who read through it) {
  bench b;
  CAF_CHECK(b.cache.put("key", "old", 0s).has_value());
  b.engine->down = true;
  b.engine->calls = 0;
  int runs = 0;
  for (int i = 0; i < 3; ++i)
    CAF_CHECK(b.cache.get_string("key", [&] { return "loaded" + std::to_string(++runs); }).value() ==
              "loaded" + std::to_string(i + 1));
  CAF_CHECK_EQUAL(b.engine->calls.load(), 1);  // it rests, so that nobody waits for it in vain
  b.time.advance(1s);
  CAF_CHECK(b.cache.get_int64("key", [] { return std::int64_t{7}; }).value() == 7);
  CAF_CHECK(b.cache.get_int64("key", [] { return std::int64_t{7}; }).value() == 7);
  CAF_CHECK_EQUAL(b.engine->calls.load(), 2);
  // Direct calls say so.
  const auto is_down = [](const auto& answer) { return !answer && answer.failure().code == errc::backend_failed; };
  CAF_CHECK(is_down(b.cache.get("key")));
  CAF_CHECK(is_down(b.cache.put("key", "x", 0s)));
  CAF_CHECK(is_down(b.cache.remove("key")));
  CAF_CHECK(is_down(b.cache.take("key")));
  CAF_CHECK(is_down(b.cache.exists("key")));
  CAF_CHECK(is_down(b.cache.clear()));
  CAF_CHECK(is_down(b.cache.ping()));
  CAF_CHECK(is_down(b.cache.self_test()));
  CAF_CHECK(is_down(b.cache.statistics()));
  const auto found = b.cache.get_json<int>("key");
  CAF_CHECK(!found.exists && found.failure);
  b.engine->down = false;
  b.time.advance(999ms);
  CAF_CHECK(b.cache.get_string("key", [] { return std::string{"loaded"}; }).value() == "loaded");
  b.time.advance(1ms);
  CAF_CHECK(b.cache.get_string("key", [] { return std::string{"loaded"}; }).value() == "old");
  CAF_CHECK(b.cache.statistics().value().failures == 16u);
  CAF_CHECK(b.cache.statistics().value().loads == 6u);
}

CAF_TEST(an answer to a direct call ends the rest of the engine) {
  bench b;
  CAF_CHECK(b.cache.put("key", "stored", 0s).has_value());
  b.engine->down = true;
  CAF_CHECK(!b.cache.ping());
  b.engine->down = false;
  CAF_CHECK(b.cache.get_string("key", [] { return std::string{"loaded"}; }).value() == "loaded");
  CAF_CHECK(b.cache.ping().has_value());
  CAF_CHECK(b.cache.get_string("key", [] { return std::string{"loaded"}; }).value() == "stored");
}

CAF_TEST(an engine that rests by itself is always asked) {
  auto made = std::make_unique<failing_adapter>();
  auto* engine = made.get();
  string_cache cache{std::make_shared<read_through_cache>(std::move(made), read_through_options{1h, 0s})};
  engine->down = true;
  for (int i = 0; i < 3; ++i) CAF_CHECK(cache.get_string("key", [] { return std::string{"loaded"}; }).has_value());
  CAF_CHECK_EQUAL(engine->calls.load(), 3);
}

CAF_TEST(a loader that throws hurts only its callers) {
  bench b;
  testing_support::gate go_on;
  std::atomic<int> runs{0}, failed{0};
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i)
      threads.emplace_back([&] {
        const auto value = b.cache.get_string("key", [&]() -> std::string {
          ++runs;
          go_on.wait();
          throw std::runtime_error("boom");
        });
        failed += !value && value.failure().text.find("boom") != std::string::npos;
      });
    CAF_CHECK(testing_support::eventually([&] { return runs == 1; }));
    const auto other = b.cache.get_string("other key", [] { return std::string{"fine"}; });
    CAF_CHECK(other && *other == "fine");
    go_on.open();
  }
  CAF_CHECK_EQUAL(failed.load(), 4);
  CAF_CHECK(b.cache.get_string("key", [] { return std::string{"later"}; }).value() == "later");
  CAF_CHECK(!b.cache.get_string("odd", []() -> std::string { throw 7; }));
  CAF_CHECK(!string_cache{}.get_string("odd", []() -> std::string { throw 7; }));
}

CAF_TEST(a loader that asks for its own key is told and does not hang) {
  bench b;
  const auto value =
      b.cache.get_string("key", [&] { return b.cache.get_string("key", [] { return std::string{"never"}; }); });
  CAF_CHECK(!value && value.failure().code == errc::conflict);
  const auto nested =
      b.cache.get_string("outer", [&] { return b.cache.get_string("inner", [] { return std::string{"fine"}; }); });
  CAF_CHECK(nested && *nested == "fine");
}

CAF_TEST(nothing is remembered of keys that are not being loaded and statistics add up) {
  bench b;
  for (int i = 0; i < 100; ++i) {
    (void)b.cache.get_string(std::to_string(i % 10), [] { return std::string{"v"}; });
    (void)b.cache.get("nothing");
  }
  (void)b.cache.get_string("bad", []() -> expected<std::string> { return {errc::not_found, "no"}; });
  const auto s = b.cache.statistics().value();
  CAF_CHECK_EQUAL(s.adapter, "failing");
  CAF_CHECK_EQUAL(s.hits, 90u);
  CAF_CHECK_EQUAL(s.misses, 10u + 100u + 1u);
  CAF_CHECK_EQUAL(s.loads, 11u);
  CAF_CHECK_EQUAL(s.load_failures, 1u);
  CAF_CHECK_EQUAL(s.failures, 0u);
  CAF_CHECK(s.entries.value() == 10u);
}

CAF_TEST(what is removed never comes back whatever the order) {
  // A value is newer than the last remove or it is not there. The source counts up with each remove.
  bench b;
  std::atomic<std::uint64_t> source{0};
  std::atomic<int> wrong{0};
  std::vector<std::jthread> threads;
  std::latch start{6};
  for (int t = 0; t < 6; ++t)
    threads.emplace_back([&, t] {
      start.arrive_and_wait();
      for (int i = 0; i < 2000; ++i) {
        if (t < 2) {
          ++source;
          wrong += !b.cache.remove("key");
        } else {
          const auto before = source.load();
          const auto removed_before = before > 2 ? before - 2 : 0;  // two removers may be between change and remove
          const auto got = b.cache.get_int64("key", [&] { return static_cast<std::int64_t>(source.load()); }).value();
          wrong += static_cast<std::uint64_t>(got) < removed_before;
        }
      }
    });
  threads.clear();
  CAF_CHECK_EQUAL(wrong.load(), 0);
  CAF_CHECK(b.cache.remove("key").has_value());
  CAF_CHECK(b.cache.get_int64("key", [&] { return static_cast<std::int64_t>(source.load()); }).value() == 4000);
}

CAF_TEST(without a cache every call says so and loaders run) {
  string_cache none;
  CAF_CHECK(!none);
  const auto says_so = [](const auto& answer) { return !answer && answer.failure().code == errc::not_found; };
  CAF_CHECK(says_so(none.get("k")));
  CAF_CHECK(says_so(none.put("k", "v", 0s)));
  CAF_CHECK(says_so(none.remove("k")));
  CAF_CHECK(says_so(none.take("k")));
  CAF_CHECK(says_so(none.exists("k")));
  CAF_CHECK(says_so(none.clear()));
  CAF_CHECK(says_so(none.ping()));
  CAF_CHECK(says_so(none.statistics()));
  CAF_CHECK(says_so(none.self_test()));
  CAF_CHECK(none.get_json<int>("k").failure.has_value());
  int runs = 0;
  for (int i = 0; i < 2; ++i) CAF_CHECK(none.get_int64("k", [&] { return std::int64_t{++runs}; }).value() == i + 1);
}

CAF_TEST(an engine that is not there yet is tried ten times a second apart) {
  failing_adapter engine;
  engine.down = true;
  int pauses = 0;
  const auto sleep = [&](std::chrono::milliseconds by) {
    CAF_CHECK(by == 1s);
    ++pauses;
    return true;
  };
  const auto never = wait_for_engine(engine, 10, sleep);
  CAF_REQUIRE(!never);
  CAF_CHECK_EQUAL(never.failure().text, "the engine is down (tried 10 times, a second apart)");
  CAF_CHECK_EQUAL(engine.calls.load(), 10);
  CAF_CHECK_EQUAL(pauses, 9);

  engine.calls = 0;
  const auto late = wait_for_engine(engine, 10, [&](std::chrono::milliseconds) {
    engine.down = engine.calls < 4;
    return true;
  });
  CAF_CHECK(late.has_value());
  CAF_CHECK_EQUAL(engine.calls.load(), 5);

  engine.down = true;
  engine.calls = 0;
  CAF_CHECK(!wait_for_engine(engine, 10, [](std::chrono::milliseconds) { return false; }));
  CAF_CHECK_EQUAL(engine.calls.load(), 1);
}
