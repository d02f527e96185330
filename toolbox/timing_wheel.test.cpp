#define CAF_SUITE timing_wheel
#include "toolbox/timing_wheel.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>

#include "caf/test/unit_test.hpp"
#include "toolbox/testing/support.hpp"

using namespace caravan::toolbox;
using namespace caravan::toolbox::testing;

namespace {

constexpr auto step = std::chrono::seconds{60};

// A wheel on a fake clock, and what it has fired so far.
struct wheel_fixture {
  explicit wheel_fixture(std::size_t slots = 10)
      : wheel(
            step, slots, [this](std::string key, int value) { note(std::move(key), value); }, time) {}

  void note(std::string key, int value) {
    const std::lock_guard guard{mutex};
    fired.emplace_back(std::move(key), value);
  }
  std::size_t count() {
    const std::lock_guard guard{mutex};
    return fired.size();
  }
  // Timers are fired in batches: a second mark comes in a batch after the one that the first mark was in, or later,
  // so whatever was due before it has been called.
  void settle() {
    for (int mark = 0; mark < 2; ++mark) {
      CAF_CHECK(wheel.set("!", 0, step));
      CAF_CHECK(wheel.move("!", 1ns));
      CAF_REQUIRE(comes_true([&] {
        const std::lock_guard guard{mutex};
        return std::erase(fired, std::pair<std::string, int>{"!", 0}) == 1;
      }));
    }
  }
  // The ticks, one by one, each fully worked off.
  void ticks(int n) {
    for (int i = 0; i < n; ++i) {
      time.advance(step);
      settle();
      fired_at_tick.push_back(count());
    }
  }

  manual_clock time;
  std::mutex mutex;
  std::vector<std::pair<std::string, int>> fired;
  std::vector<std::size_t> fired_at_tick;
  timing_wheel<std::string, int> wheel;
};

}  // namespace

CAF_TEST("TOOL-001" bad arguments are refused) {
  using wheel = timing_wheel<std::string, int>;
  const auto refuses = [](auto make) {
    try {
      make();
    } catch (const std::invalid_argument&) {
      return true;
    }
    return false;
  };
  CAF_CHECK(refuses([] { wheel{0s, 10, [](std::string, int) {}}; }));
  CAF_CHECK(refuses([] { wheel{1s, 0, [](std::string, int) {}}; }));
  CAF_CHECK(refuses([] { wheel{1s, 10, nullptr}; }));
}

CAF_TEST("TOOL-002" a timer fires on its tick) {
  wheel_fixture f;
  CAF_CHECK(f.wheel.set("any", 3, step / 2));
  f.ticks(1);
  CAF_REQUIRE_EQUAL(f.count(), 1u);
  CAF_CHECK_EQUAL(f.fired[0].first, "any");
  CAF_CHECK_EQUAL(f.fired[0].second, 3);
  f.ticks(12);
  CAF_CHECK_EQUAL(f.count(), 1u);
}

CAF_TEST("TOOL-004" a negative delay is refused) {
  wheel_fixture f;
  CAF_CHECK(f.wheel.set("any", 3, -step).is(fault::invalid_argument));
  CAF_CHECK(f.wheel.set("any", 3, 0s).is(fault::invalid_argument));
  CAF_CHECK(f.wheel.move("any", -step).is(fault::invalid_argument));
  f.ticks(3);
  CAF_CHECK_EQUAL(f.count(), 0u);
}

CAF_TEST("TOOL-005" delays of any length around the ring are exact) {
  for (const int delay : {5, 7, 10, 12}) {
    wheel_fixture f{5};
    CAF_CHECK(f.wheel.set("any", delay, delay * step));
    f.ticks(delay - 1);
    CAF_CHECK_EQUAL(f.count(), 0u);
    f.ticks(1);
    CAF_CHECK_EQUAL(f.count(), 1u);
    f.ticks(5);
    CAF_CHECK_EQUAL(f.count(), 1u);
  }
}

CAF_TEST(a move below one tick fires without waiting for the tick) {
  wheel_fixture f;
  CAF_CHECK(f.wheel.set("any", 3, step));
  CAF_CHECK(f.wheel.move("any", step / 2));
  CAF_CHECK(comes_true([&] { return f.count() == 1; }));
}

CAF_TEST("TOOL-008" moved earlier it is called once) {
  wheel_fixture f;
  CAF_CHECK(f.wheel.set("any", 3, 4 * step));
  CAF_CHECK(f.wheel.move("any", 2 * step));
  f.ticks(3);
  CAF_CHECK_EQUAL(f.count(), 1u);
  CAF_CHECK_EQUAL(f.fired_at_tick[0], 0u);
  CAF_CHECK_EQUAL(f.fired_at_tick[1], 1u);
  f.ticks(3);
  CAF_CHECK_EQUAL(f.count(), 1u);
}

CAF_TEST("TOOL-010" moved twice the last moment counts) {
  using times = std::tuple<int, int, int>;
  for (const auto& [set, first, second] : {times{3, 5, 10}, times{3, 7, 12}, times{3, 10, 15}, times{3, 12, 17},
                                           times{5, 7, 12}, times{5, 10, 17}, times{5, 12, 17}}) {
    wheel_fixture f{5};
    CAF_CHECK(f.wheel.set("any", 3, set * step));
    CAF_CHECK(f.wheel.move("any", first * step));
    CAF_CHECK(f.wheel.move("any", second * step));
    f.ticks(second - 1);
    CAF_CHECK_EQUAL(f.count(), 0u);
    f.ticks(1);
    CAF_CHECK_EQUAL(f.count(), 1u);
    f.ticks(6);
    CAF_CHECK_EQUAL(f.count(), 1u);
  }
}

CAF_TEST("TOOL-013" moved and then removed it is never called) {
  wheel_fixture f;
  CAF_CHECK(f.wheel.set("any", 3, 8 * step));
  f.ticks(6);
  CAF_CHECK(*f.wheel.move("any", 7 * step));
  f.ticks(3);
  CAF_CHECK(*f.wheel.remove("any"));
  f.ticks(30);
  CAF_CHECK_EQUAL(f.count(), 0u);
}

CAF_TEST("TOOL-014" removing is harmless for unknown keys and refused for empty ones) {
  wheel_fixture f;
  CAF_CHECK(f.wheel.set("any", 3, step));
  CAF_CHECK(*f.wheel.remove("any"));
  const auto unknown = f.wheel.remove("unknown");
  CAF_REQUIRE(unknown);
  CAF_CHECK(!*unknown);
  CAF_CHECK(f.wheel.remove("").is(fault::invalid_argument));
  CAF_CHECK(f.wheel.set("", 1, step).is(fault::invalid_argument));
  CAF_CHECK(f.wheel.move("", step).is(fault::invalid_argument));
  f.ticks(5);
  CAF_CHECK_EQUAL(f.count(), 0u);
}

CAF_TEST("TOOL-016" a drain keeps key and value together) {
  timing_wheel<int, int> wheel{1s, 10, [](int, int) {}};
  for (int key = 0; key < 10; ++key) CAF_CHECK(wheel.set(key, 10 * key, 1min));
  std::map<int, int> seen;
  CAF_CHECK(wheel.drain([&](int key, int value) { seen.emplace(key, value); }));
  CAF_CHECK_EQUAL(seen.size(), 10u);
  for (const auto& [key, value] : seen) CAF_CHECK_EQUAL(value, 10 * key);
  CAF_CHECK_EQUAL(wheel.size(), 0u);
}

CAF_TEST("TOOL-017" many timers on one tick all fire once) {
  wheel_fixture f;
  for (int i = 0; i < 50; ++i) CAF_CHECK(f.wheel.set(std::to_string(i), 100 * i, step));
  f.ticks(1);
  CAF_REQUIRE_EQUAL(f.count(), 50u);
  std::sort(f.fired.begin(), f.fired.end());
  CAF_CHECK(std::unique(f.fired.begin(), f.fired.end()) == f.fired.end());
  for (const auto& [key, value] : f.fired) CAF_CHECK_EQUAL(value, 100 * std::stoi(key));
}

CAF_TEST("TOOL-018" after stop every call says closed) {
  wheel_fixture f;
  CAF_CHECK(f.wheel.set("any", 3, step));
  f.wheel.stop();
  f.wheel.stop();
  CAF_CHECK(f.wheel.set("any", 3, step).is(fault::closed));
  CAF_CHECK(f.wheel.move("any", step).is(fault::closed));
  CAF_CHECK(f.wheel.remove("any").is(fault::closed));
  CAF_CHECK(f.wheel.drain([](std::string, int) {}).is(fault::closed));
  CAF_CHECK(!f.wheel.has_thread());
  CAF_CHECK_EQUAL(f.count(), 0u);
}

CAF_TEST(setting a known key replaces value and moment) {
  wheel_fixture f;
  CAF_CHECK(*f.wheel.set("any", 1, 2 * step));
  CAF_CHECK(!*f.wheel.set("any", 2, 4 * step));
  f.ticks(3);
  CAF_CHECK_EQUAL(f.count(), 0u);
  f.ticks(1);
  CAF_REQUIRE_EQUAL(f.count(), 1u);
  CAF_CHECK_EQUAL(f.fired[0].second, 2);
}

CAF_TEST(a timer set between ticks is never early) {
  wheel_fixture f;
  f.time.advance(step / 2);
  CAF_CHECK(f.wheel.set("any", 1, step));
  f.time.advance(step / 2);
  f.settle();
  CAF_CHECK_EQUAL(f.count(), 0u);
  f.ticks(1);
  CAF_CHECK_EQUAL(f.count(), 1u);
}

CAF_TEST(a callback that throws hurts no other and is reported) {
  std::atomic<int> reported{0};
  auto before = set_stray_handler([&](std::exception_ptr e) { reported += text_of(e) == "boom"; });
  manual_clock time;
  std::atomic<int> called{0};
  {
    timing_wheel<int, int> wheel{1s, 64,
                                 [&](int key, int) {
                                   ++called;
                                   if (key % 2 == 0) throw std::runtime_error("boom");
                                 },
                                 time};
    for (int i = 0; i < 10; ++i) CAF_CHECK(wheel.set(i, 0, 1s));
    CAF_CHECK(move_until(time, 1s, [&] { return called == 10; }));
    CAF_CHECK(comes_true([&] { return reported == 5; }));
  }
  set_stray_handler(std::move(before));
}

CAF_TEST(the idle thread quits and comes back) {
  manual_clock time;
  std::atomic<int> called{0};
  timing_wheel<int, int> wheel{1ms, 64, [&](int, int) { ++called; }, time};
  CAF_CHECK(!wheel.has_thread());
  for (int round = 1; round <= 3; ++round) {
    CAF_CHECK(wheel.set(1, 1, 1ms));
    CAF_CHECK(move_until(time, 1ms, [&] { return called == round; }));
    CAF_CHECK(move_until(time, 100ms, [&] { return !wheel.has_thread(); }));
  }
}

CAF_TEST(a callback may set again and stop the wheel) {
  manual_clock time;
  std::atomic<int> called{0};
  timing_wheel<int, int>* self = nullptr;
  timing_wheel<int, int> wheel{1ms, 64,
                               [&](int key, int) {
                                 if (++called < 3)
                                   (void)self->set(key, 0, 1ms);
                                 else
                                   self->stop();
                               },
                               time};
  self = &wheel;
  CAF_CHECK(wheel.set(1, 1, 1ms));
  CAF_CHECK(move_until(time, 1ms, [&] { return called == 3; }));
  CAF_CHECK(comes_true([&] { return wheel.set(2, 1, 1ms).is(fault::closed); }));
}

CAF_TEST(real time works as well) {
  std::atomic<bool> called{false};
  timing_wheel<std::string, int> wheel{1ms, 64, [&](std::string, int) { called = true; }};
  const auto begin = std::chrono::steady_clock::now();
  CAF_CHECK(wheel.set("a", 1, 1h));
  CAF_CHECK(wheel.set("b", 1, 20ms));
  CAF_CHECK(comes_true([&] { return called.load(); }));
  CAF_CHECK(std::chrono::steady_clock::now() - begin >= 20ms);
}

CAF_TEST(the wheel does what a sorted map of due times does) {
  CAF_CHECK(holds("timing_wheel equals a sorted map", [] {
    wheel_fixture f{*rc::gen::element<std::size_t>(1, 5, 100)};
    std::map<std::string, std::pair<steady_time, int>> plain;  // key -> not before, value
    const auto begin = f.time.now();
    const auto tick_after = [&](steady_time moment) { return begin + (moment - begin + step - 1ns) / step * step; };
    const auto steps = *rc::gen::inRange(1, 8);
    for (int i = 0; i < steps; ++i) {
      const auto key = std::to_string(*rc::gen::inRange(0, 4));
      const std::chrono::nanoseconds delay = std::chrono::seconds{*rc::gen::inRange(60, 2000)};
      switch (*rc::gen::inRange(0, 5)) {
        case 0:
        case 1:
          RC_ASSERT(*f.wheel.set(key, i, delay) == !plain.contains(key));
          plain[key] = {tick_after(f.time.now() + delay), i};
          break;
        case 2:
          RC_ASSERT(*f.wheel.move(key, delay) == plain.contains(key));
          if (plain.contains(key)) plain[key].first = tick_after(f.time.now() + delay);
          break;
        case 3:
          RC_ASSERT(*f.wheel.remove(key) == (plain.erase(key) == 1));
          break;
        default: {
          f.time.advance(delay);
          f.settle();
          std::vector<std::pair<std::string, int>> expected;
          for (const auto& [k, v] : plain)
            if (v.first <= f.time.now()) expected.emplace_back(k, v.second);
          const std::lock_guard guard{f.mutex};
          std::sort(f.fired.begin(), f.fired.end());
          RC_ASSERT(f.fired == expected);
          f.fired.clear();
          for (const auto& [k, v] : expected) plain.erase(k);
        }
      }
      RC_ASSERT(f.wheel.size() == plain.size());
    }
  }));
}

// -- the bookkeeping alone ------------------------------------------------------------------------------------------

CAF_TEST(the ring does what a sorted map of due times does) {
  CAF_CHECK(holds("timer_ring equals a sorted map", [] {
    using ring_type = timer_ring<int, int>;
    ring_type ring{*rc::gen::element<std::size_t>(1, 64, 128, 1000)};
    std::map<int, std::pair<std::uint64_t, int>> plain;  // key -> due, value
    // Delays of every size, so that all rings take part.
    const auto delay = rc::gen::join(rc::gen::map(rc::gen::inRange(0, 40), [](int bits) {
      return rc::gen::inRange<std::uint64_t>(0, (std::uint64_t{1} << bits) + 1);
    }));
    const auto steps = *rc::gen::inRange(1, 200);
    for (int i = 0; i < steps; ++i) {
      const auto key = *rc::gen::inRange(0, 30);
      switch (*rc::gen::inRange(0, 5)) {
        case 0:
        case 1: {
          const auto due = ring.now() + *delay;
          RC_ASSERT(ring.set(key, i, due) == !plain.contains(key));
          plain[key] = {due, i};
          break;
        }
        case 2: {
          const auto due = ring.now() + *delay;
          RC_ASSERT(ring.move(key, due) == plain.contains(key));
          if (plain.contains(key)) plain[key].first = due;
          break;
        }
        case 3: {
          const auto removed = ring.remove(key);
          RC_ASSERT(removed.has_value() == plain.contains(key));
          if (removed) RC_ASSERT(*removed == plain[key].second);
          plain.erase(key);
          break;
        }
        default: {
          const auto to = ring.now() + *delay;
          for (const auto& [k, v] : plain) RC_ASSERT(*ring.next() <= std::max(v.first, ring.now()));
          std::map<int, int> expected;
          for (const auto& [k, v] : plain)
            if (v.first <= to) expected[k] = v.second;
          std::map<int, int> got;
          std::uint64_t last = 0;
          const auto from = ring.now();
          ring.advance(to, [&](int k, int v) {
            RC_ASSERT(got.emplace(k, v).second);
            RC_ASSERT(plain[k].first >= last || plain[k].first <= from);
            last = std::max(plain[k].first, last);
          });
          RC_ASSERT(got == expected);
          for (const auto& [k, v] : got) plain.erase(k);
          RC_ASSERT(ring.now() == to);
        }
      }
      RC_ASSERT(ring.size() == plain.size());
      RC_ASSERT((ring.find(key) != nullptr) == plain.contains(key));
    }
    std::map<int, int> rest;
    ring.drain([&](int k, int v) { rest.emplace(k, v); });
    RC_ASSERT(rest.size() == plain.size());
    for (const auto& [k, v] : plain) RC_ASSERT(rest[k] == v.second);
    RC_ASSERT(ring.empty());
  }));
}

CAF_TEST(the ring fires in the order of the ticks) {
  CAF_CHECK(holds("order of ticks", [](std::vector<std::uint32_t> dues) {
    timer_ring<std::size_t, std::uint64_t> ring{64};
    for (std::size_t i = 0; i < dues.size(); ++i) ring.set(i, dues[i], dues[i]);
    std::uint64_t last = 0;
    std::size_t fired = ring.advance(~std::uint32_t{0}, [&](std::size_t, std::uint64_t due) {
      RC_ASSERT(due >= last);
      last = due;
    });
    RC_ASSERT(fired == dues.size());
  }));
}

CAF_TEST(what the callback sets for a past tick waits for the next advance) {
  timer_ring<int, int> ring;
  ring.set(1, 0, 5);
  int fired = 0;
  const auto again = [&](int key, int) {
    ++fired;
    ring.set(key, 0, 1);
    ring.set(key + 100, 0, 7);
    ring.remove(key + 100);
  };
  CAF_CHECK_EQUAL(ring.advance(10, again), 1u);
  CAF_CHECK_EQUAL(ring.size(), 1u);
  CAF_CHECK(*ring.next() == 10);
  CAF_CHECK_EQUAL(ring.advance(10, again), 1u);
  CAF_CHECK_EQUAL(fired, 2);
}

CAF_TEST(a callback that throws leaves the other timers due) {
  timer_ring<int, int> ring;
  for (int i = 0; i < 5; ++i) ring.set(i, 0, 3);
  int fired = 0;
  int thrown = 0;
  while (!ring.empty()) {
    try {
      ring.advance(3, [&](int, int) {
        ++fired;
        throw 1;
      });
    } catch (int) {
      ++thrown;
    }
  }
  CAF_CHECK_EQUAL(fired, 5);
  CAF_CHECK_EQUAL(thrown, 5);
}

CAF_TEST(the ring holds values that can only be moved and the largest tick) {
  timer_ring<std::string, std::unique_ptr<int>> ring;
  ring.set("far", std::make_unique<int>(1), ~std::uint64_t{0});
  ring.set("near", std::make_unique<int>(2), 1);
  int sum = 0;
  ring.advance(~std::uint64_t{0} - 1, [&](std::string, std::unique_ptr<int> v) { sum += *v; });
  CAF_CHECK_EQUAL(sum, 2);
  ring.advance(~std::uint64_t{0}, [&](std::string, std::unique_ptr<int> v) { sum += *v; });
  CAF_CHECK_EQUAL(sum, 3);
}

CAF_TEST(eight threads stress the wheel) {
  std::atomic<int> fired{0};
  std::atomic<int> set{0};
  std::atomic<int> gone{0};
  {
    timing_wheel<int, int> wheel{1ms, 64, [&](int key, int value) { fired += key == value ? 1 : 1000000; }};
    all_at_once(8, [&](int thread) {
      for (int i = 0; i < 2000 / slowdown; ++i) {
        const int key = thread * 10000 + i;
        if (wheel.set(key, key, std::chrono::milliseconds{1 + i % 20})) ++set;
        if (i % 3 == 0) (void)wheel.move(key, 5ms);
        if (i % 5 == 0 && *wheel.remove(key)) ++gone;
        if (i % 500 == 499) (void)wheel.drain([&](int, int) { ++gone; });
      }
    });
    CAF_CHECK(comes_true([&] { return fired + gone == set; }));
    CAF_CHECK_EQUAL(wheel.size(), 0u);
  }
  CAF_CHECK_EQUAL(fired + gone, set.load());
}
