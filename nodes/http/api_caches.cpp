#include "nodes/cache_host.hpp"
#include "nodes/http/api_json.hpp"
#include "nodes/http/api_parts.hpp"
#include "nodes/node_runtime.hpp"

#include <array>

namespace caravan::http {

namespace {

std::string_view word_of(config::cache_adapter_type type) {
  constexpr std::array<std::string_view, 4> words{"memory", "redis", "memcache", "twoqueue"};
  return words[static_cast<std::size_t>(type)];
}

template <class Number>
ordered_json or_null(const std::optional<Number>& n) {
  return n ? ordered_json(*n) : ordered_json(nullptr);
}

ordered_json to_json(cache_host::listed& l) {
  const auto& s = l.settings;
  ordered_json out{{"name", s.name.empty() ? std::string(default_cache) : s.name},
                   {"adapter", word_of(s.adapter)},
                   {"enabled", s.enabled},
                   {"open", static_cast<bool>(l.cache)},
                   {"item_ttl_ms", s.item_ttl.count()}};
  if (!l.cache) return out;
  const auto st = l.cache.statistics();
  if (!st) {
    out["trouble"] = st.failure().text;
    return out;
  }
  out["engine"] = st->adapter;
  out["entries"] = or_null(st->entries);
  out["bytes"] = or_null(st->bytes);
  out["hits"] = st->hits;
  out["misses"] = st->misses;
  out["loads"] = st->loads;
  out["load_failures"] = st->load_failures;
  out["shared_loads"] = st->shared_loads;
  out["outdated_loads"] = st->outdated_loads;
  out["failures"] = st->failures;
  return out;
}

void put_bytes(ordered_json& out, const char* name, const std::string& bytes) {
  try {
    (void)ordered_json(bytes).dump();  // throws for what is no UTF-8
    out[name] = bytes;
  } catch (const std::exception&) {
    out[std::string(name) + "_base64"] = base64(bytes);
  }
}

using cache_handler = void (*)(string_cache, const std::string& cache, const std::string& key, const responder&);

void get(string_cache cache, const std::string& name, const std::string& key, const responder& answer) {
  auto value = cache.get(key);
  if (!value) return void(answer.reply(value.failure()));
  if (!*value)
    return void(answer.reply(error{errc::not_found, "cache \"" + name + "\": there is nothing under this key"}));
  ordered_json out{{"cache", name}};
  put_bytes(out, "key", key);
  put_bytes(out, "value", **value);
  answer.reply(json_response(dump(out)));
}

void remove(string_cache cache, const std::string& name, const std::string& key, const responder& answer) {
  const auto removed = cache.remove(key);
  if (!removed) return void(answer.reply(removed.failure()));
  ordered_json out{{"cache", name}};
  put_bytes(out, "key", key);
  out["removed"] = *removed;
  answer.reply(json_response(dump(out)));
}

void clear(string_cache cache, const std::string& name, const std::string&, const responder& answer) {
  if (const auto done = cache.clear(); !done) return void(answer.reply(done.failure()));
  answer.reply(json_response(dump({{"cache", name}, {"cleared", true}})));
}

/// An engine in a server may take its time, so nothing of this runs on an I/O thread.
handler on_cache(api a, cache_handler h) {
  return [a, h](const request& r, const responder& to) {
    a.web.post_blocking(to, [a, h, name = std::string(r.param("cache")),
                             key = std::string(r.param("key"))](const responder& answer) {
      const auto cache = a.node.caches().open_known(name);
      if (!cache) return void(answer.reply(cache.failure()));
      if (!*cache)
        return void(answer.reply(error{errc::conflict, "cache \"" + name + "\": is switched off by ENABLED = false"}));
      h(*cache, name, key, answer);
    });
  };
}

}  // namespace

void add_cache_routes(api a) {
  a.web.route("GET", "/v1/caches", role::read, [a](const request&, const responder& to) {
    a.web.post_blocking(to, [a](const responder& answer) {
      auto list = ordered_json::array();
      for (auto& l : a.node.caches().list()) list.push_back(to_json(l));
      answer.reply(json_response(dump({{"caches", std::move(list)}})));
    });
  });
  // A value may be a secret of whoever put it: looking at it is for those who may do everything.
  a.web.route("GET", "/v1/caches/{cache}/{key}", role::admin, on_cache(a, get));
  change_route(a, "DELETE", "/v1/caches/{cache}/{key}", role::admin, on_cache(a, remove));
  change_route(a, "POST", "/v1/caches/{cache}/clear", role::admin, on_cache(a, clear));
}

}  // namespace caravan::http
