#define CAF_SUITE executors
#include <algorithm>
#include <numeric>

#include "caf/test/unit_test.hpp"
#include "toolbox/bulk_executor.hpp"
#include "toolbox/chunk_executor.hpp"
#include "toolbox/delay_executor.hpp"
#include "toolbox/less_executor.hpp"
#include "toolbox/testing/support.hpp"

using namespace caravan::toolbox;
using namespace caravan::toolbox::testing;

namespace {

// Everything that was handed on.
struct receiver {
  std::mutex mutex;
  std::vector<std::vector<int>> batches;

  auto taker() {
    return [this](std::vector<int> batch) {
      const std::lock_guard guard{mutex};
      batches.push_back(std::move(batch));
    };
  }
  std::size_t count() {
    const std::lock_guard guard{mutex};
    return batches.size();
  }
  std::size_t items() {
    const std::lock_guard guard{mutex};
    std::size_t sum = 0;
    for (const auto& batch : batches) sum += batch.size();
    return sum;
  }
  bool all_have(std::size_t size) {
    const std::lock_guard guard{mutex};
    return std::all_of(batches.begin(), batches.end(), [&](const auto& b) { return b.size() == size; });
  }
};

// A container that sums, and is full at ten.
struct sums {
  std::function<void(int)> hand_on;
  int sum = 0;
  bool add(int n) {
    sum += n;
    return sum >= 10;
  }
  int remove_all() { return std::exchange(sum, 0); }
  [[nodiscard]] bool is_empty(int batch) const { return batch == 0; }
  void execute(int batch) { hand_on(batch); }
};

}  // namespace

CAF_TEST(a less executor runs only so often) {
  manual_clock time;
  less_executor less{1min, time};
  int runs = 0;
  const auto run = [&] { return less.run([&] { ++runs; }); };
  CAF_CHECK(run());
  CAF_CHECK(!run());
  time.advance(59s);
  CAF_CHECK(!run());
  time.advance(1s);
  CAF_CHECK(run());
  CAF_CHECK_EQUAL(runs, 2);
}

CAF_TEST(of eight threads one runs) {
  less_executor less{1h};
  std::atomic<int> runs{0};
  all_at_once(8, [&](int) {
    for (int i = 0; i < 1000; ++i) less.run([&] { ++runs; });
  });
  CAF_CHECK_EQUAL(runs.load(), 1);
}

CAF_TEST("TOOL-068" a trigger after the run runs again) {
  manual_clock time;
  std::atomic<int> runs{0};
  delay_executor delayed{[&] { ++runs; }, 10ms, time};
  for (int round = 1; round <= 2; ++round) {
    delayed.trigger();
    CAF_CHECK(move_until(time, 10ms, [&] { return runs == round; }));
    time.advance(50ms);
  }
  CAF_CHECK_EQUAL(runs.load(), 2);
}

CAF_TEST(triggers within the delay are one) {
  manual_clock time;
  std::atomic<int> runs{0};
  delay_executor delayed{[&] { ++runs; }, 1s, time};
  for (int i = 0; i < 10; ++i) {
    delayed.trigger();
    time.advance(10ms);
  }
  CAF_CHECK_EQUAL(runs.load(), 0);
  CAF_CHECK(move_until(time, 100ms, [&] { return runs == 1; }));
  time.advance(1h);
  CAF_CHECK_EQUAL(runs.load(), 1);
}

CAF_TEST(a throw and a trigger from inside do no harm) {
  std::atomic<int> reported{0};
  auto before = set_stray_handler([&](std::exception_ptr) { ++reported; });
  manual_clock time;
  {
    std::atomic<int> runs{0};
    delay_executor* self = nullptr;
    delay_executor delayed{[&] {
                             if (++runs < 3) self->trigger();
                             throw std::runtime_error("boom");
                           },
                           10ms, time};
    self = &delayed;
    delayed.trigger();
    CAF_CHECK(move_until(time, 10ms, [&] { return runs == 3 && reported == 3; }));
    delayed.trigger();
    CAF_CHECK(move_until(time, 10ms, [&] { return runs == 4 && reported == 4; }));
    delayed.trigger();  // given up by the destructor
  }
  CAF_CHECK_EQUAL(reported.load(), 4);
  set_stray_handler(std::move(before));
}

CAF_TEST(eight threads trigger and the last trigger is never forgotten) {
  std::atomic<int> runs{0};
  std::atomic<int> triggers{0};
  std::atomic<int> seen{0};
  delay_executor delayed{[&] {
                           seen = triggers.load();
                           ++runs;
                         },
                         50us};
  all_at_once(8, [&](int) {
    for (int i = 0; i < 1000 / slowdown; ++i) {
      ++triggers;
      delayed.trigger();
      if (i % 50 == 0) std::this_thread::yield();
    }
  });
  CAF_CHECK(comes_true([&] { return seen == triggers; }));
  CAF_CHECK(runs <= triggers);
}

CAF_TEST("TOOL-069" sync has run when it returns) {
  periodical_executor<sums> p{1s, {[](int) {}}};
  bool done = false;
  p.sync([&](sums&) { done = true; });
  CAF_CHECK(done);
}

CAF_TEST(what is collected is handed on once an interval) {
  manual_clock time;
  std::atomic<int> got{0};
  periodical_executor<sums> p{1s, {[&](int n) { got += n; }}, time};
  p.add(1);
  p.add(2);
  CAF_CHECK_EQUAL(got.load(), 0);
  CAF_CHECK(move_until(time, 100ms, [&] { return got == 3; }));
}

CAF_TEST("TOOL-071" the idle thread quits and wakes up again) {
  manual_clock time;
  std::atomic<int> got{0};
  periodical_executor<sums> p{1s, {[&](int n) { got += n; }}, time};
  for (int round = 1; round <= 3; ++round) {
    CAF_CHECK(!p.has_thread());
    p.add(1);
    CAF_CHECK(p.has_thread());
    CAF_CHECK(move_until(time, 1s, [&] { return got == round; }));
    CAF_CHECK(move_until(time, 1s, [&] { return !p.has_thread(); }));
  }
}

CAF_TEST("TOOL-075" wait waits) {
  std::atomic<int> finished{0};
  bulk_executor<int> b{[&](std::vector<int>) {
                         std::this_thread::sleep_for(10ms);
                         ++finished;
                       },
                       {.tasks = 1}};
  for (int i = 0; i < 3; ++i) b.add(i);
  b.flush();
  b.wait();
  CAF_CHECK_EQUAL(finished.load(), 3);
}

CAF_TEST("TOOL-076" no deadlock) {
  std::atomic<int> executed{0};
  {
    bulk_executor<int> b{[&](std::vector<int> batch) { executed += static_cast<int>(batch.size()); },
                         {.tasks = 1, .interval = 1ms}};
    for (int i = 0; i < 100'000; ++i) b.add(1);
  }
  CAF_CHECK_EQUAL(executed.load(), 100'000);
}

CAF_TEST("TOOL-077" batches of ten) {
  manual_clock time;
  receiver r;
  bulk_executor<int> b{r.taker(), {.tasks = 10, .interval = 1min}, time};
  for (int i = 0; i < 50; ++i) {
    b.add(1);
    time.advance(1ms);
  }
  CAF_CHECK(comes_true([&] { return r.count() == 5; }));
  CAF_CHECK(r.all_have(10));
}

CAF_TEST("TOOL-081" a slow execution loses nothing) {
  receiver r;
  std::atomic<std::size_t> items{0};
  bulk_executor<int> b{[&](std::vector<int> batch) {
                         std::this_thread::sleep_for(100ms);
                         items += batch.size();
                       },
                       {.tasks = 1000}};
  for (int i = 0; i < 1500; ++i) b.add(i);
  CAF_CHECK(b.flush());
  b.wait();
  CAF_CHECK_EQUAL(items.load(), 1500u);
}

CAF_TEST("TOOL-082" defaults of bulk) {
  CAF_CHECK_EQUAL(bulk_options{}.tasks, 1000u);
  CAF_CHECK(bulk_options{}.interval == 1s);
  manual_clock time;
  receiver r;
  bulk_executor<int> b{r.taker(), {}, time};
  for (int i = 0; i < 1001; ++i) b.add(i);
  CAF_CHECK(comes_true([&] { return r.count() == 1; }));
  CAF_CHECK(r.all_have(1000));
  CAF_CHECK(move_until(time, 100ms, [&] { return r.items() == 1001; }));
}

CAF_TEST("TOOL-083" chunks by size) {
  manual_clock time;
  receiver r;
  chunk_executor<int> c{r.taker(), {.bytes = 10, .interval = 1min}, time};
  for (int i = 0; i < 50; ++i) c.add(1, 1);
  CAF_CHECK(comes_true([&] { return r.count() == 5; }));
  CAF_CHECK(r.all_have(10));
}

CAF_TEST("TOOL-085" defaults of chunk) {
  CAF_CHECK_EQUAL(chunk_options{}.bytes, 1024u * 1024u);
  CAF_CHECK(chunk_options{}.interval == 1s);
  receiver r;
  chunk_executor<int> c{r.taker()};
  c.add(1, 1024 * 1024);
  c.wait();
  CAF_CHECK_EQUAL(r.items(), 1u);
}

CAF_TEST(a batch that throws is reported and the next one comes) {
  std::atomic<int> reported{0};
  auto before = set_stray_handler([&](std::exception_ptr) { ++reported; });
  {
    std::atomic<int> executed{0};
    bulk_executor<int> b{[&](std::vector<int> batch) {
                           ++executed;
                           if (batch.front() == 1) throw std::runtime_error("boom");
                         },
                         {.tasks = 2}};
    for (int i = 1; i <= 4; ++i) b.add(i);
    b.wait();
    CAF_CHECK_EQUAL(executed.load(), 2);
    CAF_CHECK_EQUAL(reported.load(), 1);
    b.add(1);
    bool thrown = false;
    try {
      b.flush();
    } catch (const std::runtime_error&) {
      thrown = true;
    }
    CAF_CHECK(thrown);
    b.wait();
  }
  set_stray_handler(std::move(before));
}

CAF_TEST(bad options are refused) {
  const auto refuses = [](auto make) {
    try {
      make();
    } catch (const std::invalid_argument&) {
      return true;
    }
    return false;
  };
  CAF_CHECK(refuses([] { bulk_executor<int>{[](std::vector<int>) {}, {.tasks = 0}}; }));
  CAF_CHECK(refuses([] { bulk_executor<int>{nullptr}; }));
  CAF_CHECK(refuses([] { bulk_executor<int>{[](std::vector<int>) {}, {.tasks = 1, .interval = 0s}}; }));
  CAF_CHECK(refuses([] { chunk_executor<int>{[](std::vector<int>) {}, {.bytes = 0}}; }));
  CAF_CHECK(refuses([] { delay_executor{nullptr, 1s}; }));
}

CAF_TEST(eight threads add and flush and nothing is lost) {
  std::atomic<int> sum{0};
  {
    bulk_executor<int> b{[&](std::vector<int> batch) { sum += std::accumulate(batch.begin(), batch.end(), 0); },
                         {.tasks = 7, .interval = 1ms}};
    all_at_once(8, [&](int thread) {
      for (int i = 0; i < 2000 / slowdown; ++i) {
        b.add(1);
        if ((i + thread) % 50 == 0) b.flush();
        if (i % 500 == 0) b.wait();
      }
    });
  }
  CAF_CHECK_EQUAL(sum.load(), 8 * (2000 / slowdown));
}
