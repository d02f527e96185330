#pragma once

#include <chrono>
#include <mutex>
#include <string>
#include <utility>

namespace caravan {

/// What is wrong with a queue's storage now, if anything. Set by whoever meets a failure, cleared by whoever succeeds;
/// read by status pages and readiness. Thread safe.
///
/// What still fails is tried again every second and so said again. A failure that nobody repeats is forgotten after
/// `lasting`: else a node that gets no work because it is not ready would never be ready again.
class trouble {
public:
  static constexpr auto lasting = std::chrono::seconds{10};

  void set(std::string text) {
    const std::lock_guard lock(mutex_);
    text_ = std::move(text);
    since_ = std::chrono::steady_clock::now();
  }
  void clear() {
    const std::lock_guard lock(mutex_);
    text_.clear();
  }
  [[nodiscard]] std::string text() const {
    const std::lock_guard lock(mutex_);
    return std::chrono::steady_clock::now() - since_ < lasting ? text_ : std::string();
  }

private:
  mutable std::mutex mutex_;
  std::string text_;
  std::chrono::steady_clock::time_point since_;
};

}  // namespace caravan
