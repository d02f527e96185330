#define CAF_SUITE two_queue_cache
#include "integration/cache/two_queue_cache.hpp"

#include "tests/contract/cache_contract.hpp"

using namespace caravan;
using namespace std::chrono_literals;

CAF_TEST(twoqueue keeps the cache contract) {
  toolbox::manual_clock time;
  contract::check_cache_contract(
      {"twoqueue",
       [&] { return std::make_unique<two_queue_cache>(toolbox::two_queue_options{.size = 400}, time); },
       [&](std::chrono::milliseconds by) { time.advance(by); },
       {}});
}

CAF_TEST(never more than its size) {
  two_queue_cache c{{.size = 100}};
  for (int i = 0; i < 10'000; ++i) {
    CAF_CHECK(c.put(std::to_string(i), "value", i % 2 ? 0s : 1h).has_value());
    if (i == 0) CAF_CHECK(c.get("0").value().has_value());
  }
  CAF_CHECK(c.usage().value().entries.value() == 100u);
  CAF_CHECK(c.exists("0").value());  // used twice: the scan did not push it out
}

CAF_TEST(expired values make room before those that live) {
  toolbox::manual_clock time;
  two_queue_cache c{{.size = 10}, time};
  for (int i = 0; i < 5; ++i) CAF_CHECK(c.put("lives" + std::to_string(i), "v", 0s).has_value());
  for (int i = 0; i < 5; ++i) CAF_CHECK(c.put("dies" + std::to_string(i), "v", 1s).has_value());
  time.advance(1s);
  CAF_CHECK(c.usage().value().entries.value() == 5u);
  for (int i = 0; i < 5; ++i) CAF_CHECK(c.put("new" + std::to_string(i), "v", 0s).has_value());
  for (int i = 0; i < 5; ++i) CAF_CHECK(c.exists("lives" + std::to_string(i)).value());
}
