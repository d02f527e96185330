#include "nodes/bench/lock_bench.hpp"

#include <caravan/caravan.hpp>

#include <algorithm>
#include <chrono>
#include <latch>
#include <mutex>
#include <thread>
#include <vector>

namespace caravan {

using steady = std::chrono::steady_clock;

expected<lock_bench_result> bench_lock(const lock_bench_options& o) {
  node_options settings;
  settings.config_text = "[global_lock]\nSERVICE_TYPE = " + o.service + "\n";
  if (!o.conn_str.empty()) settings.config_text += "SERVICE_CONN_STR = `" + o.conn_str + "`\n";
  settings.use_environment = false;
  settings.quiet = true;
  settings.data_dir = ".";
  auto started = node::start(settings);
  if (!started) return started.failure();
  auto all = (*started)->locks();
  const auto each = std::max<std::size_t>(o.rounds / o.threads, 1);
  std::vector<float> took(each * o.threads);
  std::mutex mutex;
  expected<void> failed;
  std::latch ready(o.threads + 1);
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < o.threads; ++t)
    threads.emplace_back([&, t] {
      const auto key = "caravan-bench:" + std::to_string(o.contended ? 0 : t);
      ready.arrive_and_wait();
      for (std::size_t n = 0; n < each; ++n) {
        const auto begun = steady::now();
        auto held = all.lock(key);
        const auto released = held ? held->release() : expected<void>(held.failure());
        if (!released) {
          const std::lock_guard lock(mutex);
          failed = released;
          return;
        }
        took[t * each + n] = std::chrono::duration<float, std::micro>(steady::now() - begun).count();
      }
    });
  ready.arrive_and_wait();
  const auto begun = steady::now();
  for (auto& t : threads) t.join();
  const auto seconds = std::chrono::duration<double>(steady::now() - begun).count();
  if (!failed) return failed.failure();
  std::sort(took.begin(), took.end());
  const auto at = [&](double part) {
    return static_cast<double>(took[static_cast<std::size_t>(part * static_cast<double>(took.size() - 1))]);
  };
  return lock_bench_result{static_cast<double>(took.size()) / seconds, at(0.5), at(0.99), at(1)};
}

}  // namespace caravan
