#pragma once

/// Asking the lock manager from an I/O thread; see ask.hpp.

#include "messages/lock_actor.hpp"
#include "nodes/http/ask.hpp"

#include <functional>

namespace caravan::http {

void ask(caf::actor_system& system, const lock_manager_actor& whom, release_lock what,
         std::chrono::milliseconds patience, on_answer<ack> then);
void ask(caf::actor_system& system, const lock_manager_actor& whom, extend_lock what,
         std::chrono::milliseconds patience, on_answer<lock_granted> then);
void ask(caf::actor_system& system, const lock_manager_actor& whom, get_locks what, std::chrono::milliseconds patience,
         on_answer<lock_list> then);

/// Waits as long as `what` says, or until `left` is true, which is asked every `look`: then the wish is taken back and
/// `then` is called with conflict. What is granted too late for `then` is released. Costs no thread.
void ask_while(caf::actor_system& system, const lock_manager_actor& whom, acquire_lock what, std::function<bool()> left,
               on_answer<lock_granted> then);

}  // namespace caravan::http
