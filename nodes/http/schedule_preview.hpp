#pragma once

#include "nodes/http/api_json.hpp"

#include <caravan/schedule.hpp>

#include <cstddef>
#include <string>

namespace caravan::http {

inline constexpr std::size_t most_previewed = 1000;

/// {"schedule", "zone", "next": [{"at", "clock_change"}], "skipped": [{"wall", "clocks_jump_at"}], "warning"}.
/// invalid_argument when it has no time after `from`.
[[nodiscard]] expected<ordered_json> schedule_preview(const schedule& s, std::chrono::sys_seconds from,
                                                      std::size_t count);

}  // namespace caravan::http
