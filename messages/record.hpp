#pragma once

/// The item as a backend keeps it and a queue hands it out. Plain: no CAF here.

#include <caravan/item_id.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
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
  dead = 2,     ///< gave up; kept to be seen, replayed or removed; by id
  ranked = 3,   ///< in line with a priority other than 0; by (-priority, id)
  done = 4,     ///< finished, kept to be seen; by (when it may go, id)
  held = 5,     ///< kept back by something other than time; by (due, id)
  keyed = 6,    ///< in line with an order key; by (hash of the key, id), so that each key has a line of its own
};
inline constexpr std::size_t record_states = 7;

/// Whether the records of a state lie in the order of (sort_of, id); those of the others lie in the order of ids.
[[nodiscard]] constexpr bool is_sorted(record_state s) noexcept {
  return s != record_state::waiting && s != record_state::dead;
}
/// Waiting for a worker, and for nothing else.
[[nodiscard]] constexpr bool is_in_line(record_state s) noexcept {
  return s == record_state::waiting || s == record_state::ranked || s == record_state::keyed;
}

[[nodiscard]] constexpr std::string_view name_of(record_state s) noexcept {
  switch (s) {
    case record_state::waiting: return "waiting";
    case record_state::delayed: return "delayed";
    case record_state::dead: return "dead";
    case record_state::ranked: return "ranked";
    case record_state::done: return "done";
    case record_state::held: return "held";
    case record_state::keyed: return "keyed";
  }
  return "unknown";
}

/// 128 bits that stand for a unique key. All zero: the item has none.
struct key_digest {
  std::uint64_t high = 0;
  std::uint64_t low = 0;

  explicit operator bool() const noexcept { return (high | low) != 0; }
  friend auto operator<=>(const key_digest&, const key_digest&) = default;
};

/// How long an item holds its unique key.
enum class key_hold : std::uint8_t {
  as_queue = 0,  ///< as the queue is set
  start = 1,     ///< until a worker has it
  done = 2,      ///< until it ended, in whatever way
  time = 3,      ///< for a time from its push, whatever becomes of it
  success = 4,   ///< until it was handled or removed; while it is dead too
};

using header_list = std::vector<std::pair<std::string, std::string>>;

/// The first bytes of a sealed payload, on disk: the second is its version. Met outside of a storage only when it could not
/// be opened. JSON text never looks like that.
inline constexpr std::string_view sealed_mark("\x01\x01", 2);

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
  key_hold hold = key_hold::as_queue;      ///< of its unique key
  std::chrono::milliseconds hold_for{0};   ///< with key_hold::time
  std::string more;                 ///< what few jobs have, encoded: record_more.hpp. Empty: nothing of it
};

/// The hash of an order key, 0 to 2^52 - 1: exact also as a double. Keys of equal hash share a line. On disk: never change it.
[[nodiscard]] constexpr std::uint64_t order_hash(std::string_view key) noexcept {
  std::uint64_t h = 14695981039346656037u;  // FNV-1a, then mixed: it is cut below
  for (const char c : key) h = (h ^ static_cast<unsigned char>(c)) * 1099511628211u;
  h = (h ^ (h >> 33)) * 0xff51afd7ed558ccdu;
  return (h ^ (h >> 33)) >> 12;
}

/// By what a record of a sorted state is sorted before its id; of the other states the epoch.
[[nodiscard]] inline wall_time sort_of(const record& r) {
  switch (r.state) {
    case record_state::waiting:
    case record_state::dead: return {};
    case record_state::ranked: return wall_time{std::chrono::milliseconds{-std::int64_t{r.priority}}};
    case record_state::keyed: return wall_time{std::chrono::milliseconds{static_cast<std::int64_t>(order_hash(r.order_by))}};
    case record_state::delayed:
    case record_state::done:
    case record_state::held: break;
  }
  return r.due;
}

/// The state of a record that waits for nothing but a worker.
[[nodiscard]] inline record_state line_of(const record& r) noexcept {
  if (!r.order_by.empty()) return record_state::keyed;
  return r.priority != 0 ? record_state::ranked : record_state::waiting;
}
/// The state in which a pushed record begins. One that comes as held stays so.
[[nodiscard]] inline record_state first_state(const record& r, wall_time now) noexcept {
  if (r.state == record_state::held) return record_state::held;
  return r.due > now ? record_state::delayed : line_of(r);
}


/// What a backend needs to find a record again without reading it.
struct record_ref {
  item_id id;
  record_state state = record_state::waiting;
  wall_time sort{};  ///< sort_of
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

inline record_ref ref_of(const record& r) { return {r.id, r.state, sort_of(r), r.digest}; }

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
           x.timeout, x.retention, x.deadline, x.order_by, x.idempotency_key, x.last_error, x.headers, x.hold, x.hold_for, x.more);
}

}  // namespace caravan
