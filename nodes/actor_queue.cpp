#include "nodes/actor_queue.hpp"

#include "actors/queue/queue_shell.hpp"
#include "actors/worker_pool/worker_pool_shell.hpp"
#include "nodes/ask_actor.hpp"
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
constexpr auto abandon_timeout = 2s;

wall_time to_wall(std::chrono::system_clock::time_point t) { return std::chrono::floor<std::chrono::milliseconds>(t); }

std::function<void(std::string_view, const std::string&)> log_of(const host_parts& p) {
  return [sink = p.log, queue = p.settings.name](std::string_view what, const std::string& text) {
    sink->warn(what, text, {{"queue", queue}});
  };
}

/// Wakes the queue's actor. Holds it weakly: the intake lives in the actor's state.
struct waker {
  caf::actor_addr queue;
  void operator()() const {
    if (const auto strong = caf::actor_cast<caf::strong_actor_ptr>(queue))
      caf::anon_send(caf::actor_cast<queue_actor>(strong), items_stored{});
  }
};

class local_queue final : public actor_queue {
public:
  local_queue(host_parts parts, std::shared_ptr<storage> store, queue_right right)
      : parts_(std::move(parts)), store_(std::move(store)) {
    const foreign_thread here;
    const auto& s = parts_.settings;
    const auto counts = store_->count();
    health_ = std::make_shared<trouble>();
    auto wake = std::make_shared<waker>();
    door_ = std::make_shared<intake>(
        store_, intake::limits{s.name, s.length, s.max_item_size, s.push_timeout, s.unique},
        counts.waiting + counts.delayed + counts.ranked + counts.keyed + counts.held, [wake] { (*wake)(); }, *parts_.clock);

    auto& system = *parts_.system;
    storekeeper_ = store_->blocks() ? system.spawn<caf::detached>(store_behavior, store_, door_, health_)
                                    : system.spawn(store_behavior, store_, door_, health_);
    std::random_device random;
    const auto seed = static_cast<std::uint64_t>(random()) << 32 | random();
    queue_parts q;
    q.settings = s;
    q.node = parts_.node;
    q.store = store_;
    q.door = door_;
    q.health = health_;
    q.storekeeper = storekeeper_;
    q.clock = parts_.clock;
    q.first_token = right.first_token != 0 ? right.first_token : first_id_at(parts_.clock->wall()).value;
    q.seed = seed;
    q.log = log_of(parts_);
    q.events = parts_.events;
    q.may_hand_out = std::move(right.may_hand_out);
    q.on_fenced = std::move(right.on_fenced);
    q.on_move = std::move(right.on_move);
    q.came_with = std::move(right.came_with);
    queue_ = system.spawn(queue_behavior, std::move(q));
    wake->queue = queue_.address();
    if (parts_.handler) start_pool();
  }

  ~local_queue() override { local_queue::stop(); }

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
  [[nodiscard]] std::shared_ptr<storage> local_storage() const override { return store_->shared() ? nullptr : store_; }

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
    if (auto ok = check_options(draft.options, name()); !ok) return ok.failure();
    auto r = to_record(std::move(draft), parts_.clock->wall());
    return to_one_answer(name(), store({&r, 1}));
  }
  expected<std::vector<pushed>> push(std::vector<item_draft> drafts) override {
    for (const auto& d : drafts)
      if (auto ok = check_options(d.options, name()); !ok) return ok.failure();
    auto records = to_records(std::move(drafts), parts_.clock->wall());
    return to_answers(store(records));
  }
  expected<std::vector<append_result>> store(std::span<record> records) override {
    return stored(door_->push(records));
  }

  void look_again() override {
    const foreign_thread here;
    const std::lock_guard lock(mutex_);
    if (!queue_) return;
    caf::anon_send(queue_, items_stored{});
    if (door_->want_adopt()) caf::anon_send(storekeeper_, adopt_pushes{});
  }

  expected<bool> has(const std::string& payload, const std::string& key) override {
    const auto owner = store_->key_owner(digest_of(key.empty() ? payload : key));
    if (!owner) return owner.failure();
    return owner->has_value();
  }

  expected<queue_info> info() override {
    auto st = ask<queue_status>(&local_queue::queue_, get_queue_status{}, ask_timeout);
    if (!st) return st.failure();
    if (!pool()) return to_queue_info(*this, *st, nullptr);
    const auto p = ask<pool_status>(&local_queue::pool_, get_pool_status{}, ask_timeout);
    if (!p) return p.failure();
    return to_queue_info(*this, *st, &*p);
  }

  expected<void> flush(std::chrono::milliseconds timeout) override {
    return done(ask<ack>(&local_queue::queue_, flush_queue{timeout}, std::max(timeout, 0ms) + ask_timeout));
  }
  expected<void> pause(std::chrono::system_clock::time_point until) override {
    return done(ask<ack>(&local_queue::queue_, pause_queue{to_wall(until), {}}, ask_timeout));
  }
  expected<void> resume() override { return done(ask<ack>(&local_queue::queue_, resume_queue{}, ask_timeout)); }
  expected<void> drain() override { return done(ask<ack>(&local_queue::queue_, drain_queue{}, ask_timeout)); }

  expected<std::size_t> purge(std::string_view state) override {
    const auto which = parse_state(state);
    if (!which) return which.failure();
    auto n = ask<purged_count>(&local_queue::queue_, purge_queue{*which}, ask_timeout);
    if (!n) return n.failure();
    return static_cast<std::size_t>(n->count);
  }

  expected<void> set_max_workers(int most) override {
    if (!pool())
      return {errc::conflict,
              "queue \"" + name() + "\": has no handler on this node, so there are no workers to scale; set HANDLER"};
    return done(ask<ack>(&local_queue::pool_, caravan::set_max_workers{most}, ask_timeout));
  }

  expected<job_info> find(item_id item) override {
    auto st = ask<job_status>(&local_queue::queue_, find_job{item}, ask_timeout);
    if (!st) return st.failure();
    return to_job_info(*st);
  }
  expected<void> cancel(item_id item) override {
    return done(ask<ack>(&local_queue::queue_, change_job{item, job_change::cancel}, ask_timeout));
  }

  std::size_t stop() override { return stop_within(parts_.settings.shutdown_timeout); }
  void abandon() override {
    const auto timeout = parts_.settings.shutdown_timeout;
    stop_within(timeout > 0ms ? timeout : abandon_timeout);  // 0 means to run the rest
  }

  void dismiss() override {
    door_->close({errc::fenced, "queue \"" + name() + "\": it moved to another node"});
    moved_ = true;
    stop_within(1ms);
  }
  [[nodiscard]] home_actor own_actor() const override {
    const std::lock_guard lock(mutex_);
    return queue_;
  }

private:
  std::size_t stop_within(std::chrono::milliseconds timeout) {
    {
      const std::lock_guard lock(mutex_);
      if (stopped_) return 0;
      stopped_ = true;  // from here on nobody else asks the actors
    }
    std::size_t left = 0;
    const foreign_thread here;
    caf::scoped_actor self{*parts_.system};
    const auto stop_the_pool = [&](std::chrono::milliseconds patience) {
      return self->request(pool_, caf::infinite, stop_pool{patience});
    };
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

  template <class Reply, class Actor, class Message>
  expected<Reply> ask(Actor local_queue::*who, const Message& what, std::chrono::milliseconds timeout) {
    Actor whom;
    {
      const std::lock_guard lock(mutex_);
      if (stopped_) return closed();
      whom = this->*who;
    }
    return ask_actor<Reply>(*parts_.system, whom, what, timeout, "queue \"" + name() + "\":");
  }

  void start_pool() { pool_ = spawn_pool(parts_, pool_kind::local, queue_); }

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
    if (parts_.settings.type != config::queue_type::channel || moved_) return;
    const auto lost = c.waiting + c.running + c.delayed;
    if (lost > 0)
      parts_.log->warn("queue", "items that were only in memory end with this node",
                       {{"queue", name()}, {"items", std::to_string(lost)}});
  }

  host_parts parts_;
  std::shared_ptr<storage> store_;
  std::shared_ptr<intake> door_;
  std::shared_ptr<trouble> health_;
  store_actor storekeeper_;
  home_actor queue_;
  worker_pool_actor pool_;
  std::atomic<bool> push_failed_{false};
  mutable std::mutex mutex_;  ///< of the pool and of `stopped_`
  bool stopped_ = false;
  std::atomic<bool> moved_{false};
};

}  // namespace

worker_pool_actor spawn_pool(const host_parts& parts, pool_kind kind, const queue_actor& queue) {
  const auto& s = parts.settings;
  worker_pool_core::limits l;
  l.max_workers = s.max_workers;
  l.worker_idle = s.worker_idle;
  l.timeout = s.timeout;
  std::random_device random;
  const auto id = static_cast<std::uint64_t>(random()) << 32 | random() | 1;
  const foreign_thread here;
  return parts.system->spawn(worker_pool_behavior,
                             pool_parts{id, kind, parts.node, l, parts.handler, queue, log_of(parts)});
}

std::shared_ptr<actor_queue> make_actor_queue(host_parts parts, std::shared_ptr<storage> store, queue_right right) {
  return std::make_shared<local_queue>(std::move(parts), std::move(store), std::move(right));
}

expected<record_state> parse_state(std::string_view text) {
  if (text == "waiting") return record_state::waiting;
  if (text == "delayed") return record_state::delayed;
  if (text == "dead") return record_state::dead;
  if (text == "done") return record_state::done;
  return {errc::invalid_argument,
          "there is no state \"" + std::string(text) + "\" to purge; write waiting, delayed, dead or done"};
}

expected<item_id> to_one_answer(const std::string& queue, const expected<std::vector<append_result>>& stored) {
  if (!stored) return stored.failure();
  const auto& first = stored->front();
  if (first.what == append_result::kind::already_in_queue)
    return {errc::already_in_queue,
            "queue \"" + queue + "\": an equal item waits already as job " + to_string(job_id{queue, first.id})};
  return first.id;
}

expected<std::vector<pushed>> to_answers(const expected<std::vector<append_result>>& stored) {
  if (!stored) return stored.failure();
  std::vector<pushed> results;
  results.reserve(stored->size());
  for (const auto& a : *stored)
    results.push_back({a.id, a.what == append_result::kind::stored, a.what == append_result::kind::repeated});
  return results;
}

std::vector<record> to_records(std::vector<item_draft>&& drafts, wall_time now) {
  std::vector<record> records;
  records.reserve(drafts.size());
  for (auto& d : drafts) records.push_back(to_record(std::move(d), now));
  return records;
}

}  // namespace caravan
