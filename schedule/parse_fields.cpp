#include "schedule/plan.hpp"

#include <algorithm>
#include <array>

namespace caravan::calendar {

namespace {

enum class part : std::uint8_t { second, minute, hour, day, month, weekday, year };

struct bounds {
  std::string_view name;
  int least;
  int most;
};

constexpr std::array<bounds, 7> limits{{{"second", 0, 59},
                                        {"minute", 0, 59},
                                        {"hour", 0, 23},
                                        {"day of month", 1, 31},
                                        {"month", 1, 12},
                                        {"weekday", 0, 6},
                                        {"year", first_listed_year, last_listed_year}}};

constexpr std::array<std::string_view, 12> month_names = {"jan", "feb", "mar", "apr", "may", "jun",
                                                          "jul", "aug", "sep", "oct", "nov", "dec"};
constexpr std::array<std::string_view, 7> weekday_names = {"sun", "mon", "tue", "wed", "thu", "fri", "sat"};

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool same_word(std::string_view a, std::string_view b) {
  return a.size() == b.size() &&
         std::equal(a.begin(), a.end(), b.begin(), [](char x, char y) { return lower(x) == y; });
}

/// Digits alone; large ones stay large.
std::optional<int> digits(std::string_view text) {
  if (text.empty()) return std::nullopt;
  auto value = 0;
  for (const auto c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    value = std::min(value * 10 + (c - '0'), 100'000'000);
  }
  return value;
}

/// The same on every machine and in every version: it decides when tasks run.
std::uint64_t spread(std::string_view name, part field) {
  std::uint64_t x = 14695981039346656037u;
  for (const auto c : name) x = (x ^ static_cast<unsigned char>(c)) * 1099511628211u;
  x ^= static_cast<std::uint64_t>(field) + 1;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

struct refused {
  error why;
};

/// One field. Mistakes leave it as `refused`, so that each rule stands on a line.
class field_parser {
public:
  field_parser(part field, std::string_view text, const schedule_options& options)
      : field_(field), text_(text), options_(options), limit_(limits[static_cast<std::size_t>(field)]) {}

  void parse_into(fields& out) {
    if (std::all_of(text_.begin(), text_.end(), [](char c) { return c == ','; }))
      refuse("it has no value", "write * for any");
    for (auto rest = text_; !rest.empty();) {
      const auto comma = std::min(rest.find(','), rest.size());
      // Nothing between two commas adds nothing, as in the parsers that people know.
      if (comma > 0) item(rest.substr(0, comma), out);
      rest.remove_prefix(std::min(comma + 1, rest.size()));
    }
    store(out);
  }

private:
  [[noreturn]] void refuse(const std::string& why, const std::string& remedy = {}) const {
    auto text = std::string(limit_.name) + " field " + shown(text_) + ": " + why;
    if (!remedy.empty()) text += "; " + remedy;
    throw refused{{errc::invalid_argument, std::move(text)}};
  }

  [[nodiscard]] bool extended() const { return options_.dialect == cron_dialect::extended; }
  [[nodiscard]] int size() const { return limit_.most - limit_.least + 1; }
  [[nodiscard]] std::string range() const {
    return "write " + std::to_string(limit_.least) + " to " + std::to_string(limit_.most);
  }

  [[nodiscard]] int value(std::string_view text) const {
    if (field_ == part::month)
      for (std::size_t i = 0; i < month_names.size(); ++i)
        if (same_word(text, month_names[i])) return static_cast<int>(i) + 1;
    if (field_ == part::weekday)
      for (std::size_t i = 0; i < weekday_names.size(); ++i)
        if (same_word(text, weekday_names[i])) return static_cast<int>(i);
    const auto number = digits(text);
    if (!number) refuse(shown(text) + " is no number" + names(), hint(text));
    if (field_ == part::weekday && *number == 7) {
      if (extended()) return 7;
      refuse("Sunday is 0", "write 0 or sun");
    }
    if (*number < limit_.least || *number > limit_.most) refuse(shown(text) + " is out of range", range());
    return *number;
  }

  [[nodiscard]] std::string names() const {
    if (field_ == part::month) return " and no name of a month (jan to dec)";
    if (field_ == part::weekday) return " and no name of a weekday (sun to sat)";
    return {};
  }
  [[nodiscard]] std::string hint(std::string_view text) const {
    if (!extended() && text.find_first_of("LlWw#Hh") != std::string_view::npos)
      return range() + "; L, W, # and H are of the extended dialect";
    return range();
  }

  void add(int v) {
    if (field_ == part::year)
      years_.set(static_cast<std::size_t>(v - first_listed_year));
    else
      set_ |= bit(field_ == part::weekday ? v % 7 : v);
  }

  /// a-b/n, also over the end in the extended dialect.
  void add_range(int from, int to, int step) {
    if (from <= to) {
      for (auto v = from; v <= to; v += step) add(v);
      return;
    }
    if (from == 7) return add_range(0, to, step);
    if (!extended()) refuse("the range begins after its end", "write two ranges, such as 22-23,0-2");
    if (field_ == part::year) refuse("the range begins after its end", range());
    const auto count = to - from + size();
    for (auto i = 0; i <= count; i += step) add(limit_.least + (from - limit_.least + i) % size());
  }

  [[nodiscard]] int parse_step(std::string_view text) const {
    const auto step = digits(text);
    if (!step) refuse(shown(text) + " is no step", "write a number from 1");
    if (*step == 0) refuse("a step of 0 never gets on", "write a number from 1");
    return std::min(*step, 100'000);
  }

  void item(std::string_view text, fields& out) {
    const auto slash = text.find('/');
    const auto base = text.substr(0, slash);
    const auto has_step = slash != std::string_view::npos;
    if (has_step && text.find('/', slash + 1) != std::string_view::npos)
      refuse("there are two steps in " + shown(text), "write one /");
    if (extended() && special(base, has_step, text, out)) return;
    const auto step = has_step ? parse_step(text.substr(slash + 1)) : 1;
    if (base == "*" || base == "?") {
      if (step == 1) open_ = true;
      return add_range(limit_.least, limit_.most, step);
    }
    const auto dash = base.find('-');
    if (dash == std::string_view::npos) {
      const auto from = value(base);
      if (!has_step) return add(from);
      return add_range(from % (field_ == part::weekday ? 7 : 1'000'000), limit_.most, step);
    }
    const auto end = base.substr(dash + 1);
    if (end.find('-') != std::string_view::npos) refuse("there are two hyphens in " + shown(base), "write one range");
    const auto from = value(base.substr(0, dash));
    add_range(from, value(end), step);
  }

  /// What only the extended dialect knows. False: it is none of that.
  bool special(std::string_view base, bool has_step, std::string_view whole, fields& out) {
    if (!base.empty() && lower(base.front()) == 'h' && (base.size() == 1 || base[1] == '(')) {
      hashed(base, has_step ? parse_step(whole.substr(base.size() + 1)) : 0);
      return true;
    }
    const auto found = field_ == part::day       ? special_day(base, out.days)
                       : field_ == part::weekday ? special_weekday(base, out.days)
                                                 : false;
    if (found && has_step) refuse("no step can stand behind " + shown(base), "write the days one by one");
    return found;
  }

  bool special_day(std::string_view base, day_rule& out) {
    if (base.empty()) return false;
    if (same_word(base, "lw") || same_word(base, "wl")) {
      out.last_workday = true;
      return true;
    }
    if (lower(base.front()) == 'l') {
      auto before = 0;
      if (base.size() > 1) {
        const auto number = base[1] == '-' ? digits(base.substr(2)) : std::nullopt;
        if (!number || *number > 30) refuse(shown(base) + " is no day before the last", "write L-1 to L-30");
        before = *number;
      }
      out.before_last |= bit(before);
      return true;
    }
    if (lower(base.back()) == 'w') {
      const auto number = digits(base.substr(0, base.size() - 1));
      if (!number || *number < 1 || *number > 31)
        refuse(shown(base) + " is no weekday near a day", "write 1W to 31W, or LW");
      out.nearest |= bit(*number);
      return true;
    }
    return false;
  }

  bool special_weekday(std::string_view base, day_rule& out) {
    if (base.size() > 1 && lower(base.back()) == 'l') {
      out.last_weekdays |= bit(value(base.substr(0, base.size() - 1)) % 7);
      return true;
    }
    const auto hash = base.find('#');
    if (hash == std::string_view::npos) return false;
    const auto nth = digits(base.substr(hash + 1));
    if (!nth || *nth < 1 || *nth > 5)
      refuse(shown(base) + " is no weekday of a month", "write for example fri#1 to fri#5");
    out.nth[static_cast<std::size_t>(value(base.substr(0, hash)) % 7)] |= bit(*nth);
    return true;
  }

  /// H, H/n, H(a-b), H(a-b)/n.
  void hashed(std::string_view base, int step) {
    if (field_ == part::year) refuse("H cannot spread over years", range());
    if (options_.name.empty()) refuse("H spreads by the name of the task, and there is none", "write the value");
    auto least = limit_.least;
    auto most = field_ == part::day ? 28 : limit_.most;  // in every month
    if (base.size() > 1) {
      const auto inner = base.back() == ')' ? base.substr(2, base.size() - 3) : std::string_view();
      const auto dash = inner.find('-');
      if (dash == std::string_view::npos) refuse(shown(base) + " has no range", "write for example H(0-29)");
      least = value(inner.substr(0, dash));
      most = value(inner.substr(dash + 1));
      if (field_ == part::weekday) most = std::min(most, 6);
      if (least > most) refuse("the range of " + shown(base) + " begins after its end", "write for example H(0-29)");
    }
    const auto width = most - least + 1;
    if (step > width) refuse("the step is longer than the range of " + shown(base), "write a smaller one");
    const auto among = static_cast<std::uint64_t>(step > 0 ? step : width);
    const auto first = least + static_cast<int>(spread(options_.name, field_) % among);
    if (step == 0) return add(first);
    add_range(first, most, step);
  }

  void store(fields& out) const {
    switch (field_) {
      case part::second:
        out.seconds = set_;
        break;
      case part::minute:
        out.minutes = set_;
        break;
      case part::hour:
        out.hours = set_;
        break;
      case part::month:
        out.months = set_;
        break;
      case part::day:
        out.days.days = set_;
        out.days.days_open = open_;
        break;
      case part::weekday:
        out.days.weekdays = set_;
        out.days.weekdays_open = open_;
        break;
      case part::year:
        if (!open_) out.years = years_;
        break;
    }
  }

  part field_;
  std::string_view text_;
  const schedule_options& options_;
  const bounds& limit_;
  bits set_ = 0;
  year_set years_;
  bool open_ = false;
};

std::string count_remedy(cron_dialect dialect) {
  return std::string("write five (minute hour day month weekday), or six with the second in front") +
         (dialect == cron_dialect::extended ? ", or seven with the year behind" : "");
}

}  // namespace

std::string shown(std::string_view text) {
  auto out = std::string(text.size() > 80 ? text.substr(0, 77) : text) + (text.size() > 80 ? "..." : "");
  for (auto& c : out)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  return "\"" + out + "\"";
}

expected<parsed_fields> parse_fields(const std::vector<std::string_view>& words, const schedule_options& options) {
  const std::size_t most = options.dialect == cron_dialect::extended ? 7 : 6;
  if (words.size() < 5 || words.size() > most)
    return error{errc::invalid_argument, "it has " + std::to_string(words.size()) +
                                             (words.size() == 1 ? " field" : " fields") + "; " +
                                             count_remedy(options.dialect)};
  parsed_fields out;
  out.with_seconds = words.size() > 5;
  if (!out.with_seconds) out.content.seconds = bit(0);
  auto field = static_cast<std::uint8_t>(out.with_seconds ? part::second : part::minute);
  try {
    for (const auto word : words) field_parser(static_cast<part>(field++), word, options).parse_into(out.content);
  } catch (const refused& r) {
    return r.why;
  }
  return out;
}

}  // namespace caravan::calendar
