#pragma once

/// The moves of queues between nodes, as they are kept in Redis: the last thousand.

#include "integration/redis/redis_client.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace caravan {

struct queue_move {
  std::int64_t at = 0;  ///< ms since 1970
  std::string queue;
  std::string from;
  std::string to;
  std::string by;       ///< who asked
  std::int64_t ms = 0;  ///< from the freeze to the handing over
};

/// A failure is nothing but a missing line.
void note_move(redis_client& client, const queue_move& m);
/// The latest first.
[[nodiscard]] expected<std::vector<queue_move>> list_moves(redis_client& client, std::size_t most);

}  // namespace caravan
