#pragma once

/// Asking actors from an I/O thread, which must not wait: the answer comes to a function, on a thread of the actor
/// system. No CAF template leaves ask.cpp, so that the handlers compile fast.

#include "messages/event_actor.hpp"
#include "messages/queue_actor.hpp"

#include <caravan/error.hpp>

#include <chrono>
#include <functional>

namespace caf {
class actor_system;
}

namespace caravan::http {

/// Called once; may be dropped uncalled only when the actor system ends.
template <class T>
using on_answer = std::function<void(expected<T>)>;

/// What an answer may take beyond what the request itself may wait for.
constexpr std::chrono::milliseconds ask_patience{10'000};

// timed_out: no answer within `patience`. queue_closed: the actor is gone, also when it goes while it is asked.
void ask(caf::actor_system& system, const queue_actor& whom, push_items what, std::chrono::milliseconds patience,
         on_answer<push_results> then);
void ask(caf::actor_system& system, const queue_actor& whom, pause_queue what, std::chrono::milliseconds patience,
         on_answer<ack> then);
void ask(caf::actor_system& system, const queue_actor& whom, resume_queue what, std::chrono::milliseconds patience,
         on_answer<ack> then);
void ask(caf::actor_system& system, const queue_actor& whom, drain_queue what, std::chrono::milliseconds patience,
         on_answer<ack> then);
void ask(caf::actor_system& system, const queue_actor& whom, flush_queue what, std::chrono::milliseconds patience,
         on_answer<ack> then);
void ask(caf::actor_system& system, const queue_actor& whom, purge_queue what, std::chrono::milliseconds patience,
         on_answer<purged_count> then);
void ask(caf::actor_system& system, const queue_actor& whom, get_queue_status what, std::chrono::milliseconds patience,
         on_answer<queue_status> then);
void ask(caf::actor_system& system, const queue_actor& whom, find_job what, std::chrono::milliseconds patience,
         on_answer<job_status> then);
void ask(caf::actor_system& system, const queue_actor& whom, list_jobs what, std::chrono::milliseconds patience,
         on_answer<job_list> then);
void ask(caf::actor_system& system, const queue_actor& whom, change_job what, std::chrono::milliseconds patience,
         on_answer<ack> then);
void ask(caf::actor_system& system, const queue_actor& whom, change_jobs what, std::chrono::milliseconds patience,
         on_answer<jobs_changed> then);
void ask(caf::actor_system& system, const queue_actor& whom, move_queue what, std::chrono::milliseconds patience,
         on_answer<ack> then);
void ask(caf::actor_system& system, const worker_pool_actor& whom, get_pool_status what,
         std::chrono::milliseconds patience, on_answer<pool_status> then);
void ask(caf::actor_system& system, const worker_pool_actor& whom, set_max_workers what,
         std::chrono::milliseconds patience, on_answer<ack> then);
void ask(caf::actor_system& system, const event_bus_actor& whom, get_recent_events what,
         std::chrono::milliseconds patience, on_answer<event_list> then);
void ask(caf::actor_system& system, const event_bus_actor& whom, get_event_status what,
         std::chrono::milliseconds patience, on_answer<event_status> then);

}  // namespace caravan::http
