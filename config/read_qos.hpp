#pragma once

/// [qos]: overload control at the HTTP door.

#include "config/ini.hpp"
#include "config/qos_settings.hpp"

namespace caravan::config {

/// The mistakes are added to `found`.
qos_settings read_qos_settings(const ini& from, problems& found);

}  // namespace caravan::config
