#pragma once

/// What the tests of this folder share: threads that start together, virtual time that moves until something has
/// happened, and property tests that fail the CAF test they stand in.
///
///   check_that([&] { return done.load(); });                      // waits; fails loudly after 30 s of real time
///   move_until(clock, 10ms, [&] { return done.load(); });
///   all_at_once(8, [&](int i) { work(i); });
///   CAF_CHECK(holds("what is promised", [](std::vector<int> values) { RC_ASSERT(...); }));

#include <rapidcheck.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <latch>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "toolbox/clock.hpp"

namespace caravan::toolbox::testing {

using namespace std::chrono_literals;

/// Waits for something that another thread is about to do. Only how long it takes may vary, never whether it comes.
template <class Condition>
[[nodiscard]] bool comes_true(Condition condition) {
  const auto end = std::chrono::steady_clock::now() + 30s;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(200us);
  }
  return true;
}

/// Moves a clock step by step, with a breath after each, until the condition holds.
template <class Condition>
[[nodiscard]] bool move_until(manual_clock& time, std::chrono::nanoseconds step, Condition condition) {
  return comes_true([&] {
    if (condition()) return true;
    time.advance(step);
    std::this_thread::sleep_for(1ms);
    return condition();
  });
}

/// Runs work(0) .. work(count - 1) on threads that start together, and joins them.
template <class Work>
void all_at_once(int count, Work work) {
  std::latch start{count};
  std::vector<std::jthread> threads;
  for (int i = 0; i < count; ++i)
    threads.emplace_back([&, i] {
      start.arrive_and_wait();
      work(i);
    });
}

/// A rapidcheck property. The seed is printed when rapidcheck starts; RC_PARAMS="seed=..." repeats a run.
template <class Property>
[[nodiscard]] bool holds(const std::string& promise, Property&& property) {
  return rc::check(promise, std::forward<Property>(property));
}

/// The heavier tests divide their rounds by this under a sanitizer.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
inline constexpr int slowdown = 10;
#else
inline constexpr int slowdown = 1;
#endif

}  // namespace caravan::toolbox::testing
