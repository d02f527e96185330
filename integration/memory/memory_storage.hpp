#pragma once

/// TYPE = channel: items live in this process and go with it.

#include "integration/storage.hpp"

#include "toolbox/clock.hpp"

#include <memory>

namespace caravan {

struct memory_options {
  std::string queue_full_name;  ///< for error texts
  unique_policy unique;
  std::chrono::milliseconds idempotency_window{1'800'000};       ///< 0: idempotency keys are ignored
  const toolbox::clock* clock = &toolbox::real_clock::shared();  ///< outlives the storage
};

/// Never fails, never blocks. About 60 bytes an item beside its own.
[[nodiscard]] std::unique_ptr<storage> open_memory_storage(memory_options options);

}  // namespace caravan
