#include "actors/queue/queue_core.hpp"

#include <algorithm>
#include <cassert>

namespace caravan {

using namespace std::chrono_literals;
using steady = std::chrono::steady_clock::time_point;

namespace {
constexpr std::size_t window_capacity = 20'000;
constexpr std::size_t window_bytes = 32u << 20;
constexpr std::size_t load_at_most = 2'000;
constexpr std::size_t finished_kept = 8'192;
constexpr std::size_t lost_kept = 1'000;
constexpr auto backoff_first = 1s;
constexpr auto backoff_most = std::chrono::milliseconds{1h};
constexpr auto load_retry = 1s;
constexpr std::size_t error_text_most = 4'096;
}  // namespace

queue_core::queue_core(config::queue_settings settings, const storage_counts& counts, std::uint64_t first_token,
                       std::uint64_t seed)
  : settings_(std::move(settings)),
    waiting_(false, window_capacity, window_bytes),
    delayed_(true, window_capacity, window_bytes),
    dead_(counts.dead),
    known_through_(counts.last),
    next_token_(first_token),
    random_(seed) {
  waiting_.reset(counts.waiting);
  delayed_.reset(counts.delayed);
}

void queue_core::on_start(instant now, queue_effects& fx) { settle(now, fx); }

void queue_core::on_appended(std::vector<record>& records, instant now, queue_effects& fx) {
  for (auto& r : records) {
    known_through_ = std::max(known_through_, r.id);
    ++totals_.pushed;
    if (r.state == record_state::delayed)
      delayed_.add(std::move(r));
    else
      waiting_.add(std::move(r));
  }
  settle(now, fx);
}

void queue_core::on_loaded(std::uint64_t generation, record_state state, std::vector<record>&& records, instant now,
                           queue_effects& fx) {
  if (generation != load_generation_) return;  // asked for before a purge
  auto& window = state == record_state::delayed ? delayed_ : waiting_;
  (state == record_state::delayed ? loading_delayed_ : loading_waiting_) = false;
  std::size_t fresh = 0;
  for (auto& r : records) {
    // Appended, but not announced yet: it will come by on_appended, and would otherwise be handed out twice.
    if (r.id > known_through_) continue;
    if (window.load(std::move(r))) ++fresh;
  }
  // Nothing behind the window although more were counted: rows were lost or removed behind our back. Counting on
  // would ask for them for ever.
  if (records.empty() || (fresh == 0 && records.size() < load_at_most)) window.forget_unloaded(window.unloaded());
  settle(now, fx);
}

void queue_core::on_load_failed(std::uint64_t generation, instant now, queue_effects& fx) {
  if (generation != load_generation_) return;
  loading_waiting_ = loading_delayed_ = false;
  load_again_at_ = now.steady + load_retry;
  settle(now, fx);
}

void queue_core::on_attach(pool_id pool, pool_kind kind, instant now, queue_effects& fx) {
  pools_[pool].kind = kind;
  settle(now, fx);
}

void queue_core::on_detach(pool_id pool, const std::string& why, instant now, queue_effects& fx) {
  std::vector<std::uint64_t> tokens;
  for (const auto& [token, l] : leases_)
    if (l.pool == pool) tokens.push_back(token);
  std::sort(tokens.begin(), tokens.end());
  for (const auto token : tokens) {
    auto node = leases_.extract(token);
    give_up(node.mapped(), why, now, fx);
    lost_.emplace_back(token, std::move(node.mapped()));
  }
  pools_.erase(pool);
  settle(now, fx);
}

void queue_core::on_demand(const demand& d, instant now, queue_effects& fx) {
  const auto it = pools_.find(d.pool);
  if (it == pools_.end()) return;  // it lost its place; it learns that from its monitor and attaches again
  it->second.idle += d.idle;
  it->second.prefetch += d.prefetch;
  settle(now, fx);
}

void queue_core::on_done(const batch_done& done, instant now, queue_effects& fx) {
  if (const auto it = pools_.find(done.pool); it != pools_.end()) {
    it->second.idle += done.idle;
    it->second.prefetch += done.prefetch;
  }
  const auto it = leases_.find(done.token);
  if (it != leases_.end() && it->second.pool == done.pool) {
    auto node = leases_.extract(it);
    finish_lease(node.mapped(), done.rest, done.handed_back, now, fx);
  } else if (!late_answer(done, now, fx)) {
    ++totals_.stale_answers;
  }
  settle(now, fx);
}

void queue_core::on_renew(const renew_leases& r, instant now) {
  for (const auto token : r.tokens)
    if (const auto it = leases_.find(token); it != leases_.end() && it->second.pool == r.pool)
      it->second.expires = now.steady + settings_.lease;
}

void queue_core::on_tick(instant now, queue_effects& fx) { settle(now, fx); }

expected<void> queue_core::pause(wall_time until, instant now, queue_effects& fx) {
  if (phase_ != queue_phase::running && phase_ != queue_phase::paused)
    return {errc::conflict, "queue \"" + settings_.name + "\": cannot be paused while it is " +
                              std::string(to_string(phase_)) + "; wait until it has ended"};
  phase_ = queue_phase::paused;
  paused_until_ = until;
  settle(now, fx);
  return {};
}

expected<void> queue_core::resume(instant now, queue_effects& fx) {
  if (phase_ == queue_phase::stopping || phase_ == queue_phase::stopped)
    return {errc::queue_closed, "queue \"" + settings_.name + "\": is " + std::string(to_string(phase_)) +
                                  " and cannot be resumed; start its node again"};
  phase_ = queue_phase::running;
  paused_until_ = {};
  settle(now, fx);
  return {};
}

expected<void> queue_core::drain(instant now, queue_effects& fx) {
  if (phase_ == queue_phase::stopping || phase_ == queue_phase::stopped)
    return {errc::queue_closed, "queue \"" + settings_.name + "\": is " + std::string(to_string(phase_)) + " already"};
  phase_ = queue_phase::draining;
  paused_until_ = {};
  settle(now, fx);
  return {};
}

void queue_core::flush(std::uint64_t id, steady deadline, instant now, queue_effects& fx) {
  if (phase_ == queue_phase::paused) {
    fx.flushes.push_back({id, {errc::conflict, "queue \"" + settings_.name + "\": is paused, so a flush would wait " +
                                                 "in vain; resume it first"}});
    return;
  }
  if (phase_ == queue_phase::stopping || phase_ == queue_phase::stopped) {
    fx.flushes.push_back({id, {errc::queue_closed, "queue \"" + settings_.name + "\": is " +
                                                     std::string(to_string(phase_)) + "; nothing is handed out"}});
    return;
  }
  flushes_.push_back({id, deadline});
  settle(now, fx);
}

std::size_t queue_core::purge(record_state state, instant now, queue_effects& fx) {
  ++load_generation_;  // answers on their way hold what is forgotten now
  loading_waiting_ = loading_delayed_ = false;
  std::size_t count = 0;
  const auto gone = [&](std::size_t n) {
    count += n;
    fx.room += static_cast<std::ptrdiff_t>(n);
  };
  switch (state) {
    case record_state::waiting:
      gone(waiting_.total());
      waiting_.clear({wall_time{}, known_through_});
      gone(due_.size());
      for (auto& [id, r] : due_) fx.erase.push_back(ref_of(r));
      due_.clear();
      gone(postponed_.size());
      for (auto& [at, r] : postponed_) {
        if (r.state == record_state::waiting) unhold(r.id);
        else fx.erase.push_back(ref_of(r));
      }
      postponed_.clear();
      // Their rows go with the state, so they must not come back.
      for (auto& [token, l] : leases_) l.purged = true;
      break;
    case record_state::delayed:
      gone(delayed_.total());
      delayed_.clear({now.wall, known_through_});
      // Rows of items that are due or in a handler lie in this state too and must survive it.
      for (auto& [id, r] : due_) {
        auto to = r;
        to.state = record_state::waiting;
        fx.move.push_back({ref_of(r), std::move(to)});
      }
      break;
    case record_state::dead:
      count = dead_;
      dead_ = 0;
      break;
  }
  totals_.removed += count;
  fx.clear.push_back(state);
  settle(now, fx);
  return count;
}

void queue_core::stop(stop_mode mode, steady deadline, instant now, queue_effects& fx) {
  if (phase_ == queue_phase::stopped) {
    fx.stopped = true;
    return;
  }
  phase_ = queue_phase::stopping;
  stopping_ = mode;
  stop_deadline_ = deadline;
  for (const auto& f : flushes_)
    fx.flushes.push_back({f.id, {errc::queue_closed, "queue \"" + settings_.name + "\": was stopped during the flush"}});
  flushes_.clear();
  settle(now, fx);
}

// The storage may be behind: what memory holds is newer than what was read there.
std::optional<record> queue_core::take_from_memory(item_id id) {
  if (const auto it = due_.find(id); it != due_.end()) {
    std::optional<record> found(std::move(it->second));
    due_.erase(it);
    return found;
  }
  for (auto it = postponed_.begin(); it != postponed_.end(); ++it) {
    if (it->second.id != id) continue;
    std::optional<record> found(std::move(it->second));
    postponed_.erase(it);
    if (found->state == record_state::waiting) unhold(id);
    return found;
  }
  if (auto found = waiting_.take(id)) return found;
  return delayed_.take(id);
}

expected<void> queue_core::retry(record r, instant now, queue_effects& fx) {
  const auto job = to_string(job_id{settings_.name, r.id});
  if (is_running(r.id)) return {errc::conflict, "job " + job + ": a handler has it now"};
  if (auto found = take_from_memory(r.id)) {
    r = std::move(*found);
  } else if (r.state == record_state::dead) {
    if (dead_ > 0) --dead_;
    fx.room -= 1;
  } else {
    (r.state == record_state::delayed ? delayed_ : waiting_).forget_unloaded(1);
  }
  const auto from = ref_of(r);
  if (r.state == record_state::dead) r.attempts = 0;
  r.state = record_state::waiting;
  r.due = {};
  if (from.state != record_state::waiting) fx.move.push_back({from, r});
  waiting_.add(std::move(r));
  settle(now, fx);
  return {};
}

expected<void> queue_core::remove(record r, instant now, queue_effects& fx) {
  if (is_running(r.id))
    return {errc::conflict, "job " + to_string(job_id{settings_.name, r.id}) +
                              ": a handler has it now; try again when it has ended"};
  if (auto found = take_from_memory(r.id)) {
    r = std::move(*found);
  } else if (r.state == record_state::dead) {
    if (dead_ > 0) --dead_;
  } else {
    (r.state == record_state::delayed ? delayed_ : waiting_).forget_unloaded(1);
  }
  if (r.state != record_state::dead) fx.room += 1;
  ++totals_.removed;
  fx.release.push_back(ref_of(r));
  erase(r, finished_item::kind::removed, now, fx);
  settle(now, fx);
  return {};
}

std::optional<steady> queue_core::next_wake(instant now) const {
  std::optional<steady> wake;
  const auto at = [&](steady t) {
    if (!wake || t < *wake) wake = t;
  };
  // A wall-clock time is waited for in slices: the wall clock may be set meanwhile.
  const auto at_wall = [&](wall_time t) { at(now.steady + std::clamp<std::chrono::milliseconds>(t - now.wall, 0ms, 30s)); };
  if (phase_ == queue_phase::paused && paused_until_ != wall_time{}) at_wall(paused_until_);
  if (phase_ != queue_phase::stopping && phase_ != queue_phase::stopped && !delayed_.empty() && !waiting_.full())
    at_wall(delayed_.front_place().first);
  if (!postponed_.empty() && hands_out() && !stopping_ && flushes_.empty()) at(postponed_.begin()->first);
  for (const auto& f : flushes_) at(f.deadline);
  if (phase_ == queue_phase::stopping) at(stop_deadline_);
  if (gathering_since_) at(*gathering_since_ + settings_.batch_debounce);
  if (load_again_at_) at(*load_again_at_);
  if (lease_check_at_) at(*lease_check_at_);
  return wake;
}

queue_counts queue_core::counts() const {
  return {ready() + waiting_.unloaded() + postponed_.size(), running_, delayed_.total(), dead_, totals_};
}

wall_time queue_core::oldest_waiting() const {
  wall_time oldest{};
  const auto at = [&](const record& r) {
    if (oldest == wall_time{} || r.pushed_at < oldest) oldest = r.pushed_at;
  };
  if (!waiting_.empty()) at(waiting_.front());
  if (!due_.empty()) at(due_.begin()->second);
  if (!postponed_.empty()) at(postponed_.begin()->second);
  return oldest;
}

bool queue_core::is_running(item_id id) const {
  return std::any_of(leases_.begin(), leases_.end(), [&](const auto& l) {
    return std::any_of(l.second.items->begin(), l.second.items->end(), [&](const record& r) { return r.id == id; });
  });
}

std::optional<finished_item> queue_core::find_finished(item_id id) const {
  const auto it = std::find_if(finished_.begin(), finished_.end(), [&](const finished_item& f) { return f.id == id; });
  if (it == finished_.end()) return std::nullopt;
  return *it;
}

// ---- what every event ends with ----

void queue_core::settle(instant now, queue_effects& fx) {
  if (phase_ == queue_phase::paused && paused_until_ != wall_time{} && now.wall >= paused_until_) {
    phase_ = queue_phase::running;
    paused_until_ = {};
  }
  end_leases(now, fx);
  promote_due(now);
  dispatch(now, fx);
  ask_for_more(now, fx);
  answer_flushes(now, fx);
  check_stopped(now, fx);
  if (!fx.erase.empty()) fx.low_water = low_water();
}

void queue_core::end_leases(instant now, queue_effects& fx) {
  if (!lease_check_at_ || now.steady < *lease_check_at_) return;
  lease_check_at_.reset();
  std::vector<std::uint64_t> over;
  for (const auto& [token, l] : leases_) {
    const auto it = pools_.find(l.pool);
    if (it == pools_.end() || it->second.kind != pool_kind::remote) continue;
    if (l.expires <= now.steady)
      over.push_back(token);
    else if (!lease_check_at_ || l.expires < *lease_check_at_)
      lease_check_at_ = l.expires;
  }
  std::sort(over.begin(), over.end());
  for (const auto token : over) {
    auto node = leases_.extract(token);
    // A pool that does not renew takes no more either, until it says so again.
    if (const auto it = pools_.find(node.mapped().pool); it != pools_.end()) it->second.idle = it->second.prefetch = 0;
    give_up(node.mapped(), "its lease ran out", now, fx);
    lost_.emplace_back(token, std::move(node.mapped()));
  }
}

void queue_core::promote_due(instant now) {
  if (phase_ == queue_phase::stopping || phase_ == queue_phase::stopped) return;
  while (!delayed_.empty() && delayed_.front_place().first <= now.wall && due_.size() < window_capacity) {
    auto r = delayed_.pop_front();
    due_.emplace(r.id, std::move(r));
  }
  // A flush must not run again what has just come back as a whole.
  if (!flushes_.empty()) return;
  while (!postponed_.empty() && postponed_.begin()->first <= now.steady) {
    auto r = std::move(postponed_.begin()->second);
    postponed_.erase(postponed_.begin());
    if (r.state == record_state::delayed) {
      due_.emplace(r.id, std::move(r));
    } else {
      unhold(r.id);
      waiting_.put_back(std::move(r));
    }
  }
}

bool queue_core::hands_out() const {
  return phase_ == queue_phase::running || phase_ == queue_phase::draining ||
         (phase_ == queue_phase::stopping && stopping_ == stop_mode::run_rest);
}

record queue_core::take_ready() {
  if (due_.empty() || (!waiting_.empty() && waiting_.front_place().second < due_.begin()->first)) return waiting_.pop_front();
  auto r = std::move(due_.begin()->second);
  due_.erase(due_.begin());
  return r;
}

queue_core::pool_map::iterator queue_core::pool_for(std::size_t available, bool gathered) {
  const auto none = pools_.end();
  auto best = none;
  for (auto it = pools_.begin(); gathered && it != none; ++it) {
    const auto& p = it->second;
    if (p.idle > 0 && (best == none || p.idle > best->second.idle ||
                       (p.idle == best->second.idle && p.last_served < best->second.last_served)))
      best = it;
  }
  if (best != none || available < settings_.batch_length) return best;
  // All are busy: a full batch gains nothing by waiting, so it may lie ready where a worker ends soon.
  for (auto it = pools_.begin(); it != none; ++it)
    if (it->second.prefetch > 0 && (best == none || it->second.last_served < best->second.last_served)) best = it;
  return best;
}

void queue_core::dispatch(instant now, queue_effects& fx) {
  if (!hands_out()) return;
  while (ready() > 0) {
    bool gathered = true;
    if (settings_.batch_debounce > 0ms && flushes_.empty() && ready() < settings_.batch_length) {
      if (!gathering_since_) gathering_since_ = now.steady;
      gathered = now.steady - *gathering_since_ >= settings_.batch_debounce;
    }
    const auto to = pool_for(ready(), gathered);
    if (to == pools_.end()) return;
    send_batch(to->first, to->second, now, fx);
    gathering_since_.reset();
  }
  gathering_since_.reset();
}

void queue_core::send_batch(pool_id id, pool& to, instant now, queue_effects& fx) {
  if (to.idle > 0)
    --to.idle;
  else
    --to.prefetch;
  to.last_served = ++serial_;

  auto items = std::make_shared<std::vector<record>>();
  items->reserve(std::min(settings_.batch_length, ready()));
  lease l;
  while (ready() > 0 && items->size() < settings_.batch_length) {
    auto r = take_ready();
    if (r.state == record_state::waiting && (!l.lowest || r.id < l.lowest)) l.lowest = r.id;
    if (r.digest && settings_.unique && settings_.until == config::unique_until::start) fx.release.push_back(ref_of(r));
    items->push_back(std::move(r));
  }
  fx.room += static_cast<std::ptrdiff_t>(items->size());
  running_ += items->size();
  hold(l.lowest);
  l.pool = id;
  l.items = items;
  l.expires = now.steady + settings_.lease;
  // A renewal moves `expires` only: the check may come early, then it looks for the next one.
  if (to.kind == pool_kind::remote && (!lease_check_at_ || l.expires < *lease_check_at_)) lease_check_at_ = l.expires;
  const auto token = next_token_++;
  fx.send.push_back({id, {settings_.name, token, settings_.lease, l.items}});
  leases_.emplace(token, std::move(l));
}

void queue_core::ask_for_more(instant now, queue_effects& fx) {
  if (phase_ == queue_phase::stopped || (phase_ == queue_phase::stopping && stopping_ == stop_mode::hand_back)) return;
  if (load_again_at_) {
    if (now.steady < *load_again_at_) return;
    load_again_at_.reset();
  }
  const auto ask = [&](record_state state, item_window& window, bool& loading, std::size_t low) {
    if (loading || window.unloaded() == 0 || window.size() > low || window.full()) return;
    loading = true;
    const auto at = window.end();
    fx.loads.push_back({state, {at.first, at.second}, std::min(load_at_most, window.room()), load_generation_});
  };
  ask(record_state::waiting, waiting_, loading_waiting_, load_at_most);
  ask(record_state::delayed, delayed_, loading_delayed_, load_at_most / 2);
}

void queue_core::answer_flushes(instant now, queue_effects& fx) {
  if (flushes_.empty()) return;
  const bool empty = ready() == 0 && waiting_.unloaded() == 0 && running_ == 0;
  std::erase_if(flushes_, [&](const waiting_flush& f) {
    if (empty) {
      fx.flushes.push_back({f.id, {}});
      return true;
    }
    if (now.steady < f.deadline) return false;
    const auto c = counts();
    std::string text = "queue \"" + settings_.name + "\": the flush reached its timeout with " + std::to_string(c.waiting) +
                       " items waiting and " + std::to_string(c.running) + " running";
    text += pools_.empty() ? "; no worker pool is attached: give the queue a handler" : "; raise the timeout or add workers";
    fx.flushes.push_back({f.id, {errc::timed_out, std::move(text)}});
    return true;
  });
  // Now what waited for the end of the flush may come back.
  if (flushes_.empty() && !postponed_.empty()) {
    promote_due(now);
    dispatch(now, fx);
  }
}

void queue_core::check_stopped(instant now, queue_effects& fx) {
  if (phase_ == queue_phase::draining) {
    if (ready() == 0 && waiting_.unloaded() == 0 && postponed_.empty() && running_ == 0) {
      phase_ = queue_phase::stopped;
      fx.stopped = true;
    }
    return;
  }
  if (phase_ != queue_phase::stopping) return;
  const bool rest_done = stopping_ == stop_mode::hand_back || pools_.empty() || (ready() == 0 && waiting_.unloaded() == 0);
  if ((rest_done && running_ == 0) || now.steady >= stop_deadline_) {
    phase_ = queue_phase::stopped;
    fx.stopped = true;
  }
}

// ---- the end of a lease ----

void queue_core::finish_lease(lease& l, const batch_result& rest, bool handed_back, instant now, queue_effects& fx) {
  running_ -= l.items->size();
  unhold(l.lowest);
  const auto& items = *l.items;
  if (rest.empty()) {
    for (const auto& r : items) erase(r, finished_item::kind::handled, now, fx);
    totals_.handled += items.size();
    return;
  }
  std::vector<const item_outcome*> outcomes(items.size(), nullptr);
  std::size_t unhandled = 0;
  for (const auto& o : rest) {
    if (o.index >= items.size() || outcomes[o.index]) continue;  // a remote pool may send anything
    outcomes[o.index] = &o;
    if (o.what == item_outcome::kind::unhandled) ++unhandled;
  }
  const auto delay = unhandled == items.size() && !handed_back ? settings_.requeue_delay : 0ms;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const auto& r = items[i];
    const auto* o = outcomes[i];
    if (!o) {
      erase(r, finished_item::kind::handled, now, fx);
      ++totals_.handled;
      continue;
    }
    if (l.purged) {
      // Its row is gone: nothing to move, nothing to come back.
      if (r.state != record_state::waiting) fx.erase.push_back(ref_of(r));
      remember(r, finished_item::kind::purged, now);
      ++totals_.removed;
      continue;
    }
    switch (o->what) {
      case item_outcome::kind::unhandled: {
        ++totals_.returned;
        auto back = r;
        const auto most = r.max_attempts ? r.max_attempts : settings_.max_attempts;
        if (!handed_back && ++back.attempts >= most && most > 0) {
          back.last_error = "handed back as unhandled " + std::to_string(back.attempts) + " times";
          bury(std::move(back), ref_of(r), now, fx);
        } else {
          take_back(std::move(back), delay, now, fx);
        }
        break;
      }
      case item_outcome::kind::later: {
        ++totals_.returned;
        auto back = r;
        back.last_error = o->text.substr(0, error_text_most);
        if (o->delay <= 0ms) {
          take_back(std::move(back), settings_.requeue_delay, now, fx);
        } else {
          back.state = record_state::delayed;
          back.due = now.wall + o->delay;
          fx.room -= 1;
          fx.move.push_back({ref_of(r), back});
          delayed_.add(std::move(back));
        }
        break;
      }
      case item_outcome::kind::failed: fail(r, *o, now, fx); break;
      case item_outcome::kind::rejected: {
        ++totals_.failed;
        auto back = r;
        ++back.attempts;
        back.last_error = o->text.substr(0, error_text_most);
        bury(std::move(back), ref_of(r), now, fx);
        break;
      }
    }
  }
}

void queue_core::take_back(record&& r, std::chrono::milliseconds delay, instant now, queue_effects& fx) {
  fx.room -= 1;
  ++totals_.redelivered;
  // While the rest is run once before the end, nothing comes a second time.
  if (delay > 0ms || stopping_) {
    if (r.state == record_state::waiting) hold(r.id);
    postponed_.emplace(now.steady + delay, std::move(r));
  } else if (r.state == record_state::delayed) {
    due_.emplace(r.id, std::move(r));
  } else {
    waiting_.put_back(std::move(r));
  }
}

void queue_core::fail(const record& r, const item_outcome& why, instant now, queue_effects& fx) {
  ++totals_.failed;
  auto back = r;
  ++back.attempts;
  back.last_error = why.text.substr(0, error_text_most);
  const auto most = r.max_attempts ? r.max_attempts : settings_.max_attempts;
  if (most > 0 && back.attempts >= most) {
    bury(std::move(back), ref_of(r), now, fx);
    return;
  }
  back.state = record_state::delayed;
  back.due = now.wall + (why.delay > 0ms ? why.delay : backoff(back.attempts));
  ++totals_.redelivered;
  fx.room -= 1;
  fx.move.push_back({ref_of(r), back});
  delayed_.add(std::move(back));
}

void queue_core::bury(record&& r, const record_ref& from, instant, queue_effects& fx) {
  r.state = record_state::dead;
  r.due = {};
  ++dead_;
  ++totals_.died;
  fx.move.push_back({from, std::move(r)});
}

void queue_core::give_up(lease& l, const std::string&, instant now, queue_effects& fx) {
  ++totals_.leases_lost;
  running_ -= l.items->size();
  unhold(l.lowest);
  for (const auto& r : *l.items) {
    if (l.purged) {
      if (r.state != record_state::waiting) fx.erase.push_back(ref_of(r));
      remember(r, finished_item::kind::purged, now);
      ++totals_.removed;
      continue;
    }
    take_back(record(r), 0ms, now, fx);
  }
  if (lost_.size() >= lost_kept) lost_.pop_front();
}

bool queue_core::late_answer(const batch_done& done, instant now, queue_effects& fx) {
  const auto it = std::find_if(lost_.begin(), lost_.end(), [&](const auto& l) { return l.first == done.token && l.second.pool == done.pool; });
  if (it == lost_.end()) return false;
  const auto items = it->second.items;
  lost_.erase(it);
  std::vector<bool> handled(items->size(), true);
  for (const auto& o : done.rest)
    if (o.index < handled.size()) handled[o.index] = false;
  bool counted = false;
  for (std::size_t i = 0; i < items->size(); ++i) {
    if (!handled[i]) continue;
    const auto id = (*items)[i].id;
    const auto found = take_from_memory(id);
    if (!found) continue;  // it was started again
    fx.room += 1;
    ++totals_.handled;
    erase(*found, finished_item::kind::handled, now, fx);
    counted = true;
  }
  return counted;
}

void queue_core::erase(const record& r, finished_item::kind what, instant now, queue_effects& fx) {
  fx.erase.push_back(ref_of(r));
  remember(r, what, now);
}

void queue_core::remember(const record& r, finished_item::kind what, instant now) {
  const finished_item f{r.id, what, r.attempts, now.wall};
  if (finished_.size() < finished_kept)
    finished_.push_back(f);
  else
    finished_[finished_next_] = f;
  finished_next_ = (finished_next_ + 1) % finished_kept;
}

std::chrono::milliseconds queue_core::backoff(std::uint32_t attempts) {
  const auto doubled = backoff_first * (1ull << std::min(attempts - 1, 20u));
  const auto full = std::min<std::chrono::milliseconds>(doubled, backoff_most);
  // Half fixed, half random: jobs that failed together do not come back together.
  std::uniform_int_distribution<std::int64_t> jitter(0, full.count() / 2);
  return std::chrono::milliseconds{full.count() - jitter(random_)};
}

item_id queue_core::low_water() const {
  item_id low{waiting_.end().second.value + 1};
  if (!waiting_.empty()) low = std::min(low, waiting_.front_place().second);
  if (!held_.empty()) low = std::min(low, *held_.begin());
  return low;
}

void queue_core::unhold(item_id id) {
  if (!id) return;
  const auto it = held_.find(id);
  assert(it != held_.end());
  held_.erase(it);
}

}  // namespace caravan
