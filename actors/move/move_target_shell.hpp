#pragma once

#include "actors/move/move_target_core.hpp"
#include "actors/wake_ups.hpp"
#include "messages/node_actor.hpp"

#include <caf/typed_event_based_actor.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace caravan {

/// What the target does for its core. All block, and are called on the actor's thread.
struct move_target_parts {
  std::string queue;
  std::string node;
  std::uint64_t known_epoch = 0;
  move_note note;  ///< of before the restart
  move_target_core::limits limits;
  std::function<expected<void>(const move_step&)> wipe;  ///< makes room for what comes
  std::function<void()> discard;                         ///< throws it away again
  std::function<expected<void>(const move_step&)> apply;
  std::function<expected<void>(const move_message&, const move_note&)> keep;
  std::function<void()> forget_note;
  std::function<expected<void>(std::uint64_t move, std::uint64_t epoch)> activate;
  /// Where to ask about a move; null: there is no way to it now.
  std::function<node_actor(const std::string& from)> find_source;
  /// It has begun anew and keeps nothing over that: only what was taken here is left.
  std::function<bool(const std::string& from)> source_is_gone;
  std::function<caf::strong_actor_ptr()> front;   ///< what stands for the queue on this node
  std::function<void(std::string_view)> at_step;  ///< for tests that end the process there. May be empty
};

/// Another node owns the queue under this epoch.
struct know_epoch {
  std::uint64_t epoch = 0;
};
struct move_target_tick {};
using move_taker_actor = move_target_actor::extend<caf::reacts_to<know_epoch>, caf::reacts_to<move_target_tick>>;

struct move_target_state {
  static inline const char* name = "move_target";
  move_target_parts parts;
  std::unique_ptr<move_target_core> core;
  move_target_effects fx;
  wake_ups ticks;
  std::vector<attach_pool> pools;
  move_target_state() = default;
};

/// Takes moves of one queue to this node. Spawn it detached.
move_taker_actor::behavior_type move_target_behavior(move_taker_actor::stateful_pointer<move_target_state> self,
                                                     move_target_parts parts);

}  // namespace caravan

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(caravan::know_epoch)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(caravan::move_target_tick)
