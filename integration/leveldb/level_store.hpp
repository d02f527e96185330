#pragma once

/// One queue's part of a LevelDB folder. Private to this folder: applications see level_storage.hpp.

#include "integration/id_log.hpp"
#include "integration/key_table.hpp"
#include "integration/leveldb/level_db.hpp"
#include "integration/leveldb/level_rows.hpp"

#include <array>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <vector>

namespace leveldb {
class Iterator;
class WriteBatch;
}  // namespace leveldb

namespace caravan::level {

/// What is in memory (who waits, keys, counts) changes with what is on disk like this: append takes its place in memory
/// first and writes then, so that nobody can see a record before it is counted; erase and the others write first.
/// A failed write is undone in memory; after a reopening all but the keys is read back from the disk.
///
/// Locks, outermost first: life_, append_mutex_, write_mutex_, the engine's access, state_mutex_.
class level_store final : public level_storage {
public:
  static expected<std::unique_ptr<level_storage>> open(level_options options);
  ~level_store() override;

  expected<std::vector<append_result>> append(std::span<record> records, wall_time now) override;
  expected<std::vector<record>> read(record_state state, read_cursor after, std::size_t max) override;
  expected<std::optional<record>> find(item_id id) override;
  expected<void> erase(std::span<const record_ref> refs, item_id low_water) override;
  expected<void> update(std::span<const record_move> moves) override;
  expected<void> release(std::span<const record_ref> refs) override;
  expected<std::optional<item_id>> key_owner(const key_digest& digest) override;
  [[nodiscard]] storage_counts count() const override;
  expected<std::size_t> clear(record_state state, item_id through) override;
  expected<void> close() override;
  expected<void> import(const import_part& part) override;  // level_import.cpp
  expected<void> wipe() override;
  expected<std::vector<kept_key>> keys_after(item_id after, std::size_t max) override;
  [[nodiscard]] bool blocks() const noexcept override { return true; }
  void compact() override;

private:
  struct nothing {};
  using writing = std::unique_lock<std::mutex>;

  /// A row that cannot be what it should be.
  struct bad_row {
    row_kind kind;
    std::string rest;  ///< of its key
    std::string value;
    std::string why;
  };
  /// What a scan over all rows of the queue found.
  struct findings {
    id_log<nothing> waiting;
    std::vector<std::pair<item_id, place_row>> sorted;  ///< of all sorted states; in id order
    std::array<std::size_t, record_states> without_body{};  ///< named in the index of sorted records, and not there
    storage_counts counts;                              ///< but for those waiting
    item_id highest;
    std::array<sort_place, record_states> first;        ///< of the sorted states
    struct held_key {
      key_digest digest;
      item_id id;
      key_hold hold;
      record_state state;
    };
    std::vector<held_key> keys;  ///< of the records that have one
    std::vector<bad_row> bad;
  };

  explicit level_store(level_options options);

  // level_open.cpp
  expected<void> start();
  /// With append_mutex_ and write_mutex_ held: recovers the engine if it is broken and reads the state from disk if the
  /// engine was reopened.
  expected<void> catch_up();
  expected<void> load(const level_db::access& db, bool first);
  expected<void> load_meta(const level_db::access& db, heads_row& heads, std::optional<counts_row>& counts);
  expected<void> load_keys(const level_db::access& db, row_kind kind, std::string_view name, key_table& table,
                           bool wanted);
  expected<findings> scan(const level_db::access& db, item_id head);
  expected<void> scan_records(const level_db::access& db, row_kind kind, std::string_view from, findings& found);
  expected<void> pair_places(const level_db::access& db, findings& found);
  void drop_orphaned_keys(const findings& found);
  /// Moves bad rows out of the way, reports each. write_mutex_ held.
  expected<void> set_aside(const level_db::access& db, const std::vector<bad_row>& bad);
  expected<void> check_format(const level_db::access& db);

  /// The engine, in the generation the memory is of. Releases `write` for a while when it has to catch up, unless
  /// `appends` tells that the caller holds append_mutex_.
  expected<level_db::access> ready(writing& write, bool appends);
  [[nodiscard]] bool wants_sync() const noexcept { return options_.sync == config::sync_mode::always; }
  [[nodiscard]] error closed() const;
  [[nodiscard]] error named(const error& cause) const;
  void report(std::string what, std::optional<std::size_t> lost, std::string saved_to = {}) const;

  /// The same for calls that hold no lock.
  expected<level_db::access> ready_to_read();
  expected<void> read_records(const level_db::access& db, record_state state, read_cursor after, std::size_t max,
                              std::vector<record>& out, std::vector<bad_row>& bad);
  /// Runs read_records, sets bad rows aside, and repairs and tries again where the engine meets damage.
  expected<std::vector<record>> read_repairing(record_state state, read_cursor after, std::size_t max);
  void put_record(const record& r);
  void put_heads();
  expected<std::optional<record>> look_up(const level_db::access& db, item_id id, std::vector<bad_row>& bad);
  /// For calls that hold no lock: catch_up() and set_aside().
  expected<void> repair_now();
  expected<void> set_aside_now(const std::vector<bad_row>& bad);
  /// Where a record of this state is on disk; nothing when it is not there. Of a sorted one also its sort value.
  expected<std::optional<sort_place>> locate(const level_db::access& db, record_state state, item_id id);
  void remove_rows(record_state state, sort_place at);
  void uncount(record_state state) noexcept;
  void recount(record_state state) noexcept;
  [[nodiscard]] sort_place& floor_of(record_state state) { return floor_[static_cast<std::size_t>(state)]; }
  [[nodiscard]] storage_counts count_locked() const;

  const level_options options_;
  std::shared_ptr<level_db> db_;

  mutable std::shared_mutex life_;  ///< exclusive: close
  bool closed_ = false;

  std::mutex append_mutex_;
  std::unique_ptr<leveldb::WriteBatch> append_batch_;
  std::vector<key_digest> expired_;
  item_id id_limit_;  ///< as on disk

  std::mutex write_mutex_;  ///< also held by appends that touch what erase and update write
  std::unique_ptr<leveldb::WriteBatch> batch_;
  heads_row heads_on_disk_;
  std::size_t erased_since_heads_ = 0;
  item_id compacted_to_;

  // Guarded by the mutex of the batch they fill.
  row_key append_key_;
  row_key append_set_key_;
  std::string append_bytes_;
  row_key key_;
  row_key set_key_;
  std::string bytes_;

  std::unique_ptr<leveldb::WriteBatch> undo_;  ///< takes away what failed appends may have left; both mutexes
  bool undo_needed_ = false;

  mutable std::mutex state_mutex_;
  std::atomic<std::uint64_t> generation_{0};
  key_book keys_;
  item_id last_;
  id_log<nothing> waiting_;
  storage_counts counts_;  ///< but for those waiting, and the last id
  std::array<sort_place, record_states> floor_{};  ///< no record of a sorted state stands below its own
  item_id dead_floor_;     ///< no dead record stands below
};

}  // namespace caravan::level
