#include "nodes/shared_queue.hpp"

#include "actors/queue/queue_link.hpp"
#include "actors/store/store_actor.hpp"
#include "integration/redis/redis_storage.hpp"
#include "nodes/actor_queue.hpp"
#include "nodes/foreign_thread.hpp"
#include "nodes/ownership.hpp"

#include <caf/all.hpp>

#include <algorithm>
#include <condition_variable>
#include <limits>
#include <mutex>
#include <thread>
#include <vector>

namespace caravan {

using namespace std::chrono_literals;

namespace {

constexpr auto first_pause = 20ms;
constexpr auto longest_pause = 250ms;
constexpr auto settle_patience = 3s;
/// A lease token has to be above all of earlier owners: these count on from their epoch, of which there is at most one a millisecond.
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
  shared_queue(host_parts parts, std::shared_ptr<storage> pushes) : parts_(std::move(parts)) {
    const foreign_thread here;
    const auto& s = parts_.settings;
    standby_.store = std::move(pushes);
    // LENGTH is looked after in Redis. What is stored is announced there too: nobody here takes it.
    const auto drop = [this] {
      std::vector<record> ignored;
      standby_.door->take(ignored);
    };
    standby_.door = std::make_shared<intake>(
      standby_.store, intake::limits{s.name, std::numeric_limits<std::size_t>::max() / 2, s.max_item_size, s.push_timeout, s.unique}, 0, drop, *parts_.clock);
    auto& system = *parts_.system;
    standby_.storekeeper = system.spawn<caf::detached>(store_behavior, standby_.store, standby_.door, standby_.health);
    standby_.link = system.spawn(queue_link_behavior, link_parts{s.name, parts_.node, standby_.storekeeper, s.length, s.push_timeout});

    ownership::listener on;
    on.owned = [this](std::uint64_t epoch) {
      const bool can = become_owner(epoch);
      settle();
      return can;
    };
    on.lost = [this] { lose(); };
    on.held_by = [this](const std::string& who) {
      tell_owner(who.substr(0, who.find(' ')));
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
    const auto q = mine();
    return q ? q->pool() : worker_pool_actor();
  }
  [[nodiscard]] std::string trouble_text() const override {
    if (const auto q = mine())
      if (auto text = q->trouble_text(); !text.empty()) return text;
    return standby_.health->text();
  }

  expected<void> attach(std::shared_ptr<runner> handler, const std::string& item_type) override {
    const std::lock_guard lock(mutex_);
    if (stopped_) return closed();
    if (parts_.handler) return {errc::conflict, "queue \"" + name() + "\": has a handler already"};
    parts_.handler = handler;
    parts_.item_type = item_type;
    return mine_ ? mine_->attach(std::move(handler), item_type) : expected<void>();
  }

  expected<item_id> push_one(item_draft draft) override {
    auto r = to_record(std::move(draft), parts_.clock->wall());
    return to_one_answer(name(), store({&r, 1}));
  }
  expected<std::vector<pushed>> push(std::vector<item_draft> drafts) override {
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
    if (const std::lock_guard lock(mutex_); stopped_) return closed();
    if (auto ok = standby_.door->adopt(); !ok) return ok.failure();
    queue_status st;
    st.name = name();
    st.phase = queue_phase::standby;
    const auto c = standby_.store->count();
    st.counts.waiting = c.waiting;
    st.counts.delayed = c.delayed;
    st.counts.dead = c.dead;
    const std::lock_guard lock(mutex_);
    st.owner = owner_;
    return to_queue_info(*this, st, nullptr);
  }

  expected<void> flush(std::chrono::milliseconds timeout) override {
    return on_owner([&](hosted_queue& q) { return q.flush(timeout); });
  }
  expected<void> pause(std::chrono::system_clock::time_point until) override {
    return on_owner([&](hosted_queue& q) { return q.pause(until); });
  }
  expected<void> resume() override {
    return on_owner([](hosted_queue& q) { return q.resume(); });
  }
  expected<void> drain() override {
    return on_owner([](hosted_queue& q) { return q.drain(); });
  }
  expected<std::size_t> purge(std::string_view state) override {
    return on_owner([&](hosted_queue& q) { return q.purge(state); });
  }
  expected<void> set_max_workers(int most) override {
    return on_owner([&](hosted_queue& q) { return q.set_max_workers(most); });
  }
  expected<job_info> find(item_id item) override {
    return on_owner([&](hosted_queue& q) { return q.find(item); });
  }

  std::size_t stop() override {
    {
      const std::lock_guard lock(mutex_);
      if (stopped_) return 0;
      stopped_ = true;
    }
    parts_.shared->remove(place_);  // from here on nothing changes hands
    std::shared_ptr<actor_queue> q;
    std::vector<std::jthread> retiring;
    {
      const std::lock_guard lock(mutex_);
      q = std::exchange(mine_, nullptr);
      retiring.swap(retiring_);
    }
    const auto left = q ? q->stop() : 0;
    parts_.shared->give_up(place_);
    retiring.clear();
    const foreign_thread here;
    caf::scoped_actor self{*parts_.system};
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
  [[nodiscard]] error elsewhere() const {
    const std::lock_guard lock(mutex_);
    if (stopped_) return closed();
    return {errc::fenced, "queue \"" + name() + "\": " +
                            (owner_.empty() ? "no node owns it at this moment; try again" : "node \"" + owner_ + "\" owns it; ask there")};
  }

  template <class Call>
  auto on_owner(Call call) -> decltype(call(std::declval<hosted_queue&>())) {
    if (const auto q = mine()) return call(*q);
    return elsewhere();
  }

  expected<std::vector<append_result>> store(std::span<record> records) {
    if (const auto q = mine()) {
      auto answer = q->store(records);
      if (answer || (answer.failure().code != errc::fenced && answer.failure().code != errc::queue_closed)) return answer;
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
      const bool can_wait = !answer && answer.failure().code == errc::queue_full && records.size() <= parts_.settings.length;
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
    auto opened = open_redis_storage(std::move(o));
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
    std::unique_lock lock(mutex_);
    auto parts = parts_;
    lock.unlock();
    auto q = make_actor_queue(std::move(parts), std::move(*opened), std::move(right));
    lock.lock();
    mine_ = q;
    lock.unlock();
    tell_owner(parts_.node);
    parts_.log->info("queue", "this node owns it now", {{"queue", s.name}, {"epoch", std::to_string(epoch)}});
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
    parts_.log->warn("queue", "another node owns it now; what is in handlers here will be handled there again", {{"queue", name()}});
    // Its handlers are given time to end, which must not hold up others.
    std::jthread retire([q] { q->abandon(); });
    const std::lock_guard lock(mutex_);
    retiring_.push_back(std::move(retire));
  }

  void tell_owner(const std::string& who) {
    bool news = false;
    {
      const std::lock_guard lock(mutex_);
      news = owner_ != who;
      owner_ = who;
    }
    const foreign_thread here;
    caf::anon_send(standby_.link, set_owner{who, {}});
    if (news && who != parts_.node) parts_.log->info("queue", "node \"" + who + "\" owns it", {{"queue", name()}});
  }

  void set_trouble(const std::string& text) {
    if (text.empty())
      standby_.health->clear();
    else
      standby_.health->set("queue \"" + name() + "\": " + text);
    const bool before = std::exchange(in_trouble_, !text.empty());
    if (before == in_trouble_) return;
    if (in_trouble_)
      parts_.log->warn("storage", text, {{"queue", name()}});
    else
      parts_.log->info("storage", "Redis answers again", {{"queue", name()}});
  }

  [[nodiscard]] std::weak_ptr<ownership::place> place_of() const { return place_; }

public:
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
    o.report = [log = p.log, queue = s.name](const std::string& what) { log->error("storage", what, {{"queue", queue}}); };
    return o;
  }

private:
  host_parts parts_;
  standby standby_;
  std::shared_ptr<ownership::place> place_;
  mutable std::mutex mutex_;
  std::shared_ptr<actor_queue> mine_;  ///< while this node owns it
  std::string owner_;
  std::vector<std::jthread> retiring_;
  bool stopped_ = false;
  bool is_settled_ = false;
  std::condition_variable settled_;
  bool in_trouble_ = false;  ///< only the ownership's thread
};

}  // namespace

expected<std::shared_ptr<hosted_queue>> make_shared_queue(host_parts parts) {
  auto opened = open_redis_storage(shared_queue::storage_options(parts));
  if (!opened) return opened.failure();
  return std::shared_ptr<hosted_queue>(std::make_shared<shared_queue>(std::move(parts), std::move(*opened)));
}

}  // namespace caravan
