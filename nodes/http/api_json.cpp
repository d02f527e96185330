#include "nodes/http/api_json.hpp"

#include "config/values.hpp"

#include <array>
#include <charconv>
#include <cmath>

namespace caravan::http {

using namespace std::chrono_literals;

namespace {

constexpr std::size_t most_levels = 100;  // writing a value out is recursive: an endless "[[[[" would end the process
constexpr auto most_duration = std::chrono::hours{24 * 36'500};

// Builds the value as json::parse does, and looks at what that would change in silence.
class strict_parser : public nlohmann::detail::json_sax_dom_parser<json> {
public:
  using base = nlohmann::detail::json_sax_dom_parser<json>;
  explicit strict_parser(json& into) : base(into, false) {}

  bool number_float(double value, const std::string& text) {
    if (text.find_first_of(".eE") == std::string::npos)
      return refuse("the number " + text.substr(0, 40) + " does not fit in 64 bits; send it as a string");
    return base::number_float(value, text);
  }
  bool start_object(std::size_t n) { return deeper() && base::start_object(n); }
  bool start_array(std::size_t n) { return deeper() && base::start_array(n); }
  bool end_object() { return --level_, base::end_object(); }
  bool end_array() { return --level_, base::end_array(); }
  template <class Exception>
  bool parse_error(std::size_t at, const std::string& token, const Exception& e) {
    if (why_.empty()) {
      // "[json.exception.parse_error.101] parse error at line 1, column 8: ..." without the library's own number.
      std::string_view text = e.what();
      if (const auto end = text.find("] "); text.starts_with('[') && end != std::string_view::npos)
        text.remove_prefix(end + 2);
      why_ = text;
    }
    return base::parse_error(at, token, e);
  }
  [[nodiscard]] const std::string& why() const { return why_; }

private:
  bool deeper() {
    return ++level_ <= most_levels || refuse("more than " + std::to_string(most_levels) + " levels of nesting");
  }
  bool refuse(std::string why) {
    if (why_.empty()) why_ = std::move(why);
    return false;
  }
  std::size_t level_ = 0;
  std::string why_;
};

std::optional<int> digits(std::string_view text, std::size_t at, std::size_t n) {
  if (text.size() < at + n) return std::nullopt;
  int value = 0;
  const auto* end = text.data() + at + n;
  const auto [stop, failed] = std::from_chars(text.data() + at, end, value);
  if (failed != std::errc{} || stop != end || text[at] == '-') return std::nullopt;
  return value;
}

}  // namespace

expected<json> parse_json(std::string_view text) {
  json value;
  strict_parser parser(value);
  if (!json::sax_parse(text, &parser))
    return {errc::invalid_argument, parser.why().empty() ? "it is no JSON" : parser.why()};
  return value;
}

std::string dump(const ordered_json& value) {
  return value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

object_reader::object_reader(const json& object, std::string what) : object_(object), what_(std::move(what)) {
  if (!object_.is_object()) complain("must be a JSON object, not " + std::string(object_.type_name()));
}

void object_reader::complain(std::string text) {
  if (!mistake_) mistake_ = error{errc::invalid_argument, what_ + ": " + std::move(text)};
}

const json* object_reader::member(std::string_view name) const {
  if (!object_.is_object()) return nullptr;
  const auto it = object_.find(name);
  return it == object_.end() || it->is_null() ? nullptr : &*it;
}

const json* object_reader::any(std::string_view name) {
  if (!object_.is_object()) return nullptr;
  const auto it = object_.find(name);
  return it == object_.end() ? nullptr : &*it;
}

std::optional<std::string> object_reader::text(std::string_view name, std::size_t most_bytes) {
  const auto* m = member(name);
  if (!m) return std::nullopt;
  if (!m->is_string()) {
    complain("\"" + std::string(name) + "\" must be a string");
    return std::nullopt;
  }
  auto value = m->get<std::string>();
  if (value.size() > most_bytes) {
    complain("\"" + std::string(name) + "\" has " + std::to_string(value.size()) + " bytes; at most " +
             std::to_string(most_bytes) + " are kept");
    return std::nullopt;
  }
  return value;
}

std::optional<std::int64_t> object_reader::whole_number(std::string_view name, std::int64_t least, std::int64_t most) {
  const auto* m = member(name);
  if (!m) return std::nullopt;
  const bool fits = m->is_number_integer() && (!m->is_number_unsigned() || m->get<std::uint64_t>() <= INT64_MAX);
  const auto value = fits ? m->get<std::int64_t>() : 0;
  if (!fits || value < least || value > most) {
    complain("\"" + std::string(name) + "\" must be a whole number from " + std::to_string(least) + " to " +
             std::to_string(most));
    return std::nullopt;
  }
  return value;
}

std::optional<std::chrono::milliseconds> object_reader::duration(std::string_view name) {
  const auto* m = member(name);
  if (!m) return std::nullopt;
  std::optional<std::chrono::nanoseconds> value;
  if (m->is_string()) {
    value = config::parse_duration(m->get_ref<const std::string&>());
  } else if (m->is_number()) {
    const auto seconds = m->get<double>();
    if (std::isfinite(seconds) && std::abs(seconds) < 9e9)
      value = std::chrono::nanoseconds(std::llround(seconds * 1e9));
  }
  if (!value) {
    complain("\"" + std::string(name) + "\" must be a duration like \"5s\" or \"1h30m\", or a number of seconds");
    return std::nullopt;
  }
  if (*value < 0ns || *value > most_duration) {
    complain("\"" + std::string(name) + "\" must be from 0 to 100 years (876000h)");
    return std::nullopt;
  }
  return std::chrono::ceil<std::chrono::milliseconds>(*value);
}

std::optional<system_time> object_reader::instant(std::string_view name) {
  const auto value = text(name);
  if (!value) return std::nullopt;
  const auto at = parse_instant(*value);
  if (!at)
    complain("\"" + std::string(name) +
             "\" must be an instant with its zone like \"2026-05-01T12:00:00Z\" (RFC 3339), from 1970 to 2199");
  return at;
}

expected<void> object_reader::done(std::span<const std::string_view> known) {
  if (object_.is_object())
    for (const auto& [name, value] : object_.items())
      if (std::find(known.begin(), known.end(), name) == known.end())
        complain("there is no field " + with_nearest(name, known));
  if (mistake_) return *mistake_;
  return {};
}

std::optional<system_time> parse_instant(std::string_view text) {
  namespace ch = std::chrono;
  const auto year = digits(text, 0, 4), month = digits(text, 5, 2), day = digits(text, 8, 2);
  const auto hour = digits(text, 11, 2), minute = digits(text, 14, 2), second = digits(text, 17, 2);
  if (!year || !month || !day || !hour || !minute || !second) return std::nullopt;
  if (text[4] != '-' || text[7] != '-' || std::string_view("Tt ").find(text[10]) == std::string_view::npos ||
      text[13] != ':' || text[16] != ':')
    return std::nullopt;
  const auto date = ch::year{*year} / ch::month{static_cast<unsigned>(*month)} / ch::day{static_cast<unsigned>(*day)};
  if (!date.ok() || *year < 1970 || *year > 2199 || *hour > 23 || *minute > 59 || *second > 60) return std::nullopt;
  text.remove_prefix(19);
  auto fraction = 0ms;
  if (text.starts_with('.')) {
    std::size_t n = 1;
    int scale = 100;
    for (; n < text.size() && text[n] >= '0' && text[n] <= '9'; ++n, scale /= 10)
      fraction += scale * (text[n] - '0') * 1ms;
    if (n == 1) return std::nullopt;
    text.remove_prefix(n);
  }
  auto offset = 0min;
  if (text != "Z" && text != "z") {
    const auto h = digits(text, 1, 2), m = digits(text, 4, 2);
    if (text.size() != 6 || (text[0] != '+' && text[0] != '-') || text[3] != ':' || !h || !m || *h > 23 || *m > 59)
      return std::nullopt;
    offset = (*h * 60 + *m) * (text[0] == '-' ? -1min : 1min);
  }
  return ch::sys_days{date} + ch::hours{*hour} + ch::minutes{*minute} + ch::seconds{*second} + fraction - offset;
}

std::string format_instant(system_time at) {
  namespace ch = std::chrono;
  const auto ms = ch::floor<ch::milliseconds>(at);
  const auto day = ch::floor<ch::days>(ms);
  const ch::year_month_day date{day};
  const ch::hh_mm_ss time{ms - day};
  std::array<char, 64> text{};
  const auto n =
      std::snprintf(text.data(), text.size(), "%04d-%02u-%02uT%02d:%02d:%02d.%03dZ", static_cast<int>(date.year()),
                    static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                    static_cast<int>(time.hours().count()), static_cast<int>(time.minutes().count()),
                    static_cast<int>(time.seconds().count()), static_cast<int>(time.subseconds().count()));
  return {text.data(), static_cast<std::size_t>(n)};
}

ordered_json instant_or_null(system_time at) {
  if (at == system_time{}) return nullptr;
  return format_instant(at);
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const auto byte = [&](std::size_t k) {
      return i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0u;
    };
    const auto three = byte(0) << 16 | byte(1) << 8 | byte(2);
    for (unsigned k = 0; k < 4; ++k) text.push_back(i + k > bytes.size() ? '=' : letters[three >> (18 - 6 * k) & 63]);
  }
  return text;
}

void put_payload(ordered_json& into, const std::string& payload) {
  if (payload.empty()) return;
  const auto value = parse_json(payload);
  if (value)
    into["payload"] = ordered_json(*value);
  else
    into["payload_base64"] = base64(payload);
}

std::string with_nearest(std::string_view word, std::span<const std::string_view> candidates) {
  auto text = "\"" + std::string(word.substr(0, 128)) + "\"";
  if (const auto near = config::nearest(word, candidates); !near.empty())
    return text + "; did you mean \"" + std::string(near) + "\"?";
  text += "; there are";
  for (std::size_t i = 0; i < candidates.size(); ++i) text += (i ? ", " : " ") + std::string(candidates[i]);
  return text;
}

expected<json> read_body(std::string_view text) {
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) return json::object();
  auto body = parse_json(text);
  if (!body) return error{body.failure().code, "the body: " + body.failure().text};
  return body;
}

}  // namespace caravan::http
