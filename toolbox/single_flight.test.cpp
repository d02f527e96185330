#define CAF_SUITE single_flight
#include "toolbox/single_flight.hpp"

#include <map>
#include <string>

#include "caf/test/unit_test.hpp"
#include "toolbox/locked_calls.hpp"
#include "toolbox/testing/support.hpp"

using namespace caravan::toolbox;
using namespace caravan::toolbox::testing;

CAF_TEST("TOOL-033" value and error pass through) {
  single_flight<std::string, std::string> flight;
  CAF_CHECK_EQUAL(flight.call("key", [] { return std::string{"bar"}; }), "bar");
  std::string thrown;
  try {
    (void)flight.call("key", []() -> std::string { throw std::runtime_error("some error"); });
  } catch (const std::runtime_error& e) {
    thrown = e.what();
  }
  CAF_CHECK_EQUAL(thrown, "some error");
  single_flight<std::string, outcome<std::string>> with_outcome;
  const auto got = with_outcome.call("key", [] { return outcome<std::string>{failure{fault::failed, "E"}}; });
  CAF_CHECK(got.is(fault::failed));
  CAF_CHECK_EQUAL(got.error().text, "E");
}

CAF_TEST("TOOL-035" one call per key) {
  single_flight<std::string, std::string> flight;
  const std::vector<std::string> keys{"e", "a", "e", "a", "b", "c", "b", "a", "c", "d", "b", "c", "d"};
  std::atomic<int> calls{0};
  std::atomic<int> entered{0};
  std::atomic<int> right{0};
  all_at_once(static_cast<int>(keys.size()), [&](int i) {
    const auto& key = keys[static_cast<std::size_t>(i)];
    ++entered;
    const auto got = flight.call(key, [&] {
      ++calls;
      (void)comes_true([&] { return entered == 13; });
      std::this_thread::sleep_for(100ms);
      return key;
    });
    right += got == key;
  });
  CAF_CHECK_EQUAL(calls.load(), 5);
  CAF_CHECK_EQUAL(right.load(), 13);
}

CAF_TEST("TOOL-037" it is no cache) {
  single_flight<int, int> flight;
  int calls = 0;
  for (int i = 0; i < 2; ++i) (void)flight.call(1, [&] { return ++calls; });
  CAF_CHECK_EQUAL(calls, 2);
}

CAF_TEST(exactly one caller is fresh) {
  single_flight<int, int> flight;
  std::atomic<int> entered{0};
  std::atomic<int> fresh{0};
  all_at_once(8, [&](int) {
    ++entered;
    const auto got = flight.call_ex(1, [&] {
      (void)comes_true([&] { return entered == 8; });
      std::this_thread::sleep_for(50ms);
      return 7;
    });
    fresh += got.fresh;
  });
  CAF_CHECK_EQUAL(fresh.load(), 1);
}

CAF_TEST(a throw reaches everyone who waits) {
  single_flight<int, int> flight;
  std::atomic<int> entered{0};
  std::atomic<int> caught{0};
  // The exception is one object for all. libstdc++ counts its users where ThreadSanitizer cannot see it, so here
  // nobody lets go before all have read.
  std::latch all_have_read{8};
  all_at_once(8, [&](int) {
    ++entered;
    try {
      (void)flight.call(1, [&]() -> int {
        (void)comes_true([&] { return entered == 8; });
        std::this_thread::sleep_for(50ms);
        throw std::runtime_error("boom");
      });
    } catch (const std::runtime_error& e) {
      caught += std::string{e.what()} == "boom";
      all_have_read.arrive_and_wait();
    }
  });
  CAF_CHECK_EQUAL(caught.load(), 8);
}

CAF_TEST(a caller who gives up harms nobody) {
  single_flight<int, int> flight;
  std::atomic<bool> let_go{false};
  std::atomic<bool> inside{false};
  std::atomic<int> leader{0};
  std::jthread first{[&] {
    leader = flight.call(1, [&] {
      inside = true;
      (void)comes_true([&] { return let_go.load(); });
      return 7;
    });
  }};
  CAF_REQUIRE(comes_true([&] { return inside.load(); }));
  std::stop_source stop;
  std::atomic<bool> gave_up{false};
  std::jthread second{[&] {
    gave_up = flight
                  .call(
                      1, [] { return 8; }, stop.get_token())
                  .is(fault::cancelled);
  }};
  std::atomic<int> other{0};
  std::jthread third{[&] {
    other = *flight.call(
        1, [] { return 7; }, std::stop_token{});
  }};
  stop.request_stop();
  CAF_CHECK(comes_true([&] { return gave_up.load(); }));
  let_go = true;
  first.join();
  second.join();
  third.join();
  CAF_CHECK_EQUAL(leader.load(), 7);
  CAF_CHECK_EQUAL(other.load(), 7);
}

CAF_TEST(asking for its own key from inside is found out) {
  single_flight<int, int> flight;
  bool thrown = false;
  try {
    (void)flight.call(1, [&] { return flight.call(1, [] { return 1; }); });
  } catch (const std::system_error& e) {
    thrown = e.code() == std::errc::resource_deadlock_would_occur;
  }
  CAF_CHECK(thrown);
  CAF_CHECK_EQUAL(flight.call(1, [&] { return flight.call(2, [] { return 2; }); }), 2);
}

CAF_TEST(eight threads stress the flights) {
  single_flight<int, std::string> flight;
  std::atomic<int> wrong{0};
  all_at_once(8, [&](int thread) {
    for (int i = 0; i < 5000 / slowdown; ++i) {
      const int key = (i + thread) % 20;
      try {
        if (flight.call(key, [&] {
              if (i % 7 == 0) throw std::runtime_error("boom");
              return std::to_string(key);
            }) != std::to_string(key))
          ++wrong;
      } catch (const std::runtime_error&) {
        // Not looked into: see all_have_read above.
      }
    }
  });
  CAF_CHECK_EQUAL(wrong.load(), 0);
}

// -- locked_calls ---------------------------------------------------------------------------------------------------

CAF_TEST(locked calls run every function and never two of one key at once) {
  locked_calls<int> calls;
  std::array<int, 4> counts{};  // plain ints: the tool is what protects them
  std::array<std::atomic<int>, 4> inside{};
  std::atomic<int> overlaps{0};
  all_at_once(8, [&](int thread) {
    for (int i = 0; i < 2000 / slowdown; ++i) {
      const auto key = static_cast<std::size_t>(thread + i) % 4;
      calls.call(static_cast<int>(key), [&] {
        if (++inside[key] != 1) ++overlaps;
        ++counts[key];
        --inside[key];
      });
    }
  });
  CAF_CHECK_EQUAL(overlaps.load(), 0);
  CAF_CHECK_EQUAL(counts[0] + counts[1] + counts[2] + counts[3], 8 * (2000 / slowdown));
  CAF_CHECK_EQUAL(calls.size(), 0u);
}

CAF_TEST(locked calls of different keys do run at once) {
  locked_calls<std::string> calls;
  std::atomic<int> inside{0};
  std::atomic<int> met{0};
  all_at_once(2, [&](int i) {
    met += calls.call(i == 0 ? "a" : "b", [&] {
      ++inside;
      return comes_true([&] { return inside == 2; });
    });
  });
  CAF_CHECK_EQUAL(met.load(), 2);
}

CAF_TEST(a locked call that throws frees its key) {
  locked_calls<std::string> calls;
  bool thrown = false;
  try {
    calls.call("a", [] { throw 1; });
  } catch (int) {
    thrown = true;
  }
  CAF_CHECK(thrown);
  CAF_CHECK_EQUAL(calls.size(), 0u);
  CAF_CHECK_EQUAL(calls.call("a", [] { return 3; }), 3);
}
