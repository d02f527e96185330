#pragma once

/// The one injectable clock. Whoever needs the time takes a `const toolbox::clock&`; tests hand in a manual_clock.
///
///   toolbox::manual_clock clock;
///   limiter l{clock, 10, 1s};
///   clock.advance(2s);

#include <atomic>
#include <chrono>
#include <cstdint>

namespace caravan::toolbox {

using steady_time = std::chrono::steady_clock::time_point;                ///< for intervals; never jumps
using wall_time = std::chrono::sys_time<std::chrono::milliseconds>;       ///< for what is stored or shown; may jump

/// Thread safe.
class clock {
public:
  virtual ~clock() = default;
  [[nodiscard]] virtual steady_time now() const = 0;
  [[nodiscard]] virtual wall_time wall() const = 0;
};

/// The machine's clocks.
class real_clock final : public clock {
public:
  [[nodiscard]] steady_time now() const override { return std::chrono::steady_clock::now(); }
  [[nodiscard]] wall_time wall() const override {
    return std::chrono::floor<std::chrono::milliseconds>(std::chrono::system_clock::now());
  }
  /// One for all who need no other.
  static const real_clock& shared() {
    static const real_clock instance;
    return instance;
  }
};

/// Stands still until moved. Starts one hour after both epochs, so that "a minute ago" exists.
class manual_clock final : public clock {
public:
  [[nodiscard]] steady_time now() const override {
    return steady_time{} + std::chrono::nanoseconds{steady_.load(std::memory_order_acquire)};
  }
  [[nodiscard]] wall_time wall() const override {
    return wall_time{std::chrono::milliseconds{wall_.load(std::memory_order_acquire)}};
  }
  /// Moves both clocks forward.
  void advance(std::chrono::nanoseconds by) {
    steady_.fetch_add(by.count(), std::memory_order_acq_rel);
    wall_.fetch_add(std::chrono::duration_cast<std::chrono::milliseconds>(by).count(), std::memory_order_acq_rel);
  }
  /// Moves the wall clock alone, in either direction, as an operator or NTP may.
  void shift_wall(std::chrono::milliseconds by) { wall_.fetch_add(by.count(), std::memory_order_acq_rel); }

private:
  std::atomic<std::int64_t> steady_{std::chrono::nanoseconds{std::chrono::hours{1}}.count()};
  std::atomic<std::int64_t> wall_{std::chrono::milliseconds{std::chrono::hours{1}}.count()};
};

}  // namespace caravan::toolbox
