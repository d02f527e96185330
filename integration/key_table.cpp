#include "integration/key_table.hpp"

#include <algorithm>

namespace caravan {

namespace {
constexpr std::size_t smallest = 16;
}

std::size_t key_table::find(const key_digest& digest) const noexcept {
  auto at = home(digest);
  while (slots_[at].digest && slots_[at].digest != digest) at = (at + 1) & (slots_.size() - 1);
  return at;
}

std::optional<item_id> key_table::owner(const key_digest& digest, wall_time now) const {
  if (slots_.empty() || !digest) return std::nullopt;
  const auto& slot = slots_[find(digest)];
  if (!slot.digest || slot.expires <= now) return std::nullopt;
  return slot.owner;
}

bool key_table::claim(const key_digest& digest, item_id owner, wall_time now, wall_time expires) {
  if (this->owner(digest, now)) return false;
  put(digest, owner, expires);
  return true;
}

void key_table::put(const key_digest& digest, item_id owner, wall_time expires) {
  if (!digest) return;
  if ((size_ + 1) * 4 > slots_.size() * 3) resize(std::max(smallest, slots_.size() * 2));
  auto& slot = slots_[find(digest)];
  if (!slot.digest) ++size_;
  slot = {digest, owner, expires};
  if (expires == never) return;
  timers_.push_back({expires, digest, owner});
  std::push_heap(timers_.begin(), timers_.end(), later{});
  // Keys that were freed early leave their timer behind; do not let those pile up.
  if (timers_.size() > 2 * size_ + smallest) rebuild_timers();
}

bool key_table::release(const key_digest& digest, item_id owner) {
  if (slots_.empty() || !digest) return false;
  const auto at = find(digest);
  if (!slots_[at].digest || slots_[at].owner != owner) return false;
  erase_slot(at);
  return true;
}

void key_table::expire(wall_time now, std::size_t most, std::vector<key_digest>* gone) {
  for (; most > 0 && !timers_.empty(); --most) {
    const auto next = timers_.front();
    if (next.expires > now && timers_.size() <= most_expiring_) return;
    std::pop_heap(timers_.begin(), timers_.end(), later{});
    timers_.pop_back();
    if (slots_.empty()) continue;
    const auto at = find(next.digest);
    const auto& slot = slots_[at];
    if (!slot.digest || slot.owner != next.owner || slot.expires != next.expires) continue;
    if (gone) gone->push_back(next.digest);
    erase_slot(at);
  }
}

void key_table::erase_slot(std::size_t at) {
  // Move later entries of the same run back instead of leaving a marker: look-ups stay short for ever.
  const auto mask = slots_.size() - 1;
  auto hole = at;
  for (auto next = (hole + 1) & mask; slots_[next].digest; next = (next + 1) & mask) {
    const auto wanted = home(slots_[next].digest);
    if (((next - wanted) & mask) >= ((next - hole) & mask)) {
      slots_[hole] = slots_[next];
      hole = next;
    }
  }
  slots_[hole] = {};
  --size_;
  // An eighth full: give memory back. Far enough below the growth mark that a steady queue does not swing.
  if (slots_.size() > 1024 && size_ * 8 < slots_.size()) resize(slots_.size() / 2);
}

void key_table::resize(std::size_t slots) {
  std::vector<entry> old(slots);
  old.swap(slots_);
  for (const auto& e : old)
    if (e.digest) slots_[find(e.digest)] = e;
}

void key_table::rebuild_timers() {
  timers_.clear();
  for_each([this](const entry& e) {
    if (e.expires != never) timers_.push_back({e.expires, e.digest, e.owner});
  });
  std::make_heap(timers_.begin(), timers_.end(), later{});
}

std::optional<wall_time> key_table::expiry(const key_digest& digest, item_id owner) const {
  if (slots_.empty()) return std::nullopt;
  const auto& slot = slots_[find(digest)];
  if (slot.digest != digest || slot.owner != owner) return std::nullopt;
  return slot.expires;
}

void key_table::clear() {
  slots_ = {};
  timers_ = {};
  size_ = 0;
}

append_result key_book::admit(record& r, item_id id, wall_time now) {
  using kind = append_result::kind;
  r.id = {};
  if (policy_of(r).kind == unique_policy::until::none)
    r.digest = {};
  else if (!r.digest)
    r.digest = digest_of(r.key.empty() ? r.payload : r.key);
  const auto repeatable = keeps_idempotency_keys() && !r.idempotency_key.empty();
  key_digest push{};
  if (repeatable) {
    push = digest_of(r.idempotency_key);
    if (const auto first = idempotency_.owner(push, now)) return {kind::repeated, *first};
  }
  if (r.digest) {
    if (const auto holder = unique_.owner(r.digest, now)) return {kind::already_in_queue, *holder};
    unique_.put(r.digest, id, unique_expiry(r, now));
  }
  if (repeatable) idempotency_.put(push, id, idempotency_expiry(now));
  r.id = id;
  r.state = first_state(r, now);
  if (r.pushed_at == wall_time{}) r.pushed_at = now;
  return {kind::stored, id};
}

void key_book::withdraw(record& r) {
  free(r.digest, r.id);
  if (!r.idempotency_key.empty()) idempotency_.release(digest_of(r.idempotency_key), r.id);
  r.id = {};
}

bool key_book::retake(const record& r, wall_time now) {
  // With a lifetime the key runs from the append, wherever the record goes meanwhile.
  if (!r.digest || has_lifetime(r)) return false;
  return unique_.claim(r.digest, r.id, now);
}

std::vector<key_digest> key_book::free_all_of(item_id id) {
  std::vector<key_digest> freed;
  unique_.for_each([&](const key_table::entry& e) {
    if (e.owner == id) freed.push_back(e.digest);
  });
  for (const auto& digest : freed) unique_.release(digest, id);
  return freed;
}

void key_book::rebuild(const key_digest& digest, item_id id, key_hold hold, record_state state) {
  record r;
  r.hold = hold;
  const auto kind = policy_of(r).kind;
  if (!digest || kind == unique_policy::until::none || kind == unique_policy::until::time) return;
  if (state == record_state::done || (state == record_state::dead && kind != unique_policy::until::success)) return;
  const auto holder = unique_.owner(digest, wall_time::min());
  if (!holder || *holder < id) unique_.put(digest, id);
}

std::vector<kept_key> key_book::kept_after(item_id after, std::size_t max) const {
  std::vector<kept_key> found;
  const auto take = [&](kept_key::kind what, const key_table& table) {
    table.for_each([&](const key_table::entry& e) {
      const bool kept = what == kept_key::kind::idempotency || e.expires != key_table::never;
      if (kept && e.owner > after) found.push_back({what, e.digest, e.owner, e.expires});
    });
  };
  if (keeps_idempotency_keys()) take(kept_key::kind::idempotency, idempotency_);
  take(kept_key::kind::unique, unique_);
  const auto by_owner = [](const kept_key& a, const kept_key& b) { return a.owner < b.owner; };
  if (max > 0 && found.size() > max) {
    std::nth_element(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(max - 1), found.end(), by_owner);
    const auto last = found[max - 1].owner;
    std::erase_if(found, [&](const kept_key& k) { return k.owner > last; });
  }
  std::sort(found.begin(), found.end(), by_owner);
  return found;
}

void key_book::import(const kept_key& key) {
  const bool idempotency = key.what == kept_key::kind::idempotency;
  auto& table = idempotency ? idempotency_ : unique_;
  if (idempotency && !keeps_idempotency_keys()) return;
  if (key.expires == wall_time{})
    table.release(key.digest, key.owner);
  else
    table.put(key.digest, key.owner, key.expires);
}

}  // namespace caravan
