#pragma once

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace caravan::testing_support {

/// A port that nobody listens on at this moment.
inline std::uint16_t spare_port() {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof a;
  if (::bind(fd, reinterpret_cast<sockaddr*>(&a), size) != 0 ||
      ::getsockname(fd, reinterpret_cast<sockaddr*>(&a), &size) != 0)
    throw std::runtime_error("no spare port");
  ::close(fd);
  return ntohs(a.sin_port);
}

/// A program of the system that a test needs; gone with this object, and with the thread that started it.
class child_server {
public:
  child_server() = default;
  child_server(const child_server&) = delete;
  child_server& operator=(const child_server&) = delete;
  ~child_server() { kill9(); }

  /// `log` takes its output.
  void start(const std::vector<std::string>& words, const std::string& log) {
    std::vector<char*> argv;
    for (const auto& w : words) argv.push_back(const_cast<char*>(w.c_str()));
    argv.push_back(nullptr);
    const auto parent = ::getpid();
    pid_ = ::fork();
    if (pid_ < 0) throw std::runtime_error("cannot fork");
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != parent) ::_exit(127);
      const int out = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
      ::dup2(out, 1);
      ::dup2(out, 2);
      ::execvp(argv[0], argv.data());
      ::_exit(127);
    }
  }
  [[nodiscard]] bool runs() {
    if (pid_ <= 0) return false;
    if (::waitpid(pid_, nullptr, WNOHANG) == 0) return true;
    pid_ = -1;
    return false;
  }
  void signal(int number) {
    if (pid_ > 0) ::kill(pid_, number);
  }
  /// Asks it to end and waits.
  void stop() { end(SIGTERM); }
  void kill9() { end(SIGKILL); }
  void freeze() { signal(SIGSTOP); }
  void thaw() { signal(SIGCONT); }
  [[nodiscard]] pid_t pid() const { return pid_; }

private:
  void end(int number) {
    if (pid_ <= 0) return;
    ::kill(pid_, number);
    ::kill(pid_, SIGCONT);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  pid_t pid_ = -1;
};

}  // namespace caravan::testing_support
