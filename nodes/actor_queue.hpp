#pragma once

/// A queue whose actors live on this node.

#include "nodes/queue_host.hpp"

#include <functional>

namespace caravan {

/// By what right this node hands out items of a shared storage. Empty for a storage of its own.
struct queue_right {
  std::uint64_t first_token = 0;       ///< 0: by the clock
  std::function<bool()> may_hand_out;  ///< called before every event, from any thread
  std::function<void()> on_fenced;     ///< another node owns it now; called from any thread, must not block
  std::function<expected<void>(const move_queue&)> on_move;  ///< begins to hand it over; likewise
  std::shared_ptr<const frozen_queue> came_with;  ///< it moved here
};

class actor_queue : public hosted_queue {
public:
  /// As push() does with drafts. Those that were stored are moved out of `records`; after a failure they are as they
  /// were.
  virtual expected<std::vector<append_result>> store(std::span<record> records) = 0;
  /// Others may have pushed into the storage, or items may be handed out again. Cheap, from any thread.
  virtual void look_again() = 0;
  /// As stop(), for a node that may not write any more: what runs may end, the rest is left to others.
  virtual void abandon() = 0;
  /// It has moved away: refuses pushes at once, lets go of the storage, and leaves its rows alone.
  virtual void dismiss() = 0;
  /// The queue's own actor. Null after the end.
  [[nodiscard]] virtual home_actor own_actor() const = 0;
};

/// Spawns the actors.
[[nodiscard]] std::shared_ptr<actor_queue> make_actor_queue(host_parts parts, std::shared_ptr<storage> store,
                                                            queue_right right = {});

/// The workers of one node, for a queue that lives here (local) or is reached through an actor of this node (remote).
/// Needs parts.handler.
[[nodiscard]] worker_pool_actor spawn_pool(const host_parts& parts, pool_kind kind, const queue_actor& queue);

/// "waiting", "delayed" or "dead".
[[nodiscard]] expected<record_state> parse_state(std::string_view text);
/// What a push of drafts answers.
[[nodiscard]] expected<item_id> to_one_answer(const std::string& queue,
                                              const expected<std::vector<append_result>>& stored);
[[nodiscard]] expected<std::vector<pushed>> to_answers(const expected<std::vector<append_result>>& stored);
[[nodiscard]] std::vector<record> to_records(std::vector<item_draft>&& drafts, wall_time now);

}  // namespace caravan
