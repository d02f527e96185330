#define CAF_SUITE two_queue
#include "toolbox/two_queue.hpp"

#include <cmath>
#include <limits>

#include "caf/test/unit_test.hpp"
#include "toolbox/cache.hpp"
#include "toolbox/testing/support.hpp"
#include "toolbox/testing/traces.hpp"

using namespace caravan::toolbox;
using namespace caravan::toolbox::testing;

namespace {

using lines = std::pair<std::size_t, std::size_t>;  // recent, frequent

template <class Cache>
lines lines_of(const Cache& c) {
  return {c.recent(), c.frequent()};
}

template <class Make>
bool refuses(Make make) {
  try {
    make();
  } catch (const std::invalid_argument&) {
    return true;
  }
  return false;
}

}  // namespace

CAF_TEST("CACHE-030" bad parameters) {
  using cache_type = two_queue<int, int>;
  CAF_CHECK(refuses([] { cache_type{{.size = 0}}; }));
  CAF_CHECK(refuses([] { cache_type{{.size = 1, .recent_ratio = -0.1}}; }));
  CAF_CHECK(refuses([] { cache_type{{.size = 1, .recent_ratio = 1.1}}; }));
  CAF_CHECK(refuses([] { cache_type{{.size = 1, .ghost_ratio = -0.1}}; }));
  CAF_CHECK(refuses([] { cache_type{{.size = 1, .ghost_ratio = 1.1}}; }));
  CAF_CHECK(refuses([] { cache_type{{.size = 1, .ghost_ratio = std::numeric_limits<double>::quiet_NaN()}}; }));
  cache_type fine{{.size = 1, .recent_ratio = 0, .ghost_ratio = 1}};
  fine.set(1, 1);
  CAF_CHECK(refuses([&] { fine.resize(0); }));
  CAF_CHECK(fine.peek(1) != nullptr);
}

CAF_TEST("CACHE-032" a second add promotes) {
  two_queue<int, int> c{{.size = 128}};
  c.set(1, 1);
  CAF_CHECK(lines_of(c) == lines(1, 0));
  c.set(1, 1);
  CAF_CHECK(lines_of(c) == lines(0, 1));
  c.set(1, 1);
  CAF_CHECK(lines_of(c) == lines(0, 1));
}

CAF_TEST("CACHE-036" resize) {
  const auto filled = [](int twice) {
    two_queue<int, int> c{{.size = 100}};
    for (int i = 0; i < 100; ++i) c.set(i, i);
    for (int i = 0; i < twice; ++i) c.set(i, i);
    c.resize(50);
    return lines_of(c);
  };
  CAF_CHECK(filled(0) == lines(50, 0));
  CAF_CHECK(filled(50) == lines(12, 38));
  CAF_CHECK(filled(100) == lines(0, 50));
}

CAF_TEST(a key that comes back after it left the recent line is a frequent one) {
  two_queue<int, int> c{{.size = 4, .recent_ratio = 0.25, .ghost_ratio = 0.5}};
  for (int i = 0; i < 6; ++i) c.set(i, i);  // 0 and 1 left and are remembered
  CAF_CHECK_EQUAL(c.ghosts(), 2u);
  CAF_CHECK(c.peek(1) == nullptr);
  c.set(1, 1);
  CAF_CHECK(lines_of(c) == lines(3, 1));
  c.set(6, 6);  // the recent line gives way, not the frequent key
  c.set(7, 7);
  c.set(8, 8);
  CAF_CHECK(c.peek(1) != nullptr);
  // Removed means forgotten.
  CAF_CHECK(c.remove(1).has_value());
  c.set(1, 1);
  CAF_CHECK_EQUAL(c.frequent(), 0u);
}

CAF_TEST(what is due leaves and an overwrite replaces the expiry) {
  two_queue<int, int> c{{.size = 10}};
  c.set(1, 1, 10);
  c.set(2, 2, 10);
  c.set(3, 3);
  c.set(2, 20, 30);
  c.set(3, 30, 5);
  CAF_CHECK_EQUAL(c.advance(9), 1u);
  CAF_CHECK(c.peek(3) == nullptr);
  CAF_CHECK_EQUAL(c.advance(10), 1u);
  CAF_CHECK(c.peek(1) == nullptr);
  CAF_REQUIRE(c.peek(2) != nullptr);
  CAF_CHECK_EQUAL(*c.peek(2), 20);
  c.clear();
  CAF_CHECK_EQUAL(c.size() + c.ghosts() + c.recent() + c.frequent(), 0u);
}

CAF_TEST(whatever is done to it the lines stay within their bounds and hold the last value) {
  CAF_CHECK(holds("two_queue keeps its bounds", [] {
    const auto size = *rc::gen::inRange<std::size_t>(1, 12);
    two_queue<int, int> c{{.size = size, .recent_ratio = 0.3, .ghost_ratio = 0.6}};
    std::map<int, std::pair<int, std::uint64_t>> last;  // value and due of each key that may be there
    auto most = size;
    std::uint64_t now = 0;
    for (int step = 0; step < 200; ++step) {
      const auto key = *rc::gen::inRange(0, 25);
      switch (*rc::gen::inRange(0, 7)) {
        case 0:
          RC_ASSERT(c.remove(key).has_value() <= last.contains(key));
          last.erase(key);
          break;
        case 1:
          most = *rc::gen::inRange<std::size_t>(1, 12);
          c.resize(most);
          break;
        case 2:
          now += *rc::gen::inRange<std::uint64_t>(0, 10);
          c.advance(now);
          std::erase_if(last, [&](const auto& one) { return one.second.second <= now; });
          break;
        case 3:
        case 4: {
          const auto due = *rc::gen::arbitrary<bool>() ? now + *rc::gen::inRange<std::uint64_t>(1, 20) : c.never;
          c.set(key, step, due);
          last[key] = {step, due};
          RC_ASSERT(c.peek(key) != nullptr);
          break;
        }
        default:
          if (const auto* found = c.find(key)) {
            RC_ASSERT(last.contains(key));
            RC_ASSERT(*found == last[key].first);
          }
      }
      RC_ASSERT(c.size() <= most);
      RC_ASSERT(c.recent() + c.frequent() == c.size());
      RC_ASSERT(c.ghosts() <= static_cast<std::size_t>(static_cast<double>(most) * 0.6));
    }
  }));
}

CAF_TEST(a scan costs an lru more hits than a two - queue cache) {
  constexpr std::size_t size = 200;
  const auto plain = zipf_trace({.keys = 5'000, .length = 40'000});
  const auto scanned = with_scans(plain, {.every = 1'000, .length = 400});
  const auto rates = [&](const std::vector<std::uint32_t>& trace) {
    two_queue<std::uint32_t, int> two{{.size = size}};
    cache<std::uint32_t, int> lru{{.expiry = 0s, .limit = size}};
    const auto of_two = hit_rate(
        trace, [&](auto k) { return two.find(k) != nullptr; }, [&](auto k) { two.set(k, 1); });
    const auto of_lru = hit_rate(
        trace, [&](auto k) { return lru.get(k).has_value(); }, [&](auto k) { lru.set(k, 1); });
    return std::pair(of_two, of_lru);
  };
  const auto [two_plain, lru_plain] = rates(plain);
  const auto [two_scanned, lru_scanned] = rates(scanned);
  CAF_MESSAGE("zipf: two-queue " << two_plain << ", lru " << lru_plain << "; with scans: " << two_scanned << ", "
                                 << lru_scanned);
  CAF_CHECK(two_plain >= lru_plain);
  CAF_CHECK(two_scanned >= lru_scanned + 0.02);
}
