#pragma once

#include <caf/actor_system_config.hpp>

namespace caravan {

/// Makes every type that crosses the wire, and our errors, known to a CAF configuration. CAF checks this only when a
/// message arrives, so a new message goes here at once.
void register_messages(caf::actor_system_config& config);

}  // namespace caravan
