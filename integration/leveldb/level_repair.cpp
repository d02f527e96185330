// Opening a folder, whatever state it is in.
#include "integration/leveldb/level_db.hpp"

#include <leveldb/db.h>
#include <leveldb/env.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace caravan::level {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

namespace {

constexpr int open_attempts = 10;
constexpr int most_repairs = 3;  // of one process: more would fill the disk with copies

bool ends_with(const std::string& text, std::string_view end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

bool held_by_another(const leveldb::Status& status) {
  return status.IsIOError() && status.ToString().rfind("IO error: lock ", 0) == 0;
}

/// Repair may help; a full disk or missing rights are no damage.
bool is_damage(const leveldb::Status& status) {
  if (is_cut_table(status)) return true;
  if (status.IsIOError()) return status.ToString().find("No such file") != std::string::npos;
  return !status.ok();
}

/// Keeps LevelDB from writing its own LOG file: nobody reads it, and it would be one more file to fill a disk.
class no_log final : public leveldb::Logger {
public:
  void Logv(const char*, std::va_list) override {}
};

}  // namespace

bool is_cut_table(const leveldb::Status& status) {
  const auto text = status.ToString();
  return status.IsIOError() && text.find(".ldb: Invalid argument") != std::string::npos;
}

bool ends_torn(const std::string& log_file) {
  // Blocks of 32 KiB; in them records: checksum (4), length (2), type (1: whole, 2 first, 3 middle, 4 last part),
  // bytes.
  constexpr std::size_t block_size = 32768;
  constexpr std::size_t header_size = 7;
  std::ifstream in{log_file, std::ios::binary};
  std::string block(block_size, '\0');
  bool inside = false;
  while (in) {
    in.read(block.data(), static_cast<std::streamsize>(block_size));
    const auto size = static_cast<std::size_t>(in.gcount());
    for (std::size_t at = 0; at < size;) {
      if (block_size - at < header_size) break;  // padding
      if (size - at < header_size) return true;
      const auto byte = [&](std::size_t i) {
        return static_cast<std::size_t>(static_cast<unsigned char>(block[at + i]));
      };
      const auto length = byte(4) | byte(5) << 8;
      const auto type = byte(6);
      if (type == 0 && length == 0) return inside;  // preallocated space
      if (size - at < header_size + length) return true;
      inside = type == 2 || type == 3;
      at += header_size + length;
    }
  }
  return inside;
}

expected<void> level_db::open_files(const reporter& report) {
  std::error_code failure;
  fs::create_directories(path_, failure);
  if (failure) return io_error(failure.message());
  if (!engine_log_) engine_log_ = std::make_unique<no_log>();

  leveldb::Options options;
  options.create_if_missing = true;
  options.env = env_;
  options.info_log = engine_log_.get();
  options.write_buffer_size = write_buffer_size_;
  // Without it a damaged log is skipped over in silence, and compaction spreads damage instead of stopping at it.
  options.paranoid_checks = true;

  int attempt = 1;
  const auto wait_for_owner = [&](const leveldb::Status& status) -> expected<void> {
    if (!held_by_another(status)) return io_error(status.ToString());
    if (attempt++ >= open_attempts)
      return error{errc::conflict, "data dir \"" + path_ + "\": another process uses it (tried " +
                                       std::to_string(open_attempts) +
                                       " times, once a second); stop that one, or give this one another DATADIR"};
    sleep_(1s);
    return {};
  };
  bool damage = false;
  std::string why;
  for (int damages = 0;;) {
    // Held while looking and repairing: RepairDB itself does not care whether somebody uses the folder.
    leveldb::FileLock* held = nullptr;
    if (const auto status = env_->LockFile(file("LOCK"), &held); !status.ok()) {
      if (auto waited = wait_for_owner(status); !waited) return waited;
      continue;
    }
    auto examined = examine(damage, why, report);
    env_->UnlockFile(held);
    if (!examined) return examined;
    damage = false;

    leveldb::DB* db = nullptr;
    const auto status = leveldb::DB::Open(options, path_, &db);
    if (status.ok()) {
      const std::lock_guard lock{mutex_};
      db_.reset(db);
      ++generation_;
      if (damages > 0 || repaired_generation_ == ~std::uint64_t{0}) repaired_generation_ = generation_;
      return {};
    }
    if (held_by_another(status) || !is_damage(status)) {
      if (auto waited = wait_for_owner(status); !waited) return waited;
      continue;
    }
    why = status.ToString();
    damage = true;
    if (++damages > 2) return io_error(why);
    if (damages == 2) {
      if (auto emptied = start_over(why, report); !emptied) return emptied;
      damage = false;
    }
  }
}

expected<void> level_db::examine(bool known_damage, const std::string& why, const reporter& report) {
  if (known_damage) return repair(why, report);
  const bool reopening = generation_ > 0;
  std::vector<std::string> names;
  if (const auto status = env_->GetChildren(path_, &names); !status.ok()) return io_error(status.ToString());
  const auto any = [&](std::string_view end) {
    return std::any_of(names.begin(), names.end(), [&](const auto& n) { return ends_with(n, end); });
  };
  if (!env_->FileExists(file("CURRENT"))) {
    // LevelDB would take this for a new folder and begin with an empty one.
    if (any(".ldb") || any(".sst") || any(".log"))
      return repair("CURRENT is missing while there are data files", report);
    return {};
  }
  // A torn file after a failed write of this very process is what that failure left, and its caller knows.
  if (reopening) return {};
  std::string current;
  if (const auto status = leveldb::ReadFileToString(env_, file("CURRENT"), &current); !status.ok())
    return io_error(status.ToString());
  if (!current.empty() && current.back() == '\n') current.pop_back();
  // A list of files that lost its end opens well, and LevelDB then deletes the files it does not name.
  if (current.rfind("MANIFEST-", 0) == 0 && current.find('/') == current.npos && env_->FileExists(file(current)) &&
      ends_torn(file(current)))
    return repair(current + ", the list of files, is cut off", report);
  for (const auto& name : names) {
    if (!ends_with(name, ".log") || !ends_torn(file(name)) || !report) continue;
    report({path_, "",
            name + " ends in the middle of a write: the program or the machine stopped there; what was written "
                   "before is in use, that write is not",
            std::nullopt, ""});
  }
  return {};
}

expected<void> level_db::repair(const std::string& why, const reporter& report) {
  {
    const std::lock_guard lock{mutex_};
    if (++repairs_ > most_repairs)
      return io_error(why + "; it was repaired " + std::to_string(most_repairs) +
                      " times already, the disk may be failing");
  }
  std::string copy;
  std::error_code failure;
  for (int n = 1; copy.empty() || fs::exists(copy, failure); ++n) copy = path_ + ".damaged-" + std::to_string(n);
  fs::create_directory(copy, failure);
  for (fs::directory_iterator it{path_, failure}, end; !failure && it != end; it.increment(failure)) {
    if (it->path().filename() == "LOCK" || it->is_directory()) continue;
    fs::copy_file(it->path(), fs::path{copy} / it->path().filename(), failure);
    if (failure) break;
  }
  if (failure) {
    // Without a copy no repair: it drops what it does not understand.
    const auto text = "it is damaged (" + why + ") and cannot be copied before the repair: " + failure.message();
    fs::remove_all(copy, failure);
    return io_error(text);
  }
  leveldb::Options options;
  options.env = env_;
  options.info_log = engine_log_.get();
  options.paranoid_checks = true;  // without it the repair does not look at the checksums of blocks
  const auto status = leveldb::RepairDB(path_, options);
  {
    const std::lock_guard lock{mutex_};
    saved_to_ = copy;
    repaired_generation_ = ~std::uint64_t{0};  // open_files() puts in the one it leads to
  }
  auto what = why + "; the folder was copied and repaired, each queue tells what it misses";
  if (!status.ok()) {
    if (!is_damage(status)) return io_error(status.ToString());
    what = why + "; the folder was copied, but the repair failed (" + status.ToString() + ")";
  }
  if (report) report({path_, "", what, std::nullopt, copy});
  return {};
}

expected<void> level_db::start_over(const std::string& why, const reporter& report) {
  // Repaired once and still unreadable. The copy keeps what there was; the queues must be able to work.
  std::error_code failure;
  std::vector<fs::path> files;
  for (fs::directory_iterator it{path_, failure}, end; !failure && it != end; it.increment(failure))
    if (it->path().filename() != "LOCK" && !it->is_directory()) files.push_back(it->path());
  for (const auto& f : files) fs::remove(f, failure);
  if (failure) return io_error("it is damaged (" + why + ") and cannot be emptied: " + failure.message());
  if (report)
    report({path_, "", why + "; the repair did not make it readable, so the folder begins empty", std::nullopt,
            last_repair().second});
  return {};
}

}  // namespace caravan::level
