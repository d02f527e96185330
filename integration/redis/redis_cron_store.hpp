#pragma once

#include "integration/cron_rows.hpp"
#include "integration/redis/redis_client.hpp"

#include <memory>
#include <string>

namespace caravan {

/// Rows in a Redis that several nodes share, one value "caravan:cron:{TASK}" for each, by the clock of that Redis.
/// As durable as it is set. Thread safe; a call blocks as long as the client gives it.
class redis_cron_store final : public cron_row_store {
public:
  explicit redis_cron_store(std::shared_ptr<redis_client> client) : client_(std::move(client)) {}

  [[nodiscard]] static std::string key_of(const std::string& task) { return "caravan:cron:{" + task + "}"; }

private:
  expected<found> read(const std::string& task) override;
  expected<bool> replace(const std::string& task, const std::optional<std::string>& was,
                         const std::string& bytes) override;
  [[nodiscard]] error odd(const std::string& task) const;

  std::shared_ptr<redis_client> client_;
};

/// With times that leave room for several calls within a run's lease.
[[nodiscard]] redis_options redis_cron_options(config::redis_address address);

}  // namespace caravan
