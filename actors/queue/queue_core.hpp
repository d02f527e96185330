#pragma once

#include "actors/queue/item_window.hpp"
#include "actors/queue/key_lines.hpp"
#include "actors/queue/rate_gate.hpp"
#include "config/queue_settings.hpp"
#include "integration/storage.hpp"
#include "messages/batch.hpp"
#include "messages/move_words.hpp"
#include "messages/queue_words.hpp"

#include <caravan/error.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

namespace caravan {

/// The time an event happened, on both clocks.
struct instant {
  std::chrono::steady_clock::time_point steady;
  wall_time wall;
};

/// What a queue's shell has to do after an event. The core adds to it; the shell carries it out and empties it.
struct queue_effects {
  struct outgoing {
    pool_id pool = 0;
    batch work;
  };
  struct load {
    record_state state = record_state::waiting;
    read_cursor after;
    std::size_t max = 0;
    std::uint64_t generation = 0;  ///< to be handed back with the answer
  };
  struct flushed {
    std::uint64_t flush = 0;
    expected<void> answer;
  };
  std::vector<outgoing> send;
  std::vector<record_ref> erase;    ///< with `low_water`
  item_id low_water;                ///< set with `erase` and with `move`, which may bring old ids back in line
  std::vector<record_move> move;
  std::vector<record_ref> release;  ///< their unique keys are free
  std::vector<record_state> clear;  ///< whole states are forgotten, up to the id `clear_through`
  item_id clear_through;            ///< what was appended but not announced yet stays
  std::vector<load> loads;
  std::vector<std::pair<pool_id, std::uint64_t>> stop;  ///< calls (lease tokens) whose handlers are asked to stop
  std::vector<flushed> flushes;
  std::ptrdiff_t room = 0;          ///< how many more items fit under LENGTH; negative: fewer
  bool stopped = false;             ///< the queue reached its end with this event
};

/// Decides everything about the items of one queue: their order, who gets them, under which lease, what becomes of
/// them. No CAF, no I/O, no clock: time comes in, effects go out. Not thread safe.
///
/// An item is in exactly one place: the waiting, ranked or delayed window (or behind it, unloaded), its key's line, `due`
/// (its time came, its row still lies in the delayed state), postponed (returned, for memory only), in a lease, held, dead
/// or done.
class queue_core {
public:
  /// What is kept in memory; the rest is read when it is needed.
  struct limits {
    std::size_t window = 20'000;            ///< items of each state
    std::size_t window_bytes = 32u << 20;   ///< their payloads
    std::size_t load = 2'000;               ///< items of one read
    std::size_t key_window = 100;           ///< items of one order key
    std::size_t lost = 1'000;               ///< leases without an answer that are remembered
    std::size_t finished = 8'192;           ///< items that ended
  };

  /// `counts`: of the storage as it was opened. `first_token`: above every lease token given out before.
  queue_core(config::queue_settings settings, const storage_counts& counts, std::uint64_t first_token, std::uint64_t seed,
             limits l);
  queue_core(config::queue_settings settings, const storage_counts& counts, std::uint64_t first_token, std::uint64_t seed)
    : queue_core(std::move(settings), counts, first_token, seed, limits{}) {}

  void on_start(instant now, queue_effects& fx);
  /// Records that were appended, in id order. Moves out of them, and leaves the vector to its owner.
  void on_appended(std::vector<record>& records, instant now, queue_effects& fx);
  void on_loaded(std::uint64_t generation, record_state state, std::vector<record>&& records, instant now, queue_effects& fx);
  /// A read failed; it is asked for again after a while.
  void on_load_failed(std::uint64_t generation, instant now, queue_effects& fx);

  void on_attach(pool_id pool, pool_kind kind, instant now, queue_effects& fx);
  /// The pool is gone: its leases end. `why` for people.
  void on_detach(pool_id pool, const std::string& why, instant now, queue_effects& fx);
  void on_demand(const demand& d, instant now, queue_effects& fx);
  /// False: it is none of the pool's any more, and nobody may count on it.
  bool on_done(const batch_done& done, instant now, queue_effects& fx);
  batches_reported on_report(const report_batches& r, instant now, queue_effects& fx);
  /// Its leases live on, and what waits goes to the pool if it was thought dead.
  void on_renew(const renew_leases& r, instant now, queue_effects& fx);
  void on_tick(instant now, queue_effects& fx);

  /// Nothing is handed out until resume() or `until`; wall_time{}: until resume().
  expected<void> pause(wall_time until, instant now, queue_effects& fx);
  expected<void> resume(instant now, queue_effects& fx);
  /// Answered by a queue_effects::flushed when nothing waits and nothing runs, or with timed_out at `deadline`.
  void flush(std::uint64_t id, std::chrono::steady_clock::time_point deadline, instant now, queue_effects& fx);
  /// Forgets the items of a state. Returns how many. Items in a handler finish, but do not come again.
  std::size_t purge(record_state state, instant now, queue_effects& fx);
  /// Refuses pushes (the shell's part), hands out the rest, then is stopped. Delayed and dead items stay.
  expected<void> drain(instant now, queue_effects& fx);
  /// How it ends: hand_back waits for what runs; run_rest first runs all that waits, once. Both end with fx.stopped,
  /// at the latest at `deadline`, when items still in handlers are given up (they stay in the storage).
  enum class stop_mode : std::uint8_t { hand_back, run_rest };
  void stop(stop_mode mode, std::chrono::steady_clock::time_point deadline, instant now, queue_effects& fx);

  /// While its owner's right is in doubt nothing is handed out; answers still count. Takes effect with the next event.
  void hold_back(bool held) { held_back_ = held; }

  // A move to another node; in queue_image.cpp.
  /// Nothing is handed out any more. What runs, or is postponed, gets a row that waits: so the storage alone says where each item is.
  void freeze(instant now, queue_effects& fx);
  /// What the storage does not know, for restore() on the new node. After freeze(), when its effects are carried out.
  [[nodiscard]] queue_image image(instant now) const;
  /// Before any other event of a core that was made of the same rows. Answers of what runs count here from now on.
  void restore(const queue_image& from, instant now, queue_effects& fx);

  /// A dead or delayed item becomes waiting at once. `r` as the storage has it.
  expected<void> retry(record r, instant now, queue_effects& fx);
  /// In line or delayed: it ends as cancelled. In a handler: that is asked to stop, and the item ends with whatever else than
  /// success it answers; also when its pool is lost. Until then its row says that it is cancelled.
  expected<void> cancel(record r, instant now, queue_effects& fx);
  /// Forgets one item, whatever its state. conflict: a handler has it.
  expected<void> remove(record r, instant now, queue_effects& fx);

  /// When on_tick wants to be called next; nothing: not before another event.
  [[nodiscard]] std::optional<std::chrono::steady_clock::time_point> next_wake(instant now) const;

  [[nodiscard]] queue_counts counts() const;
  [[nodiscard]] const queue_timings& timings() const { return timings_; }
  [[nodiscard]] queue_phase phase() const { return phase_; }
  [[nodiscard]] wall_time paused_until() const { return paused_until_; }
  /// When the item that is next in line was pushed; none: nothing waits.
  [[nodiscard]] wall_time oldest_waiting() const;
  [[nodiscard]] std::size_t attached_pools() const { return pools_.size(); }
  /// Where an item is that the storage may call waiting or delayed.
  [[nodiscard]] bool is_running(item_id id) const;
  /// Finished lately; the oldest are forgotten first.
  [[nodiscard]] std::optional<finished_item> find_finished(item_id id) const;
  [[nodiscard]] const config::queue_settings& settings() const { return settings_; }

private:
  friend struct queue_core_probe;  // tests look at where each item is

  struct pool {
    pool_kind kind = pool_kind::local;
    std::uint32_t idle = 0;      ///< workers that wait for a batch
    std::uint32_t prefetch = 0;  ///< full batches it takes while its workers are busy
    std::uint32_t most = 0;      ///< items in one batch; 0: BATCH_LENGTH
    std::uint64_t last_served = 0;
    bool silent = false;         ///< it let a lease run out: gets nothing until it is heard of again
  };
  struct lease {
    pool_id pool = 0;
    std::shared_ptr<const std::vector<record>> items;
    std::chrono::steady_clock::time_point expires;
    std::chrono::steady_clock::time_point handed_out;
    item_id lowest;       ///< of its waiting records; 0: none
    bool purged = false;  ///< its items were forgotten while they ran
  };
  struct load_under_way {
    std::uint64_t generation = 0;  ///< 0: none
    std::size_t asked = 0;
  };
  struct waiting_flush {
    std::uint64_t id = 0;
    std::chrono::steady_clock::time_point deadline;
  };

  void settle(instant now, queue_effects& fx);
  bool promote_due(instant now, queue_effects& fx);
  void end_leases(instant now, queue_effects& fx);
  void dispatch(instant now, queue_effects& fx);
  void ask_for_more(instant now, queue_effects& fx);
  void answer_flushes(instant now, queue_effects& fx);
  void check_stopped(instant now, queue_effects& fx);

  [[nodiscard]] bool hands_out() const;
  [[nodiscard]] std::size_t ready() const { return waiting_.size() + ranked_.size() + due_.size() + keys_.ready(); }
  /// In line, but still in the storage alone.
  [[nodiscard]] bool unread() const { return waiting_.unloaded() > 0 || ranked_.unloaded() > 0 || !keys_.all_read(); }
  /// How many may leave now by MAX_RUNNING and RATE.
  [[nodiscard]] std::size_t allowance(instant now) const;
  record take_ready(instant now);
  /// True when the item ends instead of leaving: its deadline passed, or it was cancelled.
  bool ends_instead(record& r, instant now, queue_effects& fx);
  item_window& window_of(record_state s) {
    return s == record_state::delayed ? delayed_ : s == record_state::ranked ? ranked_ : waiting_;
  }
  load_under_way& loading(record_state s) {
    return s == record_state::delayed ? loading_delayed_ : s == record_state::ranked ? loading_ranked_ : loading_waiting_;
  }
  using pool_map = std::map<pool_id, pool>;
  pool_map::iterator pool_for(std::size_t available, bool gathered);
  /// `r`: as it was seen; its id, priority and order key count.
  std::optional<record> take_from_memory(const record& r);
  expected<void> still_so(const record& r, instant now) const;
  void move(const record_ref& from, const record& to, queue_effects& fx);
  void line_up(record&& r);
  void leave_line(const record_ref& r);
  expected<void> take_out(record& r, instant now, queue_effects& fx);
  void later(const record& r, record&& back, wall_time due, queue_effects& fx);
  void note_error(record& r, std::string_view text, instant now);
  /// The item is finished: its row goes, or is kept for its retention.
  void finish(const record& r, finished_item::kind what, const std::string& result, instant now, queue_effects& fx);
  void on_done_rows(std::vector<record>&& records, instant now, queue_effects& fx);
  void to_waiting_rows(instant now, queue_effects& fx);
  /// False when nothing was left to send.
  bool send_batch(pool_id id, pool& to, std::size_t most, instant now, queue_effects& fx);
  std::chrono::milliseconds retry_pause(const record& r, std::uint32_t failures);
  void finish_lease(lease& l, const batch_result& rest, bool handed_back, instant now, queue_effects& fx);
  void take_back(record&& r, std::chrono::milliseconds delay, instant now, queue_effects& fx);
  void fail(const record& r, const item_outcome& why, instant now, queue_effects& fx);
  void bury(record&& r, const record_ref& from, instant now, queue_effects& fx);
  void give_up(std::uint64_t token, lease& l, const std::string& why, instant now, queue_effects& fx);
  bool late_answer(const batch_done& done, instant now, queue_effects& fx);
  void erase(const record& r, finished_item::kind what, instant now, queue_effects& fx);
  void remember(const record& r, finished_item::kind what, instant now);
  [[nodiscard]] item_id low_water() const;
  [[nodiscard]] bool key_ends_at_start(const record& r) const;
  [[nodiscard]] bool silent() const;
  void hold(item_id id) { if (id) held_.insert(id); }
  void unhold(item_id id);

  config::queue_settings settings_;
  queue_phase phase_ = queue_phase::running;
  wall_time paused_until_{};
  bool held_back_ = false;

  limits limits_;
  item_window waiting_;
  item_window delayed_;
  item_window ranked_;
  key_lines keys_;
  bool keys_turn_ = false;    ///< keys and the plain line take turns
  rate_gate gate_;
  std::map<std::pair<std::int64_t, item_id>, record> due_;  ///< by -priority, then id
  std::multimap<std::chrono::steady_clock::time_point, record> postponed_;
  std::size_t dead_ = 0;
  std::size_t done_ = 0;
  std::size_t held_count_ = 0;
  wall_time done_next_ = wall_time::min();  ///< when the first of the done may go, as far as is known
  std::set<item_id> cancelled_;             ///< of those in leases
  item_id known_through_;  ///< the highest id that was announced; a read may see later ones first

  pool_map pools_;
  std::unordered_map<std::uint64_t, lease> leases_;
  std::deque<std::pair<std::uint64_t, lease>> lost_;  ///< ended without an answer; a late one may still count
  std::unordered_map<item_id, std::uint64_t> not_restarted_;  ///< came back from that lost lease, not started since
  std::multiset<item_id> held_;                       ///< waiting rows that are in leases or postponed
  std::set<item_id> behind_;                          ///< rows in flight that may lie behind their window: reads skip them
  std::size_t running_ = 0;
  std::optional<std::chrono::steady_clock::time_point> lease_check_at_;  ///< a lower bound of the first remote lease's end
  std::uint64_t next_token_;
  std::uint64_t serial_ = 0;

  std::vector<waiting_flush> flushes_;
  std::optional<stop_mode> stopping_;
  std::chrono::steady_clock::time_point stop_deadline_;
  std::optional<std::chrono::steady_clock::time_point> gathering_since_;
  std::uint64_t load_generation_ = 0;
  load_under_way loading_waiting_;
  load_under_way loading_delayed_;
  load_under_way loading_ranked_;
  load_under_way loading_keys_;
  load_under_way loading_done_;
  bool announcement_due_ = false;  ///< a read saw only rows that are not announced yet: it waits for the next event
  std::optional<std::chrono::steady_clock::time_point> load_again_at_;

  /// Where rows were moved lately. A view of the storage may be older than that.
  std::unordered_map<item_id, std::pair<record_state, wall_time>> moved_;
  std::deque<item_id> moved_order_;
  std::array<std::optional<std::chrono::steady_clock::time_point>, record_states> purged_at_;  ///< by state
  std::vector<record> returned_;  ///< came back with this event, without the unique key they gave up when they started

  std::vector<finished_item> finished_;  ///< a ring
  std::size_t finished_next_ = 0;
  queue_totals totals_;
  queue_timings timings_;
  std::mt19937_64 random_;
};

}  // namespace caravan
