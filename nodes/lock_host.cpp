#include "nodes/lock_host.hpp"

#include "actors/lock/lock_shell.hpp"
#include "integration/memory/memory_locks.hpp"
#include "integration/redis/redis_locks.hpp"
#include "integration/redis/redis_quorum_locks.hpp"
#include "nodes/event_body.hpp"
#include "nodes/foreign_thread.hpp"

#include <caf/all.hpp>

#include <algorithm>

namespace caravan {

using namespace std::chrono_literals;

namespace {

/// A node that waits says so about every tenth of LOCK_EXPIRY, and is dead after three times that.
std::chrono::milliseconds beat_of(std::chrono::milliseconds expiry) {
  return std::clamp<std::chrono::milliseconds>(expiry / 10, 150ms, 3s);
}

expected<std::unique_ptr<lock_store>> open_quorum(const lock_host_parts& p,
                                                  std::vector<config::redis_address> servers) {
  redis_quorum_options o;
  o.servers = std::move(servers);
  o.node = p.node;
  o.expiry = p.settings.expiry;
  // A call has up to three rounds, and has to leave time to hold the lock.
  o.patience = std::clamp<std::chrono::milliseconds>(o.expiry / 20, 50ms, 500ms);
  std::vector<std::string> warnings;
  auto store = redis_quorum_locks::open(std::move(o), &warnings);
  if (!store) return error{store.failure().code, "[global_lock]: " + store.failure().text};
  for (const auto& w : warnings) p.log->warn("lock", w);
  return std::unique_ptr<lock_store>(std::move(*store));
}

expected<std::unique_ptr<lock_store>> open_store(const lock_host_parts& p) {
  const auto& s = p.settings;
  if (s.service == config::lock_service::memory)
    return std::unique_ptr<lock_store>(std::make_unique<memory_locks>(p.node, *p.clock));
  auto addresses = config::parse_redis_addresses(s.conn_str);
  if (!addresses) return addresses.failure();
  if (addresses->size() > 1) return open_quorum(p, std::move(*addresses));
  redis_lock_options o;
  o.redis.address = std::move(addresses->front());
  o.redis.client_name = "caravan-locks";
  o.node = p.node;
  o.expiry = s.expiry;
  o.node_life = beat_of(s.expiry) * 10 / 3;
  std::vector<std::string> warnings;
  auto store = redis_locks::open(std::move(o), &warnings);
  if (!store) return error{store.failure().code, "[global_lock]: " + store.failure().text};
  for (const auto& w : warnings) p.log->warn("lock", w);
  return std::unique_ptr<lock_store>(std::move(*store));
}

}  // namespace

expected<std::unique_ptr<lock_host>> lock_host::open(lock_host_parts parts) {
  auto store = open_store(parts);
  if (!store) return store.failure();
  lock_limits limits;
  limits.expiry = parts.settings.expiry;
  limits.beat = beat_of(limits.expiry);
  if (!(*store)->has_line()) limits.beat = std::min<std::chrono::milliseconds>(limits.beat, 500ms);  // a beat is a try
  limits.retry = std::min<std::chrono::milliseconds>(1s, limits.beat);
  return std::unique_ptr<lock_host>(new lock_host(parts, local_locks::open(std::move(*store), limits, *parts.clock)));
}

lock_host::lock_host(const lock_host_parts& parts, std::shared_ptr<local_locks> door)
    : system_(parts.system), settings_(parts.settings), door_(std::move(door)) {
  door_->tell_events(parts.events);
  door_->report({.trouble =
                     [log = parts.log, events = parts.events](const std::string& text) {
                       if (events)
                         events->tell(text.empty() ? event_topic::lock_recovered : event_topic::lock_trouble, {},
                                      text.empty() ? "{}" : text_body(text));
                       if (text.empty())
                         log->info("lock", "the store of the locks answers again");
                       else
                         log->error("lock", text);
                     },
                 .lost = [log = parts.log](const std::string& text) { log->warn("lock", text); }});
  const foreign_thread here;
  actor_ = system_->spawn(lock_behavior, door_);
}

lock_host::~lock_host() { stop(); }

lock_manager_actor lock_host::actor() const {
  const std::lock_guard lock(mutex_);
  return actor_;
}

void lock_host::stop() {
  lock_manager_actor actor;
  {
    const std::lock_guard lock(mutex_);
    std::swap(actor, actor_);
  }
  if (!actor) return;
  door_->close();
  door_->report({});  // the log ends with the node, the door with its last handle
  const foreign_thread here;
  caf::scoped_actor self{*system_};
  self->send_exit(actor, caf::exit_reason::user_shutdown);
  self->wait_for(actor);
}

}  // namespace caravan
