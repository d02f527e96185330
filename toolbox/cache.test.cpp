#define CAF_SUITE cache
#include "toolbox/cache.hpp"

#include <list>
#include <set>
#include <string>

#include "caf/test/unit_test.hpp"
#include "toolbox/testing/support.hpp"

using namespace caravan::toolbox;
using namespace caravan::toolbox::testing;

CAF_TEST("TOOL-025" set and get and an expiry of its own) {
  manual_clock time;
  cache<std::string, std::string> c{{.expiry = 2s}, time};
  c.set("first", "first element");
  c.set("second", "second element", 3s);
  CAF_CHECK(c.get("first") == "first element");
  CAF_CHECK(c.get("second") == "second element");
  time.advance(3s);
  CAF_CHECK(c.get("first") == std::nullopt);
}

CAF_TEST("TOOL-027" take loads once) {
  cache<std::string, std::string> c{{.expiry = 2s}};
  std::atomic<int> loads{0};
  std::atomic<int> right{0};
  all_at_once(100, [&](int) {
    const auto got = c.take("first", [&]() -> std::string {
      ++loads;
      std::this_thread::sleep_for(100ms);
      return "first element";
    });
    right += got == "first element";
  });
  CAF_CHECK_EQUAL(loads.load(), 1);
  CAF_CHECK_EQUAL(right.load(), 100);
  CAF_CHECK_EQUAL(c.size(), 1u);
}

CAF_TEST("TOOL-029" take does not store errors) {
  // Once returned and once thrown. All hundred are inside before the load ends, however slow the machine is.
  for (const bool throwing : {false, true}) {
    cache<std::string, int, outcome<int>> c;
    std::atomic<int> entered{0};
    std::atomic<int> loads{0};
    std::atomic<int> errors{0};
    all_at_once(100, [&](int) {
      ++entered;
      try {
        const auto got = c.take("first", [&]() -> outcome<int> {
          ++loads;
          (void)comes_true([&] { return entered == 100; });
          std::this_thread::sleep_for(100ms);
          if (throwing) throw std::runtime_error("dummy");
          return failure{fault::failed, "dummy"};
        });
        errors += got.is(fault::failed);
      } catch (const std::runtime_error&) {
        ++errors;
      }
    });
    CAF_CHECK_EQUAL(errors.load(), 100);
    CAF_CHECK_EQUAL(loads.load(), 1);
    CAF_CHECK_EQUAL(c.size(), 0u);
  }
}

CAF_TEST("TOOL-030" the limit evicts the oldest) {
  cache<int, std::string> c{{.limit = 3}};
  for (int i = 1; i <= 4; ++i) c.set(i, std::to_string(i));
  CAF_CHECK(c.get(1) == std::nullopt);
  for (int i = 2; i <= 4; ++i) CAF_CHECK(c.get(i) == std::to_string(i));
  CAF_CHECK_EQUAL(c.size(), 3u);
}

CAF_TEST("TOOL-031" get refreshes) {
  cache<int, int> c{{.limit = 3}};
  for (int i = 1; i <= 4; ++i) c.set(i, i);
  CAF_CHECK(c.get(2) == 2);
  c.set(5, 5);
  c.set(6, 6);
  CAF_CHECK(c.get(3) == std::nullopt);
  CAF_CHECK(c.get(4) == std::nullopt);
  CAF_CHECK(c.get(2) == 2);
}

CAF_TEST("TOOL-032" expiries are spread by five percent) {
  manual_clock time;
  cache<int, int> c{{.expiry = 10s, .seed = 7}, time};
  for (int i = 0; i < 1000; ++i) c.set(i, i);
  time.advance(9499ms);
  CAF_CHECK_EQUAL(c.size(), 1000u);
  std::multiset<int> gone_at;  // hundredths of a second
  std::vector<bool> gone(1000);
  for (int step = 950; step <= 1051; ++step) {
    for (int i = 0; i < 1000; ++i)
      if (!gone[static_cast<std::size_t>(i)] && !c.get(i)) {
        gone[static_cast<std::size_t>(i)] = true;
        gone_at.insert(step);
      }
    time.advance(10ms);
  }
  CAF_CHECK_EQUAL(gone_at.size(), 1000u);
  CAF_CHECK(std::set<int>(gone_at.begin(), gone_at.end()).size() > 50);
  CAF_CHECK(*gone_at.begin() < 960 && *gone_at.rbegin() > 1040);
}

CAF_TEST(memory of expired values is given back without asking for them) {
  manual_clock time;
  cache<int, int> c{{.expiry = 1s}, time};
  for (int i = 0; i < 100; ++i) c.set(i, i);
  time.advance(2s);
  CAF_CHECK_EQUAL(c.size(), 0u);
  c.set(1, 1, 0s);
  time.advance(24h);
  CAF_CHECK(c.get(1) == 1);
  CAF_CHECK(c.remove(1));
  CAF_CHECK(!c.remove(1));
}

CAF_TEST(what has run out is gone for every call at once) {
  manual_clock time;
  cache<int, int> c{{.expiry = 50ms, .limit = 2, .jitter = 0}, time};
  c.set(1, 1);
  time.advance(49ms);
  c.set(2, 2);
  CAF_CHECK(c.get(1) == 1);  // now the one used last
  time.advance(1ms);
  CAF_CHECK(!c.remove(1));
  CAF_CHECK_EQUAL(c.size(), 1u);
  c.set(3, 3);
  CAF_CHECK(c.get(2) == 2);  // it need not make room for one that is gone
}

CAF_TEST(replacing a value gives it a new expiry) {
  manual_clock time;
  cache<int, int> c{{.expiry = 10s, .jitter = 0}, time};
  c.set(1, 1);
  time.advance(9s);
  c.set(1, 2);
  time.advance(9s);
  CAF_CHECK(c.get(1) == 2);
  time.advance(1s);
  CAF_CHECK(c.get(1) == std::nullopt);
}

CAF_TEST(hits and misses are counted) {
  cache<int, int> c;
  CAF_CHECK(!c.get(1));
  CAF_CHECK_EQUAL(c.take(1, [] { return 5; }), 5);
  CAF_CHECK_EQUAL(c.take(1, [] { return 6; }), 5);
  CAF_CHECK(c.get(1) == 5);
  CAF_CHECK_EQUAL(c.statistics().hits, 2u);
  CAF_CHECK_EQUAL(c.statistics().misses, 2u);
}

CAF_TEST(the cache equals a plain list in order of use) {
  CAF_CHECK(holds("cache equals a plain list", [] {
    manual_clock time;
    const auto limit = *rc::gen::inRange<std::size_t>(1, 6);
    cache<int, int> c{{.expiry = 1s, .limit = limit, .jitter = 0}, time};
    struct item {
      int key;
      int value;
      steady_time until;
    };
    std::list<item> plain;  // most recently used first
    const auto steps = *rc::gen::inRange(1, 150);
    for (int i = 0; i < steps; ++i) {
      plain.remove_if([&](const item& x) { return x.until <= time.now(); });
      const auto key = *rc::gen::inRange(0, 8);
      const auto found = std::find_if(plain.begin(), plain.end(), [&](const item& x) { return x.key == key; });
      switch (*rc::gen::inRange(0, 5)) {
        case 0:
        case 1:
          c.set(key, i);
          if (found != plain.end()) plain.erase(found);
          plain.push_front({key, i, time.now() + 1s});
          if (plain.size() > limit) plain.pop_back();
          break;
        case 2: {
          const auto got = c.get(key);
          RC_ASSERT(got.has_value() == (found != plain.end()));
          if (got) {
            RC_ASSERT(*got == found->value);
            plain.splice(plain.begin(), plain, found);
          }
          break;
        }
        case 3:
          RC_ASSERT(c.remove(key) == (found != plain.end()));
          if (found != plain.end()) plain.erase(found);
          break;
        default:
          time.advance(std::chrono::milliseconds{*rc::gen::inRange(0, 700)});
      }
    }
    plain.remove_if([&](const item& x) { return x.until <= time.now(); });
    for (int key = 0; key < 8; ++key) {
      const auto found = std::find_if(plain.begin(), plain.end(), [&](const item& x) { return x.key == key; });
      RC_ASSERT(c.get(key).has_value() == (found != plain.end()));
    }
    RC_ASSERT(c.size() == plain.size());
  }));
}

CAF_TEST(eight threads stress the cache) {
  cache<int, int> c{{.expiry = 1ms, .limit = 50}};
  std::atomic<int> wrong{0};
  all_at_once(8, [&](int thread) {
    for (int i = 0; i < 4000 / slowdown; ++i) {
      const int key = (i * 7 + thread) % 100;
      switch (i % 4) {
        case 0:
          c.set(key, key);
          break;
        case 1:
          if (const auto got = c.get(key); got && *got != key) ++wrong;
          break;
        case 2:
          if (c.take(key, [&] { return key; }) != key) ++wrong;
          break;
        default:
          c.remove(key);
      }
    }
  });
  CAF_CHECK_EQUAL(wrong.load(), 0);
  CAF_CHECK(c.size() <= 50);
}
