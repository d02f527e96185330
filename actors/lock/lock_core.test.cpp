#define CAF_SUITE lock_core
#include "actors/lock/lock_core.hpp"

#include "caf/test/unit_test.hpp"

using namespace caravan;
using namespace std::chrono_literals;

namespace {

using time_point = lock_core::time_point;
constexpr auto t0 = time_point{} + 1h;
constexpr auto granted = lock_core::answer::kind::granted;
constexpr auto refused = lock_core::answer::kind::refused;
constexpr auto pending = lock_core::answer::kind::pending;

lock_request wish(std::string key, bool wait = true) {
  lock_request r;
  r.key = std::move(key);
  r.wait = wait;
  return r;
}

expected<lock_taken> yes(std::uint64_t token) { return lock_taken{lock_taken::kind::granted, token, 0, 0ms}; }
expected<lock_taken> in_line(std::chrono::milliseconds again = 30s) {
  return lock_taken{lock_taken::kind::queued, 0, 17, again};
}
const expected<lock_taken> no = lock_taken{};
const expected<lock_taken> away = error{errc::backend_failed, "redis is away"};

struct fixture {
  lock_core core{lock_limits{}, 1};
  lock_effects fx;

  lock_id hold(const std::string& key, time_point at = t0, std::uint64_t token = 5,
               std::chrono::milliseconds lease = 0ms) {
    auto r = wish(key);
    r.lease = lease;
    const auto a = core.acquire(r, at);
    CAF_REQUIRE(core.taken(a.id, key, at, yes(token), at, fx).what == granted);
    return a.id;
  }
  lock_id queue_up(const std::string& key, time_point at = t0, time_point deadline = lock_core::never) {
    auto r = wish(key);
    r.deadline = deadline;
    const auto a = core.acquire(r, at);
    CAF_REQUIRE(core.taken(a.id, key, at, in_line(), at, fx).what == pending);
    return a.id;
  }
  lock_effects tick(time_point at) {
    lock_effects out;
    core.tick(at, out);
    return out;
  }
};

}  // namespace

CAF_TEST_FIXTURE_SCOPE(lock_core_tests, fixture)

CAF_TEST(a lock that is held is renewed at half of its time and counts from when that was sent) {
  const auto id = hold("k");
  CAF_CHECK(core.wake_at() == t0 + 15s);
  const auto out = tick(t0 + 15s);
  CAF_REQUIRE(out.renew.size() == 1);
  CAF_CHECK(out.renew[0].id == id && out.renew[0].expiry == 30s);
  core.renewed(id, t0 + 15s, 5u, t0 + 18s, fx);
  CAF_CHECK(core.find(id)->expires == t0 + 15s + 29s);
  CAF_CHECK(core.wake_at() == t0 + 30s);
}

CAF_TEST(a lock that cannot be renewed is lost before the store frees it) {
  const auto id = hold("k");
  tick(t0 + 15s);
  core.renewed(id, t0 + 15s, error{errc::backend_failed, "away"}, t0 + 18s, fx);
  CAF_CHECK(core.wake_at() == t0 + 19s);  // tried again
  tick(t0 + 19s);
  const auto out = tick(t0 + 29s);
  CAF_REQUIRE(out.lost.size() == 1);
  CAF_CHECK(out.lost[0].id == id && out.lost[0].why.code == errc::fenced);
  CAF_CHECK_EQUAL(out.give_back.size(), 1u);
  CAF_CHECK(core.release(id) == lock_core::released::unknown);
}

CAF_TEST(a renewal that is refused is a loss at once) {
  const auto id = hold("k");
  tick(t0 + 15s);
  core.renewed(id, t0 + 15s, 0u, t0 + 15s, fx);
  CAF_CHECK_EQUAL(fx.lost.size(), 1u);
  CAF_CHECK(fx.give_back.empty());
}

CAF_TEST(renewals say which token was told) {
  const auto held = hold("k", t0, 5);
  CAF_CHECK_EQUAL(tick(t0 + 15s).renew[0].token, 5u);
  const auto renewal = core.renewal_of(held).value_or(lock_renewal{});
  CAF_CHECK_EQUAL(renewal.token, 5u);
  const auto waits = queue_up("other");
  core.beaten(t0, std::vector<lock_seen>{{waits, 9, 0ms}}, t0, fx);
  CAF_REQUIRE_EQUAL(fx.renew.size(), 1u);
  CAF_CHECK_EQUAL(fx.renew[0].token, 9u);
}

CAF_TEST(a store without a line is tried again after each pause that it names) {
  const auto a = core.acquire(wish("k"), t0);
  CAF_REQUIRE(core.taken(a.id, "k", t0, in_line(400ms), t0, fx).what == pending);
  CAF_CHECK(core.wake_at() == t0 + 402ms);
  CAF_CHECK_EQUAL(tick(t0 + 402ms).beat.size(), 1u);
  core.beaten(t0 + 402ms, std::vector<lock_seen>{{a.id, 0, 700ms}}, t0 + 410ms, fx);
  CAF_CHECK(core.wake_at() == t0 + 1'112ms);
  CAF_CHECK_EQUAL(tick(t0 + 1'112ms).beat.size(), 1u);
  core.beaten(t0 + 1'112ms, std::vector<lock_seen>{{a.id, 7, 0ms}}, t0 + 1'120ms, fx);
  CAF_REQUIRE_EQUAL(fx.renew.size(), 1u);  // it counts from this renewal
  core.renewed(a.id, t0 + 1'121ms, 7u, t0 + 1'125ms, fx);
  CAF_CHECK(fx.granted == std::vector<lock_id>{a.id});
}

CAF_TEST(renewals that are due soon go along) {
  hold("a");
  hold("b", t0 + 2s);
  hold("c", t0 + 10s);
  CAF_CHECK_EQUAL(tick(t0 + 15s).renew.size(), 2u);
}

CAF_TEST(a lease is not renewed and ends) {
  const auto id = hold("k", t0, 5, 2s);
  CAF_CHECK(tick(t0 + 1s).renew.empty());
  CAF_CHECK(core.find(id)->expires == t0 + 1900ms);  // 5 % for clocks that do not run alike
  CAF_CHECK_EQUAL(tick(t0 + 1900ms).lost.size(), 1u);
}

CAF_TEST(an extension moves the end of a lease) {
  const auto id = hold("k", t0, 5, 2s);
  core.renewed(id, t0 + 1s, 5u, t0 + 1s, fx);
  CAF_CHECK(core.find(id)->expires == t0 + 2900ms);
  CAF_CHECK_EQUAL(fx.extended.size(), 1u);
}

CAF_TEST(a grant that took longer than it lasts is given back) {
  const auto a = core.acquire(wish("k"), t0);
  const auto late = core.taken(a.id, "k", t0, yes(5), t0 + 29s, fx);
  CAF_CHECK(late.what == refused && late.why.code == errc::backend_failed);
  CAF_CHECK_EQUAL(fx.give_back.size(), 1u);
}

CAF_TEST(taken busy and away are three answers) {
  CAF_CHECK(core.taken(core.acquire(wish("k", false), t0).id, "k", t0, no, t0, fx).why.code == errc::conflict);
  CAF_CHECK(fx.give_back.empty());
  CAF_CHECK(core.taken(core.acquire(wish("k"), t0).id, "k", t0, away, t0, fx).why.code == errc::backend_failed);
  CAF_CHECK_EQUAL(fx.give_back.size(), 1u);  // it may have been granted all the same
}

CAF_TEST(who is woken claims and holds when the store agrees) {
  const auto id = queue_up("k");
  core.woken(id, "k", 7, t0 + 1s, fx);
  CAF_REQUIRE(fx.renew.size() == 1);
  CAF_CHECK(fx.granted.empty());
  core.woken(id, "k", 7, t0 + 1s, fx);  // said twice
  CAF_CHECK_EQUAL(fx.renew.size(), 1u);
  core.renewed(id, t0 + 1s, 7u, t0 + 1s, fx);
  CAF_REQUIRE(fx.granted.size() == 1);
  CAF_CHECK_EQUAL(core.find(id)->token, 7u);
}

CAF_TEST(who is woken before the answer of his own request is granted all the same) {
  const auto id = core.acquire(wish("k"), t0).id;
  core.woken(id, "k", 7, t0, fx);
  CAF_CHECK(core.taken(id, "k", t0, in_line(), t0, fx).what == pending);
  core.renewed(id, t0, 7u, t0, fx);
  CAF_CHECK_EQUAL(fx.granted.size(), 1u);
}

CAF_TEST(who came too late to claim asks again) {
  const auto id = queue_up("k");
  core.woken(id, "k", 7, t0, fx);
  core.renewed(id, t0, 0u, t0 + 6s, fx);
  CAF_REQUIRE(fx.take.size() == 1);
  CAF_CHECK(core.taken(id, "k", t0 + 6s, yes(9), t0 + 6s, fx).what == granted);
}

CAF_TEST(the token that counts is the one of the claim) {
  const auto id = queue_up("k");
  core.woken(id, "k", 7, t0, fx);  // a message that lay in a frozen process while the turn passed and came again
  core.renewed(id, t0, 9u, t0, fx);
  CAF_CHECK_EQUAL(core.find(id)->token, 9u);
  tick(t0 + 15s);
  core.renewed(id, t0 + 15s, 11u, t0 + 15s, fx);  // somebody may have had it in between
  CAF_CHECK_EQUAL(fx.lost.size(), 1u);
}

CAF_TEST(a turn that nobody waits for any more is given back) {
  core.woken(99, "k", 7, t0, fx);
  CAF_REQUIRE(fx.give_back.size() == 1);
  CAF_CHECK(fx.give_back[0].id == 99 && fx.give_back[0].key == "k");
}

CAF_TEST(who waits beats and nobody else does) {
  hold("held");
  CAF_CHECK(tick(t0 + 10s).beat.empty());
  const auto id = queue_up("k", t0 + 10s);
  CAF_CHECK(core.wake_at() == t0 + 13s);
  const auto out = tick(t0 + 13s);
  CAF_REQUIRE(out.beat.size() == 1);
  CAF_CHECK(out.beat[0].id == id && out.beat[0].place == 17);
  CAF_CHECK(tick(t0 + 14s).beat.empty());  // one at a time
  core.beaten(t0 + 13s, std::vector<lock_seen>{{id, 0, 1s}}, t0 + 13s, fx);
  CAF_CHECK(core.wake_at() == t0 + 14s + 2ms);  // when the holder's time is over
  core.cancel(id, {}, fx);
  CAF_CHECK(core.wake_at() == t0 + 15s);  // only the renewal is left
}

CAF_TEST(a beat finds a turn of which the message was lost) {
  const auto id = queue_up("k");
  CAF_CHECK_EQUAL(tick(t0 + 3s).beat.size(), 1u);
  core.beaten(t0 + 3s, std::vector<lock_seen>{{id, 8, 0ms}}, t0 + 3s, fx);
  CAF_CHECK_EQUAL(fx.renew.size(), 1u);
}

CAF_TEST(after a silence of the store the next beat comes at once) {
  queue_up("k");
  core.deaf(t0 + 1s);
  CAF_CHECK_EQUAL(tick(t0 + 1s).beat.size(), 1u);
}

CAF_TEST(who waits is refused when the store is away for long) {
  const auto id = queue_up("k");
  for (auto t = t0 + 3s; t <= t0 + 33s; t += 1s) {
    CAF_CHECK(fx.refused.empty());
    tick(t);
    core.beaten(t, error{errc::backend_failed, "away"}, t, fx);
  }
  CAF_REQUIRE(fx.refused.size() == 1);
  CAF_CHECK(fx.refused[0].id == id && fx.refused[0].why.code == errc::backend_failed);
}

CAF_TEST(a waiting ends at its deadline and leaves the line) {
  const auto id = queue_up("k", t0, t0 + 1s);
  const auto out = tick(t0 + 1s);
  CAF_REQUIRE(out.refused.size() == 1);
  CAF_CHECK(out.refused[0].id == id && out.refused[0].why.code == errc::conflict);
  CAF_CHECK_EQUAL(out.give_back.size(), 1u);
  CAF_CHECK_EQUAL(core.waiting(), 0u);
  CAF_CHECK(core.taken(id, "k", t0, yes(5), t0 + 2s, fx).what == refused);  // an answer that came later
  CAF_CHECK_EQUAL(fx.give_back.size(), 1u);
}

CAF_TEST(an owner gets again what it holds and releases as often) {
  auto r = wish("k", false);
  r.owner = "me";
  const auto first = core.acquire(r, t0);
  CAF_REQUIRE(core.taken(first.id, "k", t0, yes(5), t0, fx).what == granted);
  const auto second = core.acquire(r, t0);
  CAF_CHECK(second.what == granted && second.id == first.id);
  CAF_CHECK(core.release(first.id) == lock_core::released::part);
  CAF_CHECK(core.held_by("k", "me") == first.id);
  CAF_CHECK(core.release(first.id) == lock_core::released::whole);
  CAF_CHECK(core.held_by("k", "me") == 0);
}

CAF_TEST(the end of a session refuses its waiters and loses its locks) {
  const auto s = core.open_session(10s, t0);
  auto r = wish("k");
  r.session = s;
  const auto held = core.acquire(r, t0);
  CAF_REQUIRE(core.taken(held.id, "k", t0, yes(5), t0, fx).what == granted);
  r.key = "other";
  const auto waits = core.acquire(r, t0 + 1s);
  CAF_REQUIRE(core.taken(waits.id, "other", t0, in_line(), t0, fx).what == pending);
  CAF_CHECK(core.session_remaining(s, t0 + 1s) == 10s);
  const auto out = tick(t0 + 11s);
  CAF_REQUIRE(out.lost.size() == 1 && out.refused.size() == 1 && out.ended.size() == 1);
  CAF_CHECK(out.refused[0].why.code == errc::fenced);
  CAF_CHECK_EQUAL(out.give_back.size(), 2u);
  CAF_CHECK(core.acquire(r, t0 + 12s).why.code == errc::fenced);
}

CAF_TEST(closing refuses who waits and leaves what is held to its handle) {
  const auto held = hold("k");
  const auto waits = queue_up("other");
  core.close(fx);
  CAF_REQUIRE(fx.lost.size() == 1 && fx.refused.size() == 1);
  CAF_CHECK(fx.lost[0].id == held && fx.refused[0].id == waits);
  CAF_CHECK_EQUAL(fx.give_back.size(), 1u);
  CAF_CHECK(core.acquire(wish("k"), t0).why.code == errc::queue_closed);
  CAF_CHECK(core.release(held) == lock_core::released::late);
}

CAF_TEST(a key must be short and printable) {
  for (const auto& key : {std::string(), std::string(513, 'k'), std::string("a\nb"), std::string("a\0b", 3)})
    CAF_CHECK(core.acquire(wish(key), t0).why.code == errc::invalid_argument);
}

CAF_TEST(what is not renewed by the store needs no time) {
  lock_limits l;
  l.expires = false;
  lock_core memory(l, 1);
  const auto id = memory.acquire(wish("k"), t0).id;
  CAF_CHECK(memory.taken(id, "k", t0, yes(5), t0, fx).what == granted);
  CAF_CHECK(memory.wake_at() == lock_core::never);
  const auto waits = memory.acquire(wish("k"), t0).id;
  memory.taken(waits, "k", t0, in_line(), t0, fx);
  CAF_CHECK(memory.wake_at() == lock_core::never);
  memory.woken(waits, "k", 6, t0, fx);
  CAF_CHECK_EQUAL(fx.granted.size(), 1u);
}

CAF_TEST_FIXTURE_SCOPE_END()
