#pragma once

/// A queue without its item type: what queue<T> stands on.

#include <caravan/error.hpp>
#include <caravan/item_id.hpp>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace caravan {

/// How long a job keeps equal ones out.
enum class unique_until : std::uint8_t {
  as_queue,  ///< as the queue is set
  start,     ///< until a worker has it
  done,      ///< until it ended, in whatever way
  success,   ///< until it was handled or removed; also while it is dead
};

/// Every field is optional.
struct push_options {
  std::chrono::milliseconds delay{0};             ///< not before this has passed; counted from the push
  std::chrono::system_clock::time_point at{};     ///< not before this instant; wins over delay
  std::string key{};                                ///< unique queues: instead of the item itself
  std::string idempotency_key{};                    ///< a repeat within IDEMPOTENCY_WINDOW answers with the first one's id
  std::uint32_t max_attempts = 0;                 ///< 0: as the queue is set
  std::chrono::milliseconds timeout{0};           ///< of one handler call; 0: as the queue is set
  std::vector<std::pair<std::string, std::string>> headers{};  ///< travel to the handler
  std::int32_t priority = 0;                      ///< -100 to 100: above 0 before all others, below 0 behind them
  std::string order_by{};                         ///< items that share it are handled one after another, or as KEY_CONCURRENCY says; not with a priority
  std::chrono::system_clock::time_point deadline{};  ///< past it the item is dead, and no handler is called; one that runs is asked to stop
  std::string retry{};                            ///< as RETRY: "linear 30s"; empty: as the queue is set
  caravan::unique_until unique_until = caravan::unique_until::as_queue;  ///< in a simple queue too
  std::chrono::milliseconds unique_for{0};        ///< this long from the push, whatever becomes of it; wins over unique_until
  std::chrono::milliseconds retention{0};         ///< how long the finished item can be seen; 0: as the queue is set
};

struct item_draft {
  std::string payload{};  ///< JSON text
  push_options options;
};

/// What became of one pushed item.
struct pushed {
  item_id id;             ///< its id, or that of the item that was there before
  bool stored = false;    ///< false: already_in_queue, or a repeat
  bool repeated = false;  ///< its idempotency key was seen before: as good as stored
};

struct queue_info {
  std::string name{};
  std::string type{};        ///< channel, level, redis, dummy
  std::string item_type{};   ///< of C++ queues, else empty
  std::string phase{};       ///< running, paused, draining, stopping, stopped; standby: another node owns it
  std::string owner{};       ///< the node that hosts it
  std::string trouble{};     ///< what is wrong with its storage now; empty: nothing
  std::string paused_by{};
  std::chrono::system_clock::time_point paused_until{};
  std::chrono::system_clock::time_point oldest_waiting{};
  std::string handler{};     ///< how its items are handled here; empty: they are not
  std::string restraint{};   ///< why its handler does not take all that it could now; empty: it does
  bool unique = false;
  std::uint64_t id = 0;    ///< grows with each registration in the node
  std::uint64_t waiting = 0, running = 0, delayed = 0, dead = 0;
  std::uint64_t pushed = 0, handled = 0, failed = 0, returned = 0, died = 0, removed = 0, redelivered = 0, leases_lost = 0;
  std::uint64_t length = 0;      ///< LENGTH
  std::uint32_t workers = 0;     ///< worker threads on this node
  std::uint32_t active = 0;      ///< of them, running a handler
  std::uint32_t abandoned = 0;   ///< handlers that did not end when asked to
  std::int32_t max_workers = 0;  ///< 0: no limit
};

struct job_info {
  item_id id;
  std::string state{};       ///< waiting, delayed, running, dead, handled, cancelled, removed, purged
  std::string payload{};     ///< empty once it is finished
  std::string key{};
  std::string last_error{};
  std::uint32_t attempts = 0;
  std::chrono::system_clock::time_point pushed_at{};
  std::chrono::system_clock::time_point due{};
  std::chrono::system_clock::time_point finished_at{};
  std::vector<std::pair<std::string, std::string>> headers{};
  std::int32_t priority = 0;
  std::string order_by{};
  std::chrono::system_clock::time_point deadline{};
  std::string result{};      ///< JSON, of a finished item that is kept
};

/// Thread safe. Blocking, each call for a bounded time.
class queue_port {
public:
  virtual ~queue_port() = default;
  [[nodiscard]] virtual const std::string& name() const = 0;
  virtual expected<item_id> push_one(item_draft draft) = 0;
  virtual expected<std::vector<pushed>> push(std::vector<item_draft> drafts) = 0;
  virtual expected<bool> has(const std::string& payload, const std::string& key) = 0;
  virtual expected<queue_info> info() = 0;
  virtual expected<void> flush(std::chrono::milliseconds timeout) = 0;
  virtual expected<void> pause(std::chrono::system_clock::time_point until) = 0;
  virtual expected<void> resume() = 0;
  virtual expected<void> drain() = 0;
  /// `state`: waiting, delayed or dead. Returns how many items were forgotten.
  virtual expected<std::size_t> purge(std::string_view state) = 0;
  virtual expected<void> set_max_workers(int most) = 0;
  virtual expected<job_info> find(item_id id) = 0;
  /// In line: it is removed. In a handler: that is asked to stop, and whatever else than success it answers ends the item.
  virtual expected<void> cancel(item_id id) = 0;
};

}  // namespace caravan
