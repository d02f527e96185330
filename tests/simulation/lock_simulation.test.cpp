#define CAF_SUITE lock_simulation

/// Several nodes' lock cores over one model of Redis in random weather: slow, lost, doubled and stuck messages, lost
/// wake-ups, cut links, frozen and killed nodes, a Redis that stands still, forgets everything or is replaced by a
/// replica that is behind, clocks that run unlike, and clients that die, dawdle or write on without looking. What must
/// hold:
///
/// * A key's tokens only grow, so a guard that refuses a lower one never accepts an outdated holder after a newer one.
/// * While Redis keeps what it said, no two believe to hold a key at one instant, each by his own clock; a node that is
///   not frozen has told its holder of the loss before the next one begins.
/// * In calm weather the line moves in order.
/// * When the storm ends everybody who waits gets it, and nothing is left behind.
///
///   CARAVAN_SEED=n    replays the world that failed (its seed is printed)
///   CARAVAN_STEPS=n   how many steps in all

#include "actors/lock/lock_core.hpp"
#include "tests/support/model_locks.hpp"

#include <cstdlib>
#include <functional>
#include <iostream>
#include <random>
#include <sstream>

#include "caf/test/unit_test.hpp"

using namespace caravan;
using namespace std::chrono_literals;
using std::chrono::microseconds;

namespace {

struct broken : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct totals {
  std::size_t steps = 0, worlds = 0, granted = 0, lost = 0, refused = 0, writes = 0, refused_writes = 0, kills = 0,
              freezes = 0, cuts = 0, data_losses = 0, lost_turns = 0, stuck = 0;
};

using us = microseconds;

struct client {
  enum class state { idle, waiting, holding } at = state::idle;
  std::string key;
  lock_id id = 0;
  std::uint64_t token = 0;
  bool told_lost = false;
  std::uint64_t serial = 0;  ///< of the wish: events of an earlier one are void
  us since{0};
};

struct sim_node {
  int id = 0;
  double rate = 1;  ///< of its clock
  us born{0};
  std::unique_ptr<lock_core> core;
  std::vector<client> clients{4};
  us frozen_until{0};
  us cut_until{0};
  std::vector<std::function<void()>> missed;  ///< while it was frozen
  us tick_at{0};
  bool dead = false;
};

class world {
public:
  world(std::uint64_t seed, totals& t) : random_(seed), sum_(t) {
    calm_ = chance(0.15);
    forgets_ = !calm_ && chance(0.3);
    limits_.expiry = chance(0.5) ? 30s : 6s;
    limits_.patience = 30s;
    model_.claim = std::min<us>(5s, limits_.expiry);
    redis_rate_ = skewed();
    for (int n = 0; n < 3; ++n) add_node();
  }

  void run(std::size_t steps) {
    for (std::size_t n = 0; n < steps; ++n) {
      ++sum_.steps;
      step();
    }
    calm_down();
  }
  [[nodiscard]] std::string trace() const { return trace_.str(); }

private:
  // ---- weather ----
  bool chance(double p) { return std::uniform_real_distribution<>(0, 1)(random_) < p; }
  us between(us least, us most) {
    return us{std::uniform_int_distribution<std::int64_t>(least.count(), most.count())(random_)};
  }
  /// Two clocks may drift apart by 3 %: a lock ends 5 % early, at most a second.
  double skewed() { return calm_ ? 1.0 : std::uniform_real_distribution<>(0.985, 1.015)(random_); }

  void add_node() {
    auto n = std::make_unique<sim_node>();
    n->id = ++last_node_;
    n->rate = skewed();
    n->born = now_;
    n->core = std::make_unique<lock_core>(limits_, random_());
    nodes_.push_back(std::move(n));
  }

  [[nodiscard]] lock_core::time_point local(const sim_node& n) const {
    return lock_core::time_point{} + 1h +
           us{static_cast<std::int64_t>(static_cast<double>((now_ - n.born).count()) * n.rate)};
  }
  [[nodiscard]] us redis_time() const {
    return 1h + redis_ahead_ + us{static_cast<std::int64_t>(static_cast<double>(now_.count()) * redis_rate_)};
  }

  void after(us delay, std::function<void()> what) { events_.emplace(now_ + delay, std::move(what)); }
  /// As above, on a node: not while it is frozen, never when it is dead.
  void at_node(us delay, sim_node& n, std::function<void()> what) {
    after(delay, [this, &n, what = std::move(what)] {
      if (n.dead) return;
      if (now_ < n.frozen_until)
        n.missed.push_back(what);
      else
        what();
    });
  }

  void step() {
    if (chance(calm_ ? 0 : 0.01)) storm();
    if (chance(0.2)) {
      auto& n = *nodes_[random_() % nodes_.size()];
      if (now_ >= n.frozen_until && !n.dead) act(n, n.clients[random_() % n.clients.size()]);
    }
    if (events_.empty()) {
      now_ += 50ms;
      return;
    }
    const auto next = events_.begin();
    // Clients act in between, so time does not jump.
    if (next->first > now_ + 100ms) {
      now_ += between(1ms, 100ms);
      return;
    }
    now_ = std::max(now_, next->first);
    const auto what = std::move(next->second);
    events_.erase(next);
    what();
    check();
  }

  void storm() {
    auto& n = *nodes_[random_() % nodes_.size()];
    switch (random_() % 6) {
      case 0:
        n.cut_until = now_ + between(100ms, 40s);
        ++sum_.cuts;
        say("cut " + std::to_string(n.id));
        break;
      case 1:
        if (now_ < n.frozen_until) break;
        n.frozen_until = now_ + between(10ms, 2 * limits_.expiry);
        ++sum_.freezes;
        say("freeze " + std::to_string(n.id));
        events_.emplace(n.frozen_until, [this, &n] { thaw(n); });
        break;
      case 2: {
        ++sum_.kills;
        say("kill " + std::to_string(n.id));
        n.dead = true;
        for (auto& c : n.clients) c = {};
        for (auto& slot : nodes_)
          if (slot.get() == &n) {
            graves_.push_back(std::move(slot));
            slot = nullptr;
          }
        std::erase(nodes_, nullptr);
        add_node();
        break;
      }
      case 3:
        redis_frozen_until_ = now_ + between(100ms, 8s);
        break;
      case 4:
        if (forgets_) lose_data();
        break;
      default:
        weather_ = weather_ > 0 ? 0 : 0.3;
    }
  }

  void lose_data() {
    ++sum_.data_losses;
    redis_frozen_until_ = now_ + 1500ms;
    const auto claim = model_.claim;
    if (chance(0.5) || snapshots_.empty()) {
      say("redis forgets");
      model_ = {};
      model_.claim = claim;
    } else {
      say("failover");
      model_ = snapshots_.front();
      // The new one's clock differs, by less than the failover lasts.
      redis_ahead_ += between(-1s, 1s);
    }
  }

  void thaw(sim_node& n) {
    if (n.dead || now_ < n.frozen_until) return;
    const bool tick_first = chance(0.5);
    if (tick_first) tick(n);
    for (const auto& what : std::exchange(n.missed, {})) what();
    tick(n);
  }

  // ---- calls ----
  template <class Answer>
  void call(sim_node& n, std::function<Answer()> on_redis,
            std::function<void(expected<Answer>, lock_core::time_point)> then, bool ages) {
    struct state {
      bool answered = false;
    };
    const auto sent = local(n);
    const auto s = std::make_shared<state>();
    const auto patience = 3s;
    const auto answer = [s, then, sent](expected<Answer> a) {
      if (std::exchange(s->answered, true)) return;
      then(std::move(a), sent);
    };
    at_node(patience, n, [answer] { answer({errc::backend_failed, "redis is away"}); });
    const std::function<void()> execute = [=, this, &n, asked = now_] {
      if (ages && now_ - asked > patience + 1s) {
        ++sum_.stuck;
        return;
      }
      const auto got = on_redis();
      publish();
      if (now_ < n.cut_until || chance(weather_ / 2)) return;  // its reply is lost
      at_node(travel(), n, [answer, got] { answer(got); });
    };
    const auto deliver = [&](us delay) { after(delay, [this, execute] { when_redis_runs(execute); }); };
    const bool cut = now_ < n.cut_until;
    if (cut || chance(weather_ / 2)) {
      if (!cut && chance(0.3)) deliver(between(1s, 15s));  // it arrives when nobody thinks of it any more
      return;
    }
    deliver(travel());
    if (chance(weather_ / 3)) deliver(travel() + travel());
  }
  /// What arrives meanwhile is stuck in a socket.
  void when_redis_runs(const std::function<void()>& what) {
    if (now_ < redis_frozen_until_)
      after(redis_frozen_until_ - now_, [this, what] { when_redis_runs(what); });
    else
      what();
  }
  us travel() { return chance(weather_ / 5) ? between(10ms, 2500ms) : between(50us, 2ms); }

  void publish() {
    for (const auto& g : std::exchange(model_.grants, {})) {
      auto& last = tokens_[g.key];
      if (g.token <= last)
        throw broken("token " + std::to_string(g.token) + " of " + g.key + " is not above " + std::to_string(last));
      last = g.token;
    }
    for (const auto& t : std::exchange(model_.turns, {})) {
      if (calm_) expect_in_order(t);
      if (chance(weather_)) {
        ++sum_.lost_turns;
        continue;
      }
      for (auto& n : nodes_)
        if (n->id == t.whom.first && now_ >= n->cut_until)
          at_node(travel(), *n, [this, &n = *n, t] {
            lock_effects fx;
            n.core->woken(t.whom.second, t.key, t.token, local(n), fx);
            perform(n, fx);
          });
    }
  }

  void expect_in_order(const test::lock_model::turn& t) {
    auto& line = order_[t.key];
    if (gone_.contains(t.whom)) {  // it has left, which Redis does not know yet
      std::erase(line, t.whom);
      return;
    }
    while (!line.empty() && gone_.contains(line.front())) line.pop_front();
    if (line.empty() || line.front() != t.whom) throw broken("the turn went past the first in line of " + t.key);
    line.pop_front();
  }

  // ---- a node ----
  void tick(sim_node& n) {
    n.tick_at = {};
    lock_effects fx;
    if (n.core->wake_at() <= local(n)) n.core->tick(local(n), fx);
    perform(n, fx);
  }

  void perform(sim_node& n, lock_effects& first) {
    auto fx = std::exchange(first, {});
    for (const auto& l : fx.lost) {
      ++sum_.lost;
      if (auto* c = client_of(n, l.id)) c->told_lost = true;
    }
    for (const auto id : fx.granted)
      if (auto* c = client_of(n, id)) granted(n, *c);
    for (const auto& r : fx.refused) {
      ++sum_.refused;
      gone_.insert({n.id, r.id});
      if (auto* c = client_of(n, r.id)) forget(*c);
    }
    for (const auto& t : fx.take) ask(n, t);
    for (const auto& g : fx.give_back) give_back(n, g, now_ + 2 * limits_.expiry);
    if (!fx.renew.empty())
      call<std::vector<std::uint64_t>>(
          n, [this, &n, all = fx.renew] { return model_.renew(n.id, all, redis_time()); },
          [this, &n, all = fx.renew](expected<std::vector<std::uint64_t>> got, lock_core::time_point sent) {
            lock_effects more;
            for (std::size_t i = 0; i < all.size(); ++i)
              n.core->renewed(all[i].id, sent,
                              got ? expected<std::uint64_t>((*got)[i]) : expected<std::uint64_t>(got.failure()),
                              local(n), more);
            perform(n, more);
          },
          false);
    if (!fx.beat.empty())
      call<std::vector<lock_seen>>(
          n, [this, &n, all = fx.beat] { return model_.beat(n.id, all, redis_time()); },
          [this, &n](expected<std::vector<lock_seen>> got, lock_core::time_point sent) {
            lock_effects more;
            n.core->beaten(sent, got, local(n), more);
            perform(n, more);
          },
          false);
    plan_tick(n);
  }

  void plan_tick(sim_node& n) {
    const auto wake = n.core->wake_at();
    if (wake == lock_core::never) return;
    const auto left = std::chrono::duration_cast<us>(wake - local(n));
    const auto at =
        now_ + std::max<us>(us{static_cast<std::int64_t>(static_cast<double>(left.count()) / n.rate) + 1}, 0us);
    if (n.tick_at != us{0} && n.tick_at <= at) return;
    n.tick_at = at;
    after(at - now_, [this, &n, at] {
      if (n.dead || n.tick_at != at) return;
      if (now_ < n.frozen_until) {
        n.tick_at = {};  // thaw() ticks
        return;
      }
      tick(n);
    });
  }

  void ask(sim_node& n, const lock_take& wish) {
    call<lock_taken>(
        n,
        [this, &n, wish] {
          const auto got = model_.take(n.id, wish, redis_time());
          if (calm_ && got.what == lock_taken::kind::queued) order_[wish.key].push_back({n.id, wish.id});
          return got;
        },
        [this, &n, wish](expected<lock_taken> got, lock_core::time_point sent) {
          lock_effects more;
          const auto a = n.core->taken(wish.id, wish.key, sent, got, local(n), more);
          auto* c = client_of(n, wish.id);
          if (c && a.what == lock_core::answer::kind::granted) granted(n, *c);
          if (c && a.what == lock_core::answer::kind::refused) forget(*c);
          perform(n, more);
        },
        true);
  }

  void give_back(sim_node& n, const lock_ref& what, us until) {
    call<bool>(
        n, [this, &n, what] { return model_.release(n.id, what, redis_time()); },
        [this, &n, what, until](expected<bool> got, lock_core::time_point) {
          if (!got && now_ < until) at_node(1s, n, [this, &n, what, until] { give_back(n, what, until); });
        },
        false);
  }

  // ---- clients ----
  static client* client_of(sim_node& n, lock_id id) {
    for (auto& c : n.clients)
      if (c.id == id && c.at != client::state::idle) return &c;
    return nullptr;
  }

  static void forget(client& c) {
    const auto serial = c.serial;
    c = {};
    c.serial = serial;
  }

  void act(sim_node& n, client& c) {
    if (storm_over_ || c.at == client::state::holding) return;
    if (c.at == client::state::waiting) {
      if (!chance(0.02)) return;
      lock_effects fx;
      n.core->cancel(c.id, {errc::conflict, "gave up"}, fx);
      return perform(n, fx);
    }
    lock_request r;
    r.key = chance(0.7) ? "hot" : "cold";
    r.wait = chance(0.85);
    if (chance(0.2)) r.lease = std::chrono::milliseconds{200 + random_() % 8'000};
    if (r.wait && chance(0.2)) r.deadline = local(n) + between(100ms, 20s);
    const auto key = r.key;
    const auto a = n.core->acquire(std::move(r), local(n));
    if (a.what != lock_core::answer::kind::pending) throw broken("a wish was not taken: " + a.why.text);
    c = client{client::state::waiting, key, a.id, 0, false, c.serial + 1, now_};
    ask(n, n.core->take_of(a.id));
    plan_tick(n);
  }

  [[nodiscard]] bool believes(const sim_node& n, const client& c) const {
    if (c.at != client::state::holding || c.told_lost) return false;
    const auto* e = n.core->find(c.id);
    return e && local(n) < e->expires;
  }

  void granted(sim_node& n, client& c) {
    ++sum_.granted;
    c.at = client::state::holding;
    c.token = n.core->find(c.id)->token;
    if (!forgets_)
      for (const auto& other : nodes_)
        for (const auto& o : other->clients)
          if (&o != &c && o.key == c.key && believes(*other, o))
            throw broken("node " + std::to_string(n.id) + " got " + c.key + " while one on node " +
                         std::to_string(other->id) + " believes to have it");
    const auto serial = c.serial;
    const auto work = chance(0.1) ? between(1s, 60s) : between(1ms, 800ms);
    for (int w = 0; w < 3; ++w) at_node(between(0us, work), n, [this, &n, &c, serial] { write(n, c, serial); });
    at_node(work, n, [this, &n, &c, serial] { finish(n, c, serial); });
  }

  void write(sim_node& n, client& c, std::uint64_t serial) {
    if (c.serial != serial || c.at != client::state::holding) return;
    // One in ten does not look first: the guard is there for him.
    if (!believes(n, c) && !chance(0.1)) return;
    auto& highest = guard_[c.key];
    if (c.token < highest) {
      if (!forgets_ && believes(n, c)) throw broken("the guard refused one who has the lock");
      ++sum_.refused_writes;
      return;
    }
    highest = c.token;
    ++sum_.writes;
  }

  void finish(sim_node& n, client& c, std::uint64_t serial) {
    if (c.serial != serial || c.at != client::state::holding) return;
    const auto id = c.id;
    const auto key = c.key;
    forget(c);
    if (n.core->release(id) == lock_core::released::whole) give_back(n, {key, id}, now_ + 2 * limits_.expiry);
  }

  // ---- what must hold ----
  void check() {
    if (!calm_ && now_ - last_snapshot_ > 200ms) {
      last_snapshot_ = now_;
      snapshots_.push_back(model_);
      if (snapshots_.size() > 5) snapshots_.pop_front();
    }
    for (const auto& n : nodes_) {
      // A node that runs tells of a loss when it happens.
      if (now_ < n->frozen_until) continue;
      for (const auto& c : n->clients)
        if (c.at == client::state::holding && !c.told_lost)
          if (const auto* e = n->core->find(c.id); e && e->expires + 5ms < local(*n))
            throw broken("a loss on node " + std::to_string(n->id) + " was not told");
    }
  }

  void calm_down() {
    storm_over_ = true;
    weather_ = 0;
    redis_frozen_until_ = now_;
    for (auto& n : nodes_) n->cut_until = now_;
    const auto end = now_ + 10min;
    while (!events_.empty() && now_ < end) {
      const auto next = events_.begin();
      now_ = std::max(now_, next->first);
      const auto what = std::move(next->second);
      events_.erase(next);
      what();
      check();
    }
    now_ = end;
    for (const auto& n : nodes_)
      for (const auto& c : n->clients)
        if (c.at != client::state::idle)
          throw broken("one on node " + std::to_string(n->id) + " still " +
                       (c.at == client::state::waiting ? "waits for " : "holds ") + c.key + ", asked at " +
                       std::to_string(c.since.count()) + " us, now " + std::to_string(now_.count()));
    for (const auto& n : nodes_)
      if (!n->core->all().empty() || n->core->wake_at() != lock_core::never)
        throw broken("a core remembers what is over");
    for (const auto& [key, l] : model_.locks)
      if (l.until > redis_time()) throw broken(key + " is still locked");
    for (const auto& [key, line] : model_.lines)
      if (!line.empty() && line.until > redis_time()) throw broken("a ticket that nobody knows is in line for " + key);
  }

  void say(const std::string& what) { trace_ << now_.count() << " " << what << '\n'; }

  std::mt19937_64 random_;
  totals& sum_;
  std::ostringstream trace_;
  bool calm_ = false;
  bool forgets_ = false;
  bool storm_over_ = false;
  lock_limits limits_;
  us now_{0};
  double redis_rate_ = 1;
  us redis_ahead_{0};
  us redis_frozen_until_{0};
  us last_snapshot_{0};
  double weather_ = 0;
  int last_node_ = 0;
  test::lock_model model_;
  std::deque<test::lock_model> snapshots_;
  std::vector<std::unique_ptr<sim_node>> nodes_, graves_;
  std::multimap<us, std::function<void()>> events_;
  std::map<std::string, std::uint64_t> tokens_, guard_;
  std::map<std::string, std::deque<test::lock_model::user>> order_;
  std::set<test::lock_model::user> gone_;
};

}  // namespace

CAF_TEST(no storm breaks what locks promise) {
  const auto* seed_text = std::getenv("CARAVAN_SEED");
  const auto* steps_text = std::getenv("CARAVAN_STEPS");
  const std::uint64_t first = seed_text ? std::strtoull(seed_text, nullptr, 10) : std::random_device{}();
  const std::size_t all = steps_text ? std::strtoull(steps_text, nullptr, 10) : 600'000;
  totals t;
  for (auto seed = first; t.steps < all; ++seed) {
    ++t.worlds;
    world w(seed, t);
    try {
      w.run(6'000);
    } catch (const broken& b) {
      std::cout << w.trace() << "CARAVAN_SEED=" << seed << '\n';
      CAF_FAIL("seed " << seed << ": " << b.what());
    }
    if (seed_text && !steps_text) break;
  }
  std::cout << "seeds from " << first << ": " << t.worlds << " worlds, " << t.steps << " steps, " << t.granted
            << " grants, " << t.lost << " lost, " << t.refused << " refused, " << t.writes << " writes, "
            << t.refused_writes << " refused by the guard, " << t.kills << " kills, " << t.freezes << " freezes, "
            << t.cuts << " cuts, " << t.data_losses << " data losses, " << t.lost_turns << " lost wake-ups, " << t.stuck
            << " requests too old\n";
}
