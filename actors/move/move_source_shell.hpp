#pragma once

#include "actors/move/move_source_core.hpp"
#include "actors/move/queue_front.hpp"
#include "actors/wake_ups.hpp"
#include "integration/tracked_storage.hpp"
#include "messages/node_actor.hpp"
#include "messages/queue_actor.hpp"

#include <caf/typed_event_based_actor.hpp>

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace caravan {

/// How a move ended.
struct move_result {
  bool moved = false;
  std::string why;          ///< of one that did not
  std::uint64_t items = 0;  ///< rows that were copied
  std::chrono::milliseconds took{0};
  std::chrono::milliseconds frozen{0};  ///< how long messages waited
  std::uint64_t buffered = 0;           ///< messages that waited
};

struct move_source_parts {
  move_source_core::subject subject;
  move_source_core::limits limits;
  std::shared_ptr<tracked_storage> store;
  home_actor queue;
  queue_front_actor front;
  node_actor target;
  /// The target's handle again, when it has become unreachable. Null: there is none.
  std::function<node_actor()> find_target;
  std::function<move_source_core::decision()> decide;     ///< blocks on the disk
  std::function<move_source_core::decision()> read_back;  ///< likewise
  std::function<void(queue_actor)> hand_over;             ///< the target owns it, and stands for it by this actor
  std::function<void(const move_result&)> finished;       ///< once
  std::function<void(std::string_view)> at_step;          ///< for tests that end the process there. May be empty
};

struct move_tick {};
using move_source_actor = caf::typed_actor<caf::reacts_to<move_tick>>;

struct move_source_state {
  static inline const char* name = "move_source";
  move_source_parts parts;
  std::unique_ptr<move_source_core> core;
  move_source_effects fx;
  bool performing = false;
  wake_ups ticks;
  std::vector<attach_pool> pools;
  queue_actor new_home;
  std::chrono::steady_clock::time_point begun{};
  std::chrono::steady_clock::time_point frozen{};
  std::chrono::steady_clock::time_point released{};
  std::uint64_t buffered = 0;
  // How far the storage was read.
  record_state state = record_state::waiting;
  read_cursor after;  ///< within `state`
  read_cursor tail;   ///< of what waits
  item_id keys_after;
  bool rows_read = false;
  move_source_state() = default;
};

/// Moves one queue away; ends by itself. Spawn it detached: it reads the storage and writes the decision.
move_source_actor::behavior_type move_source_behavior(move_source_actor::stateful_pointer<move_source_state> self,
                                                      move_source_parts parts);

}  // namespace caravan

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(caravan::move_tick)
