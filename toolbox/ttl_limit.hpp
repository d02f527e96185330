#pragma once

/// "The mail is sent again at most every three minutes": `ttl_limit` lets a key through once and then not before its
/// time is over, and tells how long that is. Each take brings its own time, and a key may be let go early, when what it
/// guarded failed. (So many per period and key: period_limit.)
///
///   toolbox::ttl_limit resend;
///   if (auto left = resend.try_take(user, 3min)) return wait_another(*left);
///   if (!send(user)) resend.release(user);
///
/// Threads: safe, one mutex. Units: std::chrono; a time that is not above zero limits nothing. Errors: none but
/// std::bad_alloc. Keys whose time is over are forgotten by later calls, a bounded number by each.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "toolbox/clock.hpp"
#include "toolbox/timer_ring.hpp"

namespace caravan::toolbox {

class ttl_limit {
public:
  explicit ttl_limit(const clock& time = real_clock::shared()) : time_(time), start_(time.now()) {}

  /// Nothing: the caller has it, and nobody else for `ttl`. Else how long it is still taken, never zero; that time does
  /// not start again.
  [[nodiscard]] std::optional<std::chrono::milliseconds> try_take(std::string_view key, std::chrono::milliseconds ttl) {
    const std::lock_guard guard{mutex_};
    const auto now = forget_old();
    const std::string name{key};
    if (const auto* due = taken_.find(name); due != nullptr && *due > now)
      return std::chrono::milliseconds{static_cast<std::int64_t>(*due - now)};
    if (ttl > ttl.zero()) {
      const auto due = now + static_cast<std::uint64_t>(ttl.count());
      taken_.set(name, due, due);
    } else {
      taken_.remove(name);
    }
    return std::nullopt;
  }
  /// The key is free at once. True if it was taken.
  bool release(std::string_view key) {
    const std::lock_guard guard{mutex_};
    const auto now = forget_old();
    const auto due = taken_.remove(std::string{key});
    return due && *due > now;
  }
  /// Keys in memory.
  [[nodiscard]] std::size_t size() {
    const std::lock_guard guard{mutex_};
    forget_old();
    return taken_.size();
  }

private:
  std::uint64_t forget_old() {
    const auto passed = std::chrono::floor<std::chrono::milliseconds>(time_.now() - start_).count();
    const auto now = passed > 0 ? static_cast<std::uint64_t>(passed) : 0;
    std::size_t forgotten = 0;
    for (auto next = taken_.next(); next && *next <= now && forgotten < 64; next = taken_.next())
      forgotten += taken_.advance(*next, [](std::string&&, std::uint64_t) {});
    return now;
  }

  const clock& time_;
  const steady_time start_;
  std::mutex mutex_;
  timer_ring<std::string, std::uint64_t> taken_;  // ticks of a millisecond; the value is the tick itself
};

}  // namespace caravan::toolbox
