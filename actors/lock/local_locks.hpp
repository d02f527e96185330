#pragma once

#include "actors/event/event_sink.hpp"
#include "actors/lock/lock_core.hpp"
#include "actors/store/trouble.hpp"
#include "integration/lock_store.hpp"
#include "toolbox/clock.hpp"

#include <caravan/locks.hpp>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

namespace caravan {

class lock_sign;

/// The door of a node's locks: threads of applications go through it, not through an actor, and so does the lock
/// manager's actor for those who ask by message. It feeds the core, calls the store and carries out what the core
/// decides. Thread safe. No CAF.
///
/// With a store that does not block everything happens on the calling thread, under one mutex. With one that does, the
/// caller's thread asks the store itself; renewals and beats have a thread of their own, so that no blocked call holds
/// them up, and what nobody waits for has another. One more thread keeps the time and never blocks.
class local_locks final : public lock_port, public std::enable_shared_from_this<local_locks> {
public:
  struct events {
    /// Something is wrong with the store, or well again (empty). On a thread of the door, without its mutex.
    std::function<void(const std::string& text)> trouble;
    /// A holder of this node lost its lock.
    std::function<void(const std::string& text)> lost;
  };

  static std::shared_ptr<local_locks> open(std::unique_ptr<lock_store> store, lock_limits limits,
                                           const toolbox::clock& clock = toolbox::real_clock::shared());
  ~local_locks() override;
  local_locks(const local_locks&) = delete;
  local_locks& operator=(const local_locks&) = delete;

  expected<std::shared_ptr<lock_hold>> lock(std::string_view key, const lock_options& options, bool wait) override;
  expected<void> release(std::string_view key, std::string_view owner) override;
  [[nodiscard]] bool held_by(std::string_view key, std::string_view owner) const override;
  expected<std::vector<lock_info>> list(std::size_t most) override;
  expected<std::optional<lock_info>> find(std::string_view key) override;
  expected<bool> force_release(std::string_view key) override;
  expected<std::uint64_t> open_session(std::chrono::milliseconds ttl) override;
  expected<void> keep_session(std::uint64_t id) override;
  void close_session(std::uint64_t id) override;
  [[nodiscard]] std::optional<std::chrono::milliseconds> session_remaining(std::uint64_t id) const override;
  [[nodiscard]] std::stop_token session_ended(std::uint64_t id) const override;

  /// What was got without a handle: nobody releases it unless told to, so it should have a lease.
  struct grant {
    lock_id id = 0;
    std::uint64_t token = 0;
    std::chrono::milliseconds remaining{0};  ///< milliseconds::max(): until released
  };
  using on_grant = std::function<void(expected<grant>)>;
  /// Never blocks. `then` is called once, at once or on a thread of the door; it must not block. Returns what cancel()
  /// takes.
  lock_id acquire(lock_request r, on_grant then);
  /// Ends a waiting; nothing when it has ended.
  void cancel(lock_id id);
  /// fenced: `id` does not hold `key` (any more).
  expected<void> release(const std::string& key, lock_id id);
  expected<grant> extend(const std::string& key, lock_id id);

  /// For callers that may not block: runs `work` on a thread of the door, or at once with a store that does not block.
  void post(std::function<void()> work);

  /// From now on. Returns when no earlier function runs any more; not from one of them.
  void report(events on);

  /// Where grants and their ends are told. Once, before others use the door.
  void tell_events(std::shared_ptr<event_sink> to) { events_ = std::move(to); }

  /// Refuses who waits and who comes; trips every stop token. Handles still release. Idempotent.
  void close();
  /// What is wrong with the store now; empty: nothing.
  [[nodiscard]] std::string trouble() const { return health_.text(); }
  [[nodiscard]] std::size_t waiting() const;
  [[nodiscard]] const std::string& node() const { return store_->node(); }

private:
  struct waiter {
    std::condition_variable changed;
    bool done = false;
    std::optional<error> why;
    on_grant then;  ///< of those who do not block
  };
  using lock_guard = std::unique_lock<std::mutex>;
  using time_point = lock_core::time_point;

  local_locks(std::unique_ptr<lock_store> store, lock_limits limits, const toolbox::clock& clock);
  void start();
  void keep_time();
  void keep_alive();
  void run_errands();

  [[nodiscard]] time_point now() const { return clock_.now(); }
  [[nodiscard]] std::shared_ptr<lock_hold> hand_out(lock_id id);
  [[nodiscard]] grant grant_of(lock_id id) const;
  lock_core::answer ask_store(lock_guard& lock, lock_id id, lock_effects& fx);
  /// Carries out, and whatever follows from that; gives the mutex back for callbacks and takes it again.
  void perform(lock_guard& lock, lock_effects& fx);
  void tell(event_topic t, const std::string& key, std::uint64_t token = 0) const;
  void settle(lock_id id, std::optional<error> why, std::vector<std::function<void()>>& later);
  void owe(lock_ref held);
  void note(const error* why);
  void drain_grants(lock_effects& fx);
  void trip(std::vector<lock_effects::ending>& lost, lock_guard& lock);
  expected<void> release_in_store(lock_guard& lock, const std::string& key, lock_id id);
  [[nodiscard]] lock_info with_details(const lock_view& view) const;

  const std::unique_ptr<lock_store> store_;
  const bool blocks_;
  const toolbox::clock& clock_;
  std::shared_ptr<event_sink> events_;
  std::mutex report_;  ///< held while a function of `on_` runs
  events on_;
  caravan::trouble health_;

  mutable std::mutex mutex_;
  lock_core core_;
  std::unordered_map<lock_id, std::shared_ptr<waiter>> waiters_;
  std::unordered_map<lock_id, std::shared_ptr<lock_sign>> signs_;
  mutable std::unordered_map<std::uint64_t, std::stop_source> sessions_;
  std::vector<std::pair<lock_ref, std::uint64_t>> granted_;  ///< by a store that does not block

  std::condition_variable time_changed_;
  time_point sleeping_until_ = lock_core::never;
  std::condition_variable alive_changed_;
  std::vector<lock_renewal> renew_;
  std::vector<lock_ticket> beat_;
  std::condition_variable errands_changed_;
  std::deque<std::function<void()>> errands_;
  struct debt {
    lock_ref held;
    time_point until;  ///< the store has forgotten it by then
  };
  std::deque<debt> owed_;  ///< releases that failed
  time_point owed_at_ = lock_core::never;
  std::atomic<bool> troubled_{false};
  bool stopping_ = false;
  std::vector<std::thread> threads_;

  friend class local_hold;
};

}  // namespace caravan
