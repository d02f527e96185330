#pragma once

#include "config/ini.hpp"
#include "config/problem.hpp"

namespace caravan::config {

/// Everything that is wrong or doubtful, in the order of the file where it has one: unknown and misspelt sections and
/// keys, options that were removed, sections that this version does not support, and all that read_settings finds. A
/// node starts with warnings and not with errors.
[[nodiscard]] problems check(const ini& from);
/// Together with what was found while the text was read.
[[nodiscard]] problems check(const parsed_ini& from);

}  // namespace caravan::config
