#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace caravan::config {

enum class lock_service : std::uint8_t { memory, redis };

/// [global_lock], defaults filled in and bounds checked: whoever holds one need not check again.
struct lock_settings {
  lock_service service = lock_service::memory;  ///< SERVICE_TYPE
  std::string conn_str;                         ///< SERVICE_CONN_STR, else that of [redis]; checked; may be several. redis only
  std::chrono::milliseconds expiry{30'000};     ///< LOCK_EXPIRY. What is held is renewed at half of it
};

}  // namespace caravan::config
