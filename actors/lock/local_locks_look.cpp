#include "actors/lock/door_parts.hpp"
#include "actors/lock/local_locks.hpp"

namespace caravan {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

// ---- looking ----

std::size_t local_locks::waiting() const {
  const lock_guard lock(mutex_);
  return core_.waiting();
}

lock_info local_locks::with_details(const lock_view& view) const {
  const auto t = now();
  const auto wall = std::chrono::system_clock::now();
  const auto user = [&](const lock_place& p) {
    lock_user u;
    u.node = p.node;
    if (const auto* e = p.node == store_->node() ? core_.find(p.id) : nullptr) {
      u.owner = e->what.owner.empty() ? e->what.label : e->what.owner;
      u.since = wall - std::chrono::duration_cast<std::chrono::system_clock::duration>(t - e->since);
    }
    return u;
  };
  lock_info info;
  info.key = view.key;
  info.holder = user(view.holder);
  info.token = view.token;
  info.remaining = view.remaining;
  if (const auto* e = view.holder.node == store_->node() ? core_.find(view.holder.id) : nullptr) {
    info.lease = e->what.lease;
    if (!info.remaining && e->expires != lock_core::never) info.remaining = left_of(e->expires, t);
  }
  info.waiting = view.waiting;
  for (const auto& w : view.waiters) info.waiters.push_back(user(w));
  return info;
}

expected<std::vector<lock_info>> local_locks::list(std::size_t most) {
  lock_guard lock(mutex_);
  if (blocks_) lock.unlock();
  const auto views = guarded([&] { return store_->list(most); });
  if (!views) return views.failure();
  if (blocks_) lock.lock();
  std::vector<lock_info> all;
  for (const auto& v : *views) all.push_back(with_details(v));
  return all;
}

expected<std::optional<lock_info>> local_locks::find(std::string_view key) {
  lock_guard lock(mutex_);
  if (blocks_) lock.unlock();
  const auto view = guarded([&] { return store_->show(key); });
  if (!view) return view.failure();
  if (blocks_) lock.lock();
  if (!*view) return std::optional<lock_info>();
  return std::optional(with_details(**view));
}

// ---- sessions ----

expected<std::uint64_t> local_locks::open_session(milliseconds ttl) {
  if (ttl <= 0ms || ttl > std::chrono::hours{24 * 365})
    return {errc::invalid_argument, "the TTL of a client lease must be above 0 and at most a year"};
  lock_guard lock(mutex_);
  const auto id = core_.open_session(ttl, now());
  sessions_[id];
  lock_effects fx;
  perform(lock, fx);
  return id;
}

expected<void> local_locks::keep_session(std::uint64_t id) {
  const lock_guard lock(mutex_);
  if (core_.keep_session(id, now())) return {};
  return {errc::fenced, "the client lease has ended; open another one"};
}

void local_locks::close_session(std::uint64_t id) {
  lock_guard lock(mutex_);
  lock_effects fx;
  core_.close_session(id, fx);
  perform(lock, fx);
}

std::optional<milliseconds> local_locks::session_remaining(std::uint64_t id) const {
  const lock_guard lock(mutex_);
  return core_.session_remaining(id, now());
}

std::stop_token local_locks::session_ended(std::uint64_t id) const {
  const lock_guard lock(mutex_);
  if (const auto at = sessions_.find(id); at != sessions_.end()) return at->second.get_token();
  std::stop_source ended;
  ended.request_stop();
  return ended.get_token();
}

}  // namespace caravan
