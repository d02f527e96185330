#define CAF_SUITE owner_core
#include "actors/owner/owner_core.hpp"

#include <caf/test/unit_test.hpp>

#include <algorithm>
#include <vector>

using namespace caravan;
using namespace std::chrono_literals;
using action = owner_core::action;
using time_point = owner_core::time;

namespace {
const time_point start{1h};
}

CAF_TEST(it tries at once then renews at a third and stops believing before the lease ends) {
  owner_core c(9s, 1);
  CAF_CHECK(c.due(start) == action::acquire);
  c.on_acquired(7, start);
  CAF_CHECK(c.owns());
  CAF_CHECK_EQUAL(c.epoch(), 7u);
  CAF_CHECK(c.certain_until() == start + 8100ms);
  CAF_CHECK(c.due(start + 2999ms) == action::none);
  CAF_CHECK(c.due(start + 3s) == action::renew);
  CAF_CHECK(c.next_wake() == start + 3s);
  // The lease counts from when the call was sent, not from its answer.
  c.on_renewed(start + 3s);
  CAF_CHECK(c.certain_until() == start + 11'100ms);
}

CAF_TEST(a store that does not answer is asked again soon but not all the time) {
  owner_core c(9s, 1);
  c.on_acquired(7, start);
  auto now = start + 3s;
  std::vector<owner_core::duration> pauses;
  for (int i = 0; i < 8; ++i) {
    c.on_failed(now);
    pauses.push_back(*c.next_wake() - now);
    now = *c.next_wake();
  }
  CAF_CHECK(pauses.front() == 50ms);
  CAF_CHECK(pauses.back() == 1s);
  CAF_CHECK(std::is_sorted(pauses.begin(), pauses.end()));
  CAF_CHECK(c.owns());  // in doubt, but nobody else is known to
  CAF_CHECK(c.certain_until() == start + 8100ms);
  c.on_chance(now - 10ms);
  CAF_CHECK(c.due(now - 10ms) == action::renew);
  c.on_renewed(now);
  c.on_failed(now + 3s);
  CAF_CHECK(*c.next_wake() - (now + 3s) == 50ms);
}

CAF_TEST(who is fenced tries again and waits for the holder) {
  owner_core c(9s, 1);
  c.on_acquired(7, start);
  c.on_fenced(start + 3s);
  CAF_CHECK(!c.owns());
  CAF_CHECK(c.certain_until() == time_point{});
  CAF_CHECK(c.due(start + 3s) == action::acquire);
  c.on_held(5s, start + 3s);
  CAF_CHECK(c.due(start + 8s) == action::none);
  CAF_CHECK(c.due(start + 8s + 500ms) == action::acquire);
  c.on_held(1h, start);  // no lease is longer than one's own
  CAF_CHECK(*c.next_wake() <= start + 9s + 500ms);
  c.on_chance(start + 1s);
  CAF_CHECK(c.due(start + 1s) == action::acquire);
  c.resign();
  CAF_CHECK(!c.next_wake());
  c.on_chance(start + 2s);
  CAF_CHECK(c.due(start + 2h) == action::none);
}

// The store of the simulation keeps its own time, as Redis does.
CAF_TEST(two nodes never believe at once as long as their clocks run alike) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    std::mt19937_64 random(seed);
    const auto chance = [&](int of) { return std::uniform_int_distribution<int>(0, of - 1)(random) == 0; };
    const auto lease = 900ms;
    struct node {
      owner_core core;
      time_point frozen_until{};
    };
    std::vector<node> nodes;
    for (std::uint64_t i = 0; i < 3; ++i) nodes.push_back({owner_core(lease, seed * 10 + i), {}});
    std::uint64_t epoch = 0;
    int holder = -1;
    time_point ends{};
    int takeovers = 0;
    int unowned = 0;
    for (auto now = start; now < start + 60s; now += 1ms) {
      int believers = 0;
      for (int i = 0; i < 3; ++i) {
        auto& n = nodes[static_cast<std::size_t>(i)];
        if (n.core.owns() && now < n.core.certain_until()) ++believers;
        if (now < n.frozen_until) continue;
        if (chance(20'000)) n.frozen_until = now + 2 * lease;
        const auto what = n.core.due(now);
        if (what == action::none) continue;
        const auto sent = now - std::chrono::milliseconds(std::uniform_int_distribution<int>(0, 40)(random));
        if (chance(10)) {
          n.core.on_failed(now);
        } else if (what == action::acquire && holder != i && now < ends) {
          n.core.on_held(ends - now, now);
        } else if (what == action::acquire) {
          if (holder != i) ++takeovers;
          holder = i;
          ends = now + lease;
          n.core.on_acquired(++epoch, sent);
        } else if (n.core.epoch() != epoch) {
          n.core.on_fenced(now);
        } else {
          ends = now + lease;
          n.core.on_renewed(sent);
        }
      }
      if (believers > 1) CAF_FAIL("seed " << seed << ": two believe");
      unowned = believers == 0 ? unowned + 1 : 0;
      if (unowned > 8000) CAF_FAIL("seed " << seed << ": nobody takes it");
    }
    CAF_CHECK(takeovers >= 1);
  }
}
