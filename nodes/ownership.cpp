#include "nodes/ownership.hpp"

#include "actors/owner/owner_core.hpp"
#include "integration/redis/redis_owner.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

namespace caravan {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

namespace {
/// How long the node that is to have a queue has it to itself.
constexpr auto given_up_pause = 1s;
}  // namespace

class ownership::impl {
public:
  struct entry final : place {
    entry(impl& h, redis_owner o, owner_core c, listener l)
        : home(h), owner(std::move(o)), core(std::move(c)), on(std::move(l)) {}
    [[nodiscard]] bool certain() const noexcept override {
      return steady_clock::now().time_since_epoch().count() < certain_until.load(std::memory_order_relaxed);
    }
    void doubt() override {
      {
        const std::lock_guard lock(home.mutex_);
        doubtful = true;
      }
      home.wake_.notify_all();
    }
    /// Unless it was removed.
    template <class Call>
    void tell(Call call) {
      const std::lock_guard lock(telling);
      if (!removed) call(on);
    }

    impl& home;
    redis_owner owner;
    owner_core core;        ///< under home.mutex_
    bool doubtful = false;  ///< likewise
    std::atomic<steady_clock::rep> certain_until{0};
    std::mutex telling;
    bool removed = false;
    const listener on;
  };
  using entry_ptr = std::shared_ptr<entry>;

  impl(redis_options o, node_entry me, std::chrono::milliseconds lease)
      : node_text_(me.name + " " + me.incarnation + " " + me.address),
        lease_(lease),
        data_(std::make_shared<redis_client>(o)),
        me_(std::move(me)) {
    // What renews must know soon that it cannot.
    o.connect_timeout = std::min<std::chrono::milliseconds>(o.connect_timeout, 500ms);
    o.command_timeout = o.give_up_after = std::clamp<std::chrono::milliseconds>(lease / 6, 100ms, 1s);
    o.max_connections = 2;
    client_ = std::make_unique<redis_client>(o);
    redis_subscriber::events heard;
    heard.message = [this](const std::string& channel, std::string&& what) {
      const auto e = at_channel(channel);
      if (!e) return;
      if (what == "free" || what == "free " + me_.name)
        chance(e);
      else if (what.starts_with("owned ")) {
        if (const auto who = what.substr(6); who != node_text_) e->tell([&](const listener& l) { l.held_by(who); });
      } else if (what.starts_with("free "))
        wait_for_another(e);
      else
        e->tell([](const listener& l) { l.look_again(); });
    };
    heard.listening = [this] {
      for (const auto& e : all()) {
        chance(e);
        e->tell([](const listener& l) { l.look_again(); });
      }
    };
    heard.lost = [this](const error&) {
      for (const auto& e : all()) chance(e);
    };
    subscriber_ = std::make_unique<redis_subscriber>(o, std::vector<std::string>{}, std::move(heard));
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  }

  ~impl() {
    thread_.request_stop();
    wake_.notify_all();
    thread_.join();
    (void)redis_nodes(*client_).withdraw(me_);
    client_->close();
    subscriber_.reset();
    data_->close();
  }

  std::shared_ptr<place> add(const std::string& queue, listener on) {
    std::random_device random;
    return std::make_shared<entry>(*this, redis_owner(*client_, queue, node_text_), owner_core(lease_, random()),
                                   std::move(on));
  }

  void begin(const std::shared_ptr<place>& which) {
    const auto e = std::static_pointer_cast<entry>(which);
    {
      const std::lock_guard lock(mutex_);
      entries_.push_back(e);
      by_channel_[e->owner.channel()] = e;
    }
    subscriber_->add(e->owner.channel());
    wake_.notify_all();
  }

  void remove(const std::shared_ptr<place>& which) {
    const auto e = std::static_pointer_cast<entry>(which);
    {
      const std::lock_guard lock(mutex_);
      std::erase(entries_, e);
      by_channel_.erase(e->owner.channel());
    }
    subscriber_->remove(e->owner.channel());
    const std::lock_guard lock(e->telling);
    e->removed = true;
  }

  void give_up(const std::shared_ptr<place>& which) {
    const auto e = std::static_pointer_cast<entry>(which);
    std::uint64_t epoch = 0;
    {
      const std::lock_guard lock(mutex_);
      epoch = e->core.epoch();
      e->core.resign();
    }
    e->certain_until = 0;
    if (epoch != 0) (void)e->owner.give_up(epoch);  // else its lease ends by itself
  }

  expected<void> hand_over(const std::shared_ptr<place>& which, const std::string& to) {
    const auto e = std::static_pointer_cast<entry>(which);
    std::uint64_t epoch = 0;
    {
      const std::lock_guard lock(mutex_);
      epoch = e->core.epoch();
      e->core.on_given_up(given_up_pause, steady_clock::now());
    }
    e->certain_until = 0;
    wake_.notify_all();
    if (epoch == 0) return {errc::fenced, "another node owns it already"};
    return e->owner.give_up(epoch, to);
  }

  void cordon(bool on) {
    {
      const std::lock_guard lock(mutex_);
      me_.cordoned = on;
      announce_at_ = {};
    }
    wake_.notify_all();
  }
  [[nodiscard]] bool cordoned() const {
    const std::lock_guard lock(mutex_);
    return me_.cordoned;
  }
  void tell_http(std::string address) {
    const std::lock_guard lock(mutex_);
    me_.http = std::move(address);
    announce_at_ = {};
    wake_.notify_all();
  }
  expected<std::vector<node_entry>> nodes() { return redis_nodes(*data_).list(); }

  [[nodiscard]] const std::shared_ptr<redis_client>& data() const { return data_; }

private:
  entry_ptr at_channel(const std::string& channel) {
    const std::lock_guard lock(mutex_);
    const auto it = by_channel_.find(channel);
    return it == by_channel_.end() ? nullptr : it->second;
  }
  std::vector<entry_ptr> all() {
    const std::lock_guard lock(mutex_);
    return entries_;
  }
  void chance(const entry_ptr& e) {
    {
      const std::lock_guard lock(mutex_);
      e->core.on_chance(steady_clock::now());
    }
    wake_.notify_all();
  }

  void wait_for_another(const entry_ptr& e) {
    const std::lock_guard lock(mutex_);
    if (!e->core.owns()) e->core.on_held(given_up_pause, steady_clock::now());
  }

  // Its own failures are told by the queues.
  void announce() {
    node_entry me;
    {
      const std::lock_guard lock(mutex_);
      if (steady_clock::now() < announce_at_) return;
      announce_at_ = steady_clock::now() + lease_ / 3;
      me = me_;
    }
    (void)redis_nodes(*client_).announce(me, lease_);
  }

  void run(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      std::vector<std::pair<entry_ptr, owner_core::action>> due;
      announce();
      {
        std::unique_lock lock(mutex_);
        const auto now = steady_clock::now();
        auto next = announce_at_;
        for (const auto& e : entries_) {
          auto what = e->core.due(now);
          if (std::exchange(e->doubtful, false) && e->core.owns()) what = owner_core::action::renew;
          if (what == owner_core::action::acquire && me_.cordoned) {
            e->core.on_held(lease_ / 3, now);
            continue;
          }
          if (what != owner_core::action::none)
            due.emplace_back(e, what);
          else if (const auto at = e->core.next_wake())
            next = std::min(next, *at);
        }
        if (due.empty()) {
          wake_.wait_until(lock, next);
          continue;
        }
      }
      error why;
      for (const auto& [e, what] : due) {
        if (stop.stop_requested()) return;
        if (!why.text.empty())
          failed(e, why);  // the same connection: it would only wait again
        else if (what == owner_core::action::acquire)
          why = acquire(e);
        else
          why = renew(e);
      }
    }
  }

  void failed(const entry_ptr& e, const error& why) {
    {
      const std::lock_guard lock(mutex_);
      e->core.on_failed(steady_clock::now());
    }
    e->tell([&](const listener& l) { l.trouble(why.text); });
  }

  // No text: Redis answered.
  error acquire(const entry_ptr& e) {
    const auto sent = steady_clock::now();
    const auto claim = e->owner.acquire(lease_);
    if (!claim) {
      failed(e, claim.failure());
      return claim.failure();
    }
    e->tell([](const listener& l) { l.trouble({}); });
    if (claim->epoch == 0) {
      {
        const std::lock_guard lock(mutex_);
        e->core.on_held(claim->left, steady_clock::now());
      }
      e->tell([&](const listener& l) { l.held_by(claim->holder); });
      return {};
    }
    {
      const std::lock_guard lock(mutex_);
      e->core.on_acquired(claim->epoch, sent);
      e->certain_until = e->core.certain_until().time_since_epoch().count();
    }
    bool can = true;
    e->tell([&](const listener& l) { can = l.owned(claim->epoch); });
    if (can) return {};
    (void)e->owner.give_up(claim->epoch);
    const std::lock_guard lock(mutex_);
    e->core.on_fenced(steady_clock::now());
    e->core.on_failed(steady_clock::now());
    e->certain_until = 0;
    return {};
  }

  error renew(const entry_ptr& e) {
    const auto sent = steady_clock::now();
    const auto incoming = e->owner.renew(e->core.epoch(), lease_);
    if (!incoming && incoming.failure().code != errc::fenced) {
      failed(e, incoming.failure());
      return incoming.failure();
    }
    e->tell([](const listener& l) { l.trouble({}); });
    if (!incoming) {
      {
        const std::lock_guard lock(mutex_);
        e->core.on_fenced(steady_clock::now());
      }
      e->certain_until = 0;
      e->tell([](const listener& l) { l.lost(); });
      return {};
    }
    const bool was_certain = e->certain();
    bool failed_before = false;
    {
      const std::lock_guard lock(mutex_);
      failed_before = e->core.in_trouble();
      e->core.on_renewed(sent);
      e->certain_until = e->core.certain_until().time_since_epoch().count();
    }
    // A word about pushes may have been missed meanwhile.
    if (*incoming > 0 || failed_before || !was_certain) e->tell([](const listener& l) { l.look_again(); });
    return {};
  }

  const std::string node_text_;
  const std::chrono::milliseconds lease_;
  const std::shared_ptr<redis_client> data_;
  std::unique_ptr<redis_client> client_;
  mutable std::mutex mutex_;
  node_entry me_;  ///< under mutex_, but for what never changes
  steady_clock::time_point announce_at_{};
  std::condition_variable wake_;
  std::vector<entry_ptr> entries_;
  std::map<std::string, entry_ptr> by_channel_;
  std::unique_ptr<redis_subscriber> subscriber_;
  std::jthread thread_;
};

ownership::ownership(redis_options options, node_entry me, std::chrono::milliseconds lease)
    : impl_(std::make_unique<impl>(std::move(options), std::move(me), lease)) {}
ownership::~ownership() = default;
std::shared_ptr<ownership::place> ownership::add(const std::string& queue_full_name, listener on) {
  return impl_->add(queue_full_name, std::move(on));
}
void ownership::begin(const std::shared_ptr<place>& which) { impl_->begin(which); }
void ownership::remove(const std::shared_ptr<place>& which) { impl_->remove(which); }
void ownership::give_up(const std::shared_ptr<place>& which) { impl_->give_up(which); }
expected<void> ownership::hand_over(const std::shared_ptr<place>& which, const std::string& to) {
  return impl_->hand_over(which, to);
}
void ownership::cordon(bool on) { impl_->cordon(on); }
bool ownership::cordoned() const { return impl_->cordoned(); }
void ownership::tell_http(std::string address) { impl_->tell_http(std::move(address)); }
expected<std::vector<node_entry>> ownership::nodes() { return impl_->nodes(); }
const std::shared_ptr<redis_client>& ownership::client() const noexcept { return impl_->data(); }

}  // namespace caravan
