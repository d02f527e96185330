#pragma once

/// Runs a command as long as something holds.

#include <chrono>
#include <string>
#include <vector>

namespace caravan::cli {

/// What must hold while the command runs.
class run_guard {
public:
  using clock = std::chrono::steady_clock;
  virtual ~run_guard() = default;
  /// Until the next renew().
  [[nodiscard]] virtual std::chrono::milliseconds every() const = 0;
  /// Empty: it holds. Else why it does not any more.
  virtual std::string renew() = 0;
};

/// Starts the command in a process group of its own, with `environment` added, and renews the guard while it runs. When
/// the guard is lost the group gets SIGTERM, and SIGKILL after the grace. SIGINT, SIGTERM and SIGHUP of this process go
/// to the group; when this process is killed the command gets SIGTERM. Not thread safe, for a process without other
/// threads. The command's exit code, or 128 + signal; at least 1 when the guard was lost; 127 and 126 as a shell has
/// them.
int run_under(run_guard& guard, const std::vector<std::string>& command, const std::vector<std::string>& environment,
              const std::string& what, std::chrono::milliseconds grace);

}  // namespace caravan::cli
