#include "config/read_settings.hpp"

#include "config/environment.hpp"
#include "config/read_cache.hpp"
#include "config/read_limit.hpp"
#include "config/read_qos.hpp"
#include "config/reader.hpp"
#include "config/redis_address.hpp"
#include "config/registry.hpp"
#include "config/values.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>

namespace caravan::config {

namespace {

using std::chrono::milliseconds;

constexpr std::string_view local_redis = "redis://127.0.0.1:6379/0";

struct type_name {
  std::string_view name;
  queue_type type;
};

constexpr std::array type_names = {
    type_name{"channel", queue_type::channel},  type_name{"memory", queue_type::channel},
    type_name{"level", queue_type::level},      type_name{"leveldb", queue_type::level},
    type_name{"levelqueue", queue_type::level}, type_name{"persistable-channel", queue_type::level},
    type_name{"redis", queue_type::redis},      type_name{"dummy", queue_type::dummy},
    type_name{"immediate", queue_type::dummy},
};

bool has_characters_of_name(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '.';
  });
}

std::size_t to_size(std::optional<std::int64_t> value) { return static_cast<std::size_t>(value.value_or(0)); }

queue_type read_type(reader& in) {
  const auto text = in.text("TYPE");
  if (const auto type = parse_queue_type(text)) return *type;
  std::vector<std::string_view> names;
  for (const auto& n : type_names) names.push_back(n.name);
  const auto near = nearest(text, names);
  in.complain("TYPE", "there is no queue type " + shown(text),
              near.empty() ? "write channel, level, redis or dummy" : "did you mean " + std::string(near) + "?");
  return queue_type::level;
}

void read_unique_until(reader& in, queue_settings& out) {
  const auto text = in.text("UNIQUE_UNTIL");
  if (text == "start") return;
  if (text == "done") {
    out.until = unique_until::done;
    return;
  }
  if (text == "success") {
    out.until = unique_until::success;
    return;
  }
  const auto lifetime = parse_duration(text);
  if (!lifetime)
    return in.complain("UNIQUE_UNTIL", shown(text) + " is no duration", "write start, done, success or for example 10m");
  if (*lifetime < milliseconds(1) || *lifetime % milliseconds(1) != milliseconds(0))
    return in.complain("UNIQUE_UNTIL", shown(text) + " is no whole number of milliseconds above 0",
                       "write start, done, success or for example 10m");
  out.until = unique_until::time;
  out.unique_lifetime = std::chrono::duration_cast<milliseconds>(*lifetime);
}

void read_control(reader& in, queue_settings& out) {
  if (auto policy = parse_retry_policy(in.text("RETRY")))
    out.retry = std::move(*policy);
  else
    in.complain("RETRY", policy.failure().text, "see docs/jobs.md");
  out.retry_jitter = static_cast<double>(to_size(in.number("RETRY_JITTER"))) / 100;
  out.max_running = static_cast<std::uint32_t>(to_size(in.number("MAX_RUNNING")));
  out.key_concurrency = static_cast<std::uint32_t>(to_size(in.number("KEY_CONCURRENCY")));
  for (const auto& [key, to] : {std::pair{"RATE", &out.start_rate}, std::pair{"KEY_RATE", &out.key_rate}}) {
    if (const auto r = parse_rate(in.text(key)))
      *to = *r;
    else
      in.complain(key, r.failure().text, "leave it empty for no limit");
  }
  out.retention = in.duration("RETENTION");
  out.retain_count = to_size(in.number("RETAIN_COUNT"));
}

void read_sync(reader& in, queue_settings& out) {
  const auto text = in.text("SYNC");
  constexpr std::string_view interval = "interval:";
  if (text == "always") {
    out.sync = sync_mode::always;
  } else if (text == "never") {
    out.sync = sync_mode::never;
  } else if (text.starts_with(interval)) {
    // A bare number is milliseconds here, as the key's name for it says; seconds would lose a thousand times as much.
    const auto value = std::string_view(text).substr(interval.size());
    auto length = parse_integer(value);
    if (const auto spelled = parse_duration(value); !length && spelled && *spelled % milliseconds(1) == milliseconds(0))
      length = *spelled / milliseconds(1);
    if (!length || *length < 1 || *length > 3'600'000)
      return in.complain("SYNC", shown(text) + " has no number of milliseconds from 1 to 3600000",
                         "write for example interval:1000");
    out.sync = sync_mode::interval;
    out.sync_interval = milliseconds(*length);
  } else {
    in.complain("SYNC", shown(text) + " is none of always, interval:MS, never", "write for example interval:1000");
  }
}

void read_handler(reader& in, queue_settings& out) {
  out.handler = in.text("HANDLER");
  if (out.handler.empty()) return;
  for (const std::string_view start : {"exec:", "http://", "https://"})
    if (out.handler.starts_with(start) && !trim(std::string_view(out.handler).substr(start.size())).empty()) return;
  in.complain("HANDLER", shown(out.handler) + " is no handler", "write exec:COMMAND, http://... or https://...");
}

void read_encrypt(reader& in, queue_settings& out) {
  const auto text = in.text("ENCRYPT");
  if (text.empty()) return;
  const bool file = text.starts_with("file:");
  if (text.size() <= (file ? 5u : 4u) || (!file && !text.starts_with("env:")))
    return in.complain("ENCRYPT", shown(text) + " says neither which file nor which environment variable holds the keys", "write file:PATH or env:NAME");
  out.encrypt = file ? "file:" + absolute_path(std::filesystem::current_path(), text.substr(5)) : text;
}

queue_settings read_queue_keys(reader& in, std::string_view name, const std::filesystem::path& app_data_path) {
  queue_settings out;
  out.name = name;
  out.type = read_type(in);
  out.datadir = in.path("DATADIR", app_data_path);
  out.length = to_size(in.number("LENGTH"));
  out.batch_length = to_size(in.number("BATCH_LENGTH"));
  const auto workers = in.number("MAX_WORKERS");
  out.max_workers = workers ? std::optional(static_cast<unsigned>(*workers)) : std::nullopt;
  for (const auto* key : {"QUEUE_NAME", "SET_NAME"})
    if (const auto value = in.text(key); !has_characters_of_name(value) || value.size() > 128)
      in.complain(key, shown(value) + " cannot be a part of a name", "use up to 128 letters, digits, - _ and .");
  out.queue_full_name = out.name + in.text("QUEUE_NAME");
  out.set_full_name = out.queue_full_name + in.text("SET_NAME");
  out.unique = in.boolean("UNIQUE");
  read_unique_until(in, out);
  read_handler(in, out);
  out.breaker = in.boolean("BREAKER");
  out.shedder = in.boolean("SHEDDER");
  read_encrypt(in, out);
  read_sync(in, out);
  out.batch_debounce = in.duration("BATCH_DEBOUNCE");
  out.push_timeout = in.duration("PUSH_TIMEOUT");
  out.requeue_delay = in.duration("REQUEUE_DELAY");
  out.timeout = in.duration("TIMEOUT");
  out.max_attempts = static_cast<std::uint32_t>(to_size(in.number("MAX_ATTEMPTS")));
  read_control(in, out);
  out.worker_idle = in.duration("WORKER_IDLE");
  out.shutdown_timeout = in.duration("SHUTDOWN_TIMEOUT");
  out.lease = in.duration("LEASE");
  out.idempotency_window = in.duration("IDEMPOTENCY_WINDOW");
  out.claim_rate = static_cast<std::uint32_t>(to_size(in.number("CLAIM_RATE")));
  out.claim_burst = static_cast<std::uint32_t>(to_size(in.number("CLAIM_BURST")));
  out.max_item_size = to_size(in.number("MAX_ITEM_SIZE"));
  return out;
}

/// `where` takes the complaint: an empty CONN_STR in [queue.NAME] hides the one that `reader` would name.
void check_connection(queue_settings& out, const sourced_text& conn, const std::filesystem::path& app_data_path,
                      problems& found) {
  const auto complain = [&](std::string cause, std::string remedy) {
    report(found, {severity::error, conn.where, "queue \"" + out.name + "\": [" + conn.section + "] CONN_STR",
                   std::move(cause), std::move(remedy)});
  };
  out.conn_str = conn.value;
  if (out.type == queue_type::redis) {
    if (const auto address = parse_redis_address(conn.value); !address)
      complain(address.failure().text, "or remove it to use [redis]");
  } else if (out.type == queue_type::level && !conn.value.empty()) {
    constexpr std::string_view scheme = "leveldb://";
    const auto directory = std::string_view(conn.value).substr(std::min(scheme.size(), conn.value.size()));
    if (!conn.value.starts_with(scheme) || directory.empty())
      return complain("invalid connection string " + shown(conn.value) + " for a queue in files",
                      "set TYPE = redis, or write \"CONN_STR =\" in [queue." + out.name + "] and use DATADIR");
    out.datadir = absolute_path(app_data_path, directory.substr(0, directory.find('?')));
    out.conn_str.clear();
  }
}

void report_removed(const ini& from, problems& found) {
  for (const auto& old : removed_keys())
    if (const auto* there = from.find(old.section, old.key, lookup::strict))
      report(found, {severity::error, there->where, "[" + std::string(old.section) + "]." + std::string(old.key),
                     "this option was removed", "set what you need in [" + std::string(old.now) + "] instead"});
}

template <class Settings>
void read_address(reader& in, Settings& out) {
  const auto text = in.text("ADDR");
  const auto colon = text.rfind(':');
  auto host = text.substr(0, colon);
  const auto port = colon == std::string::npos ? std::nullopt : parse_integer(text.substr(colon + 1));
  const auto refuse = [&](std::string cause) {
    in.complain("ADDR", shown(text) + std::move(cause), "write for example 127.0.0.1:7171 or [::1]:7171");
  };
  if (!port) return refuse(" has no port");
  if (*port < 0 || *port > 65'535) return refuse(" has a port that is not from 0 to 65535");
  if (host.size() >= 2 && host.starts_with('[') && host.ends_with(']'))
    host = host.substr(1, host.size() - 2);
  else if (host.find(':') != std::string::npos)
    return refuse(" holds an IPv6 address without brackets");
  for (const auto c : host)
    if (!std::isalnum(static_cast<unsigned char>(c)) && std::string_view("-._:%").find(c) == std::string_view::npos &&
        host != "*")
      return refuse(" holds no host name");
  out.host = host == "*" ? std::string() : host;
  out.port = static_cast<std::uint16_t>(*port);
}

}  // namespace

expected<parsed_ini> load_configuration(const std::filesystem::path& path, std::span<const std::string> environment) {
  parsed_ini out;
  if (!path.empty()) {
    auto file = read_ini_file(path);
    if (!file) return file;
    out = std::move(*file);
  }
  auto over = apply_environment(out.content, environment);
  out.found.insert(out.found.end(), over.found.begin(), over.found.end());
  return out;
}

bool is_valid_name(std::string_view name) noexcept {
  return !name.empty() && name.size() <= 128 && has_characters_of_name(name);
}

std::optional<queue_type> parse_queue_type(std::string_view text) {
  for (const auto& n : type_names)
    if (n.name == text) return n.type;
  return std::nullopt;
}

std::string_view to_string(queue_type type) noexcept {
  for (const auto& n : type_names)
    if (n.type == type) return n.name;  // the first one is its own name
  return "unknown";
}

bool is_loopback(std::string_view host) noexcept {
  if (host == "localhost" || host == "::1") return true;
  // Only numbers: "127.example.org" is anywhere.
  return host.starts_with("127.") && host.find_first_not_of("0123456789.") == std::string_view::npos;
}

std::vector<std::string> queue_names(const ini& from) {
  constexpr std::string_view prefix = "queue.";
  std::vector<std::string> out;
  for (const auto& s : from.sections())
    if (s.name.starts_with(prefix) && s.name.size() > prefix.size()) out.push_back(s.name.substr(prefix.size()));
  return out;
}

sourced_text queue_conn_str(const ini& from, std::string_view name, queue_type type) {
  const auto own = "queue." + std::string(name);
  for (auto section = own;;) {
    if (const auto* here = from.find(section, "CONN_STR", lookup::strict)) {
      if (!here->value.empty()) return {here->value, here->where, section};
      if (type != queue_type::redis) return {"", here->where, section};
      break;
    }
    const auto dot = section.rfind('.');
    if (dot == std::string::npos) break;
    section.resize(dot);
  }
  if (type != queue_type::redis) return {"", {}, own};
  if (const auto shared = from.locate("redis", "CONN_STR"); shared.what)
    return {shared.what->value, shared.what->where, "redis"};
  return {std::string(local_redis), {}, own};
}

problems storage_conflicts(const ini& from, std::span<const queue_settings> queues) {
  problems found;
  struct user {
    std::string queue;
    std::string_view key;
  };
  std::map<std::string, user> taken;
  for (const auto& q : queues) {
    std::string storage;
    if (q.type == queue_type::level) {
      storage = q.datadir;
    } else if (q.type == queue_type::redis) {
      const auto address = parse_redis_address(q.conn_str);
      if (!address) continue;
      storage = storage_key(*address);
    } else {
      continue;
    }
    for (const auto& [name, key] :
         {std::pair(q.queue_full_name, "QUEUE_NAME"), std::pair(q.set_full_name, "SET_NAME")}) {
      const auto [at, fresh] = taken.emplace(storage + '\n' + name, user{q.name, key});
      if (fresh || at->second.queue == q.name) continue;
      const auto* section = from.find_section("queue." + q.name);
      report(found, {severity::error, section ? section->where : origin{}, "queue \"" + q.name + "\"",
                     "its name in the storage, \"" + name + "\" (" + key + "), is that of queue \"" + at->second.queue +
                         "\" (" + std::string(at->second.key) + ")",
                     "give one of them another QUEUE_NAME, SET_NAME, DATADIR or CONN_STR"});
    }
  }
  return found;
}

queue_settings read_queue_settings(const ini& from, std::string_view name, const std::filesystem::path& app_data_path,
                                   problems& found) {
  const auto section = name.empty() ? std::string("queue") : "queue." + std::string(name);
  if (!is_valid_name(name)) {
    const auto* there = from.find_section(section);
    report(found, {severity::error, there ? there->where : origin{}, "queue " + shown(name),
                   "this is no name for a queue", "use up to 128 letters, digits, - _ and ."});
  }
  reader in(from, section, found);
  auto out = read_queue_keys(in, name, app_data_path);
  check_connection(out, queue_conn_str(from, name, out.type), app_data_path, found);
  return out;
}

void check_shared_queue_settings(const ini& from, problems& found) {
  reader in(from, "queue", found);
  (void)read_queue_keys(in, "any", "/");
}

expected<queue_settings> read_queue_settings(const ini& from, std::string_view name,
                                             const std::filesystem::path& app_data_path) {
  problems found;
  auto out = read_queue_settings(from, name, app_data_path, found);
  if (has_errors(found)) return to_error(found);
  return out;
}

node_settings read_node_settings(const ini& from, problems& found) {
  reader in(from, "node", found);
  node_settings out;
  out.name = in.text("NAME");
  if (!is_valid_name(out.name))
    in.complain("NAME", shown(out.name) + " is no name for a node", "set NAME to up to 128 letters, digits, - _ and .");
  out.data_dir = in.path("DATA_DIR", std::filesystem::current_path());
  out.auto_create = in.boolean("AUTO_CREATE");
  return out;
}

http_settings read_http_settings(const ini& from, problems& found) {
  reader in(from, "http", found);
  http_settings out;
  read_address(in, out);
  struct token {
    const char* key;
    std::string* value;
  };
  const std::array tokens = {token{"READ_TOKEN", &out.read_token}, token{"PUSH_TOKEN", &out.push_token},
                             token{"WORK_TOKEN", &out.work_token}, token{"ADMIN_TOKEN", &out.admin_token}};
  std::string missing;
  for (const auto& [key, value] : tokens) {
    *value = in.text(key);
    if (value->empty()) {
      missing += (missing.empty() ? "" : ", ") + std::string(key);
      continue;
    }
    if (std::any_of(value->begin(), value->end(), [](char c) { return c <= 0x20 || c >= 0x7f; }))
      in.complain(key, "a token holds a blank or a character beyond ASCII",
                  "use letters, digits and signs, for example of \"openssl rand -hex 32\"");
    else if (value->size() < 16)
      in.complain(key, "a token of fewer than 16 characters can be guessed", "use for example \"openssl rand -hex 32\"",
                  severity::warning);
  }
  if (!missing.empty() && !is_loopback(out.host))
    in.complain(
        "ADDR",
        "everybody who reaches " + shown(in.text("ADDR")) + " could use it, because these are not set: " + missing,
        "set them, or listen on 127.0.0.1");
  out.max_body = to_size(in.number("MAX_BODY"));
  out.header_timeout = in.duration("HEADER_TIMEOUT");
  out.idle_timeout = in.duration("IDLE_TIMEOUT");
  out.max_connections = to_size(in.number("MAX_CONNECTIONS"));
  return out;
}

log_settings read_log_settings(const ini& from, problems& found) {
  reader in(from, "log", found);
  log_settings out;
  out.level = static_cast<log_level>(in.choice("LEVEL"));
  out.format = static_cast<log_format>(in.choice("FORMAT"));
  out.file = in.path("FILE", std::filesystem::current_path());
  return out;
}

redis_settings read_redis_settings(const ini& from, problems& found) {
  reader in(from, "redis", found);
  redis_settings out;
  out.conn_str = in.text("CONN_STR");
  if (!out.conn_str.empty())
    if (const auto address = parse_redis_address(out.conn_str); !address)
      in.complain("CONN_STR", address.failure().text, "or remove it if nothing uses Redis");
  return out;
}

namespace {

/// Separated by commas or blanks.
std::vector<std::string> names_in(std::string_view text) {
  std::vector<std::string> names;
  for (std::size_t at = 0; at < text.size();) {
    const auto end = std::min(text.find_first_of(", \t", at), text.size());
    if (end > at) names.emplace_back(text.substr(at, end - at));
    at = end + 1;
  }
  return names;
}

// Blanks around the commas are fine.
void read_join(reader& in, cluster_settings& out) {
  const auto text = in.text("JOIN");
  for (std::size_t at = 0; at < text.size();) {
    const auto end = std::min(text.find(',', at), text.size());
    auto one = text.substr(at, end - at);
    at = end + 1;
    one.erase(0, one.find_first_not_of(" \t"));
    one.erase(one.find_last_not_of(" \t") + 1);
    if (one.empty()) continue;
    out.joins = true;
    if (one == "self") continue;
    const auto colon = one.rfind(':');
    const auto port = colon == std::string::npos ? std::string() : one.substr(colon + 1);
    const bool digits = !port.empty() && port.size() <= 5 && port.find_first_not_of("0123456789") == std::string::npos;
    if (colon == 0 || !digits || std::stoi(port) < 1 || std::stoi(port) > 65535)
      in.complain("JOIN", shown(one) + " is no HOST:PORT", "write the ADDR of another node, with its port");
    else
      out.join.push_back(std::move(one));
  }
}

}  // namespace

cluster_settings read_cluster_settings(const ini& from, std::string_view own_name, problems& found) {
  reader in(from, "cluster", found);
  cluster_settings out;
  read_address(in, out);
  out.nodes = names_in(in.text("NODES"));
  if (!out.nodes.empty() && std::find(out.nodes.begin(), out.nodes.end(), own_name) == out.nodes.end())
    in.complain("NODES", "this node itself, " + shown(own_name) + ", is not among them", "add it, or correct [node] NAME");
  const auto here = std::filesystem::current_path();
  out.tls_cert = in.path("TLS_CERT", here);
  out.tls_key = in.path("TLS_KEY", here);
  out.tls_ca = in.path("TLS_CA", here);
  const bool all = !out.tls_cert.empty() && !out.tls_key.empty() && !out.tls_ca.empty();
  const bool none = out.tls_cert.empty() && out.tls_key.empty() && out.tls_ca.empty();
  if (!all && !none) in.complain("TLS_CERT", "of TLS_CERT, TLS_KEY and TLS_CA some are set and some are not", "set all three, or none");
  if (none && !is_loopback(out.host))
    in.complain("ADDR", "everybody who reaches " + shown(in.text("ADDR")) + " could bring this node down", "set TLS_CERT, TLS_KEY and TLS_CA, or listen on 127.0.0.1");
  out.owner_lease = in.duration("OWNER_LEASE");
  read_join(in, out);
  return out;
}

settings read_settings(const ini& from, problems& found) {
  report_removed(from, found);
  settings out;
  out.node = read_node_settings(from, found);
  out.http = read_http_settings(from, found);
  out.log = read_log_settings(from, found);
  out.redis = read_redis_settings(from, found);
  out.locks = read_lock_settings(from, found);
  out.cluster = read_cluster_settings(from, out.node.name, found);
  for (const auto& name : queue_names(from))
    out.queues.push_back(read_queue_settings(from, name, out.node.data_dir, found));
  out.caches.push_back(read_cache_settings(from, "", found));
  for (const auto& name : cache_names(from)) out.caches.push_back(read_cache_settings(from, name, found));
  out.qos = read_qos_settings(from, found);
  for (const auto& name : limit_names(from)) out.limits.push_back(read_limit_settings(from, name, found));
  for (auto& conflict : storage_conflicts(from, out.queues)) report(found, std::move(conflict));
  return out;
}

expected<settings> read_settings(const ini& from) {
  problems found;
  auto out = read_settings(from, found);
  if (has_errors(found)) return to_error(found);
  return out;
}

}  // namespace caravan::config
