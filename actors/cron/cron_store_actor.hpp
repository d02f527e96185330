#pragma once

#include "actors/cron/cron_core.hpp"
#include "actors/store/trouble.hpp"
#include "toolbox/clock.hpp"

#include <caf/allowed_unsafe_message_type.hpp>
#include <caf/typed_event_based_actor.hpp>

#include <memory>

namespace caravan {

/// Makes a cron_store's blocking calls, one after another. Spawn it detached. Never leaves the process.
using cron_store_actor =
    caf::typed_actor<caf::replies_to<cron_open>::with<cron_view>, caf::replies_to<cron_claim>::with<cron_answer>,
                     caf::replies_to<cron_renewal>::with<cron_view>, caf::replies_to<cron_end>::with<cron_ended>,
                     caf::replies_to<cron_pause>::with<cron_view>>;

struct cron_store_state {
  static inline const char* name = "cron_store";
  std::shared_ptr<cron_store> store;
  std::shared_ptr<trouble> health;
  const toolbox::clock* clock = nullptr;
  cron_store_state() = default;
};

/// `health` says what is wrong with the store now; `clock` outlives the actor.
cron_store_actor::behavior_type cron_store_behavior(cron_store_actor::stateful_pointer<cron_store_state> self,
                                                    std::shared_ptr<cron_store> store, std::shared_ptr<trouble> health,
                                                    const toolbox::clock* clock);

}  // namespace caravan

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(caravan::cron_open)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(caravan::cron_claim)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(caravan::cron_renewal)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(caravan::cron_end)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(caravan::cron_pause)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(caravan::cron_view)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(caravan::cron_answer)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(caravan::cron_ended)
