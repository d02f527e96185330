#pragma once

#include "integration/lock_store.hpp"

#include <caravan/error.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace caravan {

struct lock_limits {
  std::chrono::milliseconds expiry{30'000};    ///< LOCK_EXPIRY: of what is renewed; renewed at half of it
  std::chrono::milliseconds beat{3'000};       ///< a node that waits says so this often
  std::chrono::milliseconds retry{1'000};      ///< pause after a call that failed
  std::chrono::milliseconds patience{30'000};  ///< who waits is refused when the store failed for this long
  bool expires = true;                         ///< false: the store keeps a lock until it is released
  std::size_t most_waiting = 100'000;          ///< on this node
};

/// What somebody wants of a node's locks.
struct lock_request {
  std::string key;
  std::string owner{};
  std::string label{};  ///< for lists; does not make an owner
  std::uint64_t session = 0;
  std::chrono::milliseconds lease{0};
  bool wait = false;
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  bool attended = true;  ///< somebody here has a handle that will release it, also when the locks are closed
};

/// What the door has to do after an event. The core adds to it; the door carries it out and empties it. Losses come
/// first, so that nobody is granted what another still believes to have.
struct lock_effects {
  using time_point = std::chrono::steady_clock::time_point;
  struct ending {
    lock_id id = 0;
    error why;
  };
  std::vector<ending> lost;
  std::vector<lock_id> granted;
  std::vector<ending> refused;
  std::vector<lock_id> extended;  ///< core.find() has the new time
  std::vector<lock_take> take;
  std::vector<lock_ref> give_back;  ///< until it succeeds or the store must have forgotten it
  std::vector<lock_renewal> renew;
  std::vector<lock_ticket> beat;     ///< all that wait
  std::vector<std::uint64_t> ended;  ///< sessions

  [[nodiscard]] bool empty() const {
    return lost.empty() && granted.empty() && refused.empty() && extended.empty() && take.empty() &&
           give_back.empty() && renew.empty() && beat.empty() && ended.empty();
  }
};

/// Decides about the locks of one node: who waits, who holds until when, what to ask of the store next. The store alone
/// knows the order across nodes. Not thread safe; time comes in.
///
/// A lock that is renewed counts from when the request that was answered had been *sent*, and ends here a margin before
/// it does in the store: so it is lost here before anybody else can have it, as long as clocks run alike.
class lock_core {
public:
  using time_point = std::chrono::steady_clock::time_point;
  static constexpr auto never = time_point::max();

  lock_core(lock_limits limits, std::uint64_t seed);

  enum class stage : std::uint8_t {
    asking,    ///< the store was asked
    queued,    ///< stands in the store's line
    claiming,  ///< its turn has come; the store is told that somebody is there
    held,
    closed,  ///< held when the locks were closed: lost, but its handle will release it
  };
  struct entry {
    lock_request what;
    stage at = stage::asking;
    std::uint64_t token = 0;
    std::uint64_t place = 0;
    time_point since{};           ///< asked; once held: granted
    time_point expires = never;   ///< held
    time_point renew_at = never;  ///< held
    time_point timer = never;     ///< its place in timers_
    std::uint32_t count = 1;      ///< how often its owner has it
    bool renewing = false;
  };

  /// pending: ask the store (take_of), then tell taken(). The id is that of the hold when granted.
  struct answer {
    enum class kind : std::uint8_t { pending, granted, refused };
    kind what = kind::pending;
    lock_id id = 0;
    error why{};
  };
  answer acquire(lock_request r, time_point now);
  [[nodiscard]] lock_take take_of(lock_id id) const;
  /// The store's answer to take_of(id), which was sent at `sent`.
  answer taken(lock_id id, const std::string& key, time_point sent, const expected<lock_taken>& got, time_point now,
               lock_effects& fx);
  /// The store says that it is this one's turn.
  void woken(lock_id id, const std::string& key, std::uint64_t token, time_point now, lock_effects& fx);
  /// Of one of fx.renew, or of renewal_of(): the token, 0 when it is not ours any more.
  void renewed(lock_id id, time_point sent, const expected<std::uint64_t>& token, time_point now, lock_effects& fx);
  void beaten(time_point sent, const expected<std::vector<lock_seen>>& seen, time_point now, lock_effects& fx);
  /// The store's messages may have been missed.
  void deaf(time_point now);
  void tick(time_point now, lock_effects& fx);
  [[nodiscard]] time_point wake_at() const;

  /// Ends the waiting; nothing when it waits no more.
  void cancel(lock_id id, error why, lock_effects& fx);
  enum class released : std::uint8_t {
    whole,    ///< tell the store
    part,     ///< its owner has it still
    late,     ///< it was lost; tell the store all the same
    unknown,  ///< it was lost before, or released
  };
  released release(lock_id id);
  /// Nothing: it holds nothing of that name.
  [[nodiscard]] lock_id held_by(const std::string& key, const std::string& owner) const;
  [[nodiscard]] std::optional<lock_renewal> renewal_of(lock_id id) const;
  /// It was taken away by an operator.
  void revoke(lock_id id, lock_effects& fx);

  std::uint64_t open_session(std::chrono::milliseconds ttl, time_point now);
  bool keep_session(std::uint64_t id, time_point now);
  void close_session(std::uint64_t id, lock_effects& fx);
  [[nodiscard]] std::optional<std::chrono::milliseconds> session_remaining(std::uint64_t id, time_point now) const;

  /// Refuses all who wait and all who come; what is held is lost.
  void close(lock_effects& fx);

  /// Null: neither waits nor holds.
  [[nodiscard]] const entry* find(lock_id id) const;
  [[nodiscard]] const std::unordered_map<lock_id, entry>& all() const { return entries_; }
  [[nodiscard]] std::size_t waiting() const { return waiting_; }
  [[nodiscard]] const lock_limits& limits() const { return limits_; }

private:
  struct session {
    std::chrono::milliseconds ttl{0};
    time_point expires;
  };
  using iterator = std::unordered_map<lock_id, entry>::iterator;

  lock_id new_id();
  [[nodiscard]] std::chrono::milliseconds expiry_of(const entry& e) const;
  [[nodiscard]] static std::chrono::milliseconds margin_of(std::chrono::milliseconds expiry);
  [[nodiscard]] bool alive(const entry& e) const { return e.at == stage::held || e.at == stage::closed; }
  void set_timer(lock_id id, entry& e);
  void set_time(entry& e, time_point sent);
  void become_held(lock_id id, entry& e, time_point sent, time_point now);
  void join_line(lock_id id, entry& e, std::uint64_t place, time_point again);
  void leave_line(lock_id id);
  void claim(lock_id id, entry& e, std::uint64_t token, lock_effects& fx);
  void ask_again(lock_id id, entry& e, lock_effects& fx);
  void lose(iterator at, error why, bool give_back, lock_effects& fx);
  void refuse(iterator at, error why, lock_effects& fx);
  void erase(iterator at);
  void due(lock_id id, time_point now, lock_effects& fx);
  void end_session(std::uint64_t id, lock_effects& fx);

  const lock_limits limits_;
  std::mt19937_64 random_;
  std::unordered_map<lock_id, entry> entries_;
  std::unordered_map<std::string, lock_id> owners_;  ///< key, NUL, owner: what is held and may be had again
  std::unordered_map<std::uint64_t, session> sessions_;
  std::set<std::pair<time_point, std::uint64_t>> timers_;  ///< of entries and sessions
  std::unordered_set<lock_id> queued_;
  std::size_t waiting_ = 0;
  time_point beat_at_ = never;
  time_point failing_since_ = never;
  bool beating_ = false;
  bool closed_ = false;
};

}  // namespace caravan
