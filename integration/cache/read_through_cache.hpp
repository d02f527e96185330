#pragma once

/// string_cache as applications see it, over any cache_adapter: reading through, shared loads, statistics, self test.

#include "integration/cache_adapter.hpp"
#include "toolbox/clock.hpp"
#include "toolbox/single_flight.hpp"

#include <caravan/cache.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

namespace caravan {

struct read_through_options {
  std::chrono::milliseconds item_ttl{0};  ///< ITEM_TTL; 0 or less: load() always runs the loader
  /// An engine that failed is not asked by load() for so long, but for one call each time that it is over: a call to an
  /// engine that is down may cost a timeout. 0 for engines that see to this themselves, server by server (memcached).
  std::chrono::milliseconds rest{1000};
  const toolbox::clock* time = &toolbox::real_clock::shared();  ///< must outlive the cache
};

class read_through_cache final : public cache_port {
public:
  /// `adapter` must not be null.
  read_through_cache(std::unique_ptr<cache_adapter> adapter, read_through_options options);

  expected<void> ping() override;
  expected<std::optional<std::string>> get(std::string_view key) override;
  expected<void> put(std::string_view key, std::string_view value, milliseconds ttl) override;
  expected<bool> remove(std::string_view key) override;
  expected<std::optional<std::string>> take(std::string_view key) override;
  expected<bool> exists(std::string_view key) override;
  expected<void> clear() override;
  [[nodiscard]] expected<cache_statistics> statistics() override;
  expected<cache_test_result> self_test() override;
  expected<std::string> load(std::string_view key, const loader& load, bool (*usable)(std::string_view)) override;

private:
  // A key that is being loaded. Only such keys are in memory, so that is bounded by the calls under way.
  struct interest {
    std::uint64_t generation = 0;  // grows with each put or remove of the key
    std::size_t callers = 0;
  };
  struct shard {
    std::mutex mutex;
    std::unordered_map<std::string, interest> loading;
  };
  // A call that starts after a remove must not get what a load before it brings: so loads are shared by both.
  struct flight_key {
    std::string key;
    std::uint64_t generation;
    bool operator==(const flight_key&) const = default;
  };
  struct flight_hash {
    std::size_t operator()(const flight_key& k) const noexcept {
      return std::hash<std::string>{}(k.key) ^ (k.generation * 0x9E3779B97F4A7C15ull);
    }
  };
  class caller;

  shard& shard_of(std::string_view key);
  template <class Change>
  auto change(std::string_view key, Change act);
  template <class T>
  expected<T> counted(expected<T> answer);
  bool may_ask();
  expected<std::string> run(std::string_view key, const loader& load);
  expected<std::string> load_and_keep(const flight_key& flight, const loader& load, bool (*usable)(std::string_view));

  const std::unique_ptr<cache_adapter> adapter_;
  const read_through_options options_;
  std::array<shard, 64> shards_;
  std::atomic<toolbox::steady_time> rests_until_{toolbox::steady_time::min()};
  toolbox::single_flight<flight_key, expected<std::string>, flight_hash> flights_;

  struct {
    std::atomic<std::uint64_t> hits{0}, misses{0}, loads{0}, load_failures{0}, shared_loads{0}, outdated_loads{0},
        failures{0};
  } counts_;
};

/// Pings until the engine answers, at most `attempts` times with a `pause` between. The last failure if it never does;
/// its text says how often it was tried. `sleep` waits (a second by default) and answers false to give up at once.
expected<void> wait_for_engine(cache_adapter& adapter, int attempts = 10,
                               const std::function<bool(std::chrono::milliseconds)>& sleep = {});

}  // namespace caravan
