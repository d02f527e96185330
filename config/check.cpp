#include "config/check.hpp"

#include "config/read_cron.hpp"
#include "config/read_settings.hpp"
#include "config/registry.hpp"
#include "config/values.hpp"

#include <algorithm>
#include <chrono>
#include <string>
#include <string_view>
#include <vector>

namespace caravan::config {

namespace {

bool is_removed(std::string_view section, std::string_view key) {
  const auto removed = removed_keys();
  return std::any_of(removed.begin(), removed.end(),
                     [&](const removed_key& k) { return k.section == section && k.key == key; });
}

std::string thing(const section& s) { return "[" + s.name + "]"; }

// A setting that does nothing is a mistake somebody relies on: it stops the start.
problem wrong(origin where, std::string what, std::string cause, std::string remedy) {
  return {severity::error, std::move(where), std::move(what), std::move(cause), std::move(remedy)};
}

problem warn(origin where, std::string what, std::string cause, std::string remedy) {
  return {severity::warning, std::move(where), std::move(what), std::move(cause), std::move(remedy)};
}

void check_unknown_section(const section& s, problems& found) {
  if (!s.entries.empty() &&
      std::all_of(s.entries.begin(), s.entries.end(), [&](const entry& e) { return is_removed(s.name, e.key); }))
    return;  // each of its keys is reported with a better remedy
  if (s.name.empty()) {
    for (const auto& e : s.entries)
      report(found, wrong(e.where, e.key, "it stands outside any section and does nothing", "put it below a [section]"));
    return;
  }
  std::vector<std::string_view> names;
  for (const auto& known : all_sections()) names.push_back(known.name);
  const auto dot = std::min(s.name.find('.'), s.name.size());
  const auto near = nearest(std::string_view(s.name).substr(0, dot), names);
  auto remedy = std::string("remove it, or see \"caravan config explain\" for what there is");
  if (!near.empty()) {
    const auto* spec = find_section_spec(near);
    const auto child = spec && !spec->child.empty() && s.name.size() > dot + 1 ? s.name.substr(dot) : std::string();
    remedy = "did you mean [" + std::string(near) + child + "]?";
  }
  report(found, wrong(s.where, thing(s), "there is no such section", remedy));
}

void check_key(const section& s, const section_spec& spec, const entry& e, problems& found) {
  if (find_key_spec(s.name, e.key) || is_removed(s.name, e.key)) return;
  const auto what = thing(s) + " " + e.key;
  std::vector<std::string_view> own;
  for (const auto& k : all_keys())
    if (k.section == spec.name) own.push_back(k.key);
  if (const auto near = nearest(e.key, own); !near.empty()) {
    report(found, wrong(e.where, what, "there is no such key", "did you mean " + std::string(near) + "?"));
    return;
  }
  if (spec.open) return;
  for (const auto& k : all_keys())
    if (k.key == e.key) {
      report(found, wrong(e.where, what, "this key has no meaning here",
                         "put it into " + places(*find_section_spec(k.section))));
      return;
    }
  report(found, wrong(e.where, what, "there is no such key",
                     "remove it, or see \"caravan config explain " + std::string(spec.name) + "\""));
}

/// The order of the file; what the environment set comes last.
void sort(problems& found) {
  std::stable_sort(found.begin(), found.end(), [](const problem& a, const problem& b) {
    const auto place = [](const problem& x) { return std::pair(!x.where.variable.empty(), x.where.line); };
    return place(a) < place(b);
  });
}

}  // namespace

problems check(const ini& from) {
  problems found;
  for (const auto& s : from.sections()) {
    const auto* spec = find_section_spec(s.name);
    if (!spec) {
      if (!s.name.empty() || !s.entries.empty()) check_unknown_section(s, found);
      continue;
    }
    if (!spec->supported)
      report(found, warn(s.where, thing(s), "not supported by this version: nothing in it has an effect",
                         "remove it, or use a version that does"));
    for (const auto& e : s.entries) check_key(s, *spec, e, found);
  }
  check_shared_queue_settings(from, found);
  (void)read_cron(from, std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now()), found);
  const auto node = read_settings(from, found).node;
  // Any queue may come to life with the settings of [queue] alone.
  if (node.auto_create) (void)read_queue_settings(from, "any-other", node.data_dir, found);

  sort(found);
  return found;
}

problems check(const parsed_ini& from) {
  auto found = from.found;
  for (auto& x : check(from.content)) report(found, std::move(x));
  sort(found);
  return found;
}

}  // namespace caravan::config
