#pragma once

/// The lock manager of a node as others see it.

#include "messages/lock_words.hpp"
#include "messages/queue_words.hpp"

#include <caf/allowed_unsafe_message_type.hpp>
#include <caf/typed_actor.hpp>

#include <functional>

namespace caravan {

/// Something that the door's threads finished: run it in the actor.
struct lock_call_done {
  std::function<void()> run;
};

using lock_manager_actor =
    caf::typed_actor<caf::replies_to<acquire_lock>::with<lock_granted>, caf::reacts_to<cancel_lock>,
                     caf::replies_to<release_lock>::with<ack>, caf::replies_to<extend_lock>::with<lock_granted>,
                     caf::replies_to<get_locks>::with<lock_list>, caf::reacts_to<lock_call_done>>;

}  // namespace caravan

// Never leaves its process.
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(caravan::lock_call_done)
