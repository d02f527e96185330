#pragma once

/// Something failed and will be tried again: at once would hurt the one that is down, and all callers after the same
/// pause would come back as one wave. `backoff` gives pauses that grow, each spread at random.
///
///   toolbox::backoff pause{{.first = 100ms, .most = 30s}};
///   while (!connect()) sleep(pause.next());      // 50..100 ms, 100..200 ms, 200..400 ms ... 15..30 s
///   pause.reset();                               // it worked: start small again
///
/// The n-th pause is first * factor^n, at most `most`; the share `jitter` of it is random: 0 gives exactly that, 1
/// anything between zero and it.
///
/// Threads: not thread safe, one per thing that is tried; it is small. Units: std::chrono.
/// Errors: the constructor throws std::invalid_argument for a first pause below zero, most < first, a factor below 1 or
/// a jitter outside 0..1.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <random>
#include <stdexcept>

namespace caravan::toolbox {

struct backoff_options {
  std::chrono::nanoseconds first = std::chrono::milliseconds{100};
  std::chrono::nanoseconds most = std::chrono::seconds{30};
  double factor = 2;
  double jitter = 0.5;
  std::uint64_t seed = 0;  ///< 0: a random one
};

class backoff {
public:
  backoff() : backoff(backoff_options{}) {}
  explicit backoff(backoff_options options)
      : options_(options), random_(options.seed != 0 ? options.seed : std::random_device{}()) {
    if (options.first < std::chrono::nanoseconds::zero())
      throw std::invalid_argument("backoff: the first pause must not be negative");
    if (options.most < options.first)
      throw std::invalid_argument("backoff: the longest pause must not be shorter than the first");
    if (!(options.factor >= 1)) throw std::invalid_argument("backoff: the factor must be at least 1");
    if (!(options.jitter >= 0 && options.jitter <= 1))
      throw std::invalid_argument("backoff: the jitter must lie between 0 and 1");
    reset();
  }

  /// The pause to make now; the next one is longer.
  [[nodiscard]] std::chrono::nanoseconds next() {
    const double whole = pause_;
    pause_ = std::min(pause_ * options_.factor, static_cast<double>(options_.most.count()));
    ++tries_;
    const double spread = options_.jitter * std::uniform_real_distribution<double>{0, 1}(random_);
    return std::chrono::nanoseconds{static_cast<std::int64_t>(whole * (1 - spread))};
  }
  void reset() noexcept {
    pause_ = static_cast<double>(options_.first.count());
    tries_ = 0;
  }
  /// Pauses handed out since the last reset.
  [[nodiscard]] std::uint64_t tries() const noexcept { return tries_; }

private:
  backoff_options options_;
  std::minstd_rand random_;
  double pause_ = 0;  // nanoseconds; a double cannot overflow
  std::uint64_t tries_ = 0;
};

}  // namespace caravan::toolbox
