#include "nodes/queue_host.hpp"

#include "config/read_settings.hpp"
#include "integration/leveldb/level_storage.hpp"
#include "integration/memory/memory_storage.hpp"
#include "integration/sealed/sealed_storage.hpp"
#include "messages/record_more.hpp"
#include "nodes/actor_queue.hpp"
#include "nodes/home_queue.hpp"
#include "nodes/shared_queue.hpp"

#include <algorithm>

namespace caravan {

using namespace std::chrono_literals;

namespace {

std::chrono::system_clock::time_point to_system(wall_time t) { return std::chrono::system_clock::time_point{t.time_since_epoch()}; }
wall_time to_wall(std::chrono::system_clock::time_point t) { return std::chrono::floor<std::chrono::milliseconds>(t); }

}  // namespace

expected<std::unique_ptr<storage>> sealed_as_set(std::unique_ptr<storage> store, const host_parts& p) {
  const auto& s = p.settings;
  if (s.encrypt.empty()) {
    if (const auto ok = check_not_sealed(*store, s.name); !ok) return ok.failure();
    return store;
  }
  auto keys = load_key_ring(s.encrypt);
  if (!keys) return error{keys.failure().code, "[queue." + s.name + "] " + keys.failure().text};
  return seal_storage(std::move(store), std::move(*keys),
                      {s.name, s.queue_full_name, s.unique,
                       [log = p.log, queue = s.name](const std::string& text) { log->error("queue", text, {{"queue", queue}}); }});
}

unique_policy policy_of(const config::queue_settings& s) {
  if (!s.unique) return {};
  switch (s.until) {
    case config::unique_until::start: return {unique_policy::until::start, {}};
    case config::unique_until::done: return {unique_policy::until::done, {}};
    case config::unique_until::success: return {unique_policy::until::success, {}};
    case config::unique_until::time: return {unique_policy::until::time, s.unique_lifetime};
  }
  return {};
}

expected<std::shared_ptr<storage>> open_storage(const host_parts& p) {
  const auto& s = p.settings;
  switch (s.type) {
    case config::queue_type::channel: {
      memory_options o;
      o.queue_full_name = s.queue_full_name;
      o.unique = policy_of(s);
      o.idempotency_window = s.idempotency_window;
      o.clock = p.clock;
      return std::shared_ptr<storage>(open_memory_storage(std::move(o)));
    }
    case config::queue_type::level: {
      level_options o;
      o.datadir = s.datadir;
      o.queue_full_name = s.queue_full_name;
      o.set_full_name = s.set_full_name;
      o.unique = policy_of(s);
      o.idempotency_window = s.idempotency_window;
      o.sync = s.sync;
      o.sync_interval = s.sync_interval;
      o.clock = p.clock;
      o.report = [log = p.log](const damage_report& d) {
        node_log::fields more{{"datadir", d.datadir}};
        if (!d.queue.empty()) more.emplace_back("queue", d.queue);
        if (d.lost) more.emplace_back("lost", std::to_string(*d.lost));
        if (!d.saved_to.empty()) more.emplace_back("saved_to", d.saved_to);
        // A write that a kill cut off loses nothing that was acknowledged: it is told, but nobody need act.
        if (d.lost.value_or(0) > 0 || !d.saved_to.empty())
          log->error("storage", d.what, more);
        else
          log->warn("storage", d.what, more);
      };
      auto opened = open_level_storage(std::move(o));
      if (!opened) return opened.failure();
      auto sealed = sealed_as_set(std::move(*opened), p);
      if (!sealed) return sealed.failure();
      return std::shared_ptr<storage>(std::move(*sealed));
    }
    case config::queue_type::redis:
    case config::queue_type::dummy: break;
  }
  return {errc::invalid_argument, "queue \"" + s.name + "\": has no storage of this node's own"};
}

expected<std::shared_ptr<hosted_queue>> host_queue(host_parts parts) {
  if (parts.settings.type == config::queue_type::dummy) return make_immediate_queue(std::move(parts));
  if (parts.settings.type == config::queue_type::redis) return make_shared_queue(std::move(parts));
  if (parts.cluster) return make_home_queue(std::move(parts));
  auto store = open_storage(parts);
  if (!store) return store.failure();
  return std::shared_ptr<hosted_queue>(make_actor_queue(std::move(parts), std::move(*store)));
}

record to_record(item_draft&& draft, wall_time now) {
  record r;
  auto& o = draft.options;
  r.payload = std::move(draft.payload);
  r.key = std::move(o.key);
  r.idempotency_key = std::move(o.idempotency_key);
  r.max_attempts = o.max_attempts;
  r.timeout = o.timeout;
  r.headers = std::move(o.headers);
  r.priority = o.priority;
  r.order_by = std::move(o.order_by);
  r.retention = o.retention;
  if (o.deadline != std::chrono::system_clock::time_point{}) r.deadline = to_wall(o.deadline);
  if (o.unique_for > 0ms) {
    r.hold = key_hold::time;
    r.hold_for = o.unique_for;
  } else {
    switch (o.unique_until) {
      case unique_until::as_queue: break;
      case unique_until::start: r.hold = key_hold::start; break;
      case unique_until::done: r.hold = key_hold::done; break;
      case unique_until::success: r.hold = key_hold::success; break;
    }
  }
  if (!o.retry.empty()) {
    record_more more;
    more.retry = std::move(o.retry);
    set_more(r, more);
  }
  r.pushed_at = now;
  if (o.at != std::chrono::system_clock::time_point{})
    r.due = to_wall(o.at);
  else if (o.delay > 0ms)
    r.due = now + o.delay;
  return r;
}

expected<void> check_options(const push_options& o, const std::string& queue) {
  const auto wrong = [&](std::string text) -> error {
    return {errc::invalid_argument, "queue \"" + queue + "\": " + std::move(text)};
  };
  if (o.priority < -100 || o.priority > 100)
    return wrong("the priority " + std::to_string(o.priority) + " is not from -100 to 100");
  if (o.priority != 0 && !o.order_by.empty())
    return wrong("a job with an order key (order_by) is handled in the order of pushes, so it has no priority; leave one of the two out");
  if (o.order_by.size() > 1024) return wrong("order_by has more than 1024 bytes; push a shorter key");
  if (o.unique_for < 0ms || o.retention < 0ms) return wrong("unique_for and retention are not negative");
  if (!o.retry.empty())
    if (const auto policy = config::parse_retry_policy(o.retry); !policy) return wrong("retry: " + policy.failure().text);
  return {};
}

queue_info to_queue_info(const hosted_queue& q, const queue_status& st, const pool_status* p) {
  const auto& s = q.settings();
  const auto& c = st.counts;
  queue_info i;
  i.name = s.name;
  i.id = q.id();
  i.type = std::string(config::to_string(s.type));
  i.item_type = q.item_type();
  i.unique = s.unique;
  i.phase = std::string(to_string(st.phase));
  i.paused_by = st.paused_by;
  i.paused_until = st.paused_until;
  i.trouble = st.trouble;
  i.owner = st.owner;
  i.waiting = c.waiting;
  i.running = c.running;
  i.delayed = c.delayed;
  i.dead = c.dead;
  i.oldest_waiting = st.oldest_waiting;
  i.pushed = c.totals.pushed;
  i.handled = c.totals.handled;
  i.failed = c.totals.failed;
  i.returned = c.totals.returned;
  i.died = c.totals.died;
  i.removed = c.totals.removed;
  i.redelivered = c.totals.redelivered;
  i.leases_lost = c.totals.leases_lost;
  i.length = s.length;
  if (!p) return i;
  i.handler = p->handler;
  i.restraint = p->restraint;
  i.workers = p->workers;
  i.active = p->active;
  i.abandoned = p->abandoned;
  i.max_workers = p->max_workers;
  return i;
}

job_info to_job_info(const job_status& st) {
  job_info j;
  j.id = st.item.id;
  j.state = std::string(to_string(st.phase));
  j.payload = st.item.payload;
  j.key = st.item.key;
  j.last_error = st.item.last_error;
  j.attempts = st.item.attempts;
  j.pushed_at = to_system(st.item.pushed_at);
  j.due = to_system(st.item.due);
  j.finished_at = to_system(st.finished_at);
  j.headers = st.item.headers;
  j.priority = st.item.priority;
  j.order_by = st.item.order_by;
  j.deadline = to_system(st.item.deadline);
  j.result = more_of(st.item).result;
  return j;
}

}  // namespace caravan
