#include "nodes/node_runtime.hpp"

#include "config/check.hpp"
#include "config/environment.hpp"
#include "config/read_settings.hpp"
#include "config/redis_address.hpp"
#include "integration/http_client/http_runner.hpp"
#include "integration/process/exec_runner.hpp"
#include "integration/redis/redis_client.hpp"
#include "integration/redis/redis_nodes.hpp"
#include "messages/type_ids.hpp"
#include "nodes/cron_host.hpp"
#include "nodes/foreign_thread.hpp"
#include "nodes/http/api.hpp"
#include "nodes/http/server/server.hpp"
#include "nodes/mesh.hpp"
#include "nodes/ownership.hpp"

#include <caf/all.hpp>

#include <algorithm>
#include <filesystem>
#include <random>
#include <thread>

namespace caravan {

using namespace std::chrono_literals;

namespace {

struct quiet_config : caf::actor_system_config {
  quiet_config() {
    register_messages(*this);
    // One shared line of work with a condition variable: the stealing scheduler polls and so never is quite idle.
    set("scheduler.policy", caf::atom("sharing"));
    // Half the cores: handlers, pushing threads and storages have threads of their own, and every message to an actor
    // wakes an idle scheduler thread, which costs more than most of our messages do.
    set("scheduler.max-threads", static_cast<std::size_t>(std::max(1u, std::thread::hardware_concurrency() / 2)));
    set("scheduler.max-throughput", std::size_t{300});
  }
};

// Without a file any queue may be used: somebody who tries the program out has no file yet.
constexpr std::string_view embedded_default = "[node]\nAUTO_CREATE = true\n";

config::ini read_configuration(const node_options& options) {
  const auto environment = options.use_environment ? config::process_environment() : std::vector<std::string>{};
  config::parsed_ini parsed;
  if (!options.config_file.empty()) {
    auto loaded = config::load_configuration(options.config_file, environment);
    if (!loaded) throw exception(loaded.failure());
    parsed = std::move(*loaded);
  } else {
    const auto text = options.config_text.empty() ? embedded_default : std::string_view(options.config_text);
    parsed = config::parse_ini(text, options.config_text.empty() ? "built-in default" : "configuration text");
    auto over = config::apply_environment(parsed.content, environment);
    for (auto& p : over.found) config::report(parsed.found, std::move(p));
  }
  if (!options.data_dir.empty())
    parsed.content.set("node", "DATA_DIR", std::filesystem::absolute(options.data_dir).string(), {"--data-dir", 0, {}});
  auto found = config::check(parsed);
  for (auto& p : check_handlers(parsed.content)) config::report(found, std::move(p));
  for (auto& p : check_tasks(parsed.content)) config::report(found, std::move(p));
  if (config::has_errors(found)) throw exception(config::to_error(found));
  return std::move(parsed.content);
}

expected<std::shared_ptr<runner>> runner_of(const std::string& handler) {
  const auto shared = [](auto made) -> expected<std::shared_ptr<runner>> {
    if (!made) return made.failure();
    return std::shared_ptr<runner>(std::move(*made));
  };
  if (handler.empty()) return std::shared_ptr<runner>();
  if (handler.starts_with("exec:")) return shared(make_exec_runner(handler.substr(5), {}));
  return shared(make_http_runner(handler, {}));
}

}  // namespace

namespace {

std::string new_incarnation() {
  std::random_device random;
  return to_string(item_id{(static_cast<std::uint64_t>(random()) << 32 | random()) >> 1 | 1});
}

// Not only those that are configured: any other may come to life with the settings of [queue].
bool shares_queues(const config::ini& from, const config::settings& s) {
  const auto is_redis = [](const auto& q) { return q.type == config::queue_type::redis; };
  if (std::any_of(s.queues.begin(), s.queues.end(), is_redis)) return true;
  const auto any = config::read_queue_settings(from, "any", s.node.data_dir);
  return any && is_redis(*any);
}

/// The Redis that the node's own things live in; empty: none.
std::string redis_of(const config::settings& s) {
  if (!s.redis.conn_str.empty()) return s.redis.conn_str;
  for (const auto& q : s.queues)
    if (q.type == config::queue_type::redis) return q.conn_str;
  return {};
}

}  // namespace

config::problems check_handlers(const config::ini& from) {
  config::problems found;
  config::problems others;  // told by config::check
  for (const auto& q : config::read_settings(from, others).queues) {
    const auto made = runner_of(q.handler);
    if (made) continue;
    const auto own = from.locate("queue." + q.name, "HANDLER");
    config::report(found, {config::severity::error, own.what ? own.what->where : config::origin{}, "[queue." + q.name + "] HANDLER",
                           made.failure().text, "if it holds ; or #, which begin a comment, put the value in backquotes"});
  }
  return found;
}

node_runtime::node_runtime(const node_options& options) : ini_(read_configuration(options)), incarnation_(new_incarnation()) {
  config::problems found;
  settings_ = config::read_settings(ini_, found);
  if (config::has_errors(found)) throw exception(config::to_error(found));
  auto log = settings_.log;
  if (options.quiet) log.level = config::log_level::error;
  log_ = std::make_unique<node_log>(log);
  for (const auto& p : config::check(ini_))
    if (p.level == config::severity::warning) log_->warn("config", config::to_string(p));

  std::error_code ec;
  std::filesystem::create_directories(settings_.node.data_dir, ec);
  if (ec)
    throw exception({errc::backend_failed, "[node] DATA_DIR = " + settings_.node.data_dir + ": cannot be created: " +
                                             ec.message() + "; name a folder that this user may write"});

  caches_ = std::make_unique<cache_host>(cache_host::parts{&ini_, log_.get()});
  caches_->open_configured(settings_.caches);
  limits_ = std::make_unique<limit_host>(limit_host::parts{settings_.limits, log_.get()});

  const foreign_thread here;
  caf_config_ = std::make_unique<quiet_config>();
  if (shares_queues(ini_, settings_)) prepare_mesh(*caf_config_);
  system_ = std::make_unique<caf::actor_system>(*caf_config_);
  try {
    auto opened_locks = lock_host::open({system_.get(), log_.get(), &clock(), settings_.node.name, settings_.locks});
    if (!opened_locks) throw exception(opened_locks.failure());
    locks_ = std::move(*opened_locks);
    for (const auto& q : settings_.queues) {
      auto handler = runner_of(q.handler);
      if (!handler) throw exception(handler.failure());
      if (auto opened = open(q, *handler, {}); !opened) throw exception(opened.failure());
    }
    cron_host_parts c;
    c.system = system_.get();
    c.log = log_.get();
    c.clock = &clock();
    c.configuration = &ini_;
    c.node = settings_.node.name;
    c.data_dir = settings_.node.data_dir;
    c.redis = redis_of(settings_);
    c.queue_of = [this](const std::string& name) -> expected<std::shared_ptr<queue_port>> {
      auto there = find_or_create(name);
      if (!there) return there.failure();
      return std::shared_ptr<queue_port>(std::move(*there));
    };
    c.queues = [this] { return all(); };
    cron_ = std::make_shared<cron_host>(std::move(c));
    if (auto ok = cron_->begin(); !ok) throw exception(ok.failure());
    if (options.serve_http) start_http();
  } catch (...) {
    stop();
    throw;
  }
}

node_runtime::~node_runtime() { stop(); }

void node_runtime::start_http() {
  const auto& h = settings_.http;
  http::options o;
  o.address = h.host;
  o.port = h.port;
  o.max_connections = h.max_connections;
  o.max_body = h.max_body;
  o.header_deadline = h.header_timeout;
  o.idle_deadline = h.idle_timeout;
  const auto& qos = settings_.qos;
  o.overload = {qos.enabled, qos.max_in_flight, qos.max_waiting, qos.target_wait_time};
  const auto grant = [&](const std::string& token, http::role r) {
    if (!token.empty()) o.tokens.push_back({token, r});
  };
  grant(h.read_token, http::role::read);
  grant(h.push_token, http::role::push);
  grant(h.work_token, http::role::work);
  grant(h.admin_token, http::role::admin);
  if (o.tokens.empty()) o.allowed_hosts = {"127.0.0.1", "localhost", "[::1]", "::1"};
  o.error_log = [this](std::string_view text) { log_->warn("http", text); };
  o.access_log = [this](const http::access_entry& a) {
    log_->debug("http", a.path, {{"method", std::string(a.method)}, {"status", std::to_string(a.status)},
                                 {"us", std::to_string(a.took.count())}, {"remote", std::string(a.remote)}});
  };
  http_ = std::make_unique<http::server>(std::move(o));
  add_api(*http_, *this);
  if (auto ok = http_->start(); !ok) throw exception(ok.failure());
  for (const auto& place : shared_places()) place->tell_http((h.host.empty() ? "*" : h.host) + ":" + std::to_string(http_->port()));
}

expected<std::shared_ptr<hosted_queue>> node_runtime::create(const std::string& name, uniqueness unique,
                                                             std::shared_ptr<runner> handler, const std::string& item_type) {
  if (!config::is_valid_name(name))
    return {errc::invalid_argument, "queue \"" + name + "\": a name has 1 to 128 letters, digits, -, _ or ."};
  const bool wants_unique = unique == uniqueness::unique;
  if (const auto there = find(name)) {
    if (unique != uniqueness::as_configured && there->settings().unique != wants_unique)
      return {errc::conflict, "queue \"" + name + "\": is open in this node as a " + (wants_unique ? "simple" : "unique") +
                                " queue; set UNIQUE in [queue." + name + "] or use another name"};
    if (!handler) return there;
    if (auto ok = there->attach(std::move(handler), item_type); !ok) return ok.failure();
    return there;
  }
  auto s = config::read_queue_settings(ini_, name, settings_.node.data_dir);
  if (!s) return s.failure();
  if (unique != uniqueness::as_configured) s->unique = wants_unique;
  if (handler && !s->handler.empty())
    return {errc::invalid_argument, "queue \"" + name + "\": has a C++ handler and HANDLER = " + s->handler + "; remove one of them"};
  if (!handler) {
    auto made = runner_of(s->handler);
    if (!made) return made.failure();
    handler = std::move(*made);
  }
  return open(std::move(*s), std::move(handler), item_type);
}

expected<std::shared_ptr<hosted_queue>> node_runtime::open(config::queue_settings s, std::shared_ptr<runner> handler,
                                                           const std::string& item_type) {
  const std::lock_guard one_at_a_time(opening_);
  std::uint64_t id = 0;
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return {errc::queue_closed, "queue \"" + s.name + "\": the node is stopping"};
    if (const auto it = queues_.find(s.name); it != queues_.end()) {
      // Somebody else was faster.
      if (handler) return {errc::conflict, "queue \"" + s.name + "\": exists already in this node; use another name"};
      return it->second;
    }
    std::vector<config::queue_settings> open{s};
    for (const auto& [name, q] : queues_) open.push_back(q->settings());
    if (const auto clash = config::storage_conflicts(ini_, open); config::has_errors(clash)) return config::to_error(clash);
    id = next_id_++;
  }
  std::shared_ptr<ownership> shared;
  if (s.type == config::queue_type::redis) {
    auto there = ownership_at(s.conn_str);
    if (!there) return {there.failure().code, "queue \"" + s.name + "\": " + there.failure().text};
    shared = std::move(*there);
  }
  const auto name = s.name;
  auto opened = host_queue({system_.get(), log_.get(), &clock(), settings_.node.name, id, std::move(s), std::move(handler), item_type, std::move(shared), mesh_.get()});
  if (!opened) return opened.failure();
  const std::lock_guard lock(mutex_);
  queues_[name] = *opened;
  return *opened;
}

expected<std::shared_ptr<ownership>> node_runtime::ownership_at(const std::string& conn_str) {
  const auto address = config::parse_redis_address(conn_str);
  if (!address) return address.failure();
  auto& place = ownerships_[config::storage_key(*address)];
  if (place) return place;
  redis_options o;
  o.address = *address;
  o.client_name = "caravan-" + settings_.node.name;
  o.max_connections = 16;
  {
    redis_client first(o);
    const auto warnings = first.check(10, [this](const error& why) { log_->warn("redis", why.text + "; waiting for it"); });
    if (!warnings) return {warnings.failure().code, warnings.failure().text + "; start it, or correct the connection string"};
    for (const auto& w : *warnings) log_->warn("redis", w);
    // Two of one name would take each other's queues for their own in every list.
    const auto others = redis_nodes(first).list();
    if (!others) return others.failure();
    for (const auto& n : *others)
      if (n.name == settings_.node.name && n.incarnation != incarnation_ && n.alive && probe_address(n.address).empty())
        return {errc::conflict, "[node] NAME = " + n.name + ": a node of that name runs already, at " + n.address +
                                  (n.http.empty() ? "" : " (HTTP at " + n.http + ")") + "; give each node a name of its own"};
  }
  if (!mesh_) {
    const auto& c = settings_.cluster;
    mesh_ = std::make_unique<mesh>(*system_, mesh::options{settings_.node.name, incarnation_, c.host, c.port, {c.tls_cert, c.tls_key, c.tls_ca}, c.nodes,
                                                           [this](const std::string& text) { log_->warn("cluster", text); },
                                                           [this](const std::string& name) {
                                                             const auto q = find(name);
                                                             return q ? q->owned_actor() : queue_actor();
                                                           }});
  }
  node_entry me;
  me.name = settings_.node.name;
  me.incarnation = incarnation_;
  me.address = mesh_->address();
  me.version = CARAVAN_VERSION;
  me.started = std::chrono::floor<std::chrono::milliseconds>(started_at_).time_since_epoch().count();
  place = std::make_shared<ownership>(std::move(o), std::move(me), settings_.cluster.owner_lease);
  return place;
}

std::shared_ptr<hosted_queue> node_runtime::find(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  const auto it = queues_.find(name);
  return it == queues_.end() ? nullptr : it->second;
}

std::shared_ptr<hosted_queue> node_runtime::find(std::uint64_t id) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [name, q] : queues_)
    if (q->id() == id) return q;
  return nullptr;
}

expected<std::shared_ptr<hosted_queue>> node_runtime::find_or_create(const std::string& name) {
  if (auto there = find(name)) return there;
  if (!settings_.node.auto_create) return no_such_queue(name);
  return create(name, uniqueness::as_configured, nullptr, {});
}

error node_runtime::no_such_queue(std::string_view name) const {
  return {errc::not_found, "queue \"" + std::string(name) + "\": there is none of that name on this node; add [queue." +
                             std::string(name) + "] to its configuration, or set AUTO_CREATE = true in [node]"};
}

std::vector<std::shared_ptr<hosted_queue>> node_runtime::all() const {
  std::vector<std::shared_ptr<hosted_queue>> list;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [name, q] : queues_) list.push_back(q);
  }
  std::sort(list.begin(), list.end(), [](const auto& a, const auto& b) { return a->id() < b->id(); });
  return list;
}

std::shared_ptr<cron_port> node_runtime::tasks() const { return cron_; }
std::vector<std::string> node_runtime::tasks_without_function() const { return cron_->without_function(); }
std::chrono::milliseconds node_runtime::tasks_patience() const {
  return cron_->active() ? cron_host::stop_patience : 0ms;
}

std::vector<std::string> node_runtime::not_ready() const {
  std::vector<std::string> wrong;
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) wrong.emplace_back("the node is stopping");
  }
  for (const auto& q : all())
    if (auto text = q->trouble_text(); !text.empty()) wrong.push_back(std::move(text));
  if (cron_)
    if (auto text = cron_->trouble_text(); !text.empty()) wrong.push_back(std::move(text));
  if (auto text = locks_->trouble_text(); !text.empty()) wrong.push_back(std::move(text));
  return wrong;
}

std::vector<std::shared_ptr<ownership>> node_runtime::shared_places() const {
  const std::lock_guard one_at_a_time(opening_);
  std::vector<std::shared_ptr<ownership>> places;
  for (const auto& [key, place] : ownerships_)
    if (place) places.push_back(place);
  return places;
}

std::size_t node_runtime::stop() {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return 0;
    stopping_ = true;
  }
  if (http_) http_->stop(2s);
  std::size_t running = cron_ ? cron_->stop() : 0;
  const auto queues = all();
  std::vector<std::size_t> left(queues.size(), 0);
  {
    // Side by side: each may wait its SHUTDOWN_TIMEOUT.
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < queues.size(); ++i) threads.emplace_back([&, i] { left[i] = queues[i]->stop(); });
  }
  if (locks_) locks_->stop();  // after the handlers, which may lock
  for (const auto n : left) running += n;
  return running;
}

std::uint16_t node_runtime::http_port() const { return http_ ? http_->port() : std::uint16_t{0}; }

}  // namespace caravan
