#include "config/environment.hpp"

#include "config/values.hpp"

#include <unistd.h>

#include <cctype>
#include <fstream>
#include <set>

namespace caravan::config {

namespace {

constexpr std::size_t most_value_bytes = 1u << 20;

char lower(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }

std::string lower(std::string_view text) {
  std::string out(text);
  for (auto& c : out) c = lower(c);
  return out;
}

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  c = lower(c);
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/// Length of an escape "_0x2E2F_" at the front of `text`, whose bytes are added to `bytes`; 0 when there is none.
std::size_t take_escape(std::string_view text, std::string& bytes) {
  if (text.size() < 6 || text[0] != '_' || text[1] != '0' || lower(text[2]) != 'x') return 0;
  std::string decoded;
  std::size_t at = 3;
  for (; at + 1 < text.size() && hex_value(text[at]) >= 0 && hex_value(text[at + 1]) >= 0; at += 2)
    decoded += static_cast<char>(hex_value(text[at]) * 16 + hex_value(text[at + 1]));
  if (decoded.empty() || at >= text.size() || text[at] != '_') return 0;
  bytes += decoded;
  return at + 1;
}

/// Could parse_ini have made this section and key?
bool fits_a_file(const variable_name& name) {
  for (const auto text : {std::string_view(name.section), std::string_view(name.key)})
    for (const auto c : text)
      if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) return false;
  return name.section.find(']') == std::string::npos && trim(name.section) == name.section &&
         trim(name.key) == name.key;
}

bool is_plain(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

/// Plain letters and digits stay; so does a single _ inside, which cannot be taken for a separator or an escape.
std::string encode(std::string_view text) {
  constexpr std::string_view digits = "0123456789ABCDEF";
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = text[i];
    const auto single = c == '_' && i > 0 && i + 1 < text.size() && is_plain(text[i - 1]) && is_plain(text[i + 1]);
    const auto looks_escaped = single && text[i + 1] == '0' && i + 2 < text.size() && lower(text[i + 2]) == 'x';
    if (is_plain(c) || (single && !looks_escaped)) {
      out += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      out += std::string("_0x") + digits[byte >> 4] + digits[byte & 15] + "_";
    }
  }
  return out;
}

std::string existing_section(const ini& in, const std::string& name) {
  if (in.find_section(name)) return name;
  const section* found = nullptr;
  for (const auto& s : in.sections())
    if (lower(s.name) == name) {
      if (found) return name;
      found = &s;
    }
  return found ? found->name : name;
}

std::optional<std::string> read_value_file(const std::string& path, std::string& why) {
  std::ifstream in(path, std::ios::binary);
  std::string text;
  if (in)
    for (char piece[4096]; in.read(piece, sizeof piece) || in.gcount() > 0;) {
      text.append(piece, static_cast<std::size_t>(in.gcount()));
      if (text.size() > most_value_bytes) {
        why = "is over 1 MiB";
        return std::nullopt;
      }
    }
  if (!in.eof()) {
    why = "cannot be read";
    return std::nullopt;
  }
  // One line break only: editors and `echo` add it.
  if (text.ends_with('\n')) text.pop_back();
  if (text.ends_with('\r')) text.pop_back();
  return text;
}

}  // namespace

std::optional<variable_name> decode_section_key(std::string_view encoded) {
  variable_name out;
  auto in_key = false;
  while (!encoded.empty()) {
    auto& part = in_key ? out.key : out.section;
    if (const auto length = take_escape(encoded, part); length > 0) {
      encoded.remove_prefix(length);
    } else if (!in_key && encoded.starts_with("__")) {
      // "A__0x2E_B" is "A_.B", not "A" and a key: escapes are found before separators.
      std::string ignored;
      if (take_escape(encoded.substr(1), ignored) > 0) {
        part += '_';
        encoded.remove_prefix(1);
      } else {
        in_key = true;
        encoded.remove_prefix(2);
      }
    } else {
      part += encoded[0];
      encoded.remove_prefix(1);
    }
  }
  if (out.key.empty()) return std::nullopt;
  out.section = lower(out.section);
  return out;
}

std::optional<variable_name> decode_variable(std::string_view name, std::string_view prefix, std::string_view suffix) {
  if (!name.starts_with(prefix)) return std::nullopt;
  name.remove_prefix(prefix.size());
  if (!suffix.empty() && name.ends_with(suffix))
    if (auto out = decode_section_key(name.substr(0, name.size() - suffix.size()))) {
      out->from_file = true;
      return out;
    }
  return decode_section_key(name);
}

std::string encode_variable(std::string_view section, std::string_view key, std::string_view prefix) {
  std::string upper(section);
  for (auto& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return std::string(prefix) + encode(upper) + "__" + encode(key);
}

environment_result apply_environment(ini& to, std::span<const std::string> environment, std::string_view prefix,
                                     std::string_view suffix) {
  environment_result result;
  std::set<std::pair<std::string, std::string>> plain;
  for (const auto& pair : environment) {
    const auto name = std::string_view(pair).substr(0, pair.find('='));
    if (const auto decoded = decode_variable(name, prefix, suffix); decoded && !decoded->from_file)
      plain.emplace(decoded->section, decoded->key);
  }
  for (const auto& pair : environment) {
    const auto equals = pair.find('=');
    if (equals == std::string::npos || !pair.starts_with(prefix)) continue;
    const auto name = pair.substr(0, equals);
    const origin where{{}, 0, name};
    const auto complain = [&](severity level, std::string what, std::string cause, std::string remedy) {
      report(result.found, {level, where, std::move(what), std::move(cause), std::move(remedy)});
    };
    const auto decoded = decode_variable(name, prefix, suffix);
    if (!decoded) {
      complain(severity::warning, "", "its name holds no section and key",
               "write " + std::string(prefix) + "SECTION__KEY");
      continue;
    }
    if (!fits_a_file(*decoded)) {
      complain(severity::error, "", "its name decodes to what no file could hold",
               "write . as _0x2E_ and nothing else");
      continue;
    }
    const auto thing = "[" + decoded->section + "] " + decoded->key;
    auto value = pair.substr(equals + 1);
    if (decoded->from_file) {
      if (plain.contains({decoded->section, decoded->key})) {
        complain(severity::error, thing, "set both directly and by " + std::string(suffix), "unset one of them");
        continue;
      }
      std::string why;
      auto content = read_value_file(value, why);
      if (!content) {
        complain(severity::error, thing, "the file \"" + value + "\" " + why, "name a readable file with the value");
        continue;
      }
      value = std::move(*content);
    }
    if (value.find('\0') != std::string::npos) {
      complain(severity::error, thing, "a NUL byte in the value", "remove it");
      continue;
    }
    if (to.set(existing_section(to, decoded->section), decoded->key, std::move(value), where)) result.changed = true;
  }
  return result;
}

std::vector<std::string> process_environment() {
  std::vector<std::string> out;
  for (auto** at = environ; at && *at; ++at) out.emplace_back(*at);
  return out;
}

}  // namespace caravan::config
