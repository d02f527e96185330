#pragma once

#include <caravan/error.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace caravan::process {

/// Splits a command into words as a shell would, but runs none: blanks separate, '...' is taken as it stands, in "..."
/// a backslash escapes " \ $ and `, elsewhere it escapes any character. Nothing is expanded.
/// errc::invalid_argument: no word, a quote without its end, a backslash at the end, a NUL byte, or an unquoted
/// character that only a shell could obey (| & ; < > $ `); the text then says how to get a shell.
[[nodiscard]] expected<std::vector<std::string>> split_command(std::string_view command);

}  // namespace caravan::process
