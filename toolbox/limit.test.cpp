#define CAF_SUITE limit
#include "toolbox/limit.hpp"

#include "caf/test/unit_test.hpp"
#include "toolbox/barrier.hpp"
#include "toolbox/cond.hpp"
#include "toolbox/spin_lock.hpp"
#include "toolbox/testing/support.hpp"

using namespace caravan::toolbox;
using namespace caravan::toolbox::testing;

CAF_TEST("TOOL-040" borrow and return ) {
  limit l{2};
  l.borrow();
  CAF_CHECK(l.try_borrow());
  CAF_CHECK(!l.try_borrow());
  CAF_CHECK(l.give_back());
  CAF_CHECK(l.give_back());
  CAF_CHECK(l.give_back().is(fault::invalid_argument));
  CAF_CHECK_EQUAL(l.available(), 2u);
}

CAF_TEST(a limit of zero is refused) {
  bool refused = false;
  try {
    limit l{0};
  } catch (const std::invalid_argument&) {
    refused = true;
  }
  CAF_CHECK(refused);
}

CAF_TEST(a permit gives itself back) {
  limit l{1};
  {
    auto permit = l.try_scope();
    CAF_CHECK(permit);
    CAF_CHECK(!l.try_scope());
    auto moved = std::move(*permit);
  }
  CAF_CHECK_EQUAL(l.available(), 1u);
  { auto permit = l.scope(); }
  CAF_CHECK_EQUAL(l.available(), 1u);
}

CAF_TEST("TOOL-041" borrow waits for a return) {
  for (const auto after : {0ms, 100ms}) {
    manual_clock time;
    timeout_limit l{2, time};
    CAF_CHECK(l.borrow(1s));
    CAF_CHECK(l.borrow(1s));
    const auto begin = time.now();
    std::jthread other{[&] {
      (void)move_until(time, 10ms, [&] { return time.now() - begin >= after; });
      (void)l.give_back();
    }};
    CAF_CHECK(l.borrow(1h));
    CAF_CHECK(time.now() - begin < 1h);
  }
}

CAF_TEST("TOOL-042" borrow times out) {
  manual_clock time;
  timeout_limit l{2, time};
  CAF_CHECK(l.borrow(100ms));
  CAF_CHECK(l.borrow(100ms));
  const auto begin = time.now();
  std::atomic<bool> timed_out{false};
  std::jthread waiter{[&] { timed_out = l.borrow(100ms).is(fault::timed_out); }};
  CAF_CHECK(move_until(time, 10ms, [&] { return timed_out.load(); }));
  CAF_CHECK(time.now() - begin >= 100ms);
  CAF_CHECK(l.give_back());
  CAF_CHECK(l.give_back());
  CAF_CHECK(l.give_back().is(fault::invalid_argument));
}

CAF_TEST(a cancelled wait takes no permit) {
  timeout_limit l{1};
  l.borrow();
  std::stop_source stop;
  std::atomic<bool> cancelled{false};
  std::jthread waiter{[&] { cancelled = l.borrow(1h, stop.get_token()).is(fault::cancelled); }};
  stop.request_stop();
  CAF_CHECK(comes_true([&] { return cancelled.load(); }));
  CAF_CHECK(l.give_back());
  CAF_CHECK_EQUAL(l.available(), 1u);
  CAF_CHECK(l.borrow(1h, stop.get_token()));  // one that is free is taken all the same
}

CAF_TEST(a limit equals a counter) {
  CAF_CHECK(holds("limit equals a counter", [](std::vector<bool> steps) {
    const auto size = *rc::gen::inRange<std::size_t>(1, 6);
    limit l{size};
    std::size_t out = 0;
    for (const bool borrow : steps) {
      if (borrow) {
        RC_ASSERT(l.try_borrow() == (out < size));
        if (out < size) ++out;
      } else {
        RC_ASSERT(static_cast<bool>(l.give_back()) == (out > 0));
        if (out > 0) --out;
      }
      RC_ASSERT(l.available() == size - out);
    }
  }));
}

CAF_TEST(eight threads never hold more than the limit) {
  timeout_limit l{3};
  std::atomic<int> inside{0};
  std::atomic<int> too_many{0};
  std::atomic<int> served{0};
  all_at_once(8, [&](int thread) {
    for (int i = 0; i < 5000 / slowdown; ++i) {
      bool mine = true;
      if ((i + thread) % 3 == 0)
        l.borrow();
      else if ((i + thread) % 3 == 1)
        mine = l.try_borrow();
      else
        mine = static_cast<bool>(l.borrow(50us));
      if (!mine) continue;
      if (++inside > 3) ++too_many;
      ++served;
      --inside;
      (void)l.give_back();
    }
  });
  CAF_CHECK_EQUAL(too_many.load(), 0);
  CAF_CHECK(served > 0);
  CAF_CHECK_EQUAL(l.available(), 3u);
}

CAF_TEST(no wake up is lost between many waiters) {
  limit l{1};
  int plain = 0;
  all_at_once(8, [&](int) {
    for (int i = 0; i < 5000 / slowdown; ++i) {
      const auto permit = l.scope();
      ++plain;
    }
  });
  CAF_CHECK_EQUAL(plain, 8 * (5000 / slowdown));
}

// -- cond -----------------------------------------------------------------------------------------------------------

CAF_TEST("TOOL-051" the remaining time) {
  manual_clock time;
  cond c{time};
  std::jthread other{[&] {
    (void)comes_true([&] { return c.waiting() == 1; });
    time.advance(200ms);
    c.signal();
  }};
  const auto [signalled, remaining] = c.wait(2s);
  CAF_CHECK(signalled);
  CAF_CHECK(remaining == 1800ms);
}

CAF_TEST("TOOL-052" a signal without a waiter does not block and is lost) {
  manual_clock time;
  cond c{time};
  c.signal();
  c.signal();
  std::atomic<bool> over{false};
  std::jthread mover{[&] { (void)move_until(time, 100ms, [&] { return over.load(); }); }};
  const auto got = c.wait(1s);
  over = true;
  CAF_CHECK(!got.signalled);
  CAF_CHECK(got.remaining == 0ns);
}

CAF_TEST(one signal wakes one waiter) {
  cond c;
  std::atomic<int> woken{0};
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      c.wait();
      ++woken;
    });
  CAF_REQUIRE(comes_true([&] { return c.waiting() == 4; }));
  c.signal();
  CAF_CHECK(comes_true([&] { return woken == 1; }));
  CAF_CHECK_EQUAL(c.waiting(), 3u);
  for (int i = 0; i < 3; ++i) c.signal();
  threads.clear();
  CAF_CHECK_EQUAL(woken.load(), 4);
}

CAF_TEST(eight threads wait and signal) {
  cond c;
  std::atomic<int> running{4};
  all_at_once(8, [&](int thread) {
    if (thread < 4) {
      for (int i = 0; i < 1000 / slowdown; ++i) (void)c.wait(i % 2 == 0 ? std::chrono::nanoseconds{1ms} : 10us);
      --running;
    } else {
      while (running > 0) {
        c.signal();
        std::this_thread::yield();
      }
    }
  });
  CAF_CHECK_EQUAL(c.waiting(), 0u);
}

// -- spin_lock and barrier ------------------------------------------------------------------------------------------

CAF_TEST("TOOL-064" try on a spin lock) {
  spin_lock l;
  CAF_CHECK(l.try_lock());
  CAF_CHECK(!l.try_lock());
  l.unlock();
  CAF_CHECK(l.try_lock());
}

CAF_TEST(eight threads count under a spin lock and a barrier) {
  spin_lock l;
  barrier b;
  int under_lock = 0;
  int under_barrier = 0;
  all_at_once(8, [&](int) {
    for (int i = 0; i < 5000 / slowdown; ++i) {
      {
        const std::lock_guard guard{l};
        ++under_lock;
      }
      b.guard([&] { ++under_barrier; });
    }
  });
  CAF_CHECK_EQUAL(under_lock, 8 * (5000 / slowdown));
  CAF_CHECK_EQUAL(under_barrier, 8 * (5000 / slowdown));
}
