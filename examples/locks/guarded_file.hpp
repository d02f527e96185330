#pragma once

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>

/// A file that refuses an outdated holder of a lock. Its first line is the highest token that has written; whoever
/// comes with a lower one had lost the lock before the other got it, whether it knows that or not.
class guarded_file {
public:
  explicit guarded_file(std::string path) : path_(std::move(path)) {}

  /// False: refused, nothing was written. Throws std::runtime_error when the file cannot be used.
  bool append(std::uint64_t token, std::string_view line) {
    const int fd = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0) throw std::runtime_error(path_ + " cannot be opened");
    // Looking and writing must be one step: this guards the token, the lock guards the work.
    ::flock(fd, LOCK_EX);
    const bool done = write_if_newer(fd, token, line);
    ::close(fd);
    return done;
  }

private:
  static constexpr int head = 21;  // 20 digits and a line break

  bool write_if_newer(int fd, std::uint64_t token, std::string_view line) const {
    char text[head + 1] = "";
    if (::pread(fd, text, head, 0) == head && std::strtoull(text, nullptr, 10) > token) return false;
    std::snprintf(text, sizeof text, "%020llu\n", static_cast<unsigned long long>(token));
    const auto more = std::string(line) + "\n";
    if (::pwrite(fd, text, head, 0) != head || ::lseek(fd, 0, SEEK_END) < 0 ||
        ::write(fd, more.data(), more.size()) != static_cast<ssize_t>(more.size()))
      throw std::runtime_error(path_ + " cannot be written");
    return true;
  }

  std::string path_;
};
