#pragma once

#include "actors/claim/claim_core.hpp"
#include "actors/wake_ups.hpp"
#include "messages/claim_actor.hpp"
#include "messages/queue_actor.hpp"
#include "toolbox/clock.hpp"

#include <caf/typed_event_based_actor.hpp>
#include <caf/typed_response_promise.hpp>

#include <functional>
#include <map>
#include <memory>
#include <string>

namespace caravan {

struct claim_parts {
  pool_id id = 0;
  claim_core::limits limits;
  std::function<std::uint64_t()> random;
  /// The queue's actor as this node reaches it now, and whether it lives here; null: not at all. Must not block.
  std::function<std::pair<queue_actor, pool_kind>()> find_queue;
  const toolbox::clock* clock = nullptr;  ///< for times that people read; outlives the actor
};

struct claim_shell_state {
  static inline const char* name = "claims";

  claim_parts parts;
  std::unique_ptr<claim_core> core;
  claim_effects fx;
  wake_ups ticks;
  queue_actor queue;  ///< null: none is attached
  std::uint64_t next_request = 1;
  std::map<std::uint64_t, caf::typed_response_promise<claim_granted>> grants;
  std::map<std::uint64_t, caf::typed_response_promise<claim_acked>> acks;
  std::map<std::uint64_t, caf::typed_response_promise<claim_extended>> extensions;
  std::vector<caf::typed_response_promise<claims_closed>> closings;

  claim_shell_state() = default;
};

/// The actor of a claim pool: attaches to its queue when the first claim comes, feeds claim_core and carries out what
/// it decides. Close it before it ends: that answers whoever waits.
claim_pool_actor::behavior_type claim_pool_behavior(claim_pool_actor::stateful_pointer<claim_shell_state> self,
                                                    claim_parts parts);

}  // namespace caravan
