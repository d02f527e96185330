#pragma once

#include "actors/queue/intake.hpp"
#include "actors/queue/queue_core.hpp"
#include "actors/queue/queue_events.hpp"
#include "actors/store/store_actor.hpp"
#include "actors/wake_ups.hpp"
#include "messages/queue_actor.hpp"
#include "toolbox/clock.hpp"

#include <caf/typed_event_based_actor.hpp>

#include <map>
#include <memory>
#include <optional>
#include <unordered_map>

namespace caravan {

/// What a queue's actor is made of. Whoever spawns it keeps `door` for the pushing threads.
struct queue_parts {
  config::queue_settings settings;
  std::string node;                 ///< the name of this one
  std::shared_ptr<storage> store;
  std::shared_ptr<intake> door;
  std::shared_ptr<trouble> health;
  store_actor storekeeper;          ///< makes the storage's calls
  const toolbox::clock* clock = nullptr;  ///< for wall-clock time; outlives the actor
  std::uint64_t first_token = 1;
  std::uint64_t seed = 0;
  /// For the log: (what, text). May be empty.
  std::function<void(std::string_view, const std::string&)> log;
  std::shared_ptr<event_sink> events;  ///< may be null
  /// A shared storage: batches leave only while this holds. May be empty: always. Called before every event.
  std::function<bool()> may_hand_out;
  /// A shared storage: another node owns the queue now. May be empty.
  std::function<void()> on_fenced;
  /// A shared storage: begins to hand the queue over. Must not block. May be empty: it cannot move.
  std::function<expected<void>(const move_queue&)> on_move;
  /// It came from another node: what that one knew, and its pools.
  std::shared_ptr<const frozen_queue> came_with;
};

struct queue_shell_state {
  static inline const char* name = "queue";

  queue_parts parts;
  std::unique_ptr<queue_core> core;
  queue_effects fx;
  queue_events events;
  std::unordered_map<pool_id, caf::strong_actor_ptr> pools;
  store_changes changes;              ///< decided, not yet sent to the storekeeper
  std::unordered_map<item_id, std::size_t> move_of;  ///< where in changes.move a record is
  std::size_t changes_under_way = 0;
  std::size_t moves_under_way = 0;    ///< of them, those with moves
  std::vector<record> taken;
  std::unordered_map<std::uint64_t, caf::typed_response_promise<ack>> flushes;
  std::uint64_t next_flush = 1;
  std::vector<caf::typed_response_promise<queue_status>> stops;
  bool in_trouble = false;            ///< what the log was told last
  bool stopped = false;
  std::chrono::steady_clock::time_point stopped_at{};
  struct parked_push {
    push_items items;
    caf::typed_response_promise<push_results> promise;
    std::chrono::steady_clock::time_point deadline;
  };
  std::vector<parked_push> parked;    ///< waiting for room under LENGTH
  std::size_t pushes_under_way = 0;   ///< at the storekeeper
  std::uint64_t room_changes = 0;     ///< how often there was new room, or the door was closed
  wake_ups ticks;
  std::string paused_by;
  bool held_back = false;
  bool frozen = false;  ///< it moves: nothing may change
  std::vector<caf::typed_response_promise<frozen_queue>> freezes;  ///< answered when all changes are written
  std::chrono::steady_clock::time_point freeze_deadline{};

  queue_shell_state() = default;
};

/// The actor of one queue: feeds queue_core and carries out what it decides.
home_actor::behavior_type queue_behavior(home_actor::stateful_pointer<queue_shell_state> self, queue_parts parts);

}  // namespace caravan
