#include "nodes/cli/process.hpp"

#include "nodes/cli/verb.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

namespace caravan::cli {

void notify_service_manager(std::string_view state) {
  const auto* path = std::getenv("NOTIFY_SOCKET");
  sockaddr_un to{};
  if (!path || (path[0] != '/' && path[0] != '@') || std::strlen(path) >= sizeof to.sun_path) return;
  to.sun_family = AF_UNIX;
  std::memcpy(to.sun_path, path, std::strlen(path));
  if (path[0] == '@') to.sun_path[0] = '\0';  // the abstract namespace
  const int fd = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return;
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + std::strlen(path));
  // Nobody to tell is no reason to fail.
  [[maybe_unused]] const auto sent =
      ::sendto(fd, state.data(), state.size(), MSG_NOSIGNAL, reinterpret_cast<const sockaddr*>(&to), size);
  ::close(fd);
}

bool write_file(const std::string& path, std::string_view text) {
  const auto part = path + ".part";
  const int fd = ::open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return false;
  const bool whole = ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  return ::close(fd) == 0 && whole && std::rename(part.c_str(), path.c_str()) == 0;
}

folder_lock::folder_lock(const std::string& folder) {
  std::error_code ec;
  std::filesystem::create_directories(folder, ec);
  const auto path = folder + "/node.lock";
  fd_ = ec ? -1 : ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd_ < 0)
    throw stop(exit_refused, "the data folder " + folder +
                                 " cannot be used: " + (ec ? ec.message() : std::strerror(errno)) +
                                 "; name one that this user may write with --data-dir or [node] DATA_DIR");
  if (::flock(fd_, LOCK_EX | LOCK_NB) != 0) {
    std::array<char, 32> holder{};
    const auto n = ::pread(fd_, holder.data(), holder.size() - 1, 0);
    ::close(fd_);
    const std::string pid(holder.data(), n > 0 ? static_cast<std::size_t>(n) : 0);
    throw stop(exit_refused, "the data folder " + folder + " is in use by the node with process id " +
                                 pid.substr(0, pid.find('\n')) +
                                 "; stop that one, or name another folder with --data-dir");
  }
  const auto pid = std::to_string(::getpid()) + "\n";
  if (::ftruncate(fd_, 0) != 0 || ::pwrite(fd_, pid.data(), pid.size(), 0) < 0) {
    // Only the message of the next one would miss it.
  }
}

// The file stays: removing it would let two processes lock two files of one name.
folder_lock::~folder_lock() { ::close(fd_); }

}  // namespace caravan::cli
