#include "config/values.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <limits>
#include <vector>

namespace caravan::config {

namespace {

constexpr auto most = std::numeric_limits<std::int64_t>::max();

struct unit {
  std::string_view name;
  std::int64_t size;
};

// The order counts: "m" would also match the start of "ms".
constexpr std::array time_units = {unit{"ns", 1},
                                   unit{"us", 1'000},
                                   unit{"\xc2\xb5s", 1'000},  // U+00B5, the micro sign
                                   unit{"\xce\xbcs", 1'000},  // U+03BC, the Greek letter
                                   unit{"ms", 1'000'000},
                                   unit{"s", 1'000'000'000},
                                   unit{"m", 60'000'000'000},
                                   unit{"h", 3'600'000'000'000}};

bool is_digit(char c) { return c >= '0' && c <= '9'; }
char lower(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }

std::string lower(std::string_view text) {
  std::string out(text);
  for (auto& c : out) c = lower(c);
  return out;
}

/// whole * size + fraction of size, or nothing when it does not fit. Takes the number from the front of `text`.
struct number {
  std::int64_t whole = 0;
  std::string_view fraction;
};

std::optional<number> take_number(std::string_view& text) {
  number out;
  std::size_t at = 0;
  while (at < text.size() && is_digit(text[at])) {
    const auto digit = text[at++] - '0';
    if (out.whole > (most - digit) / 10) return std::nullopt;
    out.whole = out.whole * 10 + digit;
  }
  auto digits = at;
  if (at < text.size() && text[at] == '.') {
    const auto from = ++at;
    while (at < text.size() && is_digit(text[at])) ++at;
    out.fraction = text.substr(from, at - from);
    digits += at - from;
  }
  if (digits == 0) return std::nullopt;
  text.remove_prefix(at);
  return out;
}

std::optional<std::int64_t> scale(const number& n, std::int64_t size) {
  if (n.whole > most / size) return std::nullopt;
  auto total = n.whole * size;
  // Nine digits: then none of the products below can overflow, and what is cut is less than anybody means.
  std::int64_t digits = 0, power = 1;
  for (const auto c : n.fraction.substr(0, 9)) {
    digits = digits * 10 + (c - '0');
    power *= 10;
  }
  const auto part = size / power * digits + size % power * digits / power;
  if (total > most - part) return std::nullopt;
  return total + part;
}

}  // namespace

std::string_view trim(std::string_view text) noexcept {
  constexpr std::string_view blanks = " \t\r\n\v\f";
  const auto first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

std::optional<std::chrono::nanoseconds> parse_duration(std::string_view text) {
  text = trim(text);
  const auto negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  if (text.empty()) return std::nullopt;
  std::int64_t total = 0;
  for (auto first = true; !text.empty(); first = false) {
    const auto n = take_number(text);
    if (!n) return std::nullopt;
    auto size = std::int64_t{0};
    if (text.empty()) {
      if (!first) return std::nullopt;  // "1h30": thirty what?
      size = 1'000'000'000;
    }
    for (const auto& u : time_units)
      if (size == 0 && text.starts_with(u.name)) {
        size = u.size;
        text.remove_prefix(u.name.size());
      }
    if (size == 0) return std::nullopt;
    const auto part = scale(*n, size);
    if (!part || total > most - *part) return std::nullopt;
    total += *part;
  }
  return std::chrono::nanoseconds(negative ? -total : total);
}

std::string format_duration(std::chrono::nanoseconds value) {
  if (value.count() == 0) return "0s";
  const auto negative = value.count() < 0;
  // Unsigned, because the smallest number has no positive counterpart.
  auto left = negative ? 0 - static_cast<std::uint64_t>(value.count()) : static_cast<std::uint64_t>(value.count());
  const auto with_fraction = [](std::uint64_t whole, std::uint64_t part, int digits) {
    auto out = std::to_string(whole);
    if (part == 0) return out;
    auto fraction = std::to_string(part);
    fraction.insert(0, static_cast<std::size_t>(digits) - fraction.size(), '0');
    fraction.erase(fraction.find_last_not_of('0') + 1);
    return out + "." + fraction;
  };
  std::string out = negative ? "-" : "";
  if (left < 1'000) return out + std::to_string(left) + "ns";
  if (left < 1'000'000) return out + with_fraction(left / 1'000, left % 1'000, 3) + "\xc2\xb5s";
  if (left < 1'000'000'000) return out + with_fraction(left / 1'000'000, left % 1'000'000, 6) + "ms";
  const auto hours = left / 3'600'000'000'000;
  left %= 3'600'000'000'000;
  const auto minutes = left / 60'000'000'000;
  left %= 60'000'000'000;
  if (hours > 0) out += std::to_string(hours) + "h";
  if (minutes > 0) out += std::to_string(minutes) + "m";
  if (left > 0) out += with_fraction(left / 1'000'000'000, left % 1'000'000'000, 9) + "s";
  return out;
}

std::optional<std::int64_t> parse_integer(std::string_view text) {
  text = trim(text);
  if (text.starts_with('+')) {
    text.remove_prefix(1);
    if (text.starts_with('-')) return std::nullopt;
  }
  std::int64_t value = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<std::int64_t> parse_bytes(std::string_view text) {
  text = trim(text);
  const auto negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  const auto n = take_number(text);
  if (!n) return std::nullopt;
  const auto name = lower(trim(text));
  auto size = std::int64_t{1};
  if (!name.empty() && name != "b") {
    const auto power = std::string_view("kmgt").find(name[0]);
    const auto rest = std::string_view(name).substr(1);
    if (power == std::string_view::npos || (!rest.empty() && rest != "b" && rest != "ib")) return std::nullopt;
    for (std::size_t i = 0; i <= power; ++i) size *= rest == "b" ? 1000 : 1024;
  } else if (!n->fraction.empty()) {
    return std::nullopt;  // half a byte
  }
  const auto value = scale(*n, size);
  if (!value) return std::nullopt;
  return negative ? -*value : *value;
}

std::string format_bytes(std::int64_t value) {
  const std::array names = {"", "KiB", "MiB", "GiB", "TiB"};
  std::size_t power = 0;
  while (value != 0 && value % 1024 == 0 && power + 1 < names.size()) {
    value /= 1024;
    ++power;
  }
  return std::to_string(value) + names[power];
}

std::optional<bool> parse_boolean(std::string_view text) {
  const auto word = lower(trim(text));
  for (const auto* yes : {"true", "yes", "on", "y", "t", "1"})
    if (word == yes) return true;
  for (const auto* no : {"false", "no", "off", "n", "f", "0"})
    if (word == no) return false;
  return std::nullopt;
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  // Three rows suffice; the third is for swapped neighbours.
  std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const auto same = lower(a[i - 1]) == lower(b[j - 1]);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (same ? 0u : 1u)});
      if (i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) && lower(a[i - 2]) == lower(b[j - 1]))
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::swap(before, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

std::string_view nearest(std::string_view word, std::span<const std::string_view> candidates) {
  std::string_view best;
  if (word.empty() || word.size() > 64) return best;
  auto least = std::clamp<std::size_t>(word.size() / 3, 1, 3) + 1;
  for (const auto candidate : candidates)
    if (const auto distance = edit_distance(word, candidate); distance < least) {
      least = distance;
      best = candidate;
    }
  if (!best.empty() || word.size() < 3) return best;
  for (const auto candidate : candidates)  // a word that was not written out
    if (lower(candidate).starts_with(lower(word))) {
      if (!best.empty()) return {};
      best = candidate;
    }
  return best;
}

}  // namespace caravan::config
