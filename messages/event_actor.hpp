#pragma once

/// The bus of a node's events as other actors and other nodes see it.

#include "messages/event_words.hpp"
#include "messages/queue_words.hpp"

#include <caf/typed_actor.hpp>

namespace caravan {

/// Whoever subscribes to events must be able to take them.
using event_subscriber_actor = caf::typed_actor<caf::replies_to<event_batch>::with<ack>>;

/// An event_batch that it gets comes from another node.
using event_bus_actor = event_subscriber_actor::extend<
    caf::replies_to<subscribe_events>::with<ack>, caf::replies_to<event_wishes>::with<ack>,
    caf::replies_to<get_recent_events>::with<event_list>, caf::replies_to<get_event_status>::with<event_status>>;

}  // namespace caravan
