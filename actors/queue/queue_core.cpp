#include "actors/queue/queue_core.hpp"

#include "toolbox/backoff.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

namespace caravan {

using namespace std::chrono_literals;
using steady = std::chrono::steady_clock::time_point;

namespace {
constexpr std::size_t moved_kept = 4'096;
constexpr auto view_age_most = 10s;  // what the storage says to a request is younger than this when it comes
// Half fixed, half random: jobs that failed together do not come back together.
constexpr toolbox::backoff_options failed_pause{.first = 1s, .most = 1h, .factor = 2, .jitter = 0.5};
constexpr auto load_retry = 1s;
constexpr std::size_t error_text_most = 4'096;
}  // namespace

queue_core::queue_core(config::queue_settings settings, const storage_counts& counts, std::uint64_t first_token,
                       std::uint64_t seed, limits l)
  : settings_(std::move(settings)),
    limits_(l),
    waiting_(false, l.window, l.window_bytes),
    delayed_(true, l.window, l.window_bytes),
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
    ++totals_.pushed;
    // Stored before the rows were counted, announced after: it is among those already.
    if (r.id <= known_through_) continue;
    known_through_ = r.id;
    if (r.state == record_state::delayed)
      delayed_.add(std::move(r));
    else
      waiting_.add(std::move(r));
  }
  settle(now, fx);
}

void queue_core::on_loaded(std::uint64_t generation, record_state state, std::vector<record>&& records, instant now,
                           queue_effects& fx) {
  auto& window = state == record_state::delayed ? delayed_ : waiting_;
  auto& loading = state == record_state::delayed ? loading_delayed_ : loading_waiting_;
  if (generation == 0 || generation != loading.generation) return;  // asked for before a purge
  loading = {};
  std::size_t fresh = 0;
  std::size_t unannounced = 0;
  for (auto& r : records) {
    // Appended, but not announced yet: it will come by on_appended, and would otherwise be handed out twice.
    if (r.id > known_through_) {
      ++unannounced;
      continue;
    }
    if (state == record_state::waiting && behind_.count(r.id) > 0) {
      if (!window.pass(r)) break;
      behind_.erase(r.id);
      continue;
    }
    const auto what = window.load(std::move(r));
    if (what == item_window::load_result::doubtful) break;
    if (what == item_window::load_result::fresh) ++fresh;
  }
  // Counting on would ask for rows that are gone for ever, and take up room under LENGTH.
  if (records.empty()) fx.room += static_cast<std::ptrdiff_t>(window.nothing_more());
  announcement_due_ = fresh == 0 && unannounced > 0;
  settle(now, fx);
}

void queue_core::on_load_failed(std::uint64_t generation, instant now, queue_effects& fx) {
  if (generation == 0) return;
  if (generation == loading_waiting_.generation)
    loading_waiting_ = {};
  else if (generation == loading_delayed_.generation)
    loading_delayed_ = {};
  else
    return;
  // The end must not wait for a storage that may never answer: what it keeps unread stays there.
  if (stopping_) stopping_ = stop_mode::hand_back;
  load_again_at_ = now.steady + load_retry;
  settle(now, fx);
}

void queue_core::on_attach(pool_id pool, pool_kind kind, instant now, queue_effects& fx) {
  pools_[pool] = {kind, 0, 0, 0, ++serial_, false};
  // It lives, and its leases with it. They may have run without a limit until now.
  for (auto& [token, l] : leases_)
    if (l.pool == pool) l.expires = now.steady + settings_.lease;
  if (kind == pool_kind::remote) lease_check_at_ = now.steady;
  settle(now, fx);
}

void queue_core::on_detach(pool_id pool, const std::string& why, instant now, queue_effects& fx) {
  std::vector<std::uint64_t> tokens;
  for (const auto& [token, l] : leases_)
    if (l.pool == pool) tokens.push_back(token);
  std::sort(tokens.begin(), tokens.end());
  for (const auto token : tokens) {
    auto node = leases_.extract(token);
    give_up(token, node.mapped(), why, now, fx);
  }
  pools_.erase(pool);
  settle(now, fx);
}

void queue_core::on_demand(const demand& d, instant now, queue_effects& fx) {
  const auto it = pools_.find(d.pool);
  if (it == pools_.end()) return;  // it lost its place; it learns that from its monitor and attaches again
  if (d.anew) it->second.idle = it->second.prefetch = 0;
  it->second.idle += d.idle;
  it->second.prefetch += d.prefetch;
  it->second.most = d.most;
  it->second.silent = false;
  settle(now, fx);
}

bool queue_core::on_done(const batch_done& done, instant now, queue_effects& fx) {
  if (const auto it = pools_.find(done.pool); it != pools_.end()) {
    it->second.idle += done.idle;
    it->second.prefetch += done.prefetch;
    it->second.silent = false;
  }
  const auto it = leases_.find(done.token);
  bool counts = true;
  if (it != leases_.end() && it->second.pool == done.pool) {
    auto node = leases_.extract(it);
    finish_lease(node.mapped(), done.rest, done.handed_back, now, fx);
  } else if (!late_answer(done, now, fx)) {
    ++totals_.stale_answers;
    counts = false;
  }
  settle(now, fx);
  return counts;
}

batches_reported queue_core::on_report(const report_batches& r, instant now, queue_effects& fx) {
  batches_reported answer;
  answer.attached = pools_.contains(r.pool);
  const auto is_its = [&](std::uint64_t token) {
    const auto it = leases_.find(token);
    return it != leases_.end() && it->second.pool == r.pool;
  };
  for (const auto& d : r.done)
    if (d.pool != r.pool || !on_done(d, now, fx)) answer.refused.push_back(d.token);
  for (const auto token : r.lost) {
    if (!is_its(token)) continue;
    auto node = leases_.extract(token);
    give_up(token, node.mapped(), "its worker is gone", now, fx);
  }
  for (const auto token : r.keep)
    if (!is_its(token)) answer.refused.push_back(token);
  on_renew({r.pool, r.keep}, now, fx);
  return answer;
}

void queue_core::on_renew(const renew_leases& r, instant now, queue_effects& fx) {
  if (const auto it = pools_.find(r.pool); it != pools_.end()) it->second.silent = false;
  for (const auto token : r.tokens)
    if (const auto it = leases_.find(token); it != leases_.end() && it->second.pool == r.pool)
      it->second.expires = now.steady + settings_.lease;
  settle(now, fx);
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
  // Answers on their way hold what is forgotten now.
  if (state == record_state::waiting) loading_waiting_ = {};
  if (state == record_state::delayed) loading_delayed_ = {};
  purged_at_[static_cast<std::size_t>(state)] = now.steady;
  std::erase_if(moved_, [&](const auto& m) { return m.second.first == state; });
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
      not_restarted_.clear();
      behind_.clear();
      break;
    case record_state::delayed:
      gone(delayed_.total());
      delayed_.clear({now.wall, known_through_});
      to_waiting_rows(now, fx);
      break;
    case record_state::dead:
      count = dead_;
      dead_ = 0;
      break;
  }
  totals_.removed += count;
  fx.clear.push_back(state);
  fx.clear_through = known_through_;
  settle(now, fx);
  return count;
}

// The rows of items whose time came lie in the delayed state still, also while they are postponed or in a handler. They
// must survive when that state is forgotten.
void queue_core::to_waiting_rows(instant, queue_effects& fx) {
  const auto change = [&](record& r) {
    const auto from = ref_of(r);
    r.state = record_state::waiting;
    r.due = {};
    move(from, r, fx);
  };
  for (auto& [id, r] : due_) {
    change(r);
    waiting_.add(std::move(r));
  }
  due_.clear();
  for (auto& [at, r] : postponed_) {
    if (r.state != record_state::delayed) continue;
    change(r);
    hold(r.id);
    behind_.insert(r.id);
  }
  for (auto& [token, l] : leases_) {
    if (l.purged || std::none_of(l.items->begin(), l.items->end(), [](const record& r) { return r.state == record_state::delayed; }))
      continue;
    auto items = std::make_shared<std::vector<record>>(*l.items);  // the pool's copy may be read right now
    unhold(l.lowest);
    l.lowest = {};
    for (auto& r : *items) {
      if (r.state == record_state::delayed) {
        change(r);
        behind_.insert(r.id);
      }
      if (!l.lowest || r.id < l.lowest) l.lowest = r.id;
    }
    hold(l.lowest);
    l.items = std::move(items);
  }
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

// Memory does not hold the item, so the storage's view of it counts; but things may have happened since that was asked.
expected<void> queue_core::still_so(const record& r, instant now) const {
  const auto it = moved_.find(r.id);
  bool so = it == moved_.end() || it->second == std::pair{r.state, r.due};
  const auto& purged = purged_at_[static_cast<std::size_t>(r.state)];
  if (purged && now.steady - *purged < view_age_most && it == moved_.end()) so = false;
  switch (r.state) {
    case record_state::waiting: so = so && r.id <= known_through_ && waiting_.may_be_unloaded(r); break;
    case record_state::delayed: so = so && r.id <= known_through_ && delayed_.may_be_unloaded(r); break;
    case record_state::dead: so = so && dead_ > 0; break;
  }
  if (so && !find_finished(r.id)) return {};
  return {errc::conflict, "job " + to_string(job_id{settings_.name, r.id}) + ": it changed a moment ago; look at it again"};
}

expected<void> queue_core::retry(record r, instant now, queue_effects& fx) {
  if (is_running(r.id)) return {errc::conflict, "job " + to_string(job_id{settings_.name, r.id}) + ": a handler has it now"};
  if (auto found = take_from_memory(r.id)) {
    r = std::move(*found);
  } else if (auto ok = still_so(r, now); !ok) {
    return ok;
  } else if (r.state == record_state::dead) {
    --dead_;
    fx.room -= 1;
  } else {
    (r.state == record_state::delayed ? delayed_ : waiting_).forget_unloaded(r);
  }
  const auto from = ref_of(r);
  if (r.state == record_state::dead) r.attempts = 0;
  r.state = record_state::waiting;
  r.due = {};
  if (from.state != record_state::waiting) move(from, r, fx);
  line_up(std::move(r));
  settle(now, fx);
  return {};
}

expected<void> queue_core::remove(record r, instant now, queue_effects& fx) {
  if (is_running(r.id))
    return {errc::conflict, "job " + to_string(job_id{settings_.name, r.id}) +
                              ": a handler has it now; try again when it has ended"};
  if (auto found = take_from_memory(r.id)) {
    r = std::move(*found);
  } else if (auto ok = still_so(r, now); !ok) {
    return ok;
  } else if (r.state == record_state::dead) {
    --dead_;
  } else {
    (r.state == record_state::delayed ? delayed_ : waiting_).forget_unloaded(r);
  }
  if (r.state != record_state::dead) fx.room += 1;
  not_restarted_.erase(r.id);
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
  if (phase_ != queue_phase::stopping && phase_ != queue_phase::stopped && !delayed_.empty() && due_.size() < limits_.window)
    at_wall(delayed_.front_place().first);
  if (!postponed_.empty() && hands_out() && !stopping_ && flushes_.empty()) at(postponed_.begin()->first);
  for (const auto& f : flushes_)
    if (f.deadline != steady::max()) at(f.deadline);
  if (phase_ == queue_phase::stopping && stop_deadline_ != steady::max()) at(stop_deadline_);
  // Once gathered they wait for room in a pool, which is an event of its own.
  if (gathering_since_ && hands_out() && *gathering_since_ + settings_.batch_debounce > now.steady)
    at(*gathering_since_ + settings_.batch_debounce);
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
  do {
    do dispatch(now, fx);
    while (promote_due(now));
    answer_flushes(now, fx);
  } while (promote_due(now));  // what waited for the end of a flush comes back
  ask_for_more(now, fx);
  check_stopped(now, fx);
  for (auto& r : returned_) move(ref_of(r), r, fx);
  returned_.clear();
  if (!fx.erase.empty() || !fx.move.empty()) fx.low_water = low_water();
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
    // A pool that does not renew takes no more either, until it is heard of again. Its demand stays: it counts on it.
    if (const auto it = pools_.find(node.mapped().pool); it != pools_.end()) it->second.silent = true;
    give_up(token, node.mapped(), "its lease ran out", now, fx);
  }
}

// True when something became ready.
bool queue_core::promote_due(instant now) {
  if (phase_ == queue_phase::stopping || phase_ == queue_phase::stopped) return false;
  bool any = false;
  while (!delayed_.empty() && delayed_.front_place().first <= now.wall && due_.size() < limits_.window) {
    auto r = delayed_.pop_front();
    due_.emplace(r.id, std::move(r));
    any = true;
  }
  // A flush must not run again what has just come back as a whole.
  if (!flushes_.empty()) return any;
  while (!postponed_.empty() && postponed_.begin()->first <= now.steady) {
    auto r = std::move(postponed_.begin()->second);
    postponed_.erase(postponed_.begin());
    if (r.state == record_state::delayed) {
      due_.emplace(r.id, std::move(r));
    } else {
      unhold(r.id);
      line_up(std::move(r));
    }
    any = true;
  }
  return any;
}

bool queue_core::hands_out() const {
  if (held_back_) return false;
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
    if (p.idle > 0 && !p.silent && (best == none || p.idle > best->second.idle ||
                       (p.idle == best->second.idle && p.last_served < best->second.last_served)))
      best = it;
  }
  if (best != none || available < settings_.batch_length) return best;
  // All are busy: a full batch gains nothing by waiting, so it may lie ready where a worker ends soon.
  for (auto it = pools_.begin(); it != none; ++it)
    if (it->second.prefetch > 0 && !it->second.silent && (best == none || it->second.last_served < best->second.last_served)) best = it;
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
  const auto most = to.most > 0 ? std::min<std::size_t>(to.most, settings_.batch_length) : settings_.batch_length;
  items->reserve(std::min(most, ready()));
  lease l;
  while (ready() > 0 && items->size() < most) {
    auto r = take_ready();
    if (r.state == record_state::waiting && (!l.lowest || r.id < l.lowest)) l.lowest = r.id;
    if (key_ends_at_start(r)) {
      fx.release.push_back(ref_of(r));
      std::erase_if(returned_, [&](const record& back) { return back.id == r.id; });
    }
    if (!not_restarted_.empty()) not_restarted_.erase(r.id);
    // What came back without a delay has no time from which it waits again.
    if (r.attempts == 0 || r.due > r.pushed_at) timings_.wait.add(now.wall - std::max(r.pushed_at, r.due));
    items->push_back(std::move(r));
  }
  fx.room += static_cast<std::ptrdiff_t>(items->size());
  running_ += items->size();
  hold(l.lowest);
  l.pool = id;
  l.items = items;
  l.expires = now.steady + settings_.lease;
  l.handed_out = now.steady;
  // A renewal moves `expires` only: the check may come early, then it looks for the next one.
  if (to.kind == pool_kind::remote && (!lease_check_at_ || l.expires < *lease_check_at_)) lease_check_at_ = l.expires;
  const auto token = next_token_++;
  fx.send.push_back({id, {settings_.name, token, settings_.lease, l.items}});
  leases_.emplace(token, std::move(l));
}

void queue_core::ask_for_more(instant now, queue_effects& fx) {
  if (phase_ == queue_phase::stopped || (phase_ == queue_phase::stopping && stopping_ == stop_mode::hand_back)) {
    load_again_at_.reset();
    return;
  }
  if (load_again_at_) {
    if (now.steady < *load_again_at_) return;
    load_again_at_.reset();
  }
  if (std::exchange(announcement_due_, false)) return;
  const auto ask = [&](record_state state, item_window& window, load_under_way& loading, std::size_t low) {
    if (loading.generation > 0 || window.unloaded() == 0 || window.size() > low || window.full()) return;
    loading = {++load_generation_, std::min(limits_.load, window.room())};
    window.begin_load();
    const auto at = window.end();
    fx.loads.push_back({state, {at.first, at.second}, loading.asked, loading.generation});
  };
  ask(record_state::waiting, waiting_, loading_waiting_, limits_.load);
  ask(record_state::delayed, delayed_, loading_delayed_, limits_.load / 2);
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
  const bool rest_done = stopping_ == stop_mode::hand_back || held_back_ || silent() || (ready() == 0 && waiting_.unloaded() == 0);
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
  if (!handed_back)
    timings_.run.add(std::chrono::duration_cast<time_histogram::duration>(now.steady - l.handed_out), items.size());
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
          move(ref_of(r), back, fx);
          delayed_.add(std::move(back));
        }
        break;
      }
      case item_outcome::kind::failed: fail(r, *o, now, fx); break;
      case item_outcome::kind::rejected: {
        ++totals_.failed;
        ++timings_.rejected;
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
  if (key_ends_at_start(r)) returned_.push_back(r);
  // While the rest is run once before the end, nothing comes a second time.
  if (delay > 0ms || stopping_) {
    if (r.state == record_state::waiting) hold(r.id);
    postponed_.emplace(now.steady + delay, std::move(r));
  } else if (r.state == record_state::delayed) {
    due_.emplace(r.id, std::move(r));
  } else {
    line_up(std::move(r));
  }
}

void queue_core::line_up(record&& r) {
  leave_line(ref_of(r));
  waiting_.add(std::move(r));
}

// A row that reads skip is in flight no more.
void queue_core::leave_line(const record_ref& r) {
  if (behind_.empty() || r.state != record_state::waiting || behind_.erase(r.id) == 0) return;
  waiting_.doubt(r);
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
  const auto pause = [&] {
    return std::chrono::floor<std::chrono::milliseconds>(toolbox::pause_after(failed_pause, back.attempts, random_));
  };
  back.due = now.wall + (why.delay > 0ms ? why.delay : pause());
  ++totals_.redelivered;
  fx.room -= 1;
  move(ref_of(r), back, fx);
  delayed_.add(std::move(back));
}

void queue_core::bury(record&& r, const record_ref& from, instant, queue_effects& fx) {
  r.state = record_state::dead;
  r.due = {};
  ++dead_;
  ++totals_.died;
  move(from, r, fx);
}

void queue_core::move(const record_ref& from, const record& to, queue_effects& fx) {
  if (to.state != record_state::waiting) leave_line(from);
  fx.move.push_back({from, to});
  if (moved_.insert_or_assign(to.id, std::pair{to.state, to.due}).second) moved_order_.push_back(to.id);
  if (moved_order_.size() <= moved_kept) return;
  moved_.erase(moved_order_.front());
  moved_order_.pop_front();
}

void queue_core::give_up(std::uint64_t token, lease& l, const std::string&, instant now, queue_effects& fx) {
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
    not_restarted_.insert_or_assign(r.id, token);
    take_back(record(r), 0ms, now, fx);
  }
  lost_.emplace_back(token, std::move(l));
  if (lost_.size() <= limits_.lost) return;
  const auto& [oldest, forgotten] = lost_.front();
  for (const auto& r : *forgotten.items)
    if (const auto it = not_restarted_.find(r.id); it != not_restarted_.end() && it->second == oldest) not_restarted_.erase(it);
  lost_.pop_front();
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
    const auto id = (*items)[i].id;
    const auto back = not_restarted_.find(id);
    if (back == not_restarted_.end() || back->second != done.token) continue;  // it was started again
    not_restarted_.erase(back);
    if (!handled[i]) continue;
    const auto found = take_from_memory(id);
    if (!found) continue;  // it lies unread in the storage, and will be run again
    fx.room += 1;
    ++totals_.handled;
    erase(*found, finished_item::kind::handled, now, fx);
    counted = true;
  }
  return counted;
}

void queue_core::erase(const record& r, finished_item::kind what, instant now, queue_effects& fx) {
  leave_line(ref_of(r));
  fx.erase.push_back(ref_of(r));
  remember(r, what, now);
}

void queue_core::remember(const record& r, finished_item::kind what, instant now) {
  const finished_item f{r.id, what, r.attempts, now.wall};
  if (limits_.finished == 0) return;
  if (finished_.size() < limits_.finished)
    finished_.push_back(f);
  else
    finished_[finished_next_] = f;
  finished_next_ = (finished_next_ + 1) % limits_.finished;
}

item_id queue_core::low_water() const {
  item_id low{waiting_.end().second.value + 1};
  if (!waiting_.empty()) low = std::min(low, waiting_.front_place().second);
  if (!held_.empty()) low = std::min(low, *held_.begin());
  return low;
}

// No pool that could take anything.
bool queue_core::silent() const {
  return std::all_of(pools_.begin(), pools_.end(), [](const auto& p) { return p.second.silent; });
}

// UNIQUE_UNTIL = start: the key is free once a worker has the item, and its own again while it waits.
bool queue_core::key_ends_at_start(const record& r) const {
  return r.digest && settings_.unique && settings_.until == config::unique_until::start;
}

void queue_core::unhold(item_id id) {
  if (!id) return;
  const auto it = held_.find(id);
  assert(it != held_.end());
  held_.erase(it);
}

}  // namespace caravan
