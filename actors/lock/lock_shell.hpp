#pragma once

#include "actors/lock/local_locks.hpp"
#include "messages/lock_actor.hpp"

#include <caf/typed_event_based_actor.hpp>

#include <memory>
#include <unordered_map>

namespace caravan {

struct lock_shell_state {
  static inline const char* name = "locks";
  std::shared_ptr<local_locks> door;
  std::unordered_map<std::uint64_t, lock_id> asked;  ///< by the asker's number: what is not answered yet
  lock_shell_state() = default;
};

/// The lock manager: takes wishes by message to the node's locks. It decides nothing: lock_core does, behind the door
/// that the node's own threads use as well. Close the door before it ends: that answers whoever still waits.
lock_manager_actor::behavior_type lock_behavior(lock_manager_actor::stateful_pointer<lock_shell_state> self,
                                                std::shared_ptr<local_locks> door);

}  // namespace caravan
