#pragma once

#include "actors/lock/lock_core.hpp"

#include <atomic>
#include <cstdint>
#include <mutex>
#include <stop_token>
#include <string>
#include <utility>

namespace caravan {

/// What the handles of a grant see of it without asking anybody.
class lock_sign {
public:
  lock_sign(std::string k, std::uint64_t t, lock_core::time_point until) : key(std::move(k)), token(t), until_(until) {}

  const std::string key;
  const std::uint64_t token;

  [[nodiscard]] lock_core::time_point until() const {
    return lost_.load(std::memory_order_acquire) ? lock_core::time_point::min()
                                                 : until_.load(std::memory_order_acquire);
  }
  void set_until(lock_core::time_point t) { until_.store(t, std::memory_order_release); }
  void mark_lost() { lost_.store(true, std::memory_order_release); }
  /// Runs what others hung on it.
  void trip() {
    mark_lost();
    std::unique_lock lock(mutex_);
    if (!stop_.stop_possible()) return;  // nobody has looked
    const auto stop = stop_;
    lock.unlock();
    stop.request_stop();
  }
  /// Most holders never look: made when one does.
  std::stop_token stop() {
    const std::lock_guard lock(mutex_);
    if (!stop_.stop_possible()) {
      stop_ = std::stop_source();
      if (lost_.load(std::memory_order_acquire)) stop_.request_stop();  // nobody listens yet
    }
    return stop_.get_token();
  }

private:
  std::atomic<lock_core::time_point> until_;
  std::atomic<bool> lost_{false};
  std::mutex mutex_;
  std::stop_source stop_{std::nostopstate};
};

}  // namespace caravan
