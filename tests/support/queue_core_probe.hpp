#pragma once

/// Where a queue_core keeps each item: for invariants only.

#include "actors/queue/queue_core.hpp"

namespace caravan {

struct queue_core_probe {
  const queue_core& core;

  template <class F>
  static void each(const item_window& w, F f) {
    for (const auto& r : w.line_) f(r);
    for (const auto& [at, r] : w.side_) f(r);
  }
  [[nodiscard]] const item_window& waiting() const { return core.waiting_; }
  [[nodiscard]] const item_window& delayed() const { return core.delayed_; }
  [[nodiscard]] const item_window& ranked() const { return core.ranked_; }
  [[nodiscard]] const key_lines& keys() const { return core.keys_; }
  template <class F>
  void each_keyed(F f) const {
    for (const auto& [hash, l] : core.keys_.lines_)
      for (const auto& r : l.items) f(r);
  }
  [[nodiscard]] const auto& due() const { return core.due_; }
  [[nodiscard]] const auto& postponed() const { return core.postponed_; }
  [[nodiscard]] const auto& leases() const { return core.leases_; }
  [[nodiscard]] const auto& pools() const { return core.pools_; }
  [[nodiscard]] std::size_t window() const { return core.limits_.window; }
  [[nodiscard]] bool flushing() const { return !core.flushes_.empty(); }
};

}  // namespace caravan
