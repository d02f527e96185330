#pragma once

/// At most so many values in this process's memory, by two-queue (toolbox/two_queue.hpp): a scan does not empty it.

#include "integration/cache_adapter.hpp"
#include "toolbox/clock.hpp"
#include "toolbox/two_queue.hpp"

#include <chrono>
#include <mutex>

namespace caravan {

/// Never fails. What has expired is gone with the next call of any kind; until then the bound holds it.
class two_queue_cache final : public cache_adapter {
public:
  /// Throws std::invalid_argument as two_queue does. `time` must outlive the cache.
  explicit two_queue_cache(toolbox::two_queue_options options = {},
                           const toolbox::clock& time = toolbox::real_clock::shared());

  [[nodiscard]] std::string name() const override { return "twoqueue"; }
  expected<void> ping() override { return {}; }
  expected<std::optional<std::string>> get(std::string_view key) override;
  expected<void> put(std::string_view key, std::string_view value, std::chrono::milliseconds ttl) override;
  expected<bool> remove(std::string_view key) override;
  expected<std::optional<std::string>> take(std::string_view key) override;
  /// Does not count as a use.
  expected<bool> exists(std::string_view key) override;
  expected<void> clear() override;
  /// Without bytes.
  expected<cache_usage> usage() override;

private:
  using entries = toolbox::two_queue<std::string, std::string>;
  std::uint64_t sweep();

  const toolbox::clock& time_;
  const toolbox::steady_time start_;
  std::mutex mutex_;
  entries entries_;  // ticks of a millisecond since start_
};

}  // namespace caravan
