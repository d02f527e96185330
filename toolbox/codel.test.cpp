#define CAF_SUITE codel
#include "toolbox/codel.hpp"

#include <map>

#include "caf/test/unit_test.hpp"
#include "toolbox/testing/support.hpp"

using namespace caravan::toolbox;
using namespace caravan::toolbox::testing;

namespace {

using verdicts = std::vector<codel_core::verdict>;
constexpr steady_time t0{1h};
constexpr codel_options small{.max_in_flight = 2, .max_waiting = 3, .target = 100ms, .interval = 100ms};

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

CAF_TEST(the known come first and what is expensive for the unknown comes last) {
  CAF_CHECK(priority_of(true, false) == priority::high);
  CAF_CHECK(priority_of(true, true) == priority::high);
  CAF_CHECK(priority_of(false, false) == priority::normal);
  CAF_CHECK(priority_of(false, true) == priority::low);
}

CAF_TEST(so many go in and so many wait) {
  codel_core core{small};
  for (const auto wanted : {admission::go, admission::go, admission::wait, admission::wait, admission::wait,
                            admission::refused, admission::refused}) {
    const auto said = core.arrive(priority::normal, t0);
    CAF_CHECK_EQUAL(said.size(), 1u);
    CAF_CHECK(said[0].what == wanted);
  }
  CAF_CHECK(core.leave(t0) == verdicts({{3, admission::go}}));
  CAF_CHECK(core.leave(t0) == verdicts({{4, admission::go}}));
  const auto s = core.statistics();
  CAF_CHECK_EQUAL(s.in_flight, 2u);
  CAF_CHECK_EQUAL(s.waiting, 1u);
  CAF_CHECK_EQUAL(s.admitted, 4u);
  CAF_CHECK_EQUAL(s.refused_full, 2u);
}

CAF_TEST(the highest is let in first and the lowest gives way to a higher one) {
  codel_core core{small};
  (void)core.arrive(priority::low, t0);
  (void)core.arrive(priority::low, t0);
  (void)core.arrive(priority::low, t0);     // 3
  (void)core.arrive(priority::normal, t0);  // 4
  (void)core.arrive(priority::low, t0);     // 5
  CAF_CHECK(core.arrive(priority::low, t0) == verdicts({{6, admission::refused}}));
  CAF_CHECK(core.arrive(priority::high, t0) == verdicts({{7, admission::wait}, {5, admission::refused}}));
  CAF_CHECK(core.arrive(priority::normal, t0) == verdicts({{8, admission::wait}, {3, admission::refused}}));
  CAF_CHECK(core.arrive(priority::normal, t0) == verdicts({{9, admission::refused}}));
  CAF_CHECK(core.leave(t0) == verdicts({{7, admission::go}}));
  CAF_CHECK(core.leave(t0) == verdicts({{4, admission::go}}));
  CAF_CHECK(core.leave(t0) == verdicts({{8, admission::go}}));
}

CAF_TEST(a burst that is gone soon is no overload) {
  codel_core core{{.max_in_flight = 1, .max_waiting = 100, .target = 100ms, .interval = 100ms}};
  auto now = t0;
  for (int i = 0; i < 50; ++i) (void)core.arrive(priority::normal, now);
  for (int i = 0; i < 50; ++i) {
    now += 3ms;  // the last one waits 150 ms: above the target, but not for an interval
    for (const auto& v : core.leave(now)) CAF_CHECK(v.what == admission::go);
  }
  CAF_CHECK_EQUAL(core.statistics().refused_late, 0u);
  CAF_CHECK(!core.next_tick());
}

CAF_TEST(a line that stays is cut faster and faster until the wait is short) {
  codel_core core{{.max_in_flight = 1, .max_waiting = 1000, .target = 100ms, .interval = 100ms}};
  for (int i = 0; i < 101; ++i) (void)core.arrive(priority::normal, t0);
  // Nothing leaves: only the ticks can help those who wait.
  CAF_REQUIRE(core.next_tick());
  std::vector<steady_time> refused_at;
  while (const auto due = core.next_tick()) {
    for (const auto& v : core.tick(*due)) {
      CAF_CHECK(v.what == admission::refused);
      CAF_CHECK_EQUAL(v.who, refused_at.size() + 2);
      refused_at.push_back(*due);
    }
    CAF_REQUIRE(*due < t0 + 1min);
  }
  CAF_REQUIRE_EQUAL(refused_at.size(), 100u);
  CAF_CHECK(refused_at[0] == t0 + 200ms);
  CAF_CHECK(refused_at[1] == t0 + 300ms);
  for (std::size_t i = 2; i < refused_at.size(); ++i)
    CAF_CHECK(refused_at[i] - refused_at[i - 1] <= refused_at[i - 1] - refused_at[i - 2]);
  CAF_CHECK(refused_at.back() < t0 + 3s);
  CAF_CHECK(!core.overloaded());
}

CAF_TEST(under lasting overload those who are let in have waited little and the high ones are not refused) {
  // One every 10 ms is served, two arrive: twice as many as fit. A fifth of them are known.
  codel_core core{{.max_in_flight = 1, .max_waiting = 500, .target = 50ms, .interval = 100ms}};
  std::map<codel_core::ticket, std::pair<steady_time, priority>> waits;
  std::size_t served = 0, late = 0, high_refused = 0, refused = 0;
  const auto note = [&](const verdicts& all, steady_time now) {
    for (const auto& v : all) {
      const auto found = waits.find(v.who);
      if (found == waits.end() || v.what == admission::wait) continue;
      if (v.what == admission::refused) {
        ++refused;
        high_refused += found->second.second == priority::high;
      } else if (now > t0 + 10s) {
        ++served;
        late += now - found->second.first > 500ms;
      }
      waits.erase(found);
    }
  };
  auto now = t0;
  for (int step = 0; step < 6000; ++step, now += 5ms) {
    const auto level = step % 5 == 0 ? priority::high : step % 5 == 1 ? priority::low : priority::normal;
    const auto said = core.arrive(level, now);
    waits.emplace(said[0].who, std::pair(now, level));
    note(said, now);
    if (step % 2 == 1) note(core.leave(now), now);
    if (const auto due = core.next_tick(); due && *due <= now) note(core.tick(now), now);
  }
  CAF_MESSAGE("served " << served << ", late " << late << ", refused " << refused);
  CAF_CHECK_EQUAL(high_refused, 0u);
  CAF_CHECK(refused > 1000);
  CAF_CHECK(served > 1500);
  CAF_CHECK(late * 20 < served);
}

CAF_TEST(who gives up is no longer in the line) {
  codel_core core{small};
  (void)core.arrive(priority::normal, t0);
  (void)core.arrive(priority::normal, t0);
  (void)core.arrive(priority::normal, t0);
  CAF_CHECK(core.give_up(3, t0));
  CAF_CHECK(!core.give_up(3, t0));
  CAF_CHECK(!core.next_tick());
  CAF_CHECK(core.leave(t0).empty());
  CAF_CHECK_EQUAL(core.statistics().in_flight, 1u);
}

CAF_TEST(bad options are refused) {
  CAF_CHECK(refuses([] { codel_core{{.max_in_flight = 0}}; }));
  CAF_CHECK(refuses([] { codel_core{{.target = 0ms}}; }));
  CAF_CHECK(refuses([] { codel_core{{.interval = -1ms}}; }));
}

CAF_TEST(a pass that leaves lets the next one in) {
  codel door{{.max_in_flight = 1, .max_waiting = 1, .target = 1h, .interval = 1h}};
  auto first = door.enter(priority::normal);
  CAF_REQUIRE(first);
  std::atomic<bool> inside{false};
  std::jthread second{[&] {
    auto pass = door.enter(priority::normal);
    inside = pass.has_value();
  }};
  CAF_CHECK(comes_true([&] { return door.statistics().waiting == 1; }));
  CAF_CHECK(door.enter(priority::low).is(fault::rejected));
  first->leave();
  first->leave();
  second.join();
  CAF_CHECK(inside.load());
  CAF_CHECK_EQUAL(door.statistics().in_flight, 0u);
}

CAF_TEST(who waits too long is refused without anybody leaving and a stop token ends a wait) {
  manual_clock time;
  codel door{{.max_in_flight = 1, .max_waiting = 10, .target = 100ms, .interval = 100ms}, time};
  auto first = door.enter(priority::normal);
  std::atomic<int> refused{0};
  {
    std::jthread late{[&] { refused += door.enter(priority::normal).is(fault::rejected); }};
    CAF_CHECK(move_until(time, 50ms, [&] { return refused == 1; }));
  }
  std::stop_source stop;
  std::atomic<bool> cancelled{false};
  std::jthread leaver{[&] { cancelled = door.enter(priority::normal, stop.get_token()).is(fault::cancelled); }};
  CAF_CHECK(comes_true([&] { return door.statistics().waiting == 1; }));
  stop.request_stop();
  leaver.join();
  CAF_CHECK(cancelled.load());
  CAF_CHECK_EQUAL(door.statistics().waiting, 0u);
}

CAF_TEST(never more than allowed are inside) {
  codel door{{.max_in_flight = 3, .max_waiting = 4, .target = 1h, .interval = 1h}};
  std::atomic<int> inside{0}, most{0}, refused{0}, done{0};
  all_at_once(8, [&](int thread) {
    for (int i = 0; i < 2000 / slowdown; ++i) {
      auto pass = door.enter(static_cast<priority>(thread % 3));
      if (!pass) {
        ++refused;
        continue;
      }
      const auto n = ++inside;
      for (auto seen = most.load(); n > seen && !most.compare_exchange_weak(seen, n);) {
      }
      --inside;
      ++done;
    }
  });
  CAF_CHECK(most.load() <= 3);
  CAF_CHECK_EQUAL(done + refused, 8 * (2000 / slowdown));
  const auto s = door.statistics();
  CAF_CHECK_EQUAL(s.in_flight + s.waiting, 0u);
  CAF_CHECK_EQUAL(s.admitted, static_cast<std::uint64_t>(done.load()));
}
