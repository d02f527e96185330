#pragma once

#include <cerrno>
#include <csignal>
#include <ctime>

namespace caravan::handlers {

/// Keeps SIGPIPE away from this thread while it lives, whatever the application does with that signal elsewhere:
/// a library must not change the disposition of the whole process. Destroy it on the thread that made it.
class sigpipe_guard {
public:
  sigpipe_guard() noexcept {
    sigset_t pending;
    sigemptyset(&pending);
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    sigemptyset(&pipe_only_);
    sigaddset(&pipe_only_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_only_, &before_);
  }
  ~sigpipe_guard() {
    // A signal that we caused must be gone before the mask is lifted; one that waited before us is not ours to take.
    const timespec at_once{};
    while (!was_pending_ && sigtimedwait(&pipe_only_, nullptr, &at_once) == -1 && errno == EINTR) {
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  sigpipe_guard(const sigpipe_guard&) = delete;
  sigpipe_guard& operator=(const sigpipe_guard&) = delete;

private:
  sigset_t pipe_only_;
  sigset_t before_;
  bool was_pending_ = false;
};

}  // namespace caravan::handlers
