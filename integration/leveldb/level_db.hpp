#pragma once

/// One LevelDB folder, shared by all queues of the process that live in it: who may open it, what happens when a write
/// fails, and repair. Knows nothing of rows.

#include "integration/leveldb/level_storage.hpp"

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <set>
#include <shared_mutex>
#include <thread>

namespace leveldb {
class DB;
class Logger;
class Status;
class WriteBatch;
}  // namespace leveldb

namespace caravan::level {

using reporter = std::function<void(const damage_report&)>;

/// Thread safe.
class level_db {
public:
  /// Opens the folder, or answers with the one that this process has open. It closes when the last pointer goes.
  static expected<std::shared_ptr<level_db>> open(const level_options& options);

  ~level_db();

  /// The engine, pinned: it is not reopened while this lives. Hold it shortly; never wait for a queue's lock meanwhile.
  class access {
  public:
    explicit operator bool() const noexcept { return db_ != nullptr; }
    leveldb::DB* operator->() const noexcept { return db_; }
    /// Grows with each reopening: what a queue has in memory is of one generation.
    [[nodiscard]] std::uint64_t generation() const noexcept { return generation_; }

  private:
    friend class level_db;
    std::shared_lock<std::shared_mutex> pin_;
    leveldb::DB* db_ = nullptr;
    std::uint64_t generation_ = 0;
  };
  access enter();

  /// Writes the batch. After a failure the engine is not written to again before recover(): it goes on failing, or
  /// worse, writes behind the torn end of its log, where a later open would not look.
  expected<void> write(const access& db, leveldb::WriteBatch& batch, bool sync);

  /// What a failed read or scan means. Damage makes recover() repair the folder.
  error failed(const leveldb::Status& status);

  [[nodiscard]] bool broken() const noexcept { return broken_.load(std::memory_order_acquire); }
  /// Reopens, repairing first if there is damage. Nothing to do unless broken(). Tries at most every 200 ms.
  expected<void> recover(const reporter& report);

  /// The generation that the last repair led to and the copy it made; 0 without one.
  [[nodiscard]] std::pair<std::uint64_t, std::string> last_repair() const;

  /// False when a queue of this name is open.
  bool enlist(const std::string& queue);
  void dismiss(const std::string& queue);

  /// From now on something unsynced is synced after this long at most.
  void sync_within(std::chrono::milliseconds interval);
  /// Something was written that a sync should reach.
  void touched();

  [[nodiscard]] const std::string& path() const noexcept { return path_; }

private:
  level_db(std::string path, const level_options& options);

  expected<void> open_files(const reporter& report);
  /// With the folder's LOCK held: looks for damage that LevelDB would not see or make worse, and repairs.
  expected<void> examine(bool known_damage, const std::string& why, const reporter& report);
  expected<void> repair(const std::string& why, const reporter& report);
  expected<void> start_over(const std::string& why, const reporter& report);
  [[nodiscard]] error io_error(const std::string& cause) const;
  [[nodiscard]] std::string file(const std::string& name) const { return path_ + "/" + name; }
  void sync_loop();

  const std::string path_;
  const toolbox::clock& clock_;
  const std::function<void(std::chrono::milliseconds)> sleep_;
  const std::size_t write_buffer_size_;
  leveldb::Env* const env_;
  std::unique_ptr<leveldb::Logger> engine_log_;

  mutable std::shared_mutex pin_;  ///< shared: uses db_; exclusive: replaces it
  std::unique_ptr<leveldb::DB> db_;
  std::uint64_t generation_ = 0;

  std::atomic<bool> broken_{false};
  mutable std::mutex mutex_;  ///< guards what follows; innermost
  bool damaged_ = false;
  std::string last_failure_;
  toolbox::steady_time last_recovery_{};
  bool recovered_once_ = false;
  int repairs_ = 0;
  std::uint64_t repaired_generation_ = 0;
  std::string saved_to_;
  std::set<std::string> queues_;

  std::mutex sync_mutex_;
  std::condition_variable sync_wanted_;
  std::atomic<bool> unsynced_{false};
  std::chrono::milliseconds sync_interval_{0};
  bool stopping_ = false;
  std::thread syncer_;
};

/// A table file that is shorter than its index says: LevelDB calls it an I/O error, but the disk is well.
[[nodiscard]] bool is_cut_table(const leveldb::Status& status);
/// Whether a file in LevelDB's log format ends in the middle of a record: what a crash or a cut leaves behind.
[[nodiscard]] bool ends_torn(const std::string& log_file);

}  // namespace caravan::level
