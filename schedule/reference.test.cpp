// Random expressions against two slow references that share nothing with the engine: a plain reading of the text, and
// the C library's clock (localtime_r). One steps second by second through days around changes of clocks; the other
// minute by minute through years, for what is far away.
//
//   CARAVAN_SEED=n            other expressions; the seed is printed
//   CARAVAN_EXPRESSIONS=n     how many, each in 12 zones (a full run: 10000)

#define CAF_SUITE schedule_reference
#include <caravan/schedule.hpp>

#include "caf/test/unit_test.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <ctime>
#include <iostream>
#include <random>
#include <sstream>

using namespace caravan;
using namespace std::chrono;

namespace {

constexpr std::array zones = {"UTC",           "America/New_York",    "America/Sao_Paulo", "America/Havana",
                              "Europe/Berlin", "Europe/London",       "Africa/Casablanca", "Asia/Tehran",
                              "Asia/Beirut",   "Australia/Lord_Howe", "Pacific/Chatham",   "Pacific/Apia"};

std::uint64_t setting(const char* name, std::uint64_t fallback) {
  const char* text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : fallback;
}

// ---- the plain reading ----

struct plain_field {
  std::array<bool, 60> on{};
  bool star = false;
};

int plain_value(const std::string& text) {
  static const std::vector<std::string> names = {"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct",
                                                 "nov", "dec", "sun", "mon", "tue", "wed", "thu", "fri", "sat"};
  for (std::size_t i = 0; i < names.size(); ++i)
    if (text == names[i]) return static_cast<int>(i < 12 ? i + 1 : i - 12);
  return std::stoi(text);
}

plain_field plain_read(const std::string& text, int least, int most) {
  plain_field out;
  std::istringstream items(text);
  for (std::string item; std::getline(items, item, ',');) {
    const auto slash = item.find('/');
    const auto step = slash == std::string::npos ? 1 : std::stoi(item.substr(slash + 1));
    const auto base = item.substr(0, slash);
    auto from = least, to = most;
    if (base == "*" || base == "?") {
      if (step == 1) out.star = true;
    } else if (const auto dash = base.find('-'); dash != std::string::npos) {
      from = plain_value(base.substr(0, dash));
      to = plain_value(base.substr(dash + 1));
    } else {
      from = plain_value(base);
      if (slash == std::string::npos) to = from;
    }
    for (auto v = from; v <= to; v += step) out.on[static_cast<std::size_t>(v)] = true;
  }
  return out;
}

struct wall {
  std::uint8_t second, minute, hour, day, month, weekday;
};

struct plain_schedule {
  plain_field second, minute, hour, day, month, weekday;

  explicit plain_schedule(const std::string& text) {
    std::istringstream in(text);
    std::vector<std::string> words;
    for (std::string word; in >> word;) words.push_back(word);
    if (words.size() == 5) words.insert(words.begin(), "0");
    second = plain_read(words[0], 0, 59);
    minute = plain_read(words[1], 0, 59);
    hour = plain_read(words[2], 0, 23);
    day = plain_read(words[3], 1, 31);
    month = plain_read(words[4], 1, 12);
    weekday = plain_read(words[5], 0, 6);
  }

  [[nodiscard]] bool matches_minute(const wall& w) const {
    if (!minute.on[w.minute] || !hour.on[w.hour] || !month.on[w.month]) return false;
    const auto by_day = day.on[w.day], by_weekday = weekday.on[w.weekday];
    return day.star || weekday.star ? by_day && by_weekday : by_day || by_weekday;
  }
  [[nodiscard]] bool matches(const wall& w) const { return second.on[w.second] && matches_minute(w); }
};

wall read_wall(std::time_t at) {
  std::tm t{};
  localtime_r(&at, &t);
  return {static_cast<std::uint8_t>(t.tm_sec),     static_cast<std::uint8_t>(t.tm_min),
          static_cast<std::uint8_t>(t.tm_hour),    static_cast<std::uint8_t>(t.tm_mday),
          static_cast<std::uint8_t>(t.tm_mon + 1), static_cast<std::uint8_t>(t.tm_wday)};
}

void enter_zone(const char* name) {
  setenv("TZ", name, 1);
  tzset();
}

// ---- random expressions ----

using chance = std::mt19937_64;

std::size_t below(chance& c, std::size_t n) { return static_cast<std::size_t>(c() % n); }

std::string random_value(chance& c, int least, int most, const std::vector<std::string>& names) {
  const auto v = least + static_cast<int>(below(c, static_cast<std::size_t>(most - least + 1)));
  if (!names.empty() && below(c, 3) == 0) return names[static_cast<std::size_t>(v - least)];
  return std::to_string(v);
}

std::string random_field(chance& c, int least, int most, std::size_t stars_of_ten,
                         const std::vector<std::string>& names) {
  if (below(c, 10) < stars_of_ten) return below(c, 8) == 0 ? "?" : "*";
  std::string out;
  for (auto items = 1 + (below(c, 3) == 0 ? below(c, 4) : 0); items > 0; --items) {
    auto a = least + static_cast<int>(below(c, static_cast<std::size_t>(most - least + 1)));
    auto b = least + static_cast<int>(below(c, static_cast<std::size_t>(most - least + 1)));
    if (a > b) std::swap(a, b);
    std::string item;
    switch (below(c, 6)) {
      case 0:
        item = "*/" + std::to_string(1 + below(c, 20));
        break;
      case 1:
        item = std::to_string(a) + "-" + std::to_string(b);
        break;
      case 2:
        item = std::to_string(a) + "-" + std::to_string(b) + "/" + std::to_string(1 + below(c, 9));
        break;
      case 3:
        item = std::to_string(a) + "/" + std::to_string(1 + below(c, 9));
        break;
      default:
        item = random_value(c, least, most, names);
    }
    out += (out.empty() ? "" : ",") + item;
  }
  return out;
}

std::string random_expression(chance& c) {
  static const std::vector<std::string> months = {"jan", "feb", "mar", "apr", "may", "jun",
                                                  "jul", "aug", "sep", "oct", "nov", "dec"};
  static const std::vector<std::string> days = {"sun", "mon", "tue", "wed", "thu", "fri", "sat"};
  std::string out;
  if (below(c, 2) == 0) out += random_field(c, 0, 59, 1, {}) + " ";
  out += random_field(c, 0, 59, 2, {}) + " ";
  // The hours in which clocks change are worth more than others.
  out += (below(c, 3) == 0 ? random_field(c, 0, 3, 0, {}) : random_field(c, 0, 23, 3, {})) + " ";
  out += random_field(c, 1, 31, 6, {}) + " " + random_field(c, 1, 12, 7, months) + " " + random_field(c, 0, 6, 6, days);
  return out;
}

struct expression {
  std::string text;
  plain_schedule plain;
};

std::vector<expression> random_expressions(chance& c, std::size_t count) {
  std::vector<expression> out;
  for (std::size_t i = 0; i < count; ++i) {
    auto text = random_expression(c);
    plain_schedule plain(text);
    out.push_back({std::move(text), plain});
  }
  return out;
}

/// Instants at which the C library's clock of this zone changes, hour by hour through some years.
std::vector<std::time_t> changes(int first, int last) {
  std::vector<std::time_t> out;
  const auto begin = sys_seconds{sys_days{year{first} / 1 / 1}}.time_since_epoch().count();
  const auto end = sys_seconds{sys_days{year{last} / 12 / 31}}.time_since_epoch().count();
  const auto offset = [](std::time_t at) {
    std::tm t{};
    localtime_r(&at, &t);
    return t.tm_gmtoff;
  };
  for (auto t = begin, was = static_cast<std::time_t>(offset(begin)); t < end; t += 3600)
    if (const auto is = offset(t); is != was) {
      out.push_back(t);
      was = is;
    }
  return out;
}

sys_seconds instant(std::time_t at) { return sys_seconds{seconds{at}}; }

}  // namespace

CAF_TEST(random expressions agree with stepping second by second) {
  const auto seed = setting("CARAVAN_SEED", 20260329);
  const auto count = setting("CARAVAN_EXPRESSIONS", 300);
  std::cout << "seed " << seed << ", " << count << " expressions in " << zones.size() << " zones\n";
  constexpr std::size_t windows_of_zone = 16;
  constexpr std::time_t half = 40 * 3600;
  constexpr std::size_t most_hits = 6;
  std::size_t pairs = 0, hits = 0, wrong = 0;
  for (const auto* zone : zones) {
    enter_zone(zone);
    chance c(seed);
    const auto expressions = random_expressions(c, count);
    auto centres = changes(1995, 2060);
    while (centres.size() < windows_of_zone)
      centres.push_back(788'918'400 + static_cast<std::time_t>(below(c, 2'000'000'000)));
    for (std::size_t i = 0; i < windows_of_zone; ++i) {
      const auto centre = centres[below(c, centres.size())];
      const auto begin = centre - half + static_cast<std::time_t>(below(c, 3600));
      std::vector<wall> walls;
      for (auto t = begin; t < centre + half; ++t) walls.push_back(read_wall(t));
      for (auto e = i; e < expressions.size(); e += windows_of_zone) {
        const auto& x = expressions[e];
        ++pairs;
        const auto s = schedule::parse(x.text, {.zone = zone}).value();
        // All hits of the window for the way back, the first few for the way forth.
        std::vector<std::time_t> should;
        for (std::size_t n = 1; n < walls.size(); ++n)
          if (x.plain.matches(walls[n])) should.push_back(begin + static_cast<std::time_t>(n));
        hits += should.size();
        auto ok = true;
        auto at = instant(begin);
        for (std::size_t n = 0; n < std::min(should.size(), most_hits); ++n) {
          const auto next = s.next(at);
          ok = ok && next == instant(should[n]) && s.matches(*next);
          at = instant(should[n]);
        }
        if (should.size() < most_hits) {
          const auto beyond = s.next(at);
          ok = ok && (!beyond || *beyond >= instant(centre + half));
        }
        at = instant(centre + half);
        for (std::size_t n = 0; n < std::min(should.size(), most_hits); ++n) {
          const auto previous = s.previous(at);
          at = instant(should[should.size() - 1 - n]);
          ok = ok && previous == at;
        }
        // From somewhere in the middle too, where most of the changes are.
        const auto middle = begin + static_cast<std::time_t>(below(c, walls.size() - 1));
        const auto next = std::upper_bound(should.begin(), should.end(), middle);
        const auto found = s.next(instant(middle));
        ok = ok && (next == should.end() ? !found || *found >= instant(centre + half) : found == instant(*next));
        if (!ok && ++wrong < 10)
          std::cout << "differs: \"" << x.text << "\" in " << zone << " from " << begin << " or " << middle << '\n';
      }
    }
  }
  std::cout << pairs << " pairs, " << hits << " occurrences, " << wrong << " differ\n";
  CAF_CHECK_EQUAL(wrong, 0u);
  CAF_CHECK_EQUAL(pairs, count * zones.size());
  CAF_CHECK(hits > pairs);
}

CAF_TEST(random expressions agree with stepping minute by minute through years) {
  const auto seed = setting("CARAVAN_SEED", 20260329) + 1;
  const auto count = setting("CARAVAN_EXPRESSIONS", 300);
  // From before the last change that files name (2037) to where only the rule at their end counts, and over a leap day.
  constexpr auto begin = sys_seconds{sys_days{2035y / 11 / 17}} + 59s;
  constexpr auto years_stepped = 9;
  const std::size_t stride = count < 1000 ? 4 : 1;  // reading nine years of a clock takes seconds
  std::size_t pairs = 0, far = 0, none = 0, wrong = 0;
  for (auto z = seed % stride; z < zones.size(); z += stride) {
    const auto* zone = zones[z];
    enter_zone(zone);
    chance c(seed);
    const auto expressions = random_expressions(c, count);
    const auto first = begin.time_since_epoch().count() / 60 * 60 + 60;
    std::vector<wall> walls;
    for (auto t = first; t < first + years_stepped * 366 * 86'400LL; t += 60) walls.push_back(read_wall(t));
    for (const auto& x : expressions) {
      ++pairs;
      const auto s = schedule::parse(x.text, {.zone = zone}).value();
      const auto low = std::find(x.plain.second.on.begin(), x.plain.second.on.end(), true) - x.plain.second.on.begin();
      auto at = begin;
      auto ok = true;
      auto found = 0;
      for (std::size_t n = 0; n < walls.size() && found < 3; ++n) {
        if (!x.plain.matches_minute(walls[n])) continue;
        const auto should = instant(first + static_cast<std::time_t>(n) * 60 + low);
        ok = ok && s.next(at) == should;
        if (found == 0 && should - begin > days{62}) ++far;
        // On to the last second of that minute.
        at = instant(first + static_cast<std::time_t>(n) * 60 + 59);
        ++found;
      }
      if (found == 0) {
        ++none;
        ok = ok && !s.next(begin);
      }
      if (!ok && ++wrong < 10) std::cout << "differs: \"" << x.text << "\" in " << zone << '\n';
    }
  }
  std::cout << pairs << " pairs, " << far << " far ones, " << none << " without any, " << wrong << " differ\n";
  CAF_CHECK_EQUAL(wrong, 0u);
  CAF_CHECK(far > 0);
}
