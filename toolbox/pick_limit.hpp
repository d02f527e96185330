#pragma once

/// A thousand workers that ask for a job at the same moment would all query the store, and most of them get nothing.
/// `pick_limit` lets so many ask at once; the others hear *throttled*, and how long to wait before they ask again, and
/// nothing was queried for them. The pauses grow while many are turned away and are spread, so that they do not come
/// back together.
///
///   toolbox::pick_limit picks{{.at_once = 4}};
///   auto turn = picks.try_pick();
///   if (!turn) return throttled(turn.retry_after());
///   auto job = store.claim();                    // its place is given back by the destructor
///
/// Threads: safe; never blocks. Units: std::chrono. Errors: the constructor throws std::invalid_argument for at_once 0
/// and for pauses that are not above zero or the wrong way round.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <utility>

#include "toolbox/limit.hpp"

namespace caravan::toolbox {

struct pick_limit_options {
  std::size_t at_once = 4;
  std::chrono::milliseconds least_pause{50};
  std::chrono::milliseconds most_pause{2000};
};

/// Since construction.
struct pick_limit_statistics {
  std::uint64_t picked = 0;
  std::uint64_t throttled = 0;
};

class pick_limit {
public:
  /// True: the caller may ask the store until this is destroyed. Must not outlive the limit.
  class turn {
  public:
    [[nodiscard]] explicit operator bool() const noexcept { return permit_.has_value(); }
    /// Zero if it may pick.
    [[nodiscard]] std::chrono::milliseconds retry_after() const noexcept { return retry_after_; }

  private:
    friend class pick_limit;
    explicit turn(limit::permit granted) : permit_(std::move(granted)) {}
    explicit turn(std::chrono::milliseconds retry_after) : retry_after_(retry_after) {}
    std::optional<limit::permit> permit_;
    std::chrono::milliseconds retry_after_{0};
  };

  explicit pick_limit(pick_limit_options options = {}) : options_(options), permits_(options.at_once) {
    if (options.least_pause <= options.least_pause.zero() || options.most_pause < options.least_pause)
      throw std::invalid_argument("pick_limit: 0 < least_pause <= most_pause is needed");
  }

  [[nodiscard]] turn try_pick() {
    if (auto granted = permits_.try_scope()) {
      in_a_row_.store(0, std::memory_order_relaxed);
      picked_.fetch_add(1, std::memory_order_relaxed);
      return turn{std::move(*granted)};
    }
    const auto total = throttled_.fetch_add(1, std::memory_order_relaxed);
    const auto row = in_a_row_.fetch_add(1, std::memory_order_relaxed);
    // As if those who were turned away since the last pick came back in groups of at_once, a least_pause apart.
    const auto groups = 1 + row / options_.at_once;
    const auto least = static_cast<std::uint64_t>(options_.least_pause.count());
    const auto most = static_cast<std::uint64_t>(options_.most_pause.count());
    const auto pause = groups > most / least ? most : groups * least;
    const auto spread = (total * 0x9E3779B97F4A7C15ull >> 32) % (pause / 2 + 1);  // up to half of it
    return turn{std::chrono::milliseconds{static_cast<std::int64_t>(pause - spread)}};
  }

  [[nodiscard]] pick_limit_statistics statistics() const noexcept {
    return {picked_.load(std::memory_order_relaxed), throttled_.load(std::memory_order_relaxed)};
  }
  /// Who may pick at this moment.
  [[nodiscard]] std::size_t picking() const noexcept { return permits_.size() - permits_.available(); }

private:
  const pick_limit_options options_;
  limit permits_;
  std::atomic<std::uint64_t> in_a_row_{0};
  std::atomic<std::uint64_t> picked_{0};
  std::atomic<std::uint64_t> throttled_{0};
};

}  // namespace caravan::toolbox
