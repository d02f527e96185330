#include "actors/lock/lock_core.hpp"

#include <algorithm>

namespace caravan {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

namespace {

constexpr std::size_t most_key = 512;
/// A moment more than the time that was named, so that one look is enough.
constexpr auto a_moment = 2ms;

std::string named(std::string_view key) { return "lock \"" + std::string(key) + "\""; }

std::string owner_key(const std::string& key, const std::string& owner) { return key + '\0' + owner; }

std::optional<error> check(const lock_request& r) {
  const auto bad = [&](std::string what) {
    return std::optional<error>({errc::invalid_argument, named(r.key.substr(0, 64)) + ": " + std::move(what)});
  };
  if (r.key.empty()) return bad("the key is empty; give the lock a name");
  if (r.key.size() > most_key) return bad("the key is longer than 512 bytes; use a shorter name, or a hash of it");
  for (const char c : r.key)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      return bad("the key holds a control character; use letters, digits and signs");
  if (r.lease < 0ms) return bad("the lease is negative; 0 is held until released");
  return std::nullopt;
}

}  // namespace

lock_core::lock_core(lock_limits limits, std::uint64_t seed) : limits_(limits), random_(seed) {}

lock_id lock_core::new_id() {
  for (;;)
    if (const auto id = random_(); id != 0 && !entries_.contains(id) && !sessions_.contains(id)) return id;
}

milliseconds lock_core::expiry_of(const entry& e) const {
  if (e.what.lease > 0ms) return e.what.lease;
  return limits_.expires ? limits_.expiry : 0ms;
}

milliseconds lock_core::margin_of(milliseconds expiry) { return std::min(expiry / 20, 1'000ms); }

const lock_core::entry* lock_core::find(lock_id id) const {
  const auto at = entries_.find(id);
  return at == entries_.end() ? nullptr : &at->second;
}

void lock_core::set_timer(lock_id id, entry& e) {
  auto next = never;
  if (e.at == stage::held)
    next = std::min(e.expires, e.renewing ? never : e.renew_at);
  else if (e.at != stage::closed)
    next = e.what.deadline;
  if (next == e.timer) return;
  if (e.timer != never) timers_.erase({e.timer, id});
  e.timer = next;
  if (next != never) timers_.insert({next, id});
}

void lock_core::erase(iterator at) {
  auto& [id, e] = *at;
  if (e.timer != never) timers_.erase({e.timer, id});
  if (!alive(e)) --waiting_;
  leave_line(id);
  if (alive(e) && !e.what.owner.empty()) owners_.erase(owner_key(e.what.key, e.what.owner));
  entries_.erase(at);
}

// ---- asking ----

lock_core::answer lock_core::acquire(lock_request r, time_point now) {
  const auto refused = [&](errc code, std::string text) {
    return answer{answer::kind::refused, 0, {code, named(r.key.substr(0, most_key)) + ": " + std::move(text)}};
  };
  if (closed_) return refused(errc::queue_closed, "the locks of this node are closed");
  if (auto wrong = check(r)) return {answer::kind::refused, 0, std::move(*wrong)};
  if (r.session != 0) {
    if (!keep_session(r.session, now)) return refused(errc::fenced, "the client lease has ended; open another one");
    r.owner = "session " + std::to_string(r.session);
  }
  if (!r.owner.empty())
    if (const auto id = held_by(r.key, r.owner)) {
      auto& e = entries_.at(id);
      if (now < e.expires) {
        ++e.count;
        return {answer::kind::granted, id, {}};
      }
    }
  if (waiting_ >= limits_.most_waiting)
    return refused(errc::queue_full, std::to_string(waiting_) + " wait for locks on this node already; ask later");
  const auto id = new_id();
  auto& e = entries_[id];
  e.what = std::move(r);
  e.since = now;
  ++waiting_;
  set_timer(id, e);
  return {answer::kind::pending, id, {}};
}

lock_take lock_core::take_of(lock_id id) const {
  const auto& e = entries_.at(id);
  return {e.what.key, id, expiry_of(e), e.what.wait};
}

lock_core::answer lock_core::taken(lock_id id, const std::string& key, time_point sent, const expected<lock_taken>& got,
                                   time_point now, lock_effects& fx) {
  const auto at = entries_.find(id);
  if (at == entries_.end()) {
    // Cancelled meanwhile. The call may have run after the one that took the wish back.
    fx.give_back.push_back({key, id});
    return {answer::kind::refused, id, {errc::conflict, named(key) + ": the waiting was ended"}};
  }
  auto& e = at->second;
  if (e.at != stage::asking) return {answer::kind::pending, id, {}};  // woken before this answer came
  const auto refused = [&](errc code, std::string text, bool give_back) {
    if (give_back) fx.give_back.push_back({key, id});
    erase(at);
    return answer{answer::kind::refused, id, {code, std::move(text)}};
  };
  if (!got) return refused(got.failure().code, named(key) + ": " + got.failure().text, true);
  switch (got->what) {
    case lock_taken::kind::granted:
      e.token = got->token;
      become_held(id, e, sent, now);
      if (e.expires > now) return {answer::kind::granted, id, {}};
      // The answer took so long that it may be somebody else's by now.
      return refused(errc::backend_failed, named(key) + ": it was granted, but the answer came too late to hold it",
                     true);
    case lock_taken::kind::busy:
      return refused(errc::conflict, named(key) + ": is taken, or others wait for it", false);
    case lock_taken::kind::queued:
      join_line(id, e, got->place, now + got->again);
      return {answer::kind::pending, id, {}};
  }
  return {answer::kind::pending, id, {}};
}

void lock_core::set_time(entry& e, time_point sent) {
  const auto expiry = expiry_of(e);
  e.expires = expiry == 0ms ? never : sent + expiry - (limits_.expires ? margin_of(expiry) : 0ms);
  e.renew_at = e.what.lease > 0ms || !limits_.expires ? never : sent + expiry / 2;
}

void lock_core::become_held(lock_id id, entry& e, time_point sent, time_point now) {
  --waiting_;
  e.at = stage::held;
  e.since = now;
  e.renewing = false;
  set_time(e, sent);
  set_timer(id, e);
  if (!e.what.owner.empty()) owners_[owner_key(e.what.key, e.what.owner)] = id;
}

void lock_core::join_line(lock_id id, entry& e, std::uint64_t place, time_point again) {
  e.at = stage::queued;
  e.place = place;
  // The first one's node has just told the store that it is alive.
  if (queued_.empty()) beat_at_ = e.since + limits_.beat;
  queued_.insert(id);
  if (!beating_) beat_at_ = std::min(beat_at_, again + a_moment);
  if (!limits_.expires) beat_at_ = never;
  set_timer(id, e);
}

void lock_core::leave_line(lock_id id) {
  if (queued_.erase(id) > 0 && queued_.empty()) beat_at_ = never;  // a beat of nobody would never be answered
}

// ---- its turn ----

void lock_core::woken(lock_id id, const std::string& key, std::uint64_t token, time_point now, lock_effects& fx) {
  const auto at = entries_.find(id);
  if (at == entries_.end()) {
    fx.give_back.push_back({key, id});
    return;
  }
  auto& e = at->second;
  if (e.at != stage::asking && e.at != stage::queued) return;  // said twice
  if (limits_.expires) return claim(id, e, token, fx);
  leave_line(id);
  e.token = token;
  become_held(id, e, now, now);
  fx.granted.push_back(id);
}

void lock_core::claim(lock_id id, entry& e, std::uint64_t token, lock_effects& fx) {
  leave_line(id);
  e.at = stage::claiming;
  e.token = token;
  set_timer(id, e);
  fx.renew.push_back({e.what.key, id, expiry_of(e), e.token});
}

void lock_core::ask_again(lock_id id, entry& e, lock_effects& fx) {
  e.at = stage::asking;
  set_timer(id, e);
  fx.take.push_back(take_of(id));
}

void lock_core::renewed(lock_id id, time_point sent, const expected<std::uint64_t>& token, time_point now,
                        lock_effects& fx) {
  const auto at = entries_.find(id);
  if (at == entries_.end()) return;
  auto& e = at->second;
  if (e.at == stage::claiming) {
    if (!token) {
      // Its turn lasts a few seconds. The next beat tells whether it is over.
      join_line(id, e, e.place, now + limits_.retry);
    } else if (*token == 0) {
      ask_again(id, e, fx);
    } else {
      e.token = *token;  // what woke it may have been an earlier turn
      become_held(id, e, sent, now);
      if (e.expires > now)
        fx.granted.push_back(id);
      else
        refuse(at,
               {errc::backend_failed, named(e.what.key) + ": it was granted, but the answer came too late to hold it"},
               fx);
    }
    return;
  }
  if (e.at != stage::held) return;
  e.renewing = false;
  if (token && *token != e.token) {
    lose(at, {errc::fenced, named(e.what.key) + ": is lost: it expired or was taken away before it could be renewed"},
         *token != 0, fx);
    return;
  }
  if (token) {
    const auto before = e.expires;
    set_time(e, sent);
    e.expires = std::max(e.expires, before);  // answers may overtake one another
    fx.extended.push_back(id);
  } else if (e.renew_at != never) {
    e.renew_at = now + limits_.retry;
  }
  set_timer(id, e);
}

void lock_core::beaten(time_point, const expected<std::vector<lock_seen>>& seen, time_point now, lock_effects& fx) {
  beating_ = false;
  if (!seen) {
    if (failing_since_ == never) failing_since_ = now;
    if (now - failing_since_ >= limits_.patience) {
      const auto all = queued_;
      for (const auto id : all)
        refuse(entries_.find(id), {errc::backend_failed, named(entries_.at(id).what.key) + ": " + seen.failure().text},
               fx);
    }
    beat_at_ = queued_.empty() ? never : now + limits_.retry;
    return;
  }
  failing_since_ = never;
  beat_at_ = queued_.empty() ? never : now + limits_.beat;
  for (const auto& s : *seen) {
    const auto at = entries_.find(s.id);
    if (at == entries_.end() || at->second.at != stage::queued) continue;
    if (s.token != 0)
      claim(s.id, at->second, s.token, fx);
    else
      beat_at_ = std::min(beat_at_, now + s.again + a_moment);
  }
  if (queued_.empty()) beat_at_ = never;
}

void lock_core::deaf(time_point now) {
  if (!queued_.empty()) beat_at_ = std::min(beat_at_, now);
}

// ---- time ----

lock_core::time_point lock_core::wake_at() const {
  const auto first = timers_.empty() ? never : timers_.begin()->first;
  return beating_ ? first : std::min(first, beat_at_);
}

void lock_core::tick(time_point now, lock_effects& fx) {
  while (!timers_.empty() && timers_.begin()->first <= now) {
    const auto id = timers_.begin()->second;
    if (sessions_.contains(id))
      end_session(id, fx);
    else
      due(id, now, fx);
  }
  if (!fx.renew.empty()) {
    // Whatever is due soon goes along.
    const auto soon = now + limits_.expiry / 8;
    std::vector<lock_id> more;
    for (const auto& [at, id] : timers_) {
      if (at > soon) break;
      if (const auto it = entries_.find(id);
          it != entries_.end() && it->second.at == stage::held && at == it->second.renew_at)
        more.push_back(id);
    }
    for (const auto id : more) {
      auto& e = entries_.at(id);
      e.renewing = true;
      fx.renew.push_back({e.what.key, id, expiry_of(e), e.token});
      set_timer(id, e);
    }
  }
  if (!beating_ && beat_at_ <= now) {
    beating_ = true;
    for (const auto id : queued_) {
      const auto& e = entries_.at(id);
      fx.beat.push_back({e.what.key, id, e.place});
    }
  }
}

void lock_core::due(lock_id id, time_point now, lock_effects& fx) {
  const auto at = entries_.find(id);
  auto& e = at->second;
  if (e.at != stage::held)
    return refuse(at, {errc::conflict, named(e.what.key) + ": stayed taken for the whole time that was to be waited"},
                  fx);
  if (e.expires <= now)
    return lose(at,
                e.what.lease > 0ms
                    ? error{errc::fenced, named(e.what.key) + ": its lease is over"}
                    : error{errc::fenced, named(e.what.key) + ": is lost: it could not be renewed in time"},
                true, fx);
  e.renewing = true;
  fx.renew.push_back({e.what.key, id, expiry_of(e), e.token});
  set_timer(id, e);
}

// ---- ending ----

void lock_core::lose(iterator at, error why, bool give_back, lock_effects& fx) {
  if (give_back) fx.give_back.push_back({at->second.what.key, at->first});
  fx.lost.push_back({at->first, std::move(why)});
  erase(at);
}

void lock_core::refuse(iterator at, error why, lock_effects& fx) {
  fx.give_back.push_back({at->second.what.key, at->first});
  fx.refused.push_back({at->first, std::move(why)});
  erase(at);
}

void lock_core::cancel(lock_id id, error why, lock_effects& fx) {
  const auto at = entries_.find(id);
  if (at != entries_.end() && !alive(at->second)) refuse(at, std::move(why), fx);
}

lock_core::released lock_core::release(lock_id id) {
  const auto at = entries_.find(id);
  if (at == entries_.end() || !alive(at->second)) return released::unknown;
  auto& e = at->second;
  if (e.at == stage::held && --e.count > 0) return released::part;
  const bool late = e.at == stage::closed;
  erase(at);
  return late ? released::late : released::whole;
}

lock_id lock_core::held_by(const std::string& key, const std::string& owner) const {
  const auto at = owners_.find(owner_key(key, owner));
  return at == owners_.end() ? 0 : at->second;
}

std::optional<lock_renewal> lock_core::renewal_of(lock_id id) const {
  const auto* e = find(id);
  if (!e || e->at != stage::held) return std::nullopt;
  return lock_renewal{e->what.key, id, expiry_of(*e), e->token};
}

void lock_core::revoke(lock_id id, lock_effects& fx) {
  const auto at = entries_.find(id);
  if (at != entries_.end() && at->second.at == stage::held)
    lose(at, {errc::fenced, named(at->second.what.key) + ": was taken away by an operator"}, false, fx);
}

// ---- sessions ----

std::uint64_t lock_core::open_session(milliseconds ttl, time_point now) {
  const auto id = new_id();
  sessions_[id] = {ttl, now + ttl};
  timers_.insert({now + ttl, id});
  return id;
}

bool lock_core::keep_session(std::uint64_t id, time_point now) {
  const auto at = sessions_.find(id);
  if (at == sessions_.end()) return false;
  timers_.erase({at->second.expires, id});
  at->second.expires = now + at->second.ttl;
  timers_.insert({at->second.expires, id});
  return true;
}

void lock_core::close_session(std::uint64_t id, lock_effects& fx) {
  if (sessions_.contains(id)) end_session(id, fx);
}

void lock_core::end_session(std::uint64_t id, lock_effects& fx) {
  const auto session = sessions_.find(id);
  timers_.erase({session->second.expires, id});
  sessions_.erase(session);
  fx.ended.push_back(id);
  std::vector<lock_id> mine;
  for (const auto& [entry_id, e] : entries_)
    if (e.what.session == id) mine.push_back(entry_id);
  for (const auto entry_id : mine) {
    const auto at = entries_.find(entry_id);
    error why{errc::fenced, named(at->second.what.key) + ": the client lease has ended"};
    if (alive(at->second))
      lose(at, std::move(why), true, fx);
    else
      refuse(at, std::move(why), fx);
  }
}

std::optional<milliseconds> lock_core::session_remaining(std::uint64_t id, time_point now) const {
  const auto at = sessions_.find(id);
  if (at == sessions_.end() || at->second.expires <= now) return std::nullopt;
  return std::chrono::duration_cast<milliseconds>(at->second.expires - now);
}

void lock_core::close(lock_effects& fx) {
  if (std::exchange(closed_, true)) return;
  std::vector<std::uint64_t> open;
  for (const auto& [id, s] : sessions_) open.push_back(id);
  for (const auto id : open) end_session(id, fx);
  std::vector<lock_id> ids;
  for (const auto& [id, e] : entries_) ids.push_back(id);
  for (const auto id : ids) {
    const auto at = entries_.find(id);
    auto& e = at->second;
    error why{errc::queue_closed, named(e.what.key) + ": the locks of this node are closed"};
    if (e.at != stage::held) {
      refuse(at, std::move(why), fx);
    } else if (!e.what.attended) {
      lose(at, std::move(why), true, fx);
    } else {
      // Its holder may be in the middle of something; it stays his until he releases it, or it expires.
      fx.lost.push_back({id, std::move(why)});
      e.at = stage::closed;
      set_timer(id, e);
    }
  }
}

}  // namespace caravan
