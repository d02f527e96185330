#pragma once

/// What the node's metrics, charts and dashboard know of it, without asking its actors for each look.

#include "integration/redis/redis_nodes.hpp"
#include "messages/queue_words.hpp"
#include "nodes/queue_history.hpp"

#include <caravan/cron.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace caravan {

class hosted_queue;
class node_runtime;

struct watched_queue {
  std::shared_ptr<hosted_queue> queue;
  std::optional<queue_status> status;  ///< nothing: it did not answer within 2 s
  std::optional<pool_status> pool;     ///< nothing: it has no handler here, or that did not answer
};

/// All queues at about one moment.
struct queue_snapshot {
  std::chrono::steady_clock::time_point taken;
  std::chrono::system_clock::time_point at;
  std::vector<watched_queue> queues;
};

/// What takes a storage to find out.
struct store_round_trip {
  std::string where;              ///< never a password
  std::optional<double> seconds;  ///< nothing: it did not answer
};
struct outside_facts {
  std::chrono::steady_clock::time_point taken;
  std::vector<task_info> tasks;
  std::vector<node_entry> nodes;
  std::vector<store_round_trip> stores;
  std::uint64_t store_errors = 0;  ///< round trips that failed since the start
  std::optional<std::uint64_t> locks_held;
  std::uint64_t lock_waiters = 0;
};

/// Samples the queues into their history: each second, and every 15 s while nothing happens. The minutes of it are kept
/// in DATA_DIR/history.jsonl, at most 16 MiB. Thread safe.
class node_watch {
public:
  /// `node` outlives it.
  explicit node_watch(node_runtime& node);
  ~node_watch();
  node_watch(const node_watch&) = delete;
  node_watch& operator=(const node_watch&) = delete;

  /// Writes what is not kept yet, and waits for functions that run. After it none is called any more: those that wait
  /// are dropped. Idempotent.
  void stop();

  /// One that is at most a second old. Callers at the same time share one round of questions. `then` is called once,
  /// here or on a thread of the actor system.
  void queues(std::function<void(std::shared_ptr<const queue_snapshot>)> then);
  /// Those of about the last 10 s; a look makes them be found out anew, and only the first one waits for that.
  void outside(std::function<void(std::shared_ptr<const outside_facts>)> then);
  /// Under a lock; `look` must not ask for anything here.
  void history(const std::function<void(const queue_history&)>& look) const;

private:
  class impl;
  std::shared_ptr<impl> impl_;
};

}  // namespace caravan
