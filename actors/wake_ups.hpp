#pragma once

#include <chrono>
#include <vector>

namespace caravan {

/// No request waits longer than this, whatever it asks for: a deadline beyond the clock's range would lie in the past.
inline constexpr std::chrono::milliseconds longest_wait = std::chrono::hours{24 * 365};

/// The timers that an actor has set for itself. CAF cannot take one back, so an actor that set one for every change of
/// its plans would gather thousands; a timer that comes too early does no harm, so only an earlier one is worth a new one.
class wake_ups {
public:
  using time_point = std::chrono::steady_clock::time_point;

  /// True: set a timer for `at`, no other comes in time.
  [[nodiscard]] bool want(time_point at) {
    if (!set_.empty() && set_.back() <= at) return false;
    set_.push_back(at);
    return true;
  }
  /// A timer came. False: it stands for one that was forgotten with an earlier one, and need not be minded.
  [[nodiscard]] bool came(time_point now) {
    bool any = false;
    for (; !set_.empty() && set_.back() <= now; set_.pop_back()) any = true;
    return any;
  }

private:
  std::vector<time_point> set_;  ///< the earliest last
};

}  // namespace caravan
