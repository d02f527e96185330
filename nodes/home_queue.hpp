#pragma once

/// TYPE = level and channel in a cluster that was joined by address: one node is the queue's home, all answer for it.

#include "nodes/home_book.hpp"
#include "nodes/membership.hpp"
#include "nodes/queue_host.hpp"

#include <memory>
#include <string>

namespace caravan {

/// The other nodes, as queues see them. All outlive every queue.
struct cluster_parts {
  std::string incarnation;
  membership* members = nullptr;
  mesh* way = nullptr;
  home_book* book = nullptr;
  move_log* moves = nullptr;
};

class home_queue : public hosted_queue {
public:
  /// What this node tells others of it.
  [[nodiscard]] virtual home_claim claim() const = 0;
  /// Something about other nodes changed. May block; one at a time.
  virtual void look() = 0;
  /// Who takes the steps of a move to this node. Null after the end.
  [[nodiscard]] virtual move_target_actor taker() const = 0;
  [[nodiscard]] virtual move_decision decision(std::uint64_t move) const = 0;
  /// This node is its home.
  [[nodiscard]] virtual bool at_home() const = 0;
  /// Begins to move it to another node. conflict: it is not here, or moves already, or that is this node.
  virtual expected<void> begin_move(const move_queue& m) = 0;
  /// A move has begun and has not ended.
  [[nodiscard]] virtual bool moving() const = 0;
};

/// Needs parts.cluster. conflict: its data are here and on another node.
[[nodiscard]] expected<std::shared_ptr<hosted_queue>> make_home_queue(host_parts parts);

}  // namespace caravan
