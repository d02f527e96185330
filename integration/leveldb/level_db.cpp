#include "integration/leveldb/level_db.hpp"

#include <leveldb/db.h>
#include <leveldb/env.h>
#include <leveldb/write_batch.h>

#include <filesystem>
#include <map>

namespace caravan::level {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

namespace {

/// The folders this process has open. A slot's mutex is held while its folder is opened or closed, so that nobody runs
/// into his own process' lock.
struct slot {
  std::mutex mutex;
  std::unique_ptr<level_db> db;
  std::size_t users = 0;
};

std::shared_ptr<slot> slot_of(const std::string& path) {
  static std::mutex mutex;
  static std::map<std::string, std::shared_ptr<slot>> slots;
  const std::lock_guard lock{mutex};
  auto& found = slots[path];
  if (!found) found = std::make_shared<slot>();
  return found;
}

}  // namespace

expected<std::shared_ptr<level_db>> level_db::open(const level_options& options) {
  const fs::path wanted{options.datadir};
  if (!wanted.is_absolute())
    return error{errc::invalid_argument, "queue \"" + options.queue_full_name + "\": invalid data dir \"" +
                                             options.datadir + "\", it is not absolute; write DATADIR as a full path"};
  std::error_code failure;
  auto path = fs::weakly_canonical(wanted, failure);
  if (failure) path = wanted.lexically_normal();
  if (!path.has_filename()) path = path.parent_path();  // a trailing slash must not make a second folder of it
  if (fs::exists(path, failure) && !fs::is_directory(path, failure))
    return error{errc::invalid_argument, "queue \"" + options.queue_full_name + "\": invalid data dir \"" +
                                             path.string() + "\", it is a file; let DATADIR name a folder"};

  const auto home = slot_of(path.string());
  const std::lock_guard lock{home->mutex};
  if (!home->db) {
    std::unique_ptr<level_db> fresh{new level_db{path.string(), options}};
    if (auto opened = fresh->open_files(options.report); !opened) return opened.failure();
    home->db = std::move(fresh);
  }
  ++home->users;
  return std::shared_ptr<level_db>{home->db.get(), [home](level_db*) {
                                     const std::lock_guard lock{home->mutex};
                                     if (--home->users == 0) home->db.reset();
                                   }};
}

level_db::level_db(std::string path, const level_options& options)
    : path_(std::move(path)),
      clock_(*options.clock),
      sleep_(options.sleep ? options.sleep : [](std::chrono::milliseconds t) { std::this_thread::sleep_for(t); }),
      write_buffer_size_(options.write_buffer_size),
      env_(options.env ? options.env : leveldb::Env::Default()) {}

level_db::~level_db() {
  if (syncer_.joinable()) {
    {
      const std::lock_guard lock{sync_mutex_};
      stopping_ = true;
    }
    sync_wanted_.notify_all();
    syncer_.join();
  }
}

level_db::access level_db::enter() {
  access result;
  result.pin_ = std::shared_lock{pin_};
  result.db_ = db_.get();
  result.generation_ = generation_;
  return result;
}

expected<void> level_db::write(const access& db, leveldb::WriteBatch& batch, bool sync) {
  leveldb::WriteOptions how;
  how.sync = sync;
  const auto status = db->Write(how, &batch);
  if (!status.ok()) return failed(status);
  return {};
}

error level_db::failed(const leveldb::Status& status) {
  const std::lock_guard lock{mutex_};
  last_failure_ = status.ToString();
  if (status.IsCorruption() || is_cut_table(status)) damaged_ = true;
  broken_.store(true, std::memory_order_release);
  return io_error(last_failure_);
}

error level_db::io_error(const std::string& cause) const {
  std::string remedy = "see to that disk and its permissions";
  if (cause.find("No space left") != cause.npos) remedy = "free space there, the queues go on by themselves";
  if (cause.find("ermission denied") != cause.npos || cause.find("Read-only") != cause.npos)
    remedy = "let this user write there, or set DATADIR to a folder where it may";
  return {errc::backend_failed, "data dir \"" + path_ + "\": " + cause + "; " + remedy};
}

expected<void> level_db::recover(const reporter& report) {
  if (!broken()) return {};
  const std::unique_lock exclusive{pin_};
  bool damage = false;
  std::string why;
  {
    const std::lock_guard lock{mutex_};
    if (!broken()) return {};
    const auto now = clock_.now();
    // A full disk fails every call; reopening for each of them would only load it more.
    if (recovered_once_ && !damaged_ && now - last_recovery_ < 200ms) return io_error(last_failure_);
    recovered_once_ = true;
    last_recovery_ = now;
    damage = damaged_;
    why = last_failure_;
  }
  db_.reset();
  if (damage) {
    leveldb::FileLock* held = nullptr;
    if (auto status = env_->LockFile(file("LOCK"), &held); !status.ok()) return io_error(status.ToString());
    const auto repaired = examine(true, why, report);
    env_->UnlockFile(held);
    if (!repaired) return repaired;
  }
  if (auto opened = open_files(report); !opened) return opened;
  const std::lock_guard lock{mutex_};
  damaged_ = false;
  broken_.store(false, std::memory_order_release);
  return {};
}

std::pair<std::uint64_t, std::string> level_db::last_repair() const {
  const std::lock_guard lock{mutex_};
  return {repaired_generation_, saved_to_};
}

bool level_db::enlist(const std::string& queue) {
  const std::lock_guard lock{mutex_};
  return queues_.insert(queue).second;
}

void level_db::dismiss(const std::string& queue) {
  const std::lock_guard lock{mutex_};
  queues_.erase(queue);
}

void level_db::sync_within(std::chrono::milliseconds interval) {
  const std::lock_guard lock{sync_mutex_};
  sync_interval_ = syncer_.joinable() ? std::min(sync_interval_, interval) : interval;
  if (!syncer_.joinable()) syncer_ = std::thread{[this] { sync_loop(); }};
}

void level_db::touched() {
  // Already set: the syncer clears it before it syncs, so its next sync reaches this write too.
  if (unsynced_.load(std::memory_order_acquire)) return;
  {
    const std::lock_guard lock{sync_mutex_};
    unsynced_.store(true, std::memory_order_release);
  }
  sync_wanted_.notify_one();
}

void level_db::sync_loop() {
  std::unique_lock lock{sync_mutex_};
  while (!stopping_) {
    sync_wanted_.wait(lock, [this] { return stopping_ || unsynced_.load(std::memory_order_acquire); });
    if (stopping_) break;
    sync_wanted_.wait_for(lock, sync_interval_, [this] { return stopping_; });
    unsynced_.store(false, std::memory_order_release);
    lock.unlock();
    if (auto db = enter(); db && !broken()) {
      leveldb::WriteBatch nothing;  // an empty batch that is synced takes all before it along
      (void)write(db, nothing, true);
    }
    lock.lock();
  }
}

}  // namespace caravan::level
