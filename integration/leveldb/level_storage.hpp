#pragma once

/// TYPE = level: items live in a LevelDB folder on this machine. One folder may hold many queues; one process at a
/// time. docs/formats.md describes the rows.

#include "config/queue_settings.hpp"
#include "integration/storage.hpp"
#include "toolbox/clock.hpp"

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace leveldb {
class Env;
}

namespace caravan {

/// Something on the disk was not as it was written. Whatever could be saved is in use again.
struct damage_report {
  std::string datadir;
  std::string queue;                ///< its full name; empty: the whole folder
  std::string what;                 ///< for people: what was found and what was done about it
  std::optional<std::size_t> lost;  ///< items that are gone from the queue; nothing when nobody can say
  std::string saved_to;             ///< a copy of the folder as it was found; empty when none was needed
};

struct level_options {
  std::string datadir;          ///< absolute; created when it is not there
  std::string queue_full_name;  ///< one open storage per name and folder
  std::string set_full_name;    ///< under this name unique keys with a lifetime are kept
  unique_policy unique;
  std::chrono::milliseconds idempotency_window{1'800'000};  ///< 0: idempotency keys are ignored
  config::sync_mode sync = config::sync_mode::interval;
  std::chrono::milliseconds sync_interval{1000};
  /// Called on the thread that found the damage, in the middle of its call: must not call a storage. Optional.
  std::function<void(const damage_report&)> report;
  const toolbox::clock* clock = &toolbox::real_clock::shared();  ///< outlives the storage
  /// Waits between attempts while another process has the folder. Empty: sleeps.
  std::function<void(std::chrono::milliseconds)> sleep;
  // The first queue of a folder decides these for all of its queues.
  std::size_t write_buffer_size =
      32u << 20;                ///< bytes; twice this much memory at most, and as much log to read at open
  leveldb::Env* env = nullptr;  ///< for tests; outlives every storage of the folder
};

class level_storage : public storage {
public:
  /// Gives the disk space of what was passed over back to the engine, so that scans stay short. Takes up to seconds:
  /// for idle time.
  virtual void compact() = 0;
};

/// Blocks up to 10 s while another process has the folder. Errors: invalid_argument (the folder's path is relative or
/// names a file), conflict (another process, or the same queue is open here), not_supported (written by a later
/// version), backend_failed (the disk refuses). Damage is no error: it is set aside, repaired and reported.
[[nodiscard]] expected<std::unique_ptr<level_storage>> open_level_storage(level_options options);

}  // namespace caravan
