#pragma once

#include "integration/redis/redis_client.hpp"

#include <cstddef>

namespace caravan {

/// What Redis itself does on this machine now, without any of our keys: the limits that a queue's figures are held
/// against. Items a second, 100-byte values; a script is HSET and ZADD.
struct redis_limits {
  double script_one = 0;        ///< a script for each, awaited
  double script_pipelined = 0;  ///< the same, 64 under way at once
  double many_values = 0;       ///< HSET and ZADD with a hundred values each
  double round_trip = 0;        ///< PING, awaited
};

/// Uses and removes keys that begin with `caravan:limits:`. Takes `n` items for each measure, a tenth for those
/// awaited.
[[nodiscard]] expected<redis_limits> measure_redis_limits(const redis_options& options, std::size_t n);

}  // namespace caravan
