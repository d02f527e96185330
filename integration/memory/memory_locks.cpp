#include "integration/memory/memory_locks.hpp"

#include <algorithm>

namespace caravan {

using namespace std::chrono_literals;

namespace {
/// Nobody else can free a key of this store, so there is nothing to look again for.
constexpr std::chrono::milliseconds never = std::chrono::hours{24 * 365};
constexpr std::size_t shown_waiters = 100;

std::uint64_t us(toolbox::steady_time t) {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(t.time_since_epoch()).count());
}
std::uint64_t us(toolbox::wall_time t) {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(t.time_since_epoch()).count());
}
}  // namespace

memory_locks::memory_locks(std::string node, const toolbox::clock& clock)
    : node_(std::move(node)), clock_(clock), base_(us(clock.wall()) - us(clock.now())) {}

std::uint64_t memory_locks::next_token() { return last_token_ = std::max(last_token_ + 1, base_ + us(clock_.now())); }

error memory_locks::closed(std::string_view key) const {
  return {errc::queue_closed, "lock \"" + std::string(key) + "\": the locks of this node are closed"};
}

expected<lock_taken> memory_locks::take(const lock_take& wish) {
  if (closed_) return closed(wish.key);
  auto& e = locks_[wish.key];
  if (e.holder == 0) {
    e.holder = wish.id;
    e.token = next_token();
  }
  if (e.holder == wish.id) return lock_taken{lock_taken::kind::granted, e.token, 0, 0ms};
  if (!wish.wait) return lock_taken{lock_taken::kind::busy, 0, 0, never};
  if (std::find(e.line.begin(), e.line.end(), wish.id) == e.line.end()) e.line.push_back(wish.id);
  return lock_taken{lock_taken::kind::queued, 0, 0, never};
}

expected<std::vector<std::uint64_t>> memory_locks::renew(std::span<const lock_renewal> held) {
  if (closed_) return closed(held.empty() ? std::string_view() : held.front().key);
  std::vector<std::uint64_t> answer;
  for (const auto& h : held) {
    const auto at = locks_.find(h.key);
    answer.push_back(at != locks_.end() && at->second.holder == h.id ? at->second.token : 0);
  }
  return answer;
}

expected<bool> memory_locks::release(const lock_ref& held) {
  const auto at = locks_.find(held.key);
  if (at == locks_.end()) return false;
  if (at->second.holder != held.id) {
    std::erase(at->second.line, held.id);
    return false;
  }
  hand_on(at);
  return true;
}

void memory_locks::hand_on(table::iterator at) {
  auto& e = at->second;
  if (e.line.empty()) {
    locks_.erase(at);
    return;
  }
  e.holder = e.line.front();
  e.line.pop_front();
  e.token = next_token();
  if (granted_) granted_(at->first, e.holder, e.token);
}

expected<std::vector<lock_seen>> memory_locks::beat(std::span<const lock_ticket> waiting) {
  std::vector<lock_seen> answer;
  for (const auto& w : waiting) {
    const auto taken = take({w.key, w.id, 0ms, true});
    if (!taken) return taken.failure();
    answer.push_back({w.id, taken->token, never});
  }
  return answer;
}

expected<bool> memory_locks::force(std::string_view key) {
  const auto at = locks_.find(std::string(key));
  if (at == locks_.end()) return false;
  hand_on(at);
  return true;
}

lock_view memory_locks::view_of(const std::string& key, const entry& e) const {
  lock_view v{key, {node_, e.holder}, e.token, {}, {}, e.line.size()};
  for (std::size_t n = 0; n < std::min(e.line.size(), shown_waiters); ++n) v.waiters.push_back({node_, e.line[n]});
  return v;
}

expected<std::optional<lock_view>> memory_locks::show(std::string_view key) {
  const auto at = locks_.find(std::string(key));
  if (at == locks_.end()) return std::optional<lock_view>();
  return std::optional(view_of(at->first, at->second));
}

expected<std::vector<lock_view>> memory_locks::list(std::size_t most) {
  std::vector<lock_view> all;
  for (const auto& [key, e] : locks_) all.push_back(view_of(key, e));
  std::sort(all.begin(), all.end(), [](const lock_view& a, const lock_view& b) { return a.key < b.key; });
  if (all.size() > most) all.resize(most);
  return all;
}

}  // namespace caravan
