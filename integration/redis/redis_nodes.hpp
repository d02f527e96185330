#pragma once

/// The nodes that share one Redis, as they tell of themselves there.

#include "integration/redis/redis_client.hpp"

#include <chrono>
#include <string>
#include <vector>

namespace caravan {

struct node_entry {
  std::string name;
  std::string incarnation;  ///< different for each start
  std::string address;      ///< for other nodes, HOST:PORT
  std::string http;         ///< for people, HOST:PORT; empty: none
  std::string version;
  std::int64_t started = 0;             ///< ms since 1970
  bool cordoned = false;                ///< takes over no queue
  bool alive = true;                    ///< it has told of itself within its time
  std::chrono::milliseconds silent{0};  ///< when not alive: for how long
};

class redis_nodes {
public:
  explicit redis_nodes(redis_client& client) : client_(client) {}

  /// Good for `lasting`. Replaces what an earlier start of the same name told, and forgets nodes that are gone for a
  /// day.
  expected<void> announce(const node_entry& me, std::chrono::milliseconds lasting);
  /// By name. Those that are gone are listed for a day.
  [[nodiscard]] expected<std::vector<node_entry>> list();
  /// At once, if it is still this start's.
  expected<void> withdraw(const node_entry& me);

private:
  redis_client& client_;
};

}  // namespace caravan
