#pragma once

#include <mutex>

namespace caravan {

/// For calls that may come after the end of whom they are for. Shared with who calls.
template <class T>
class call_guard {
public:
  explicit call_guard(T* self) : self_(self) {}
  /// Runs `what(self)` unless drop() was called. Calls may nest.
  template <class Call>
  void call(Call what) {
    const std::lock_guard lock(mutex_);
    if (self_) what(*self_);
  }
  /// No call goes on when this returns, and none begins.
  void drop() {
    const std::lock_guard lock(mutex_);
    self_ = nullptr;
  }

private:
  std::recursive_mutex mutex_;
  T* self_;
};

}  // namespace caravan
