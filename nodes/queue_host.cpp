#include "nodes/queue_host.hpp"

#include "actors/worker_pool/worker_pool_shell.hpp"
#include "config/read_settings.hpp"
#include "integration/leveldb/level_storage.hpp"
#include "integration/memory/memory_storage.hpp"
#include "messages/caf_error.hpp"
#include "nodes/foreign_thread.hpp"

#include <caf/all.hpp>

#include <algorithm>
#include <random>

namespace caravan {

using namespace std::chrono_literals;

namespace {

constexpr auto ask_timeout = 10s;
/// The queue waits this much longer for answers than its pool waits for handlers.
constexpr auto answer_moment = 250ms;

std::chrono::system_clock::time_point to_system(wall_time t) { return std::chrono::system_clock::time_point{t.time_since_epoch()}; }
wall_time to_wall(std::chrono::system_clock::time_point t) { return std::chrono::floor<std::chrono::milliseconds>(t); }

unique_policy policy_of(const config::queue_settings& s) {
  if (!s.unique) return {};
  switch (s.until) {
    case config::unique_until::start: return {unique_policy::until::start, {}};
    case config::unique_until::done: return {unique_policy::until::done, {}};
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
      return std::shared_ptr<storage>(std::move(*opened));
    }
    case config::queue_type::redis:
      return {errc::not_supported, "queue \"" + s.name + "\": TYPE = redis is not built in yet; use level or channel"};
    case config::queue_type::dummy: break;
  }
  return {errc::invalid_argument, "queue \"" + s.name + "\": a dummy queue has no storage"};
}

/// Wakes the queue's actor. Holds it weakly: the intake lives in the actor's state.
struct waker {
  caf::actor_addr queue;
  void operator()() const {
    if (const auto strong = caf::actor_cast<caf::strong_actor_ptr>(queue))
      caf::anon_send(caf::actor_cast<queue_actor>(strong), items_stored{});
  }
};

class actor_queue final : public hosted_queue {
public:
  actor_queue(host_parts parts, std::shared_ptr<storage> store) : parts_(std::move(parts)), store_(std::move(store)) {
    const foreign_thread here;
    const auto& s = parts_.settings;
    const auto counts = store_->count();
    health_ = std::make_shared<trouble>();
    auto wake = std::make_shared<waker>();
    door_ = std::make_shared<intake>(
      store_, intake::limits{s.name, s.length, s.max_item_size, s.push_timeout, s.unique}, counts.waiting + counts.delayed,
      [wake] { (*wake)(); }, *parts_.clock);

    auto& system = *parts_.system;
    log_ = [sink = parts_.log, queue = s.name](std::string_view what, const std::string& text) {
      sink->warn(what, text, {{"queue", queue}});
    };
    storekeeper_ = store_->blocks() ? system.spawn<caf::detached>(store_behavior, store_, door_, health_)
                                    : system.spawn(store_behavior, store_, door_, health_);
    std::random_device random;
    const auto seed = static_cast<std::uint64_t>(random()) << 32 | random();
    queue_parts q{s, store_, door_, health_, storekeeper_, parts_.clock, first_id_at(parts_.clock->wall()).value, seed, log_};
    queue_ = system.spawn(queue_behavior, std::move(q));
    wake->queue = queue_.address();
    if (parts_.handler) start_pool();
  }

  ~actor_queue() override { actor_queue::stop(); }

  [[nodiscard]] const std::string& name() const override { return parts_.settings.name; }
  [[nodiscard]] std::uint64_t id() const override { return parts_.id; }
  [[nodiscard]] const config::queue_settings& settings() const override { return parts_.settings; }
  [[nodiscard]] std::string item_type() const override {
    const std::lock_guard lock(mutex_);
    return parts_.item_type;
  }
  [[nodiscard]] queue_actor actor() const override {
    const std::lock_guard lock(mutex_);
    return queue_;
  }
  [[nodiscard]] worker_pool_actor pool() const override {
    const std::lock_guard lock(mutex_);
    return pool_;
  }
  [[nodiscard]] std::string trouble_text() const override { return health_->text(); }

  expected<void> attach(std::shared_ptr<runner> handler, const std::string& item_type) override {
    const foreign_thread here;
    const std::lock_guard lock(mutex_);
    if (stopped_) return closed();
    if (pool_) return {errc::conflict, "queue \"" + name() + "\": has a handler already"};
    parts_.handler = std::move(handler);
    parts_.item_type = item_type;
    start_pool();
    return {};
  }

  expected<item_id> push_one(item_draft draft) override {
    auto r = to_record(std::move(draft), parts_.clock->wall());
    const auto answer = stored(door_->push({&r, 1}));
    if (!answer) return answer.failure();
    const auto& first = answer->front();
    if (first.what == append_result::kind::already_in_queue)
      return {errc::already_in_queue, "queue \"" + name() + "\": an equal item waits already as job " +
                                        to_string(job_id{name(), first.id})};
    return first.id;
  }

  expected<std::vector<pushed>> push(std::vector<item_draft> drafts) override {
    std::vector<record> records;
    records.reserve(drafts.size());
    const auto now = parts_.clock->wall();
    for (auto& d : drafts) records.push_back(to_record(std::move(d), now));
    const auto answer = stored(door_->push(records));
    if (!answer) return answer.failure();
    std::vector<pushed> results;
    results.reserve(answer->size());
    for (const auto& a : *answer)
      results.push_back({a.id, a.what == append_result::kind::stored, a.what == append_result::kind::repeated});
    return results;
  }

  expected<bool> has(const std::string& payload, const std::string& key) override {
    if (!parts_.settings.unique) return false;
    const auto owner = store_->key_owner(digest_of(key.empty() ? payload : key));
    if (!owner) return owner.failure();
    return owner->has_value();
  }

  expected<queue_info> info() override {
    auto st = ask<queue_status>(&actor_queue::queue_, get_queue_status{}, ask_timeout);
    if (!st) return st.failure();
    if (!pool()) return to_queue_info(*this, *st, nullptr);
    const auto p = ask<pool_status>(&actor_queue::pool_, get_pool_status{}, ask_timeout);
    if (!p) return p.failure();
    return to_queue_info(*this, *st, &*p);
  }

  expected<void> flush(std::chrono::milliseconds timeout) override {
    return done(ask<ack>(&actor_queue::queue_, flush_queue{timeout}, std::max(timeout, 0ms) + ask_timeout));
  }
  expected<void> pause(std::chrono::system_clock::time_point until) override {
    return done(ask<ack>(&actor_queue::queue_, pause_queue{to_wall(until), {}}, ask_timeout));
  }
  expected<void> resume() override { return done(ask<ack>(&actor_queue::queue_, resume_queue{}, ask_timeout)); }
  expected<void> drain() override { return done(ask<ack>(&actor_queue::queue_, drain_queue{}, ask_timeout)); }

  expected<std::size_t> purge(std::string_view state) override {
    purge_queue p;
    if (state == "delayed")
      p.state = record_state::delayed;
    else if (state == "dead")
      p.state = record_state::dead;
    else if (state != "waiting")
      return {errc::invalid_argument, "there is no state \"" + std::string(state) + "\" to purge; write waiting, delayed or dead"};
    auto n = ask<purged_count>(&actor_queue::queue_, p, ask_timeout);
    if (!n) return n.failure();
    return static_cast<std::size_t>(n->count);
  }

  expected<void> set_max_workers(int most) override {
    if (!pool())
      return {errc::conflict, "queue \"" + name() + "\": has no handler on this node, so there are no workers to scale; set HANDLER"};
    return done(ask<ack>(&actor_queue::pool_, caravan::set_max_workers{most}, ask_timeout));
  }

  expected<job_info> find(item_id item) override {
    auto st = ask<job_status>(&actor_queue::queue_, find_job{item}, ask_timeout);
    if (!st) return st.failure();
    return to_job_info(*st);
  }

  std::size_t stop() override {
    {
      const std::lock_guard lock(mutex_);
      if (stopped_) return 0;
      stopped_ = true;  // from here on nobody else asks the actors
    }
    const auto timeout = parts_.settings.shutdown_timeout;
    std::size_t left = 0;
    const foreign_thread here;
    caf::scoped_actor self{*parts_.system};
    const auto stop_the_pool = [&](std::chrono::milliseconds patience) { return self->request(pool_, caf::infinite, stop_pool{patience}); };
    const auto stop_the_queue = [&] {
      return self->request(queue_, caf::infinite, stop_queue{timeout > 0ms ? timeout + answer_moment : 0ms});
    };
    const auto take_status = [&](queue_status& st) {
      left = static_cast<std::size_t>(st.counts.running);
      report_end(st);
    };
    const auto ignore = [](caf::error&) {};
    if (timeout > 0ms && pool_) {
      auto queue_stops = stop_the_queue();
      auto pool_stops = stop_the_pool(timeout);
      pool_stops.receive([](pool_status&) {}, ignore);
      queue_stops.receive(take_status, ignore);
    } else {
      stop_the_queue().receive(take_status, ignore);
      if (pool_) stop_the_pool(0ms).receive([](pool_status&) {}, ignore);
    }
    if (pool_) {
      self->send_exit(pool_, caf::exit_reason::user_shutdown);
      self->wait_for(pool_);
    }
    self->send_exit(queue_, caf::exit_reason::user_shutdown);
    self->send_exit(storekeeper_, caf::exit_reason::user_shutdown);
    self->wait_for(queue_, storekeeper_);
    {
      // An application may keep its queue<T> longer than the node: no actor may live on through that, or the actor
      // system would wait for it for ever.
      const std::lock_guard lock(mutex_);
      pool_ = nullptr;
      queue_ = nullptr;
      storekeeper_ = nullptr;
    }
    if (auto ok = store_->close(); !ok) parts_.log->error("storage", ok.failure().text, {{"queue", name()}});
    return left;
  }

private:
  template <class Reply, class Actor, class Message>
  expected<Reply> ask(Actor actor_queue::*who, const Message& what, std::chrono::milliseconds timeout) {
    Actor whom;
    {
      const std::lock_guard lock(mutex_);
      if (stopped_) return closed();
      whom = this->*who;
    }
    const foreign_thread here;
    caf::scoped_actor self{*parts_.system};
    expected<Reply> answer{errc::timed_out, "queue \"" + name() + "\": did not answer within " + std::to_string(timeout.count()) + " ms"};
    self->request(whom, timeout, what)
      .receive([&](Reply& r) { answer = std::move(r); },
               [&](caf::error& e) {
                 if (e != caf::sec::request_timeout) answer = from_caf(e);
               });
    return answer;
  }

  void start_pool() {
    const auto& s = parts_.settings;
    worker_pool_core::limits l;
    l.max_workers = s.max_workers;
    l.worker_idle = s.worker_idle;
    l.timeout = s.timeout;
    std::random_device random;
    const auto pool = static_cast<std::uint64_t>(random()) << 32 | random() | 1;
    pool_ = parts_.system->spawn(worker_pool_behavior,
                                 pool_parts{pool, pool_kind::local, parts_.node, l, parts_.handler, queue_, log_});
  }

  [[nodiscard]] error closed() const { return {errc::queue_closed, "queue \"" + name() + "\": is stopped"}; }

  static expected<void> done(expected<ack> answer) {
    if (!answer) return answer.failure();
    return {};
  }

  // A failed write turns readiness red; the next one that succeeds clears it.
  expected<std::vector<append_result>> stored(expected<std::vector<append_result>> answer) {
    if (!answer) {
      if (answer.failure().code == errc::backend_failed) {
        health_->set(answer.failure().text);
        push_failed_.store(true, std::memory_order_relaxed);
      }
    } else if (push_failed_.load(std::memory_order_relaxed)) {
      push_failed_.store(false, std::memory_order_relaxed);
      health_->clear();
    }
    return answer;
  }

  void report_end(const queue_status& st) {
    const auto& c = st.counts;
    if (parts_.settings.type != config::queue_type::channel) return;
    const auto lost = c.waiting + c.running + c.delayed;
    if (lost > 0)
      parts_.log->warn("queue", "items that were only in memory end with this node", {{"queue", name()}, {"items", std::to_string(lost)}});
  }

  host_parts parts_;
  std::shared_ptr<storage> store_;
  std::shared_ptr<intake> door_;
  std::shared_ptr<trouble> health_;
  store_actor storekeeper_;
  queue_actor queue_;
  worker_pool_actor pool_;
  std::atomic<bool> push_failed_{false};
  std::function<void(std::string_view, const std::string&)> log_;
  mutable std::mutex mutex_;  ///< of the pool and of `stopped_`
  bool stopped_ = false;
};

}  // namespace

expected<std::shared_ptr<hosted_queue>> host_queue(host_parts parts) {
  if (parts.settings.type == config::queue_type::dummy) return make_immediate_queue(std::move(parts));
  auto store = open_storage(parts);
  if (!store) return store.failure();
  return std::shared_ptr<hosted_queue>(std::make_shared<actor_queue>(std::move(parts), std::move(*store)));
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
  r.pushed_at = now;
  if (o.at != std::chrono::system_clock::time_point{})
    r.due = to_wall(o.at);
  else if (o.delay > 0ms)
    r.due = now + o.delay;
  return r;
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
  return j;
}

}  // namespace caravan
