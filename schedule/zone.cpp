#include "schedule/zone.hpp"

#include "schedule/civil.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>

namespace caravan::calendar {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t largest_file = 1 << 20;

/// What tzdata uses in names. No dot: no way out of the folder, and none of the tables that lie beside the zones.
bool can_be_name(std::string_view name) {
  if (name.empty() || name.size() > 128 || name.front() == '/' || name.back() == '/') return false;
  if (name.find("//") != std::string_view::npos) return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '/' || c == '_' ||
           c == '+' || c == '-';
  });
}

std::string shown(std::string_view text) {
  auto out = std::string(text.substr(0, 80));
  for (auto& c : out)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  return "\"" + out + "\"";
}

fs::path folder() {
  const char* named = std::getenv("TZDIR");
  return named && *named ? named : "/usr/share/zoneinfo";
}

std::optional<std::string> read_file(const fs::path& path) {
  std::error_code failed;
  if (!fs::is_regular_file(path, failed) || failed) return std::nullopt;
  std::ifstream in(path, std::ios::binary);
  if (!in) return std::nullopt;
  std::string bytes(largest_file + 1, '\0');
  in.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  bytes.resize(static_cast<std::size_t>(in.gcount()));
  return bytes;
}

zone_ptr utc() {
  static const auto it = *zone::from_rule("UTC0", "UTC");
  return it;
}

/// Successes only: a zone that is missing may be installed later. There are no more of them than files.
class cache {
public:
  zone_ptr find(const std::string& path) {
    const std::lock_guard lock(mutex_);
    const auto at = zones_.find(path);
    return at == zones_.end() ? nullptr : at->second;
  }
  zone_ptr keep(const std::string& path, zone_ptr fresh) {
    const std::lock_guard lock(mutex_);
    return zones_.emplace(path, std::move(fresh)).first->second;
  }

private:
  std::mutex mutex_;
  std::map<std::string, zone_ptr> zones_;
};

cache& known() {
  static cache it;
  return it;
}

}  // namespace

/// RFC 8536. Every read is checked: a file may end anywhere and hold anything.
class tzif_reader {
public:
  tzif_reader(std::string_view bytes, const std::string& name) : rest_(bytes), name_(name) {}

  expected<zone_ptr> read() {
    header first;
    if (rest_.size() > largest_file || !read_header(first)) return refuse("it is no time zone file");
    if (first.version < 2) return refuse("it is of version 1, which ends with the year 2037; install a newer tzdata");
    header second;
    if (!skip(data_length(first, 4)) || !read_header(second) || second.version < 2) return damaged();
    if (second.leap_count != 0)
      return refuse("it counts leap seconds, which system clocks do not; take the zone without \"right/\"");
    if (second.type_count == 0 || second.type_count > 256) return damaged();
    if (rest_.size() < data_length(second, 8)) return damaged();
    return read_data(second);
  }

private:
  struct header {
    int version = 0;
    std::uint32_t isut_count = 0, isstd_count = 0, leap_count = 0, time_count = 0, type_count = 0, char_count = 0;
  };

  error refuse(std::string why) const {
    return {errc::not_supported, "time zone " + shown(name_) + ": " + std::move(why)};
  }
  error damaged() const { return refuse("its file is damaged; install tzdata again"); }

  std::uint64_t big_endian(std::size_t at, std::size_t length) const {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < length; ++i) value = value << 8 | static_cast<unsigned char>(rest_[at + i]);
    return value;
  }

  bool skip(std::size_t length) {
    if (rest_.size() < length) return false;
    rest_.remove_prefix(length);
    return true;
  }

  bool read_header(header& out) {
    if (rest_.size() < 44 || !rest_.starts_with("TZif")) return false;
    out.version = rest_[4] >= '2' && rest_[4] <= '9' ? rest_[4] - '0' : 1;
    std::size_t at = 20;
    for (auto* count :
         {&out.isut_count, &out.isstd_count, &out.leap_count, &out.time_count, &out.type_count, &out.char_count}) {
      *count = static_cast<std::uint32_t>(big_endian(at, 4));
      at += 4;
    }
    rest_.remove_prefix(44);
    return true;
  }

  static std::size_t data_length(const header& h, std::size_t time_size) {
    return h.time_count * time_size + h.time_count + std::size_t{h.type_count} * 6 + h.char_count +
           h.leap_count * (time_size + 4) + h.isstd_count + h.isut_count;
  }

  expected<zone_ptr> read_data(const header& h) {
    auto out = std::make_shared<zone>();
    out->name_ = name_;
    const std::size_t indexes = std::size_t{h.time_count} * 8;
    const auto types = indexes + h.time_count;
    std::vector<std::int32_t> offsets;
    for (std::size_t i = 0; i < h.type_count; ++i) {
      const auto offset = static_cast<std::int32_t>(static_cast<std::uint32_t>(big_endian(types + i * 6, 4)));
      if (offset < -26 * 3600 || offset > 26 * 3600) return damaged();
      offsets.push_back(offset);
    }
    out->first_offset_ = offsets[0];
    for (std::size_t i = 0; i < h.time_count; ++i) {
      const auto at = std::clamp(static_cast<std::int64_t>(big_endian(i * 8, 8)), long_ago, never);
      const auto type = static_cast<unsigned char>(rest_[indexes + i]);
      if (type >= offsets.size()) return damaged();
      if (!out->transitions_.empty() && at <= out->transitions_.back().at) return damaged();
      out->transitions_.push_back({at, offsets[type]});
    }
    rest_.remove_prefix(data_length(h, 8));
    const auto end = rest_.starts_with('\n') ? rest_.find('\n', 1) : std::string_view::npos;
    if (end == std::string_view::npos) return damaged();
    if (const auto rule = rest_.substr(1, end - 1); !rule.empty()) {
      out->rule_ = posix_rule::parse(rule);
      if (!out->rule_) return damaged();
    }
    return zone_ptr(std::move(out));
  }

  std::string_view rest_;
  const std::string& name_;
};

expected<zone_ptr> zone::parse(std::string_view bytes, const std::string& name) {
  return tzif_reader(bytes, name).read();
}

std::optional<zone_ptr> zone::from_rule(std::string_view rule, const std::string& name) {
  auto parsed = posix_rule::parse(rule);
  if (!parsed) return std::nullopt;
  auto out = std::make_shared<zone>();
  out->name_ = name;
  out->first_offset_ = parsed->standard_offset();
  out->rule_ = *parsed;
  return out;
}

expected<zone_ptr> zone::find(const std::string& name) {
  if (name.empty() || name == "UTC") return utc();
  if (name == "Local") return machine();
  const auto unknown = [&](const std::string& why) {
    return error{errc::invalid_argument,
                 "time zone " + shown(name) + ": " + why + "; write a name of tzdata such as Europe/Berlin, or UTC"};
  };
  if (!can_be_name(name)) return unknown("no zone can have this name");
  const auto base = folder();
  const auto path = base / name;
  if (auto found = known().find(path.string())) return found;
  const auto bytes = read_file(path);
  if (!bytes) {
    std::error_code failed;
    if (!fs::is_directory(base, failed))
      return error{errc::not_supported, "time zone " + shown(name) + ": there is no " + base.string() +
                                            "; install the package tzdata, or set TZDIR"};
    return unknown("there is none of this name in " + base.string());
  }
  auto fresh = parse(*bytes, name);
  if (!fresh) return fresh;
  return known().keep(path.string(), std::move(*fresh));
}

expected<zone_ptr> zone::machine() {
  if (const char* named = std::getenv("TZ")) {
    auto text = std::string_view(named);
    if (text.starts_with(':')) text.remove_prefix(1);
    if (text.empty()) return utc();
    if (text == "Local")
      return error{errc::invalid_argument, "TZ=Local: this names no zone; write for example Europe/Berlin"};
    auto found = find(std::string(text));
    if (found) return found;
    if (auto rule = from_rule(text, std::string(text))) return *rule;
    return error{found.failure().code, "environment variable TZ: " + found.failure().text};
  }
  const fs::path local = "/etc/localtime";
  std::error_code failed;
  const auto target = fs::canonical(local, failed);
  if (failed) return utc();
  const auto text = target.generic_string();
  constexpr std::string_view mark = "/zoneinfo/";
  if (const auto at = text.find(mark); at != std::string::npos)
    if (auto found = find(text.substr(at + mark.size()))) return found;
  const auto bytes = read_file(local);
  if (!bytes) return utc();
  return parse(*bytes, "Local");
}

segment zone::at(std::int64_t instant) const {
  if (transitions_.empty()) return rule_ ? by_rule(instant) : segment{long_ago, never, first_offset_};
  if (instant < transitions_.front().at) return {long_ago, transitions_.front().at, first_offset_};
  if (instant >= transitions_.back().at && rule_) return by_rule(instant);
  const auto after = std::upper_bound(transitions_.begin(), transitions_.end(), instant,
                                      [](std::int64_t t, const transition& x) { return t < x.at; });
  return {(after - 1)->at, after == transitions_.end() ? never : after->at, (after - 1)->offset};
}

segment zone::by_rule(std::int64_t instant) const {
  auto out = transitions_.empty() ? segment{long_ago, never, first_offset_}
                                  : segment{transitions_.back().at, never, transitions_.back().offset};
  if (!rule_->has_changes()) {
    if (transitions_.empty()) out.offset = rule_->standard_offset();
    return out;
  }
  const auto begin_of_rule = out.begin;
  const auto year = civil_from_days(day_of(std::clamp(instant, earliest, latest))).year;
  std::array<transition, 6> around;
  for (auto i = 0; i < 3; ++i) {
    const auto changes = rule_->changes(year - 1 + i);
    std::copy(changes.begin(), changes.end(), around.begin() + i * 2);
  }
  // Summer time for all of the year is written as an end that is the next begin; the begin counts.
  std::stable_sort(around.begin(), around.end(), [&](const transition& a, const transition& b) {
    if (a.at != b.at) return a.at < b.at;
    return a.offset == rule_->standard_offset() && b.offset != rule_->standard_offset();
  });
  for (const auto& change : around) {
    if (change.at <= begin_of_rule) continue;
    if (change.at > instant) {
      out.end = change.at;
      break;
    }
    out.begin = change.at;
    out.offset = change.offset;
  }
  return out;
}

}  // namespace caravan::calendar
