#pragma once

/// Every section and key that Caravan knows: the one source for reading, check, show, explain and
/// docs/configuration.md. A new key is one line in registry.cpp, and one line in read_settings.cpp that takes its
/// value.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace caravan::config {

enum class value_type : std::uint8_t {
  text,
  path,
  boolean,
  integer,
  bytes,
  duration,
  choice,
  address,     ///< HOST:PORT
  connection,  ///< may hold a password: shown masked
  secret,      ///< never shown
};

/// What a number below its lower bound means.
enum class too_small : std::uint8_t { refused, means_default, means_no_limit };

struct key_spec {
  std::string_view section;  ///< "queue" stands for [queue] and every [queue.NAME]
  std::string_view key;
  value_type type;
  std::string_view fallback;  ///< as one would write it; "<...>": found out when it is read (see default_value)
  std::string_view bounds;    ///< "1..1000" for numbers, "a | b" for choices, else a remark or empty
  std::string_view text;      ///< one line
  too_small below = too_small::refused;
};

struct section_spec {
  std::string_view name;   ///< "queue"; its children stand as "queue.*"
  std::string_view child;  ///< what the * is: "NAME"; empty: it has no children
  bool supported;          ///< false: known, but this version does nothing with it
  bool open;               ///< true: it may hold keys that are not registered (of tasks, of later versions)
  std::string_view text;
};

[[nodiscard]] std::span<const section_spec> all_sections() noexcept;
[[nodiscard]] std::span<const key_spec> all_keys() noexcept;

/// The section that [name] is or descends from; null when there is none.
[[nodiscard]] const section_spec* find_section_spec(std::string_view name) noexcept;
/// The key in [section] or one of its ancestors' families; null when there is none.
[[nodiscard]] const key_spec* find_key_spec(std::string_view section, std::string_view key) noexcept;

/// The default as text, with "<...>" found out: the host's name, the number of workers or requests for this machine.
[[nodiscard]] std::string default_value(const key_spec& spec);

/// "[queue] and [queue.NAME]".
[[nodiscard]] std::string places(const section_spec& spec);

/// The choices of a "a | b | c".
[[nodiscard]] std::vector<std::string_view> choices(const key_spec& spec);

/// Both ends of "1..1000", in the unit of the type (numbers, bytes, nanoseconds); nothing when there are none.
struct value_range {
  std::int64_t least;
  std::int64_t most;
};
[[nodiscard]] std::optional<value_range> range(const key_spec& spec);

/// Keys that are gone, and what to use instead. A start with one of them stops.
struct removed_key {
  std::string_view section;
  std::string_view key;
  std::string_view now;  ///< the section that took over
};
[[nodiscard]] std::span<const removed_key> removed_keys() noexcept;

}  // namespace caravan::config
