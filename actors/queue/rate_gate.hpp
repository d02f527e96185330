#pragma once

#include "config/retry_policy.hpp"

#include <algorithm>
#include <chrono>

namespace caravan {

/// Lets `rate.count` through in each `rate.per`, evenly, and up to `rate.burst` at once after a pause. Eight bytes; begins
/// full. Not thread safe.
class rate_gate {
public:
  using time_point = std::chrono::steady_clock::time_point;

  /// How many may pass now.
  [[nodiscard]] std::size_t room(const config::rate& r, time_point now) const {
    const auto earliest = next_ - r.interval() * (std::int64_t{r.burst} - 1);
    if (earliest > now) return 0;
    const auto n = (now - earliest) / r.interval() + 1;
    return static_cast<std::size_t>(std::min<std::int64_t>(n, r.burst));
  }
  /// When the next one may pass; `now` or earlier: at once.
  [[nodiscard]] time_point opens(const config::rate& r) const { return next_ - r.interval() * (std::int64_t{r.burst} - 1); }
  void pass(const config::rate& r, time_point now) { next_ = std::max(next_, now) + r.interval(); }
  /// As good as never used.
  [[nodiscard]] bool full(time_point now) const { return next_ <= now; }

private:
  time_point next_{};  ///< when all that passed so far would have passed one by one
};

}  // namespace caravan
