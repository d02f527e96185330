#define CAF_SUITE claim_core
#include "actors/claim/claim_core.hpp"

#include "actors/queue/queue_core.hpp"

#include <algorithm>

#include "caf/test/unit_test.hpp"

using namespace caravan;
using namespace std::chrono_literals;
using ms = std::chrono::milliseconds;

namespace {

using ids = std::vector<std::uint64_t>;

config::queue_settings plain() {
  config::queue_settings s;
  s.name = "q";
  return s;
}

claim_core::limits named(claim_core::limits l) {
  l.queue = "q";
  return l;
}

/// A claim pool and the core of its queue at a desk: what one says the other hears at once, unless the way is cut.
struct desk {
  explicit desk(claim_core::limits l = {}, pool_kind k = pool_kind::local)
      : queue(plain(), {}, 1, 7),
        pool(5, named(std::move(l)), [n = std::uint64_t{0}]() mutable { return ++n; }),
        kind(k) {
    queue.on_start(now, queue_fx);
  }

  instant now{std::chrono::steady_clock::time_point{} + 1h, wall_time{} + std::chrono::hours{24 * 365 * 55}};
  queue_core queue;
  queue_effects queue_fx;
  claim_core pool;
  claim_effects fx;
  pool_kind kind;
  bool cut = false;   ///< nothing reaches the queue
  bool mute = false;  ///< its answers to reports are lost
  std::size_t attached = 0, demands = 0;
  std::uint64_t last = 0, request = 0;
  std::map<std::uint64_t, expected<claim_granted>> grants;
  std::map<std::uint64_t, expected<claim_acked>> acks;
  std::map<std::uint64_t, expected<claim_extended>> extensions;
  std::optional<claims_closed> closed;
  ids handled;

  claim_core::instant at() const { return {now.steady, now.wall}; }

  void settle() {
    for (bool busy = true; busy;) {
      busy = false;
      for (auto& o : std::exchange(queue_fx.send, {})) {
        CAF_CHECK_EQUAL(o.work.items->size(), 1u);
        pool.on_batch(std::move(o.work), at(), fx);
        busy = true;
      }
      for (const auto& e : std::exchange(queue_fx.erase, {})) handled.push_back(e.id.value);
      queue_fx = {};
      if (std::exchange(fx.attach, false)) {
        ++attached;
        busy = true;
        if (cut) {
          pool.on_attach_failed({errc::fenced, "nobody owns it"}, at(), fx);
        } else {
          queue.on_attach(5, kind, now, queue_fx);
          pool.on_attached(kind, at(), fx);
        }
        continue;
      }
      if (const auto more = std::exchange(fx.more, {})) {
        ++demands;
        busy = true;
        if (!cut) queue.on_demand(*more, now, queue_fx);
        continue;  // what it sends arrives before its answer to a report
      }
      if (!fx.reports.empty() && queue_fx.send.empty()) {
        const auto r = fx.reports.front();
        fx.reports.erase(fx.reports.begin());
        busy = true;
        if (cut) {
          pool.on_reported(r.number, error{errc::fenced, "nobody owns it"}, at(), fx);
        } else {
          auto said = queue.on_report(r.what, now, queue_fx);
          auto sent = std::exchange(queue_fx.send, {});
          for (auto& o : sent) pool.on_batch(std::move(o.work), at(), fx);
          if (mute)
            pool.on_reported(r.number, error{errc::timed_out, "no answer"}, at(), fx);
          else
            pool.on_reported(r.number, said, at(), fx);
        }
      }
    }
    for (auto& g : std::exchange(fx.grants, {})) CAF_CHECK(grants.emplace(g.request, std::move(g.answer)).second);
    for (auto& a : std::exchange(fx.acks, {})) CAF_CHECK(acks.emplace(a.request, std::move(a.answer)).second);
    for (auto& e : std::exchange(fx.extensions, {}))
      CAF_CHECK(extensions.emplace(e.request, std::move(e.answer)).second);
    if (fx.closed) closed = std::exchange(fx.closed, {});
  }

  ids push(std::size_t n, ms timeout = 0ms) {
    std::vector<record> records(n);
    ids pushed;
    for (auto& r : records) {
      r.id = {++last};
      r.payload = "x";
      r.timeout = timeout;
      pushed.push_back(last);
    }
    queue.on_appended(records, now, queue_fx);
    settle();
    return pushed;
  }
  std::uint64_t claim(std::size_t most, ms wait = 0ms, const std::string& worker = "ann", ms lease = 0ms) {
    open_claim c;
    c.request = ++request;
    c.most = most;
    c.wait = wait;
    c.lease = lease;
    c.worker = worker;
    c.from = "10.0.0.1";
    pool.on_claim(std::move(c), at(), fx);
    settle();
    return request;
  }
  [[nodiscard]] bool answered(std::uint64_t r) const { return grants.contains(r); }
  claim_granted got(std::uint64_t r) {
    CAF_REQUIRE(grants.contains(r));
    CAF_REQUIRE(grants.at(r));
    return *grants.at(r);
  }
  ids jobs(std::uint64_t r) {
    ids list;
    for (const auto& j : got(r).jobs) list.push_back(j.item.id.value);
    return list;
  }
  expected<claim_acked> ack(const std::string& lease, std::vector<job_report> said = {}, bool rest = true) {
    pool.on_ack(++request, {lease, std::move(said), rest}, at(), fx);
    settle();
    CAF_REQUIRE(acks.contains(request));
    return acks.at(request);
  }
  expected<claim_acked> release(const std::string& lease) {
    pool.on_release(++request, {lease}, at(), fx);
    settle();
    return acks.at(request);
  }
  expected<claim_extended> extend(const std::string& lease) {
    pool.on_extend(++request, {lease}, at(), fx);
    settle();
    CAF_REQUIRE(extensions.contains(request));
    return extensions.at(request);
  }
  /// Time goes by; each is called exactly when it asked to be.
  void pass(ms by) {
    const auto end = now.steady + by;
    for (;;) {
      const auto a = pool.next_wake().value_or(end);
      const auto b = cut ? end : queue.next_wake(now).value_or(end);
      const auto next = std::min(a, b);
      if (next >= end) break;
      if (next > now.steady) move_to(next);
      if (a <= now.steady) pool.on_tick(at(), fx);
      if (b <= now.steady) queue.on_tick(now, queue_fx);
      settle();
      if (const auto again = pool.next_wake()) CAF_REQUIRE(*again > now.steady);
    }
    move_to(end);
    pool.on_tick(at(), fx);
    queue.on_tick(now, queue_fx);
    settle();
  }
  void move_to(std::chrono::steady_clock::time_point t) {
    const auto by = std::chrono::ceil<ms>(t - now.steady);
    now.steady += by;
    now.wall += by;
  }
  [[nodiscard]] queue_counts counts() const { return queue.counts(); }
};

bool is(const error& e, errc code) { return e.code == code; }
template <class T>
bool is_fenced(const expected<T>& x) {
  return !x && is(x.failure(), errc::fenced);
}

}  // namespace

CAF_TEST(nothing is attached before the first claim and nothing wakes up without one) {
  desk d;
  d.push(3);
  CAF_CHECK_EQUAL(d.attached, 0u);
  CAF_CHECK(!d.pool.next_wake());
  CAF_CHECK_EQUAL(d.counts().waiting, 3u);
}

CAF_TEST(a claim gets what is there up to what it asked for) {
  desk d;
  d.push(5);
  const auto c = d.claim(3);
  CAF_CHECK_EQUAL(d.jobs(c), (ids{1, 2, 3}));
  const auto g = d.got(c);
  CAF_CHECK(g.remaining == 30s);
  CAF_CHECK(g.lease.starts_with("q."));
  CAF_CHECK_EQUAL(g.jobs[0].token + 1, g.jobs[1].token);
  CAF_CHECK_EQUAL(d.counts().running, 3u);
  CAF_CHECK_EQUAL(d.jobs(d.claim(10)), (ids{4, 5}));
  CAF_CHECK(d.jobs(d.claim(10)).empty());
}

CAF_TEST(a claim waits for the first job and is answered with all that came at once) {
  desk d;
  const auto c = d.claim(4, 10s);
  CAF_CHECK(!d.answered(c));
  d.pass(3s);
  CAF_CHECK(!d.answered(c));
  d.push(3);
  CAF_CHECK_EQUAL(d.jobs(c), (ids{1, 2, 3}));
  const auto late = d.claim(1, 2s);
  d.pass(2s);
  CAF_CHECK(d.jobs(late).empty());
  d.push(1);  // nobody waits any more: it stays where it was
  CAF_CHECK_EQUAL(d.counts().waiting, 1u);
  CAF_CHECK_EQUAL(d.counts().totals.returned, 0u);
}

CAF_TEST(those who wait are served in order) {
  desk d;
  const auto a = d.claim(2, 10s, "a"), b = d.claim(2, 10s, "b"), c = d.claim(2, 10s, "c");
  d.push(3);
  CAF_CHECK_EQUAL(d.jobs(a), (ids{1, 2}));
  CAF_CHECK_EQUAL(d.jobs(b), (ids{3}));
  CAF_CHECK(!d.answered(c));
  d.push(1);
  CAF_CHECK_EQUAL(d.jobs(c), (ids{4}));
}

CAF_TEST(who leaves the line takes nothing along) {
  desk d;
  const auto a = d.claim(1, 10s, "a"), b = d.claim(1, 10s, "b");
  d.pool.on_cancel(a, d.at(), d.fx);
  d.settle();
  CAF_CHECK(d.jobs(a).empty());
  d.push(1);
  CAF_CHECK_EQUAL(d.jobs(b), (ids{1}));
  d.push(1);
  CAF_CHECK_EQUAL(d.counts().waiting, 1u);
}

CAF_TEST(a woken worker hears at once and others go on waiting) {
  desk d;
  const auto a = d.claim(1, 10s, "a"), b = d.claim(1, 10s, "b");
  d.pool.on_wake("a", d.at(), d.fx);
  d.settle();
  CAF_CHECK(d.jobs(a).empty());
  CAF_CHECK(!d.answered(b));
}

CAF_TEST(an acknowledgement ends jobs one by one or all at once) {
  desk d;
  d.push(5);
  const auto g = d.got(d.claim(5));
  auto said = d.ack(g.lease, {{{2}, job_outcome::handled, {}, {}}}, false);
  CAF_REQUIRE(said);
  CAF_CHECK_EQUAL(said->left, 4u);
  CAF_CHECK(said->jobs[0].counted);
  CAF_CHECK_EQUAL(d.handled, (ids{2}));
  said = d.ack(g.lease, {{{1}, job_outcome::rejected, "never", {}},
                         {{3}, job_outcome::failed, "no luck", {}},
                         {{4}, job_outcome::later, "", 5s}});
  CAF_REQUIRE(said);
  CAF_CHECK_EQUAL(said->left, 0u);
  CAF_CHECK_EQUAL(said->jobs.size(), 5u);  // the rest was handled: 5, and 2 as it was
  CAF_CHECK_EQUAL(d.counts().dead, 1u);
  CAF_CHECK_EQUAL(d.counts().delayed, 2u);
  CAF_CHECK_EQUAL(d.counts().totals.handled, 2u);
  CAF_CHECK_EQUAL(d.counts().running, 0u);
  CAF_CHECK_EQUAL(d.pool.in_hand(), 0u);
}

CAF_TEST(the same acknowledgement again answers as the first) {
  desk d;
  d.push(2);
  const auto g = d.got(d.claim(2));
  const auto first = d.ack(g.lease, {{{1}, job_outcome::failed, "why", {}}});
  const auto again = d.ack(g.lease, {{{1}, job_outcome::handled, "", {}}});
  CAF_REQUIRE(first && again);
  CAF_REQUIRE_EQUAL(again->jobs.size(), 2u);
  CAF_CHECK(again->jobs[0].counted && again->jobs[1].counted);
  CAF_CHECK(again->jobs[0].what == job_outcome::failed);
  CAF_CHECK_EQUAL(d.counts().totals.failed, 1u);
  CAF_CHECK_EQUAL(d.counts().totals.handled, 1u);
}

CAF_TEST(an acknowledgement without an answer may be said again) {
  desk d;
  d.push(1);
  const auto g = d.got(d.claim(1));
  d.cut = true;
  const auto lost = d.ack(g.lease);
  CAF_REQUIRE(!lost);
  CAF_CHECK(is(lost.failure(), errc::timed_out));
  d.cut = false;
  d.pass(1s);
  CAF_CHECK(d.ack(g.lease));
  CAF_CHECK_EQUAL(d.handled, (ids{1}));
}

CAF_TEST(wrong names are mistakes and change nothing) {
  desk d;
  d.push(1);
  const auto g = d.got(d.claim(1));
  const auto other = d.ack(g.lease, {{{7}, job_outcome::handled, {}, {}}}, false);
  CAF_CHECK(!other && is(other.failure(), errc::invalid_argument));
  const auto twice = d.ack(g.lease, {{{1}, job_outcome::handled, {}, {}}, {{1}, job_outcome::failed, {}, {}}}, false);
  CAF_CHECK(!twice && is(twice.failure(), errc::invalid_argument));
  CAF_CHECK(is_fenced(d.ack("q.1")));
  CAF_CHECK(is_fenced(d.extend("q.1")));
  CAF_CHECK(is_fenced(d.release("q.1")));
  CAF_CHECK_EQUAL(d.pool.in_hand(), 1u);
}

CAF_TEST(a lease that is not extended ends and its jobs go to others) {
  desk d;
  d.push(2);
  const auto g = d.got(d.claim(2, 0ms, "a", 10s));
  d.pass(9s);
  CAF_CHECK(d.extend(g.lease));
  d.pass(9s);
  const auto e = d.extend(g.lease);
  CAF_REQUIRE(e);
  CAF_CHECK(e->remaining == 10s);
  CAF_CHECK_EQUAL(e->jobs.size(), 2u);
  const auto b = d.claim(2, 30s, "b");
  CAF_CHECK(!d.answered(b));
  d.pass(10s);
  CAF_CHECK_EQUAL(d.jobs(b), (ids{1, 2}));
  CAF_CHECK(is_fenced(d.extend(g.lease)));
  CAF_CHECK(is_fenced(d.ack(g.lease)));
  CAF_CHECK(d.handled.empty());
  CAF_CHECK_EQUAL(d.counts().totals.leases_lost, 2u);
  CAF_CHECK(d.ack(d.got(b).lease));
  CAF_CHECK_EQUAL(d.handled, (ids{1, 2}));
}

CAF_TEST(a late acknowledgement counts unless somebody has the job) {
  desk d;
  d.push(2);
  const auto g = d.got(d.claim(2, 0ms, "a", 1s));
  d.pass(2s);
  CAF_CHECK_EQUAL(d.counts().waiting, 2u);
  const auto b = d.claim(1, 0ms, "b");
  CAF_CHECK_EQUAL(d.jobs(b), (ids{1}));
  const auto said = d.ack(g.lease);
  CAF_REQUIRE(said);
  CAF_CHECK(!said->jobs[0].counted);
  CAF_CHECK(said->jobs[1].counted);
  CAF_CHECK_EQUAL(d.handled, (ids{2}));
}

CAF_TEST(what is handed back is there at once and costs no attempt) {
  desk d;
  d.push(2);
  const auto g = d.got(d.claim(2));
  CAF_CHECK(d.ack(g.lease, {{{1}, job_outcome::handled, {}, {}}}, false));
  const auto said = d.release(g.lease);
  CAF_REQUIRE(said);
  CAF_CHECK_EQUAL(said->jobs.size(), 1u);
  const auto b = d.got(d.claim(2, 0ms, "b"));
  CAF_REQUIRE_EQUAL(b.jobs.size(), 1u);
  CAF_CHECK_EQUAL(b.jobs[0].item.attempts, 0u);
  CAF_CHECK(d.release(g.lease));  // nothing is left of it
}

CAF_TEST(a job past its TIMEOUT has failed however often its lease was extended) {
  claim_core::limits l;
  l.timeout = 5s;
  desk d(l);
  d.push(1);
  d.push(1, 2s);
  const auto g = d.got(d.claim(2));
  CAF_CHECK(g.jobs[0].deadline == d.now.wall + 5s);
  CAF_CHECK(g.jobs[1].deadline == d.now.wall + 2s);
  d.pass(3s);
  CAF_CHECK_EQUAL(d.counts().totals.failed, 1u);
  const auto e = d.extend(g.lease);
  CAF_REQUIRE(e);
  CAF_CHECK_EQUAL(e->jobs.size(), 1u);
  CAF_REQUIRE_EQUAL(e->lost.size(), 1u);
  CAF_CHECK_EQUAL(e->lost[0].value, 2u);
  d.pass(2s);
  CAF_CHECK_EQUAL(d.counts().totals.failed, 2u);
  CAF_CHECK(is_fenced(d.extend(g.lease)));
}

CAF_TEST(a job that was cancelled is taken away and its holder learns it) {
  desk d;
  d.push(2);
  const auto g = d.got(d.claim(2, 0ms, "a", 10s));
  d.pool.on_stop(1, d.at(), d.fx);  // the first token
  d.settle();
  CAF_CHECK_EQUAL(d.counts().totals.leases_lost, 1u);
  const auto e = d.extend(g.lease);
  CAF_REQUIRE(e);
  CAF_CHECK_EQUAL(e->jobs.size(), 1u);
  CAF_REQUIRE_EQUAL(e->lost.size(), 1u);
  CAF_CHECK(e->lost[0].value == 1);
  d.pool.on_stop(1, d.at(), d.fx);
  d.pool.on_stop(77, d.at(), d.fx);
  d.settle();
  CAF_CHECK_EQUAL(d.counts().totals.leases_lost, 1u);
}

CAF_TEST(one claims no faster than CLAIM_RATE and others are not hurt) {
  claim_core::limits l;
  l.claim_rate = 2;
  l.claim_burst = 3;
  desk d(l);
  d.push(10);
  for (int i = 0; i < 3; ++i) CAF_CHECK_EQUAL(d.jobs(d.claim(1, 0ms, "a")).size(), 1u);
  const auto before = d.demands;
  const auto no = d.got(d.claim(1, 10s, "a"));
  CAF_CHECK(no.jobs.empty());
  CAF_CHECK(no.retry_after > 0ms && no.retry_after <= 500ms);
  CAF_CHECK_EQUAL(d.demands, before);  // the queue was not asked
  CAF_CHECK_EQUAL(d.jobs(d.claim(1, 0ms, "b")).size(), 1u);
  d.pass(no.retry_after);
  CAF_CHECK_EQUAL(d.jobs(d.claim(1, 0ms, "a")).size(), 1u);
}

CAF_TEST(who polls an empty queue without waiting is braked until there is something) {
  desk d;
  CAF_CHECK(d.got(d.claim(1)).retry_after == 0ms);
  CAF_CHECK(d.got(d.claim(1)).retry_after == 0ms);
  ms last{0};
  for (int i = 0; i < 8; ++i) {
    const auto pause = d.got(d.claim(1)).retry_after;
    CAF_CHECK(pause >= last && pause > 0ms && pause <= 2s);
    last = pause;
    d.pass(pause);
    CAF_CHECK(d.got(d.claim(1)).retry_after == 0ms);
  }
  CAF_CHECK(last == 2s);
  d.push(1);
  d.pass(2s);
  CAF_CHECK_EQUAL(d.jobs(d.claim(1)), (ids{1}));
  CAF_CHECK(d.got(d.claim(1)).retry_after == 0ms);
  const auto waits = d.claim(1, 5s, "c");
  d.pass(5s);
  CAF_CHECK(d.answered(waits));
  const auto again = d.claim(1, 5s, "c");
  CAF_CHECK(!d.answered(again));  // one that waits brakes itself
}

CAF_TEST(a remote queue hears that the pool lives while somebody waits or has jobs) {
  desk d({}, pool_kind::remote);
  d.push(1);
  const auto g = d.got(d.claim(1, 0ms, "a", 10min));
  d.pass(5min);
  CAF_CHECK_EQUAL(d.counts().running, 1u);
  CAF_CHECK(d.ack(g.lease));
  CAF_CHECK_EQUAL(d.handled, (ids{1}));
}

CAF_TEST(a pool that the queue forgot attaches again and tells lost leases apart) {
  desk d({}, pool_kind::remote);
  d.push(2);
  const auto g = d.got(d.claim(1, 0ms, "a", 10min));
  const auto waits = d.claim(2, 10min, "b");
  CAF_CHECK_EQUAL(d.jobs(waits), (ids{2}));
  const auto third = d.claim(1, 10min, "c");
  d.queue.on_detach(5, "the connection broke", d.now, d.queue_fx);
  d.settle();
  d.pass(2s);
  CAF_CHECK_EQUAL(d.attached, 2u);
  CAF_CHECK_EQUAL(d.jobs(third), (ids{1}));
  CAF_CHECK(is_fenced(d.extend(g.lease)));
  CAF_CHECK(is_fenced(d.ack(g.lease)));
}

CAF_TEST(without a way to the queue a claim hears why and one that waits may have luck) {
  desk d({}, pool_kind::remote);
  d.cut = true;
  const auto now = d.claim(1);
  CAF_REQUIRE(d.answered(now));
  CAF_CHECK(is_fenced(d.grants.at(now)));
  const auto waits = d.claim(1, 10s, "b"), gives_up = d.claim(1, 2s, "c");
  d.pass(3s);
  CAF_REQUIRE(d.answered(gives_up));
  CAF_CHECK(is_fenced(d.grants.at(gives_up)));
  CAF_CHECK(!d.answered(waits));
  d.cut = false;
  d.pass(1s);
  d.push(1);
  CAF_CHECK_EQUAL(d.jobs(waits), (ids{1}));
}

CAF_TEST(a pool that closes answers those in line and waits for what is in hand) {
  desk d;
  d.push(2);
  const auto g = d.got(d.claim(2));
  const auto waits = d.claim(1, 10s, "b");
  d.pool.on_close(d.now.steady + 2s, d.at(), d.fx);
  d.settle();
  CAF_REQUIRE(d.answered(waits));
  CAF_CHECK(is(d.grants.at(waits).failure(), errc::queue_closed));
  CAF_CHECK(!d.closed);
  CAF_CHECK(d.ack(g.lease, {{{1}, job_outcome::handled, {}, {}}}, false));
  d.pass(2s);
  CAF_REQUIRE(d.closed);
  CAF_CHECK_EQUAL(d.closed->handed_back, 1u);
  CAF_CHECK_EQUAL(d.counts().waiting, 1u);
  const auto late = d.ack(g.lease);
  CAF_REQUIRE(late);
  CAF_CHECK(late->jobs[0].counted);
  CAF_CHECK(!late->jobs[1].counted);
}

CAF_TEST(a pool with nothing in hand closes at once and again) {
  desk d;
  for (int i = 0; i < 2; ++i) {
    d.closed.reset();
    d.pool.on_close(d.now.steady + 2s, d.at(), d.fx);
    d.settle();
    CAF_CHECK(d.closed);
  }
  const auto late = d.claim(1);
  CAF_CHECK(is(d.grants.at(late).failure(), errc::queue_closed));
  CAF_CHECK(!d.pool.next_wake());
}

CAF_TEST(claims that are over are forgotten beyond a number) {
  claim_core::limits l;
  l.remembered = 2;
  desk d(l);
  d.push(3);
  std::vector<std::string> leases;
  for (int i = 0; i < 3; ++i) {
    leases.push_back(d.got(d.claim(1)).lease);
    CAF_CHECK(d.ack(leases.back()));
  }
  CAF_CHECK(is_fenced(d.ack(leases[0])));
  CAF_CHECK(d.ack(leases[1]));
  CAF_CHECK(d.ack(leases[2]));
}

CAF_TEST(a list tells who waits and who has jobs) {
  desk d;
  d.push(3);
  (void)d.claim(2, 0ms, "a");
  (void)d.claim(1, 0ms, "");
  (void)d.claim(1, 10s, "b");
  const auto list = d.pool.claimers();
  CAF_REQUIRE_EQUAL(list.size(), 3u);
  CAF_CHECK_EQUAL(list[0].from, "10.0.0.1");
  CAF_CHECK_EQUAL(list[0].jobs, 1u);
  CAF_CHECK_EQUAL(list[1].worker, "a");
  CAF_CHECK_EQUAL(list[1].jobs, 2u);
  CAF_CHECK_EQUAL(list[2].waiting, 1u);
}
