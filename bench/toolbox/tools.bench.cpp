// The other tools against the plain thing that one would write in their place: a pair of benchmarks each,
// plain_x first.
#include <benchmark/benchmark.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "toolbox/breaker.hpp"
#include "toolbox/bulk_executor.hpp"
#include "toolbox/cache.hpp"
#include "toolbox/limit.hpp"
#include "toolbox/map_reduce.hpp"
#include "toolbox/period_limit.hpp"
#include "toolbox/pool.hpp"
#include "toolbox/rolling_window.hpp"
#include "toolbox/single_flight.hpp"
#include "toolbox/spin_lock.hpp"
#include "toolbox/stream.hpp"
#include "toolbox/task_runner.hpp"
#include "toolbox/token_limit.hpp"

namespace {

using namespace caravan::toolbox;
using namespace std::chrono_literals;

// A program with one thread gets cheaper mutexes from the C library; a second one that sleeps makes the figures those
// of a server.
const std::jthread second_thread{[](std::stop_token stop) {
  std::mutex mutex;
  std::condition_variable_any changed;
  std::unique_lock lock{mutex};
  changed.wait(lock, stop, [] { return false; });
}};

// -- single flight and limits: the measure is a bare mutex around the same work -------------------------------------

void plain_mutex(benchmark::State& state) {
  static std::mutex mutex;
  static int value = 0;
  for (auto _ : state) {
    const std::lock_guard guard{mutex};
    benchmark::DoNotOptimize(++value);
  }
}
void spin_lock_alone(benchmark::State& state) {
  static spin_lock lock;
  static int value = 0;
  for (auto _ : state) {
    const std::lock_guard guard{lock};
    benchmark::DoNotOptimize(++value);
  }
}
void single_flight_alone(benchmark::State& state) {
  static single_flight<std::uint64_t, int> flight;
  const auto key = static_cast<std::uint64_t>(state.thread_index());
  int value = 0;
  for (auto _ : state) benchmark::DoNotOptimize(flight.call(key, [&] { return ++value; }));
}
// What one would write: a map of shared states under a mutex.
void plain_flight(benchmark::State& state) {
  struct call {
    std::mutex mutex;
    std::condition_variable done;
    std::optional<int> value;
  };
  static std::mutex mutex;
  static std::unordered_map<std::uint64_t, std::shared_ptr<call>> calls;
  const auto key = static_cast<std::uint64_t>(state.thread_index());
  int value = 0;
  for (auto _ : state) {
    auto mine = std::make_shared<call>();
    {
      const std::lock_guard guard{mutex};
      calls.emplace(key, mine);
    }
    mine->value = ++value;
    {
      const std::lock_guard guard{mutex};
      calls.erase(key);
    }
    mine->done.notify_all();
    benchmark::DoNotOptimize(*mine->value);
  }
}
void limit_borrow_and_return(benchmark::State& state) {
  static limit permits{64};
  for (auto _ : state) {
    benchmark::DoNotOptimize(permits.try_borrow());
    benchmark::DoNotOptimize(permits.give_back());
  }
}
void timeout_limit_borrow_and_return(benchmark::State& state) {
  static timeout_limit permits{64};
  for (auto _ : state) {
    benchmark::DoNotOptimize(permits.borrow(1s));
    benchmark::DoNotOptimize(permits.give_back());
  }
}
// What one would write: a counter under a mutex, with a condition variable for those who wait.
void plain_counter_limit(benchmark::State& state) {
  static std::mutex mutex;
  static std::condition_variable returned;
  static int free = 64;
  for (auto _ : state) {
    {
      const std::lock_guard guard{mutex};
      if (free > 0) --free;
    }
    {
      const std::lock_guard guard{mutex};
      ++free;
    }
    returned.notify_one();
  }
}

BENCHMARK(plain_mutex)->ThreadRange(1, 2);
BENCHMARK(spin_lock_alone)->ThreadRange(1, 2);
BENCHMARK(single_flight_alone)->ThreadRange(1, 2);
BENCHMARK(plain_flight)->ThreadRange(1, 2);
BENCHMARK(limit_borrow_and_return)->ThreadRange(1, 2);
BENCHMARK(timeout_limit_borrow_and_return)->ThreadRange(1, 2);
BENCHMARK(plain_counter_limit)->ThreadRange(1, 2);

// -- cache: a list and a map under a mutex, without expiry ----------------------------------------------------------

constexpr std::size_t cached = 10'000;

void plain_lru(benchmark::State& state) {
  std::mutex mutex;
  std::list<std::pair<std::uint64_t, int>> order;
  std::unordered_map<std::uint64_t, std::list<std::pair<std::uint64_t, int>>::iterator> places;
  std::uint64_t n = 0;
  for (auto _ : state) {
    // Three reads and a write; the keys wander, so that the oldest are dropped now and then.
    const std::lock_guard guard{mutex};
    const auto key = (++n % 4 == 0 ? n / 4 : n * 2654435761u % cached + n / 8);
    const auto found = places.find(key);
    if (found != places.end()) {
      order.splice(order.begin(), order, found->second);
      benchmark::DoNotOptimize(found->second->second);
    } else if (n % 4 == 0) {
      order.emplace_front(key, 1);
      places.emplace(key, order.begin());
      if (places.size() > cached) {
        places.erase(order.back().first);
        order.pop_back();
      }
    }
  }
}
void cache_lru(benchmark::State& state) {
  cache<std::uint64_t, int> c{{.expiry = 1h, .limit = cached}};
  std::uint64_t n = 0;
  for (auto _ : state) {
    const auto key = (++n % 4 == 0 ? n / 4 : n * 2654435761u % cached + n / 8);
    if (n % 4 == 0)
      c.set(key, 1);
    else
      benchmark::DoNotOptimize(c.get(key));
  }
}
BENCHMARK(plain_lru);
BENCHMARK(cache_lru);

// -- rolling window: stamped values in a deque ----------------------------------------------------------------------

void plain_window(benchmark::State& state) {
  std::mutex mutex;
  std::deque<std::pair<std::chrono::steady_clock::time_point, double>> values;
  for (auto _ : state) {
    const std::lock_guard guard{mutex};
    const auto now = std::chrono::steady_clock::now();
    values.emplace_back(now, 1.0);
    while (now - values.front().first > 10ms) values.pop_front();
  }
}
void window_add(benchmark::State& state) {
  rolling_window<> window{40, 250us};
  for (auto _ : state) window.add(1.0);
}
void plain_window_sum(benchmark::State& state) {
  std::deque<std::pair<std::chrono::steady_clock::time_point, double>> values(100'000, {{}, 1.0});
  for (auto _ : state) {
    double sum = 0;
    for (const auto& [at, value] : values) sum += value;
    benchmark::DoNotOptimize(sum);
  }
}
void window_sum(benchmark::State& state) {
  rolling_window<> window{40, 1h};
  for (int i = 0; i < 100'000; ++i) window.add(1.0);
  for (auto _ : state) {
    double sum = 0;
    window.reduce([&](const sum_bucket& b) { sum += b.sum; });
    benchmark::DoNotOptimize(sum);
  }
}
BENCHMARK(plain_window);
BENCHMARK(window_add);
BENCHMARK(plain_window_sum);
BENCHMARK(window_sum);

// -- pool: a vector under a mutex, without a limit ------------------------------------------------------------------

void plain_pool(benchmark::State& state) {
  std::mutex mutex;
  std::vector<std::unique_ptr<int>> idle;
  idle.push_back(std::make_unique<int>(1));
  for (auto _ : state) {
    std::unique_ptr<int> mine;
    {
      const std::lock_guard guard{mutex};
      mine = std::move(idle.back());
      idle.pop_back();
    }
    benchmark::DoNotOptimize(*mine);
    const std::lock_guard guard{mutex};
    idle.push_back(std::move(mine));
  }
}
void pool_get(benchmark::State& state) {
  pool<std::unique_ptr<int>> p{4, [] { return std::make_unique<int>(1); }};
  for (auto _ : state) {
    auto mine = p.get();
    benchmark::DoNotOptimize(**mine);
  }
}
BENCHMARK(plain_pool);
BENCHMARK(pool_get);

// -- rate limits and breaker: a counter under a mutex, with the time ------------------------------------------------

void plain_rate(benchmark::State& state) {
  std::mutex mutex;
  std::unordered_map<std::string, std::pair<std::chrono::steady_clock::time_point, int>> counts;
  const std::string key = "customer:4711";
  for (auto _ : state) {
    const std::lock_guard guard{mutex};
    const auto now = std::chrono::steady_clock::now();
    auto& [begin, count] = counts[key];
    if (now - begin > 1s) {
      begin = now;
      count = 0;
    }
    benchmark::DoNotOptimize(++count);
  }
}
void period_limit_take(benchmark::State& state) {
  period_limit limiter{{.period = 1s, .quota = 1000}};
  for (auto _ : state) benchmark::DoNotOptimize(limiter.take("customer:4711"));
}
void token_limit_allow(benchmark::State& state) {
  token_limit limiter{{.rate = 1000, .burst = 1000}};
  for (auto _ : state) benchmark::DoNotOptimize(limiter.allow());
}
void breaker_run(benchmark::State& state) {
  breaker b;
  for (auto _ : state) benchmark::DoNotOptimize(b.run([] { return true; }));
}
BENCHMARK(plain_rate);
BENCHMARK(period_limit_take);
BENCHMARK(token_limit_allow);
BENCHMARK(breaker_run);

// -- executors: a vector under a mutex that is handed on when it is full --------------------------------------------

void plain_bulk(benchmark::State& state) {
  std::mutex mutex;
  std::vector<int> tasks;
  std::int64_t handed_on = 0;
  for (auto _ : state) {
    const std::lock_guard guard{mutex};
    tasks.push_back(1);
    if (tasks.size() == 1000) {
      const auto batch = std::exchange(tasks, {});
      handed_on += static_cast<std::int64_t>(batch.size());
    }
  }
  benchmark::DoNotOptimize(handed_on);
}
void bulk_add(benchmark::State& state) {
  std::atomic<std::int64_t> handed_on{0};
  bulk_executor<int> bulk{[&](const std::vector<int>& batch) { handed_on += static_cast<std::int64_t>(batch.size()); }};
  for (auto _ : state) bulk.add(1);
}
BENCHMARK(plain_bulk);
BENCHMARK(bulk_add);

// -- threads: one std::thread per task ------------------------------------------------------------------------------

void plain_threads(benchmark::State& state) {
  for (auto _ : state) {
    std::thread a{[] {}};
    std::thread b{[] {}};
    a.join();
    b.join();
  }
  state.SetItemsProcessed(state.iterations() * 2);
}
void task_runner_schedule(benchmark::State& state) {
  task_runner runner{2};
  for (auto _ : state) runner.schedule([] {});
  runner.wait();
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(plain_threads)->UseRealTime();
BENCHMARK(task_runner_schedule)->UseRealTime();

// -- stream and map_reduce: a loop ----------------------------------------------------------------------------------

const std::vector<int>& thousand() {
  static const auto all = [] {
    std::vector<int> v(1000);
    std::iota(v.begin(), v.end(), 1);
    return v;
  }();
  return all;
}
void plain_loop(benchmark::State& state) {
  for (auto _ : state) {
    std::int64_t sum = 0;
    for (const int n : thousand()) {
      if (n % 2 == 0) benchmark::DoNotOptimize(sum += n * 3);
    }
  }
  state.SetItemsProcessed(state.iterations() * 1000);
}
void stream_steps(benchmark::State& state) {
  for (auto _ : state) {
    benchmark::DoNotOptimize(stream<int>::range(thousand())
                                 .filter([](int n) { return n % 2 == 0; })
                                 .map([](int n) { return n * 3; })
                                 .reduce(std::int64_t{0}, [](std::int64_t sum, int n) { return sum + n; }));
  }
  state.SetItemsProcessed(state.iterations() * 1000);
}
void map_reduce_sum(benchmark::State& state) {
  for (auto _ : state) {
    benchmark::DoNotOptimize(map_reduce<int, int, std::int64_t>(
        [](auto& emit) {
          for (const int n : thousand()) emit(n);
        },
        [](int n, auto& write, auto&) { write(n * 3); },
        [](auto& values, auto& write, auto&) {
          std::int64_t sum = 0;
          while (const auto v = values.next()) sum += *v;
          write(sum);
        },
        {.workers = 2}));
  }
  state.SetItemsProcessed(state.iterations() * 1000);
}
BENCHMARK(plain_loop);
BENCHMARK(stream_steps);
BENCHMARK(map_reduce_sum)->UseRealTime();

}  // namespace
