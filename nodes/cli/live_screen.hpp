#pragma once

#include <chrono>

#include <termios.h>

namespace caravan::cli {

/// A terminal that is drawn anew again and again; q and Ctrl-C leave it as it was before. Where standard output is
/// none, what is printed goes on as a plain text. One at a time.
class live_screen {
public:
  /// `plain`: as if it were no terminal.
  explicit live_screen(bool plain = false);
  ~live_screen();
  live_screen(const live_screen&) = delete;
  live_screen& operator=(const live_screen&) = delete;

  /// What is printed from here on replaces what was printed before.
  void begin();
  /// Shows what was printed and waits. False: the reader has had enough.
  [[nodiscard]] bool show_for(std::chrono::milliseconds pause);
  [[nodiscard]] bool is_terminal() const noexcept { return terminal_; }

private:
  const bool terminal_;
  bool raw_ = false;
  termios before_{};
};

}  // namespace caravan::cli
