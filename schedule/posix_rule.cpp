#include "schedule/posix_rule.hpp"

#include "schedule/civil.hpp"

#include <utility>

namespace caravan::calendar {

class posix_rule::scanner {
public:
  explicit scanner(std::string_view text) : rest_(text) {}

  [[nodiscard]] bool done() const { return rest_.empty(); }
  [[nodiscard]] bool take(char c) {
    if (rest_.empty() || rest_.front() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }

  /// Three letters or more, or anything of letters, digits and signs in <>.
  [[nodiscard]] bool name() {
    const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
    std::size_t length = 0;
    if (take('<')) {
      while (length < rest_.size() &&
             (letter(rest_[length]) || digit(rest_[length]) || rest_[length] == '+' || rest_[length] == '-'))
        ++length;
      rest_.remove_prefix(length);
      return length > 0 && take('>');
    }
    while (length < rest_.size() && letter(rest_[length])) ++length;
    rest_.remove_prefix(length);
    return length >= 3;
  }

  [[nodiscard]] std::optional<int> number(int least, int most) {
    int value = 0;
    std::size_t length = 0;
    for (; length < rest_.size() && length < 4 && digit(rest_[length]); ++length)
      value = value * 10 + (rest_[length] - '0');
    if (length == 0 || value < least || value > most) return std::nullopt;
    rest_.remove_prefix(length);
    return value;
  }

  /// [+-]h[h][:mm[:ss]] in seconds.
  [[nodiscard]] std::optional<std::int32_t> clock(int most_hours) {
    const auto sign = take('-') ? -1 : (static_cast<void>(take('+')), 1);
    const auto hours = number(0, most_hours);
    if (!hours) return std::nullopt;
    auto seconds = *hours * 3600;
    for (const auto unit : {60, 1}) {
      if (!take(':')) break;
      const auto part = number(0, 59);
      if (!part) return std::nullopt;
      seconds += *part * unit;
    }
    return sign * seconds;
  }

  [[nodiscard]] std::optional<change_day> day() {
    change_day out;
    std::optional<int> n;
    if (take('M')) {
      out.kind = day_kind::weekday_of_month;
      const auto month = number(1, 12);
      if (!month || !take('.')) return std::nullopt;
      const auto week = number(1, 5);
      if (!week || !take('.')) return std::nullopt;
      out.month = *month;
      out.week = *week;
      n = number(0, 6);
    } else if (take('J')) {
      out.kind = day_kind::julian_without_leap_day;
      n = number(1, 365);
    } else {
      n = number(0, 365);
    }
    if (!n) return std::nullopt;
    out.day = *n;
    if (take('/')) {
      const auto time = clock(167);
      if (!time) return std::nullopt;
      out.time = *time;
    }
    return out;
  }

private:
  static bool digit(char c) { return c >= '0' && c <= '9'; }
  std::string_view rest_;
};

std::optional<posix_rule> posix_rule::parse(std::string_view text) {
  scanner in(text);
  posix_rule out;
  if (!in.name()) return std::nullopt;
  const auto standard = in.clock(24);
  if (!standard) return std::nullopt;
  out.standard_ = -*standard;  // POSIX counts west of Greenwich
  if (in.done()) return out;
  if (!in.name()) return std::nullopt;
  out.summer_ = out.standard_ + 3600;
  if (!in.done() && !in.take(',')) {
    const auto summer = in.clock(24);
    if (!summer) return std::nullopt;
    out.summer_ = -*summer;
    if (!in.done() && !in.take(',')) return std::nullopt;
  }
  if (in.done()) return std::nullopt;  // summer time without its dates: every system has its own idea of them
  const auto begin = in.day();
  if (!begin || !in.take(',')) return std::nullopt;
  const auto end = in.day();
  if (!end || !in.done()) return std::nullopt;
  out.to_summer_ = *begin;
  out.to_standard_ = *end;
  out.has_changes_ = true;
  return out;
}

std::int64_t posix_rule::local_instant(const change_day& day, int year) {
  std::int64_t date = 0;
  if (day.kind == day_kind::weekday_of_month) {
    const auto first = days_from_civil(year, day.month, 1);
    const auto length = days_in_month(year, day.month);
    auto of_month = (day.day - weekday(first) + 7) % 7 + (day.week - 1) * 7;
    while (of_month >= length) of_month -= 7;  // week 5 is the last one
    date = first + of_month;
  } else {
    const auto first = days_from_civil(year, 1, 1);
    date = first + day.day;
    if (day.kind == day_kind::julian_without_leap_day) date += (is_leap(year) && day.day >= 60 ? 0 : -1);
  }
  return date * seconds_per_day + day.time;
}

std::array<transition, 2> posix_rule::changes(int year) const {
  const transition summer{local_instant(to_summer_, year) - standard_, summer_};
  const transition standard{local_instant(to_standard_, year) - summer_, standard_};
  if (summer.at < standard.at) return {summer, standard};
  return {standard, summer};
}

}  // namespace caravan::calendar
