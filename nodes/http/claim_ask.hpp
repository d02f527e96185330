#pragma once

/// Asking claim pools from an I/O thread; see ask.hpp.

#include "messages/claim_actor.hpp"
#include "nodes/http/ask.hpp"

#include <functional>

namespace caravan::http {

void ask(caf::actor_system& system, const claim_pool_actor& whom, extend_claim what, std::chrono::milliseconds patience,
         on_answer<claim_extended> then);
void ask(caf::actor_system& system, const claim_pool_actor& whom, ack_claim what, std::chrono::milliseconds patience,
         on_answer<claim_acked> then);
void ask(caf::actor_system& system, const claim_pool_actor& whom, release_claim what,
         std::chrono::milliseconds patience, on_answer<claim_acked> then);
void ask(caf::actor_system& system, const claim_pool_actor& whom, get_claimers what, std::chrono::milliseconds patience,
         on_answer<claimer_list> then);

/// Waits as long as `what` says, or until `left` is true, which is asked every 250 ms: then the claim is taken back and
/// `then` is called with conflict. Jobs that were given too late for `then` are handed back. Costs no thread.
void ask_while(caf::actor_system& system, const claim_pool_actor& whom, open_claim what, std::function<bool()> left,
               on_answer<claim_granted> then);

}  // namespace caravan::http
