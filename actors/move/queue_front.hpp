#pragma once

/// What stands for a queue on each node of a cluster without Redis, wherever the queue's home is.

#include "messages/queue_actor.hpp"

#include <caf/typed_event_based_actor.hpp>
#include <caf/typed_response_promise.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>

namespace caravan {

struct front_parts {
  std::string queue;
  std::string node;                           ///< this one
  std::string incarnation;                    ///< of this start; makes idempotency keys unique
  std::chrono::milliseconds push_timeout{0};  ///< how long a push waits for a way to the home
  /// The home cannot be reached any more by the handle of set_target `serial`. May be empty; must not block.
  std::function<void(std::uint64_t serial)> on_lost;
};

/// Where the queue is, as far as this node knows.
struct set_target {
  std::string node;
  queue_actor handle;        ///< null: there is no way to it
  bool here = false;         ///< the queue's own actor on this node
  std::uint64_t serial = 0;  ///< for on_lost
};
/// What comes from now on waits. Answered when all that came before is on its way.
struct hold_messages {};
/// What waited goes on to the target.
struct release_messages {};
struct front_tick {};

using queue_front_actor = queue_actor::extend<caf::reacts_to<set_target>, caf::replies_to<hold_messages>::with<ack>,
                                              caf::replies_to<release_messages>::with<ack>, caf::reacts_to<front_tick>>;

struct queue_front_state {
  static inline const char* name = "queue_front";
  struct parked {
    std::chrono::steady_clock::time_point deadline;
    std::function<void()> go;
    std::function<void(error)> fail;  ///< empty: nobody waits for an answer
  };
  front_parts parts;
  set_target to;
  bool held = false;
  std::deque<parked> waiting;
  std::uint64_t most_waited = 0;  ///< since it was held
  std::uint64_t next_key = 1;
  bool ticking = false;
  queue_front_state() = default;
};

/// Forwards everything to the queue's home. While the queue moves, or its home is looked for, messages wait: at most
/// 10,000, and requests until their time is up. A push to another node bears an idempotency key, so it may be repeated
/// when its outcome is unknown.
queue_front_actor::behavior_type queue_front_behavior(queue_front_actor::stateful_pointer<queue_front_state> self,
                                                      front_parts parts);

}  // namespace caravan

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(caravan::set_target)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(caravan::hold_messages)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(caravan::release_messages)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(caravan::front_tick)
