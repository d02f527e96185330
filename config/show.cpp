#include "config/show.hpp"

#include "config/environment.hpp"
#include "config/read_cache.hpp"
#include "config/read_settings.hpp"
#include "config/redis_address.hpp"
#include "config/registry.hpp"
#include "config/values.hpp"

#include <algorithm>

namespace caravan::config {

namespace {

std::string masked(value_type type, std::string_view value) {
  if (type == value_type::secret) return value.empty() ? "" : "***";
  return mask_secrets(value);
}

bool names_secret(std::string_view key) {
  std::string upper(key);
  for (auto& c : upper)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  for (const auto* word : {"TOKEN", "PASSW", "SECRET", "API_KEY"})
    if (upper.find(word) != std::string::npos) return true;
  return false;
}

/// Keys that the registry does not know may hold anything.
shown_setting as_written(const section& s, const entry& e) {
  const auto* spec = find_key_spec(s.name, e.key);
  const auto type = spec ? spec->type : names_secret(e.key) ? value_type::secret : value_type::text;
  return {s.name, e.key, masked(type, e.value), e.where};
}

void show_section(const ini& from, const std::string& name, std::string_view family, std::vector<shown_setting>& out) {
  for (const auto& k : all_keys()) {
    if (k.section != family) continue;
    shown_setting line{name, std::string(k.key), {}, {}};
    if (family == "queue" && k.key == "CONN_STR") {
      const auto child =
          name.size() > family.size() ? std::string_view(name).substr(family.size() + 1) : std::string_view();
      const auto type = parse_queue_type(from.get(name, "TYPE", "level")).value_or(queue_type::level);
      auto conn =
          child.empty() ? sourced_text{from.get(name, "CONN_STR"), {}, name} : queue_conn_str(from, child, type);
      if (child.empty())
        if (const auto at = from.locate(name, "CONN_STR"); at.what) conn.where = at.what->where;
      line.value = masked(k.type, conn.value);
      line.where = conn.where;
    } else if (family == "cache" && k.key == "HOST") {
      const auto host = cache_host(from, name == family ? std::string_view() : std::string_view(name).substr(6));
      line.value = masked(k.type, host.value);
      if (!host.value.empty()) line.where = host.where;
    } else if (const auto at = from.locate(name, k.key); at.what) {
      line.value = masked(k.type, at.what->value);
      line.where = at.what->where;
    } else {
      line.value = default_value(k);
    }
    out.push_back(std::move(line));
  }
}

std::string_view type_text(value_type type) {
  switch (type) {
    case value_type::text:
      return "text";
    case value_type::path:
      return "path";
    case value_type::boolean:
      return "true or false";
    case value_type::integer:
      return "whole number";
    case value_type::bytes:
      return "size";
    case value_type::duration:
      return "duration";
    case value_type::choice:
      return "one of";
    case value_type::address:
      return "address";
    case value_type::connection:
      return "address or command, shown without passwords";
    case value_type::secret:
      return "secret, never shown";
  }
  return "text";
}

std::string default_text(const key_spec& k) {
  if (k.fallback.empty()) return "empty";
  if (k.fallback.starts_with('<')) return std::string(k.fallback.substr(1, k.fallback.size() - 2));
  return std::string(k.fallback);
}

std::string below_text(const key_spec& k) {
  if (k.below == too_small::means_default) return "0 or less: the default";
  if (k.below == too_small::means_no_limit) return "0 or less: no limit";
  return {};
}

std::string explained(const key_spec& k) {
  const auto& section = *find_section_spec(k.section);
  auto out = std::string(k.key) + " in " + places(section) + "\n  " + std::string(k.text) + ".\n";
  out += "  Type:     " + std::string(type_text(k.type)) + "\n";
  out += "  Default:  " + default_text(k) + "\n";
  if (!k.bounds.empty()) out += "  Values:   " + std::string(k.bounds) + "\n";
  if (const auto below = below_text(k); !below.empty()) out += "            " + below + "\n";
  out += "  Variable: " + encode_variable(k.section, k.key) + "\n";
  if (!section.supported) out += "  Not supported by this version.\n";
  return out;
}

std::string explained(const section_spec& s) {
  auto out = places(s) + "\n  " + std::string(s.text) + ".\n";
  if (!s.supported) out += "  Not supported by this version.\n";
  for (const auto& k : all_keys())
    if (k.section == s.name)
      out += "  " + std::string(k.key) + std::string(k.key.size() < 20 ? 20 - k.key.size() : 1, ' ') +
             std::string(k.text) + "\n";
  return out;
}

/// A | would end the cell.
std::string cell(std::string_view text) {
  std::string out;
  for (const auto c : text) {
    if (c == '|') out += '\\';
    out += c;
  }
  return out;
}

}  // namespace

std::vector<shown_setting> show(const ini& from) {
  std::vector<shown_setting> out;
  for (const auto& s : all_sections()) {
    if (s.supported) show_section(from, std::string(s.name), s.name, out);
    for (const auto& there : from.sections()) {
      if (find_section_spec(there.name) != &s) continue;
      if (!s.supported)
        for (const auto& e : there.entries) out.push_back(as_written(there, e));
      else if (there.name != s.name) {
        // What lies below a child belongs to the child: its keys are no settings of the family.
        const auto below = there.name.find('.', s.name.size() + 1) != std::string::npos && s.open;
        if (!below) show_section(from, there.name, s.name, out);
        for (const auto& e : there.entries)
          if (below || !find_key_spec(there.name, e.key)) out.push_back(as_written(there, e));
      }
    }
  }
  return out;
}

std::string to_text(const std::vector<shown_setting>& list) {
  std::string out;
  std::string_view section;
  for (const auto& line : list) {
    if (line.section != section) {
      section = line.section;
      out += (out.empty() ? "[" : "\n[") + line.section + "]\n";
    }
    ini one;
    one.set("", line.key, line.value, {});
    out += "; " + to_string(line.where) + "\n" + to_text(one);
  }
  return out;
}

expected<std::string> explain(std::string_view name) {
  name = trim(name);
  std::string wanted(name);
  std::string section;
  if (wanted.starts_with('[')) {
    const auto end = std::min(wanted.find(']'), wanted.size());
    section = wanted.substr(1, end - 1);
    wanted = trim(std::string_view(wanted).substr(std::min(end + 1, wanted.size())));
  } else if (find_section_spec(wanted)) {
    const auto dot = wanted.rfind('.');
    if (dot != std::string::npos && find_key_spec(wanted.substr(0, dot), wanted.substr(dot + 1))) {
      section = wanted.substr(0, dot);
      wanted = wanted.substr(dot + 1);
    } else {
      section = wanted;
      wanted.clear();
    }
  } else if (const auto dot = wanted.rfind('.'); dot != std::string::npos) {
    section = wanted.substr(0, dot);
    wanted = wanted.substr(dot + 1);
  }

  const auto* spec = section.empty() ? nullptr : find_section_spec(section);
  std::vector<std::string_view> names;
  if (!section.empty() && !spec) {
    for (const auto& s : all_sections()) names.push_back(s.name);
    const auto near = nearest(section, names);
    return {errc::not_found, "there is no section [" + section + "]" +
                                 (near.empty() ? std::string() : "; did you mean [" + std::string(near) + "]?")};
  }
  if (spec && wanted.empty()) return explained(*spec);
  std::string out;
  if (!spec)
    for (const auto& s : all_sections()) names.push_back(s.name);
  for (const auto& k : all_keys()) {
    if (spec && k.section != spec->name) continue;
    names.push_back(k.key);
    if (k.key == wanted) out += (out.empty() ? "" : "\n") + explained(k);
  }
  if (!out.empty()) return out;
  const auto near = nearest(wanted, names);
  return {errc::not_found, "there is no setting \"" + wanted + "\"" + (spec ? " in [" + section + "]" : std::string()) +
                               (near.empty() ? std::string() : "; did you mean " + std::string(near) + "?")};
}

std::string configuration_page() {
  std::string out = R"(# Configuration

This page is printed from the table in `config/registry.cpp`; the test `config_show` says how to refresh it.

One INI file, and environment variables over it. All sections are optional: an empty file is a node with its defaults.
`caravan config check` tells everything that is wrong or doubtful, with file and line.

## The file

* `KEY = value` or `KEY: value`. Names of sections and keys are case-sensitive. A key set twice: the last one counts. A section that
  comes again goes on where it ended.
* `;` and `#` start a comment, also behind a value, with or without a blank before it, **even inside "double quotes"**. A value that
  holds one stands in backquotes: `` CONN_STR = `redis://:p#ss@127.0.0.1:6379/0` `` (in an address `%23` will do as well).
* Double and single quotes around a value are taken off. Backquotes and `"""` keep everything, also over several lines, up to the last
  such quote of the line.
* A `\` at the end does not continue a line, and indentation means nothing.
* `[queue.mail]` is a child of `[queue]`: what it lacks or leaves empty is taken from there. An empty `CONN_STR` hides that of the parent.
* An empty value means the default.

## Values

* *duration*: `500ms`, `90s`, `1h30m`; a bare number is seconds.
* *size*: `4096`, `512KiB`, `8MiB`; K, M, G and KiB, MiB, GiB count in 1024, KB, MB, GB in 1000.
* *true or false*: also yes and no, on and off, 1 and 0.

A value that is none of these, or out of its bounds, stops the start with a message. It never becomes the default silently.

## Environment

`CARAVAN__SECTION__KEY=value` overrides the file. What a name cannot hold stands as hex bytes: `[queue.mail] LENGTH` is
`CARAVAN__QUEUE_0x2E_MAIL__LENGTH`. With `__FILE` behind it the value is read from the file it names, without the last line break:
`CARAVAN__HTTP__ADMIN_TOKEN__FILE=/run/secrets/admin`. The section is taken in lower case, the key as it is.
)";
  for (const auto& s : all_sections()) {
    out += "\n## " + places(s) + "\n\n" + std::string(s.text) + ".\n";
    if (!s.supported) out += "\nNot supported by this version: a warning says so, and nothing in it has an effect.\n";
    const auto all = all_keys();
    if (std::none_of(all.begin(), all.end(), [&](const key_spec& k) { return k.section == s.name; })) continue;
    out += "\n| key | default | values | what it is |\n| --- | --- | --- | --- |\n";
    for (const auto& k : all) {
      if (k.section != s.name) continue;
      auto values = std::string(k.type == value_type::choice ? "" : type_text(k.type));
      if (!k.bounds.empty()) values += (values.empty() ? "" : ", ") + std::string(k.bounds);
      if (const auto below = below_text(k); !below.empty()) values += "; " + below;
      const auto shown_default =
          k.fallback.empty() || k.fallback.starts_with('<') ? default_text(k) : "`" + default_text(k) + "`";
      out += "| `" + std::string(k.key) + "` | " + cell(shown_default) + " | " + cell(values) + " | " + cell(k.text) +
             " |\n";
    }
  }
  out +=
      "\n## Removed options\n\nA start with one of them stops and names them all.\n\n| option | now |\n| --- | --- |\n";
  for (const auto& r : removed_keys())
    out += "| `[" + std::string(r.section) + "] " + std::string(r.key) + "` | `[" + std::string(r.now) + "]` |\n";
  return out;
}

}  // namespace caravan::config
