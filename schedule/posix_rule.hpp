#pragma once

/// The rule at the end of a zone's file, as POSIX writes it in TZ: "CET-1CEST,M3.5.0,M10.5.0/3".

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace caravan::calendar {

/// Seconds east of UTC from `at` on.
struct transition {
  std::int64_t at;
  std::int32_t offset;
};

class posix_rule {
public:
  /// Nothing for any other text.
  [[nodiscard]] static std::optional<posix_rule> parse(std::string_view text);

  [[nodiscard]] bool has_changes() const noexcept { return has_changes_; }
  [[nodiscard]] std::int32_t standard_offset() const noexcept { return standard_; }
  /// Both changes of a year, in order of time. Only where there are changes.
  [[nodiscard]] std::array<transition, 2> changes(int year) const;

private:
  enum class day_kind : std::uint8_t { julian_without_leap_day, day_of_year, weekday_of_month };
  struct change_day {
    day_kind kind = day_kind::day_of_year;
    int day = 0, month = 0, week = 0;
    std::int32_t time = 7200;  ///< seconds after midnight of that day, -167 h to 167 h
  };
  class scanner;

  [[nodiscard]] static std::int64_t local_instant(const change_day& day, int year);

  std::int32_t standard_ = 0;
  std::int32_t summer_ = 0;
  bool has_changes_ = false;
  change_day to_summer_;
  change_day to_standard_;
};

}  // namespace caravan::calendar
