#pragma once

#include "integration/cron_rows.hpp"

#include <functional>
#include <map>
#include <mutex>

namespace caravan {

/// Rows in this process, for nodes that keep nothing. Thread-safe.
class memory_cron_store final : public cron_row_store {
public:
  memory_cron_store() = default;
  /// With a clock of its own, as a store that many nodes share.
  explicit memory_cron_store(std::function<cron_time()> clock) : clock_(std::move(clock)) {}

private:
  expected<found> read(const std::string& task) override;
  expected<bool> replace(const std::string& task, const std::optional<std::string>& was,
                         const std::string& bytes) override;

  std::function<cron_time()> clock_;
  std::mutex mutex_;
  std::map<std::string, std::string> rows_;
};

}  // namespace caravan
