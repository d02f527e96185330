#include <caravan/schedule.hpp>

#include "schedule/civil.hpp"
#include "schedule/plan.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

namespace caravan {

namespace {

using calendar::bit;

__extension__ using wide = __int128;

constexpr std::size_t longest_text = 4096;
constexpr int reach_in_years = 8;            // 29 February is 8 years off across 1900, 2100, 2200
constexpr int extended_reach_in_years = 40;  // a fifth Friday in February, across a century

struct macro {
  std::string_view name;
  std::array<std::string_view, 5> fields;
};

constexpr std::array<macro, 7> macros{{{"@yearly", {"0", "0", "1", "1", "*"}},
                                       {"@annually", {"0", "0", "1", "1", "*"}},
                                       {"@monthly", {"0", "0", "1", "*", "*"}},
                                       {"@weekly", {"0", "0", "*", "*", "0"}},
                                       {"@daily", {"0", "0", "*", "*", "*"}},
                                       {"@midnight", {"0", "0", "*", "*", "*"}},
                                       {"@hourly", {"0", "*", "*", "*", "*"}}}};

/// The length of the white space that `text` begins with, Unicode's too: expressions are pasted from pages. 0: none.
std::size_t blank(std::string_view text) {
  if (text.empty()) return 0;
  if (std::string_view(" \t\n\v\f\r").find(text.front()) != std::string_view::npos) return 1;
  for (const std::string_view known : {"\xc2\x85", "\xc2\xa0", "\xe1\x9a\x80", "\xe2\x80\xa8", "\xe2\x80\xa9",
                                       "\xe2\x80\xaf", "\xe2\x81\x9f", "\xe3\x80\x80"})
    if (text.starts_with(known)) return known.size();
  if (text.size() >= 3 && text.starts_with("\xe2\x80") && static_cast<unsigned char>(text[2]) <= 0x8a) return 3;
  return 0;
}

std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> words;
  auto in_word = false;
  for (std::size_t at = 0; at < text.size();) {
    if (const auto length = blank(text.substr(at))) {
      in_word = false;
      at += length;
      continue;
    }
    if (in_word)
      words.back() = std::string_view(words.back().data(), words.back().size() + 1);
    else
      words.push_back(text.substr(at, 1));
    in_word = true;
    ++at;
  }
  return words;
}

error refuse(std::string_view text, std::string why) {
  return {errc::invalid_argument, "schedule " + calendar::shown(text) + ": " + std::move(why)};
}

/// Go's durations, without their fraction below a nanosecond. Nothing for any other text, and beyond 292 years.
std::optional<std::int64_t> parse_duration(std::string_view text) {
  struct unit {
    std::string_view name;
    std::int64_t length;
  };
  constexpr std::array<unit, 8> units{{{"ns", 1},
                                       {"us", 1'000},
                                       {"\xc2\xb5s", 1'000},
                                       {"\xce\xbcs", 1'000},
                                       {"ms", 1'000'000},
                                       {"s", 1'000'000'000},
                                       {"m", 60'000'000'000},
                                       {"h", 3'600'000'000'000}}};
  const auto negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  if (text == "0") return 0;
  if (text.empty()) return std::nullopt;
  wide total = 0;
  while (!text.empty()) {
    wide whole = 0, part = 0, scale = 1;
    auto seen = false;
    const auto digit = [&] { return !text.empty() && text.front() >= '0' && text.front() <= '9'; };
    for (; digit(); text.remove_prefix(1), seen = true)
      if ((whole = whole * 10 + (text.front() - '0')) > INT64_MAX) return std::nullopt;
    if (text.starts_with('.')) {
      text.remove_prefix(1);
      for (; digit(); text.remove_prefix(1), seen = true)
        if (scale < 1'000'000'000'000'000) {
          part = part * 10 + (text.front() - '0');
          scale *= 10;
        }
    }
    if (!seen) return std::nullopt;
    const unit* best = nullptr;  // "m" begins "ms" too
    for (const auto& u : units)
      if (text.starts_with(u.name) && (!best || u.name.size() > best->name.size())) best = &u;
    if (!best) return std::nullopt;
    text.remove_prefix(best->name.size());
    total += whole * best->length + part * best->length / scale;
    if (total > INT64_MAX) return std::nullopt;
  }
  return static_cast<std::int64_t>(negative ? -total : total);
}

std::string join(const std::vector<std::string_view>& words) {
  std::string out;
  for (const auto word : words) out.append(out.empty() ? "" : " ").append(word);
  return out;
}

constexpr std::int64_t year_start(int year) {
  return calendar::days_from_civil(year, 1, 1) * calendar::seconds_per_day;
}

int year_of(std::int64_t wall) { return calendar::civil_from_days(calendar::day_of(wall)).year; }

/// The years to look through from `year` on, forward or back.
int reach(const calendar::fields& f) { return f.days.plain() ? reach_in_years : extended_reach_in_years; }

}  // namespace

std::string_view to_string(clock_effect effect) noexcept {
  switch (effect) {
    case clock_effect::none:
      return "none";
    case clock_effect::skipped:
      return "skipped";
    case clock_effect::first_pass:
      return "first_pass";
    case clock_effect::second_pass:
      return "second_pass";
  }
  return "unknown";
}

expected<schedule> schedule::parse(std::string_view text, const schedule_options& options) {
  if (text.size() > longest_text)
    return refuse(text,
                  "it has " + std::to_string(text.size()) + " bytes; the limit is " + std::to_string(longest_text));
  const auto whole = text;
  auto zone_name = options.zone;
  auto own_zone = false;
  while (const auto length = blank(text)) text.remove_prefix(length);
  for (const std::string_view prefix : {"CRON_TZ=", "TZ="}) {
    if (!text.starts_with(prefix)) continue;
    const auto end = text.find(' ');
    if (end == std::string_view::npos)
      return refuse(whole, "nothing stands after the zone; write the fields, a blank before them");
    zone_name = std::string(text.substr(prefix.size(), end - prefix.size()));
    own_zone = true;
    text.remove_prefix(end);
    break;
  }
  auto words = split(text);
  if (words.empty())
    return refuse(whole, own_zone ? "nothing stands after the zone; write the fields, a blank before them"
                                  : "it is empty; write five fields, for example 30 2 * * *");
  auto zone = zone_name.empty() && !own_zone ? calendar::zone::machine() : calendar::zone::find(zone_name);
  if (!zone) return error{zone.failure().code, "schedule " + calendar::shown(whole) + ": " + zone.failure().text};

  auto out = std::make_shared<plan>();
  out->zone = *zone;
  out->text = join(split(whole));
  if (words[0].starts_with('@')) {
    if (words[0] == "@every") {
      const auto length = words.size() == 2 ? parse_duration(words[1]) : std::nullopt;
      if (!length) return refuse(whole, "@every needs a duration; write for example @every 90s, 10m or 1h30m");
      // Less than a second counts as one, as in the dialect's origin.
      out->interval = std::chrono::seconds(std::max<std::int64_t>(*length / 1'000'000'000, 1));
      out->shorter_than_a_second = *length < 1'000'000'000;
      return schedule(std::move(out));
    }
    const auto* known = std::find_if(macros.begin(), macros.end(), [&](const macro& m) { return m.name == words[0]; });
    if (known == macros.end() || words.size() != 1)
      return refuse(whole, "there is no such macro; write @yearly, @monthly, @weekly, @daily, @hourly or @every 10m");
    words.assign(known->fields.begin(), known->fields.end());
  }
  auto parsed = calendar::parse_fields(words, options);
  if (!parsed) return refuse(whole, parsed.failure().text);
  out->fields = std::move(parsed->content);
  out->with_seconds = parsed->with_seconds;
  return schedule(std::move(out));
}

expected<schedule> schedule::every(std::chrono::nanoseconds interval) {
  if (interval < std::chrono::seconds(1))
    return error{errc::invalid_argument, "schedule: an interval of less than a second; give at least 1s"};
  auto out = std::make_shared<plan>();
  out->interval = std::chrono::floor<std::chrono::seconds>(interval);
  out->zone = *calendar::zone::find("UTC");
  out->text = "@every " + std::to_string(out->interval->count()) + "s";
  return schedule(std::move(out));
}

std::optional<schedule::time> schedule::next(time after) const {
  const auto instant = after.time_since_epoch().count();
  if (instant >= calendar::latest) return std::nullopt;
  if (plan_->interval) {
    if (instant < calendar::earliest || plan_->interval->count() > calendar::latest - instant) return std::nullopt;
    return after + *plan_->interval;
  }
  const auto& f = plan_->fields;
  auto t = std::max(instant + 1, calendar::earliest);
  const auto first_year = year_of(t + plan_->zone->at(t).offset);
  const auto last = f.years ? calendar::last_listed_year : std::min(first_year + reach(f), calendar::last_year);
  const auto limit = year_start(last + 1);
  while (t <= calendar::latest) {
    const auto here = plan_->zone->at(t);
    const auto from = t + here.offset;
    if (from >= limit) return std::nullopt;
    if (const auto found = calendar::first_match(f, from, std::min(here.end + here.offset, limit))) {
      const auto at = *found - here.offset;
      return at <= calendar::latest ? std::optional(time(std::chrono::seconds(at))) : std::nullopt;
    }
    t = here.end;
  }
  return std::nullopt;
}

std::optional<schedule::time> schedule::previous(time before) const {
  const auto instant = before.time_since_epoch().count();
  if (instant <= calendar::earliest) return std::nullopt;
  if (plan_->interval) {
    if (instant > calendar::latest || plan_->interval->count() > instant - calendar::earliest) return std::nullopt;
    return before - *plan_->interval;
  }
  const auto& f = plan_->fields;
  auto t = std::min(instant - 1, calendar::latest);
  const auto first_year = year_of(t + plan_->zone->at(t).offset);
  const auto last = f.years ? calendar::first_listed_year : std::max(first_year - reach(f), calendar::first_year);
  const auto limit = year_start(last);
  while (t >= calendar::earliest) {
    const auto here = plan_->zone->at(t);
    const auto until = t + here.offset;
    if (until < limit) return std::nullopt;
    if (const auto found = calendar::last_match(f, std::max(here.begin + here.offset, limit), until + 1)) {
      const auto at = *found - here.offset;
      return at >= calendar::earliest ? std::optional(time(std::chrono::seconds(at))) : std::nullopt;
    }
    t = here.begin - 1;
  }
  return std::nullopt;
}

std::vector<schedule::time> schedule::next_n(time after, std::size_t count) const {
  std::vector<time> out;
  for (auto at = next(after); at && out.size() < count; at = next(*at)) out.push_back(*at);
  return out;
}

bool schedule::matches(time at) const {
  const auto instant = at.time_since_epoch().count();
  if (plan_->interval || instant < calendar::earliest || instant > calendar::latest) return false;
  return calendar::match(plan_->fields, instant + plan_->zone->at(instant).offset);
}

expected<void> schedule::fires_after(time now) const {
  if (next(now)) return {};
  const auto& f = plan_->fields;
  const auto refuse_this = [&](std::string why) { return refuse(plan_->text, "it never fires: " + std::move(why)); };
  if (f.years) {
    const auto year = year_of(std::clamp(now.time_since_epoch().count(), calendar::earliest, calendar::latest));
    auto later = false;
    for (auto y = std::max(year, calendar::first_listed_year); y <= calendar::last_listed_year; ++y)
      later = later || f.has_year(y);
    if (!later) return refuse_this("its last year is over; write a later one, or *");
  }
  constexpr std::array<std::string_view, 12> names = {"January",   "February", "March",    "April",
                                                      "May",       "June",     "July",     "August",
                                                      "September", "October",  "November", "December"};
  std::string months;
  auto longest = 0;
  for (auto m = 1; m <= 12; ++m) {
    if (!(f.months & bit(m))) continue;
    months.append(months.empty() ? "" : ", ").append(names[static_cast<std::size_t>(m - 1)]);
    longest = std::max(longest, calendar::days_in_month(2000, m));
  }
  if (f.days.plain() && f.days.days && !(f.days.days & calendar::bits_between(1, longest)))
    return refuse_this("there is no such day in " + months + ", which ends with day " + std::to_string(longest) +
                       " at the latest; write a day that exists, or other months");
  return refuse_this("no date and time match all of its fields from now on; \"caravan cron preview\" shows what does");
}

std::string schedule::warning() const {
  const auto& f = plan_->fields;
  if (plan_->interval && plan_->shorter_than_a_second)
    return "schedule " + calendar::shown(plan_->text) + ": less than a second counts as one second; write @every 1s if that is meant";
  if (plan_->interval || !plan_->with_seconds || f.seconds != calendar::bits_between(0, 59)) return {};
  return "schedule " + calendar::shown(plan_->text) +
         ": with six fields the first is the second, and * there makes sixty runs a minute; for one a minute write 0 "
         "in "
         "front instead, or leave it out";
}

clock_effect schedule::effect_at(time occurrence) const {
  const auto instant = occurrence.time_since_epoch().count();
  if (plan_->interval || instant < calendar::earliest || instant > calendar::latest) return clock_effect::none;
  const auto here = plan_->zone->at(instant);
  const auto wall = instant + here.offset;
  if (here.begin > calendar::earliest && wall < here.begin + plan_->zone->at(here.begin - 1).offset)
    return clock_effect::second_pass;
  if (here.end <= calendar::latest && wall >= here.end + plan_->zone->at(here.end).offset)
    return clock_effect::first_pass;
  return clock_effect::none;
}

std::vector<clock_note> schedule::clock_notes(time from, time to, std::size_t limit) const {
  std::vector<clock_note> out;
  if (plan_->interval) return out;
  const auto begin = std::max(from.time_since_epoch().count(), calendar::earliest);
  const auto end = std::min(to.time_since_epoch().count(), calendar::latest);
  const auto note = [&](clock_effect effect, std::int64_t wall, std::int64_t at) {
    if (at < begin || at >= end || out.size() >= limit) return;
    out.push_back({effect, std::chrono::local_seconds(std::chrono::seconds(wall)), time(std::chrono::seconds(at))});
  };
  const auto each_match = [&](std::int64_t wall, std::int64_t before, auto&& use) {
    for (auto at = calendar::first_match(plan_->fields, wall, before); at && out.size() < limit;
         at = calendar::first_match(plan_->fields, *at + 1, before))
      use(*at);
  };
  if (begin >= end) return out;
  // A day earlier: a time that comes twice may have begun before `from`.
  auto here = plan_->zone->at(std::max(begin - calendar::seconds_per_day, calendar::earliest));
  while (out.size() < limit && here.end - calendar::seconds_per_day < end) {
    const auto change = here.end;
    const auto next = plan_->zone->at(change);
    const auto old_wall = change + here.offset, new_wall = change + next.offset;
    if (new_wall > old_wall) {
      each_match(old_wall, new_wall, [&](std::int64_t wall) { note(clock_effect::skipped, wall, change); });
    } else {
      each_match(std::max(new_wall, begin + here.offset), old_wall,
                 [&](std::int64_t wall) { note(clock_effect::first_pass, wall, wall - here.offset); });
      each_match(std::max(new_wall, begin + next.offset), old_wall,
                 [&](std::int64_t wall) { note(clock_effect::second_pass, wall, wall - next.offset); });
    }
    here = next;
  }
  return out;
}

std::string schedule::format(time at) const {
  const auto instant = at.time_since_epoch().count();
  const auto inside = instant >= calendar::earliest + calendar::seconds_per_day * 2 &&
                      instant <= calendar::latest - calendar::seconds_per_day * 2;
  auto offset = inside ? plan_->zone->at(instant).offset : 0;
  if (offset % 60 != 0) offset = 0;
  const auto wall = std::clamp(instant, calendar::earliest, calendar::latest) + offset;
  const auto date = calendar::civil_from_days(calendar::day_of(wall));
  const auto second = static_cast<int>(wall - calendar::day_of(wall) * calendar::seconds_per_day);
  char text[64];
  std::snprintf(text, sizeof text, "%04d-%02d-%02dT%02d:%02d:%02d", date.year, date.month, date.day, second / 3600,
                second / 60 % 60, second % 60);
  std::string out = text;
  if (offset == 0)
    return out + (plan_->zone->name() == "UTC" || !inside || plan_->zone->at(instant).offset != 0 ? "Z" : "+00:00");
  const auto minutes = (offset < 0 ? -offset : offset) / 60;
  std::snprintf(text, sizeof text, "%c%02d:%02d", offset < 0 ? '-' : '+', minutes / 60, minutes % 60);
  return out + text;
}

const std::string& schedule::zone() const noexcept { return plan_->zone->name(); }
const std::string& schedule::text() const noexcept { return plan_->text; }
std::optional<std::chrono::seconds> schedule::interval() const noexcept { return plan_->interval; }

bool operator==(const schedule& a, const schedule& b) {
  if (a.plan_->interval || b.plan_->interval) return a.plan_->interval == b.plan_->interval;
  return a.plan_->zone->name() == b.plan_->zone->name() &&
         a.plan_->fields.normal_form() == b.plan_->fields.normal_form();
}

}  // namespace caravan
