#pragma once

/// Whether this node owns a shared queue. No I/O, no clock.

#include <chrono>
#include <cstdint>
#include <optional>
#include <random>

namespace caravan {

/// The store gives the place for a lease, counted by its own clock from when it got the call. Here it is counted from
/// before the call was sent, and ends a margin earlier: this node stops handing out before the store lets another
/// begin, unless its own steady clock is slower by more than the margin.
class owner_core {
public:
  using time = std::chrono::steady_clock::time_point;
  using duration = std::chrono::steady_clock::duration;
  enum class action : std::uint8_t { none, acquire, renew };

  owner_core(duration lease, std::uint64_t seed);

  /// What to ask the store for now. After it, exactly one of the answers below.
  [[nodiscard]] action due(time now) const;
  /// When due() may say something else; nothing: not before an event.
  [[nodiscard]] std::optional<time> next_wake() const;

  void on_acquired(std::uint64_t epoch, time sent);
  /// Another has it, for `left` if it does not renew.
  void on_held(duration left, time now);
  void on_renewed(time sent);
  /// Another took it.
  void on_fenced(time now);
  /// The store did not answer.
  void on_failed(time now);
  /// Somebody gave the place up, or the connection is back: try at once.
  void on_chance(time now);
  /// This node gives it up for another one, which is to be quicker: not to be tried for during `pause`.
  void on_given_up(duration pause, time now);
  /// Not to be tried for any more.
  void resign();

  [[nodiscard]] bool owns() const { return epoch_ != 0; }
  /// The last call failed.
  [[nodiscard]] bool in_trouble() const { return failed_pause_ > duration::zero(); }
  [[nodiscard]] std::uint64_t epoch() const { return epoch_; }
  /// Until then it is certain that nobody else owns it.
  [[nodiscard]] time certain_until() const { return certain_until_; }

private:
  const duration lease_;
  std::uint64_t epoch_ = 0;
  time certain_until_{};
  std::optional<time> next_;
  duration failed_pause_{};
  std::mt19937_64 random_;
};

}  // namespace caravan
