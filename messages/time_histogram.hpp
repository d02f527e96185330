#pragma once

/// How long things took, in a few fixed steps: enough for percentiles, and cheap enough to count every item. Plain: no
/// CAF here.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace caravan {

/// Not thread safe. Two that crossed the wire or time with other steps cannot be compared: the steps are part of the
/// wire format, so they are never changed.
struct time_histogram {
  using duration = std::chrono::microseconds;

  /// The upper ends, both inclusive and growing; what took longer is in the last count.
  static constexpr std::array<duration, 14> steps{
      duration{1'000},         duration{2'500},        duration{10'000},     duration{25'000},
      duration{100'000},       duration{250'000},      duration{1'000'000},  duration{2'500'000},
      duration{10'000'000},    duration{30'000'000},   duration{60'000'000}, duration{300'000'000},
      duration{1'800'000'000}, duration{3'600'000'000}};

  std::vector<std::uint64_t> counts = std::vector<std::uint64_t>(steps.size() + 1);  ///< of each step alone
  duration sum{0};

  /// A clock that was set back may make it negative: then it took no time.
  void add(duration took, std::uint64_t times = 1) {
    took = std::max(took, duration{0});
    counts[static_cast<std::size_t>(std::lower_bound(steps.begin(), steps.end(), took) - steps.begin())] += times;
    sum += took * static_cast<std::int64_t>(times);
  }
};

}  // namespace caravan
