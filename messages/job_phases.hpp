#pragma once

/// Where a job stands, from its row or from how it ended.

#include "messages/queue_words.hpp"

namespace caravan {

/// Of a row that no handler has.
[[nodiscard]] job_phase phase_of(const record& row, wall_time now);
[[nodiscard]] job_phase phase_of(finished_item::kind how);
/// Takes the row over; also says when it was finished.
[[nodiscard]] job_status status_of(record&& row, bool running, wall_time now);
/// Of one that has no row any more.
[[nodiscard]] job_status status_of(const finished_item& ended);

/// not_found, for people.
[[nodiscard]] error no_such_job(const std::string& queue, item_id id);

}  // namespace caravan
