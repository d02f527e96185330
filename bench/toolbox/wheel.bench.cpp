// The wheel against what one would write first: a std::multimap by due time, and a std::unordered_map from key to its
// place in it. A round sets N timers, moves each once, and fires them all. "items" are timers.
#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <random>
#include <unordered_map>
#include <vector>

#include "toolbox/clock.hpp"
#include "toolbox/timer_ring.hpp"
#include "toolbox/timing_wheel.hpp"

namespace {

using namespace caravan::toolbox;
using tick = std::uint64_t;

constexpr tick horizon = 600'000;  // ten minutes in milliseconds

struct workload {
  explicit workload(std::size_t n) {
    std::mt19937_64 random{42};
    std::uniform_int_distribution<tick> delay{1, horizon};
    for (std::size_t i = 0; i < n; ++i) {
      keys.push_back(random());
      first.push_back(delay(random));
      second.push_back(delay(random));
    }
  }
  std::vector<std::uint64_t> keys;
  std::vector<tick> first;
  std::vector<tick> second;
};

const workload& work_of(std::int64_t n) {
  static std::map<std::int64_t, workload> all;
  return all.try_emplace(n, static_cast<std::size_t>(n)).first->second;
}

class sorted_timers {
public:
  void set(std::uint64_t key, int value, tick due) {
    const auto found = places_.find(key);
    if (found != places_.end()) timers_.erase(found->second);
    const auto place = timers_.emplace(due, std::pair{key, value});
    if (found != places_.end())
      found->second = place;
    else
      places_.emplace(key, place);
  }
  void move(std::uint64_t key, tick due) {
    const auto found = places_.find(key);
    if (found == places_.end()) return;
    // Moving the node spares the map an allocation; this is the fast way.
    auto node = timers_.extract(found->second);
    node.key() = due;
    found->second = timers_.insert(std::move(node));
  }
  template <class Fire>
  void advance(tick to, Fire fire) {
    while (!timers_.empty() && timers_.begin()->first <= to) {
      const auto [key, value] = timers_.begin()->second;
      timers_.erase(timers_.begin());
      places_.erase(key);
      fire(key, value);
    }
  }

private:
  std::multimap<tick, std::pair<std::uint64_t, int>> timers_;
  std::unordered_map<std::uint64_t, std::multimap<tick, std::pair<std::uint64_t, int>>::iterator> places_;
};

template <class Timers>
void set_move_fire(benchmark::State& state) {
  const auto& work = work_of(state.range(0));
  const auto n = static_cast<std::size_t>(state.range(0));
  std::int64_t fired = 0;
  for (auto _ : state) {
    Timers timers;
    for (std::size_t i = 0; i < n; ++i) timers.set(work.keys[i], 1, work.first[i]);
    for (std::size_t i = 0; i < n; ++i) timers.move(work.keys[i], work.second[i]);
    for (tick now = 0; now <= horizon; now += 100) timers.advance(now, [&](std::uint64_t, int v) { fired += v; });
  }
  if (fired != static_cast<std::int64_t>(state.iterations() * n)) state.SkipWithError("timers were lost");
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations() * n));
}

void plain_map(benchmark::State& state) { set_move_fire<sorted_timers>(state); }
void ring(benchmark::State& state) { set_move_fire<timer_ring<std::uint64_t, int>>(state); }

// A lease that is renewed over and over among N others: the commonest use.
template <class Timers>
void renew(benchmark::State& state) {
  const auto& work = work_of(state.range(0));
  const auto n = static_cast<std::size_t>(state.range(0));
  Timers timers;
  for (std::size_t i = 0; i < n; ++i) timers.set(work.keys[i], 1, work.first[i]);
  std::size_t i = 0;
  for (auto _ : state) {
    timers.move(work.keys[i], work.second[i]);
    if (++i == n) i = 0;
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations()));
}

void plain_map_renew(benchmark::State& state) { renew<sorted_timers>(state); }
void ring_renew(benchmark::State& state) { renew<timer_ring<std::uint64_t, int>>(state); }

// With lock, clock and checks, as several threads would use it; the map behind a mutex.
void plain_map_locked_renew(benchmark::State& state) {
  const auto& work = work_of(state.range(0));
  const auto n = static_cast<std::size_t>(state.range(0));
  std::mutex mutex;
  sorted_timers timers;
  for (std::size_t i = 0; i < n; ++i) timers.set(work.keys[i], 1, work.first[i]);
  std::size_t i = 0;
  for (auto _ : state) {
    const auto now = std::chrono::steady_clock::now().time_since_epoch() / std::chrono::milliseconds{1};
    const std::lock_guard guard{mutex};
    timers.move(work.keys[i], static_cast<tick>(now) + work.second[i]);
    if (++i == n) i = 0;
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations()));
}
void wheel_renew(benchmark::State& state) {
  const auto& work = work_of(state.range(0));
  const auto n = static_cast<std::size_t>(state.range(0));
  timing_wheel<std::uint64_t, int> wheel{std::chrono::milliseconds{1}, 256, [](std::uint64_t, int) {}};
  // An hour away, so that none fires meanwhile.
  const auto in = [](tick t) { return std::chrono::hours{1} + std::chrono::milliseconds{t}; };
  for (std::size_t i = 0; i < n; ++i) (void)wheel.set(work.keys[i], 1, in(work.first[i]));
  std::size_t i = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(wheel.move(work.keys[i], in(work.second[i])));
    if (++i == n) i = 0;
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations()));
}

// The map comes last: when it gives back two million nodes, the allocator tidies up in the time of whoever is next.
BENCHMARK(ring)->Arg(10'000)->Arg(100'000)->Arg(1'000'000)->Unit(benchmark::kMillisecond);
BENCHMARK(ring_renew)->Arg(1'000'000);
BENCHMARK(wheel_renew)->Arg(1'000'000);
BENCHMARK(plain_map)->Arg(10'000)->Arg(100'000)->Arg(1'000'000)->Unit(benchmark::kMillisecond);
BENCHMARK(plain_map_renew)->Arg(1'000'000);
BENCHMARK(plain_map_locked_renew)->Arg(1'000'000);

}  // namespace
