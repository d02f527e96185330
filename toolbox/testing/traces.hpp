#pragma once

/// Sequences of keys as caches see them, the same ones at each run, for tests and bench/cache_bench.cpp.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace caravan::toolbox::testing {

struct zipf_options {
  std::uint32_t keys = 100'000;
  std::size_t length = 1'000'000;
  double exponent = 0.9;  ///< how much more often the first keys come than the last
};

/// Key i comes with a frequency of 1 / (i+1)^exponent.
[[nodiscard]] inline std::vector<std::uint32_t> zipf_trace(const zipf_options& options) {
  std::vector<double> weights(options.keys);
  for (std::uint32_t i = 0; i < options.keys; ++i) weights[i] = 1 / std::pow(i + 1.0, options.exponent);
  std::discrete_distribution<std::uint32_t> key(weights.begin(), weights.end());
  std::mt19937 random{42};
  std::vector<std::uint32_t> out(options.length);
  for (auto& one : out) one = key(random);
  return out;
}

struct scan_options {
  std::size_t every;   ///< after so many accesses somebody reads
  std::size_t length;  ///< so many keys that nobody reads again
};

[[nodiscard]] inline std::vector<std::uint32_t> with_scans(const std::vector<std::uint32_t>& trace,
                                                           const scan_options& scans) {
  std::vector<std::uint32_t> out;
  std::uint32_t fresh = 1u << 31;  // above all keys of a trace
  for (std::size_t i = 0; i < trace.size(); ++i) {
    out.push_back(trace[i]);
    if ((i + 1) % scans.every == 0)
      for (std::size_t k = 0; k < scans.length; ++k) out.push_back(fresh++);
  }
  return out;
}

/// The share of the keys that were there when they came; those that were not are added. Scans are not counted: nothing
/// could hit them.
template <class Has, class Add>
[[nodiscard]] double hit_rate(const std::vector<std::uint32_t>& trace, Has has, Add add) {
  std::size_t hits = 0, asked = 0;
  for (const auto key : trace) {
    const bool counts = key < (1u << 31);
    asked += counts;
    if (has(key))
      hits += counts;
    else
      add(key);
  }
  return static_cast<double>(hits) / static_cast<double>(asked);
}

}  // namespace caravan::toolbox::testing
