#pragma once

#include "toolbox/token_limit.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>

namespace caravan {

/// Says who may ask for jobs now, by worker, before the queue is asked: so many claims a second (CLAIM_RATE), and
/// growing pauses for one that asks again and again without waiting while there is nothing. No clock; not thread safe.
class pick_door {
public:
  using time_point = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::milliseconds least_pause{50};  ///< after a second empty answer; doubles
  static constexpr std::chrono::milliseconds most_pause{2'000};
  static constexpr std::size_t remembered = 10'000;  ///< workers

  /// `rate` 0: no limit of claims a second.
  pick_door(std::uint32_t rate, std::uint32_t burst) : rate_(rate), burst_(std::max<std::uint32_t>(burst, 1)) {}

  /// Zero: it may. Else when to ask again.
  [[nodiscard]] std::chrono::milliseconds ask(const std::string& who, time_point now) {
    auto& w = find(who, now);
    if (now < w.not_before) return up(w.not_before - now);
    if (w.bucket && !w.bucket->try_take(now))
      return std::max(up(w.bucket->wait_for(now)), std::chrono::milliseconds{1});
    return {};
  }
  /// It got nothing, `waited` after it asked: one that waits its second brakes itself.
  void came_out_empty(const std::string& who, std::chrono::nanoseconds waited, time_point now) {
    auto& w = find(who, now);
    if (waited >= std::chrono::seconds{1}) {
      w.empty_in_a_row = 0;
      return;
    }
    const auto doublings = std::min(w.empty_in_a_row++, 10u);
    if (doublings == 0) return;
    w.not_before = now + std::min(least_pause * (1 << (doublings - 1)), most_pause);
  }
  void got_jobs(const std::string& who, time_point now) {
    auto& w = find(who, now);
    w.empty_in_a_row = 0;
    w.not_before = {};
  }

private:
  struct worker {
    std::optional<toolbox::token_bucket> bucket;
    unsigned empty_in_a_row = 0;
    time_point not_before{};
    time_point seen{};
  };

  static std::chrono::milliseconds up(std::chrono::nanoseconds d) {
    return std::chrono::ceil<std::chrono::milliseconds>(d);
  }

  worker& find(const std::string& who, time_point now) {
    if (workers_.size() >= remembered && !workers_.contains(who)) {
      // Those longest unheard of: whatever they were refused is over by then.
      std::erase_if(workers_, [&](const auto& w) { return now - w.second.seen > std::chrono::minutes{1}; });
      if (workers_.size() >= remembered) workers_.clear();
    }
    auto& w = workers_[who];
    if (rate_ > 0 && !w.bucket) w.bucket.emplace(toolbox::token_options{static_cast<double>(rate_), burst_});
    w.seen = now;
    return w;
  }

  std::uint32_t rate_;
  std::uint32_t burst_;
  std::unordered_map<std::string, worker> workers_;
};

}  // namespace caravan
