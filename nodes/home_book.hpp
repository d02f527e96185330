#pragma once

/// What this node has written down about the homes of queues, in a cluster without Redis.

#include "actors/move/move_target_core.hpp"

#include <caravan/error.hpp>

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace caravan {

struct home_note {
  std::string node;         ///< the home; empty: not known
  std::uint64_t epoch = 0;  ///< grows with each move
  std::uint64_t move = 0;   ///< the last one that left this node, for who asks about it
  move_note promised;       ///< a move to this node that was not decided when it was written
};

/// One small file a queue, replaced as a whole and synced: after put() a crash does not bring the old one back. Notes
/// of queues in memory are kept in memory. Thread safe.
class home_book {
public:
  /// `folder` is made when it is not there. Empty: everything is kept in memory.
  explicit home_book(std::string folder) : folder_(std::move(folder)) {}

  /// backend_failed: the file cannot be read, or is no note.
  [[nodiscard]] expected<home_note> get(const std::string& queue) const;
  /// backend_failed: whether it is written is unknown; get() tells what is.
  expected<void> put(const std::string& queue, const home_note& note, bool durable);

private:
  [[nodiscard]] std::string path_of(const std::string& queue) const { return folder_ + "/" + queue + ".home"; }

  const std::string folder_;
  mutable std::mutex mutex_;
  std::map<std::string, home_note> in_memory_;
};

/// A move that this node made, as it is kept.
struct kept_move {
  std::int64_t at = 0;  ///< ms since 1970
  std::string queue;
  std::string from;
  std::string to;
  std::string by;
  bool moved = false;
  std::string why;
  std::uint64_t items = 0;
  std::int64_t ms = 0;
  std::int64_t frozen_ms = 0;
  std::uint64_t buffered = 0;
};

/// The last thousand moves away from this node: in memory, and in a file over restarts. Thread safe.
class move_log {
public:
  explicit move_log(std::string path);
  void add(kept_move m);
  /// The latest first.
  [[nodiscard]] std::vector<kept_move> last() const;

private:
  const std::string path_;
  mutable std::mutex mutex_;
  std::vector<kept_move> moves_;
};

}  // namespace caravan
