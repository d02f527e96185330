#include "integration/leveldb/level_cron_store.hpp"

#include <leveldb/db.h>
#include <leveldb/env.h>

#include <cstdarg>
#include <filesystem>
#include <thread>

namespace caravan {

using namespace std::chrono_literals;

namespace {

constexpr auto open_patience = 10'000ms;
constexpr auto open_pause = 100ms;

// Else LevelDB writes a file about itself.
class no_log final : public leveldb::Logger {
public:
  void Logv(const char*, std::va_list) override {}
};

error failed(const std::string& folder, const leveldb::Status& s) {
  if (s.IsCorruption())
    return {errc::backend_failed, "cron store " + folder + ": it is damaged (" + s.ToString() +
                                      "); move the folder away, and the tasks begin anew"};
  return {errc::backend_failed,
          "cron store " + folder + ": " + s.ToString() + "; see whether the disk is full or refuses"};
}

bool is_locked(const leveldb::Status& s) { return s.IsIOError() && s.ToString().find("/LOCK") != std::string::npos; }

}  // namespace

level_cron_store::level_cron_store(options o) : options_(std::move(o)), quiet_(std::make_unique<no_log>()) {}
level_cron_store::~level_cron_store() = default;

expected<std::unique_ptr<level_cron_store>> level_cron_store::in_folder(options o) {
  std::error_code ec;
  std::filesystem::create_directories(o.folder, ec);
  if (ec)
    return error{errc::backend_failed,
                 "cron store " + o.folder + ": cannot be created: " + ec.message() + "; let this user write there"};
  std::unique_ptr<level_cron_store> store(new level_cron_store(std::move(o)));
  if (auto ok = store->open_engine(); !ok) return ok.failure();
  return store;
}

expected<void> level_cron_store::open_engine() {
  leveldb::Options o;
  o.create_if_missing = true;
  o.paranoid_checks = true;
  o.write_buffer_size = 256 << 10;  // a row is some hundred bytes
  o.max_open_files = 16;
  o.info_log = quiet_.get();
  for (auto waited = 0ms;; waited += open_pause) {
    leveldb::DB* db = nullptr;
    const auto s = leveldb::DB::Open(o, options_.folder, &db);
    if (s.ok()) {
      db_.reset(db);
      return {};
    }
    if (!is_locked(s)) return failed(options_.folder, s);
    if (waited >= open_patience)
      return error{errc::conflict, "cron store " + options_.folder +
                                       ": another process has it; stop that, or give this node a DATA_DIR of its own"};
    options_.sleep ? options_.sleep(open_pause) : std::this_thread::sleep_for(open_pause);
  }
}

expected<std::optional<std::string>> level_cron_store::get(const std::string& task) {
  if (!db_)
    if (auto ok = open_engine(); !ok) return ok.failure();
  leveldb::ReadOptions how;
  how.verify_checksums = true;
  std::string bytes;
  const auto s = db_->Get(how, task, &bytes);
  if (s.IsNotFound()) return std::optional<std::string>();
  if (!s.ok()) return failed(options_.folder, s);
  return std::optional(std::move(bytes));
}

expected<level_cron_store::found> level_cron_store::read(const std::string& task) {
  const std::lock_guard lock(mutex_);
  auto bytes = get(task);
  if (!bytes) return bytes.failure();
  return found{std::move(*bytes), std::nullopt};
}

expected<bool> level_cron_store::replace(const std::string& task, const std::optional<std::string>& was,
                                         const std::string& bytes) {
  const std::lock_guard lock(mutex_);
  const auto there = get(task);
  if (!there) return there.failure();
  if (*there != was) return false;
  leveldb::WriteOptions how;
  how.sync = true;
  if (const auto s = db_->Put(how, task, bytes); !s.ok()) {
    db_.reset();
    return failed(options_.folder, s);
  }
  return true;
}

}  // namespace caravan
