#pragma once

/// A shared queue on a node that does not own it.

#include "actors/store/store_actor.hpp"
#include "messages/queue_actor.hpp"
#include "toolbox/clock.hpp"

#include <caf/typed_event_based_actor.hpp>
#include <caf/typed_response_promise.hpp>

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>

namespace caravan {

struct link_parts {
  std::string queue;
  std::string node;         ///< this one
  store_actor storekeeper;  ///< of a storage without an epoch: it may push and look
  std::size_t length = 0;   ///< LENGTH
  std::chrono::milliseconds push_timeout{0};
  /// The owner that it had a way to cannot be reached any more. May be empty; must not block.
  std::function<void()> on_lost;
};

/// Who owns the queue, as far as this node knows. The handle may be null: it cannot be reached.
struct set_owner {
  std::string node;
  queue_actor handle;
};

/// Own timer: there was no room.
struct push_again {
  push_items items;
  caf::typed_response_promise<push_results> promise;
  std::chrono::steady_clock::time_point deadline;
  std::chrono::milliseconds pause{0};
};

using queue_link_actor = queue_actor::extend<caf::reacts_to<set_owner>, caf::reacts_to<push_again>>;

struct queue_link_state {
  static inline const char* name = "queue_link";
  link_parts parts;
  std::string owner;
  queue_actor handle;
  queue_link_state() = default;
};

/// Pushes go to the shared storage, whoever owns the queue. Everything else goes to the owner; when it cannot be
/// reached the answer is `fenced` and names it. Status and single jobs are then answered from the storage.
queue_link_actor::behavior_type queue_link_behavior(queue_link_actor::stateful_pointer<queue_link_state> self,
                                                    link_parts parts);

}  // namespace caravan

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(caravan::set_owner)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(caravan::push_again)
