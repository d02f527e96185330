#pragma once

/// Where locks live: who holds a key, and who waits for it in which order.

#include <caravan/error.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace caravan {

/// Names one wish for a lock from the asking to the release. Random, so that nobody else can extend or release it.
using lock_id = std::uint64_t;

struct lock_take {
  std::string key;
  lock_id id = 0;
  std::chrono::milliseconds expiry{0};  ///< 0: until released (only where the store's locks do not expire)
  bool wait = false;                    ///< stand in line when it cannot be had at once
};
struct lock_taken {
  enum class kind : std::uint8_t { granted, queued, busy };
  kind what = kind::busy;
  std::uint64_t token = 0;             ///< granted
  std::uint64_t place = 0;             ///< queued: where in line; for beat()
  std::chrono::milliseconds again{0};  ///< queued: look again then, if nothing came
};

struct lock_renewal {
  std::string key;
  lock_id id = 0;
  std::chrono::milliseconds expiry{0};
  std::uint64_t token = 0;  ///< the one that was last told of it
};

struct lock_ref {
  std::string key;
  lock_id id = 0;
};

struct lock_ticket {
  std::string key;
  lock_id id = 0;
  std::uint64_t place = 0;
};
struct lock_seen {
  lock_id id = 0;
  std::uint64_t token = 0;             ///< not 0: it is this one's turn, the key is kept for it for a while
  std::chrono::milliseconds again{0};  ///< else: look again then
};

struct lock_place {
  std::string node{};  ///< empty: no node's
  lock_id id = 0;
};
struct lock_view {
  std::string key{};
  lock_place holder{};
  std::uint64_t token = 0;
  std::optional<std::chrono::milliseconds> remaining{};  ///< nothing: until released
  std::vector<lock_place> waiters{};                     ///< the first 100
  std::size_t waiting = 0;
};

/// Thread safe where blocks() says so, else the caller's turn to order the calls. Every call may run twice with the
/// same arguments with the same outcome. Each passes tests/contract/lock_store_contract.hpp.
///
/// backend_failed: unknown whether it was done. queue_closed: after close().
class lock_store {
public:
  virtual ~lock_store() = default;

  /// Grants a key that nobody holds and, where has_line(), nobody alive waits for. Tokens of a key only grow, whatever
  /// the store forgot.
  virtual expected<lock_taken> take(const lock_take& wish) = 0;

  /// Counts the time of each anew, also of one whose turn has just come. Answers the token of each, which may be
  /// another than was told: a turn can pass, and come again. 0: it is not this one's any more.
  virtual expected<std::vector<std::uint64_t>> renew(std::span<const lock_renewal> held) = 0;

  /// Gives the key to the next in line, or frees it; also leaves the line. False: it was not this one's.
  virtual expected<bool> release(const lock_ref& held) = 0;

  /// This node is alive and waits for these, each in its old place, even when the store had forgotten it. Keys that are
  /// free go to the first in line. One answer a ticket, in their order.
  virtual expected<std::vector<lock_seen>> beat(std::span<const lock_ticket> waiting) = 0;

  /// Takes the key from whoever holds it. False: it was free.
  virtual expected<bool> force(std::string_view key) = 0;

  /// Nothing: free, and nobody waits.
  virtual expected<std::optional<lock_view>> show(std::string_view key) = 0;
  /// At most so many, by key.
  virtual expected<std::vector<lock_view>> list(std::size_t most) = 0;

  /// It is the turn of one of this node's. Before any other call. A store that blocks calls it on a thread of its own,
  /// may call it twice or never; beat() finds what it missed, so it calls it with the id 0 when messages may have been
  /// lost. Others call it within release() and force().
  using granted_function = std::function<void(const std::string& key, lock_id id, std::uint64_t token)>;
  virtual void on_granted(granted_function f) = 0;

  /// Who waits gets a free key in the order of coming, on whichever node. False: nobody is told of a turn; each beat()
  /// tries anew for the first of this node's on each key, so what it answers as `again` is a pause between tries.
  [[nodiscard]] virtual bool has_line() const noexcept { return true; }
  /// Its calls wait for somebody else, and its locks expire unless they are renewed.
  [[nodiscard]] virtual bool blocks() const noexcept = 0;
  /// How others call this node.
  [[nodiscard]] virtual const std::string& node() const noexcept = 0;
  /// Calls that are under way end.
  virtual void close() = 0;
};

}  // namespace caravan
