#pragma once

/// Time zones from the system's tzdata: TZif files of version 2 and later, with the rule at their end.

#include "schedule/posix_rule.hpp"

#include <caravan/error.hpp>

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace caravan::calendar {

/// From `begin` to before `end` (seconds since 1970, UTC) the wall clock is `offset` seconds ahead of UTC.
struct segment {
  std::int64_t begin;
  std::int64_t end;
  std::int32_t offset;
};

constexpr std::int64_t long_ago = std::numeric_limits<std::int64_t>::min() / 4;
constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max() / 4;

class zone;
using zone_ptr = std::shared_ptr<const zone>;

/// Immutable.
class zone {
public:
  /// By its name in tzdata; "" and "UTC" are UTC and "Local" is the machine's, as in Go. Thread-safe; a file is read
  /// once for each process. invalid_argument: no such zone, or a name that no zone can have; not_supported: no tzdata
  /// is installed, or a file that is damaged or too old.
  [[nodiscard]] static expected<zone_ptr> find(const std::string& name);
  /// $TZ, else /etc/localtime, else UTC. Read anew at each call.
  [[nodiscard]] static expected<zone_ptr> machine();
  /// From a file's bytes. Errors are those of find.
  [[nodiscard]] static expected<zone_ptr> parse(std::string_view bytes, const std::string& name);
  /// From the text of a POSIX rule.
  [[nodiscard]] static std::optional<zone_ptr> from_rule(std::string_view rule, const std::string& name);

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  /// The segment that holds the instant.
  [[nodiscard]] segment at(std::int64_t instant) const;

private:
  friend class tzif_reader;

  [[nodiscard]] segment by_rule(std::int64_t instant) const;

  std::string name_;
  std::int32_t first_offset_ = 0;        ///< before the first transition
  std::vector<transition> transitions_;  ///< ascending
  std::optional<posix_rule> rule_;       ///< after the last of them
};

}  // namespace caravan::calendar
