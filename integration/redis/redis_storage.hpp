#pragma once

/// TYPE = redis: items live in a Redis that several nodes share. docs/formats.md describes the keys.

#include "integration/redis/redis_client.hpp"
#include "integration/storage.hpp"
#include "toolbox/clock.hpp"

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace caravan {

struct redis_storage_options {
  std::shared_ptr<redis_client> client;
  std::string queue_full_name;
  std::string set_full_name;
  unique_policy unique;
  std::chrono::milliseconds idempotency_window{1'800'000};  ///< 0: idempotency keys are ignored
  std::uint64_t epoch =
      0;                   ///< of the owner, see redis_owner.hpp; 0: this node does not own the queue and may only push
  std::size_t length = 0;  ///< not the owner: most rows there before append answers queue_full; 0: no limit
  /// Rows that cannot be read were set aside under `damaged`. Called on the thread that met them. Optional.
  std::function<void(const std::string& what)> report;
  const toolbox::clock* clock = &toolbox::real_clock::shared();  ///< outlives the storage
};

/// Every change carries the epoch: once another node owns the queue they answer `fenced` and change nothing.
/// Without an epoch append() puts records where the owner will adopt them, everything that changes rows answers
/// `fenced`, and reads see the rows as they are.
///
/// Calls to Redis are repeated over new connections for a few seconds; an append that ran, but whose answer was lost,
/// is not run twice. After backend_failed it may have been written all the same.
///
/// Looks once what is there. With an epoch everything that other nodes pushed until then is in line afterwards.
/// Errors: fenced, backend_failed, not_supported (written by a later version).
[[nodiscard]] expected<std::unique_ptr<storage>> open_redis_storage(redis_storage_options options);

}  // namespace caravan
