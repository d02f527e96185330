#pragma once

/// The item as a backend keeps it and a queue hands it out. Plain: no CAF here.

#include <caravan/item_id.hpp>

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace caravan {

/// Wall-clock instants as they are stored and shown: milliseconds since 1970 UTC. The epoch itself means "none".
using wall_time = std::chrono::sys_time<std::chrono::milliseconds>;

/// Where an item stands in its backend. In flight is no state of a backend: such an item is still where it was.
/// On disk and on the wire: append only.
enum class record_state : std::uint8_t {
  waiting = 0,  ///< in line, by id
  delayed = 1,  ///< not before its due time; by (due, id). Stays here once due, until it is erased or moved
  dead = 2,     ///< gave up; kept to be seen, replayed or removed
};

/// 128 bits that stand for a unique key. All zero: the item has none.
struct key_digest {
  std::uint64_t high = 0;
  std::uint64_t low = 0;

  explicit operator bool() const noexcept { return (high | low) != 0; }
  friend auto operator<=>(const key_digest&, const key_digest&) = default;
};

using header_list = std::vector<std::pair<std::string, std::string>>;

struct record {
  item_id id;                       ///< 0 until appended
  record_state state = record_state::waiting;
  std::string payload;              ///< JSON text; neither queue nor backend looks inside
  std::string key;                  ///< unique queues: the caller's key; empty: the payload itself
  key_digest digest;                ///< of the key or payload; all zero in a simple queue
  wall_time pushed_at{};
  wall_time due{};                  ///< delayed items: not before this
  std::int32_t priority = 0;        ///< higher first
  std::uint32_t attempts = 0;       ///< handler calls that failed or left it unhandled
  std::uint32_t max_attempts = 0;   ///< 0: as the queue is set
  std::chrono::milliseconds timeout{0};    ///< of one handler call; 0: as the queue is set
  std::chrono::milliseconds retention{0};  ///< how long the finished item is kept; 0: not at all
  wall_time deadline{};             ///< past this the handler is not called any more
  std::string order_by;             ///< items that share it are handled one after another
  std::string idempotency_key;      ///< a repeated push with the same key answers with the first one's id
  std::string last_error;           ///< why the last attempt failed, or why it is dead
  header_list headers;              ///< trace context and the caller's own
};

/// What a backend needs to find a record again without reading it.
struct record_ref {
  item_id id;
  record_state state = record_state::waiting;
  wall_time due{};
  key_digest digest;
};

/// A key as a storage keeps it apart from its records: of repeats, or a unique one with a lifetime.
struct kept_key {
  enum class kind : std::uint8_t { idempotency = 0, unique = 1 };
  kind what = kind::idempotency;
  key_digest digest;
  item_id owner;
  wall_time expires{};  ///< wall_time{}: it is free, if that owner had it
};

inline record_ref ref_of(const record& r) { return {r.id, r.state, r.due, r.digest}; }

// How CAF reads and writes them: by position, so append only.
template <class I>
typename I::result_type inspect(I& f, item_id& x) {
  return f(x.value);
}
template <class I>
typename I::result_type inspect(I& f, key_digest& x) {
  return f(x.high, x.low);
}
template <class I>
typename I::result_type inspect(I& f, kept_key& x) {
  return f(x.what, x.digest, x.owner, x.expires);
}
template <class I>
typename I::result_type inspect(I& f, record& x) {
  return f(x.id, x.state, x.payload, x.key, x.digest, x.pushed_at, x.due, x.priority, x.attempts, x.max_attempts,
           x.timeout, x.retention, x.deadline, x.order_by, x.idempotency_key, x.last_error, x.headers);
}

}  // namespace caravan
