#include "actors/queue/queue_core.hpp"

#include "messages/record_more.hpp"

#include <algorithm>
#include <cassert>
#include <limits>
#include <utility>

namespace caravan {

using namespace std::chrono_literals;
using steady = std::chrono::steady_clock::time_point;

namespace {
constexpr std::size_t moved_kept = 4'096;
constexpr auto view_age_most = 10s;  // what the storage says to a request is younger than this when it comes
constexpr auto load_retry = 1s;
constexpr std::size_t error_text_most = 4'096;
}  // namespace

queue_core::queue_core(config::queue_settings settings, const storage_counts& counts, std::uint64_t first_token,
                       std::uint64_t seed, limits l)
  : settings_(std::move(settings)),
    limits_(l),
    waiting_(item_window::order::by_id, l.window, l.window_bytes),
    delayed_(item_window::order::by_sort, l.window, l.window_bytes),
    ranked_(item_window::order::by_rank, l.window, l.window_bytes),
    keys_(settings_.key_concurrency, settings_.key_rate, counts.keyed, {l.window, l.key_window, l.load}),
    dead_(counts.dead),
    done_(counts.done),
    held_count_(counts.held),
    known_through_(counts.last),
    next_token_(first_token),
    random_(seed) {
  waiting_.reset(counts.waiting);
  delayed_.reset(counts.delayed);
  ranked_.reset(counts.ranked);
}

void queue_core::on_start(instant now, queue_effects& fx) { settle(now, fx); }

void queue_core::on_appended(std::vector<record>& records, instant now, queue_effects& fx) {
  for (auto& r : records) {
    ++totals_.pushed;
    // Stored before the rows were counted, announced after: it is among those already.
    if (r.id <= known_through_) continue;
    known_through_ = r.id;
    switch (r.state) {
      case record_state::keyed: keys_.add(std::move(r)); break;
      case record_state::held: ++held_count_; break;
      case record_state::dead: ++dead_; break;
      case record_state::done: ++done_; break;
      default: window_of(r.state).add(std::move(r));
    }
  }
  settle(now, fx);
}

void queue_core::on_loaded(std::uint64_t generation, record_state state, std::vector<record>&& records, instant now,
                           queue_effects& fx) {
  if (state == record_state::keyed || state == record_state::done) {
    auto& loading = state == record_state::keyed ? loading_keys_ : loading_done_;
    if (generation == 0 || generation != loading.generation) return;
    loading = {};
    if (state == record_state::done)
      on_done_rows(std::move(records), now, fx);
    else
      fx.room += static_cast<std::ptrdiff_t>(keys_.on_loaded(std::move(records), known_through_, now.wall));
    settle(now, fx);
    return;
  }
  auto& window = window_of(state);
  auto& under_way = loading(state);
  if (generation == 0 || generation != under_way.generation) return;  // asked for before a purge
  under_way = {};
  std::size_t fresh = 0;
  std::size_t unannounced = 0;
  for (auto& r : records) {
    // Appended, but not announced yet: it will come by on_appended, and would otherwise be handed out twice.
    if (r.id > known_through_) {
      ++unannounced;
      continue;
    }
    if (state != record_state::delayed && behind_.count(r.id) > 0) {
      if (!window.pass(r)) break;
      // The end of a ranked window may go back before it.
      if (state == record_state::waiting) behind_.erase(r.id);
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
  auto* failed = &loading_waiting_;
  for (auto* l : {&loading_delayed_, &loading_ranked_, &loading_keys_, &loading_done_})
    if (generation == l->generation) failed = l;
  if (generation != failed->generation) return;
  *failed = {};
  if (failed == &loading_keys_) keys_.on_load_failed();
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
  std::vector<record_state> states{state};
  if (state == record_state::waiting && ranked_.total() > 0) states.push_back(record_state::ranked);
  if (state == record_state::waiting && keys_.total() > 0) states.push_back(record_state::keyed);
  for (const auto st : states) {
    if (st == record_state::keyed)
      loading_keys_ = {};
    else if (st == record_state::done)
      loading_done_ = {};
    else if (st != record_state::dead && st != record_state::held)
      loading(st) = {};
    purged_at_[static_cast<std::size_t>(st)] = now.steady;
    std::erase_if(moved_, [&](const auto& m) { return m.second.first == st; });
  }
  std::size_t count = 0;
  const auto gone = [&](std::size_t n) {
    count += n;
    fx.room += static_cast<std::ptrdiff_t>(n);
  };
  switch (state) {
    case record_state::waiting:
      gone(waiting_.total());
      waiting_.clear({wall_time{}, known_through_});
      gone(ranked_.total());
      ranked_.clear(ranked_.end());
      gone(keys_.clear());
      gone(due_.size());
      for (auto& [at, r] : due_) fx.erase.push_back(ref_of(r));
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
    case record_state::done:
      count = done_;
      done_ = 0;
      break;
    case record_state::held:
      gone(held_count_);
      held_count_ = 0;
      break;
    case record_state::ranked:
    case record_state::keyed: break;  // they go with the waiting ones
  }
  totals_.removed += count;
  fx.clear.insert(fx.clear.end(), states.begin(), states.end());
  fx.clear_through = known_through_;
  settle(now, fx);
  return count;
}

// The rows of items whose time came lie in the delayed state still, also while they are postponed or in a handler. They
// must survive when that state is forgotten.
void queue_core::to_waiting_rows(instant, queue_effects& fx) {
  const auto change = [&](record& r) {
    const auto from = ref_of(r);
    r.state = line_of(r);
    r.due = {};
    move(from, r, fx);
  };
  for (auto& [place, r] : due_) {
    change(r);
    line_up(std::move(r));
  }
  due_.clear();
  for (auto& [at, r] : postponed_) {
    if (r.state != record_state::delayed) continue;
    change(r);
    if (r.state == record_state::waiting) hold(r.id);
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
      if (r.state == record_state::waiting && (!l.lowest || r.id < l.lowest)) l.lowest = r.id;
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
std::optional<record> queue_core::take_from_memory(const record& r) {
  const auto id = r.id;
  if (const auto it = due_.find({-std::int64_t{r.priority}, id}); it != due_.end()) {
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
  if (!r.order_by.empty())
    if (auto found = keys_.remove(id, order_hash(r.order_by))) return found;
  if (auto found = waiting_.take(id)) return found;
  if (auto found = ranked_.take(id)) return found;
  return delayed_.take(id);
}

// Memory does not hold the item, so the storage's view of it counts; but things may have happened since that was asked.
expected<void> queue_core::still_so(const record& r, instant now) const {
  const auto it = moved_.find(r.id);
  bool so = it == moved_.end() || it->second == std::pair{r.state, sort_of(r)};
  const auto& purged = purged_at_[static_cast<std::size_t>(r.state)];
  if (purged && now.steady - *purged < view_age_most && it == moved_.end()) so = false;
  switch (r.state) {
    case record_state::waiting: so = so && r.id <= known_through_ && waiting_.may_be_unloaded(r); break;
    case record_state::delayed: so = so && r.id <= known_through_ && delayed_.may_be_unloaded(r); break;
    case record_state::ranked: so = so && r.id <= known_through_ && ranked_.may_be_unloaded(r); break;
    case record_state::keyed: so = so && r.id <= known_through_ && keys_.may_be_unloaded(r); break;
    case record_state::held: so = so && r.id <= known_through_ && held_count_ > 0; break;
    case record_state::dead: so = so && dead_ > 0; break;
    case record_state::done: so = so && done_ > 0; break;
  }
  const bool ended = r.state != record_state::done && find_finished(r.id);
  if (so && !ended) return {};
  return {errc::conflict, "job " + to_string(job_id{settings_.name, r.id}) + ": it changed a moment ago; look at it again"};
}

// Takes the item from wherever it is, in memory or not; `r` becomes what memory knows. It takes room no longer.
expected<void> queue_core::take_out(record& r, instant now, queue_effects& fx) {
  if (is_running(r.id))
    return {errc::conflict, "job " + to_string(job_id{settings_.name, r.id}) +
                              ": a handler has it now; try again when it has ended, or cancel it"};
  if (auto found = take_from_memory(r)) {
    r = std::move(*found);
  } else if (auto ok = still_so(r, now); !ok) {
    return ok;
  } else {
    switch (r.state) {
      case record_state::dead: --dead_; return {};
      case record_state::done: --done_; return {};
      case record_state::held: --held_count_; break;
      case record_state::keyed: keys_.forget_unloaded(r); break;
      default: window_of(r.state).forget_unloaded(r);
    }
  }
  fx.room += 1;
  return {};
}

expected<void> queue_core::retry(record r, instant now, queue_effects& fx) {
  if (r.state == record_state::done)
    return {errc::conflict, "job " + to_string(job_id{settings_.name, r.id}) + ": it is finished; push it again"};
  if (r.state == record_state::held)
    return {errc::conflict, "job " + to_string(job_id{settings_.name, r.id}) + ": it is held back until what it waits for has happened"};
  // A handler would take the sealed bytes for the item.
  if (r.payload.starts_with(sealed_mark))
    return {errc::conflict, "job " + to_string(job_id{settings_.name, r.id}) + ": " +
                              (r.last_error.empty() ? "cannot be opened" : r.last_error) + "; it stays as it is until then"};
  if (auto ok = take_out(r, now, fx); !ok) return ok;
  const auto from = ref_of(r);
  const bool waited = from.state == record_state::keyed && r.due != wall_time{};
  if (r.state == record_state::dead) r.attempts = 0;
  r.state = line_of(r);
  r.due = {};
  // A deadline that passed would end it again at once.
  if (r.deadline != wall_time{} && r.deadline <= now.wall) r.deadline = {};
  fx.room -= 1;
  if (from.state != r.state || waited) move(from, r, fx);
  line_up(std::move(r));
  settle(now, fx);
  return {};
}

expected<void> queue_core::remove(record r, instant now, queue_effects& fx) {
  if (auto ok = take_out(r, now, fx); !ok) return ok;
  not_restarted_.erase(r.id);
  ++totals_.removed;
  fx.release.push_back(ref_of(r));
  erase(r, finished_item::kind::removed, now, fx);
  settle(now, fx);
  return {};
}

expected<void> queue_core::cancel(record r, instant now, queue_effects& fx) {
  if (r.state == record_state::done || r.state == record_state::dead)
    return {errc::conflict, "job " + to_string(job_id{settings_.name, r.id}) + ": it ended already; delete it instead"};
  for (auto& [token, l] : leases_) {
    const auto it = std::find_if(l.items->begin(), l.items->end(), [&](const record& x) { return x.id == r.id; });
    if (it == l.items->end()) continue;
    fx.stop.emplace_back(l.pool, token);
    if (l.purged || !cancelled_.insert(r.id).second) return {};
    // So that it does not begin again after a crash.
    auto marked = *it;
    auto more = more_of(marked);
    more.cancelled = true;
    set_more(marked, more);
    fx.move.push_back({ref_of(*it), std::move(marked)});
    settle(now, fx);
    return {};
  }
  if (auto ok = take_out(r, now, fx); !ok) return ok;
  not_restarted_.erase(r.id);
  finish(r, finished_item::kind::cancelled, {}, now, fx);
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
  if (hands_out() && !stopping_) {
    if (const auto t = keys_.next_steady()) at(*t);
    if (const auto t = keys_.next_wall()) at_wall(*t);
  }
  const bool under_cap = settings_.max_running == 0 || running_ < settings_.max_running;
  if (settings_.start_rate && hands_out() && under_cap && ready() > 0 && allowance(now) == 0) at(gate_.opens(settings_.start_rate));
  if (done_ > 0 && loading_done_.generation == 0 && !load_again_at_ && phase_ != queue_phase::stopped && !stopping_) at_wall(done_next_);
  if (lease_check_at_) at(*lease_check_at_);
  return wake;
}

queue_counts queue_core::counts() const {
  return {waiting_.total() + ranked_.total() + due_.size() + keys_.total() + postponed_.size(), running_, delayed_.total(), dead_, totals_, done_, held_count_};
}

wall_time queue_core::oldest_waiting() const {
  wall_time oldest{};
  const auto at = [&](const record& r) {
    if (oldest == wall_time{} || r.pushed_at < oldest) oldest = r.pushed_at;
  };
  if (!waiting_.empty()) at(waiting_.front());
  if (!ranked_.empty()) at(ranked_.front());
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
  promote_due(now, fx);
  do {
    do dispatch(now, fx);
    while (promote_due(now, fx));
    answer_flushes(now, fx);
  } while (promote_due(now, fx));  // what waited for the end of a flush comes back
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
bool queue_core::promote_due(instant now, queue_effects& fx) {
  if (phase_ == queue_phase::stopping || phase_ == queue_phase::stopped) return false;
  bool any = false;
  while (!delayed_.empty() && delayed_.front_place().first <= now.wall && due_.size() < limits_.window) {
    auto r = delayed_.pop_front();
    if (r.order_by.empty()) {
      due_.emplace(std::pair{-std::int64_t{r.priority}, r.id}, std::move(r));
    } else {
      // Its row goes to its key's line: there it has its place, whatever else waits.
      const auto from = ref_of(r);
      r.state = record_state::keyed;
      r.due = {};
      move(from, r, fx);
      keys_.add(std::move(r));
    }
    any = true;
  }
  const auto turns = keys_.ready();
  keys_.wake(now.steady, now.wall);
  any = any || keys_.ready() > turns;
  // A flush must not run again what has just come back as a whole.
  if (!flushes_.empty()) return any;
  while (!postponed_.empty() && postponed_.begin()->first <= now.steady) {
    auto r = std::move(postponed_.begin()->second);
    postponed_.erase(postponed_.begin());
    if (r.state == record_state::delayed) {
      due_.emplace(std::pair{-std::int64_t{r.priority}, r.id}, std::move(r));
    } else {
      if (r.state == record_state::waiting) unhold(r.id);
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

std::size_t queue_core::allowance(instant now) const {
  auto n = std::numeric_limits<std::size_t>::max();
  if (settings_.max_running > 0) n = settings_.max_running - std::min<std::size_t>(settings_.max_running, running_);
  if (settings_.start_rate) n = std::min(n, gate_.room(settings_.start_rate, now.steady));
  return n;
}

// Priorities above 0 first; then keys and the plain line in turn; then priorities below 0.
record queue_core::take_ready(instant now) {
  using place = std::pair<std::int64_t, item_id>;
  constexpr place nothing{std::numeric_limits<std::int64_t>::max(), no_item_limit};
  const auto waiting = waiting_.empty() ? nothing : place{0, waiting_.front_place().second};
  const auto due = due_.empty() ? nothing : due_.begin()->first;
  auto ranked = nothing;
  if (!ranked_.empty()) {
    const auto at = ranked_.front_place();
    ranked = {at.first.time_since_epoch().count(), at.second};
  }
  const auto best = std::min({waiting, due, ranked});
  if (keys_.ready() > 0 && best.first >= 0) {
    keys_turn_ = best.first > 0 || !keys_turn_;
    if (keys_turn_) return keys_.take(now.steady, now.wall);
  }
  if (best == waiting) return waiting_.pop_front();
  if (best == ranked) {
    auto r = ranked_.pop_front();
    behind_.insert(r.id);
    return r;
  }
  auto r = std::move(due_.begin()->second);
  due_.erase(due_.begin());
  return r;
}

bool queue_core::ends_instead(record& r, instant now, queue_effects& fx) {
  const bool late = r.deadline != wall_time{} && r.deadline <= now.wall;
  const bool cancelled = !late && !r.more.empty() && more_of(r).cancelled;
  if (!late && !cancelled) return false;
  if (r.state == record_state::keyed) keys_.ended(r);
  fx.room += 1;
  if (!not_restarted_.empty()) not_restarted_.erase(r.id);
  std::erase_if(returned_, [&](const record& back) { return back.id == r.id; });
  if (cancelled) {
    finish(r, finished_item::kind::cancelled, {}, now, fx);
    return true;
  }
  const auto from = ref_of(r);
  note_error(r, "its deadline passed before a handler was called", now);
  bury(std::move(r), from, now, fx);
  return true;
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
    const auto allowed = allowance(now);
    if (allowed == 0) return;
    bool gathered = true;
    if (settings_.batch_debounce > 0ms && flushes_.empty() && ready() < settings_.batch_length) {
      if (!gathering_since_) gathering_since_ = now.steady;
      gathered = now.steady - *gathering_since_ >= settings_.batch_debounce;
    }
    const auto to = pool_for(std::min(ready(), allowed), gathered);
    if (to == pools_.end()) return;
    if (send_batch(to->first, to->second, std::min(allowed, settings_.batch_length), now, fx)) gathering_since_.reset();
  }
  gathering_since_.reset();
}

bool queue_core::send_batch(pool_id id, pool& to, std::size_t most, instant now, queue_effects& fx) {
  auto items = std::make_shared<std::vector<record>>();
  if (to.most > 0) most = std::min<std::size_t>(to.most, most);
  items->reserve(std::min(most, ready()));
  lease l;
  batch work;
  auto deadline = wall_time::max();
  while (ready() > 0 && items->size() < most) {
    auto r = take_ready(now);
    if ((r.deadline != wall_time{} || !r.more.empty()) && ends_instead(r, now, fx)) continue;
    if (r.deadline != wall_time{}) deadline = std::min(deadline, r.deadline);
    if (r.state == record_state::waiting && (!l.lowest || r.id < l.lowest)) l.lowest = r.id;
    if (key_ends_at_start(r)) {
      fx.release.push_back(ref_of(r));
      std::erase_if(returned_, [&](const record& back) { return back.id == r.id; });
    }
    if (!not_restarted_.empty()) not_restarted_.erase(r.id);
    if (settings_.start_rate) gate_.pass(settings_.start_rate, now.steady);
    // What came back without a delay has no time from which it waits again.
    if (r.attempts == 0 || r.due > r.pushed_at) timings_.wait.add(now.wall - std::max(r.pushed_at, r.due));
    items->push_back(std::move(r));
  }
  if (items->empty()) return false;
  if (to.idle > 0)
    --to.idle;
  else
    --to.prefetch;
  to.last_served = ++serial_;
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
  work = {settings_.name, token, settings_.lease, l.items, 0ms};
  if (deadline != wall_time::max()) work.limit = std::max<std::chrono::milliseconds>(deadline - now.wall, 1ms);
  fx.send.push_back({id, std::move(work)});
  leases_.emplace(token, std::move(l));
  return true;
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
  ask(record_state::ranked, ranked_, loading_ranked_, limits_.load);
  if (const auto next = loading_keys_.generation == 0 ? keys_.next_read() : std::nullopt) {
    loading_keys_ = {++load_generation_, next->most};
    fx.loads.push_back({record_state::keyed, next->after, next->most, load_generation_});
  }
  const bool too_many = done_ > settings_.retain_count;
  if (loading_done_.generation == 0 && done_ > 0 && !stopping_ && (too_many || done_next_ <= now.wall)) {
    loading_done_ = {++load_generation_, limits_.load};
    fx.loads.push_back({record_state::done, {}, limits_.load, load_generation_});
  }
}

void queue_core::answer_flushes(instant now, queue_effects& fx) {
  if (flushes_.empty()) return;
  const bool empty = ready() == 0 && !unread() && keys_.total() == 0 && running_ == 0;
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
    if (ready() == 0 && !unread() && keys_.total() == 0 && postponed_.empty() && running_ == 0) {
      phase_ = queue_phase::stopped;
      fx.stopped = true;
    }
    return;
  }
  if (phase_ != queue_phase::stopping) return;
  const bool rest_done = stopping_ == stop_mode::hand_back || held_back_ || silent() || (ready() == 0 && !unread());
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
  // At the end: what comes back must stand in its key's line before the key goes on.
  const auto keys_go_on = [&] {
    for (const auto& r : items)
      if (r.state == record_state::keyed) keys_.ended(r);
  };
  if (!handed_back)
    timings_.run.add(std::chrono::duration_cast<time_histogram::duration>(now.steady - l.handed_out), items.size());
  if (rest.empty()) {
    for (const auto& r : items) {
      if (!cancelled_.empty()) cancelled_.erase(r.id);
      finish(r, finished_item::kind::handled, {}, now, fx);
    }
    totals_.handled += items.size();
    keys_go_on();
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
    const bool cancelled = !cancelled_.empty() && cancelled_.erase(r.id) > 0;
    if (!o || o->what == item_outcome::kind::handled) {
      finish(r, finished_item::kind::handled, o ? o->text : std::string{}, now, fx);
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
    if (cancelled) {
      finish(r, finished_item::kind::cancelled, {}, now, fx);
      continue;
    }
    switch (o->what) {
      case item_outcome::kind::handled: break;
      case item_outcome::kind::unhandled: {
        ++totals_.returned;
        auto back = r;
        const auto most = r.max_attempts ? r.max_attempts : settings_.max_attempts;
        if (!handed_back && ++back.attempts >= most && most > 0) {
          note_error(back, "handed back as unhandled " + std::to_string(back.attempts) + " times", now);
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
          later(r, std::move(back), now.wall + o->delay, fx);
        }
        break;
      }
      case item_outcome::kind::failed: fail(r, *o, now, fx); break;
      case item_outcome::kind::rejected: {
        ++totals_.failed;
        ++timings_.rejected;
        auto back = r;
        ++back.attempts;
        note_error(back, o->text, now);
        bury(std::move(back), ref_of(r), now, fx);
        break;
      }
    }
  }
  keys_go_on();
}

// It comes again at `due`. One that must keep its place in its key's line stays there, and the key waits with it.
void queue_core::later(const record& r, record&& back, wall_time due, queue_effects& fx) {
  fx.room -= 1;
  back.due = due;
  if (!r.order_by.empty() && settings_.key_concurrency == 1) {
    back.state = record_state::keyed;
    move(ref_of(r), back, fx);
    keys_.put_back(std::move(back), wall_time::min());
    return;
  }
  back.state = record_state::delayed;
  move(ref_of(r), back, fx);
  delayed_.add(std::move(back));
}

void queue_core::note_error(record& r, std::string_view text, instant now) {
  r.last_error = text.substr(0, error_text_most);
  auto more = more_of(r);
  more.add_error({now.wall, r.attempts, r.last_error});
  set_more(r, more);
}

void queue_core::finish(const record& r, finished_item::kind what, const std::string& result, instant now, queue_effects& fx) {
  const auto keep = r.retention > 0ms ? r.retention : settings_.retention;
  if (keep <= 0ms || settings_.retain_count == 0) {
    erase(r, what, now, fx);
    return;
  }
  auto done = r;
  auto more = more_of(r);
  more.finished_at = now.wall;
  more.cancelled = what == finished_item::kind::cancelled;
  more.result = result;
  set_more(done, more);
  done.state = record_state::done;
  done.due = now.wall + keep;
  ++done_;
  done_next_ = std::min(done_next_, done.due);
  move(ref_of(r), done, fx);
  remember(r, what, now);
}

// The first of the done rows: those whose time is over go, and those beyond the number.
void queue_core::on_done_rows(std::vector<record>&& records, instant now, queue_effects& fx) {
  auto over = done_ - std::min(done_, settings_.retain_count);
  done_next_ = wall_time::max();
  for (const auto& r : records) {
    if (r.due > now.wall && over == 0) {
      done_next_ = r.due;
      return;
    }
    if (over > 0) --over;
    if (done_ > 0) --done_;
    fx.erase.push_back(ref_of(r));
  }
  if (records.empty()) done_ = 0;  // rows were lost behind our back
  else if (records.size() == limits_.load) done_next_ = wall_time::min();  // there are more
}

void queue_core::take_back(record&& r, std::chrono::milliseconds delay, instant now, queue_effects& fx) {
  fx.room -= 1;
  ++totals_.redelivered;
  if (key_ends_at_start(r)) returned_.push_back(r);
  // While the rest is run once before the end, nothing comes a second time.
  if (r.state == record_state::keyed && (delay > 0ms || stopping_)) {
    // The key waits with it; a row that says so is not needed, for after a restart it may begin at once.
    r.due = stopping_ ? wall_time::max() : now.wall + delay;
    keys_.put_back(std::move(r), now.wall);
  } else if (delay > 0ms || stopping_) {
    if (r.state == record_state::waiting) hold(r.id);
    postponed_.emplace(now.steady + delay, std::move(r));
  } else if (r.state == record_state::delayed) {
    due_.emplace(std::pair{-std::int64_t{r.priority}, r.id}, std::move(r));
  } else {
    line_up(std::move(r));
  }
}

void queue_core::line_up(record&& r) {
  if (r.state == record_state::keyed) {
    keys_.add(std::move(r));
    return;
  }
  leave_line(ref_of(r));
  window_of(r.state).add(std::move(r));
}

// A row that reads skip is in flight no more.
void queue_core::leave_line(const record_ref& r) {
  if (behind_.empty() || (r.state != record_state::waiting && r.state != record_state::ranked) || behind_.erase(r.id) == 0) return;
  window_of(r.state).doubt(r);
}

void queue_core::fail(const record& r, const item_outcome& why, instant now, queue_effects& fx) {
  ++totals_.failed;
  auto back = r;
  ++back.attempts;
  note_error(back, why.text, now);
  const auto most = r.max_attempts ? r.max_attempts : settings_.max_attempts;
  if (most > 0 && back.attempts >= most) {
    bury(std::move(back), ref_of(r), now, fx);
    return;
  }
  ++totals_.redelivered;
  later(r, std::move(back), now.wall + (why.delay > 0ms ? why.delay : retry_pause(r, r.attempts + 1)), fx);
}

// Jobs that failed together do not come back together: a share of the pause is random.
std::chrono::milliseconds queue_core::retry_pause(const record& r, std::uint32_t failures) {
  auto pause = settings_.retry.pause_after(failures);
  if (!r.more.empty())
    if (const auto own = more_of(r).retry; !own.empty())
      if (const auto policy = config::parse_retry_policy(own)) pause = policy->pause_after(failures);
  const auto spread = settings_.retry_jitter * std::uniform_real_distribution<double>{0, 1}(random_);
  return std::chrono::milliseconds{static_cast<std::int64_t>(static_cast<double>(pause.count()) * (1 - spread))};
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
  if (moved_.insert_or_assign(to.id, std::pair{to.state, sort_of(to)}).second) moved_order_.push_back(to.id);
  if (moved_order_.size() <= moved_kept) return;
  moved_.erase(moved_order_.front());
  moved_order_.pop_front();
}

void queue_core::give_up(std::uint64_t token, lease& l, const std::string&, instant now, queue_effects& fx) {
  ++totals_.leases_lost;
  running_ -= l.items->size();
  unhold(l.lowest);
  for (const auto& r : *l.items) {
    if (!cancelled_.empty() && cancelled_.erase(r.id) > 0 && !l.purged) {
      finish(r, finished_item::kind::cancelled, {}, now, fx);
      continue;
    }
    if (l.purged) {
      if (r.state != record_state::waiting) fx.erase.push_back(ref_of(r));
      remember(r, finished_item::kind::purged, now);
      ++totals_.removed;
      continue;
    }
    not_restarted_.insert_or_assign(r.id, token);
    take_back(record(r), 0ms, now, fx);
  }
  for (const auto& r : *l.items)
    if (r.state == record_state::keyed) keys_.ended(r);
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
    const auto found = take_from_memory((*items)[i]);
    if (!found) continue;  // it lies unread in the storage, and will be run again
    fx.room += 1;
    ++totals_.handled;
    finish(*found, finished_item::kind::handled, {}, now, fx);
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
  if (!r.digest) return false;
  if (r.hold != key_hold::as_queue) return r.hold == key_hold::start;
  return settings_.unique && settings_.until == config::unique_until::start;
}

void queue_core::unhold(item_id id) {
  if (!id) return;
  const auto it = held_.find(id);
  assert(it != held_.end());
  held_.erase(it);
}

}  // namespace caravan
