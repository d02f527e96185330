#include "nodes/home_queue.hpp"

#include "actors/move/move_source_shell.hpp"
#include "actors/move/move_target_shell.hpp"
#include "actors/move/queue_front.hpp"
#include "actors/store/trouble.hpp"
#include "config/read_settings.hpp"
#include "integration/tracked_storage.hpp"
#include "nodes/actor_queue.hpp"
#include "nodes/ask_actor.hpp"
#include "nodes/call_guard.hpp"
#include "nodes/foreign_thread.hpp"

#include <caf/all.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <future>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace caravan {

using namespace std::chrono_literals;

namespace {

std::size_t items_in(const storage_counts& n) {
  std::size_t all = 0;
  for (std::size_t s = 0; s < record_states; ++s) all += n.of(static_cast<record_state>(s));
  return all;
}

constexpr auto news_takes = 5s;  // many times what it takes between nodes that live
constexpr auto ask_timeout = 10s;
constexpr auto answer_moment = 1s;
constexpr auto short_delay = 100ms;  ///< before a way that was lost is looked for again
constexpr auto long_delay = 1s;      ///< before the next try
constexpr auto end_of_move = 5s;     ///< how long the end of the node waits for a move under way

/// For tests: MOVE_TEST_KILL = "target:image" ends this process there, as a crash would.
std::function<void(std::string_view)> killer(std::string_view side) {
  const char* where = std::getenv("MOVE_TEST_KILL");
  if (!where) return {};
  return [side = std::string(side) + ":", wanted = std::string(where)](std::string_view step) {
    if (wanted == side + std::string(step)) ::raise(SIGKILL);
  };
}

class home_queue_impl final : public home_queue {
public:
  explicit home_queue_impl(host_parts parts)
      : parts_(std::move(parts)), cluster_(parts_.cluster), guard_(std::make_shared<call_guard<home_queue_impl>>(this)) {
    const foreign_thread here;
    const auto& s = parts_.settings;
    front_ = parts_.system->spawn(
        queue_front_behavior,
        front_parts{s.name, parts_.node, cluster_->incarnation, s.push_timeout,
                    [g = guard_](std::uint64_t serial) { g->call([&](home_queue_impl& q) { q.lost(serial); }); }});
  }
  ~home_queue_impl() override { home_queue_impl::stop(); }

  /// Finds out where its home is, and begins to serve if that is here.
  expected<void> open() {
    const std::unique_lock one_at_a_time(changing_);
    auto noted = cluster_->book->get(name());
    if (!noted) return noted.failure();
    note_ = *noted;
    const auto elsewhere = cluster_->members->home_of(name());
    const bool others = !elsewhere.node.empty() && elsewhere.node != parts_.node;
    expected<void> ok;
    if (note_.promised.move != 0) {
      ok = open_store();  // what came is in there, and is not shown before it is decided
      incoming_ = true;
      hold_messages_until_decided();
    } else if (note_.node == parts_.node) {
      if (others && elsewhere.epoch >= note_.epoch) return two_homes(elsewhere.node);
      ok = open_store();
      if (ok) ok = begin(note_.epoch, nullptr);
    } else if (note_.node.empty()) {
      ok = open_unknown(elsewhere, others);
    }
    if (!ok) return ok;
    spawn_taker();
    if (!mine()) point_to(note_.node, {});
    return {};
  }

  [[nodiscard]] const std::string& name() const override { return parts_.settings.name; }
  [[nodiscard]] std::uint64_t id() const override { return parts_.id; }
  [[nodiscard]] const config::queue_settings& settings() const override { return parts_.settings; }
  [[nodiscard]] std::string item_type() const override {
    const std::lock_guard lock(mutex_);
    return parts_.item_type;
  }
  [[nodiscard]] queue_actor actor() const override {
    const std::lock_guard lock(mutex_);
    return front_ ? queue_actor(front_) : queue_actor();
  }
  [[nodiscard]] worker_pool_actor pool() const override {
    const std::lock_guard lock(mutex_);
    return pool_;
  }
  [[nodiscard]] queue_actor owned_actor() const override { return at_home() ? actor() : queue_actor(); }
  [[nodiscard]] std::shared_ptr<storage> local_storage() const override {
    const std::lock_guard lock(mutex_);
    return mine_ ? store_ : nullptr;
  }
  [[nodiscard]] std::string trouble_text() const override {
    if (const auto q = mine())
      if (auto text = q->trouble_text(); !text.empty()) return text;
    return trouble_.text();
  }
  [[nodiscard]] bool at_home() const override { return mine() != nullptr; }
  [[nodiscard]] bool moving() const override {
    const std::lock_guard lock(mutex_);
    return moving_ != 0;
  }
  [[nodiscard]] move_target_actor taker() const override {
    const std::lock_guard lock(mutex_);
    return taker_ ? move_target_actor(taker_) : move_target_actor();
  }

  [[nodiscard]] home_claim claim() const override {
    const std::lock_guard lock(mutex_);
    home_claim c{name(), std::string(config::to_string(parts_.settings.type)), parts_.settings.unique, 0, 0};
    if (!mine_) return c;
    c.epoch = note_.epoch;
    const auto n = store_->count();
    c.items = items_in(n);
    return c;
  }

  [[nodiscard]] move_decision decision(std::uint64_t move) const override {
    const std::lock_guard lock(mutex_);
    if (moving_ == move && !decided_) return {move_outcome::pending};
    return {note_.move == move && note_.node != parts_.node ? move_outcome::committed : move_outcome::aborted};
  }

  expected<void> attach(std::shared_ptr<runner> handler, const std::string& item_type) override {
    const std::lock_guard lock(mutex_);
    if (stopped_) return closed();
    if (parts_.handler) return {errc::conflict, "queue \"" + name() + "\": has a handler already"};
    parts_.handler = std::move(handler);
    parts_.item_type = item_type;
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
    const auto found = ask<found_key>(find_key{digest_of(key.empty() ? payload : key)});
    if (!found) return found.failure();
    return static_cast<bool>(found->holder);
  }
  expected<queue_info> info() override {
    auto st = ask<queue_status>(get_queue_status{});
    if (!st) return st.failure();
    const auto p = pool();
    if (!p) return to_queue_info(*this, *st, nullptr);
    const auto status = ask_actor<pool_status>(*parts_.system, p, get_pool_status{}, ask_timeout,
                                               "queue \"" + name() + "\": its workers");
    return to_queue_info(*this, *st, status ? &*status : nullptr);
  }
  expected<void> flush(std::chrono::milliseconds timeout) override {
    return done(ask<ack>(flush_queue{timeout}, std::max(timeout, 0ms) + ask_timeout));
  }
  expected<void> pause(std::chrono::system_clock::time_point until) override {
    return done(ask<ack>(pause_queue{std::chrono::floor<std::chrono::milliseconds>(until), {}}));
  }
  expected<void> resume() override { return done(ask<ack>(resume_queue{})); }
  expected<void> drain() override { return done(ask<ack>(drain_queue{})); }
  expected<std::size_t> purge(std::string_view state) override {
    const auto which = parse_state(state);
    if (!which) return which.failure();
    auto n = ask<purged_count>(purge_queue{*which});
    if (!n) return n.failure();
    return static_cast<std::size_t>(n->count);
  }
  expected<void> set_max_workers(int most) override {
    const auto p = pool();
    if (!p)
      return {errc::conflict,
              "queue \"" + name() + "\": has no workers on this node at this moment, so there are none to scale"};
    return done(ask_actor<ack>(*parts_.system, p, caravan::set_max_workers{most}, ask_timeout,
                               "queue \"" + name() + "\": its workers"));
  }
  expected<void> cancel(item_id item) override { return done(ask<ack>(change_job{item, job_change::cancel})); }
  expected<job_info> find(item_id item) override {
    auto st = ask<job_status>(find_job{item});
    if (!st) return st.failure();
    return to_job_info(*st);
  }

  void look() override {
    const std::unique_lock one_at_a_time(changing_);
    const auto known = cluster_->members->home_of(name());
    std::unique_lock lock(mutex_);
    if (stopped_) return;
    if (mine_) {
      lock.unlock();
      look_at_home(known);
      return;
    }
    const auto now = std::chrono::steady_clock::now();
    if (!known.node.empty())
      nobody_since_.reset();
    else if (!nobody_since_)
      nobody_since_ = now;
    if (known.node.empty() || known.node == parts_.node) {
      const bool lost_with_its_node = parts_.settings.type == config::queue_type::channel;
      // Between two homes of a move nobody says that it is his, for as long as news takes: no reason to begin it anew.
      const bool on_its_way = !note_.node.empty() && cluster_->members->peer(note_.node) && nobody_since_ && now - *nobody_since_ < news_takes;
      // While a move comes here its source decides.
      // It moved there a moment ago, and the others have not heard of it.
      const bool to_noted = linked_ && target_.name == note_.node;
      const bool nobodys = !store_ && (note_.node.empty() || lost_with_its_node);
      lock.unlock();
      if (nobodys && !on_its_way && cluster_->members->first_candidate(name())) {
        auto ok = open_store();
        if (ok) ok = begin(note_.epoch + 1, nullptr);
        if (!ok) tell_trouble(ok.failure().text);
      } else if (!to_noted) {
        if (durable() && !note_.node.empty() && note_.node != parts_.node && !cluster_->members->peer(note_.node))
          tell_trouble("queue \"" + name() + "\": its home is node \"" + note_.node + "\", which is gone; start it again");
        point_to(note_.node, {});
      }
      return;
    }
    const auto peer = cluster_->members->peer(known.node);
    const bool same = target_.name == known.node && peer && target_.incarnation == peer->incarnation;
    const bool note_it = note_.node != known.node || note_.epoch < known.epoch;
    if (note_it) {
      note_.node = known.node;
      note_.epoch = known.epoch;
    }
    const auto note = note_;
    const auto taker = taker_;
    lock.unlock();
    if (note_it) {
      if (const auto ok = cluster_->book->put(name(), note, durable()); !ok) tell_trouble(ok.failure().text);
      const foreign_thread here;
      if (taker) caf::anon_send(taker, know_epoch{note.epoch});
    }
    if (!peer) {
      tell_trouble("queue \"" + name() + "\": its home is node \"" + known.node + "\", which is gone; start it again");
      point_to(known.node, {});
      return;
    }
    if (!same) search(*peer, 0ms);
  }

  expected<void> begin_move(const move_queue& m) override {
    if (m.to == parts_.node) return {errc::conflict, "queue \"" + name() + "\": is on node \"" + m.to + "\" already"};
    const auto target = cluster_->members->node(m.to);
    if (!target) return {target.failure().code, "queue \"" + name() + "\": cannot move: " + target.failure().text};
    const std::lock_guard lock(mutex_);
    if (!mine_) return {errc::conflict, "queue \"" + name() + "\": is not on node \"" + parts_.node + "\" any more"};
    if (moving_ != 0) return {errc::conflict, "queue \"" + name() + "\": is being moved already"};
    move_source_parts p;
    auto& s = p.subject;
    s.queue = name();
    s.from = parts_.node;
    s.to = m.to;
    s.move = last_move_ = std::max(first_id_at(parts_.clock->wall()).value, last_move_ + 1);
    s.epoch = note_.epoch + 1;
    s.type = std::string(config::to_string(parts_.settings.type));
    s.unique = parts_.settings.unique;
    p.store = tracked_;
    p.queue = mine_->own_actor();
    p.front = front_;
    p.target = *target;
    // The mover is ended before this queue is.
    p.find_target = [this, to = m.to] { return cluster_->members->node(to).value_or(node_actor()); };
    p.decide = [this, s] { return decide(s); };
    p.read_back = [this, s] { return read_back(s); };
    p.hand_over = [this, s](queue_actor where) { hand_over(s, std::move(where)); };
    p.finished = [this, s, by = m.by](const move_result& r) { move_ended(s, by, r); };
    p.at_step = killer("source");
    moving_ = s.move;
    decided_ = false;
    const foreign_thread here;
    mover_ = parts_.system->spawn<caf::detached>(move_source_behavior, std::move(p));
    return {};
  }

  std::size_t stop() override {
    {
      std::unique_lock lock(mutex_);
      if (stopped_) return 0;
      stopped_ = true;
      move_over_.wait_for(lock, end_of_move, [&] { return moving_ == 0; });
    }
    guard_->drop();
    const foreign_thread here;
    caf::scoped_actor self{*parts_.system};
    const auto end = [&](const auto& who) {
      if (!who) return;
      self->send_exit(who, caf::exit_reason::user_shutdown);
      self->wait_for(who);
    };
    end(mover_);
    end(taker_);
    std::vector<std::jthread> retiring;
    {
      const std::lock_guard lock(mutex_);
      retiring.swap(retiring_);
    }
    retiring.clear();  // before the lock, which they take
    const std::unique_lock one_at_a_time(changing_);
    std::shared_ptr<actor_queue> q;
    worker_pool_actor p;
    {
      const std::lock_guard lock(mutex_);
      q = std::exchange(mine_, nullptr);
      p = std::exchange(pool_, nullptr);
    }
    std::size_t left = 0;
    const auto timeout = parts_.settings.shutdown_timeout;
    // With timeout 0 the rest is run once, which needs the workers.
    if (p && !(q && timeout == 0ms)) left = end_pool(p, timeout);
    if (q) left += q->stop();
    if (p && q && timeout == 0ms) left += end_pool(p, 0ms);
    end(front_);
    {
      const std::lock_guard lock(mutex_);
      front_ = nullptr;
      taker_ = nullptr;
      mover_ = nullptr;
    }
    if (store_) (void)store_->close();
    return left;
  }

private:
  [[nodiscard]] std::shared_ptr<actor_queue> mine() const {
    const std::lock_guard lock(mutex_);
    return mine_;
  }
  [[nodiscard]] error closed() const { return {errc::queue_closed, "queue \"" + name() + "\": is stopped"}; }
  [[nodiscard]] bool durable() const { return parts_.settings.type == config::queue_type::level; }
  static expected<void> done(const expected<ack>& answer) {
    if (!answer) return answer.failure();
    return {};
  }

  template <class Reply, class Message>
  expected<Reply> ask(const Message& what, std::chrono::milliseconds timeout = ask_timeout) {
    queue_front_actor front;
    {
      const std::lock_guard lock(mutex_);
      if (stopped_) return closed();
      front = front_;
    }
    return ask_actor<Reply>(*parts_.system, front, what, timeout, "queue \"" + name() + "\":");
  }

  expected<std::vector<append_result>> store(std::span<record> records) {
    if (const auto q = mine()) {
      auto answer = q->store(records);
      // While it moves pushes wait; then its door says that it is elsewhere, or it has ended as its last step.
      const bool ended_by_move = !answer && answer.failure().code == errc::queue_closed && (moving() || mine() != q);
      if (answer || (answer.failure().code != errc::fenced && !ended_by_move)) return answer;
    }
    push_items items;
    items.items.assign(std::make_move_iterator(records.begin()), std::make_move_iterator(records.end()));
    const auto results = ask<push_results>(items, parts_.settings.push_timeout + answer_moment);
    if (!results) return results.failure();
    std::vector<append_result> out;
    out.reserve(results->items.size());
    for (const auto& r : results->items)
      out.push_back({r.stored     ? append_result::kind::stored
                     : r.repeated ? append_result::kind::repeated
                                  : append_result::kind::already_in_queue,
                     r.id});
    return out;
  }

  // ---- where its home is; all under changing_ ----

  expected<void> two_homes(const std::string& other) const {
    return {errc::conflict, "queue \"" + name() + "\": its data are on node \"" + parts_.node + "\" and on node \"" +
                                other + "\"; take [queue." + name() +
                                "] out of the configuration of one of them, or move that one's data away"};
  }

  expected<void> open_unknown(const member_table::home& elsewhere, bool others) {
    if (durable()) {
      if (auto ok = open_store(); !ok) return ok;
      const auto n = store_->count();
      if (items_in(n) > 0) return others ? two_homes(elsewhere.node) : begin(1, nullptr);
    }
    if (!others && cluster_->members->first_candidate(name())) {
      if (auto ok = open_store(); !ok) return ok;
      return begin(1, nullptr);
    }
    close_store();
    return {};
  }

  expected<void> open_store() {
    if (store_) return {};
    auto opened = open_storage(parts_);
    if (!opened) return opened.failure();
    const auto& s = parts_.settings;
    const bool keys_follow_rows = s.unique && s.until != config::unique_until::time;
    const std::lock_guard lock(mutex_);
    store_ = tracked_ = std::make_shared<tracked_storage>(std::move(*opened), keys_follow_rows);
    return {};
  }
  void close_store() {
    std::shared_ptr<storage> s;
    {
      const std::lock_guard lock(mutex_);
      s = std::exchange(store_, nullptr);
      tracked_ = nullptr;
    }
    if (s) (void)s->close();
  }

  void tell(event_topic topic, const nlohmann::json& body) const {
    if (parts_.events && parts_.events->wants(topic)) parts_.events->tell(topic, name(), body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  }

  /// From now on this node is its home.
  expected<void> begin(std::uint64_t epoch, std::shared_ptr<const frozen_queue> came_with) {
    home_note note;
    {
      const std::lock_guard lock(mutex_);
      note = note_;
    }
    note.node = parts_.node;
    note.epoch = epoch;
    note.promised = {};
    if (auto ok = cluster_->book->put(name(), note, durable()); !ok) return ok;
    const auto& s = parts_.settings;
    if (came_with && s.unique && s.until == config::unique_until::start) {
      // Their rows came with their keys, which handlers have freed.
      std::vector<record_ref> started;
      for (const auto& l : came_with->image.leases)
        for (const auto& r : l.items) started.push_back(ref_of(r));
      if (auto ok = store_->release(started); !ok) return ok;
    }
    queue_right right;
    right.came_with = std::move(came_with);
    right.on_move = [g = guard_](const move_queue& m) {
      expected<void> answer{errc::queue_closed, "the queue is stopped"};
      g->call([&](home_queue_impl& q) { answer = q.begin_move(m); });
      return answer;
    };
    auto p = parts_;
    p.handler = nullptr;  // its workers reach it through the front, as those of other nodes do
    auto q = make_actor_queue(std::move(p), store_, std::move(right));
    set_target to{parts_.node, q->own_actor(), true, 0};
    {
      const std::lock_guard lock(mutex_);
      note_ = note;
      mine_ = std::move(q);
      to.serial = ++serial_;
      target_ = {};
      linked_ = true;
    }
    trouble_.clear();
    const foreign_thread here;
    caf::anon_send(front_, std::move(to));
    const std::lock_guard lock(mutex_);
    start_pool();
    parts_.log->info("queue", "this node is its home", {{"queue", name()}, {"epoch", std::to_string(epoch)}});
    tell(event_topic::queue_owner_changed, {{"owner", parts_.node}, {"epoch", epoch}});
    cluster_->members->tell();
    return {};
  }

  void look_at_home(const member_table::home& known) {
    const auto other = known.node == parts_.node ? known.rival : known.node;
    if (other.empty()) return;
    std::uint64_t epoch = 0;
    {
      const std::lock_guard lock(mutex_);
      epoch = note_.epoch;
    }
    if (known.epoch < epoch) return;
    const auto n = store_->count();
    if (items_in(n) > 0 || known.node == parts_.node) {
      if (!moving()) tell_trouble(two_homes(other).failure().text);
      return;
    }
    // Two began it at once, and this one has nothing: the other keeps it.
    std::shared_ptr<actor_queue> q;
    {
      const std::lock_guard lock(mutex_);
      if (moving_ != 0) return;
      q = std::exchange(mine_, nullptr);
      linked_ = false;
    }
    point_to(other, {});
    q->dismiss();
    const auto last = store_->count();
    if (items_in(last) > 0) {
      close_store();
      auto ok = open_store();
      if (ok) ok = begin(epoch, nullptr);
      tell_trouble(two_homes(other).failure().text);
      return;
    }
    close_store();
    home_note note;
    note.node = other;
    note.epoch = known.epoch;
    (void)cluster_->book->put(name(), note, durable());
    const std::lock_guard lock(mutex_);
    note_ = note;
  }

  void tell_trouble(const std::string& text) {
    if (trouble_.text() == text) return;
    trouble_.set(text);
    parts_.log->warn("cluster", text, {{"queue", name()}});
  }

  // ---- the way to another home ----

  void point_to(const std::string& node, queue_actor handle) {
    set_target to{node, std::move(handle), false, 0};
    queue_front_actor front;
    {
      const std::lock_guard lock(mutex_);
      to.serial = ++serial_;
      front = front_;
      if (!to.handle) {
        linked_ = false;
        target_ = {};
      }
    }
    const foreign_thread here;
    if (front) caf::anon_send(front, std::move(to));
  }

  void search(const mesh_peer& peer, std::chrono::milliseconds delay) {
    {
      const std::lock_guard lock(mutex_);
      if (stopped_ || mine_) return;
      target_ = peer;
    }
    cluster_->way->find(peer, name(), delay, [g = guard_, peer](expected<queue_actor> found) {
      g->call([&](home_queue_impl& q) { q.home_found(peer, std::move(found)); });
    });
  }

  void home_found(const mesh_peer& peer, expected<queue_actor> found) {
    {
      const std::lock_guard lock(mutex_);
      if (stopped_ || mine_ || target_.incarnation != peer.incarnation) return;
    }
    if (!found) {
      if (found.failure().code != errc::not_found)
        tell_trouble("queue \"" + name() + "\": its home cannot be reached: " + found.failure().text);
      const auto known = cluster_->members->home_of(name());
      const auto now = cluster_->members->peer(peer.name);
      if (known.node == peer.name && now && now->incarnation == peer.incarnation)
        search(peer, long_delay);
      else
        point_to(known.node, {});  // look() finds the next one
      return;
    }
    trouble_.clear();
    point_to(peer.name, *found);
    const std::lock_guard lock(mutex_);
    linked_ = true;
    start_pool();
  }

  void lost(std::uint64_t serial) {
    mesh_peer peer;
    {
      const std::lock_guard lock(mutex_);
      if (stopped_ || mine_ || serial != serial_) return;
      linked_ = false;
      peer = target_;
    }
    const auto known = cluster_->members->home_of(name());
    if (const auto now = cluster_->members->peer(known.node)) peer = *now;
    if (!peer.address.empty()) search(peer, short_delay);
  }

  // Under mutex_. Workers of this node, wherever the home is.
  void start_pool() {
    if (!parts_.handler || stopped_) return;
    const foreign_thread here;
    if (pool_)
      caf::anon_send(pool_, attach_again{});
    else
      pool_ = spawn_pool(parts_, pool_kind::remote, queue_actor(front_));
  }

  std::size_t end_pool(const worker_pool_actor& pool, std::chrono::milliseconds timeout) {
    const foreign_thread here;
    caf::scoped_actor self{*parts_.system};
    std::size_t left = 0;
    self->request(pool, caf::infinite, stop_pool{timeout})
        .receive([&](const pool_status& st) { left = st.active; }, [](caf::error&) {});
    // What it said last has gone through the front when that answers.
    self->request(front_, ask_timeout, get_queue_status{}).receive([](const queue_status&) {}, [](caf::error&) {});
    self->send_exit(pool, caf::exit_reason::user_shutdown);
    self->wait_for(pool);
    return left;
  }

  // ---- a move away; on the mover's thread ----

  move_source_core::decision decide(const move_source_core::subject& s) {
    home_note note;
    note.node = s.to;
    note.epoch = s.epoch;
    note.move = s.move;
    if (cluster_->book->put(name(), note, durable())) {
      const std::lock_guard lock(mutex_);
      note_ = note;
      decided_ = true;
      return move_source_core::decision::written;
    }
    return read_back(s);
  }

  move_source_core::decision read_back(const move_source_core::subject& s) {
    using enum move_source_core::decision;
    const auto there = cluster_->book->get(name());
    if (!there) return unknown;
    if (there->move == s.move && there->node == s.to) {
      const std::lock_guard lock(mutex_);
      note_ = *there;
      decided_ = true;
      return written;
    }
    // What was not written may come to light after a crash: so the opposite is written over it.
    home_note note;
    {
      const std::lock_guard lock(mutex_);
      note = note_;
    }
    return cluster_->book->put(name(), note, durable()) ? not_written : unknown;
  }

  void hand_over(const move_source_core::subject& s, queue_actor where) {
    std::shared_ptr<actor_queue> q;
    std::shared_ptr<storage> store;
    move_taker_actor taker;
    {
      const std::lock_guard lock(mutex_);
      q = std::exchange(mine_, nullptr);
      const auto peer = cluster_->members->peer(s.to);
      target_ = peer ? *peer : mesh_peer{s.to, {}, {}};
      linked_ = where != nullptr;
      store = store_;
      taker = taker_;
    }
    set_target to{s.to, std::move(where), false, 0};
    {
      const std::lock_guard lock(mutex_);
      to.serial = ++serial_;
    }
    const foreign_thread here;
    caf::anon_send(front_, std::move(to));
    caf::anon_send(front_, release_messages{});
    if (taker) caf::anon_send(taker, know_epoch{s.epoch});
    auto done = std::make_shared<std::promise<void>>();
    {
      const std::lock_guard lock(mutex_);
      dismissed_ = done->get_future().share();
    }
    retire([q, done] {
      q->dismiss();
      done->set_value();
    });
    cluster_->members->tell();
  }

  void move_ended(const move_source_core::subject& s, const std::string& by, const move_result& r) {
    kept_move m;
    m.at = parts_.clock->wall().time_since_epoch().count();
    m.queue = s.queue;
    m.from = s.from;
    m.to = s.to;
    m.by = by;
    m.moved = r.moved;
    m.why = r.why;
    m.items = r.items;
    m.ms = r.took.count();
    m.frozen_ms = r.frozen.count();
    m.buffered = r.buffered;
    cluster_->moves->add(m);
    const node_log::fields more{{"queue", name()},
                                {"to", s.to},
                                {"by", by},
                                {"items", std::to_string(r.items)},
                                {"took_ms", std::to_string(m.ms)},
                                {"frozen_ms", std::to_string(m.frozen_ms)}};
    if (r.moved) tell(event_topic::queue_moved, {{"from", parts_.node}, {"to", s.to}, {"by", by}, {"ms", m.ms}});
    if (r.moved)
      parts_.log->info("queue", "moved to node \"" + s.to + "\"", more);
    else
      parts_.log->warn("queue", "the move to node \"" + s.to + "\" came to nothing: " + r.why, more);
    if (r.moved) retire([this] { forget_rows(); });
    {
      const std::lock_guard lock(mutex_);
      moving_ = 0;
    }
    move_over_.notify_all();
  }

  // The new home has all of it.
  void forget_rows() {
    wait_for_dismissal();
    const std::unique_lock one_at_a_time(changing_);
    if (at_home() || incoming_) return;  // it came back, over the old rows
    {
      const std::lock_guard lock(mutex_);
      if (stopped_) return;  // they are forgotten when the queue comes back
    }
    close_store();
    if (!durable()) return;
    if (auto ok = open_store(); ok) ok = store_->wipe();
    close_store();
  }

  // The queue that moved away lets go of its storage.
  void wait_for_dismissal() const {
    std::shared_future<void> done;
    {
      const std::lock_guard lock(mutex_);
      done = dismissed_;
    }
    if (done.valid()) done.wait();
  }

  template <class Call>
  void retire(Call call) {
    std::jthread thread(std::move(call));
    const std::lock_guard lock(mutex_);
    retiring_.push_back(std::move(thread));
  }

  // ---- a move to this node; on the taker's thread ----

  // The old home forwards to this front as soon as it has decided, which may be before this node has heard of it: sent
  // back they would go round in circles.
  void hold_messages_until_decided() {
    const foreign_thread here;
    caf::anon_send(front_, hold_messages{});
  }
  void let_messages_go() {
    const foreign_thread here;
    caf::anon_send(front_, release_messages{});
  }

  void spawn_taker() {
    move_target_parts p;
    p.queue = name();
    p.node = parts_.node;
    p.known_epoch = note_.epoch;
    p.note = note_.promised;
    p.wipe = [this](const move_step& s) -> expected<void> {
      wait_for_dismissal();
      const std::unique_lock one_at_a_time(changing_);
      const auto source = cluster_->members->peer(s.from);
      source_ = source ? *source : mesh_peer{};
      home_note note;
      {
        const std::lock_guard lock(mutex_);
        if (stopped_) return closed();
        if (mine_)
          return error{errc::conflict, "node \"" + parts_.node + "\": is the home of queue \"" + name() + "\" itself"};
        note_.node = s.from;
        note_.epoch = std::max(note_.epoch, s.epoch - 1);
        note = note_;
      }
      // Before the first row is here: after a crash they must not be taken for this node's own.
      if (auto ok = cluster_->book->put(name(), note, durable()); !ok) return ok;
      incoming_ = true;
      close_store();  // of what moved away from here a moment ago
      if (auto ok = open_store(); !ok) return ok;
      return store_->wipe();
    };
    p.discard = [this] {
      const std::unique_lock one_at_a_time(changing_);
      if (at_home()) return;
      coming_ = nullptr;
      incoming_ = false;
      let_messages_go();
      if (store_) (void)store_->wipe();
      close_store();
      cluster_->members->tell();  // what was held up by it is looked at again
    };
    p.apply = [this](const move_step& s) -> expected<void> {
      import_part part;
      part.fresh = s.rows;
      part.changed = s.changed;
      part.gone = s.gone;
      part.keys = s.keys;
      return store_->import(part);
    };
    p.keep = [this](const move_message& m, const move_note& note) -> expected<void> {
      import_part nothing_more;
      nothing_more.sync = true;
      if (auto ok = store_->import(nothing_more); !ok) return ok;
      coming_ = std::make_shared<frozen_queue>(frozen_queue{m.step.image, m.pools});
      hold_messages_until_decided();
      auto n = cluster_->book->get(name());
      if (!n) return n.failure();
      n->promised = note;
      if (auto ok = cluster_->book->put(name(), *n, durable()); !ok) return ok;
      const std::lock_guard lock(mutex_);
      note_.promised = note;
      return {};
    };
    p.forget_note = [this] {
      home_note n;
      {
        const std::lock_guard lock(mutex_);
        if (note_.promised.move == 0) return;
        note_.promised = {};
        n = note_;
      }
      (void)cluster_->book->put(name(), n, durable());
    };
    p.activate = [this](std::uint64_t, std::uint64_t epoch) -> expected<void> {
      const std::unique_lock one_at_a_time(changing_);
      if (auto ok = open_store(); !ok) return ok;
      auto ok = begin(epoch, coming_);
      if (ok) {
        incoming_ = false;
        coming_ = nullptr;
        let_messages_go();
      }
      if (!ok) tell_trouble(ok.failure().text);
      return ok;
    };
    p.find_source = [this](const std::string& from) { return cluster_->members->node(from).value_or(node_actor()); };
    // Its memory is gone with it; on disk the decision outlives its node.
    p.source_is_gone = [this](const std::string& from) {
      if (durable()) return false;
      const auto now = cluster_->members->peer(from);
      if (now) return now->incarnation != source_.incarnation;
      // Nobody listens where it did: its process has ended. A host that is cut off answers nothing.
      return probe_address(source_.address) == std::strerror(ECONNREFUSED);
    };
    p.front = [this]() -> caf::strong_actor_ptr {
      const std::lock_guard lock(mutex_);
      return caf::actor_cast<caf::strong_actor_ptr>(front_);
    };
    p.at_step = killer("target");
    const foreign_thread here;
    auto taker = parts_.system->spawn<caf::detached>(move_target_behavior, std::move(p));
    const std::lock_guard lock(mutex_);
    taker_ = std::move(taker);
  }

  host_parts parts_;
  const std::shared_ptr<cluster_parts> cluster_;
  const std::shared_ptr<call_guard<home_queue_impl>> guard_;
  queue_front_actor front_;
  std::mutex changing_;  ///< outermost: the home comes or goes
  mutable std::mutex mutex_;
  std::optional<std::chrono::steady_clock::time_point> nobody_since_;  ///< under changing_
  home_note note_;
  std::shared_ptr<storage> store_;              ///< at home, and while a move comes
  std::shared_ptr<tracked_storage> tracked_;    ///< the same
  std::shared_ptr<actor_queue> mine_;           ///< at home
  bool incoming_ = false;                       ///< a move to this node is under way; under changing_
  std::shared_ptr<const frozen_queue> coming_;  ///< only the taker's thread
  mesh_peer source_;                            ///< likewise
  worker_pool_actor pool_;
  mesh_peer target_;  ///< the home that is looked for, or found
  std::uint64_t serial_ = 0;
  bool linked_ = false;  ///< there is a way to the home
  trouble trouble_;
  move_taker_actor taker_;
  move_source_actor mover_;
  std::uint64_t moving_ = 0;  ///< the move away from here; 0: none
  std::uint64_t last_move_ = 0;
  bool decided_ = false;
  std::condition_variable move_over_;
  std::shared_future<void> dismissed_;
  std::vector<std::jthread> retiring_;
  bool stopped_ = false;
};

}  // namespace

expected<std::shared_ptr<hosted_queue>> make_home_queue(host_parts parts) {
  auto q = std::make_shared<home_queue_impl>(std::move(parts));
  if (auto ok = q->open(); !ok) return ok.failure();
  return std::shared_ptr<hosted_queue>(std::move(q));
}

}  // namespace caravan
