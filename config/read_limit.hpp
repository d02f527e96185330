#pragma once

/// [limit] and its named sections, e.g. [limit.sms]. Only a named one is a limit; [limit] is what they inherit.

#include "config/ini.hpp"
#include "config/limit_settings.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace caravan::config {

/// The limits that a [limit.NAME] names, in the order of the file.
[[nodiscard]] std::vector<std::string> limit_names(const ini& from);

/// What [limit.NAME] over [limit] says; the mistakes are added to `found`.
limit_settings read_limit_settings(const ini& from, std::string_view name, problems& found);

}  // namespace caravan::config
