#pragma once

/// A schedule taken apart: what parse.cpp makes and search.cpp looks through.

#include "schedule/zone.hpp"

#include <caravan/schedule.hpp>

#include <array>
#include <bitset>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace caravan::calendar {

constexpr int first_listed_year = 1970;
constexpr int last_listed_year = 2199;
using year_set = std::bitset<last_listed_year - first_listed_year + 1>;

/// The values of one field, one bit each; bit 0 is the value 0.
using bits = std::uint64_t;

constexpr bits bit(int value) noexcept { return bits{1} << value; }
constexpr bits bits_between(int least, int most) noexcept { return (~bits{0} >> (63 - most)) & (~bits{0} << least); }

/// Day of month and weekday. If one of them is open (*), both must match; else one is enough.
struct day_rule {
  bits days = 0;  ///< 1 to 31
  bool days_open = false;
  bits before_last = 0;       ///< L, L-n: bit n is n days before the last one
  bits nearest = 0;           ///< nW: the weekday nearest to the n-th, within its month
  bool last_workday = false;  ///< LW
  bits weekdays = 0;          ///< 0 (Sunday) to 6
  bool weekdays_open = false;
  bits last_weekdays = 0;     ///< 5L: the last Friday
  std::array<bits, 7> nth{};  ///< 5#2: bit 2 at 5

  /// The days of a month that match, bits 1 to 31.
  [[nodiscard]] bits of_month(int year, int month) const;
  /// Only plain values: what a week and a month do not decide together.
  [[nodiscard]] bool plain() const;
  friend bool operator==(const day_rule&, const day_rule&) = default;
};

struct fields {
  bits seconds = 0;
  bits minutes = 0;
  bits hours = 0;
  bits months = 0;
  day_rule days;
  std::optional<year_set> years;  ///< none: every year

  [[nodiscard]] bool has_year(int year) const;
  /// Where both write the same days in other ways they become equal.
  [[nodiscard]] fields normal_form() const;
  friend bool operator==(const fields&, const fields&) = default;
};

/// Wall-clock seconds since 1970 that match, as if there were no zones. Nothing when there is none in the range.
[[nodiscard]] std::optional<std::int64_t> first_match(const fields& f, std::int64_t from, std::int64_t before);
[[nodiscard]] std::optional<std::int64_t> last_match(const fields& f, std::int64_t from, std::int64_t before);
[[nodiscard]] bool match(const fields& f, std::int64_t wall);

struct parsed_fields {
  fields content;
  bool with_seconds = false;
};
/// The words of an expression without its zone. An error's text begins with the field.
[[nodiscard]] expected<parsed_fields> parse_fields(const std::vector<std::string_view>& words,
                                                   const schedule_options& options);

/// A user's text in a message: no control characters, not endless.
[[nodiscard]] std::string shown(std::string_view text);

}  // namespace caravan::calendar

struct caravan::schedule::plan {
  std::string text;
  calendar::zone_ptr zone;
  std::optional<std::chrono::seconds> interval;  ///< then there are no fields
  bool shorter_than_a_second = false;            ///< as it was written; then the interval is one second
  calendar::fields fields;
  bool with_seconds = false;
};
