#pragma once

/// Measures queues in this process as an application would use them. `caravan bench queue` prints what it returns.

#include <caravan/error.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

namespace caravan {

struct queue_bench_options {
  enum class work : std::uint8_t { single, bulk, drain, both, latency, unique };
  work what = work::single;
  std::string backend = "level";     ///< TYPE
  std::string sync = "interval:1000";///< SYNC, level only
  std::string redis;                 ///< CONN_STR, redis only; what the queue leaves there is removed
  std::size_t jobs = 200'000;        ///< latency: one push every 5 ms, so far fewer will do
  unsigned producers = 1;            ///< threads that push
  unsigned workers = 1;              ///< MAX_WORKERS
  std::size_t push_batch = 0;        ///< items a push_many; 0: as the work says (single, latency: 1; others: 100)
  std::filesystem::path folder;      ///< for the data; a folder of its own inside is made and removed
};

struct queue_bench_result {
  std::size_t n = 0;
  double jobs_per_s = 0;  ///< all works but latency
  double p50_ms = 0, p99_ms = 0, max_ms = 0;  ///< latency: from before the push to the start of the handler
  std::string durability;
  std::size_t push_batch = 1;
};

/// 100-byte JSON payloads. drain: n jobs lie ready; counted until the last is handled and acknowledged in the store.
/// both: counted from the first push to the same end. unique: every second push is a duplicate and counts too.
[[nodiscard]] expected<queue_bench_result> bench_queue(const queue_bench_options& options);

}  // namespace caravan
