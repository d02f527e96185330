// What docs/cache.md says in figures: hit rates, memory under one-shot keys, times of a call.
//
//   bench_cache [hits | memory | calls] [N]          all of them, and 10,000,000 keys, unless told otherwise
//   CARAVAN_MEMCACHED=host:port CARAVAN_REDIS=redis://... bench_cache calls      also those engines

#include "config/read_cache.hpp"
#include "integration/cache/memory_cache.hpp"
#include "integration/cache/read_through_cache.hpp"
#include "integration/cache/two_queue_cache.hpp"
#include "integration/memcached/memcached_cache.hpp"
#include "integration/redis/redis_cache.hpp"
#include "toolbox/cache.hpp"
#include "toolbox/testing/traces.hpp"
#include "toolbox/two_queue.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

using namespace caravan;
using namespace std::chrono_literals;

namespace {

using steady = std::chrono::steady_clock;

// -- hit rates --------------------------------------------------------------------------------------------------------

void hits() {
  using namespace toolbox::testing;
  const auto plain = zipf_trace({.keys = 1'000'000, .length = 2'000'000});
  const auto scanned = with_scans(plain, {.every = 50'000, .length = 50'000});
  std::printf(
      "hit rates: 2,000,000 reads of 1,000,000 keys, Zipf 0.9; scans: after each 50,000 reads 50,000 keys once\n");
  std::printf("%10s  %12s %12s  %12s %12s\n", "size", "zipf lru", "zipf 2q", "scans lru", "scans 2q");
  for (const std::size_t size : {1'000, 10'000, 50'000, 200'000}) {
    std::printf("%10zu ", size);
    for (const auto* trace : {&plain, &scanned}) {
      toolbox::cache<std::uint32_t, char> lru{{.expiry = 0s, .limit = size}};
      toolbox::two_queue<std::uint32_t, char> two{{.size = size}};
      const auto of_lru = hit_rate(
          *trace, [&](auto k) { return lru.get(k).has_value(); }, [&](auto k) { lru.set(k, 0); });
      const auto of_two = hit_rate(
          *trace, [&](auto k) { return two.find(k) != nullptr; }, [&](auto k) { two.set(k, 0); });
      std::printf(" %11.1f%% %11.1f%% ", 100 * of_lru, 100 * of_two);
    }
    std::printf("\n");
  }
}

// -- memory -----------------------------------------------------------------------------------------------------------

double resident_mib() {
  std::ifstream file("/proc/self/statm");
  std::size_t total = 0, resident = 0;
  file >> total >> resident;
  return static_cast<double>(resident) * 4096 / (1 << 20);
}

void memory(std::size_t keys) {
  std::printf("one-shot keys: %zu puts of a 24-byte key and a 32-byte value, TTL 1 s, real time\n", keys);
  std::printf("%12s %9s %12s %14s\n", "put", "seconds", "living", "resident MiB");
  memory_cache cache{{.sweep_interval = 1s}};
  const std::string value(32, 'v');
  char key[32];
  const auto begin = steady::now();
  const auto say = [&](std::size_t put) {
    std::printf("%12zu %9.2f %12llu %14.1f\n", put, std::chrono::duration<double>(steady::now() - begin).count(),
                static_cast<unsigned long long>(cache.usage().value().entries.value()), resident_mib());
  };
  say(0);
  for (std::size_t i = 1; i <= keys; ++i) {
    std::snprintf(key, sizeof key, "one-shot:%015zu", i);
    (void)cache.put({key, 24}, value, 1s);
    if (i % std::max<std::size_t>(1, keys / 10) == 0) say(i);
  }
  for (int i = 0; i < 50 && cache.usage().value().entries.value() > 0; ++i) std::this_thread::sleep_for(100ms);
  say(keys);
}

// -- calls ------------------------------------------------------------------------------------------------------------

void calls(const std::string& name, std::unique_ptr<cache_adapter> adapter) {
  if (const auto there = wait_for_engine(*adapter, 1); !there) {
    std::printf("%s: %s\n", name.c_str(), there.failure().text.c_str());
    return;
  }
  string_cache cache{std::make_shared<read_through_cache>(std::move(adapter), read_through_options{1h})};
  const std::string value(100, 'v');
  const auto per_call = [&](auto call) {
    const auto begin = steady::now();
    std::size_t done = 0;
    for (; steady::now() - begin < 1s; done += 100)
      for (int i = 0; i < 100; ++i) call("key" + std::to_string(i));
    return std::chrono::duration<double, std::micro>(steady::now() - begin).count() / static_cast<double>(done);
  };
  const auto put = per_call([&](const std::string& key) { (void)cache.put(key, value, 1h); });
  const auto get = per_call([&](const std::string& key) { (void)cache.get(key); });
  const auto read = per_call([&](const std::string& key) { (void)cache.get_string(key, [&] { return value; }); });
  const auto miss = per_call([&](const std::string& key) { (void)cache.get("absent" + key); });
  std::printf("%10s %10.2f %10.2f %10.2f %10.2f\n", name.c_str(), put, get, read, miss);
}

void all_calls() {
  std::printf("microseconds a call, one thread, 100-byte values\n%10s %10s %10s %10s %10s\n", "", "put", "get",
              "get_string", "miss");
  calls("memory", std::make_unique<memory_cache>());
  calls("twoqueue", std::make_unique<two_queue_cache>());
  if (const auto* at = std::getenv("CARAVAN_MEMCACHED")) {
    memcached_options options;
    options.hosts = config::parse_memcached_hosts(at).value();
    calls("memcache", std::make_unique<memcached_cache>(options));
  }
  if (const auto* at = std::getenv("CARAVAN_REDIS")) {
    redis_options options;
    options.address = config::parse_redis_address(at).value();
    calls("redis", std::make_unique<redis_cache>(std::make_shared<redis_client>(options), "caravan:bench"));
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  const auto keys = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 10'000'000ull;
  if (what.empty() || what == "hits") hits();
  if (what.empty() || what == "memory") memory(keys);
  if (what.empty() || what == "calls") all_calls();
}
