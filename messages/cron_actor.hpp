#pragma once

/// The actor of a node's tasks as others see it.

#include "messages/cron_words.hpp"
#include "messages/queue_words.hpp"

#include <caf/typed_actor.hpp>

namespace caravan {

using cron_actor = caf::typed_actor<caf::replies_to<get_cron_list>::with<cron_list>,
                                    caf::replies_to<get_cron_history>::with<cron_history>,
                                    caf::replies_to<change_cron>::with<ack>, caf::replies_to<stop_cron>::with<ack>>;

}  // namespace caravan
