#pragma once

/// Who owns a queue in Redis: one node at a time, for as long as its lease lasts, under an epoch that only grows.

#include "integration/redis/redis_client.hpp"

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace caravan {

class redis_owner {
public:
  /// `node`: what others see, and who is meant by "I": different for each start of a node.
  redis_owner(redis_client& client, const std::string& queue_full_name, std::string node);

  struct claim {
    std::uint64_t epoch = 0;            ///< 0: somebody else has it
    std::string holder;                 ///< then: who
    std::chrono::milliseconds left{0};  ///< and for how long, if it is not renewed
  };
  /// Takes the place if it is free.
  [[nodiscard]] expected<claim> acquire(std::chrono::milliseconds lease);
  /// Extends the lease, also one that ran out if nobody took over since. `fenced`: somebody did.
  /// Returns how many pushes of other nodes wait for adoption.
  [[nodiscard]] expected<std::size_t> renew(std::uint64_t epoch, std::chrono::milliseconds lease);
  /// Frees the place and tells the others. With `to` only that node may have it, as long as it is alive.
  expected<void> give_up(std::uint64_t epoch, std::string_view to = {});

  /// Here pushes of others ("push"), a free place ("free", or "free NODE") and a new owner ("owned" and what it says of
  /// itself) are told.
  [[nodiscard]] const std::string& channel() const;

private:
  redis_client& client_;
  std::string queue_;
  std::string node_;
  std::string channel_;
};

}  // namespace caravan
