#define CAF_SUITE routines
#include <set>
#include <string>

#include "caf/test/unit_test.hpp"
#include "toolbox/channel.hpp"
#include "toolbox/do_with_retry.hpp"
#include "toolbox/do_with_timeout.hpp"
#include "toolbox/parallel.hpp"
#include "toolbox/routine_group.hpp"
#include "toolbox/stable_runner.hpp"
#include "toolbox/task_runner.hpp"
#include "toolbox/testing/support.hpp"

using namespace caravan::toolbox;
using namespace caravan::toolbox::testing;

namespace {

// Counts what reaches the stray handler while it lives.
struct stray_counter {
  stray_counter()
      : before(set_stray_handler([this](std::exception_ptr e) {
          const std::lock_guard guard{mutex};
          texts.push_back(text_of(e));
        })) {}
  ~stray_counter() { set_stray_handler(std::move(before)); }
  std::size_t count() {
    const std::lock_guard guard{mutex};
    return texts.size();
  }
  std::mutex mutex;
  std::vector<std::string> texts;
  stray_handler before;
};

template <class Work>
std::string thrown_by(Work work) {
  try {
    work();
  } catch (const std::exception& e) {
    return e.what();
  }
  return "";
}

const outcome<void> good;
const outcome<void> bad{failure{fault::failed, "any"}};

}  // namespace

// -- run_safe -------------------------------------------------------------------------------------------------------

CAF_TEST("TOOL-141" a throw stays inside and is logged) {
  stray_counter strays;
  CAF_CHECK(!run_safe([] { throw std::runtime_error("boom"); }));
  CAF_CHECK(!run_safe([] { throw 7; }));
  CAF_CHECK(run_safe([] {}));
  {
    auto thread = go_safe([] { throw "text"; });
  }
  {
    auto thread = go_safe([](std::stop_token stop) {
      while (!stop.stop_requested()) std::this_thread::yield();
    });
  }
  CAF_CHECK_EQUAL(strays.texts, (std::vector<std::string>{"boom", "an exception that is no std::exception", "text"}));
}

CAF_TEST(a handler that throws does no harm) {
  auto before = set_stray_handler([](std::exception_ptr) { throw 1; });
  CAF_CHECK(!run_safe([] { throw std::runtime_error("boom"); }));
  set_stray_handler(std::move(before));
}

CAF_TEST(eight threads throw into handlers that are replaced meanwhile) {
  auto before = set_stray_handler(nullptr);
  std::atomic<int> reported{0};
  const auto count = [&](std::exception_ptr) { ++reported; };
  set_stray_handler(count);
  all_at_once(8, [&](int thread) {
    for (int i = 0; i < 500 / slowdown; ++i) {
      if (thread == 0)
        set_stray_handler(count);
      else
        run_safe([] { throw std::runtime_error("boom"); });
    }
  });
  CAF_CHECK_EQUAL(reported.load(), 7 * (500 / slowdown));
  set_stray_handler(std::move(before));
}

// -- routine_group and worker_group ---------------------------------------------------------------------------------

CAF_TEST("TOOL-140" run and wait) {
  stray_counter strays;
  std::atomic<int> count{0};
  routine_group group;
  for (int i = 0; i < 3; ++i) group.run([&] { ++count; });
  group.wait();
  CAF_CHECK_EQUAL(count.load(), 3);
  count = 0;
  std::atomic<bool> once{false};
  for (int i = 0; i < 3; ++i)
    group.run_safe([&] {
      if (!once.exchange(true)) throw std::runtime_error("any");
      ++count;
    });
  group.wait();
  CAF_CHECK_EQUAL(count.load(), 2);
  CAF_CHECK_EQUAL(strays.count(), 1u);
}

CAF_TEST(what a routine throws comes out of wait once) {
  std::atomic<int> ended{0};
  routine_group group;
  group.run([&] { ++ended; });
  group.run([] { throw std::runtime_error("any"); });
  group.run([&] {
    group.run([&] { ++ended; });
    ++ended;
  });
  CAF_CHECK_EQUAL(thrown_by([&] { group.wait(); }), "any");
  CAF_CHECK_EQUAL(ended.load(), 3);
  group.wait();
}

CAF_TEST(eight threads run routines in one group) {
  std::atomic<int> ended{0};
  routine_group group;
  all_at_once(8, [&](int) {
    for (int i = 0; i < 50; ++i) {
      group.run([&] { ++ended; });
      group.run_safe([&] { group.run([&] { ++ended; }); });
    }
  });
  group.wait();
  CAF_CHECK_EQUAL(ended.load(), 800);
}

CAF_TEST("TOOL-142" n workers are n threads) {
  std::mutex mutex;
  std::set<std::thread::id> ids;
  std::atomic<int> inside{0};
  worker_group{[&] {
                 {
                   const std::lock_guard guard{mutex};
                   ids.insert(std::this_thread::get_id());
                 }
                 ++inside;
                 (void)comes_true([&] { return inside == 10; });
               },
               10}
      .start();
  CAF_CHECK_EQUAL(ids.size(), 10u);
}

// -- task_runner ----------------------------------------------------------------------------------------------------

CAF_TEST("TOOL-136" bounded) {
  std::atomic<int> runs{0};
  std::atomic<int> inside{0};
  std::atomic<int> too_many{0};
  task_runner runner{4};
  for (int i = 0; i < 100; ++i)
    runner.schedule([&, only_moved = std::make_unique<int>(i)] {
      if (++inside > 4) ++too_many;
      ++runs;
      std::this_thread::yield();
      --inside;
    });
  runner.wait();
  CAF_CHECK_EQUAL(runs.load(), 100);
  CAF_CHECK_EQUAL(too_many.load(), 0);
  CAF_CHECK(runner.threads() <= 4);
}

CAF_TEST("TOOL-137" immediately or busy) {
  constexpr int n = 4;
  std::atomic<int> runs{0};
  std::atomic<bool> let_go{false};
  task_runner runner{n};
  int accepted = 0;
  int busy = 0;
  for (int i = 0; i < 2 * n; ++i) {
    const auto got = runner.schedule_immediately([&] {
      (void)comes_true([&] { return let_go.load(); });
      ++runs;
    });
    accepted += static_cast<bool>(got);
    busy += got.is(fault::busy);
  }
  let_go = true;
  runner.wait();
  CAF_CHECK_EQUAL(accepted, n);
  CAF_CHECK_EQUAL(busy, n);
  CAF_CHECK_EQUAL(runs.load(), n);
}

CAF_TEST(idle threads of a task runner quit and come back) {
  manual_clock time;
  task_runner runner{2, time};
  std::atomic<int> runs{0};
  for (int round = 1; round <= 3; ++round) {
    CAF_CHECK_EQUAL(runner.threads(), 0u);
    runner.schedule([&] { ++runs; });
    runner.wait();
    CAF_CHECK_EQUAL(runs.load(), round);
    CAF_CHECK(move_until(time, 100ms, [&] { return runner.threads() == 0; }));
  }
}

CAF_TEST(a task that throws frees its thread) {
  stray_counter strays;
  task_runner runner{1};
  for (int i = 0; i < 3; ++i) runner.schedule([] { throw std::runtime_error("any"); });
  runner.wait();
  CAF_CHECK_EQUAL(strays.count(), 3u);
}

CAF_TEST(eight threads schedule on one runner) {
  std::atomic<int> runs{0};
  std::atomic<int> accepted{0};
  {
    task_runner runner{3};
    all_at_once(8, [&](int thread) {
      for (int i = 0; i < 1000 / slowdown; ++i) {
        if (thread % 2 == 0) {
          runner.schedule([&] { ++runs; });
          ++accepted;
        } else if (runner.schedule_immediately([&] { ++runs; })) {
          ++accepted;
        }
        if (i % 300 == 0) runner.wait();
      }
    });
  }
  CAF_CHECK_EQUAL(runs.load(), accepted.load());
}

// -- stable_runner --------------------------------------------------------------------------------------------------

CAF_TEST("TOOL-138" results in push order) {
  constexpr int n = 50;
  stable_runner<int, double> runner{[](int i) {
                                      std::this_thread::sleep_for(i == 0 ? 100ms : std::chrono::milliseconds{i % 10});
                                      return i + 0.5;
                                    },
                                    8};
  for (int i = 0; i < n; ++i) CAF_CHECK(runner.push(i));
  runner.close();
  CAF_CHECK(runner.push(99).is(fault::closed));
  for (int i = 0; i < n; ++i) {
    const auto got = runner.get();
    CAF_REQUIRE(got);
    CAF_CHECK_EQUAL(*got, i + 0.5);
  }
  CAF_CHECK(!runner.get());
}

CAF_TEST(a stable runner holds the pusher back and passes throws to their place) {
  stable_runner<int, int> runner{[](int i) {
                                   if (i % 3 == 0) throw std::runtime_error(std::to_string(i));
                                   return i;
                                 },
                                 4, 5};
  std::atomic<int> pushed{0};
  std::jthread feeder{[&] {
    for (int i = 0; i < 100; ++i) {
      (void)runner.push(i);
      ++pushed;
    }
    runner.close();
  }};
  CAF_CHECK(comes_true([&] { return pushed == 5; }));
  for (int i = 0; i < 100; ++i) {
    try {
      const auto got = runner.get();
      CAF_CHECK(got && *got == i && i % 3 != 0);
    } catch (const std::runtime_error& e) {
      CAF_CHECK_EQUAL(std::string{e.what()}, std::to_string(i));
    }
  }
  CAF_CHECK(!runner.get());
}

CAF_TEST(eight threads push to and get from one stable runner) {
  stable_runner<int, int> runner{[](int i) { return i; }, 3, 10};
  std::atomic<int> sum{0};
  std::atomic<int> pushers{4};
  all_at_once(8, [&](int thread) {
    if (thread < 4) {
      for (int i = 0; i < 1000 / slowdown; ++i) (void)runner.push(1);
      if (--pushers == 0) runner.close();
    } else {
      while (const auto got = runner.get()) sum += *got;
    }
  });
  CAF_CHECK_EQUAL(sum.load(), 4 * (1000 / slowdown));
}

// -- parallel -------------------------------------------------------------------------------------------------------

CAF_TEST("TOOL-088" no error) {
  CAF_CHECK(parallel_err([] { return good; }, [] { return good; }, [] { return good; }));
}

CAF_TEST(parallel runs all and passes a throw on) {
  std::atomic<int> count{0};
  const auto text =
      thrown_by([&] { parallel([&] { ++count; }, [] { throw std::runtime_error("any"); }, [&] { ++count; }); });
  CAF_CHECK_EQUAL(text, "any");
  CAF_CHECK_EQUAL(count.load(), 2);
  const auto failed = parallel_err([] { return bad; }, [] { return good; }, [] { return false; });
  CAF_REQUIRE(failed.is(fault::failed));
  CAF_CHECK(failed.error().text == "any; a task failed" || failed.error().text == "a task failed; any");
}

// -- do_with_timeout ------------------------------------------------------------------------------------------------

CAF_TEST(in time the result comes back) {
  CAF_CHECK(*do_with_timeout([] { return 5; }, 1h) == 5);
  CAF_CHECK(do_with_timeout([] {}, 1h));
  CAF_CHECK(**do_with_timeout([] { return std::make_unique<int>(3); }, 1h) == 3);
}

CAF_TEST(too late the caller goes on and the function is asked to stop) {
  manual_clock time;
  auto ended = std::make_shared<std::atomic<bool>>(false);
  auto begun = std::make_shared<std::atomic<bool>>(false);
  std::atomic<bool> answered{false};
  std::jthread mover{[&] {
    (void)comes_true([&] { return begun->load(); });
    (void)move_until(time, 10ms, [&] { return answered.load(); });
  }};
  const auto got = do_with_timeout(
      [ended, begun](std::stop_token stop) {
        *begun = true;
        while (!stop.stop_requested()) std::this_thread::yield();
        *ended = true;
      },
      50ms, {}, time);
  answered = true;
  CAF_CHECK(got.is(fault::timed_out));
  CAF_CHECK(comes_true([&] { return ended->load() && stragglers::get().reap() == 0; }));
}

CAF_TEST("TOOL-091" a throw passes on) {
  CAF_CHECK_EQUAL(thrown_by([] { (void)do_with_timeout([] { throw std::runtime_error("hello"); }, 50s); }), "hello");
}

CAF_TEST("TOOL-092" the outer cancel ends the wait) {
  std::stop_source outer;
  std::jthread canceller{[&] {
    std::this_thread::sleep_for(10ms);
    outer.request_stop();
  }};
  const auto begin = std::chrono::steady_clock::now();
  const auto got = do_with_timeout(
      [](std::stop_token stop) {
        std::mutex mutex;
        std::condition_variable_any sleeping;
        std::unique_lock lock{mutex};
        sleeping.wait_for(lock, stop, 1min, [] { return false; });
      },
      10s, outer.get_token());
  CAF_CHECK(got.is(fault::cancelled));
  CAF_CHECK(std::chrono::steady_clock::now() - begin < 5s);
  CAF_CHECK(comes_true([] { return stragglers::get().reap() == 0; }));
}

CAF_TEST(a late throw is reported) {
  stray_counter strays;
  CAF_CHECK(do_with_timeout(
                [](std::stop_token stop) {
                  while (!stop.stop_requested()) std::this_thread::yield();
                  throw std::runtime_error("late");
                },
                1ms)
                .is(fault::timed_out));
  CAF_CHECK(comes_true([&] { return strays.count() == 1 && stragglers::get().reap() == 0; }));
}

CAF_TEST(eight threads call with a timeout) {
  std::atomic<int> wrong{0};
  all_at_once(8, [&](int thread) {
    for (int i = 0; i < 50 / (slowdown > 1 ? 5 : 1); ++i) {
      const auto got = do_with_timeout([thread] { return thread; }, i % 2 == 0 ? std::chrono::nanoseconds{10s} : 20us);
      if (got ? *got != thread : !got.is(fault::timed_out)) ++wrong;
    }
  });
  CAF_CHECK_EQUAL(wrong.load(), 0);
  CAF_CHECK(comes_true([] { return stragglers::get().reap() == 0; }));
}

// -- do_with_retry --------------------------------------------------------------------------------------------------

CAF_TEST("TOOL-093" the default is three tries) {
  CAF_CHECK(!do_with_retry([] { return bad; }));
  const auto good_on = [](int n) {
    return do_with_retry([n, tries = 0]() mutable { return ++tries == n ? good : bad; });
  };
  const auto third = good_on(3);
  CAF_CHECK(third);
  CAF_CHECK_EQUAL(third.tries, 3u);
  const auto fourth = good_on(4);
  CAF_CHECK(!fourth);
  CAF_CHECK(fourth.why == fault::failed);
  CAF_CHECK_EQUAL(fourth.last->error().text, "any");
}

CAF_TEST(count and ignored errors) {
  int tries = 0;
  CAF_CHECK(do_with_retry([&] { return ++tries == 5; }, {.count = 5}));
  CAF_CHECK_EQUAL(tries, 5);
  tries = 0;
  CAF_CHECK(do_with_retry(
      [&] {
        ++tries;
        return bad;
      },
      {}, [](const auto& r) { return r.error().text == "any"; }));
  CAF_CHECK_EQUAL(tries, 1);
}

CAF_TEST("TOOL-096" the interval counts into the timeout) {
  manual_clock time;
  std::atomic<bool> over{false};
  int tries = 0;
  std::jthread mover{[&] { (void)move_until(time, 10ms, [&] { return over.load(); }); }};
  const auto got = do_with_retry(
      [&] {
        if (++tries == 1) return bad;
        time.advance(150ms);
        return good;
      },
      {.interval = 150ms, .timeout = 250ms}, time);
  over = true;
  CAF_CHECK(!got);
  CAF_CHECK(got.why == fault::timed_out);
}

CAF_TEST("TOOL-098" a deadline allows one try) {
  manual_clock time;
  int tries = 0;
  const auto got = do_with_retry(
      [&] {
        ++tries;
        time.advance(150ms);
        return bad;
      },
      {.interval = 150ms, .timeout = 250ms}, time);
  CAF_CHECK(!got);
  CAF_CHECK_EQUAL(tries, 1);
}

CAF_TEST("TOOL-099" the number of the retry is passed) {
  std::vector<unsigned> numbers;
  CAF_CHECK(!do_with_retry([&](unsigned retry) {
    numbers.push_back(retry);
    return bad;
  }));
  CAF_CHECK_EQUAL(numbers, (std::vector<unsigned>{0, 1, 2}));
}

CAF_TEST(a throwing try is retried and the last throw passes on) {
  int tries = 0;
  CAF_CHECK(do_with_retry([&] {
    if (++tries < 3) throw std::runtime_error("any");
    return true;
  }));
  CAF_CHECK_EQUAL(thrown_by([] { (void)do_with_retry([]() -> bool { throw std::runtime_error("last"); }); }), "last");
}

CAF_TEST(cancel ends the pause) {
  std::stop_source stop;
  std::jthread canceller{[&] { stop.request_stop(); }};
  const auto got = do_with_retry([] { return false; }, {.interval = 1h, .stop = stop.get_token()});
  CAF_CHECK(got.why == fault::cancelled);
}

// -- channel --------------------------------------------------------------------------------------------------------

CAF_TEST(a channel keeps order and bound and end) {
  channel<int> c{2};
  CAF_CHECK(c.push(1));
  CAF_CHECK(c.push(2));
  std::atomic<bool> third{false};
  std::jthread writer{[&] {
    third = c.push(3);
    c.close();
  }};
  CAF_CHECK(c.pop() == 1);
  CAF_CHECK(c.pop() == 2);
  CAF_CHECK(c.pop() == 3);
  CAF_CHECK(c.pop() == std::nullopt);
  CAF_CHECK(comes_true([&] { return third.load(); }));
  CAF_CHECK(!c.push(4));
}

CAF_TEST(a push that does not wait leaves the value where there is no room) {
  channel<std::unique_ptr<int>> line{2};
  auto value = std::make_unique<int>(1);
  CAF_CHECK(line.try_push(value));
  CAF_CHECK(!value);
  value = std::make_unique<int>(2);
  CAF_CHECK(line.try_push(value));
  value = std::make_unique<int>(3);
  CAF_CHECK(!line.try_push(value));
  CAF_CHECK(value && *value == 3);
  CAF_CHECK(**line.pop() == 1);
  CAF_CHECK(line.try_push(value));
  line.abandon();
  value = std::make_unique<int>(4);
  CAF_CHECK(!line.try_push(value));
  CAF_CHECK(value && *value == 4);
  CAF_CHECK(!line.pop());
  channel<int> direct{0};
  int n = 5;
  CAF_CHECK(!direct.try_push(n));
  channel<int> awaited{1};
  std::atomic<int> got{0};
  std::jthread reader{[&] { got = *awaited.pop(); }};
  CAF_CHECK(awaited.try_push(n));
  CAF_CHECK(comes_true([&] { return got == 5; }));
}

CAF_TEST(an abandoned channel frees its writers and a failed one throws at its end) {
  channel<int> c{0};
  std::atomic<bool> freed{false};
  std::jthread writer{[&] { freed = !c.push(1); }};
  CAF_CHECK(comes_true([&] { return c.size() == 1; }));
  c.abandon();
  CAF_CHECK(comes_true([&] { return freed.load(); }));
  channel<int> failed{2};
  CAF_CHECK(failed.push(1));
  failed.fail(std::make_exception_ptr(std::runtime_error("any")));
  CAF_CHECK(failed.pop() == 1);
  CAF_CHECK_EQUAL(thrown_by([&] { (void)failed.pop(); }), "any");
}

CAF_TEST(eight threads push and pop) {
  for (const std::size_t capacity : {0u, 1u, 10u}) {
    channel<int> c{capacity};
    std::atomic<int> sum{0};
    std::atomic<int> writers{4};
    all_at_once(8, [&](int thread) {
      if (thread < 4) {
        for (int i = 0; i < 1000 / slowdown; ++i) (void)c.push(1);
        if (--writers == 0) c.close();
      } else {
        while (auto v = c.pop()) sum += *v;
      }
    });
    CAF_CHECK_EQUAL(sum.load(), 4 * (1000 / slowdown));
  }
}
