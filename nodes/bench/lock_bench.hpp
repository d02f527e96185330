#pragma once

/// Measures locks in this process as an application would use them. `caravan bench lock` prints what it returns.

#include <caravan/error.hpp>

#include <cstddef>
#include <string>

namespace caravan {

struct lock_bench_options {
  std::string service = "memory";  ///< SERVICE_TYPE
  std::string conn_str{};          ///< SERVICE_CONN_STR
  std::size_t rounds = 200'000;    ///< lock and release, in all
  unsigned threads = 1;            ///< each with a key of its own, or all with one
  bool contended = false;          ///< all with one
};

struct lock_bench_result {
  double rounds_per_s = 0;
  double p50_us = 0, p99_us = 0, max_us = 0;  ///< of a lock and its release
};

[[nodiscard]] expected<lock_bench_result> bench_lock(const lock_bench_options& options);

}  // namespace caravan
