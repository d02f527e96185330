#include "config/reader.hpp"

#include "config/redis_address.hpp"
#include "config/values.hpp"

#include <algorithm>
#include <cassert>

namespace caravan::config {

namespace {

std::string written(value_type type, std::int64_t value) {
  if (type == value_type::duration) return format_duration(std::chrono::nanoseconds(value));
  if (type == value_type::bytes) return format_bytes(value);
  return std::to_string(value);
}

std::string_view kind(value_type type) {
  if (type == value_type::duration) return "duration";
  if (type == value_type::bytes) return "size";
  return "whole number";
}

std::string_view example(value_type type) {
  if (type == value_type::duration) return "90 (seconds), 500ms or 1h30m";
  if (type == value_type::bytes) return "4096, 512KiB or 8MiB";
  return "100";
}

}  // namespace

std::string shown(std::string_view value) {
  auto out = mask_secrets(value);
  if (out.size() > 80) out = out.substr(0, 77) + "...";
  for (auto& c : out)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  return "\"" + out + "\"";
}

std::string absolute_path(const std::filesystem::path& base, const std::filesystem::path& path) {
  auto out = std::filesystem::absolute(base / path).lexically_normal();
  if (!out.has_filename() && out.has_relative_path()) out = out.parent_path();  // "data/" and "data" are one directory
  return out.generic_string();
}

const key_spec& reader::spec_of(std::string_view key) const {
  const auto* spec = find_key_spec(section_, key);
  assert(spec && "a key must be in the registry before it is read");
  return *spec;
}

void reader::complain(std::string_view key, std::string cause, std::string remedy, severity level) {
  const auto at = from_.locate(section_, key);
  const auto section = at.what ? std::string(at.section) : section_;
  report(found_, {level, at.what ? at.what->where : origin{}, "[" + section + "] " + std::string(key), std::move(cause),
                  std::move(remedy)});
}

std::string reader::text(std::string_view key) {
  const auto at = from_.locate(section_, key);
  return at.what ? at.what->value : default_value(spec_of(key));
}

bool reader::boolean(std::string_view key) {
  const auto value = text(key);
  if (const auto parsed = parse_boolean(value)) return *parsed;
  complain(key, shown(value) + " is neither true nor false", "write true or false");
  return parse_boolean(spec_of(key).fallback).value_or(false);
}

std::optional<std::int64_t> reader::parse(const key_spec& spec, std::string_view text) const {
  if (spec.type == value_type::integer) return parse_integer(text);
  if (spec.type == value_type::bytes) return parse_bytes(text);
  const auto value = parse_duration(text);
  return value ? std::optional<std::int64_t>(value->count()) : std::nullopt;
}

std::optional<std::int64_t> reader::number(std::string_view key) {
  const auto& spec = spec_of(key);
  const auto name = std::string(key);
  const auto fallback = parse(spec, default_value(spec));
  const auto at = from_.locate(section_, key);
  if (!at.what) return fallback;
  const auto value = parse(spec, at.what->value);
  if (!value) {
    complain(key, shown(at.what->value) + " is no " + std::string(kind(spec.type)),
             "write for example " + std::string(example(spec.type)));
    return fallback;
  }
  const auto bounds = range(spec);
  if (bounds && *value < bounds->least) {
    if (spec.below == too_small::means_no_limit) return std::nullopt;
    if (spec.below == too_small::means_default) {
      complain(key, written(spec.type, *value) + " means the default, " + written(spec.type, *fallback),
               "write what you want, or remove the key", severity::warning);
      return fallback;
    }
    complain(key, shown(at.what->value) + " is less than " + written(spec.type, bounds->least),
             "write a value from " + std::string(spec.bounds));
    return fallback;
  }
  if (bounds && *value > bounds->most) {
    complain(key, shown(at.what->value) + " is more than " + written(spec.type, bounds->most),
             "write a value from " + std::string(spec.bounds));
    return fallback;
  }
  if (spec.type == value_type::duration && *value % 1'000'000 != 0) {
    complain(key, shown(at.what->value) + " is finer than a millisecond", "write whole milliseconds");
    return fallback;
  }
  return value;
}

std::chrono::milliseconds reader::duration(std::string_view key) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::nanoseconds(number(key).value_or(0)));
}

std::size_t reader::choice(std::string_view key) {
  const auto& spec = spec_of(key);
  const auto known = choices(spec);
  const auto place = [&](std::string_view value) {
    return std::find(known.begin(), known.end(), value) - known.begin();
  };
  const auto value = text(key);
  const auto at = static_cast<std::size_t>(place(value));
  if (at < known.size()) return at;
  const auto near = nearest(value, known);
  complain(key, shown(value) + " is none of " + std::string(spec.bounds),
           near.empty() ? "write one of them" : "did you mean " + std::string(near) + "?");
  return static_cast<std::size_t>(place(spec.fallback));
}

std::string reader::path(std::string_view key, const std::filesystem::path& base) {
  const auto value = text(key);
  return value.empty() ? value : absolute_path(base, value);
}

}  // namespace caravan::config
