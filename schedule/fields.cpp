#include "schedule/civil.hpp"
#include "schedule/plan.hpp"

#include <algorithm>
#include <bit>

namespace caravan::calendar {

namespace {

constexpr bits all_days = bits_between(1, 31);
constexpr bits all_weekdays = bits_between(0, 6);

/// The weekday's days in a month that begins with weekday `first`.
bits days_of(int weekday, int first, int length) {
  bits out = 0;
  for (auto day = 1 + (weekday - first + 7) % 7; day <= length; day += 7) out |= bit(day);
  return out;
}

/// The Monday to Friday nearest to `day` in the same month.
int nearest_workday(int day, int first, int length) {
  const auto weekday = (first + day - 1) % 7;
  if (weekday == 6) return day > 1 ? day - 1 : day + 2;
  if (weekday == 0) return day < length ? day + 1 : day - 2;
  return day;
}

int longest(bits months) {
  auto out = 0;
  for (auto month = 1; month <= 12; ++month)
    if (months & bit(month)) out = std::max(out, days_in_month(2000, month));
  return out;
}

struct time_of_day {
  const fields& f;

  /// The first one at or after `second` of the day, or -1.
  [[nodiscard]] int first_from(int second) const {
    auto hour = second / 3600, minute = second / 60 % 60;
    const auto within = [](bits set, int from) { return from > 63 ? 0 : set & (~bits{0} << from); };
    const auto first = [](bits set) { return std::countr_zero(set); };
    if (f.hours & bit(hour)) {
      if (f.minutes & bit(minute))
        if (const auto s = within(f.seconds, second % 60)) return hour * 3600 + minute * 60 + first(s);
      if (const auto m = within(f.minutes, minute + 1)) return hour * 3600 + first(m) * 60 + first(f.seconds);
    }
    const auto h = within(f.hours, hour + 1);
    return h ? first(h) * 3600 + first(f.minutes) * 60 + first(f.seconds) : -1;
  }

  /// The last one at or before `second` of the day, or -1.
  [[nodiscard]] int last_until(int second) const {
    auto hour = second / 3600, minute = second / 60 % 60;
    const auto within = [](bits set, int until) { return until < 0 ? 0 : set & (~bits{0} >> (63 - until)); };
    const auto last = [](bits set) { return 63 - std::countl_zero(set); };
    if (f.hours & bit(hour)) {
      if (f.minutes & bit(minute))
        if (const auto s = within(f.seconds, second % 60)) return hour * 3600 + minute * 60 + last(s);
      if (const auto m = within(f.minutes, minute - 1)) return hour * 3600 + last(m) * 60 + last(f.seconds);
    }
    const auto h = within(f.hours, hour - 1);
    return h ? last(h) * 3600 + last(f.minutes) * 60 + last(f.seconds) : -1;
  }
};

}  // namespace

bits day_rule::of_month(int year, int month) const {
  const auto length = days_in_month(year, month);
  const auto valid = bits_between(1, length);
  const auto first = weekday(days_from_civil(year, month, 1));

  auto by_day = days & valid;
  for (auto n = 0; n < length; ++n) {
    if (before_last & bit(n)) by_day |= bit(length - n);
    if (nearest & bit(n + 1)) by_day |= bit(nearest_workday(n + 1, first, length));
  }
  if (last_workday) by_day |= bit(nearest_workday(length, first, length));

  bits by_weekday = 0;
  for (auto d = 0; d < 7; ++d) {
    const auto mine = days_of(d, first, length);
    if (weekdays & bit(d)) by_weekday |= mine;
    if (last_weekdays & bit(d)) by_weekday |= bit(63 - std::countl_zero(mine));
    if (nth[static_cast<std::size_t>(d)])
      for (auto n = 1; n <= 5; ++n)
        if (nth[static_cast<std::size_t>(d)] & bit(n)) by_weekday |= mine & bits_between(n * 7 - 6, n * 7);
  }
  return days_open || weekdays_open ? by_day & by_weekday : by_day | by_weekday;
}

bool day_rule::plain() const {
  return before_last == 0 && nearest == 0 && !last_workday && last_weekdays == 0 &&
         std::all_of(nth.begin(), nth.end(), [](bits set) { return set == 0; });
}

bool fields::has_year(int year) const {
  if (!years) return true;
  return year >= first_listed_year && year <= last_listed_year &&
         years->test(static_cast<std::size_t>(year - first_listed_year));
}

fields fields::normal_form() const {
  auto out = *this;
  if (out.years && out.years->all()) out.years.reset();
  auto& d = out.days;
  if (!d.plain()) return out;
  // Days that no month of this schedule has do not count.
  const auto reach = bits_between(1, std::max(longest(months), 1));
  d.days &= reach;
  const auto all = d.days == reach;
  const auto week = d.weekdays == all_weekdays;
  const auto both = d.days_open || d.weekdays_open;
  d.days_open = d.weekdays_open = both;
  if (both ? all && week : all || week) {
    d = {.days = all_days, .days_open = true, .weekdays = all_weekdays, .weekdays_open = true};
  } else if (!both && d.weekdays == 0) {
    d.weekdays = all_weekdays;
    d.days_open = d.weekdays_open = true;
  } else if ((!both && d.days == 0) || (both && all)) {
    d.days = all_days;
    d.days_open = d.weekdays_open = true;
  }
  return out;
}

bool match(const fields& f, std::int64_t wall) {
  const auto day = day_of(wall);
  const auto second = static_cast<int>(wall - day * seconds_per_day);
  const auto date = civil_from_days(day);
  return f.has_year(date.year) && (f.months & bit(date.month)) && (f.hours & bit(second / 3600)) &&
         (f.minutes & bit(second / 60 % 60)) && (f.seconds & bit(second % 60)) &&
         (f.days.of_month(date.year, date.month) & bit(date.day));
}

std::optional<std::int64_t> first_match(const fields& f, std::int64_t from, std::int64_t before) {
  if (from >= before || !f.seconds || !f.minutes || !f.hours) return std::nullopt;
  const time_of_day clock{f};
  const auto first_day = day_of(from);
  const auto last_day = day_of(before - 1);
  auto [year, month, day] = civil_from_days(first_day);
  while (true) {
    const auto month_start = days_from_civil(year, month, 1);
    if (month_start > last_day) return std::nullopt;
    if (f.has_year(year) && (f.months & bit(month))) {
      auto left = f.days.of_month(year, month) & (~bits{0} << day);
      for (; left; left &= left - 1) {
        const auto date = month_start + std::countr_zero(left) - 1;
        const auto begin = date == first_day ? static_cast<int>(from - first_day * seconds_per_day) : 0;
        if (const auto second = clock.first_from(begin); second >= 0) {
          const auto found = date * seconds_per_day + second;
          return found < before ? std::optional(found) : std::nullopt;
        }
      }
    }
    day = 1;
    if (++month > 12 || !f.has_year(year)) {
      month = 1;
      ++year;
    }
  }
}

std::optional<std::int64_t> last_match(const fields& f, std::int64_t from, std::int64_t before) {
  if (from >= before || !f.seconds || !f.minutes || !f.hours) return std::nullopt;
  const time_of_day clock{f};
  const auto first_day = day_of(from);
  const auto last_day = day_of(before - 1);
  auto [year, month, day] = civil_from_days(last_day);
  while (true) {
    const auto month_start = days_from_civil(year, month, 1);
    if (month_start + days_in_month(year, month) <= first_day) return std::nullopt;
    if (f.has_year(year) && (f.months & bit(month))) {
      auto left = f.days.of_month(year, month) & bits_between(1, day);
      for (; left; left &= ~bit(63 - std::countl_zero(left))) {
        const auto date = month_start + 63 - std::countl_zero(left) - 1;
        const auto end =
            static_cast<int>(date == last_day ? before - 1 - last_day * seconds_per_day : seconds_per_day - 1);
        if (const auto second = clock.last_until(end); second >= 0) {
          const auto found = date * seconds_per_day + second;
          return found >= from ? std::optional(found) : std::nullopt;
        }
      }
    }
    day = 31;
    if (--month < 1 || !f.has_year(year)) {
      month = 12;
      --year;
    }
  }
}

}  // namespace caravan::calendar
