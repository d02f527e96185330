#pragma once

/// Environment variables over the file: CARAVAN__SECTION__KEY=value, or CARAVAN__SECTION__KEY__FILE=path for a value
/// that stands in a file (a secret). What a variable's name cannot hold is written as hex bytes: [queue.mail] LENGTH is
/// CARAVAN__QUEUE_0x2E_MAIL__LENGTH.

#include "config/ini.hpp"

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace caravan::config {

inline constexpr std::string_view environment_prefix = "CARAVAN__";
inline constexpr std::string_view environment_suffix = "__FILE";

struct variable_name {
  std::string section;  ///< lower case
  std::string key;      ///< case kept
  bool from_file = false;

  friend bool operator==(const variable_name&, const variable_name&) = default;
};

/// What "SECTION__KEY" means; nothing without a key.
[[nodiscard]] std::optional<variable_name> decode_section_key(std::string_view encoded);

/// The same for a whole variable; nothing also without the prefix. A key that is itself named FILE is not taken for the
/// suffix: CARAVAN__LOG__FILE is [log] FILE.
[[nodiscard]] std::optional<variable_name> decode_variable(std::string_view name,
                                                           std::string_view prefix = environment_prefix,
                                                           std::string_view suffix = environment_suffix);

/// The variable that sets a key: "CARAVAN__QUEUE_0x2E_MAIL__LENGTH".
[[nodiscard]] std::string encode_variable(std::string_view section, std::string_view key,
                                          std::string_view prefix = environment_prefix);

struct environment_result {
  bool changed = false;  ///< some value differs from what was there
  problems found;        ///< names with our prefix that say nothing, files that cannot be read
};

/// Puts each NAME=value that bears the prefix over `to`. A section that differs from one of the file only in case (and
/// from one only) is that section, because the section of a variable is always lower case.
environment_result apply_environment(ini& to, std::span<const std::string> environment,
                                     std::string_view prefix = environment_prefix,
                                     std::string_view suffix = environment_suffix);

/// NAME=value of this process. Not while another thread changes the environment.
[[nodiscard]] std::vector<std::string> process_environment();

}  // namespace caravan::config
