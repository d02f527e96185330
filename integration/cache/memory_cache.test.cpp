#define CAF_SUITE memory_cache
#include "integration/cache/memory_cache.hpp"

#include "tests/contract/cache_contract.hpp"

using namespace caravan;
using namespace std::chrono_literals;

CAF_TEST(memory keeps the cache contract) {
  toolbox::manual_clock time;
  contract::check_cache_contract({"memory",
                                  [&] {
                                    return std::make_unique<memory_cache>(memory_cache_options{60s, &time});
                                  },
                                  [&](std::chrono::milliseconds by) { time.advance(by); },
                                  {}});
}

CAF_TEST(expired values that nobody reads are swept out) {
  toolbox::manual_clock time;
  memory_cache c{{60s, &time}};
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 1000; ++i) CAF_CHECK(c.put(std::to_string(i), "value", 1s + i * 1ms).has_value());
    CAF_CHECK(c.put("stays", "value", 0s).has_value());
    CAF_CHECK(c.usage().value().entries.value() == 1001u);
    // The thread looks at the clock now and then; that it sees the time depends on no call of ours.
    CAF_CHECK(testing_support::eventually([&] {
      time.advance(61s);
      return c.usage().value().entries == 1u;
    }));
    CAF_CHECK(c.usage().value().bytes.value() == 10u);
  }
}

CAF_TEST(ten times as many one - shot keys take no more room) {
  toolbox::manual_clock time;
  memory_cache c{{60s, &time}};
  const auto run = [&](int first, int last) {
    for (int i = first; i < last; ++i) {
      CAF_REQUIRE(
          c.put("one-shot:" + std::to_string(i), "a value of forty bytes, which is on the heap", 1s).has_value());
      if (i % 5 == 0) time.advance(1ms);  // 5,000 a second
    }
  };
  std::uint64_t most = 0;
  for (int part = 0; part < 10; ++part) {
    run(part * 5'000, (part + 1) * 5'000);
    most = std::max(most, c.usage().value().entries.value());
  }
  // A second's worth lives, and at most as much again waits to be swept.
  CAF_CHECK(most >= 5'000);
  CAF_CHECK(most <= 6'000);
}

CAF_TEST(what expires together is not freed by one call) {
  toolbox::manual_clock time;
  memory_cache c{{24h, &time}};
  for (int i = 0; i < 20'000; ++i) {
    CAF_CHECK(c.put(std::to_string(i), "value", 1s).has_value());
    if (i % 20 == 0) time.advance(1ms);
  }
  time.advance(10s);
  const auto before = c.usage().value().entries.value();
  CAF_CHECK(!c.get("19999").value());
  CAF_CHECK(!c.get("19998").value());
  CAF_CHECK(before - c.usage().value().entries.value() < 1000);
}

CAF_TEST(many threads put get take and clear) {
  memory_cache c{{1ms}};
  std::atomic<int> wrong{0};
  std::vector<std::jthread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 3000; ++i) {
        const auto key = std::to_string((i * 7 + t) % 50);
        (void)c.put(key, key, std::chrono::milliseconds{i % 4});
        if (const auto found = c.get(key).value()) wrong += *found != key;
        if (i % 3 == 0) (void)c.take(key);
        if (i % 500 == 0) (void)c.clear();
        if (i % 100 == 0) (void)c.usage();
      }
    });
  threads.clear();
  CAF_CHECK_EQUAL(wrong.load(), 0);
  CAF_CHECK(c.clear().has_value());
  CAF_CHECK(c.usage().value().bytes.value() == 0u);
}
