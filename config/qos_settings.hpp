#pragma once

#include <chrono>
#include <cstddef>

namespace caravan::config {

/// [qos]
struct qos_settings {
  bool enabled = false;                             ///< ENABLED
  std::size_t max_in_flight = 8;                    ///< MAX_INFLIGHT >= 1
  std::size_t max_waiting = 100;                    ///< MAX_WAITING
  std::chrono::milliseconds target_wait_time{250};  ///< TARGET_WAIT_TIME >= 1 ms
};

}  // namespace caravan::config
