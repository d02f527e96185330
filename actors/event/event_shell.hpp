#pragma once

#include "actors/event/event_core.hpp"
#include "actors/event/event_door.hpp"
#include "messages/event_actor.hpp"

#include <caf/allowed_unsafe_message_type.hpp>
#include <caf/typed_event_based_actor.hpp>

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

namespace caravan {

/// The door's line is not empty any more.
struct events_waiting {};
/// Own timer: subscribers that must be asked whether they are ready.
struct event_look {};
/// Tells another node's bus what this node wants.
struct wish_at_node {
  caf::strong_actor_ptr bus;
  std::function<void(bool answered)> then;  ///< on the bus's thread; must not block
};

/// As the node has it, with what never leaves the process.
using local_event_bus =
    event_bus_actor::extend<caf::reacts_to<events_waiting>, caf::reacts_to<event_look>, caf::reacts_to<wish_at_node>>;

struct event_bus_parts {
  std::string node;
  std::string run;  ///< different for each start
  std::shared_ptr<event_door> door;
  std::function<void(const std::string&)> log{};  ///< warnings; may be empty
};

struct event_bus_state {
  static inline const char* name = "events";

  struct far_node {
    caf::actor_addr bus;
    event_subscriber_id id = 0;
  };
  event_bus_parts parts;
  std::unique_ptr<event_core> core;
  std::vector<event_order> orders;
  std::map<event_subscriber_id, std::shared_ptr<event_receiver>> receivers;
  std::set<event_subscriber_id> asked;  ///< to be asked whether they are ready
  bool looking = false;
  std::map<caf::actor_addr, event_subscriber_id> actors;
  std::map<std::string, far_node> nodes;

  event_bus_state() = default;
};

/// The bus of a node's events: feeds event_core with what came in by the door, and hands on what that decides. Spawn it
/// detached: it runs the application's gate.
local_event_bus::behavior_type event_bus_behavior(local_event_bus::stateful_pointer<event_bus_state> self,
                                                  event_bus_parts parts);

}  // namespace caravan

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(caravan::events_waiting)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(caravan::event_look)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(caravan::wish_at_node)
