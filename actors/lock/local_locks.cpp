#include "actors/lock/local_locks.hpp"

#include "actors/lock/door_parts.hpp"
#include "actors/lock/lock_sign.hpp"
#include "toolbox/run_safe.hpp"

#include <algorithm>
#include <random>

namespace caravan {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

namespace {

/// For what is still owed to the store when the door goes.
constexpr auto farewell = 2s;
constexpr int errand_threads = 2;

std::uint64_t random_seed() {
  std::random_device device;
  return static_cast<std::uint64_t>(device()) << 32 ^ device();
}

error gone(std::string_view key) {
  return {errc::fenced, "lock \"" + std::string(key) + "\": is not held by this one (any more)"};
}

}  // namespace

class local_hold final : public lock_hold {
public:
  local_hold(std::shared_ptr<local_locks> door, lock_id id, std::shared_ptr<lock_sign> sign)
      : door_(std::move(door)), id_(id), sign_(std::move(sign)) {}
  ~local_hold() override = default;

  [[nodiscard]] const std::string& key() const override { return sign_->key; }
  [[nodiscard]] std::uint64_t token() const override { return sign_->token; }
  [[nodiscard]] std::stop_token lost() override { return sign_->stop(); }
  [[nodiscard]] bool valid() const override { return !released_.load() && door_->now() < sign_->until(); }
  [[nodiscard]] milliseconds remaining() const override {
    return released_.load() ? 0ms : left_of(sign_->until(), door_->now());
  }
  expected<void> extend() override {
    if (released_.load()) return gone(sign_->key);
    const auto done = door_->extend(sign_->key, id_);
    return done ? expected<void>() : expected<void>(done.failure());
  }
  expected<void> release() override {
    if (released_.exchange(true)) return {};
    return door_->release(sign_->key, id_);
  }

private:
  const std::shared_ptr<local_locks> door_;
  const lock_id id_;
  const std::shared_ptr<lock_sign> sign_;
  std::atomic<bool> released_{false};
};

std::shared_ptr<local_locks> local_locks::open(std::unique_ptr<lock_store> store, lock_limits limits,
                                               const toolbox::clock& clock) {
  limits.expires = store->blocks();
  const std::shared_ptr<local_locks> door(new local_locks(std::move(store), limits, clock));
  door->start();
  return door;
}

local_locks::local_locks(std::unique_ptr<lock_store> store, lock_limits limits, const toolbox::clock& clock)
    : store_(std::move(store)), blocks_(store_->blocks()), clock_(clock), core_(limits, random_seed()) {}

void local_locks::start() {
  if (blocks_)
    store_->on_granted([this](const std::string& key, lock_id id, std::uint64_t token) {
      lock_guard lock(mutex_);
      lock_effects fx;
      if (id == 0)
        core_.deaf(now());
      else
        core_.woken(id, key, token, now(), fx);
      perform(lock, fx);
    });
  else
    store_->on_granted([this](const std::string& key, lock_id id, std::uint64_t token) {
      granted_.push_back({{key, id}, token});  // within a call of ours, so the mutex is held
    });
  threads_.emplace_back([this] { keep_time(); });
  if (!blocks_) return;
  threads_.emplace_back([this] { keep_alive(); });
  for (int n = 0; n < errand_threads; ++n) threads_.emplace_back([this] { run_errands(); });
}

local_locks::~local_locks() {
  close();
  {
    const lock_guard lock(mutex_);
    stopping_ = true;
    time_changed_.notify_all();
    alive_changed_.notify_all();
    errands_changed_.notify_all();
  }
  for (auto& t : threads_) t.join();
  store_->close();
}

// ---- locking ----

expected<std::shared_ptr<lock_hold>> local_locks::lock(std::string_view key, const lock_options& options, bool wait) {
  const auto started = now();
  lock_request r;
  r.key = key;
  r.owner = options.owner;
  r.session = options.session;
  r.lease = options.lease;
  r.wait = wait && options.timeout > 0ms;
  if (r.wait && options.timeout < std::chrono::hours{24 * 365 * 50}) r.deadline = started + options.timeout;
  if (options.stop.stop_requested())
    return {errc::conflict, "lock \"" + std::string(key) + "\": the waiting was ended before it began"};

  lock_guard lock(mutex_);
  lock_effects fx;
  auto answer = core_.acquire(std::move(r), started);
  std::shared_ptr<waiter> me;
  if (answer.what == lock_core::answer::kind::pending) {
    const auto id = answer.id;
    // With a store that does not block nobody can be faster than its answer.
    if (blocks_) me = waiters_[id] = std::make_shared<waiter>();
    answer = ask_store(lock, id, fx);
    if (answer.what == lock_core::answer::kind::pending) {
      if (!me) me = waiters_[id] = std::make_shared<waiter>();
      perform(lock, fx);
      lock.unlock();
      {
        // It may call at once, and takes the mutex.
        const std::stop_callback ended(options.stop, [this, id] { cancel(id); });
        lock.lock();
        me->changed.wait(lock, [&] { return me->done; });
        lock.unlock();
      }
      lock.lock();
      answer = me->why ? lock_core::answer{lock_core::answer::kind::refused, id, std::move(*me->why)}
                       : lock_core::answer{lock_core::answer::kind::granted, id, {}};
    } else if (me) {
      waiters_.erase(id);
      if (me->done && me->why) answer.why = std::move(*me->why);
    }
  }
  std::shared_ptr<lock_hold> hold;
  if (answer.what == lock_core::answer::kind::granted) {
    hold = hand_out(answer.id);
    if (!hold) {
      answer.what = lock_core::answer::kind::refused;
      answer.why = gone(key);
    }
  }
  perform(lock, fx);
  if (hold) {
    lock.unlock();
    tell(event_topic::lock_acquired, hold->key(), hold->token());
    return hold;
  }
  if (!wait && answer.why.code == errc::conflict) return std::shared_ptr<lock_hold>();
  return std::move(answer.why);
}

lock_core::answer local_locks::ask_store(lock_guard& lock, lock_id id, lock_effects& fx) {
  const auto wish = core_.take_of(id);
  if (!blocks_) {
    const auto at = now();
    return core_.taken(id, wish.key, at, store_->take(wish), at, fx);
  }
  lock.unlock();
  const auto sent = now();
  const auto got = guarded([&] { return store_->take(wish); });
  note(got ? nullptr : &got.failure());
  lock.lock();
  return core_.taken(id, wish.key, sent, got, now(), fx);
}

std::shared_ptr<lock_hold> local_locks::hand_out(lock_id id) {
  const auto* e = core_.find(id);
  if (!e || e->at != lock_core::stage::held) return nullptr;
  auto& sign = signs_[id];
  if (!sign) sign = std::make_shared<lock_sign>(e->what.key, e->token, e->expires);
  return std::make_shared<local_hold>(shared_from_this(), id, sign);
}

local_locks::grant local_locks::grant_of(lock_id id) const {
  const auto* e = core_.find(id);
  return e ? grant{id, e->token, left_of(e->expires, now())} : grant{id, 0, 0ms};
}

lock_id local_locks::acquire(lock_request r, on_grant then) {
  lock_guard lock(mutex_);
  lock_effects fx;
  auto answer = core_.acquire(std::move(r), now());
  const auto id = answer.id;
  if (answer.what == lock_core::answer::kind::pending) {
    auto w = std::make_shared<waiter>();
    w->then = std::move(then);
    waiters_[id] = std::move(w);
    fx.take.push_back(core_.take_of(id));
    perform(lock, fx);
    return id;
  }
  const auto outcome =
      answer.what == lock_core::answer::kind::granted ? expected<grant>(grant_of(id)) : expected<grant>(answer.why);
  const auto* held = core_.find(id);
  const auto key = outcome && held ? held->what.key : std::string();
  lock.unlock();
  if (outcome) tell(event_topic::lock_acquired, key, outcome->token);
  then(outcome);
  return id;
}

void local_locks::cancel(lock_id id) {
  lock_guard lock(mutex_);
  const auto* e = core_.find(id);
  if (!e) return;
  lock_effects fx;
  core_.cancel(id, {errc::conflict, "lock \"" + e->what.key + "\": the waiting was ended"}, fx);
  perform(lock, fx);
}

// ---- releasing ----

expected<void> local_locks::release(const std::string& key, lock_id id) {
  lock_guard lock(mutex_);
  const auto* e = core_.find(id);
  if (!e || e->what.key != key) return gone(key);
  return release_in_store(lock, key, id);
}

expected<void> local_locks::release(std::string_view key, std::string_view owner) {
  lock_guard lock(mutex_);
  const std::string name(key);
  const auto id = core_.held_by(name, std::string(owner));
  if (id == 0) return {errc::fenced, "lock \"" + name + "\": is not held by \"" + std::string(owner) + "\""};
  return release_in_store(lock, name, id);
}

expected<void> local_locks::release_in_store(lock_guard& lock, const std::string& key, lock_id id) {
  switch (core_.release(id)) {
    case lock_core::released::unknown:
      return gone(key);
    case lock_core::released::part:
      return {};
    case lock_core::released::whole:
    case lock_core::released::late:
      break;
  }
  signs_.erase(id);
  if (!blocks_) {
    const auto was = store_->release({key, id});
    lock_effects fx;
    perform(lock, fx);
    if (!was) return was.failure();
    if (!*was) return gone(key);
    lock.unlock();
    tell(event_topic::lock_released, key);
    return {};
  }
  lock.unlock();
  const auto was = guarded([&] { return store_->release({key, id}); });
  note(was ? nullptr : &was.failure());
  if (!was) {
    lock.lock();
    owe({key, id});
    return {was.failure().code, "lock \"" + key + "\": its release is tried again: " + was.failure().text};
  }
  if (!*was) return gone(key);
  tell(event_topic::lock_released, key);
  return {};
}

expected<local_locks::grant> local_locks::extend(const std::string& key, lock_id id) {
  lock_guard lock(mutex_);
  const auto what = core_.renewal_of(id);
  if (!what || what->key != key) return gone(key);
  auto sent = now();
  expected<std::uint64_t> token = core_.find(id)->token;
  if (blocks_) {
    lock.unlock();
    sent = now();
    const auto got = guarded([&] { return store_->renew({&*what, 1}); });
    note(got ? nullptr : &got.failure());
    token = got ? expected<std::uint64_t>(got->front()) : expected<std::uint64_t>(got.failure());
    lock.lock();
  }
  lock_effects fx;
  core_.renewed(id, sent, token, now(), fx);
  perform(lock, fx);
  if (!token) return {token.failure().code, "lock \"" + key + "\": " + token.failure().text};
  const auto now_held = grant_of(id);
  if (now_held.token == 0) return gone(key);
  return now_held;
}

bool local_locks::held_by(std::string_view key, std::string_view owner) const {
  const lock_guard lock(mutex_);
  const auto id = core_.held_by(std::string(key), std::string(owner));
  return id != 0 && now() < core_.find(id)->expires;
}

expected<bool> local_locks::force_release(std::string_view key) {
  lock_guard lock(mutex_);
  lock_effects fx;
  const auto& all = core_.all();
  const auto mine = std::find_if(all.begin(), all.end(), [&](const auto& x) {
    return x.second.at == lock_core::stage::held && x.second.what.key == key;
  });
  if (mine != all.end()) core_.revoke(mine->first, fx);
  perform(lock, fx);  // its holder knows before the next one starts
  if (blocks_) lock.unlock();
  const auto done = guarded([&] { return store_->force(key); });
  if (blocks_) {
    note(done ? nullptr : &done.failure());
  } else {
    perform(lock, fx);
    lock.unlock();
  }
  if (done && *done) tell(event_topic::lock_forced, std::string(key));
  return done;
}

void local_locks::tell(event_topic t, const std::string& key, std::uint64_t token) const {
  if (!events_ || !events_->wants(t)) return;
  events_->tell(t, key, token != 0 ? "{\"token\":" + std::to_string(token) + "}" : "{}");
}

// ---- carrying out ----

void local_locks::trip(std::vector<lock_effects::ending>& lost, lock_guard& lock) {
  if (lost.empty()) return;
  std::vector<std::shared_ptr<lock_sign>> signs;
  for (const auto& l : lost)
    if (const auto at = signs_.find(l.id); at != signs_.end()) {
      at->second->mark_lost();
      signs.push_back(std::move(at->second));
      signs_.erase(at);
    }
  lock.unlock();
  for (const auto& s : signs) {
    toolbox::run_safe([&] { s->trip(); });
    tell(event_topic::lock_lost, s->key, s->token);
  }
  {
    const std::lock_guard one_at_a_time(report_);
    if (on_.lost)
      for (const auto& l : lost) on_.lost(l.why.text);
  }
  lock.lock();
}

void local_locks::drain_grants(lock_effects& fx) {
  while (!granted_.empty()) {
    const auto all = std::exchange(granted_, {});
    for (const auto& [what, token] : all) core_.woken(what.id, what.key, token, now(), fx);
  }
}

void local_locks::perform(lock_guard& lock, lock_effects& fx) {
  std::vector<std::function<void()>> later;
  for (drain_grants(fx); !fx.empty(); drain_grants(fx)) {
    auto todo = std::exchange(fx, {});
    // Before anything below can make room for the next one.
    trip(todo.lost, lock);
    for (const auto id : todo.granted) settle(id, std::nullopt, later);
    for (auto& r : todo.refused) settle(r.id, std::move(r.why), later);
    for (const auto id : todo.extended)
      if (const auto at = signs_.find(id); at != signs_.end())
        if (const auto* e = core_.find(id)) at->second->set_until(e->expires);
    for (const auto id : todo.ended)
      if (const auto at = sessions_.find(id); at != sessions_.end()) {
        later.emplace_back([stop = std::move(at->second)]() mutable { stop.request_stop(); });
        sessions_.erase(at);
      }
    if (!blocks_) {
      for (const auto& g : todo.give_back) (void)store_->release(g);
      for (const auto& t : todo.take) {
        if (!core_.find(t.id)) continue;
        const auto answer = ask_store(lock, t.id, fx);
        if (answer.what == lock_core::answer::kind::granted) settle(t.id, std::nullopt, later);
        if (answer.what == lock_core::answer::kind::refused) settle(t.id, answer.why, later);
      }
      continue;
    }
    for (auto& g : todo.give_back)
      errands_.emplace_back([this, g = std::move(g)] {
        const auto was = guarded([&] { return store_->release(g); });
        note(was ? nullptr : &was.failure());
        if (was) return;
        const lock_guard again(mutex_);
        owe(g);
      });
    for (auto& t : todo.take)
      errands_.emplace_back([this, id = t.id] {
        lock_guard again(mutex_);
        const auto* e = core_.find(id);
        if (!e || e->at != lock_core::stage::asking) return;
        lock_effects more;
        const auto answer = ask_store(again, id, more);
        std::vector<std::function<void()>> calls;
        if (answer.what == lock_core::answer::kind::granted) settle(id, std::nullopt, calls);
        if (answer.what == lock_core::answer::kind::refused) settle(id, answer.why, calls);
        perform(again, more);
        again.unlock();
        for (const auto& call : calls) toolbox::run_safe(call);
      });
    if (!todo.give_back.empty() || !todo.take.empty()) errands_changed_.notify_all();
    renew_.insert(renew_.end(), todo.renew.begin(), todo.renew.end());
    if (!todo.beat.empty()) beat_ = std::move(todo.beat);
    if (!renew_.empty() || !beat_.empty()) alive_changed_.notify_all();
  }
  if (core_.wake_at() < sleeping_until_) time_changed_.notify_all();
  if (later.empty()) return;
  lock.unlock();
  for (const auto& call : later) toolbox::run_safe(call);
  lock.lock();
}

void local_locks::settle(lock_id id, std::optional<error> why, std::vector<std::function<void()>>& later) {
  const auto at = waiters_.find(id);
  if (at == waiters_.end()) return;
  const auto w = std::move(at->second);
  waiters_.erase(at);
  w->done = true;
  if (w->then) {
    const auto* held = core_.find(id);
    later.emplace_back([this, then = std::move(w->then), key = held ? held->what.key : std::string(),
                        outcome = why ? expected<grant>(*why) : expected<grant>(grant_of(id))] {
      if (outcome) tell(event_topic::lock_acquired, key, outcome->token);
      then(outcome);
    });
    return;
  }
  w->why = std::move(why);
  w->changed.notify_one();
}

void local_locks::owe(lock_ref held) {
  owed_.push_back({std::move(held), now() + core_.limits().expiry});
  owed_at_ = std::min(owed_at_, now() + core_.limits().retry);
  errands_changed_.notify_all();
}

void local_locks::note(const error* why) {
  if (why && why->code != errc::backend_failed) return;
  if (why) health_.set("locks: " + why->text);
  const bool before = troubled_.exchange(why != nullptr);
  if (before == (why != nullptr)) return;
  if (!why) health_.clear();
  const std::lock_guard one_at_a_time(report_);
  if (on_.trouble) on_.trouble(why ? why->text : std::string());
}

void local_locks::report(events on) {
  const std::lock_guard one_at_a_time(report_);
  on_ = std::move(on);
}

// ---- threads ----

void local_locks::keep_time() {
  lock_guard lock(mutex_);
  while (!stopping_) {
    sleeping_until_ = time_point::min();  // awake: it looks again by itself
    if (const auto t = now(); core_.wake_at() <= t) {
      lock_effects fx;
      core_.tick(t, fx);
      perform(lock, fx);
      continue;
    }
    sleeping_until_ = core_.wake_at();
    if (sleeping_until_ == lock_core::never)
      time_changed_.wait(lock);
    else
      time_changed_.wait_for(lock, sleeping_until_ - now());
  }
}

void local_locks::keep_alive() {
  lock_guard lock(mutex_);
  for (;;) {
    alive_changed_.wait(lock, [&] { return stopping_ || !renew_.empty() || !beat_.empty(); });
    if (stopping_) return;
    const auto renew = std::exchange(renew_, {});
    const auto beat = std::exchange(beat_, {});
    lock.unlock();
    lock_effects fx;
    if (!renew.empty()) {
      const auto sent = now();
      const auto got = guarded([&] { return store_->renew(renew); });
      note(got ? nullptr : &got.failure());
      lock.lock();
      for (std::size_t n = 0; n < renew.size(); ++n)
        core_.renewed(renew[n].id, sent,
                      got ? expected<std::uint64_t>((*got)[n]) : expected<std::uint64_t>(got.failure()), now(), fx);
      perform(lock, fx);
      lock.unlock();
    }
    if (!beat.empty()) {
      const auto sent = now();
      const auto got = guarded([&] { return store_->beat(beat); });
      note(got ? nullptr : &got.failure());
      lock.lock();
      core_.beaten(sent, got, now(), fx);
      perform(lock, fx);
      lock.unlock();
    }
    lock.lock();
  }
}

void local_locks::run_errands() {
  lock_guard lock(mutex_);
  std::optional<std::chrono::steady_clock::time_point> last_call;
  for (;;) {
    const auto ready = [&] { return stopping_ || !errands_.empty() || owed_at_ <= now(); };
    if (!ready()) {
      if (owed_at_ == lock_core::never)
        errands_changed_.wait(lock);
      else
        errands_changed_.wait_for(lock, owed_at_ - now());
      continue;
    }
    if (stopping_) {
      if (!last_call) last_call = std::chrono::steady_clock::now() + farewell;
      if (errands_.empty() || std::chrono::steady_clock::now() > *last_call) return;
    }
    if (!errands_.empty()) {
      const auto work = std::move(errands_.front());
      errands_.pop_front();
      lock.unlock();
      toolbox::run_safe(work);
      lock.lock();
      continue;
    }
    owed_at_ = lock_core::never;
    const auto owed = std::exchange(owed_, {});
    lock.unlock();
    std::deque<debt> failed;
    for (const auto& o : owed) {
      if (now() >= o.until) continue;
      // One failure stands for all: each may take seconds.
      const auto was =
          failed.empty() ? guarded([&] { return store_->release(o.held); }) : expected<bool>(errc::backend_failed, "");
      if (!was) failed.push_back(o);
      if (failed.empty()) note(nullptr);
    }
    lock.lock();
    if (!failed.empty()) {
      owed_.insert(owed_.end(), failed.begin(), failed.end());
      owed_at_ = now() + core_.limits().retry;
    }
  }
}

void local_locks::post(std::function<void()> work) {
  if (!blocks_) return work();
  const lock_guard lock(mutex_);
  errands_.push_back(std::move(work));
  errands_changed_.notify_all();
}

void local_locks::close() {
  lock_guard lock(mutex_);
  lock_effects fx;
  core_.close(fx);
  perform(lock, fx);
}

}  // namespace caravan
