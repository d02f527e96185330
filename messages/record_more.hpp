#pragma once

/// What few jobs have, behind record::more: kept as tagged parts, so that a job without them pays for nothing. On disk and
/// on the wire: tags are never used again for something else, and an unknown one is left out by who reads it.

#include "messages/record.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace caravan {

/// How one attempt failed.
struct past_error {
  wall_time at{};
  std::uint32_t attempt = 0;
  std::string text;
  friend bool operator==(const past_error&, const past_error&) = default;
};

struct record_more {
  static constexpr std::size_t errors_kept = 5;      ///< the last ones
  static constexpr std::size_t error_text_most = 512;  ///< bytes of each

  std::string retry;               ///< RETRY of this job; empty: as the queue is set
  std::vector<past_error> errors;  ///< the oldest first
  bool cancelled = false;          ///< it is not handed out any more; it ends with its next move
  std::string result;              ///< JSON, of a job that is done
  wall_time finished_at{};

  /// The oldest goes when there are too many.
  void add_error(past_error e);
  friend bool operator==(const record_more&, const record_more&) = default;
};

/// Of what record::more says. What cannot be read is left out.
[[nodiscard]] record_more more_of(const record& r);
void set_more(record& r, const record_more& more);

}  // namespace caravan
