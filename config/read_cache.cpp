#include "config/read_cache.hpp"

#include "config/reader.hpp"
#include "config/redis_address.hpp"
#include "config/registry.hpp"
#include "config/values.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cctype>
#include <limits>

namespace caravan::config {

namespace {

constexpr std::string_view two_queue_example =
    "write for example 50000 or {\"size\":50000,\"recent_ratio\":0.25,"
    "\"ghost_ratio\":0.5}";

error no_two_queue(std::string_view text, const std::string& why) {
  return {errc::invalid_argument, shown(text) + " " + why};
}

expected<memcached_host> parse_memcached_host(std::string_view text) {
  const auto wrong = [&](const char* why) { return error{errc::invalid_argument, shown(text) + " " + why}; };
  if (text.starts_with('/')) {
    if (text.size() > 100) return wrong("is too long for the path of a unix socket");
    return memcached_host{std::string(text), 0};
  }
  auto host = text;
  std::string_view port;
  if (text.starts_with('[')) {
    const auto end = text.find(']');
    if (end == std::string_view::npos) return wrong("lacks the ] of its IPv6 address");
    host = text.substr(1, end - 1);
    const auto rest = text.substr(end + 1);
    if (!rest.empty() && !rest.starts_with(':')) return wrong("has something else than a port after its address");
    port = rest.empty() ? rest : rest.substr(1);
    if (!rest.empty() && port.empty()) return wrong("has a colon without a port");
  } else if (const auto colon = text.find(':'); colon != std::string_view::npos) {
    if (text.find(':', colon + 1) != std::string_view::npos) return wrong("holds an IPv6 address without brackets");
    host = text.substr(0, colon);
    port = text.substr(colon + 1);
    if (port.empty()) return wrong("has a colon without a port");
  }
  if (host.empty() || !std::all_of(host.begin(), host.end(), [](char c) {
        return std::isalnum(static_cast<unsigned char>(c)) ||
               std::string_view("-._:%").find(c) != std::string_view::npos;
      }))
    return wrong("holds no host name");
  memcached_host out{std::string(host), 11211};
  if (!port.empty()) {
    const auto number = parse_integer(port);
    if (!number || *number < 1 || *number > 65'535) return wrong("has a port that is not from 1 to 65535");
    out.port = static_cast<std::uint16_t>(*number);
  }
  return out;
}

std::string section_of(std::string_view name) { return name.empty() ? "cache" : "cache." + std::string(name); }

/// `locate` would also look above a section that has its own ADAPTER.
sourced_text own_host(const ini& from, const std::string& section) {
  for (auto at = section;;) {
    if (const auto* here = from.find(at, "HOST", lookup::strict); here && !here->value.empty())
      return {here->value, here->where, at};
    const auto* own = from.find(at, "ADAPTER", lookup::strict);
    const auto dot = at.rfind('.');
    if (dot == std::string::npos || (own && !own->value.empty())) return {"", own ? own->where : origin{}, section};
    at.resize(dot);
  }
}

}  // namespace

std::string to_string(const memcached_host& x) {
  if (x.port == 0) return x.host;
  const bool six = x.host.find(':') != std::string::npos;
  return (six ? "[" + x.host + "]" : x.host) + ":" + std::to_string(x.port);
}

expected<std::vector<memcached_host>> parse_memcached_hosts(std::string_view text) {
  std::vector<memcached_host> out;
  for (auto rest = text; !rest.empty();) {
    const auto end = std::min(rest.find_first_of(";,"), rest.size());
    const auto one = trim(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (one.empty()) continue;
    auto host = parse_memcached_host(one);
    if (!host) return host.failure();
    if (std::find(out.begin(), out.end(), *host) != out.end())
      return {errc::invalid_argument, shown(one) + " is named twice"};
    out.push_back(std::move(*host));
  }
  return out;
}

expected<two_queue_settings> parse_two_queue(std::string_view text) {
  two_queue_settings out;
  const auto value = trim(text);
  if (value.empty()) return out;
  const auto take_size = [&](std::int64_t number) {
    if (number >= 1) out.size = static_cast<std::size_t>(number);
    return number >= 1;
  };
  if (const auto number = parse_integer(value)) {
    if (!take_size(*number)) return no_two_queue(value, "is less than 1");
    return out;
  }
  const auto json = nlohmann::json::parse(value, nullptr, false);
  if (!json.is_object()) return no_two_queue(value, "is neither a size nor a JSON object");
  for (const auto& [key, part] : json.items()) {
    if (key == "size") {
      if (!part.is_number_integer() ||
          (part.is_number_unsigned() &&
           part.get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) ||
          !take_size(part.get<std::int64_t>()))
        return no_two_queue(value, "has a size that is no whole number above 0");
    } else if (key == "recent_ratio" || key == "ghost_ratio") {
      const auto ratio = part.is_number() ? part.get<double>() : -1;
      if (!(ratio >= 0 && ratio <= 1)) return no_two_queue(value, "has a " + key + " that is no number from 0 to 1");
      (key == "recent_ratio" ? out.recent_ratio : out.ghost_ratio) = ratio;
    } else {
      return no_two_queue(value, "has a key " + shown(key) + " that means nothing");
    }
  }
  return out;
}

std::vector<std::string> cache_names(const ini& from) {
  constexpr std::string_view prefix = "cache.";
  std::vector<std::string> out;
  for (const auto& s : from.sections())
    if (s.name.starts_with(prefix) && s.name.size() > prefix.size()) out.push_back(s.name.substr(prefix.size()));
  return out;
}

sourced_text cache_host(const ini& from, std::string_view name) {
  const auto section = section_of(name);
  auto own = own_host(from, section);
  if (!own.value.empty() || from.get(section, "ADAPTER") != "redis") return own;
  if (const auto shared = from.locate("redis", "CONN_STR"); shared.what)
    return {shared.what->value, shared.what->where, "redis"};
  return own;
}

cache_settings read_cache_settings(const ini& from, std::string_view name, problems& found) {
  const auto section = section_of(name);
  if (!name.empty() && !is_valid_name(name)) {
    const auto* there = from.find_section(section);
    report(found, {severity::error, there ? there->where : origin{}, "cache " + shown(name),
                   "this is no name for a cache", "use up to 128 letters, digits, - _ and ."});
  }
  if (name == "default") {
    const auto* there = from.find_section(section);
    report(found, {severity::error, there ? there->where : origin{}, "cache " + shown(name),
                   "\"default\" is how [cache] itself is called", "use another name, or put its keys into [cache]"});
  }
  reader in(from, section, found);
  cache_settings out;
  out.name = name;
  out.enabled = in.boolean("ENABLED");
  out.adapter = static_cast<cache_adapter_type>(in.choice("ADAPTER"));
  out.interval = in.duration("INTERVAL");
  out.item_ttl = in.duration("ITEM_TTL");
  out.prefix = name.empty() ? "caravan:cache" : "caravan:cache." + std::string(name);

  const auto host = cache_host(from, name);
  out.conn = host.value;
  const auto complain = [&](std::string cause, std::string remedy, severity level = severity::error) {
    report(found, {level, host.where, "[" + host.section + "] HOST", std::move(cause), std::move(remedy)});
  };
  switch (out.adapter) {
    case cache_adapter_type::memory:
      if (!out.conn.empty())
        complain("a cache in memory has no host", "remove it, or set ADAPTER = redis, memcache or twoqueue",
                 severity::warning);
      break;
    case cache_adapter_type::redis:
      if (out.conn.empty()) {
        if (out.enabled)
          complain("no Redis is named, so the cache cannot be opened", "set HOST, or CONN_STR in [redis]",
                   severity::warning);
      } else if (const auto address = parse_redis_address(out.conn); !address && host.section != "redis") {
        complain(address.failure().text, "or remove it to use [redis]");  // a wrong [redis] is told there
      }
      break;
    case cache_adapter_type::memcache: {
      auto hosts = parse_memcached_hosts(out.conn);
      if (!hosts)
        complain(hosts.failure().text, "write for example 127.0.0.1:11211 or `10.0.0.1:11211;10.0.0.2:11211`");
      else
        out.hosts = std::move(*hosts);
      if (hosts && out.hosts.empty() && out.enabled)
        complain("no memcached is named, so the cache cannot be opened", "set HOST, for example to 127.0.0.1:11211",
                 severity::warning);
      break;
    }
    case cache_adapter_type::twoqueue:
      if (const auto two_queue = parse_two_queue(out.conn))
        out.two_queue = *two_queue;
      else
        complain(two_queue.failure().text, std::string(two_queue_example));
  }
  return out;
}

expected<cache_settings> read_cache_settings(const ini& from, std::string_view name) {
  problems found;
  auto out = read_cache_settings(from, name, found);
  if (has_errors(found)) return to_error(found);
  return out;
}

}  // namespace caravan::config
