#define CAF_SUITE worker_threads
#include "actors/worker_pool/worker_threads.hpp"

#include <atomic>
#include <condition_variable>
#include <iostream>
#include <mutex>
#include <new>
#include <set>
#include <stdexcept>
#include <thread>

#include "caf/test/unit_test.hpp"

using namespace caravan;
using namespace std::chrono_literals;
using ended_call = worker_threads::ended_call;

namespace {

void scenario(const char* id) { std::cout << "scenario " << id << "\n"; }

struct function_runner : runner {
  std::function<batch_result(const batch&, const run_context&)> f;
  explicit function_runner(decltype(f) fn) : f(std::move(fn)) {}
  batch_result run(const batch& work, const run_context& ctx) override { return f(work, ctx); }
  std::string describe() const override { return "test"; }
};

batch work(std::uint64_t token, std::size_t size = 1, std::chrono::milliseconds timeout = 0ms) {
  std::vector<record> items(size);
  for (auto& r : items) r.timeout = timeout;
  return {"q", token, 30s, std::make_shared<const std::vector<record>>(std::move(items))};
}

/// Collects reports and lets a test wait for them.
struct reports {
  std::mutex mutex;
  std::condition_variable came;
  std::vector<ended_call> calls;

  worker_threads::on_ended sink() {
    return [this](ended_call&& c) {
      const std::lock_guard lock(mutex);
      calls.push_back(std::move(c));
      came.notify_all();
    };
  }
  void await(std::size_t n) {
    std::unique_lock lock(mutex);
    came.wait(lock, [&] { return calls.size() >= n; });
  }
  std::size_t count() {
    const std::lock_guard lock(mutex);
    return calls.size();
  }
};

/// Something to wait for, set once.
struct signal {
  std::mutex mutex;
  std::condition_variable changed;
  int value = 0;
  void raise() {
    const std::lock_guard lock(mutex);
    ++value;
    changed.notify_all();
  }
  void await(int n = 1) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return value >= n; });
  }
};

auto runner_of(std::function<batch_result(const batch&, const run_context&)> f) {
  return std::make_shared<function_runner>(std::move(f));
}

}  // namespace

CAF_TEST(threads run what is on the shelf and report) {
  reports r;
  worker_threads t(runner_of([](const batch& b, const run_context& c) -> batch_result {
                     if (c.node != "node-1") return {};
                     return {{0, item_outcome::kind::later, std::to_string(b.token), 0ms}};
                   }),
                   0ms, "node-1", r.sink());
  CAF_CHECK(t.start(2));
  for (std::uint64_t n = 1; n <= 10; ++n) t.run(work(n));
  r.await(10);
  std::set<std::uint64_t> tokens;
  for (const auto& c : r.calls) {
    tokens.insert(c.token);
    CAF_CHECK_EQUAL(c.rest.at(0).text, std::to_string(c.token));
    CAF_CHECK(c.took.count() >= 0);
  }
  CAF_CHECK_EQUAL(tokens.size(), 10u);
  CAF_CHECK_EQUAL(t.close(20s), 0u);
}

CAF_TEST(whatever a handler throws its items failed and the thread goes on) {
  scenario("QUEUE-038");
  reports r;
  worker_threads t(runner_of([](const batch& b, const run_context&) -> batch_result {
                     switch (b.token) {
                       case 1: throw std::runtime_error("disk full");
                       case 2: throw std::bad_alloc();
                       case 3: throw 42;
                       default: return {};
                     }
                   }),
                   0ms, "n", r.sink());
  t.start(1);
  for (std::uint64_t n = 1; n <= 4; ++n) t.run(work(n, 3));
  r.await(4);
  const char* texts[] = {"the handler threw: disk full", "the handler ran out of memory",
                         "the handler threw something that is no std::exception"};
  for (std::size_t i = 0; i < 3; ++i) {
    CAF_REQUIRE_EQUAL(r.calls[i].rest.size(), 3u);
    for (const auto& o : r.calls[i].rest) CAF_CHECK(o.what == item_outcome::kind::failed && o.text == texts[i]);
  }
  CAF_CHECK(r.calls[3].rest.empty());
}

CAF_TEST(a stop reaches the handler it is meant for) {
  reports r;
  signal begun;
  worker_threads t(runner_of([&](const batch& b, const run_context& c) -> batch_result {
                     std::mutex m;
                     std::condition_variable_any cv;
                     std::unique_lock lock(m);
                     begun.raise();
                     cv.wait(lock, c.stop, [] { return false; });
                     return {{0, item_outcome::kind::unhandled, std::to_string(b.token), 0ms}};
                   }),
                   0ms, "n", r.sink());
  t.start(2);
  t.run(work(1));
  t.run(work(2));
  begun.await(2);
  CAF_CHECK_EQUAL(t.running().size(), 2u);
  t.ask_stop(77);
  t.ask_stop(2);
  r.await(1);
  CAF_CHECK_EQUAL(r.calls[0].token, 2u);
  CAF_CHECK_EQUAL(t.running().size(), 1u);
  t.ask_stop(1);
  r.await(2);
}

CAF_TEST(a handler sees its deadline) {
  reports r;
  std::mutex m;
  std::vector<std::chrono::steady_clock::duration> left;
  worker_threads t(runner_of([&](const batch&, const run_context& c) -> batch_result {
                     const std::lock_guard lock(m);
                     left.push_back(c.deadline == std::chrono::steady_clock::time_point::max() ? -1s : c.deadline - std::chrono::steady_clock::now());
                     return {};
                   }),
                   60s, "n", r.sink());
  t.start(1);
  t.run(work(1));
  t.run(work(2, 2, 30s));
  t.run(work(3, 1, 90s));
  r.await(3);
  CAF_CHECK(left[0] > 30s && left[0] <= 60s);
  CAF_CHECK(left[1] > 0s && left[1] <= 30s);
  CAF_CHECK(left[2] > 30s && left[2] <= 60s);
}

CAF_TEST(an abandoned handler reports nothing and others go on) {
  reports r;
  signal begun, release, gone;
  {
    worker_threads t(runner_of([&](const batch& b, const run_context&) -> batch_result {
                       if (b.token == 1) {
                         begun.raise();
                         release.await();
                         gone.raise();
                       }
                       return {};
                     }),
                     0ms, "n", r.sink());
    t.start(1);
    t.run(work(1));
    begun.await();
    t.abandon(1);
    t.abandon(1);  // once is enough
    CAF_CHECK(t.running().empty());
    t.start(1);
    t.run(work(2));
    r.await(1);
    CAF_CHECK_EQUAL(t.close(20s), 0u);  // the abandoned one is not waited for
  }
  release.raise();
  gone.await();
  CAF_CHECK_EQUAL(r.count(), 1u);
}

CAF_TEST(a close with a stuck handler returns asks it to stop and hears nothing of it any more) {
  scenario("QUEUE-035");
  reports r;
  signal begun, release, gone;
  std::atomic<bool> asked{false};
  {
    worker_threads t(runner_of([&](const batch&, const run_context& c) -> batch_result {
                       begun.raise();
                       release.await();
                       asked = c.stop.stop_requested();
                       gone.raise();
                       return {};
                     }),
                     0ms, "n", r.sink());
    t.start(2);
    t.run(work(1));
    begun.await();
    t.run(work(2));
    begun.await(2);
    t.run(work(3));
    CAF_CHECK_EQUAL(t.close(10ms), 2u);
    CAF_CHECK(t.take_unstarted().empty());
    CAF_CHECK_EQUAL(t.close(0ms), 2u);
  }
  release.raise();
  gone.await(2);
  CAF_CHECK(asked);
  CAF_CHECK_EQUAL(r.count(), 0u);
}

CAF_TEST(what no thread has begun can be taken back) {
  reports r;
  worker_threads t(runner_of([](const batch&, const run_context&) -> batch_result { return {}; }), 0ms, "n", r.sink());
  t.run(work(1));
  t.run(work(2));
  const auto back = t.take_unstarted();
  CAF_REQUIRE_EQUAL(back.size(), 2u);
  CAF_CHECK_EQUAL(back[0].token, 1u);
  t.start(1);
  t.run(work(3));
  r.await(1);
  CAF_CHECK_EQUAL(r.calls[0].token, 3u);
}

CAF_TEST(retired threads end and work is not lost by that) {
  reports r;
  worker_threads t(runner_of([](const batch&, const run_context&) -> batch_result { return {}; }), 0ms, "n", r.sink());
  t.start(4);
  for (std::uint64_t n = 0; n < 200; ++n) {
    if (n % 60 == 0 && n > 0) t.retire(1);
    t.run(work(n + 1));
  }
  r.await(200);
  t.run(work(999));
  r.await(201);
  CAF_CHECK_EQUAL(t.close(20s), 0u);
}

CAF_TEST(the last handle may be dropped by a report) {
  // The pool's actor can end because a worker's thread held its last handle.
  signal destroyed;
  auto pool = std::make_unique<std::unique_ptr<worker_threads>>();
  auto* slot = pool.get();
  *slot = std::make_unique<worker_threads>(runner_of([](const batch&, const run_context&) -> batch_result { return {}; }), 0ms, "n",
                                           [&, slot](ended_call&&) {
                                             slot->reset();
                                             destroyed.raise();
                                           });
  auto& t = **slot;
  t.run(work(1));
  t.start(1);  // from here on it may be gone
  destroyed.await();
}

CAF_TEST(closing while calls end is clean every time) {
  for (int round = 0; round < 300; ++round) {
    std::atomic<bool> alive{true};
    std::atomic<int> late{0};
    {
      worker_threads t(runner_of([](const batch&, const run_context&) -> batch_result { return {}; }), 0ms, "n", [&](ended_call&&) {
        if (!alive) ++late;
      });
      t.start(3);
      for (std::uint64_t n = 1; n <= 6; ++n) t.run(work(n));
      if (round % 3 == 0) t.retire(2);
      if (round % 4 == 0) t.ask_stop(2);
      if (round % 5 == 0) t.abandon(3);
      t.close(round % 2 == 0 ? 0ms : 20s);
      alive = false;
    }
    CAF_CHECK_EQUAL(late.load(), 0);
  }
}

CAF_TEST(eight threads under stress answer each batch once) {
  constexpr std::uint64_t total = 8'000;
  reports r;
  std::vector<std::atomic<int>> runs(total + 1);
  worker_threads t(runner_of([&](const batch& b, const run_context&) -> batch_result {
                     ++runs[b.token];
                     if (b.token % 7 == 0) throw std::runtime_error("seven");
                     return {};
                   }),
                   0ms, "n", r.sink());
  t.start(8);
  std::atomic<bool> over{false};
  std::thread observer([&] {
    while (!over) {
      for (const auto& c : t.running()) t.ask_stop(c.token);
      std::this_thread::yield();
    }
  });
  std::vector<std::thread> givers;
  for (std::uint64_t g = 0; g < 4; ++g)
    givers.emplace_back([&, g] {
      for (std::uint64_t n = g + 1; n <= total; n += 4) t.run(work(n));
    });
  for (auto& g : givers) g.join();
  r.await(total);
  over = true;
  observer.join();
  CAF_CHECK_EQUAL(t.close(20s), 0u);
  CAF_CHECK_EQUAL(r.count(), total);
  bool once = true;
  for (std::uint64_t n = 1; n <= total; ++n) once = once && runs[n] == 1;
  CAF_CHECK(once);
}
