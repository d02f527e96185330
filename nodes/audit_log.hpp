#pragma once

/// Who changed what through the API, kept as JSON lines. Plain: no CAF, no HTTP, no clock.

#include <chrono>
#include <cstddef>
#include <deque>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <string>
#include <vector>

namespace caravan {

struct audit_line {
  std::uint64_t number = 0;  ///< grows; given by the log
  std::chrono::system_clock::time_point at{};
  std::string remote;  ///< the caller's address
  std::string roles;   ///< what its token may do, "admin"; empty: it had none that counts
  std::string action;  ///< "POST /v1/queues/mail/pause": never the query or the body, which may hold secrets
  int status = 0;      ///< the answer
};

/// Two files of at most `most_bytes` each: FILE, and FILE.1 with what was before. The last `remembered` lines are also
/// in memory. Thread safe. A line that cannot be written is still remembered; the log goes on with the next.
class audit_log {
public:
  static constexpr std::size_t remembered = 1'000;

  explicit audit_log(std::filesystem::path file, std::uintmax_t most_bytes = 8u << 20);

  void add(audit_line line);
  /// The newest first.
  [[nodiscard]] std::vector<audit_line> latest(std::size_t most) const;

private:
  void read_back(const std::filesystem::path& file);
  void write(const audit_line& line);

  const std::filesystem::path file_;
  const std::uintmax_t most_bytes_;
  mutable std::mutex mutex_;
  std::ofstream out_;
  std::uintmax_t bytes_ = 0;
  bool torn_ = false;  ///< the file ends within a line
  std::uint64_t next_ = 1;
  std::deque<audit_line> lines_;
};

}  // namespace caravan
