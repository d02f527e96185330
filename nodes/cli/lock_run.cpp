#include "nodes/cli/lock_run.hpp"

#include "nodes/cli/verb.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>

namespace caravan::cli {

using namespace std::chrono_literals;

namespace {

sigset_t watched_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int s : {SIGCHLD, SIGINT, SIGTERM, SIGHUP}) sigaddset(&set, s);
  return set;
}

/// In the child, between fork and exec.
[[noreturn]] void become(const std::vector<std::string>& command, const std::vector<std::string>& environment,
                         const sigset_t& before, pid_t parent) {
  ::setpgid(0, 0);
  // Of the guard's process nothing but a kill -9 goes unnoticed; then the command must not run on without its lock.
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(128 + SIGTERM);
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  for (const auto& e : environment) ::putenv(const_cast<char*>(e.c_str()));
  std::vector<char*> argv;
  for (const auto& w : command) argv.push_back(const_cast<char*>(w.c_str()));
  argv.push_back(nullptr);
  ::execvp(argv[0], argv.data());
  const int code = errno == ENOENT ? 127 : 126;
  std::fprintf(stderr, "caravan: %s: %s\n", argv[0], std::strerror(errno));
  ::_exit(code);
}

int code_of(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status); }

timespec to_timespec(std::chrono::nanoseconds d) {
  const auto s = std::chrono::duration_cast<std::chrono::seconds>(d);
  return {static_cast<time_t>(s.count()), static_cast<long>((d - s).count())};
}

}  // namespace

int run_under(run_guard& guard, const std::vector<std::string>& command, const std::vector<std::string>& environment,
              const std::string& what, std::chrono::milliseconds grace) {
  using clock = run_guard::clock;
  const auto signals = watched_signals();
  sigset_t before;
  ::sigprocmask(SIG_BLOCK, &signals, &before);
  std::fflush(nullptr);
  const auto parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) throw stop(exit_refused, std::string("the command cannot be started: ") + std::strerror(errno));
  if (child == 0) become(command, environment, before, parent);
  ::setpgid(child, child);  // whoever comes first
  // With the terminal, as a shell does it: what it reads and its Ctrl-C are the command's.
  const bool terminal = ::isatty(STDIN_FILENO) && ::tcgetpgrp(STDIN_FILENO) == ::getpgrp();
  ::signal(SIGTTOU, SIG_IGN);
  if (terminal) ::tcsetpgrp(STDIN_FILENO, child);

  auto renew_at = clock::now() + guard.every();
  std::optional<clock::time_point> kill_at;
  bool lost = false;
  int status = 0;
  while (::waitpid(child, &status, WNOHANG) == 0) {
    const auto next = kill_at ? std::min(*kill_at, lost ? clock::time_point::max() : renew_at) : renew_at;
    const auto rest = to_timespec(std::clamp<std::chrono::nanoseconds>(next - clock::now(), 0ns, 1h));
    const int got = ::sigtimedwait(&signals, nullptr, &rest);
    if (got > 0 && got != SIGCHLD) ::kill(-child, got);
    const auto now = clock::now();
    if (kill_at && now >= *kill_at) {
      ::kill(-child, SIGKILL);
      kill_at = now + 1s;
    }
    if (lost || now < renew_at) continue;
    if (const auto why = guard.renew(); !why.empty()) {
      lost = true;
      std::fprintf(stderr, "caravan: %s is lost: %s; the command is ended\n", what.c_str(), why.c_str());
      ::kill(-child, SIGTERM);
      ::kill(-child, SIGCONT);
      kill_at = clock::now() + grace;
    }
    renew_at = clock::now() + guard.every();
  }
  if (lost) ::kill(-child, SIGKILL);  // what it started and left behind
  if (terminal) ::tcsetpgrp(STDIN_FILENO, ::getpgrp());
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  const int code = code_of(status);
  return lost ? std::max(code, static_cast<int>(exit_refused)) : code;
}

}  // namespace caravan::cli
