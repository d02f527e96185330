#pragma once

#include "messages/queue_words.hpp"

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace caravan {

/// Why the items of a call have failed that ran past its TIMEOUT.
[[nodiscard]] std::string timeout_text(std::chrono::milliseconds timeout);

/// What a pool's shell has to do after an event.
struct pool_effects {
  std::size_t start = 0;             ///< worker threads to start
  std::size_t retire = 0;            ///< idle worker threads to end
  std::vector<batch> run;            ///< for the next free worker
  std::vector<std::uint64_t> ask;    ///< calls (by token) whose stop token is to be tripped
  std::vector<std::uint64_t> abandon;  ///< calls that are not waited for any longer: their worker is lost
  std::vector<batch_done> done;      ///< for the queue
  demand more;                       ///< for the queue, when not zero
  bool stopped = false;              ///< nothing runs any more, or the pool gave up waiting
};

/// A call that a worker has begun.
struct running_call {
  std::uint64_t token = 0;
  std::chrono::steady_clock::time_point started;
};

/// Decides how many workers a pool has, how much it asks of its queue, and when a call has lasted too long.
/// No CAF, no threads, no clock. Not thread safe.
///
/// Workers grow from 0 when a batch finds none idle, up to the limit; one that was idle for `worker_idle` ends, but
/// never the last.
class worker_pool_core {
public:
  using time_point = std::chrono::steady_clock::time_point;

  struct limits {
    std::optional<unsigned> max_workers = 1;     ///< none: no limit
    std::chrono::milliseconds worker_idle{1000};
    std::chrono::milliseconds timeout{0};        ///< of one call; 0: none
    std::chrono::milliseconds grace{3000};       ///< after a timeout, before a call that does not end is abandoned
  };

  worker_pool_core(pool_id id, limits l) : id_(id), limits_(l) {}

  /// The queue knows the pool (again): all demand counts from zero.
  void on_attached(time_point now, pool_effects& fx);
  /// The queue lost the pool, or the pool is about to attach anew: asks for nothing until it is attached.
  void on_detached() { attached_ = false; }
  void on_batch(batch work, time_point now, pool_effects& fx);
  /// A handler call ended. Names every item that was not handled.
  void on_call_ended(std::uint64_t token, batch_result rest, std::chrono::nanoseconds took, time_point now, pool_effects& fx);
  /// `calls`: what runs now. Call it at next_wake() and after the limits changed.
  void on_tick(const std::vector<running_call>& calls, time_point now, pool_effects& fx);
  /// none: no limit. 0 still leaves one worker.
  void set_max_workers(std::optional<unsigned> most, time_point now, pool_effects& fx);

  /// A batch that no worker has begun and that was taken off the shelf again: the pool is about to stop.
  void hand_back_unstarted(const batch& work, pool_effects& fx);
  /// Takes no more. fx.stopped when the last call has ended, or at
  /// `deadline` plus a moment for handlers that stop when asked.
  void stop(const std::vector<running_call>& calls, time_point deadline, time_point now, pool_effects& fx);

  [[nodiscard]] std::optional<time_point> next_wake(const std::vector<running_call>& calls, time_point now) const;
  /// Tokens of all batches in hand, for the renewal of their leases.
  [[nodiscard]] std::vector<std::uint64_t> in_hand() const;

  [[nodiscard]] std::size_t workers() const { return workers_; }
  [[nodiscard]] std::size_t active() const { return calls_.size(); }
  [[nodiscard]] std::size_t abandoned() const { return abandoned_.size(); }
  [[nodiscard]] std::optional<unsigned> max_workers() const { return limits_.max_workers; }

private:
  struct call {
    std::size_t size = 0;
    std::chrono::milliseconds timeout{0};
    std::optional<time_point> asked;  ///< when it was asked to stop because of its timeout
  };

  [[nodiscard]] std::size_t limit() const;
  void ask_for_more(demand& d);
  void grow(pool_effects& fx);
  void free_worker(time_point now);
  void shrink(time_point now, pool_effects& fx);
  void check_stopped(time_point now, pool_effects& fx);

  pool_id id_;
  limits limits_;
  std::unordered_map<std::uint64_t, call> calls_;  ///< running, or waiting for a worker of this pool
  std::size_t workers_ = 0;
  std::unordered_set<std::uint64_t> abandoned_;  ///< calls that were given up and have not been heard of since
  std::deque<time_point> idle_since_;  ///< of idle workers; the longest idle first
  std::size_t granted_idle_ = 0;
  std::size_t granted_prefetch_ = 0;
  double usual_ns_ = 0;                ///< moving average of a call's time; 0: none yet
  bool attached_ = false;
  std::optional<time_point> stop_at_;
  bool asked_all_ = false;
  bool stopped_ = false;
};

}  // namespace caravan
