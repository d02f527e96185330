#include "nodes/node_runtime.hpp"

#include "config/check.hpp"
#include "config/environment.hpp"
#include "config/read_settings.hpp"
#include "config/redis_address.hpp"
#include "integration/http_client/http_runner.hpp"
#include "integration/process/exec_runner.hpp"
#include "integration/sealed/key_ring.hpp"
#include "integration/redis/redis_client.hpp"
#include "integration/redis/redis_nodes.hpp"
#include "messages/type_ids.hpp"
#include "nodes/audit_log.hpp"
#include "nodes/cron_host.hpp"
#include "nodes/event_body.hpp"
#include "nodes/foreign_thread.hpp"
#include "nodes/http/api.hpp"
#include "nodes/http/server/server.hpp"
#include "nodes/mesh.hpp"
#include "nodes/node_watch.hpp"
#include "nodes/ownership.hpp"

#include <caf/all.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <random>
#include <thread>

namespace caravan {

using namespace std::chrono_literals;

namespace {

constexpr auto join_patience = 1s;  // how long a start waits for the first of the others

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

/// What happens to the calls of a queue's handler.
void tell_target(event_sink& events, const std::string& queue, http_client::target_change what, const std::string& text,
                 std::chrono::milliseconds length) {
  nlohmann::json body{{"text", text}};
  auto topic = event_topic::handler_throttled;
  switch (what) {
    case http_client::target_change::opened: topic = event_topic::handler_opened; break;
    case http_client::target_change::closed: topic = event_topic::handler_closed; break;
    case http_client::target_change::paused: body["ms"] = length.count(); break;
  }
  events.tell(topic, queue, body.dump());
}

expected<std::shared_ptr<runner>> runner_of(const config::queue_settings& q, const std::shared_ptr<event_sink>& events) {
  const auto& handler = q.handler;
  const auto shared = [](auto made) -> expected<std::shared_ptr<runner>> {
    if (!made) return made.failure();
    return std::shared_ptr<runner>(std::move(*made));
  };
  if (handler.empty()) return std::shared_ptr<runner>();
  if (handler.starts_with("exec:")) return shared(make_exec_runner(handler.substr(5), {}));
  http_options o;
  o.guard.breaker = q.breaker;
  o.guard.shedder = q.shedder;
  if (events)
    o.guard.on_change = [events, queue = q.name](http_client::target_change what, const std::string& text,
                                                 std::chrono::milliseconds length) {
      tell_target(*events, queue, what, text, length);
    };
  return shared(make_http_runner(handler, std::move(o)));
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
    if (!q.encrypt.empty())
      if (const auto keys = load_key_ring(q.encrypt); !keys) {
        const auto own = from.locate("queue." + q.name, "ENCRYPT");
        config::report(found, {config::severity::error, own.what ? own.what->where : config::origin{}, "[queue." + q.name + "] ENCRYPT",
                               keys.failure().text, "put the keys there, or correct the name"});
      }
    const auto made = runner_of(q, nullptr);
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

  events_ = std::make_shared<event_host>(event_host::parts{log_.get(), &clock(), settings_.node.name, incarnation_});
  const std::shared_ptr<event_sink> sink = events_->door();
  caches_ = std::make_unique<cache_host>(
      cache_host::parts{&ini_, log_.get(), [sink](const std::string& cache, const std::string& text) {
                          sink->tell(event_topic::cache_trouble, cache, text_body(text));
                        }});
  caches_->open_configured(settings_.caches);
  limit_host::parts l{settings_.limits, log_.get()};
  l.on_trouble = [sink](const std::string& limit, const std::string& text) {
    if (text.empty())
      sink->tell(event_topic::limit_recovered, limit, "{}");
    else
      sink->tell(event_topic::limit_trouble, limit, text_body(text));
  };
  limits_ = std::make_unique<limit_host>(std::move(l));

  const foreign_thread here;
  caf_config_ = std::make_unique<quiet_config>();
  const auto& cluster = settings_.cluster;
  if (cluster.joins || shares_queues(ini_, settings_)) prepare_mesh(*caf_config_);
  system_ = std::make_unique<caf::actor_system>(*caf_config_);
  try {
    events_->begin(*system_);
    if (cluster.joins)
      if (auto ok = join(); !ok) throw exception(ok.failure());
    auto opened_locks = lock_host::open({system_.get(), log_.get(), &clock(), settings_.node.name, settings_.locks, sink});
    if (!opened_locks) throw exception(opened_locks.failure());
    locks_ = std::move(*opened_locks);
    claims_ = std::make_unique<claim_host>(*system_, clock());
    for (const auto& q : settings_.queues) {
      auto handler = runner_of(q, sink);
      if (!handler) throw exception(handler.failure());
      if (auto opened = open(q, *handler, {}); !opened) throw exception(opened.failure());
    }
    if (members_) members_->start();
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
    c.events = sink;
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
    http::note_change(*audit_, a, clock().wall());
  };
  audit_ = std::make_unique<audit_log>(std::filesystem::path(settings_.node.data_dir) / "audit.jsonl");
  watch_ = std::make_unique<node_watch>(*this);
  http_ = std::make_unique<http::server>(std::move(o));
  add_api(*http_, *this);
  if (auto ok = http_->start(); !ok) throw exception(ok.failure());
  if (members_) members_->tell_http((h.host.empty() ? "*" : h.host) + ":" + std::to_string(http_->port()));
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
    auto made = runner_of(*s, events_->door());
    if (!made) return made.failure();
    handler = std::move(*made);
  }
  return open(std::move(*s), std::move(handler), item_type);
}

expected<std::shared_ptr<hosted_queue>> node_runtime::open(config::queue_settings s, std::shared_ptr<runner> handler,
                                                           const std::string& item_type) {
  const std::lock_guard one_at_a_time(opening_);
  std::uint64_t id = 0;
  std::shared_ptr<hosted_queue> there_before;  // somebody else was faster
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return {errc::queue_closed, "queue \"" + s.name + "\": the node is stopping"};
    if (const auto it = queues_.find(s.name); it != queues_.end()) there_before = it->second;
  }
  if (there_before) {
    if (there_before->settings().unique != s.unique)
      return {errc::conflict, "queue \"" + s.name + "\": is open in this node with the other uniqueness; set UNIQUE in [queue." + s.name + "]"};
    if (handler)
      if (auto ok = there_before->attach(std::move(handler), item_type); !ok) return ok.failure();
    return there_before;
  }
  {
    const std::lock_guard lock(mutex_);
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
  std::shared_ptr<cluster_parts> cluster;
  if (members_) cluster = std::make_shared<cluster_parts>(cluster_parts{incarnation_, members_.get(), mesh_.get(), book_.get(), moves_.get()});
  const auto name = s.name;
  auto opened = host_queue({system_.get(), log_.get(), &clock(), settings_.node.name, id, std::move(s), std::move(handler), item_type, std::move(shared), std::move(cluster), mesh_.get(), events_->door()});
  if (!opened) return opened.failure();
  const std::lock_guard lock(mutex_);
  queues_[name] = *opened;
  return *opened;
}

void node_runtime::start_mesh() {
  const auto& c = settings_.cluster;
  mesh::options o;
  o.name = settings_.node.name;
  o.incarnation = incarnation_;
  o.host = c.host;
  o.port = c.port;
  o.tls = {c.tls_cert, c.tls_key, c.tls_ca};
  o.nodes = c.nodes;
  o.turned_away = [this](const std::string& text) { log_->warn("cluster", text); };
  o.own_queue = [this](const std::string& name) {
    const auto q = find(name);
    return q ? q->owned_actor() : queue_actor();
  };
  if (members_) {
    const auto home = [this](const std::string& name) { return std::dynamic_pointer_cast<home_queue>(find(name)); };
    o.exchange = [this](const member_report& theirs) { return members_->exchange(theirs); };
    o.move_target = [home](const std::string& queue) {
      const auto q = home(queue);
      return q ? q->taker() : move_target_actor();
    };
    o.decision = [home](const ask_move& a) {
      const auto q = home(a.queue);
      return q ? q->decision(a.move) : move_decision{};
    };
  }
  o.own_events = [this] { return caf::actor_cast<caf::strong_actor_ptr>(events_->bus()); };
  mesh_ = std::make_unique<mesh>(*system_, std::move(o));
  events_->join({mesh_.get(), [this] { return nodes_there(); }, std::max<std::chrono::milliseconds>(c.owner_lease / 3, 1s)});
}

expected<void> node_runtime::join() {
  book_ = std::make_unique<home_book>(settings_.node.data_dir + "/homes");
  moves_ = std::make_unique<move_log>(settings_.node.data_dir + "/moves.jsonl");
  membership::options o;
  o.me.name = settings_.node.name;
  o.me.incarnation = incarnation_;
  o.me.protocol = cluster_protocol;
  o.me.version = CARAVAN_VERSION;
  o.me.started = std::chrono::floor<std::chrono::milliseconds>(started_at_).time_since_epoch().count();
  o.seeds = settings_.cluster.join;
  o.log = log_.get();
  o.claims = [this] { return home_claims(); };
  o.changed = [this] { members_changed(); };
  members_ = std::make_unique<membership>(std::move(o));
  start_mesh();
  return members_->join(*mesh_, join_patience);
}

// Queues that are configured and not open yet count as well: nobody else is to begin them meanwhile.
std::vector<home_claim> node_runtime::home_claims() const {
  std::vector<home_claim> list;
  std::vector<std::shared_ptr<hosted_queue>> open;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [name, q] : queues_) open.push_back(q);
  }
  for (const auto& q : open)
    if (const auto* home = dynamic_cast<const home_queue*>(q.get())) list.push_back(home->claim());
  for (const auto& s : settings_.queues) {
    if (s.type != config::queue_type::level && s.type != config::queue_type::channel) continue;
    if (std::any_of(list.begin(), list.end(), [&](const auto& c) { return c.queue == s.name; })) continue;
    const auto note = book_->get(s.name);
    const bool here = note && note->node == settings_.node.name && note->promised.move == 0;
    list.push_back({s.name, std::string(config::to_string(s.type)), s.unique, here ? note->epoch : 0, here ? 1u : 0u});
  }
  return list;
}

// On the thread of the membership.
void node_runtime::members_changed() {
  // Queues of others: this node answers for them as well.
  for (const auto& m : members_->members()) {
    if (m.last.name == settings_.node.name || !m.alive) continue;
    for (const auto& c : m.last.homes) {
      if (c.epoch == 0 || !config::is_valid_name(c.queue) || find(c.queue)) continue;
      auto s = config::read_queue_settings(ini_, c.queue, settings_.node.data_dir);
      if (!s) continue;
      s->type = c.type == "channel" ? config::queue_type::channel : config::queue_type::level;
      s->unique = c.unique;
      auto handler = runner_of(*s, events_->door());
      if (!handler) continue;
      if (const auto ok = open(std::move(*s), std::move(*handler), {}); !ok)
        log_->warn("cluster", ok.failure().text, {{"queue", c.queue}});
    }
  }
  for (const auto& q : all())
    if (const auto home = std::dynamic_pointer_cast<home_queue>(q)) home->look();
}

// As far as SHUTDOWN_TIMEOUT of each queue allows. What does not get away stays on this node's disk.
void node_runtime::hand_queues_over() {
  members_->cordon(true);
  std::vector<std::string> others;
  for (const auto& m : members_->members())
    if (m.alive && !m.last.cordoned && m.last.name != settings_.node.name) others.push_back(m.last.name);
  if (others.empty()) return;
  const auto begun = clock().now();
  std::vector<std::shared_ptr<home_queue>> going;
  std::size_t next = 0;
  for (const auto& q : all()) {
    const auto home = std::dynamic_pointer_cast<home_queue>(q);
    if (!home || !home->at_home() || home->settings().shutdown_timeout <= 0ms) continue;
    if (const auto ok = home->begin_move({others[next++ % others.size()], "the end of its node"}); !ok)
      log_->warn("queue", ok.failure().text);
    else
      going.push_back(home);
  }
  for (const auto& q : going)
    while (q->moving() && clock().now() - begun < q->settings().shutdown_timeout) std::this_thread::sleep_for(5ms);
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
  if (!mesh_) start_mesh();
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
  if (members_)
    if (auto text = members_->trouble_text(); !text.empty()) wrong.push_back(std::move(text));
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

expected<std::vector<node_entry>> node_runtime::nodes_there() const {
  std::vector<node_entry> all;
  for (const auto& place : shared_places()) {
    auto some = place->nodes();
    if (!some) return some.failure();
    all.insert(all.end(), some->begin(), some->end());
  }
  if (!members_) return all;
  for (const auto& m : members_->members()) {
    node_entry n;
    n.name = m.last.name;
    n.incarnation = m.last.incarnation;
    n.address = m.last.address;
    n.alive = m.alive;
    all.push_back(std::move(n));
  }
  return all;
}

std::size_t node_runtime::stop() {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return 0;
    stopping_ = true;
  }
  if (claims_) claims_->close();  // while workers outside can still say what became of their jobs
  if (members_) hand_queues_over();
  if (http_) http_->stop(2s);
  if (watch_) watch_->stop();
  if (claims_) claims_->stop();
  std::size_t running = cron_ ? cron_->stop() : 0;
  const auto queues = all();
  std::vector<std::size_t> left(queues.size(), 0);
  {
    // Side by side: each may wait its SHUTDOWN_TIMEOUT.
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < queues.size(); ++i) threads.emplace_back([&, i] { left[i] = queues[i]->stop(); });
  }
  if (members_) members_->leave();
  if (locks_) locks_->stop();  // after the handlers, which may lock
  if (events_) events_->stop();
  for (const auto n : left) running += n;
  return running;
}

std::uint16_t node_runtime::http_port() const { return http_ ? http_->port() : std::uint16_t{0}; }

}  // namespace caravan
