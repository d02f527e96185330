#include "integration/process/handler_json.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <map>

namespace caravan::handlers {

namespace {

using namespace std::chrono_literals;

// nlohmann's lexer takes a NUL for the end of its input and skips a byte order mark: both would pass here and break
// the line that the payload is copied into.
bool is_json(std::string_view text) {
  if (text.find('\0') != std::string_view::npos || text.starts_with("\xEF\xBB\xBF")) return false;
  return nlohmann::json::accept(text.begin(), text.end());
}

void append_base64(std::string& out, std::string_view bytes) {
  constexpr std::string_view letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  auto at = out.size();
  out.resize(at + (bytes.size() + 2) / 3 * 4, '=');
  for (std::size_t i = 0; i < bytes.size(); i += 3, at += 4) {
    const auto have = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t group = 0;
    for (std::size_t k = 0; k < have; ++k)
      group |= std::uint32_t{static_cast<unsigned char>(bytes[i + k])} << (16 - 8 * k);
    for (std::size_t k = 0; k <= have; ++k) out[at + k] = letters[group >> (18 - 6 * k) & 63];
  }
}

/// Length of the UTF-8 sequence at the start of `text`; 0 if there is none.
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const auto follows = [&](std::size_t i) { return (byte(i) & 0xC0u) == 0x80u; };
  const auto b = byte(0);
  if (b < 0x80) return 1;
  if (b >= 0xC2 && b <= 0xDF) return follows(1) ? 2 : 0;
  if (b >= 0xE0 && b <= 0xEF) {
    if (!follows(1) || !follows(2)) return 0;
    const bool overlong = b == 0xE0 && byte(1) < 0xA0;
    const bool surrogate = b == 0xED && byte(1) > 0x9F;
    return overlong || surrogate ? 0 : 3;
  }
  if (b >= 0xF0 && b <= 0xF4) {
    if (!follows(1) || !follows(2) || !follows(3)) return 0;
    const bool overlong = b == 0xF0 && byte(1) < 0x90;
    const bool too_high = b == 0xF4 && byte(1) > 0x8F;
    return overlong || too_high ? 0 : 4;
  }
  return 0;
}

bool equal_names(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](char x, char y) { return lower(x) == lower(y); });
}

}  // namespace

void append_json_string(std::string& out, std::string_view text) {
  out += nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void append_item_json(std::string& out, std::string_view queue, const record& item) {
  out += "{\"id\":";
  append_json_string(out, to_string(job_id{std::string(queue), item.id}));
  if (is_json(item.payload)) {
    out += ",\"payload\":";
    const auto start = out.size();
    out += item.payload;
    // Inside a JSON string a line break is escaped, so these stand between tokens.
    std::replace_if(
        out.begin() + static_cast<std::ptrdiff_t>(start), out.end(), [](char c) { return c == '\n' || c == '\r'; },
        ' ');
  } else {
    out += ",\"payload_base64\":\"";
    append_base64(out, item.payload);
    out += '"';
  }
  out += ",\"attempt\":" + std::to_string(std::uint64_t{item.attempts} + 1);
  if (item.max_attempts > 0) out += ",\"max_attempts\":" + std::to_string(item.max_attempts);
  out += ",\"key\":";
  append_json_string(out, item.key);
  std::map<std::string_view, std::string> headers;
  for (const auto& [name, value] : item.headers) {
    const auto [at, is_new] = headers.try_emplace(name, value);
    if (!is_new) at->second += ", " + value;
  }
  out += ",\"headers\":{";
  bool first = true;
  for (const auto& [name, value] : headers) {
    if (!first) out += ',';
    first = false;
    append_json_string(out, name);
    out += ':';
    append_json_string(out, value);
  }
  out += "}}";
}

std::string to_rfc3339(wall_time when) {
  const auto day = std::chrono::floor<std::chrono::days>(when);
  const std::chrono::year_month_day date{day};
  const std::chrono::hh_mm_ss time{when - day};
  char text[64];
  std::snprintf(text, sizeof text, "%04d-%02u-%02uT%02d:%02d:%02d.%03dZ", static_cast<int>(date.year()),
                static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                static_cast<int>(time.hours().count()), static_cast<int>(time.minutes().count()),
                static_cast<int>(time.seconds().count()), static_cast<int>(time.subseconds().count()));
  return text;
}

std::string deadline_text(const run_context& ctx) {
  const auto now = std::chrono::steady_clock::now();
  // Beyond this the sum below could overflow, and time_point::max() means "none" anyway.
  if (ctx.deadline > now + std::chrono::years(100)) return {};
  const auto wall = std::chrono::system_clock::now() + (ctx.deadline - now);
  return to_rfc3339(std::chrono::floor<std::chrono::milliseconds>(wall));
}

std::string trace_parent(const batch& work) {
  if (!work.items || work.items->size() != 1) return {};
  for (const auto& [name, value] : work.items->front().headers) {
    if (!equal_names(name, "traceparent")) continue;
    const bool plain =
        value.size() <= 512 && std::all_of(value.begin(), value.end(), [](char c) { return c > ' ' && c < 0x7F; });
    return plain ? value : std::string();
  }
  return {};
}

std::string to_text(std::chrono::milliseconds duration) {
  const auto ms = std::max<std::int64_t>(duration.count(), 0);
  if (ms < 1000) return std::to_string(ms) + " ms";
  if (ms >= 10'000) return std::to_string(ms / 1000) + " s";
  const auto tenths = ms / 100;
  auto text = std::to_string(tenths / 10);
  if (tenths % 10 != 0) text += "." + std::to_string(tenths % 10);
  return text + " s";
}

std::string readable(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  while (!bytes.empty()) {
    const auto length = utf8_length(bytes);
    const auto c = static_cast<unsigned char>(bytes[0]);
    if (length == 0 || (c < 0x20 && c != '\n' && c != '\t' && c != '\r') || c == 0x7F) {
      out += "\xEF\xBF\xBD";
      bytes.remove_prefix(1);
      continue;
    }
    if (c != '\r') out += bytes.substr(0, length);
    bytes.remove_prefix(length);
  }
  constexpr auto blanks = " \t\n";
  const auto first = out.find_first_not_of(blanks);
  if (first == std::string::npos) return {};
  out.erase(out.find_last_not_of(blanks) + 1);
  out.erase(0, first);
  return out;
}

bool is_past_deadline(const run_context& ctx, std::chrono::steady_clock::time_point now) {
  return now >= ctx.deadline - 10ms;
}

item_names::item_names(const batch& work) : queue_(work.queue) {
  if (!work.items) return;
  index_.reserve(work.items->size());
  for (std::uint32_t i = 0; i < work.items->size(); ++i) index_.emplace((*work.items)[i].id, i);
}

std::optional<std::uint32_t> item_names::find(std::string_view name) const {
  auto id = parse_item_id(name);
  if (!id) {
    const auto job = parse_job_id(name);
    if (!job || job->queue != queue_) return std::nullopt;
    id = job->item;
  }
  const auto at = index_.find(*id);
  if (at == index_.end()) return std::nullopt;
  return at->second;
}

}  // namespace caravan::handlers
