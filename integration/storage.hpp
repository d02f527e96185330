#pragma once

/// Where the items of one queue live.

#include "messages/record.hpp"

#include <caravan/error.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace caravan {

/// What became of one record of an append.
struct append_result {
  enum class kind : std::uint8_t {
    stored,            ///< written under `id`
    already_in_queue,  ///< its unique key is held by `id`; not written
    repeated,          ///< its idempotency key was seen before, for `id`; not written
  };
  kind what = kind::stored;
  item_id id;
};

/// Moves a record from one state to another, with new contents.
struct record_move {
  record_ref from;
  record to;  ///< to.id == from.id; to.state and sort_of(to) say where it goes
};

/// How long an item holds its unique key.
struct unique_policy {
  enum class until : std::uint8_t {
    none,   ///< a simple queue: nothing is unique
    start,  ///< until a worker has it
    done,   ///< until it is erased, dead or done
    time,   ///< for `lifetime` from its append, whatever becomes of it; a released key is free at once
    success,  ///< until it is erased or done; a dead one keeps it
  };
  until kind = until::none;
  std::chrono::milliseconds lifetime{0};
};

/// How long this record holds its key in a queue of that policy.
[[nodiscard]] inline unique_policy policy_for(const record& r, const unique_policy& queue) noexcept {
  switch (r.hold) {
    case key_hold::as_queue: break;
    case key_hold::start: return {unique_policy::until::start, {}};
    case key_hold::done: return {unique_policy::until::done, {}};
    case key_hold::time: return {unique_policy::until::time, r.hold_for};
    case key_hold::success: return {unique_policy::until::success, {}};
  }
  return queue;
}

struct storage_counts {
  std::size_t waiting = 0;
  std::size_t delayed = 0;
  std::size_t dead = 0;
  item_id last{};  ///< the highest id ever given out, as far as the store knows
  std::size_t ranked = 0;
  std::size_t done = 0;
  std::size_t held = 0;
  std::size_t keyed = 0;

  [[nodiscard]] std::size_t of(record_state s) const { return const_cast<storage_counts&>(*this).of(s); }
  [[nodiscard]] std::size_t& of(record_state s) {
    switch (s) {
      case record_state::waiting: break;
      case record_state::delayed: return delayed;
      case record_state::dead: return dead;
      case record_state::ranked: return ranked;
      case record_state::done: return done;
      case record_state::held: return held;
      case record_state::keyed: return keyed;
    }
    return waiting;
  }
};

/// A part of another storage of the same queue, on its way here. Ids and keys stay as they are.
struct import_part {
  std::span<const record> fresh;    ///< nothing of theirs is here
  std::span<const record> changed;  ///< put in place of what is here under their ids, if anything
  std::span<const item_id> gone;
  std::span<const kept_key> keys;   ///< carried out first
  bool sync = false;                ///< on the disk when it returns, whatever the storage promises else
};

/// Above every id.
inline constexpr item_id no_item_limit{~std::uint64_t{0}};

/// Where a read goes on: after this place. Waiting and dead records are in id order (`sort` is ignored), all others in
/// the order of (sort_of, id). The default stands before everything.
struct read_cursor {
  wall_time sort = wall_time::min();
  item_id id;
};

/// A log with deletes over the records of one queue.
///
/// A delivered item is not removed: it stays until it is erased, so a crash at any point redelivers and never loses.
/// Unique and idempotency keys change in the same atomic step as the records that own them.
///
/// Threads: append() is called by one thread at a time; everything else may run beside it and beside itself.
/// Calls may block on the engine. After close() every call answers queue_closed.
/// Every implementation passes tests/contract/storage_contract.hpp.
class storage {
public:
  virtual ~storage() = default;

  /// Gives each record an id above all earlier ones (>= the item_id of `now`), sets pushed_at if it is not set, and
  /// writes them all or none. Once it returns they are as durable as the backend promises. A record whose unique key is
  /// taken, in the store or by an earlier record of the same call, is left out, and so is one whose idempotency key
  /// is known; both keep id 0. Each begins in first_state().
  /// Results are in the order of `records`, which are updated in place (id, state, digest, pushed_at).
  /// A digest that is set already is taken as it is: what `key` and payload were before somebody sealed them.
  /// backend_failed: nothing is visible and the ids are 0 again, but whether the bytes reached the disk is unknown.
  /// A known idempotency key is looked at first: a repeated push of a unique item answers `repeated`.
  virtual expected<std::vector<append_result>> append(std::span<record> records, wall_time now) = 0;

  /// Puts in line what others appended to the same place, at most about `most`, and returns how many. Their ids are above
  /// all that were known before. A storage that nobody shares never has any, and who may only push brings count() up to date
  /// instead. May also happen within append(); one thread at a time calls either of them, and then take_adopted() before
  /// it tells of what it appended itself.
  virtual expected<std::size_t> adopt(std::size_t most) {
    (void)most;
    return std::size_t{0};
  }
  /// What came in line since the last call, in id order.
  virtual std::vector<record> take_adopted() { return {}; }

  /// Up to `max` records of a state after the cursor, in order.
  virtual expected<std::vector<record>> read(record_state state, read_cursor after, std::size_t max) = 0;

  /// The record under this id, whatever its state; nothing when there is none (no error).
  virtual expected<std::optional<record>> find(item_id id) = 0;

  /// Forgets records. One that is not there, or is in another state than its ref says, is no error and nothing happens
  /// to it: an acknowledgement may arrive twice, and a move may have been faster. Frees the unique keys that the erased
  /// ones still own, except under until::time. Needs id, state and digest of the refs.
  /// `low_water`: no waiting record below it is needed any more; a later open need not look there. A lower bound: too
  /// low costs a scan, too high would lose work. A hint: a backend that knows better may ignore it.
  /// Need not be durable on return: what a crash takes back is delivered again.
  virtual expected<void> erase(std::span<const record_ref> refs, item_id low_water) = 0;

  /// Moves records between states, or rewrites them in place, all or none. One that is no longer there is left out in
  /// silence (an erase won). Name a record once in a call. Moving to dead frees the unique key, except under
  /// until::success; moving to done frees it as an erase does. Moving elsewhere takes it again if it is free, except
  /// under until::time: the item is in line again. The record moves in either case. As durable as an append.
  virtual expected<void> update(std::span<const record_move> moves) = 0;

  /// Frees the unique keys that these records still own; the records stay.
  virtual expected<void> release(std::span<const record_ref> refs) = 0;

  /// The id that holds a unique key, or nothing. A simple queue holds none, whatever is in it.
  virtual expected<std::optional<item_id>> key_owner(const key_digest& digest) = 0;

  /// Cheap: kept up to date, not counted. A delivered item counts where it is until it is erased.
  [[nodiscard]] virtual storage_counts count() const = 0;

  /// Forgets every record of a state up to the id `through` and frees their keys, under until::time too. Returns how
  /// many. Idempotency keys stay. Not all or none: after a failure some may be gone. What is appended meanwhile stays.
  virtual expected<std::size_t> clear(record_state state, item_id through) = 0;

  /// Writes out what waits and lets go of the engine. Idempotent.
  virtual expected<void> close() = 0;

  // For moves between nodes. A storage that many share has no need of them.

  /// All or none. Nobody else uses the storage meanwhile. Records that wait or are delayed hold their unique key
  /// afterwards, unless a newer one does; under until::time only `keys` say who holds one. Name a record once in a call.
  virtual expected<void> import(const import_part& part) {
    (void)part;
    return error{errc::not_supported, "this storage takes nothing over from another"};
  }
  /// Forgets all records and all keys. Ids go on growing. Not all or none.
  virtual expected<void> wipe() { return error{errc::not_supported, "this storage cannot be wiped"}; }
  /// Keys that are kept apart from the records and whose owner is above `after`, in the order of owners; about `max`, but
  /// never a part of those of one owner.
  virtual expected<std::vector<kept_key>> keys_after(item_id after, std::size_t max) {
    (void)after;
    (void)max;
    return std::vector<kept_key>{};
  }

  /// True when calls may wait for a disk or a network, so that an actor must not make them on a shared thread.
  [[nodiscard]] virtual bool blocks() const noexcept = 0;

  /// True when other nodes push into the same place, and another may become its owner: then changes may answer `fenced`,
  /// and even small calls wait for a network.
  [[nodiscard]] virtual bool shared() const noexcept { return false; }
};

/// The digest of a record's unique key: of `key`, or of the payload when the key is empty.
[[nodiscard]] key_digest digest_of(std::string_view key_or_payload) noexcept;

/// The lowest id that an append at this instant may use.
[[nodiscard]] item_id first_id_at(wall_time now) noexcept;

}  // namespace caravan
