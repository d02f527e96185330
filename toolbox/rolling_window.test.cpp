#define CAF_SUITE rolling_window
#include "toolbox/rolling_window.hpp"

#include <string>

#include "caf/test/unit_test.hpp"
#include "toolbox/testing/support.hpp"

using namespace caravan::toolbox;
using namespace caravan::toolbox::testing;

namespace {

constexpr auto interval = 50ms;

template <class Window>
std::vector<double> list(const Window& window) {
  std::vector<double> sums;
  window.reduce([&](const sum_bucket& b) { sums.push_back(b.sum); });
  return sums;
}

using sums = std::vector<double>;

}  // namespace

CAF_TEST("TOOL-019" a window without buckets is refused) {
  const auto refuses = [](std::size_t size, std::chrono::nanoseconds each) {
    try {
      rolling_window<> window{size, each};
    } catch (const std::invalid_argument&) {
      return true;
    }
    return false;
  };
  CAF_CHECK(refuses(0, 1s));
  CAF_CHECK(refuses(1, 0s));
  CAF_CHECK(!refuses(1, 1ns));
}

CAF_TEST("TOOL-021" ignoring the current bucket) {
  manual_clock time;
  rolling_window<> window{3, interval, current_bucket::ignore, time};
  window.add(1);
  time.advance(interval);
  CAF_CHECK_EQUAL(list(window), (sums{0, 1}));
  time.advance(interval);
  CAF_CHECK_EQUAL(list(window), (sums{1}));
  time.advance(interval);
  CAF_CHECK_EQUAL(list(window), sums{});
}

CAF_TEST("TOOL-023" reduce with and without the current bucket) {
  for (const auto& [current, expected] :
       {std::pair{current_bucket::use, 10.0}, std::pair{current_bucket::ignore, 4.0}}) {
    manual_clock time;
    rolling_window<> window{4, interval, current, time};
    for (int x = 0; x < 4; ++x) {
      for (int i = 0; i <= x; ++i) window.add(i);
      if (x < 3) time.advance(interval);
    }
    double sum = 0;
    for (const auto each : list(window)) sum += each;
    CAF_CHECK_EQUAL(sum, expected);
  }
}

CAF_TEST(buckets pass from old to new and fall out one by one) {
  manual_clock time;
  rolling_window<> window{3, interval, current_bucket::use, time};
  CAF_CHECK_EQUAL(list(window), (sums{0, 0, 0}));
  window.add(1);
  time.advance(interval);
  window.add(2);
  window.add(3);
  time.advance(interval);
  window.add(4);
  CAF_CHECK_EQUAL(list(window), (sums{1, 5, 4}));
  time.advance(interval);
  window.add(7);
  CAF_CHECK_EQUAL(list(window), (sums{5, 4, 7}));
  time.advance(2 * interval);
  window.add(8);
  CAF_CHECK_EQUAL(list(window), (sums{7, 0, 8}));
}

CAF_TEST(a bucket type of ones own) {
  struct longest {
    std::string text;
    void add(const std::string& other) {
      if (other.size() > text.size()) text = other;
    }
    void reset() { text.clear(); }
  };
  manual_clock time;
  rolling_window<longest> window{2, interval, current_bucket::use, time};
  window.add(std::string{"a"});
  window.add(std::string{"abc"});
  time.advance(interval);
  window.add(std::string{"ab"});
  std::vector<std::string> seen;
  window.reduce([&](const longest& b) { seen.push_back(b.text); });
  CAF_CHECK_EQUAL(seen, (std::vector<std::string>{"abc", "ab"}));
}

CAF_TEST(the window equals a list of stamped values) {
  CAF_CHECK(holds("rolling_window equals a list of stamped values", [] {
    const auto size = *rc::gen::inRange<std::size_t>(1, 8);
    const auto ignore = *rc::gen::arbitrary<bool>();
    manual_clock time;
    rolling_window<> window{size, interval, ignore ? current_bucket::ignore : current_bucket::use, time};
    const auto begin = time.now();
    const auto bucket_now = [&] { return (time.now() - begin) / interval; };
    std::vector<std::pair<std::int64_t, double>> plain;  // bucket number, value
    for (const auto action : *rc::gen::container<std::vector<int>>(rc::gen::inRange(-3, 200))) {
      if (action < 0)
        time.advance(interval * -action);
      else if (action < 100)
        time.advance(std::chrono::milliseconds{action});
      else {
        window.add(action);
        plain.emplace_back(bucket_now(), action);
      }
      double expected = 0;
      std::int64_t count = 0;
      for (const auto& [bucket, value] : plain) {
        const auto age = bucket_now() - bucket;
        if (age >= static_cast<std::int64_t>(size) || (ignore && age == 0)) continue;
        expected += value;
        ++count;
      }
      double got = 0;
      std::int64_t got_count = 0;
      window.reduce([&](const sum_bucket& b) {
        got += b.sum;
        got_count += b.count;
      });
      RC_ASSERT(got == expected);
      RC_ASSERT(got_count == count);
    }
  }));
}

CAF_TEST(eight threads add and reduce) {
  rolling_window<> window{4, 1h};
  all_at_once(8, [&](int) {
    for (int i = 0; i < 5000 / slowdown; ++i) {
      window.add(1);
      if (i % 100 == 0) window.reduce([](const sum_bucket&) {});
    }
  });
  double sum = 0;
  for (const auto each : list(window)) sum += each;
  CAF_CHECK_EQUAL(sum, 8.0 * (5000 / slowdown));
}
