#pragma once

/// A section of a few instructions costs less than putting a thread to sleep and waking it. `spin_lock` waits awake for
/// a moment and then lets other threads run. For anything longer, or anything that may block, use std::mutex.
///
///   toolbox::spin_lock lock_;
///   const std::lock_guard guard{lock_};          // it has the standard's names: lock, try_lock, unlock
///
/// Standard: std::atomic_flag. Threads: that is what it is for; not recursive, no order among waiters. Errors: none.

#include <atomic>
#include <thread>

namespace caravan::toolbox {

class spin_lock {
public:
  void lock() noexcept {
    while (!try_lock()) {
      // Reading until it looks free keeps the cache line shared; the holder may have lost its core, hence the yield.
      for (int i = 0; taken_.test(std::memory_order_relaxed); ++i)
        if (i >= 64) std::this_thread::yield();
    }
  }
  [[nodiscard]] bool try_lock() noexcept { return !taken_.test_and_set(std::memory_order_acquire); }
  void unlock() noexcept { taken_.clear(std::memory_order_release); }

private:
  std::atomic_flag taken_;
};

}  // namespace caravan::toolbox
