#pragma once

/// What `caravan node` wants of the operating system.

#include <string>
#include <string_view>

namespace caravan::cli {

/// Tells systemd, when it started this process with Type=notify: "READY=1", "STOPPING=1".
void notify_service_manager(std::string_view state);

/// Replaces the file in one step: whoever polls for it never reads half of it. False and errno when it cannot.
[[nodiscard]] bool write_file(const std::string& path, std::string_view text);

/// The right of one process to a data folder, until it ends however it ends.
class folder_lock {
public:
  /// Creates the folder. Throws stop(exit_refused) with the holder's process id when it is taken.
  explicit folder_lock(const std::string& folder);
  folder_lock(const folder_lock&) = delete;
  folder_lock& operator=(const folder_lock&) = delete;
  ~folder_lock();

private:
  int fd_ = -1;
};

}  // namespace caravan::cli
