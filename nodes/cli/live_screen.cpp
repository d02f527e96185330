#include "nodes/cli/live_screen.hpp"

#include <poll.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>

namespace caravan::cli {

namespace {

volatile std::sig_atomic_t left = 0;
void leave(int) { left = 1; }

}  // namespace

live_screen::live_screen(bool plain) : terminal_(!plain && ::isatty(STDOUT_FILENO) == 1) {
  left = 0;
  struct sigaction on {};
  on.sa_handler = leave;  // without SA_RESTART: the wait ends
  ::sigaction(SIGINT, &on, nullptr);
  ::sigaction(SIGTERM, &on, nullptr);
  if (!terminal_) return;
  std::fputs("\033[?1049h\033[?25l", stdout);
  if (::isatty(STDIN_FILENO) == 1 && ::tcgetattr(STDIN_FILENO, &before_) == 0) {
    auto raw = before_;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    raw_ = ::tcsetattr(STDIN_FILENO, TCSANOW, &raw) == 0;
  }
}

live_screen::~live_screen() {
  if (raw_) ::tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  if (terminal_) std::fputs("\033[?25h\033[?1049l", stdout);
  std::fflush(stdout);
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
}

void live_screen::begin() {
  if (terminal_) std::fputs("\033[H\033[2J", stdout);
}

bool live_screen::show_for(std::chrono::milliseconds pause) {
  if (std::fflush(stdout) != 0) return false;  // the reader of a pipe is gone
  const auto end = std::chrono::steady_clock::now() + pause;
  while (left == 0) {
    const auto rest = std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    if (rest.count() <= 0) return true;
    pollfd in{STDIN_FILENO, POLLIN, 0};
    if (::poll(&in, raw_ ? 1 : 0, static_cast<int>(rest.count())) <= 0 || !raw_) continue;
    char key = 0;
    if (::read(STDIN_FILENO, &key, 1) != 1 || key == 'q') return false;
  }
  return false;
}

}  // namespace caravan::cli
