#pragma once

/// Values in this process's memory, as many as are put: what bounds it is their time. For a bound see
/// two_queue_cache.hpp.

#include "integration/cache_adapter.hpp"
#include "toolbox/clock.hpp"
#include "toolbox/on_demand_thread.hpp"
#include "toolbox/timer_ring.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>

namespace caravan {

struct memory_cache_options {
  /// While nobody calls, expired values are swept out this often. Calls sweep as well, a bounded number each.
  std::chrono::milliseconds sweep_interval{60'000};
  const toolbox::clock* time = &toolbox::real_clock::shared();  ///< must outlive the cache
};

/// Never fails. What has expired is found by nobody from that millisecond on. A thread sweeps while there is something
/// that can expire, and leaves when there is nothing; without a thread (the system has none left) only calls sweep.
class memory_cache final : public cache_adapter {
public:
  explicit memory_cache(memory_cache_options options = {});
  ~memory_cache() override;
  memory_cache(const memory_cache&) = delete;
  memory_cache& operator=(const memory_cache&) = delete;

  [[nodiscard]] std::string name() const override { return "memory"; }
  expected<void> ping() override { return {}; }
  expected<std::optional<std::string>> get(std::string_view key) override;
  expected<void> put(std::string_view key, std::string_view value, std::chrono::milliseconds ttl) override;
  expected<bool> remove(std::string_view key) override;
  expected<std::optional<std::string>> take(std::string_view key) override;
  expected<bool> exists(std::string_view key) override;
  expected<void> clear() override;
  /// What has expired but is not swept out yet counts.
  expected<cache_usage> usage() override;

private:
  using tick = std::uint64_t;  // a millisecond since start_
  struct entry {
    std::string value;
    tick due;
  };
  struct shard {
    std::mutex mutex;
    toolbox::timer_ring<std::string, entry> entries;
    std::size_t mortal = 0;  // entries with an end
    std::uint64_t bytes = 0;
  };

  [[nodiscard]] tick now() const;
  shard& shard_of(std::string_view key);
  static bool sweep(shard& s, tick now);
  static std::optional<std::string> remove(shard& s, const std::string& key, tick now);
  static void forget(shard& s, const std::string& key, const entry& gone);
  void ensure_sweeper();
  void sweep_for_ever();
  bool anything_mortal();

  const memory_cache_options options_;
  const toolbox::steady_time start_;
  std::array<shard, 16> shards_;

  std::mutex sweeper_mutex_;
  std::condition_variable stopping_;
  bool stopped_ = false;
  std::atomic<bool> sweeping_{false};
  toolbox::on_demand_thread sweeper_;
};

}  // namespace caravan
