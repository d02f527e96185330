#pragma once

/// Something failed and will be tried again: at once would hurt the one that is down, and all callers after the same
/// pause would come back as one wave. `backoff` gives pauses that grow, each spread at random.
///
///   toolbox::backoff pause{{.first = 100ms, .most = 30s}};
///   while (!connect()) sleep(pause.next());      // 50..100 ms, 100..200 ms, 200..400 ms ... 15..30 s
///   pause.reset();                               // it worked: start small again
///
///   item.due = now + toolbox::pause_after({.first = 1s, .most = 1h}, item.failures, random);   // counts by itself
///
/// The first pause is `first`, each one after it `factor` times as long, at most `most`; the share `jitter` of it is
/// random: 0 gives exactly that, 1 anything between zero and it.
///
/// `pause_after` is the same without a memory, for things that know themselves how often they failed.
///
/// Threads: not thread safe, one per thing that is tried; it is small. pause_after touches only the generator that it
/// is given. Units: std::chrono. Errors: the constructor throws std::invalid_argument for a first pause below zero,
/// most < first, a factor below 1 or a jitter outside 0..1; pause_after trusts its caller to give no such options.

#include <algorithm>
#include <chrono>
#include <cmath>
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

/// The pause after the failure of that number, the first being 1 (0 counts as 1). `random`: a generator as of <random>;
/// the same state gives the same pause, options.seed is not looked at.
template <class Random>
[[nodiscard]] std::chrono::nanoseconds pause_after(const backoff_options& options, std::uint64_t failures,
                                                   Random& random) {
  // Doubles: they grow beyond `most` instead of overflowing. A pause of zero stays zero, but not times infinity.
  const auto first = static_cast<double>(options.first.count());
  const auto growth = std::pow(options.factor, static_cast<double>(std::max<std::uint64_t>(failures, 1) - 1));
  const auto whole = first > 0 ? std::min(first * growth, static_cast<double>(options.most.count())) : 0.0;
  const double spread = options.jitter * std::uniform_real_distribution<double>{0, 1}(random);
  return std::chrono::nanoseconds{static_cast<std::int64_t>(whole * (1 - spread))};
}

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
  }

  /// The pause to make now; the next one is longer.
  [[nodiscard]] std::chrono::nanoseconds next() { return pause_after(options_, ++tries_, random_); }
  void reset() noexcept { tries_ = 0; }
  /// Pauses handed out since the last reset.
  [[nodiscard]] std::uint64_t tries() const noexcept { return tries_; }

private:
  backoff_options options_;
  std::minstd_rand random_;
  std::uint64_t tries_ = 0;
};

}  // namespace caravan::toolbox
