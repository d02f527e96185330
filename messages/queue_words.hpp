#pragma once

/// What queues, worker pools and their users say to each other. Plain: no CAF here.

#include "messages/batch.hpp"
#include "messages/record.hpp"
#include "messages/time_histogram.hpp"

#include <caravan/error.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace caravan {

/// Names a worker pool; unique in the cluster, new at every start.
using pool_id = std::uint64_t;

/// How a pool's death is noticed: a local one dies with its queue or is reported at once, so its leases need no
/// renewal; a remote one must renew.
enum class pool_kind : std::uint8_t { local = 0, remote = 1 };

enum class queue_phase : std::uint8_t {
  running = 0,
  paused = 1,
  draining = 2,  ///< refuses pushes, hands out the rest
  stopping = 3,  ///< hands out nothing more, waits for what runs
  stopped = 4,
  standby = 5,   ///< another node owns it, and cannot be asked from here
};
[[nodiscard]] constexpr std::string_view to_string(queue_phase p) {
  switch (p) {
    case queue_phase::running: return "running";
    case queue_phase::paused: return "paused";
    case queue_phase::draining: return "draining";
    case queue_phase::stopping: return "stopping";
    case queue_phase::stopped: return "stopped";
    case queue_phase::standby: return "standby";
  }
  return "unknown";
}

/// A pool has this much more room than it said before. The queue never sends more than was asked for.
struct demand {
  pool_id pool = 0;
  std::uint32_t idle = 0;      ///< batches for workers that wait: sent as soon as there is an item
  std::uint32_t prefetch = 0;  ///< batches for workers that are busy: sent only when full
  std::uint32_t most = 0;      ///< items in one batch of this pool from now on; 0: BATCH_LENGTH
  bool anew = false;           ///< instead of all room that the pool stated before
};

/// How a batch ended. Items that `rest` does not name were handled.
struct batch_done {
  pool_id pool = 0;
  std::uint64_t token = 0;
  batch_result rest;
  bool handed_back = false;  ///< the pool is stopping: `rest` was not tried, so no attempt is counted
  std::uint32_t idle = 0;    ///< as in demand: new room that comes with this answer
  std::uint32_t prefetch = 0;
};

/// These batches are still being worked on.
struct renew_leases {
  pool_id pool = 0;
  std::vector<std::uint64_t> tokens;
};

/// What became of an item that is no longer in the storage.
struct finished_item {
  enum class kind : std::uint8_t { handled = 0, removed = 1, purged = 2, cancelled = 3 };
  item_id id;
  kind what = kind::handled;
  std::uint32_t attempts = 0;  ///< failed ones before
  wall_time at{};
};

/// Since the queue's actor started.
struct queue_totals {
  std::uint64_t pushed = 0;
  std::uint64_t handled = 0;
  std::uint64_t failed = 0;         ///< attempts, not items
  std::uint64_t returned = 0;       ///< unhandled, handed back, or not now
  std::uint64_t died = 0;           ///< items that became dead
  std::uint64_t removed = 0;        ///< deleted or purged
  std::uint64_t leases_lost = 0;
  std::uint64_t stale_answers = 0;  ///< refused, since the item had been started again
  std::uint64_t redelivered = 0;    ///< items handed out a second time or later
};

// ---- requests to a queue ----

struct ack {};

/// What a pool has to say about several of its batches, where it must know whether that counted.
struct report_batches {
  pool_id pool = 0;
  std::vector<batch_done> done;
  std::vector<std::uint64_t> lost;  ///< whoever had them gave no sign of life: as if their leases had run out
  std::vector<std::uint64_t> keep;  ///< still worked on: their leases are renewed
};
struct batches_reported {
  bool attached = false;               ///< the queue knows the pool; if not, it has to attach again
  std::vector<std::uint64_t> refused;  ///< of `done` and `keep`: what is not the pool's any more; nothing changed
};

/// Asks a queue to keep items, all or none. Answered by push_results, in the same order.
struct push_items {
  std::vector<record> items;
};
struct pushed_item {
  item_id id;           ///< of the item, or of the one that was there before
  bool stored = false;
  bool repeated = false;  ///< its idempotency key was seen before: as good as stored
};
struct push_results {
  std::vector<pushed_item> items;
};

struct pause_queue {
  wall_time until{};    ///< wall_time{}: until it is resumed
  std::string by;       ///< who asked, for the operator
};
struct resume_queue {};
struct drain_queue {};
/// Answered when nothing waits and nothing runs. Negative: forgets what waits instead.
struct flush_queue {
  std::chrono::milliseconds timeout{0};
};
struct purge_queue {
  record_state state = record_state::waiting;
};
struct purged_count {
  std::uint64_t count = 0;
};
/// Hands out nothing more and waits up to `timeout` for what runs; 0: first runs all that waits, once.
struct stop_queue {
  std::chrono::milliseconds timeout{0};
};
struct get_queue_status {};
struct find_job {
  item_id id;
};
/// cancel: where a handler has the item, it is asked to stop, and whatever else than success it answers ends the item.
enum class job_change : std::uint8_t { retry = 0, remove = 1, cancel = 2 };
struct change_job {
  item_id id;
  job_change what = job_change::retry;
};
/// Which jobs of a state are meant: those to which all of it applies.
struct job_filter {
  std::string error;      ///< a part of the last error; empty: any
  std::string key;        ///< the unique key or the order key; empty: any
  wall_time pushed_before{};  ///< none: any time
  std::int32_t priority_least = INT32_MIN;
  std::int32_t priority_most = INT32_MAX;
};
/// Changes all jobs of a state that match, in order, beginning after a place. Looks at `most` rows and answers how far it
/// came: whoever wants the rest asks again from there.
struct change_jobs {
  record_state state = record_state::dead;
  job_change what = job_change::retry;
  job_filter filter;
  wall_time after_sort = wall_time::min();
  item_id after_id;
  item_id through;           ///< no job above this id; 0: any
  std::uint32_t most = 1'000;
  bool count_only = false;   ///< nothing is changed
};
struct jobs_changed {
  std::uint64_t seen = 0;
  std::uint64_t matched = 0;
  std::uint64_t changed = 0;  ///< the rest changed by itself a moment ago
  wall_time after_sort = wall_time::min();
  item_id after_id;
  bool more = false;         ///< there may be more after that place
};
/// Jobs of one state in order, after a place.
struct list_jobs {
  record_state state = record_state::waiting;
  wall_time after_sort = wall_time::min();
  item_id after_id;
  std::uint32_t limit = 100;
};

/// Where a job stands.
enum class job_phase : std::uint8_t { waiting = 0, delayed = 1, running = 2, dead = 3, handled = 4, removed = 5, purged = 6, cancelled = 7 };
[[nodiscard]] constexpr std::string_view to_string(job_phase p) {
  switch (p) {
    case job_phase::waiting: return "waiting";
    case job_phase::delayed: return "delayed";
    case job_phase::running: return "running";
    case job_phase::dead: return "dead";
    case job_phase::handled: return "handled";
    case job_phase::removed: return "removed";
    case job_phase::purged: return "purged";
    case job_phase::cancelled: return "cancelled";
  }
  return "unknown";
}
struct job_status {
  job_phase phase = job_phase::waiting;
  record item;             ///< without payload once it is finished
  wall_time finished_at{};
};
struct job_list {
  std::vector<job_status> jobs;
};

struct queue_counts {
  std::uint64_t waiting = 0;
  std::uint64_t running = 0;
  std::uint64_t delayed = 0;
  std::uint64_t dead = 0;
  queue_totals totals;
  std::uint64_t done = 0;  ///< finished and kept
  std::uint64_t held = 0;
};

/// How long items waited and ran, since the queue's actor started.
struct queue_timings {
  time_histogram wait;         ///< from when it might be handed out until it was; each time it was handed out
  time_histogram run;          ///< from then until the answer; an item of a batch counts as long as the batch
  std::uint64_t rejected = 0;  ///< of the items that died: those that a handler rejected
};

struct queue_status {
  std::string name;
  queue_phase phase = queue_phase::running;
  wall_time paused_until{};
  std::string paused_by;
  queue_counts counts;
  std::uint32_t pools = 0;
  wall_time oldest_waiting{};  ///< when the item that is next in line was pushed; none: nothing waits
  std::string trouble;         ///< what is wrong with its storage now; empty: nothing
  std::string owner;           ///< the node that hosts it
  queue_timings timings;
};

/// The owner of a shared queue is to hand it over to another node. Answered when it has begun.
struct move_queue {
  std::string to;
  std::string by;  ///< who asked, for people
};
template <class I>
typename I::result_type inspect(I& f, move_queue& x) {
  return f(x.to, x.by);
}

/// Which item holds a unique key.
struct find_key {
  key_digest digest;
};
struct found_key {
  item_id holder;  ///< 0: nobody
};
template <class I>
typename I::result_type inspect(I& f, find_key& x) {
  return f(x.digest);
}
template <class I>
typename I::result_type inspect(I& f, found_key& x) {
  return f(x.holder);
}

// ---- worker pools ----

/// These calls are asked to stop: a job of theirs was cancelled.
struct stop_calls {
  std::vector<std::uint64_t> tokens;
};
struct get_pool_status {};
/// `most` < 1: no limit.
struct set_max_workers {
  std::int32_t most = 0;
};
struct stop_pool {
  std::chrono::milliseconds timeout{0};
};
struct pool_status {
  pool_id pool = 0;
  std::string node;
  std::string handler;
  std::uint32_t workers = 0;
  std::uint32_t active = 0;
  std::uint32_t abandoned = 0;
  std::int32_t max_workers = 0;  ///< 0: no limit
  std::string restraint;         ///< why the handler does not take all that it could now; empty: it does
};

// ---- how CAF reads and writes them ----
// CAF 0.17 writes fields by position: the order is the wire format. Append only, and raise wire_version.

constexpr std::uint32_t wire_version = 2;

// clang-format off
template <class I> typename I::result_type inspect(I& f, ack&) { return f(); }
template <class I> typename I::result_type inspect(I& f, demand& x) { return f(x.pool, x.idle, x.prefetch, x.most, x.anew); }
template <class I> typename I::result_type inspect(I& f, batch_done& x) { return f(x.pool, x.token, x.rest, x.handed_back, x.idle, x.prefetch); }
template <class I> typename I::result_type inspect(I& f, renew_leases& x) { return f(x.pool, x.tokens); }
template <class I> typename I::result_type inspect(I& f, report_batches& x) { return f(x.pool, x.done, x.lost, x.keep); }
template <class I> typename I::result_type inspect(I& f, batches_reported& x) { return f(x.attached, x.refused); }
template <class I> typename I::result_type inspect(I& f, push_items& x) { return f(x.items); }
template <class I> typename I::result_type inspect(I& f, pushed_item& x) { return f(x.id, x.stored, x.repeated); }
template <class I> typename I::result_type inspect(I& f, push_results& x) { return f(x.items); }
template <class I> typename I::result_type inspect(I& f, pause_queue& x) { return f(x.until, x.by); }
template <class I> typename I::result_type inspect(I& f, resume_queue&) { return f(); }
template <class I> typename I::result_type inspect(I& f, drain_queue&) { return f(); }
template <class I> typename I::result_type inspect(I& f, flush_queue& x) { return f(x.timeout); }
template <class I> typename I::result_type inspect(I& f, purge_queue& x) { return f(x.state); }
template <class I> typename I::result_type inspect(I& f, purged_count& x) { return f(x.count); }
template <class I> typename I::result_type inspect(I& f, stop_queue& x) { return f(x.timeout); }
template <class I> typename I::result_type inspect(I& f, get_queue_status&) { return f(); }
template <class I> typename I::result_type inspect(I& f, find_job& x) { return f(x.id); }
template <class I> typename I::result_type inspect(I& f, change_job& x) { return f(x.id, x.what); }
template <class I> typename I::result_type inspect(I& f, list_jobs& x) { return f(x.state, x.after_sort, x.after_id, x.limit); }
template <class I> typename I::result_type inspect(I& f, job_status& x) { return f(x.phase, x.item, x.finished_at); }
template <class I> typename I::result_type inspect(I& f, job_list& x) { return f(x.jobs); }
template <class I> typename I::result_type inspect(I& f, queue_totals& x) { return f(x.pushed, x.handled, x.failed, x.returned, x.died, x.removed, x.leases_lost, x.stale_answers, x.redelivered); }
template <class I> typename I::result_type inspect(I& f, queue_counts& x) { return f(x.waiting, x.running, x.delayed, x.dead, x.totals, x.done, x.held); }
template <class I> typename I::result_type inspect(I& f, time_histogram& x) { return f(x.counts, x.sum); }
template <class I> typename I::result_type inspect(I& f, queue_timings& x) { return f(x.wait, x.run, x.rejected); }
template <class I> typename I::result_type inspect(I& f, queue_status& x) { return f(x.name, x.phase, x.paused_until, x.paused_by, x.counts, x.pools, x.oldest_waiting, x.trouble, x.owner, x.timings); }
template <class I> typename I::result_type inspect(I& f, job_filter& x) { return f(x.error, x.key, x.pushed_before, x.priority_least, x.priority_most); }
template <class I> typename I::result_type inspect(I& f, change_jobs& x) { return f(x.state, x.what, x.filter, x.after_sort, x.after_id, x.through, x.most, x.count_only); }
template <class I> typename I::result_type inspect(I& f, jobs_changed& x) { return f(x.seen, x.matched, x.changed, x.after_sort, x.after_id, x.more); }
template <class I> typename I::result_type inspect(I& f, stop_calls& x) { return f(x.tokens); }
template <class I> typename I::result_type inspect(I& f, get_pool_status&) { return f(); }
template <class I> typename I::result_type inspect(I& f, set_max_workers& x) { return f(x.most); }
template <class I> typename I::result_type inspect(I& f, stop_pool& x) { return f(x.timeout); }
template <class I> typename I::result_type inspect(I& f, pool_status& x) { return f(x.pool, x.node, x.handler, x.workers, x.active, x.abandoned, x.max_workers, x.restraint); }
// clang-format on

}  // namespace caravan
