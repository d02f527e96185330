#pragma once

/// So many requests a second on average, with short bursts above it: `token_bucket` holds up to `burst` tokens, gets
/// `rate` new ones a second, and a request takes one.
///
///   toolbox::token_bucket bucket{{.rate = 100, .burst = 200}};
///   if (!bucket.try_take(clock.now())) return too_many();
///
/// Several processes that share one limit keep the bucket in a common store, and the store may be down. `token_limit`
/// asks the store, and while it cannot be asked lets a local bucket decide; at most every 100 ms one caller tries the
/// store again.
///
///   toolbox::token_limit shared{{.rate = 100, .burst = 200}, [&](std::uint64_t n) -> toolbox::outcome<bool> {
///     return ask_redis(n);                          // true: taken; false: not enough; failure: could not be asked
///   }};
///   if (shared.allow()) handle();
///
/// `bucket_state` and `refill` are the algorithm alone, for those who keep the state elsewhere.
///
/// Threads: token_bucket is not thread safe; token_limit is, and asks the store without its lock.
/// Units: tokens, seconds as std::chrono. Errors: the constructors throw std::invalid_argument for a rate that is not
/// above zero or a burst of 0. A store that throws counts as down. A caller whose stop token has fired is refused
/// before anything is asked: giving up says nothing about the store.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <stop_token>
#include <utility>

#include "toolbox/clock.hpp"
#include "toolbox/outcome.hpp"
#include "toolbox/waiting.hpp"

namespace caravan::toolbox {

struct token_options {
  double rate = 1;          ///< new tokens a second
  std::uint64_t burst = 1;  ///< most tokens that can be there
};

struct bucket_state {
  double tokens = 0;
  steady_time at{};  ///< when there were so many
};

/// The state at `now`. A clock that went back adds nothing and takes nothing.
[[nodiscard]] inline bucket_state refill(bucket_state state, const token_options& options, steady_time now) {
  if (now <= state.at) return state;
  const auto seconds = std::chrono::duration<double>(now - state.at).count();
  return {std::min(static_cast<double>(options.burst), state.tokens + seconds * options.rate), now};
}

class token_bucket {
public:
  explicit token_bucket(token_options options) : options_(options) {
    if (!(options.rate > 0)) throw std::invalid_argument("token_bucket: the rate must be above zero");
    if (options.burst == 0) throw std::invalid_argument("token_bucket: the burst must be above zero");
    // Full at whatever moment it is asked first.
    state_ = {static_cast<double>(options.burst), steady_time::min()};
  }

  /// All `n` or none.
  [[nodiscard]] bool try_take(steady_time now, std::uint64_t n = 1) {
    if (state_.at == steady_time::min()) state_.at = now;
    state_ = refill(state_, options_, now);
    if (state_.tokens < static_cast<double>(n)) return false;
    state_.tokens -= static_cast<double>(n);
    return true;
  }
  /// How long until `n` tokens are there; the maximum if there never will be so many.
  [[nodiscard]] std::chrono::nanoseconds wait_for(steady_time now, std::uint64_t n = 1) const {
    if (n > options_.burst) return std::chrono::nanoseconds::max();
    const auto tokens = state_.at == steady_time::min() ? state_.tokens : refill(state_, options_, now).tokens;
    const auto missing = static_cast<double>(n) - tokens;
    if (missing <= 0) return std::chrono::nanoseconds::zero();
    return std::chrono::ceil<std::chrono::nanoseconds>(std::chrono::duration<double>(missing / options_.rate));
  }

private:
  token_options options_;
  bucket_state state_;
};

class token_limit {
public:
  /// True: taken. False: not enough. A failure, or a throw: the store cannot be asked.
  using store = std::function<outcome<bool>(std::uint64_t n)>;

  /// Without a store the local bucket is all there is.
  explicit token_limit(token_options options, store shared = {}, const clock& time = real_clock::shared())
      : store_(std::move(shared)), time_(time), local_(options) {}

  [[nodiscard]] bool allow(std::uint64_t n = 1, const std::stop_token& stop = {}) {
    if (stop.stop_requested()) return false;
    if (store_ && may_ask()) {
      auto answer = ask(n);
      const std::lock_guard guard{mutex_};
      if (answer) {
        down_ = false;
        return *answer;
      }
      down_ = true;
      next_try_ = later(time_, std::chrono::milliseconds{100});
      return local_.try_take(time_.now(), n);
    }
    const std::lock_guard guard{mutex_};
    return local_.try_take(time_.now(), n);
  }
  /// True while the local bucket decides because the store could not be asked.
  [[nodiscard]] bool store_is_down() const {
    const std::lock_guard guard{mutex_};
    return down_;
  }

private:
  // While the store is down one caller per 100 ms finds out whether it is back.
  bool may_ask() {
    const std::lock_guard guard{mutex_};
    if (!down_) return true;
    if (time_.now() < next_try_) return false;
    next_try_ = later(time_, std::chrono::milliseconds{100});
    return true;
  }
  outcome<bool> ask(std::uint64_t n) {
    try {
      return store_(n);
    } catch (...) {
      return failure{fault::failed, "the store threw"};
    }
  }

  const store store_;
  const clock& time_;
  mutable std::mutex mutex_;
  token_bucket local_;
  bool down_ = false;
  steady_time next_try_{};
};

}  // namespace caravan::toolbox
