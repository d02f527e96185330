#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace caravan::config {

enum class limit_kind : std::uint8_t { tokens, period };
enum class limit_store : std::uint8_t { memory, redis };
enum class when_down : std::uint8_t { closed, open, local };

/// [limit.NAME] over [limit]. Defaults filled in and bounds checked by read_limit.hpp.
struct limit_settings {
  std::string name;
  limit_kind kind = limit_kind::tokens;     ///< KIND
  std::uint64_t rate = 100;                 ///< RATE. tokens: 0 gives BURST once and never more; period: at least 1
  std::chrono::milliseconds per{1000};      ///< PER >= 1 ms
  std::uint64_t burst = 100;                ///< BURST >= 1; as RATE where it is not set. tokens only
  limit_store store = limit_store::memory;  ///< STORE
  std::string conn;                         ///< redis only: CONN_STR of [redis]; checked
  when_down down = when_down::closed;       ///< WHEN_DOWN. redis only
};

}  // namespace caravan::config
