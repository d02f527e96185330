#pragma once

#include <mutex>
#include <string>
#include <utility>

namespace caravan {

/// What is wrong with a queue's storage now, if anything. Set by whoever meets a failure, cleared by whoever succeeds;
/// read by status pages and readiness. Thread safe.
class trouble {
public:
  void set(std::string text) {
    const std::lock_guard lock(mutex_);
    text_ = std::move(text);
  }
  void clear() {
    const std::lock_guard lock(mutex_);
    text_.clear();
  }
  [[nodiscard]] std::string text() const {
    const std::lock_guard lock(mutex_);
    return text_;
  }

private:
  mutable std::mutex mutex_;
  std::string text_;
};

}  // namespace caravan
