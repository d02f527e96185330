#pragma once

#include <caravan/error.hpp>

#include <cstddef>
#include <string>

namespace caravan {

/// What LevelDB itself does on this machine now, without any of our rows: the limits that a queue's figures are held
/// against. Items a second, 100-byte values.
struct level_limits {
  double write_one = 0;      ///< a WriteBatch of one put each, no sync
  double write_hundred = 0;  ///< WriteBatches of a hundred puts
  double drain = 0;          ///< read in order and deleted, a hundred in a batch
  double write_one_sync = 0; ///< a WriteBatch of one put each, synced
};

/// Uses `folder`, which must not exist, and removes it. Takes `n` items for each measure, a thousandth for the synced.
[[nodiscard]] expected<level_limits> measure_level_limits(const std::string& folder, std::size_t n);

}  // namespace caravan
