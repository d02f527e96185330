#include "nodes/cache_host.hpp"

#include "config/read_cache.hpp"
#include "config/values.hpp"
#include "integration/cache/memory_cache.hpp"
#include "integration/cache/read_through_cache.hpp"
#include "integration/cache/two_queue_cache.hpp"
#include "integration/memcached/memcached_cache.hpp"
#include "integration/redis/redis_cache.hpp"

#include <algorithm>
#include <thread>
#include <utility>

namespace caravan {

namespace {

using config::cache_adapter_type;

std::string shown_name(const std::string& name) { return name.empty() ? std::string(default_cache) : name; }
std::string section_of(const std::string& name) { return name.empty() ? "cache" : "cache." + name; }
/// Of "default" the empty name that settings use.
std::string real_name(std::string_view name) { return name == default_cache ? std::string() : std::string(name); }

bool is_outside(cache_adapter_type type) {
  return type == cache_adapter_type::redis || type == cache_adapter_type::memcache;
}

error no_address(const config::cache_settings& s, const char* engine, const char* remedy) {
  return {errc::invalid_argument, "cache \"" + shown_name(s.name) + "\": no " + engine + " is named; set HOST in [" +
                                      section_of(s.name) + "]" + remedy};
}

}  // namespace

cache_host::cache_host(parts p) : parts_(std::move(p)) {}

std::shared_ptr<cache_host::entry> cache_host::entry_of(const std::string& name) {
  const std::lock_guard lock(mutex_);
  auto& e = entries_[name];
  if (!e) e = std::make_shared<entry>();
  return e;
}

void cache_host::open_configured(const std::vector<config::cache_settings>& all) {
  std::vector<std::jthread> threads;
  for (const auto& s : all) {
    if (!parts_.from->find_section(section_of(s.name))) continue;
    // Without an address it may only be what the named ones inherit from; whoever opens it is told.
    if (is_outside(s.adapter) && s.conn.empty()) continue;
    threads.emplace_back([this, name = s.name] {
      if (const auto opened = open(name); !opened) parts_.log->error("cache", opened.failure().text);
    });
  }
}

expected<string_cache> cache_host::open(std::string_view asked) {
  const auto name = real_name(asked);
  {
    const std::lock_guard lock(mutex_);
    if (const auto it = entries_.find(name); it != entries_.end() && it->second->is_open) return it->second->cache;
  }
  auto s = config::read_cache_settings(*parts_.from, name);
  if (!s) return s.failure();
  const auto e = entry_of(name);
  const std::lock_guard one_opens(e->opening);
  {
    const std::lock_guard lock(mutex_);
    if (e->is_open) return e->cache;
  }
  string_cache cache;
  if (s->enabled) {
    auto port = make(*s);
    if (!port) return port.failure();
    cache = string_cache(std::move(*port));
  }
  const std::lock_guard lock(mutex_);
  e->is_open = true;
  e->cache = cache;
  return cache;
}

expected<string_cache> cache_host::open_known(std::string_view asked) {
  const auto name = real_name(asked);
  if (!name.empty()) {
    std::vector<std::string> names{std::string(default_cache)};
    for (const auto& l : list()) names.push_back(shown_name(l.settings.name));
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      const std::vector<std::string_view> views(names.begin(), names.end());
      const auto near = config::nearest(name, views);
      return {errc::not_found, "there is no cache \"" + name.substr(0, 128) + "\" on this node" +
                                   (near.empty() ? "; add [cache.NAME] to its configuration"
                                                 : "; did you mean \"" + std::string(near) + "\"?")};
    }
  }
  return open(name);
}

std::vector<cache_host::listed> cache_host::list() const {
  std::vector<std::string> names{""};
  const auto add = [&](const std::string& name) {
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  };
  for (const auto& name : config::cache_names(*parts_.from)) add(name);
  std::vector<std::pair<std::string, string_cache>> open;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [name, e] : entries_)
      if (e->is_open) open.emplace_back(name, e->cache);
  }
  for (const auto& [name, cache] : open) add(name);
  std::vector<listed> out;
  for (const auto& name : names) {
    config::problems told_at_the_start;
    listed l{config::read_cache_settings(*parts_.from, name, told_at_the_start), {}};
    for (const auto& [opened, cache] : open)
      if (opened == name) l.cache = cache;
    out.push_back(std::move(l));
  }
  return out;
}

std::shared_ptr<redis_client> cache_host::client_of(const std::string& conn_str, config::redis_address address) {
  const std::lock_guard lock(mutex_);
  auto& client = clients_[conn_str];
  if (!client) client = std::make_shared<redis_client>(redis_cache_options(std::move(address)));
  return client;
}

expected<std::unique_ptr<cache_adapter>> cache_host::adapter_of(const config::cache_settings& s) {
  using made = expected<std::unique_ptr<cache_adapter>>;
  switch (s.adapter) {
    case cache_adapter_type::memory: {
      memory_cache_options o;
      o.sweep_interval = s.interval;
      return made(std::make_unique<memory_cache>(o));
    }
    case cache_adapter_type::twoqueue:
      return made(std::make_unique<two_queue_cache>(
          toolbox::two_queue_options{s.two_queue.size, s.two_queue.recent_ratio, s.two_queue.ghost_ratio}));
    case cache_adapter_type::redis: {
      if (s.conn.empty()) return no_address(s, "Redis", ", or CONN_STR in [redis]");
      auto address = config::parse_redis_address(s.conn);
      if (!address) return address.failure();
      return made(std::make_unique<redis_cache>(client_of(s.conn, std::move(*address)), s.prefix));
    }
    case cache_adapter_type::memcache: {
      if (s.hosts.empty()) return no_address(s, "memcached", ", for example to 127.0.0.1:11211");
      memcached_options o;
      o.hosts = s.hosts;
      o.prefix = s.prefix;
      try {
        return made(std::make_unique<memcached_cache>(std::move(o)));
      } catch (const exception& e) {
        return {e.why().code, "cache \"" + shown_name(s.name) + "\": " + e.why().text};
      }
    }
  }
  return {errc::invalid_argument, "cache \"" + shown_name(s.name) + "\": its ADAPTER is none that this version knows"};
}

expected<std::shared_ptr<cache_port>> cache_host::make(const config::cache_settings& s) {
  auto made = adapter_of(s);
  if (!made) return made.failure();
  auto& engine = **made;
  read_through_options o;
  o.item_ttl = s.item_ttl;
  if (s.adapter == cache_adapter_type::memcache) o.rest = std::chrono::milliseconds{0};
  const auto port = std::make_shared<read_through_cache>(std::move(*made), o);
  if (is_outside(s.adapter)) look_at(s, engine, *port);
  return std::shared_ptr<cache_port>(port);
}

// Nobody is kept from a cache whose engine is down: it may come later.
void cache_host::look_at(const config::cache_settings& s, cache_adapter& engine, cache_port& port) const {
  constexpr int tries = 10;
  const auto name = shown_name(s.name);
  const auto trouble = [&](const std::string& text) {
    parts_.log->error("cache", text, {{"cache", name}});
    if (parts_.on_trouble) parts_.on_trouble(name, text);
  };
  if (const auto there = wait_for_engine(engine, tries, parts_.sleep); !there)
    return trouble(there.failure().text + "; until it answers, what is read through this cache is loaded each time");
  const auto tested = port.self_test();
  if (!tested) return trouble("the self test failed: " + tested.failure().text);
  if (tested->slow)
    parts_.log->warn("cache",
                     engine.name() + " is slow: remove, put and get of one key took " +
                         std::to_string(std::chrono::round<std::chrono::milliseconds>(tested->took).count()) +
                         " ms, more than " + std::to_string(slow_cache_threshold.count()) +
                         " ms; look at that server and the network to it",
                     {{"cache", name}});
}

}  // namespace caravan
