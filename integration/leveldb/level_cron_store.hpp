#pragma once

#include "integration/cron_rows.hpp"

#include <functional>
#include <memory>
#include <mutex>
#include <string>

namespace leveldb {
class DB;
class Logger;
}  // namespace leveldb

namespace caravan {

/// Rows in a LevelDB folder of their own, for a node that shares its tasks with nobody. Every change is synced before
/// it is answered. One process at a time. Thread safe.
class level_cron_store final : public cron_row_store {
public:
  struct options {
    std::string folder;  ///< absolute; created when it is not there
    /// Waits between attempts while another process has the folder, 10 s in all. Empty: sleeps.
    std::function<void(std::chrono::milliseconds)> sleep{};
  };
  /// Errors: conflict (another process has the folder), backend_failed (the disk refuses, or what is there is damaged).
  [[nodiscard]] static expected<std::unique_ptr<level_cron_store>> in_folder(options o);
  ~level_cron_store() override;

private:
  explicit level_cron_store(options o);
  expected<found> read(const std::string& task) override;
  expected<bool> replace(const std::string& task, const std::optional<std::string>& was,
                         const std::string& bytes) override;
  expected<void> open_engine();
  expected<std::optional<std::string>> get(const std::string& task);

  const options options_;
  std::mutex mutex_;
  std::unique_ptr<leveldb::Logger> quiet_;
  std::unique_ptr<leveldb::DB>
      db_;  ///< null after a failed write: the engine is not written to again before it was reopened
};

}  // namespace caravan
