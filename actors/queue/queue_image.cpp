// How a queue's state leaves one node and comes to another.
#include "actors/queue/queue_core.hpp"

#include "messages/record_more.hpp"

#include <algorithm>
#include <memory>

namespace caravan {

using namespace std::chrono_literals;

void queue_core::freeze(instant now, queue_effects& fx) {
  held_back_ = true;
  to_waiting_rows(now, fx);
  fx.low_water = low_water();
}

queue_image queue_core::image(instant now) const {
  queue_image i;
  i.phase = phase_;
  i.paused_until = paused_until_;
  i.next_token = next_token_;
  i.totals = totals_;
  i.finished.reserve(finished_.size());
  for (std::size_t n = 0; n < finished_.size(); ++n)  // the oldest first
    i.finished.push_back(finished_[(finished_next_ + n) % finished_.size()]);
  for (const auto& [id, p] : pools_) i.pools.push_back({id, p.kind, p.idle, p.prefetch, p.most});
  for (const auto& [token, l] : leases_) {
    i.leases.push_back({token, l.pool, *l.items, l.purged});
    for (auto& r : i.leases.back().items) {
      if (!cancelled_.contains(r.id)) continue;
      auto more = more_of(r);
      more.cancelled = true;
      set_more(r, more);
    }
  }
  std::sort(i.leases.begin(), i.leases.end(), [](const auto& a, const auto& b) { return a.token < b.token; });
  for (const auto& [at, r] : postponed_)
    i.later.push_back({std::max(std::chrono::ceil<std::chrono::milliseconds>(at - now.steady), 0ms), r});
  return i;
}

void queue_core::restore(const queue_image& from, instant now, queue_effects& fx) {
  phase_ = from.phase;
  paused_until_ = from.paused_until;
  // Answers to leases of the old node are known by their token, and a handler's writes are fenced by it.
  next_token_ = std::max(next_token_, from.next_token);
  totals_ = from.totals;
  for (const auto& f : from.finished) {
    if (finished_.size() < limits_.finished) finished_.push_back(f);
  }
  for (const auto& p : from.pools) pools_[p.id] = {pool_kind::remote, p.idle, p.prefetch, p.most, ++serial_, false};
  // Their rows wait in the storage, and were counted with those that are in line.
  std::size_t taken = 0;
  std::size_t taken_ranked = 0;
  const auto take_out = [&](const record& r) {
    if (r.state == record_state::keyed) return keys_.start_running(r);
    behind_.insert(r.id);
    ++(r.state == record_state::ranked ? taken_ranked : taken);
  };
  for (const auto& old : from.leases) {
    lease l;
    l.pool = old.pool;
    l.expires = now.steady + settings_.lease;
    l.handed_out = now.steady;
    l.purged = old.purged;
    for (const auto& r : old.items) {
      if (l.purged) continue;
      take_out(r);
      if (!r.more.empty() && more_of(r).cancelled) cancelled_.insert(r.id);
      fx.room += 1;  // what runs takes up no room
      if (r.state == record_state::waiting && (!l.lowest || r.id < l.lowest)) l.lowest = r.id;
    }
    l.items = std::make_shared<const std::vector<record>>(old.items);
    running_ += old.items.size();
    hold(l.lowest);
    leases_.emplace(old.token, std::move(l));
  }
  if (!leases_.empty()) lease_check_at_ = now.steady + settings_.lease;
  for (const auto& p : from.later) {
    take_out(p.item);
    if (p.item.state == record_state::waiting) hold(p.item.id);
    postponed_.emplace(now.steady + p.delay, p.item);
  }
  const auto total = waiting_.total();
  waiting_.reset(total - std::min(total, taken));
  const auto ranked = ranked_.total();
  ranked_.reset(ranked - std::min(ranked, taken_ranked));
}

}  // namespace caravan
