#pragma once

/// Limits that all who share a Redis count together.

#include "integration/rate_limiter.hpp"
#include "integration/redis/redis_client.hpp"

#include <memory>
#include <string>

namespace caravan {

/// Each take is one script, and goes by that server's clock alone: what the callers' clocks say plays no part. Keys are
/// "prefix:key" and expire when forgetting makes no difference. A take whose reply got lost is repeated by the client
/// and may count twice: so less is permitted than could be, never more. What a Redis loses when it is killed is
/// permitted again.
class redis_rate final : public rate_limiter {
public:
  /// Others may use `client` as well.
  redis_rate(std::shared_ptr<redis_client> client, std::string prefix);
  [[nodiscard]] std::string name() const override;
  expected<bool> take(std::string_view key, const rate_rule& rule, std::uint64_t n) override;
  expected<void> reset(std::string_view key) override;

private:
  const std::shared_ptr<redis_client> client_;
  const std::string prefix_;
};

/// A client for limits alone: who asks is itself being waited for, so half a second must do.
[[nodiscard]] redis_options redis_rate_options(config::redis_address address);

}  // namespace caravan
