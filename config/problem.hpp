#pragma once

/// What is wrong with a configuration, said so that one can act on it.

#include <caravan/error.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace caravan::config {

/// Where a value comes from. All empty: nobody set it, it is the built-in default.
struct origin {
  std::string file;      ///< of the INI text
  std::size_t line = 0;  ///< counted from 1; of the line that holds the key
  std::string variable;  ///< the environment variable that overrode the file

  friend bool operator==(const origin&, const origin&) = default;
};

/// "app.ini:12", "environment variable CARAVAN__HTTP__ADDR" or "default".
[[nodiscard]] std::string to_string(const origin& where);

enum class severity : std::uint8_t {
  warning,  ///< a node starts, but something may not be as its operator thinks
  error,    ///< a node must not start
};

struct problem {
  severity level = severity::error;
  origin where;
  std::string what;    ///< the thing: "[queue.mail] LENGTH"
  std::string cause;   ///< what is wrong with it
  std::string remedy;  ///< what to write instead

  friend bool operator==(const problem&, const problem&) = default;
};

using problems = std::vector<problem>;

/// "app.ini:12: error: [queue.mail] LENGTH: "abc" is no whole number; write for example LENGTH = 100000".
[[nodiscard]] std::string to_string(const problem& x);
/// One line for each.
[[nodiscard]] std::string to_string(const problems& list);

[[nodiscard]] bool has_errors(const problems& list) noexcept;
/// All errors (no warnings) in one error, a line for each.
[[nodiscard]] error to_error(const problems& list);

/// Adds `x` unless the very same is there: an inherited value is read once for each queue, but is one mistake.
void report(problems& list, problem x);

}  // namespace caravan::config
