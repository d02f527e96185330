#pragma once

/// One child process and the four descriptors by which it is watched. Linux only (pidfd, kernel 5.4 or newer).

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

namespace caravan::process {

/// Owns a file descriptor; -1 is none.
class unique_fd {
public:
  unique_fd() = default;
  explicit unique_fd(int fd) noexcept : fd_(fd) {}
  unique_fd(unique_fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  unique_fd& operator=(unique_fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    other.reset();
    return *this;
  }
  ~unique_fd() { reset(); }

  void reset() noexcept;
  [[nodiscard]] int get() const noexcept { return fd_; }
  explicit operator bool() const noexcept { return fd_ >= 0; }

private:
  int fd_ = -1;
};

/// How a child ended.
struct exit_state {
  enum class kind { exited, killed, unknown } what = kind::unknown;
  int value = 0;  ///< exit status or signal; unknown: 0
};

/// Why no child was started.
struct spawn_failure {
  int code = 0;      ///< errno
  std::string step;  ///< the call that failed

  /// The machine is short of something: says nothing about the command.
  [[nodiscard]] bool is_shortage() const noexcept;
};

/// A started process. It leads a process group of its own, so that kill_group() reaches what it starts.
/// The destructor kills the group and reaps the child if nobody did; it never leaves a zombie that can be avoided.
/// One thread at a time.
class child {
public:
  /// Starts argv[0], looked up in PATH, with exactly `environment` ("NAME=value"), default signal dispositions, an
  /// empty signal mask and nothing open but its standard streams. On failure `failure` says why and the child is empty.
  static child spawn(const std::vector<std::string>& argv, const std::vector<std::string>& environment,
                     spawn_failure& failure);

  child() = default;
  child(child&& other) noexcept { *this = std::move(other); }
  child& operator=(child&& other) noexcept;
  ~child();

  explicit operator bool() const noexcept { return pid_ > 0; }
  /// Readable once the process ended.
  [[nodiscard]] int exit_fd() const noexcept { return exit_fd_.get(); }

  /// Only before reap(): until then the number cannot belong to anybody else. False if not permitted or not there.
  bool kill_group(int signal) const noexcept;
  /// Takes the exit state; the process must have ended.
  exit_state reap() noexcept;
  /// Gives up on a process that cannot be killed. Reap it later by reap_by_fd.
  unique_fd abandon() noexcept;

  /// Our ends, non-blocking. Close them at will.
  unique_fd input;
  unique_fd output;
  unique_fd errors;

private:
  pid_t pid_ = 0;
  unique_fd exit_fd_;
};

/// True if the process behind the pidfd has ended; it is no zombie afterwards.
bool reap_by_fd(const unique_fd& exit_fd) noexcept;

}  // namespace caravan::process
