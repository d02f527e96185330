#pragma once

/// The unique keys and idempotency keys of one queue, in memory. Shared by the backends that run inside the process.

#include "integration/storage.hpp"

#include <cstddef>
#include <optional>
#include <vector>

namespace caravan {

/// Digest -> owner, with an optional expiry. Open addressing: 32 bytes a slot, no allocation per key.
/// Not thread safe.
class key_table {
public:
  static constexpr wall_time never = wall_time::max();

  struct entry {
    key_digest digest;
    item_id owner;
    wall_time expires = never;
  };

  /// `most_expiring`: beyond this many expiring keys the ones nearest to their expiry are forgotten early.
  explicit key_table(std::size_t most_expiring = 1'000'000) : most_expiring_(most_expiring) {}

  /// Who holds the key; an expired key is held by nobody.
  [[nodiscard]] std::optional<item_id> owner(const key_digest& digest, wall_time now) const;

  /// Takes the key unless somebody holds it. True when it was taken.
  bool claim(const key_digest& digest, item_id owner, wall_time now, wall_time expires = never);

  /// Takes the key from whomever holds it.
  void put(const key_digest& digest, item_id owner, wall_time expires = never);

  /// Frees the key if `owner` still holds it. True when it was freed.
  bool release(const key_digest& digest, item_id owner);

  /// When the key that `owner` holds expires; nothing when it does not hold it.
  [[nodiscard]] std::optional<wall_time> expiry(const key_digest& digest, item_id owner) const;

  /// Drops at most `most` expired keys, the earliest expiry first, and notes them in `gone` if given.
  void expire(wall_time now, std::size_t most, std::vector<key_digest>* gone);

  /// Every entry, in no order.
  template <class Visit>
  void for_each(Visit visit) const {
    for (const auto& slot : slots_)
      if (slot.digest) visit(slot);
  }

  void clear();
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

private:
  struct timer {
    wall_time expires;
    key_digest digest;
    item_id owner;
  };
  struct later {
    bool operator()(const timer& a, const timer& b) const noexcept { return a.expires > b.expires; }
  };

  [[nodiscard]] std::size_t home(const key_digest& digest) const noexcept { return digest.low & (slots_.size() - 1); }
  [[nodiscard]] std::size_t find(
      const key_digest& digest) const noexcept;  ///< the slot, or the free one where it would go
  void erase_slot(std::size_t at);
  void resize(std::size_t slots);
  void rebuild_timers();

  std::vector<entry> slots_;   ///< size 0 or a power of two; an all-zero digest marks a free slot
  std::vector<timer> timers_;  ///< a heap; may name keys that are gone or were taken anew
  std::size_t size_ = 0;
  std::size_t most_expiring_;
};

/// The key rules of one queue: what append, erase, update and release mean for its keys. Not thread safe.
class key_book {
public:
  key_book(unique_policy policy, std::chrono::milliseconds idempotency_window)
      : policy_(policy), window_(idempotency_window) {}

  /// Decides about one record of an append. When it is to be stored, its keys are taken under `id` and the record gets
  /// id, state, digest and pushed_at.
  append_result admit(record& r, item_id id, wall_time now);

  /// Takes back what admit() did, after a failed write.
  void withdraw(record& r);

  /// The record is erased or done: frees its key, unless that has a lifetime.
  bool free_at_end(const key_digest& digest, item_id id) { return digest && !has_lifetime(digest, id) && free(digest, id); }

  /// `id` holds this key for a time. Such a key outlives its record, so a durable backend has to write it down.
  [[nodiscard]] bool has_lifetime(const key_digest& digest, item_id id) const {
    const auto ends = digest ? unique_.expiry(digest, id) : std::nullopt;
    return ends && *ends != key_table::never;
  }
  /// Of a queue whose own keys have one.
  [[nodiscard]] bool keys_have_lifetime() const noexcept { return policy_.kind == unique_policy::until::time; }
  [[nodiscard]] bool has_lifetime(const record& r) const noexcept { return policy_of(r).kind == unique_policy::until::time; }
  [[nodiscard]] bool keeps_key_when_dead(const record& r) const noexcept {
    return policy_of(r).kind == unique_policy::until::success;
  }

  /// Frees the unique key if `id` still holds it. True when it was freed.
  bool free(const key_digest& digest, item_id id) { return digest && unique_.release(digest, id); }

  /// A record came back to the line: it takes its key again if nobody has it. True when it did.
  bool retake(const record& r, wall_time now);

  /// Frees what `id` holds, for a record whose digest is not known any more. Walks the whole table.
  std::vector<key_digest> free_all_of(item_id id);

  /// A record found at open, in this state. Where two records have one key, the newer is its owner.
  void rebuild(const key_digest& digest, item_id id, key_hold hold, record_state state);

  [[nodiscard]] std::optional<item_id> owner(const key_digest& digest, wall_time now) const {
    return digest ? unique_.owner(digest, now) : std::nullopt;
  }

  [[nodiscard]] bool keeps_idempotency_keys() const noexcept { return window_.count() > 0; }
  [[nodiscard]] wall_time unique_expiry(const record& r, wall_time now) const noexcept {
    const auto p = policy_of(r);
    return p.kind == unique_policy::until::time ? now + p.lifetime : key_table::never;
  }
  [[nodiscard]] wall_time idempotency_expiry(wall_time now) const noexcept { return now + window_; }

  /// For storage::keys_after().
  [[nodiscard]] std::vector<kept_key> kept_after(item_id after, std::size_t max) const;
  /// What storage::import() means for a key, and for a record's own.
  void import(const kept_key& key);
  void import(const record& r) { rebuild(r.digest, r.id, r.hold, r.state); }
  void clear() {
    unique_.clear();
    idempotency_.clear();
  }

  key_table& unique_keys() noexcept { return unique_; }
  key_table& idempotency_keys() noexcept { return idempotency_; }

private:
  [[nodiscard]] unique_policy policy_of(const record& r) const noexcept { return policy_for(r, policy_); }

  unique_policy policy_;
  std::chrono::milliseconds window_;
  // Beyond these the keys that would expire first are forgotten early: 64 bytes each must not become all memory.
  key_table unique_{4'000'000};
  key_table idempotency_{1'000'000};
};

}  // namespace caravan
