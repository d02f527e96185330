#include "integration/process/child.hpp"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

namespace caravan::process {

namespace {

struct pipe_ends {
  unique_fd read;
  unique_fd write;
};

// An application that closed its standard streams gets 0, 1 or 2 for a pipe, and the dup2 calls in the child would
// overwrite one pipe by another.
bool above_standard_streams(unique_fd& fd) {
  if (fd.get() > 2) return true;
  fd = unique_fd(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 3));
  return static_cast<bool>(fd);
}

bool open_pipe(pipe_ends& ends) {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) return false;
  ends.read = unique_fd(fds[0]);
  ends.write = unique_fd(fds[1]);
  return above_standard_streams(ends.read) && above_standard_streams(ends.write);
}

bool set_non_blocking(const unique_fd& fd) {
  const int flags = ::fcntl(fd.get(), F_GETFL);
  return flags >= 0 && ::fcntl(fd.get(), F_SETFL, flags | O_NONBLOCK) == 0;
}

struct spawn_settings {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;

  spawn_settings() {
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
  }
  ~spawn_settings() {
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  }
  spawn_settings(const spawn_settings&) = delete;
  spawn_settings& operator=(const spawn_settings&) = delete;

  int fill(const pipe_ends& in, const pipe_ends& out, const pipe_ends& err) {
    sigset_t none;
    sigset_t all;
    sigemptyset(&none);
    sigfillset(&all);
    int rc = posix_spawn_file_actions_adddup2(&actions, in.read.get(), 0);
    if (rc == 0) rc = posix_spawn_file_actions_adddup2(&actions, out.write.get(), 1);
    if (rc == 0) rc = posix_spawn_file_actions_adddup2(&actions, err.write.get(), 2);
    // Descriptors of the application that lack O_CLOEXEC are no business of a handler.
    if (rc == 0) rc = posix_spawn_file_actions_addclosefrom_np(&actions, 3);
    if (rc == 0) rc = posix_spawnattr_setpgroup(&attributes, 0);
    if (rc == 0) rc = posix_spawnattr_setsigmask(&attributes, &none);
    if (rc == 0) rc = posix_spawnattr_setsigdefault(&attributes, &all);
    if (rc == 0)
      rc =
          posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
    return rc;
  }
};

// The interface of posix_spawn is older than const; it changes nothing.
std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> result;
  result.reserve(texts.size() + 1);
  for (const auto& text : texts) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

}  // namespace

void unique_fd::reset() noexcept {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

bool spawn_failure::is_shortage() const noexcept {
  return code == EAGAIN || code == ENOMEM || code == EMFILE || code == ENFILE;
}

child child::spawn(const std::vector<std::string>& argv, const std::vector<std::string>& environment,
                   spawn_failure& failure) {
  child result;
  pipe_ends in;
  pipe_ends out;
  pipe_ends err;
  if (!open_pipe(in) || !open_pipe(out) || !open_pipe(err) || !set_non_blocking(in.write) ||
      !set_non_blocking(out.read) || !set_non_blocking(err.read)) {
    failure = {errno, "pipe"};
    return result;
  }
  const auto arguments = pointers(argv);
  const auto variables = pointers(environment);
  spawn_settings settings;
  pid_t pid = 0;
  int rc = settings.fill(in, out, err);
  if (rc == 0)
    rc = posix_spawnp(&pid, arguments[0], &settings.actions, &settings.attributes, arguments.data(), variables.data());
  if (rc != 0) {
    failure = {rc, "posix_spawn"};
    return result;
  }
  result.pid_ = pid;
  // By number: glibc 2.36 declares pidfd_open without extern "C". The descriptor is O_CLOEXEC.
  result.exit_fd_ = unique_fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!result.exit_fd_) {
    failure = {errno, "pidfd_open"};
    // Gone already: the application ignores SIGCHLD, and the number may belong to somebody else by now.
    if (failure.code == ESRCH) result.pid_ = 0;
    return child();  // `result` kills and reaps
  }
  result.input = std::move(in.write);
  result.output = std::move(out.read);
  result.errors = std::move(err.read);
  return result;
}

child& child::operator=(child&& other) noexcept {
  std::swap(input, other.input);
  std::swap(output, other.output);
  std::swap(errors, other.errors);
  std::swap(pid_, other.pid_);
  std::swap(exit_fd_, other.exit_fd_);
  return *this;
}

child::~child() {
  if (pid_ <= 0) return;
  const int options = kill_group(SIGKILL) ? 0 : WNOHANG;
  while (::waitpid(pid_, nullptr, options) == -1 && errno == EINTR) {
  }
}

bool child::kill_group(int signal) const noexcept { return pid_ > 0 && ::kill(-pid_, signal) == 0; }

exit_state child::reap() noexcept {
  siginfo_t info{};
  int rc;
  do {
    rc = ::waitid(P_PIDFD, static_cast<id_t>(exit_fd_.get()), &info, WEXITED);
  } while (rc == -1 && errno == EINTR);
  pid_ = 0;
  exit_fd_.reset();
  // ECHILD: the application ignores SIGCHLD or waits for any child; the status is lost.
  if (rc != 0) return {};
  if (info.si_code == CLD_EXITED) return {exit_state::kind::exited, info.si_status};
  return {exit_state::kind::killed, info.si_status};
}

unique_fd child::abandon() noexcept {
  pid_ = 0;
  return std::move(exit_fd_);
}

bool reap_by_fd(const unique_fd& exit_fd) noexcept {
  siginfo_t info{};
  const int rc = ::waitid(P_PIDFD, static_cast<id_t>(exit_fd.get()), &info, WEXITED | WNOHANG);
  return rc != 0 || info.si_pid != 0;
}

}  // namespace caravan::process
