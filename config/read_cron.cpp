#include "config/read_cron.hpp"

#include "config/read_settings.hpp"
#include "config/reader.hpp"
#include "config/registry.hpp"
#include "config/values.hpp"

#include <algorithm>
#include <array>

namespace caravan::config {

namespace {

constexpr std::string_view prefix = "cron.";

bool is_task_name(std::string_view name) { return is_valid_name(name) && name.find('.') == std::string_view::npos; }

/// "cause; remedy" as the two parts of a problem.
void complain_with(reader& in, std::string_view key, const std::string& text) {
  const auto at = text.rfind("; ");
  if (at == std::string::npos) return in.complain(key, text, "see docs/cron.md for what can stand here");
  in.complain(key, text.substr(0, at), text.substr(at + 2));
}

void read_schedule(reader& in, cron_settings& out, std::chrono::sys_seconds now) {
  out.schedule = in.text("SCHEDULE");
  out.time_zone = in.text("TIME_ZONE");
  out.dialect = in.choice("DIALECT") == 1 ? cron_dialect::extended : cron_dialect::standard;
  if (out.schedule.empty()) return;
  const auto parsed = caravan::schedule::parse(out.schedule, {out.dialect, out.time_zone, out.name});
  if (!parsed) return complain_with(in, "SCHEDULE", parsed.failure().text);
  if (const auto fires = parsed->fires_after(now); !fires) return complain_with(in, "SCHEDULE", fires.failure().text);
  const auto warning = parsed->warning();
  if (const auto at = warning.rfind("; "); at != std::string::npos)
    in.complain("SCHEDULE", warning.substr(0, at), warning.substr(at + 2), severity::warning);
}

void read_push(reader& in, cron_settings& out) {
  const auto text = in.text("PUSH");
  const auto value = trim(text);
  const auto end = std::min(value.find_first_of(" \t"), value.size());
  out.queue = std::string(value.substr(0, end));
  out.payload = std::string(trim(value.substr(end)));
  if (!is_valid_name(out.queue))
    in.complain("PUSH", shown(out.queue) + " is no name of a queue", "write for example PUSH = mail {\"to\": \"all\"}");
  else if (out.payload.empty())
    in.complain("PUSH", "there is no item behind the queue's name", "write for example PUSH = " + out.queue + " {}");
}

void read_action(reader& in, cron_settings& out) {
  std::vector<std::string> set;
  for (const auto* key : {"PUSH", "EXEC", "HTTP"})
    if (!in.text(key).empty()) set.emplace_back(key);
  if (set.size() > 1)
    return in.complain(set[1], "the task has " + set[0] + " as well, and can do one thing only", "remove one of them");
  if (set.empty()) return;
  if (set[0] == "PUSH") {
    out.action = cron_action::push;
    read_push(in, out);
  } else {
    out.action = set[0] == "EXEC" ? cron_action::exec : cron_action::http;
    out.target = in.text(set[0]);
    if (out.action == cron_action::http && !out.target.starts_with("http://") && !out.target.starts_with("https://"))
      in.complain("HTTP", shown(out.target) + " is no URL", "write http://... or https://...");
  }
  if (out.enabled && out.schedule.empty())
    in.complain("SCHEDULE", "the task is enabled and has none",
                "set SCHEDULE, or ENABLED = false to run it by hand only");
}

std::string description_of(const cron_settings& s) {
  switch (s.action) {
    case cron_action::push:
      return "Pushes an item to the queue " + s.queue;
    case cron_action::exec:
      return "Runs a command";
    case cron_action::http:
      return "Calls a URL";
    case cron_action::none:
      break;
  }
  return {};
}

cron_settings read_keys(reader& in, std::string_view name, std::chrono::sys_seconds now) {
  cron_settings out;
  out.name = name;
  out.enabled = in.boolean("ENABLED");
  out.run_at_start = in.boolean("RUN_AT_START");
  out.notice_on_success = in.boolean("NOTICE_ON_SUCCESS");
  out.jitter = in.duration("JITTER");
  out.timeout = in.duration("TIMEOUT");
  out.missed = in.choice("MISSED") == 1 ? missed_mode::once : missed_mode::skip;
  out.overlap = in.choice("OVERLAP") == 1 ? overlap_mode::queue : overlap_mode::skip;
  read_schedule(in, out, now);
  read_action(in, out);
  out.description = in.text("DESCRIPTION");
  if (out.description.empty()) out.description = description_of(out);
  return out;
}

void read_own_keys(const ini& from, const std::string& section, own_keys& out) {
  for (const auto& s : from.sections()) {
    if (s.name == section) {
      for (const auto& e : s.entries)
        if (!find_key_spec(section, e.key)) out.add({e.key, e.value, e.where});
    } else if (s.name.starts_with(section + ".")) {
      const auto sub = s.name.substr(section.size() + 1) + ".";
      for (const auto& e : s.entries) out.add({sub + e.key, e.value, e.where});
    }
  }
}

error wrong(const own_key& k, const std::string& why, const std::string& remedy) {
  return to_error({{severity::error, k.where, k.key, why, remedy}});
}

}  // namespace

const own_key* own_keys::find(std::string_view key) const noexcept {
  for (const auto& k : keys_)
    if (k.key == key) return &k;
  return nullptr;
}

std::string own_keys::text(std::string_view key, std::string_view fallback) const {
  const auto* k = find(key);
  return k && !k->value.empty() ? k->value : std::string(fallback);
}

expected<bool> own_keys::boolean(std::string_view key, bool fallback) const {
  const auto* k = find(key);
  if (!k || k->value.empty()) return fallback;
  if (const auto value = parse_boolean(k->value)) return *value;
  return wrong(*k, shown(k->value) + " is neither true nor false", "write true or false");
}

expected<std::int64_t> own_keys::integer(std::string_view key, std::int64_t fallback) const {
  const auto* k = find(key);
  if (!k || k->value.empty()) return fallback;
  if (const auto value = parse_integer(k->value)) return *value;
  return wrong(*k, shown(k->value) + " is no whole number", "write for example 100");
}

expected<std::chrono::nanoseconds> own_keys::duration(std::string_view key, std::chrono::nanoseconds fallback) const {
  const auto* k = find(key);
  if (!k || k->value.empty()) return fallback;
  if (const auto value = parse_duration(k->value)) return *value;
  return wrong(*k, shown(k->value) + " is no duration", "write for example 90 (seconds), 500ms or 1h30m");
}

own_keys own_keys::nested(std::string_view sub) const {
  own_keys out;
  const auto start = std::string(sub) + ".";
  for (const auto& k : keys_)
    if (k.key.starts_with(start)) out.add({k.key.substr(start.size()), k.value, k.where});
  return out;
}

expected<void> own_keys::only(const std::vector<std::string_view>& known) const {
  for (const auto& k : keys_) {
    if (std::find(known.begin(), known.end(), k.key) != known.end()) continue;
    const auto near = nearest(k.key, known);
    return wrong(k, "the task has no such key", near.empty() ? "remove it" : "did you mean " + std::string(near) + "?");
  }
  return {};
}

std::vector<std::string> cron_names(const ini& from) {
  std::vector<std::string> out;
  for (const auto& s : from.sections()) {
    if (!s.name.starts_with(prefix) || s.name.size() == prefix.size()) continue;
    auto name = s.name.substr(prefix.size());
    name.resize(std::min(name.find('.'), name.size()));
    if (std::find(out.begin(), out.end(), name) == out.end()) out.push_back(std::move(name));
  }
  return out;
}

cron_settings read_cron_settings(const ini& from, std::string_view name, std::chrono::sys_seconds now,
                                 problems& found) {
  const auto section = std::string(prefix) + std::string(name);
  if (!is_task_name(name)) {
    const auto* there = from.find_section(section);
    report(found, {severity::error, there ? there->where : origin{}, "task " + shown(name),
                   "this is no name for a task", "use up to 128 letters, digits, - and _"});
    return {};
  }
  reader in(from, section, found);
  if (from.find(section, "STORE", lookup::strict))
    in.complain("STORE", "all tasks have one place", "put it into [cron]");
  auto out = read_keys(in, name, now);
  read_own_keys(from, section, out.own);
  return out;
}

expected<cron_settings> read_cron_settings(const ini& from, std::string_view name, std::chrono::sys_seconds now) {
  problems found;
  auto out = read_cron_settings(from, name, now, found);
  if (has_errors(found)) return to_error(found);
  return out;
}

expected<cron_store_type> read_cron_store(const ini& from) {
  problems found;
  reader in(from, "cron", found);
  const auto out = static_cast<cron_store_type>(in.choice("STORE"));
  if (has_errors(found)) return to_error(found);
  return out;
}

std::vector<cron_settings> read_cron(const ini& from, std::chrono::sys_seconds now, problems& found) {
  if (const auto* shared = from.find_section("cron"))
    for (const auto& e : shared->entries)
      if (!find_key_spec("cron", e.key))
        report(found, {severity::error, e.where, "[cron] " + e.key,
                       "a key of a task's own has no meaning for all tasks", "put it into [cron.NAME]"});
  reader in(from, "cron", found);
  (void)read_keys(in, "any", now);
  (void)in.choice("STORE");
  std::vector<cron_settings> out;
  for (const auto& name : cron_names(from)) out.push_back(read_cron_settings(from, name, now, found));
  return out;
}

}  // namespace caravan::config
