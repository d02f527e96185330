#pragma once

/// Dates of the Gregorian calendar as days since 1970-01-01, over all years that a schedule knows.

#include <chrono>
#include <cstdint>

namespace caravan::calendar {

constexpr std::int64_t seconds_per_day = 86'400;
constexpr int first_year = 1;
constexpr int last_year = 9999;

constexpr bool is_leap(int year) noexcept { return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0); }

/// `month` 1 to 12.
constexpr int days_in_month(int year, int month) noexcept {
  constexpr int lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  return month == 2 && is_leap(year) ? 29 : lengths[month - 1];
}

constexpr std::int64_t days_from_civil(int year, int month, int day) noexcept {
  using namespace std::chrono;
  return sys_days{std::chrono::year{year} / month / day}.time_since_epoch().count();
}

struct civil_date {
  int year, month, day;
};

constexpr civil_date civil_from_days(std::int64_t days) noexcept {
  const std::chrono::year_month_day date{std::chrono::sys_days{std::chrono::days{days}}};
  return {static_cast<int>(date.year()), static_cast<int>(static_cast<unsigned>(date.month())),
          static_cast<int>(static_cast<unsigned>(date.day()))};
}

/// 0 = Sunday.
constexpr int weekday(std::int64_t days) noexcept { return static_cast<int>(((days + 4) % 7 + 7) % 7); }

constexpr std::int64_t day_of(std::int64_t seconds) noexcept {
  return seconds >= 0 ? seconds / seconds_per_day : -((-seconds + seconds_per_day - 1) / seconds_per_day);
}

constexpr std::int64_t earliest = days_from_civil(first_year, 1, 1) * seconds_per_day;
constexpr std::int64_t latest = days_from_civil(last_year, 12, 31) * seconds_per_day + seconds_per_day - 1;

}  // namespace caravan::calendar
