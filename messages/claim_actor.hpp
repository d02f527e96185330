#pragma once

/// The claim pool of a queue as its node sees it.

#include "messages/claim_words.hpp"
#include "messages/queue_words.hpp"

#include <caf/allowed_unsafe_message_type.hpp>
#include <caf/typed_actor.hpp>

namespace caravan {

/// Own timer of a claim pool.
struct claim_tick {};

/// Gives the jobs of one queue to those who claim them from outside.
using claim_pool_actor =
  caf::typed_actor<caf::reacts_to<batch>, caf::reacts_to<claim_tick>, caf::reacts_to<stop_calls>, caf::replies_to<open_claim>::with<claim_granted>,
                   caf::reacts_to<cancel_claim>, caf::reacts_to<wake_worker>,
                   caf::replies_to<extend_claim>::with<claim_extended>, caf::replies_to<ack_claim>::with<claim_acked>,
                   caf::replies_to<release_claim>::with<claim_acked>, caf::replies_to<get_claimers>::with<claimer_list>,
                   caf::replies_to<close_claims>::with<claims_closed>>;

}  // namespace caravan

// Never leave their process.
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(caravan::claim_tick)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(caravan::open_claim)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(caravan::cancel_claim)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(caravan::wake_worker)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(caravan::claim_granted)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(caravan::extend_claim)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(caravan::claim_extended)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(caravan::ack_claim)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(caravan::claim_acked)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(caravan::release_claim)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(caravan::get_claimers)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(caravan::claimer_list)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(caravan::close_claims)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(caravan::claims_closed)
