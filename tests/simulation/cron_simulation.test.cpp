#define CAF_SUITE cron_simulation

/// Three nodes, one store, clocks that differ, nodes that are killed around due times, a store that fails and answers
/// late, in virtual time. Every occurrence must run once, or be recorded as missed; never twice.
///
///   CARAVAN_SEED=n    the first seed (each world prints nothing unless it fails; the seeds are printed)
///   CARAVAN_WORLDS=n  how many worlds of each kind

#include "actors/cron/cron_core.hpp"
#include "integration/memory/memory_cron_store.hpp"
#include "tests/support/cron_bench.hpp"

#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>
#include <queue>
#include <random>
#include <set>

#include "caf/test/unit_test.hpp"

using namespace caravan;
using namespace std::chrono;
using namespace std::chrono_literals;

namespace {

constexpr cron_time begin_of_world = sys_days{2026y / 2 / 10} + 12h;

std::uint64_t setting(const char* name, std::uint64_t fallback) {
  const char* text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : fallback;
}

struct broken : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct plan {
  std::array<milliseconds, 3> skew{};
  bool store_has_clock = false;
  milliseconds length = 10min;
  milliseconds run_takes = 5ms;
  milliseconds most_delay = 3ms;  ///< of a call to the store, each way
  milliseconds kill_every{0};     ///< the node that ran last, at a due time or near it
  unsigned failures_of_1000 = 0;  ///< calls of the store that are lost, or whose answer is
  config::overlap_mode overlap = config::overlap_mode::skip;
  config::missed_mode missed = config::missed_mode::skip;
  milliseconds jitter{0};
  const char* schedule = "* * * * * *";
  bool all_at_once = false;  ///< every third kill takes all nodes
  bool jumps = false;        ///< clocks are corrected by up to a minute
};

struct totals {
  std::size_t worlds = 0, occurrences = 0, ran = 0, missed = 0, lost = 0, kills = 0, unheard = 0, failures = 0,
              cancelled = 0;
};

class world {
public:
  world(const plan& p, std::uint64_t seed) : plan_(p), chance_(seed) {
    store_ = p.store_has_clock ? std::make_unique<memory_cron_store>([this] { return now_; })
                               : std::make_unique<memory_cron_store>();
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      nodes_[i].skew = p.skew[i];
      birth(i);
    }
    if (p.kill_every > 0ms) at(p.kill_every, [this] { plan_kill(); });
    if (p.jumps) at(20s, [this] { jump(); });
  }

  void run(totals& sum) {
    const auto end = begin_of_world + plan_.length;
    while (!events_.empty() && events_.top().at <= end) {
      const auto next = events_.top();
      events_.pop();
      now_ = next.at;
      next.act();
    }
    judge(sum);
  }

private:
  struct event {
    cron_time at;
    std::uint64_t order;
    std::function<void()> act;
    bool operator<(const event& other) const { return at != other.at ? at > other.at : order > other.order; }
  };
  struct node {
    std::unique_ptr<cron_core> core;
    std::uint64_t life = 0;
    milliseconds skew{0};
    std::uint64_t tick = 0;  ///< only the last one that was planned counts
    std::map<std::uint64_t, std::vector<std::pair<cron_instant, cron_instant>>>
        unheard;  ///< claims done, answer under way: (from, to]
    std::set<std::uint64_t> running;
  };

  std::size_t below(std::size_t n) { return static_cast<std::size_t>(chance_() % n); }
  milliseconds delay() { return milliseconds(below(static_cast<std::size_t>(plan_.most_delay.count()) + 1)); }
  void at(milliseconds after, std::function<void()> act) { events_.push({now_ + after, ++order_, std::move(act)}); }
  cron_time local(std::size_t i) const { return now_ + nodes_[i].skew; }

  void birth(std::size_t i) {
    auto& n = nodes_[i];
    ++n.life;
    n.core = std::make_unique<cron_core>(
        cron_core::options{.node = {"node-" + std::to_string(i), n.life}, .shared_store = true});
    auto task = task_of("task", plan_.schedule);
    task.settings.overlap = plan_.overlap;
    task.settings.missed = plan_.missed;
    task.settings.jitter = plan_.jitter;
    cron_effects fx;
    if (!n.core->add(task, local(i), fx)) throw broken("refused");
    n.core->start(local(i), fx);
    carry_out(i, fx);
  }

  void death(std::size_t i) {
    auto& n = nodes_[i];
    if (!n.core) return;
    n.core.reset();
    ++kills_;
    for (const auto& [request, ranges] : n.unheard) unheard_.insert(unheard_.end(), ranges.begin(), ranges.end());
    n.unheard.clear();
    for (const auto token : n.running) active_.erase(token);
    n.running.clear();
    at(1s + milliseconds(below(15'000)), [this, i] {
      if (!nodes_[i].core) birth(i);
    });
  }

  /// At the due time of the next whole second, or some milliseconds before or after it.
  void plan_kill() {
    constexpr std::array around = {-2, -1, 0, 1, 2, 4, 7, 12};
    const auto due = ceil<seconds>(now_ + 10ms) + milliseconds(around[below(around.size())]);
    const auto all = plan_.all_at_once && below(3) == 0;
    at(duration_cast<milliseconds>(due - now_), [this, all] {
      for (std::size_t i = 0; i < nodes_.size(); ++i)
        if (all || i == leader_) death(i);
    });
    at(plan_.kill_every, [this] { plan_kill(); });
  }

  void jump() {
    nodes_[below(nodes_.size())].skew += milliseconds(static_cast<std::int64_t>(below(120'000))) - 60s;
    at(20s + milliseconds(below(10'000)), [this] { jump(); });
  }

  template <class Answer>
  void call(std::size_t i, std::uint64_t request, std::function<expected<Answer>()> ask,
            std::function<void(cron_core&, const expected<Answer>&, cron_time, cron_effects&)> tell) {
    const auto life = nodes_[i].life;
    const auto way_there = delay(), way_back = delay();
    const auto fate = below(1000);
    at(way_there, [=, this] {
      // A request is on its way even when its sender dies.
      expected<Answer> answer = error{errc::backend_failed, "lost"};
      if (fate < plan_.failures_of_1000 / 2) {
        ++failures_;
      } else {
        answer = ask();
        if constexpr (std::is_same_v<Answer, cron_answer>)
          if (answer) {
            const auto v = answer->verdict;
            const auto moved = v == cron_verdict::busy || v == cron_verdict::passed_over ||
                               v == cron_verdict::granted || v == cron_verdict::queued;
            if (v == cron_verdict::granted) leader_ = i;
            if (moved) {
              std::vector<std::pair<cron_instant, cron_instant>> ranges = {{answer->from, answer->to}};
              if (answer->lost) ranges.emplace_back(answer->lost->from, answer->lost->occurrence);
              if (answer->dropped) ranges.emplace_back(*answer->dropped - 1s, *answer->dropped);
              if (nodes_[i].core && nodes_[i].life == life)
                nodes_[i].unheard[request] = ranges;
              else
                unheard_.insert(unheard_.end(), ranges.begin(), ranges.end());
            }
          }
        if (fate < plan_.failures_of_1000) {
          ++failures_;
          answer = error{errc::timed_out, "no answer"};
        }
      }
      at(way_back, [=, this] {
        auto& n = nodes_[i];
        if (!n.core || n.life != life) return;
        if (answer) n.unheard.erase(request);
        cron_effects fx;
        tell(*n.core, answer, local(i), fx);
        carry_out(i, fx);
      });
    });
  }

  void carry_out(std::size_t i, cron_effects& fx) {
    auto& n = nodes_[i];
    for (const auto& r : fx.records) {
      if (r.miss == cron_miss::none) continue;
      if (r.count >= most_counted) throw broken("too many to count");
      if (r.miss == cron_miss::lost) lost_.insert(r.occurrence);
      for (auto at = r.occurrence; at <= r.until; at = *when_.next(at)) missed_.insert(at);
    }
    cancelled_ += fx.cancel.size();
    for (const auto& run : fx.start) {
      if (!runs_.insert({run.occurrence, run.token}).second || tokens_.contains(run.token))
        throw broken("ran twice: " + run.id);
      tokens_.insert(run.token);
      if (!active_.empty() && !plan_.jumps && plan_.failures_of_1000 == 0 && plan_.store_has_clock)
        throw broken("two at once: " + run.id + " and " + std::to_string(*active_.begin()));
      active_.insert(run.token);
      n.running.insert(run.token);
      const auto life = n.life;
      at(plan_.run_takes, [=, this] {
        active_.erase(run.token);
        auto& me = nodes_[i];
        if (!me.core || me.life != life) return;
        me.running.erase(run.token);
        cron_effects more;
        me.core->on_run_ended(run.task, run.token, cron_outcome::finished, "", local(i), more);
        carry_out(i, more);
      });
    }
    for (const auto& x : fx.open)
      call<cron_view>(
          i, 0, [=, this] { return store_->open(x.task, x.first_cursor, local(i)); },
          [=](cron_core& c, const auto& a, cron_time t, cron_effects& more) { c.on_opened(x.task, a, t, more); });
    for (const auto& x : fx.claims)
      call<cron_answer>(
          i, x.request, [=, this] { return store_->claim(x, local(i)); },
          [=](cron_core& c, const auto& a, cron_time t, cron_effects& more) { c.on_claimed(x.task, a, t, more); });
    for (const auto& x : fx.renew)
      call<cron_view>(
          i, 0, [=, this] { return store_->renew(x.task, x.token, x.lease, local(i)); },
          [=](cron_core& c, const auto& a, cron_time t, cron_effects& more) { c.on_renewed(x.task, a, t, more); });
    for (const auto& x : fx.finish)
      call<cron_ended>(
          i, 0, [=, this] { return store_->finish(x, local(i)); },
          [=](cron_core& c, const auto& a, cron_time t, cron_effects& more) { c.on_finished(x.task, a, t, more); });
    plan_tick(i);
  }

  void plan_tick(std::size_t i) {
    auto& n = nodes_[i];
    const auto wake = n.core->next_wake(local(i));
    const auto number = ++n.tick;
    const auto life = n.life;
    if (wake == local(i) && ++spins_ > 1000) throw broken("it spins");
    if (wake != local(i)) spins_ = 0;
    at(wake - local(i), [=, this] {
      auto& me = nodes_[i];
      if (!me.core || me.life != life || me.tick != number) return;
      cron_effects fx;
      me.core->on_tick(local(i), fx);
      carry_out(i, fx);
    });
  }

  void judge(totals& sum) {
    const auto row = store_->open("task", {}, now_).value().state;
    std::set<cron_instant> ran, unheard;
    for (const auto& [occurrence, token] : runs_)
      if (!ran.insert(occurrence).second) throw broken("ran twice: " + utc_.format(occurrence));
    for (const auto& [from, to] : unheard_)
      for (auto at = from; at < to;) unheard.insert(at = *when_.next(at));
    for (const auto& n : nodes_)
      for (const auto& [request, ranges] : n.unheard)
        for (const auto& [from, to] : ranges)
          for (auto at = from; at < to;) unheard.insert(at = *when_.next(at));
    const auto first = when_.next(floor<seconds>(begin_of_world) + (plan_.store_has_clock ? 1s : 4min));
    std::size_t count = 0;
    for (auto at = *first; at < row.cursor; at = *when_.next(at)) {
      ++count;
      const auto r = ran.contains(at), m = missed_.contains(at);
      if (r && m && !lost_.contains(at)) throw broken("ran and was recorded as missed: " + utc_.format(at));
      if (!r && !m) {
        // Taken by a node that died before it heard so, or queued behind a run that goes on.
        if (!unheard.contains(at) && row.queued != at && !(row.running && row.running->occurrence == at))
          throw broken("forgotten: " + utc_.format(at));
        ++sum.unheard;
      }
    }
    if (count < static_cast<std::size_t>((plan_.length - 8min) / 1s) /
                    (plan_.schedule[0] == '*' && plan_.schedule[2] == '*' ? 1 : 60))
      throw broken("it stood still: " + std::to_string(count));
    ++sum.worlds;
    sum.occurrences += count;
    sum.ran += ran.size();
    sum.missed += missed_.size();
    sum.lost += lost_.size();
    sum.kills += kills_;
    sum.failures += failures_;
    sum.cancelled += cancelled_;
  }

  plan plan_;
  std::mt19937_64 chance_;
  cron_time now_ = begin_of_world;
  std::unique_ptr<memory_cron_store> store_;
  std::array<node, 3> nodes_;
  std::priority_queue<event> events_;
  std::uint64_t order_ = 0;
  std::size_t leader_ = 0;
  schedule when_ = schedule::parse(plan_.schedule, {.zone = "UTC"}).value();
  schedule utc_ = schedule::parse("* * * * *", {.zone = "UTC"}).value();
  std::set<std::pair<cron_instant, std::uint64_t>> runs_;
  std::set<std::uint64_t> tokens_, active_;
  std::set<cron_instant> missed_, lost_;
  std::vector<std::pair<cron_instant, cron_instant>> unheard_;
  std::size_t kills_ = 0, failures_ = 0, cancelled_ = 0, spins_ = 0;
};

totals run_worlds(const char* what, const plan& p, std::uint64_t worlds) {
  const auto first = setting("CARAVAN_SEED", 1);
  const auto count = setting("CARAVAN_WORLDS", worlds);
  totals sum;
  for (auto seed = first; seed < first + count; ++seed) {
    try {
      world(p, seed).run(sum);
    } catch (const broken& b) {
      std::cout << what << ", CARAVAN_SEED=" << seed << ": " << b.what() << '\n';
      CAF_ERROR("a world broke");
      return sum;
    }
  }
  std::cout << what << ": seeds " << first << " to " << first + count - 1 << ", " << sum.occurrences << " occurrences, "
            << sum.ran << " ran, " << sum.missed << " recorded as missed (" << sum.lost << " lost with their node), "
            << sum.unheard << " died with their record, " << sum.kills << " kills, " << sum.failures
            << " failures of the store\n";
  return sum;
}

constexpr std::array skews = {std::array<milliseconds, 3>{0ms, 3s, -3s}, std::array<milliseconds, 3>{3min, 0ms, -3min},
                              std::array<milliseconds, 3>{3min, -3min, 3s}};

}  // namespace

CAF_TEST(without trouble every occurrence runs once) {
  for (const auto clock : {true, false})
    for (const auto& skew : skews) {
      const auto sum = run_worlds(clock ? "calm, the store has a clock" : "calm, each by its own clock",
                                  {.skew = skew, .store_has_clock = clock}, 2);
      // By their own clocks they make each other miss a little when they join.
      if (clock) CAF_CHECK_EQUAL(sum.missed, 0u);
      CAF_CHECK(sum.missed < 1000 * sum.worlds);
      CAF_CHECK(sum.ran >= sum.occurrences && sum.occurrences > 0);
    }
}

CAF_TEST(the node that runs is killed just before and at and after due times) {
  for (const auto clock : {true, false})
    for (const auto& skew : skews) {
      const auto sum = run_worlds(clock ? "kills, the store has a clock" : "kills, each by its own clock",
                                  {.skew = skew, .store_has_clock = clock, .kill_every = 20s}, 8);
      CAF_CHECK(sum.kills >= 10 * sum.worlds && sum.ran > sum.occurrences / 3);
    }
}

CAF_TEST(all nodes are gone at times) {
  for (const auto missed : {config::missed_mode::skip, config::missed_mode::once})
    run_worlds("all gone",
               {.skew = skews[0], .store_has_clock = true, .kill_every = 25s, .missed = missed, .all_at_once = true},
               20);
}

CAF_TEST(the store fails and answers late) {
  for (const auto overlap : {config::overlap_mode::skip, config::overlap_mode::queue})
    for (const auto clock : {true, false}) {
      const auto sum = run_worlds("failures",
                                  {.skew = skews[0],
                                   .store_has_clock = clock,
                                   .most_delay = 400ms,
                                   .kill_every = 30s,
                                   .failures_of_1000 = 100,
                                   .overlap = overlap},
                                  8);
      CAF_CHECK(sum.failures > 0);
    }
}

CAF_TEST(runs are longer than the interval) {
  for (const auto overlap : {config::overlap_mode::skip, config::overlap_mode::queue})
    run_worlds("long runs",
               {.skew = skews[1], .store_has_clock = true, .run_takes = 2500ms, .kill_every = 45s, .overlap = overlap},
               20);
}

CAF_TEST(clocks are corrected while tasks run) {
  run_worlds("corrections, the store has a clock",
             {.skew = skews[0], .store_has_clock = true, .kill_every = 40s, .jumps = true}, 8);
}

CAF_TEST(jitter keeps every occurrence) {
  run_worlds("jitter", {.skew = skews[0], .store_has_clock = true, .kill_every = 20s, .jitter = 700ms}, 8);
}
