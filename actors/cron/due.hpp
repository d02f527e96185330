#pragma once

/// When a task's next occurrence is due, and which were passed over: plain functions of a schedule, the task's cursor
/// (its last occurrence that was taken or passed over) and the time.

#include "integration/cron_store.hpp"

#include <caravan/schedule.hpp>

#include <optional>
#include <string>

namespace caravan {

/// What decides when a task is due.
struct cron_timing {
  std::string name;
  schedule when;
  std::chrono::milliseconds jitter{0};
};

/// When the occurrence is to start: at its instant, or later by a part of the jitter that is the same on every node.
/// Always before the next occurrence, so that jitter never changes their order.
[[nodiscard]] cron_time start_of(const cron_timing& t, cron_instant occurrence);

/// The first occurrence after the cursor. Of an interval: the cursor plus the interval.
[[nodiscard]] std::optional<cron_instant> next_of(const cron_timing& t, cron_instant cursor);

/// The last occurrence after the cursor that is to have started at `now`; nothing when none is. Bounded work, however
/// long ago the cursor is. Of an interval that is more than one interval late: `now`.
[[nodiscard]] std::optional<cron_instant> latest_due(const cron_timing& t, cron_instant cursor, cron_time now);

/// Occurrences strictly between both.
struct passed {
  std::uint64_t count = 0;  ///< at most `most_counted`
  cron_instant first{};
  cron_instant last{};
};
constexpr std::uint64_t most_counted = 1000;
[[nodiscard]] passed between(const cron_timing& t, cron_instant after, cron_instant before);

/// The cursor is so far ahead of the clock that the clock must have been set back: by more than ten minutes (clocks of
/// nodes differ), by more than the task's own interval (else waiting skips nothing), and beyond the next time, which may
/// have been skipped by hand.
[[nodiscard]] bool clock_was_set_back(const cron_timing& t, cron_instant cursor, cron_time now);

}  // namespace caravan
