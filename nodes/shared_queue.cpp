#include "nodes/shared_queue.hpp"

#include "actors/queue/queue_link.hpp"
#include "actors/store/store_actor.hpp"
#include "integration/redis/redis_moves.hpp"
#include "integration/redis/redis_storage.hpp"
#include "nodes/actor_queue.hpp"
#include "nodes/ask_actor.hpp"
#include "nodes/call_guard.hpp"
#include "nodes/foreign_thread.hpp"
#include "nodes/mesh.hpp"
#include "nodes/ownership.hpp"

#include <caf/all.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <condition_variable>
#include <limits>
#include <mutex>
#include <sstream>
#include <thread>
#include <vector>

namespace caravan {

using namespace std::chrono_literals;

namespace {

constexpr auto first_pause = 20ms;
constexpr auto longest_pause = 250ms;
constexpr auto settle_patience = 3s;
constexpr auto ask_timeout = 10s;
constexpr auto abandon_timeout = 2s;
constexpr auto short_delay = 200ms;  ///< before a way that was lost is looked for again
constexpr auto opening_delay = 50ms;
constexpr auto long_delay = 1s;  ///< before the next try
/// A lease token has to be above all of earlier owners: these count on from their epoch, of which there is at most one
/// a millisecond.
constexpr unsigned tokens_an_epoch_bits = 20;

/// What every node has of the queue: a way to push, and an actor that knows who owns it.
struct standby {
  std::shared_ptr<storage> store;
  std::shared_ptr<intake> door;
  std::shared_ptr<trouble> health = std::make_shared<trouble>();
  store_actor storekeeper;
  queue_link_actor link;
};

class shared_queue final : public hosted_queue {
public:
  shared_queue(host_parts parts, std::shared_ptr<storage> pushes)
      : parts_(std::move(parts)), guard_(std::make_shared<call_guard<shared_queue>>(this)) {
    const foreign_thread here;
    const auto& s = parts_.settings;
    standby_.store = std::move(pushes);
    // LENGTH is looked after in Redis. What is stored is announced there too: nobody here takes it.
    const auto drop = [this] {
      std::vector<record> ignored;
      standby_.door->take(ignored);
    };
    standby_.door = std::make_shared<intake>(
        standby_.store,
        intake::limits{s.name, std::numeric_limits<std::size_t>::max() / 2, s.max_item_size, s.push_timeout, s.unique},
        0, drop, *parts_.clock);
    auto& system = *parts_.system;
    standby_.storekeeper = system.spawn<caf::detached>(store_behavior, standby_.store, standby_.door, standby_.health);
    standby_.link =
        system.spawn(queue_link_behavior,
                     link_parts{s.name, parts_.node, standby_.storekeeper, s.length, s.push_timeout,
                                [g = guard_] { g->call([](shared_queue& q) { q.look_for_owner(short_delay); }); }});

    ownership::listener on;
    on.owned = [this](std::uint64_t epoch) {
      const bool can = become_owner(epoch);
      settle();
      return can;
    };
    on.lost = [this] { lose(); };
    on.held_by = [this](const std::string& who) {
      held_by(who);
      settle();
    };
    on.look_again = [this] {
      if (const auto q = mine()) q->look_again();
    };
    on.trouble = [this](const std::string& text) { set_trouble(text); };
    place_ = parts_.shared->add(s.queue_full_name, std::move(on));
    parts_.shared->begin(place_);
    // So that who has just opened it can use it: it is known by then whether it is this node's.
    std::unique_lock lock(mutex_);
    settled_.wait_for(lock, settle_patience, [&] { return is_settled_; });
  }

  ~shared_queue() override { shared_queue::stop(); }

  [[nodiscard]] const std::string& name() const override { return parts_.settings.name; }
  [[nodiscard]] std::uint64_t id() const override { return parts_.id; }
  [[nodiscard]] const config::queue_settings& settings() const override { return parts_.settings; }
  [[nodiscard]] std::string item_type() const override {
    const std::lock_guard lock(mutex_);
    return parts_.item_type;
  }
  [[nodiscard]] queue_actor actor() const override {
    const std::lock_guard lock(mutex_);
    return mine_ ? mine_->actor() : queue_actor(caf::actor_cast<queue_actor>(standby_.link));
  }
  [[nodiscard]] worker_pool_actor pool() const override {
    const std::lock_guard lock(mutex_);
    return mine_ ? mine_->pool() : pool_;
  }
  [[nodiscard]] queue_actor owned_actor() const override {
    const std::lock_guard lock(mutex_);
    return mine_ ? mine_->actor() : queue_actor();
  }
  [[nodiscard]] std::string trouble_text() const override {
    if (const auto q = mine())
      if (auto text = q->trouble_text(); !text.empty()) return text;
    if (auto text = standby_.health->text(); !text.empty()) return text;
    return link_health_.text();
  }

  expected<void> attach(std::shared_ptr<runner> handler, const std::string& item_type) override {
    const std::lock_guard lock(mutex_);
    if (stopped_) return closed();
    if (parts_.handler) return {errc::conflict, "queue \"" + name() + "\": has a handler already"};
    parts_.handler = handler;
    parts_.item_type = item_type;
    if (mine_) return mine_->attach(std::move(handler), item_type);
    if (linked_) start_pool();
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

  expected<bool> has(const std::string& payload, const std::string& key) override {
    if (!parts_.settings.unique) return false;
    const auto owner = standby_.store->key_owner(digest_of(key.empty() ? payload : key));
    if (!owner) return owner.failure();
    return owner->has_value();
  }

  expected<queue_info> info() override {
    if (const auto q = mine()) return q->info();
    auto st = ask<queue_status>(get_queue_status{});
    if (!st) return st.failure();
    const auto p = pool();
    if (!p) return to_queue_info(*this, *st, nullptr);
    const auto status = ask_actor<pool_status>(*parts_.system, p, get_pool_status{}, ask_timeout,
                                               "queue \"" + name() + "\": its workers");
    return to_queue_info(*this, *st, status ? &*status : nullptr);
  }

  expected<void> flush(std::chrono::milliseconds timeout) override {
    if (const auto q = mine()) return q->flush(timeout);
    return done(ask<ack>(flush_queue{timeout}, std::max(timeout, 0ms) + ask_timeout));
  }
  expected<void> pause(std::chrono::system_clock::time_point until) override {
    if (const auto q = mine()) return q->pause(until);
    return done(ask<ack>(pause_queue{std::chrono::floor<std::chrono::milliseconds>(until), {}}));
  }
  expected<void> resume() override {
    if (const auto q = mine()) return q->resume();
    return done(ask<ack>(resume_queue{}));
  }
  expected<void> drain() override {
    if (const auto q = mine()) return q->drain();
    return done(ask<ack>(drain_queue{}));
  }
  expected<std::size_t> purge(std::string_view state) override {
    if (const auto q = mine()) return q->purge(state);
    const auto which = parse_state(state);
    if (!which) return which.failure();
    auto n = ask<purged_count>(purge_queue{*which});
    if (!n) return n.failure();
    return static_cast<std::size_t>(n->count);
  }
  expected<void> set_max_workers(int most) override {
    if (const auto q = mine()) return q->set_max_workers(most);
    const auto p = pool();
    if (!p)
      return {errc::conflict,
              "queue \"" + name() + "\": has no workers on this node at this moment, so there are none to scale"};
    return done(ask_actor<ack>(*parts_.system, p, caravan::set_max_workers{most}, ask_timeout,
                               "queue \"" + name() + "\": its workers"));
  }
  expected<job_info> find(item_id item) override {
    if (const auto q = mine()) return q->find(item);
    auto st = ask<job_status>(find_job{item});
    if (!st) return st.failure();
    return to_job_info(*st);
  }
  expected<void> cancel(item_id item) override {
    if (const auto q = mine()) return q->cancel(item);
    return done(ask<ack>(change_job{item, job_change::cancel}));
  }

  std::size_t stop() override {
    {
      const std::lock_guard lock(mutex_);
      if (stopped_) return 0;
      stopped_ = true;
    }
    parts_.shared->remove(place_);  // from here on nothing changes hands
    guard_->drop();
    std::shared_ptr<actor_queue> q;
    worker_pool_actor p;
    std::vector<std::jthread> retiring;
    {
      const std::lock_guard lock(mutex_);
      q = std::exchange(mine_, nullptr);
      p = std::exchange(pool_, nullptr);
      retiring.swap(retiring_);
    }
    if (q) keep_pause(*q);
    auto left = q ? q->stop() : 0;
    if (p) left += end_pool(*parts_.system, p, parts_.settings.shutdown_timeout);
    parts_.shared->give_up(place_);
    retiring.clear();
    const foreign_thread here;
    caf::scoped_actor self{*parts_.system};
    // What the pool said last has gone through the link when it answers.
    self->request(standby_.link, ask_timeout, find_job{}).receive([](const job_status&) {}, [](caf::error&) {});
    self->send_exit(standby_.link, caf::exit_reason::user_shutdown);
    self->send_exit(standby_.storekeeper, caf::exit_reason::user_shutdown);
    self->wait_for(standby_.link, standby_.storekeeper);
    {
      const std::lock_guard lock(mutex_);
      standby_.link = nullptr;
      standby_.storekeeper = nullptr;
    }
    (void)standby_.store->close();
    return left;
  }

private:
  [[nodiscard]] std::shared_ptr<actor_queue> mine() const {
    const std::lock_guard lock(mutex_);
    return mine_;
  }
  [[nodiscard]] error closed() const { return {errc::queue_closed, "queue \"" + name() + "\": is stopped"}; }
  static expected<void> done(const expected<ack>& answer) {
    if (!answer) return answer.failure();
    return {};
  }

  /// By the link, which knows the owner.
  template <class Reply, class Message>
  expected<Reply> ask(const Message& what, std::chrono::milliseconds timeout = ask_timeout) {
    queue_link_actor link;
    {
      const std::lock_guard lock(mutex_);
      if (stopped_) return closed();
      link = standby_.link;
    }
    return ask_actor<Reply>(*parts_.system, link, what, timeout, "queue \"" + name() + "\": its owner");
  }

  expected<std::vector<append_result>> store(std::span<record> records) {
    if (const auto q = mine()) {
      auto answer = q->store(records);
      if (answer || (answer.failure().code != errc::fenced && answer.failure().code != errc::queue_closed))
        return answer;
      if (answer.failure().code == errc::fenced)
        place_->doubt();
      else if (mine() == q)
        return answer;  // it drains or is stopped; else it was closed since it is not this node's any more
    }
    {
      const std::lock_guard lock(mutex_);
      if (stopped_) return closed();
    }
    // Nobody here is told when there is room.
    const auto deadline = parts_.clock->now() + parts_.settings.push_timeout;
    auto pause = std::chrono::milliseconds{first_pause};
    for (;;) {
      auto answer = standby_.door->push(records);
      const bool can_wait =
          !answer && answer.failure().code == errc::queue_full && records.size() <= parts_.settings.length;
      if (!can_wait || parts_.clock->now() + pause > deadline) {
        if (!answer && answer.failure().code == errc::backend_failed) standby_.health->set(answer.failure().text);
        return answer;
      }
      std::this_thread::sleep_for(pause);
      pause = std::min<std::chrono::milliseconds>(pause * 2, longest_pause);
    }
  }

  // ---- told by the ownership, one at a time ----

  void settle() {
    const std::lock_guard lock(mutex_);
    is_settled_ = true;
    settled_.notify_all();
  }

  bool become_owner(std::uint64_t epoch) {
    const auto& s = parts_.settings;
    auto o = storage_options(parts_);
    o.epoch = epoch;
    o.length = 0;
    auto opened = open_storage(std::move(o), parts_);
    if (!opened) {
      parts_.log->error("queue", opened.failure().text, {{"queue", s.name}});
      set_trouble(opened.failure().text);
      return false;
    }
    queue_right right;
    right.first_token = epoch << tokens_an_epoch_bits;
    right.may_hand_out = [place = place_of()] {
      const auto p = place.lock();
      return p && p->certain();
    };
    right.on_fenced = [place = place_of()] {
      if (const auto p = place.lock()) p->doubt();
    };
    right.on_move = [g = guard_](const move_queue& m) {
      expected<void> answer{errc::queue_closed, "the queue is stopped"};
      g->call([&](shared_queue& q) { answer = q.begin_move(m); });
      return answer;
    };
    std::unique_lock lock(mutex_);
    auto parts = parts_;
    lock.unlock();
    parts.handler = nullptr;  // it gets it below, when nothing can come between
    auto q = make_actor_queue(std::move(parts), std::move(*opened), std::move(right));
    take_pause(*q);
    link_health_.clear();
    drop_link(parts_.node);
    lock.lock();
    mine_ = q;
    owner_ = {parts_.node, {}, {}};
    if (parts_.handler) (void)q->attach(parts_.handler, parts_.item_type);
    lock.unlock();
    parts_.log->info("queue", "this node owns it now", {{"queue", s.name}, {"epoch", std::to_string(epoch)}});
    tell(event_topic::queue_owner_changed, {{"owner", parts_.node}, {"epoch", epoch}});
    q->look_again();  // what came between
    return true;
  }

  void lose() {
    std::shared_ptr<actor_queue> q;
    {
      const std::lock_guard lock(mutex_);
      q = std::exchange(mine_, nullptr);
    }
    if (!q) return;
    parts_.log->warn("queue", "another node owns it now; what is in handlers here will be handled there again",
                     {{"queue", name()}});
    // Its handlers are given time to end, which must not hold up others.
    retire([q] { q->abandon(); });
  }

  expected<void> begin_move(const move_queue& m) {
    if (m.to == parts_.node) return {errc::conflict, "queue \"" + name() + "\": is on node \"" + m.to + "\" already"};
    std::shared_ptr<actor_queue> q;
    {
      const std::lock_guard lock(mutex_);
      q = std::exchange(mine_, nullptr);  // from here on pushes go to Redis, where the next owner finds them
    }
    if (!q) return {errc::conflict, "queue \"" + name() + "\": is being moved already"};
    retire([this, q, m] { hand_over(*q, m); });
    return {};
  }

  // The next owner finds it in the queue's numbers.
  void keep_pause(actor_queue& q) {
    const auto info = q.info();
    if (!info || info->phase != "paused") return;
    const auto until = std::chrono::floor<std::chrono::milliseconds>(info->paused_until).time_since_epoch().count();
    (void)parts_.shared->client()->command({"HSET", meta_key(), "paused", std::to_string(until)});
  }
  void take_pause(actor_queue& q) {
    const auto kept = parts_.shared->client()->command({"HGET", meta_key(), "paused"});
    if (!kept || !kept->is_text()) return;
    const auto until =
        std::chrono::system_clock::time_point{std::chrono::milliseconds{std::strtoll(kept->text.c_str(), nullptr, 10)}};
    (void)q.pause(until);
    (void)parts_.shared->client()->command({"HDEL", meta_key(), "paused"});
  }
  [[nodiscard]] std::string meta_key() const { return "caravan:{" + parts_.settings.queue_full_name + "}:meta"; }

  // What runs may end; what is left is handed out again by the next owner.
  void hand_over(actor_queue& q, const move_queue& m) {
    const auto begun = std::chrono::steady_clock::now();
    keep_pause(q);
    q.abandon();
    const auto ok = parts_.shared->hand_over(place_, m.to);
    const auto ms = std::chrono::ceil<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begun).count();
    if (!ok) {
      parts_.log->warn(
          "queue", "the move to node \"" + m.to + "\" was not confirmed: " + ok.failure().text + "; its lease decides",
          {{"queue", name()}});
      return;
    }
    parts_.log->info("queue", "handed over to node \"" + m.to + "\"",
                     {{"queue", name()}, {"took_ms", std::to_string(ms)}, {"by", m.by}});
    tell(event_topic::queue_moved, {{"from", parts_.node}, {"to", m.to}, {"by", m.by}, {"ms", ms}});
    note_move(*parts_.shared->client(),
              {parts_.clock->wall().time_since_epoch().count(), name(), parts_.node, m.to, m.by, ms});
  }

  // "NAME INCARNATION ADDRESS"
  void held_by(const std::string& who) {
    mesh_peer peer;
    std::istringstream words(who);
    words >> peer.name >> peer.incarnation >> peer.address;
    bool news = false;
    {
      const std::lock_guard lock(mutex_);
      news = owner_.name != peer.name;
      const bool same = owner_.incarnation == peer.incarnation;
      owner_ = peer;
      if (same && (linked_ || searching_)) return;
    }
    if (news) parts_.log->info("queue", "node \"" + peer.name + "\" owns it", {{"queue", name()}});
    drop_link(peer.name);
    look_for_owner(0ms);
  }

  void drop_link(const std::string& owner) {
    worker_pool_actor p;
    {
      const std::lock_guard lock(mutex_);
      linked_ = false;
      p = std::exchange(pool_, nullptr);
    }
    const foreign_thread here;
    caf::anon_send(standby_.link, set_owner{owner, {}});
    if (p) retire([system = parts_.system, p] { (void)end_pool(*system, p, abandon_timeout); });
  }

  // From the ownership's thread, from the mesh's, and from the link's.
  void look_for_owner(std::chrono::milliseconds delay) {
    mesh_peer peer;
    {
      const std::lock_guard lock(mutex_);
      if (stopped_ || mine_ || !parts_.others || owner_.address.empty()) return;
      linked_ = false;
      if (std::exchange(searching_, true)) return;
      peer = owner_;
    }
    parts_.others->find(peer, name(), delay, [g = guard_, peer](expected<queue_actor> found) {
      g->call([&](shared_queue& q) { q.owner_found(peer, std::move(found)); });
    });
  }

  void owner_found(const mesh_peer& peer, expected<queue_actor> found) {
    {
      const std::lock_guard lock(mutex_);
      searching_ = false;
      if (stopped_ || mine_) return;
      if (owner_.incarnation != peer.incarnation) found = error{errc::not_found, "another node owns it meanwhile"};
    }
    if (!found) {
      // Its lease decides whether it lives; until then the way to it may come back.
      if (found.failure().code != errc::not_found) {
        const auto text =
            "queue \"" + name() +
            "\": its owner cannot be reached, so nothing is handled on this node: " + found.failure().text;
        if (!std::exchange(link_told_, true)) parts_.log->warn("cluster", text, {{"queue", name()}});
        link_health_.set(text);
      }
      look_for_owner(found.failure().code == errc::not_found ? opening_delay
                                                             : long_delay);  // an owner opens the queue first
      return;
    }
    link_health_.clear();
    if (std::exchange(link_told_, false))
      parts_.log->info("cluster", "its owner can be reached again", {{"queue", name()}});
    drop_link(peer.name);  // a pool that is left counts on the old way
    const foreign_thread here;
    caf::anon_send(standby_.link, set_owner{peer.name, *found});
    const std::lock_guard lock(mutex_);
    linked_ = true;
    start_pool();
  }

  // Under mutex_. Workers of this node for the owner's queue.
  void start_pool() {
    if (!parts_.handler || pool_) return;
    pool_ = spawn_pool(parts_, pool_kind::remote, caf::actor_cast<queue_actor>(standby_.link));
  }

  /// Returns how many handlers still run.
  static std::size_t end_pool(caf::actor_system& system, const worker_pool_actor& pool,
                              std::chrono::milliseconds timeout) {
    const foreign_thread here;
    caf::scoped_actor self{system};
    std::size_t left = 0;
    self->request(pool, caf::infinite, stop_pool{timeout})
        .receive([&](const pool_status& st) { left = st.active; }, [](caf::error&) {});
    self->send_exit(pool, caf::exit_reason::user_shutdown);
    self->wait_for(pool);
    return left;
  }

  template <class Call>
  void retire(Call call) {
    std::jthread thread(std::move(call));
    const std::lock_guard lock(mutex_);
    retiring_.push_back(std::move(thread));
  }

  void set_trouble(const std::string& text) {
    if (text.empty())
      standby_.health->clear();
    else
      standby_.health->set(text.starts_with("queue \"") ? text : "queue \"" + name() + "\": " + text);
    const bool before = std::exchange(in_trouble_, !text.empty());
    if (before == in_trouble_) return;
    if (in_trouble_)
      tell(event_topic::queue_trouble, {{"text", text}});
    else
      tell(event_topic::queue_recovered, nlohmann::json::object());
    if (in_trouble_)
      parts_.log->warn("storage", text, {{"queue", name()}});
    else
      parts_.log->info("storage", "Redis answers again", {{"queue", name()}});
  }

  void tell(event_topic t, const nlohmann::json& body) const {
    if (parts_.events && parts_.events->wants(t))
      parts_.events->tell(t, name(), body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  }

  [[nodiscard]] std::weak_ptr<ownership::place> place_of() const { return place_; }

public:
  [[nodiscard]] static expected<std::unique_ptr<storage>> open_storage(redis_storage_options o, const host_parts& p) {
    auto opened = open_redis_storage(std::move(o));
    if (!opened) return opened.failure();
    return sealed_as_set(std::move(*opened), p);
  }
  [[nodiscard]] static redis_storage_options storage_options(const host_parts& p) {
    const auto& s = p.settings;
    redis_storage_options o;
    o.client = p.shared->client();
    o.queue_full_name = s.queue_full_name;
    o.set_full_name = s.set_full_name;
    o.unique = policy_of(s);
    o.idempotency_window = s.idempotency_window;
    o.length = s.length;
    o.clock = p.clock;
    o.report = [log = p.log, queue = s.name](const std::string& what) {
      log->error("storage", what, {{"queue", queue}});
    };
    return o;
  }

private:
  host_parts parts_;
  const std::shared_ptr<call_guard<shared_queue>> guard_;
  standby standby_;
  std::shared_ptr<ownership::place> place_;
  mutable std::mutex mutex_;
  std::shared_ptr<actor_queue> mine_;  ///< while this node owns it
  mesh_peer owner_;                    ///< as far as this node knows
  worker_pool_actor pool_;             ///< of this node, for another owner
  trouble link_health_;
  bool link_told_ = false;  ///< only the mesh's thread
  bool linked_ = false;     ///< there is a way to the owner
  bool searching_ = false;
  std::vector<std::jthread> retiring_;
  bool stopped_ = false;
  bool is_settled_ = false;
  std::condition_variable settled_;
  bool in_trouble_ = false;  ///< only the ownership's thread
};

}  // namespace

expected<std::shared_ptr<hosted_queue>> make_shared_queue(host_parts parts) {
  auto opened = shared_queue::open_storage(shared_queue::storage_options(parts), parts);
  if (!opened) return opened.failure();
  return std::shared_ptr<hosted_queue>(std::make_shared<shared_queue>(std::move(parts), std::move(*opened)));
}

}  // namespace caravan
