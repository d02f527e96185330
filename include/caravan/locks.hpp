#pragma once

/// Locks by name, of one node or of all nodes that share a Redis ([global_lock]). Made by a node: node::locks().
///
///   auto held = node.locks().lock("invoice:17");
///   if (!held) return held.failure();                    // conflict: it stayed taken; backend_failed: Redis is away
///   store.write(invoice, held->token());                 // the store refuses a token below one that it has seen
///
/// A lock that expires can be lost while its holder believes to have it: the process was frozen, Redis was out of
/// reach. Three things help, from weak to strong: lost() is a stop token that is tripped then, valid() asks the clock
/// right now, and token() only grows from holder to holder of a key, so that what is written to can refuse an outdated
/// one. Only the last one is proof against everything. docs/locks.md shows how.

#include <caravan/error.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace caravan {

/// Every field is optional.
struct lock_options {
  static constexpr std::chrono::milliseconds no_end = std::chrono::milliseconds::max();

  std::stop_token stop{};                      ///< ends the waiting, not the holding
  std::chrono::milliseconds timeout = no_end;  ///< of the waiting; 0 or less: as try_lock, but taken is conflict
  /// 0: held until released, renewed meanwhile. Else it ends after this unless extend() is called.
  std::chrono::milliseconds lease{0};
  /// Who asks; shown in lists. The same owner gets again what it holds, at once, and releases as often as it locked.
  /// Empty: an owner of its own for every call.
  std::string owner{};
  std::uint64_t session = 0;  ///< lock_session::id(); the session is the owner then
};

/// One grant, behind a lock_handle. Thread safe.
class lock_hold {
public:
  virtual ~lock_hold() = default;
  [[nodiscard]] virtual const std::string& key() const = 0;
  [[nodiscard]] virtual std::uint64_t token() const = 0;
  [[nodiscard]] virtual std::stop_token lost() = 0;
  [[nodiscard]] virtual bool valid() const = 0;
  [[nodiscard]] virtual std::chrono::milliseconds remaining() const = 0;
  virtual expected<void> extend() = 0;
  virtual expected<void> release() = 0;
};

/// The right to a lock. The destructor releases it. Made empty it holds nothing, and everything may be called all the
/// same. One thread at a time, but lost() and valid().
class lock_handle {
public:
  lock_handle() = default;
  explicit lock_handle(std::shared_ptr<lock_hold> hold) : hold_(std::move(hold)) {}
  lock_handle(lock_handle&&) noexcept = default;
  lock_handle& operator=(lock_handle&& other) noexcept {
    if (this != &other) {
      drop();
      hold_ = std::move(other.hold_);
    }
    return *this;
  }
  ~lock_handle() { drop(); }

  /// Something was got, whatever became of it since.
  explicit operator bool() const noexcept { return hold_ != nullptr; }
  [[nodiscard]] std::string key() const { return hold_ ? hold_->key() : std::string(); }
  /// Grows with every grant of the key, over restarts and failovers too. 0: nothing is held.
  [[nodiscard]] std::uint64_t token() const { return hold_ ? hold_->token() : 0; }
  /// Tripped when the lock is lost, before anybody else can have it (as far as clocks run alike); not by release().
  [[nodiscard]] std::stop_token lost() const { return hold_ ? hold_->lost() : std::stop_token(); }
  /// Held now, by the clock: right also in a process that was frozen a moment ago.
  [[nodiscard]] bool valid() const { return hold_ && hold_->valid(); }
  /// How long it is held at least if nothing renews it; milliseconds::max(): until it is released. 0: not any more.
  [[nodiscard]] std::chrono::milliseconds remaining() const {
    return hold_ ? hold_->remaining() : std::chrono::milliseconds{0};
  }
  /// Counts its time anew. fenced: it was lost. backend_failed: it runs on as it did.
  expected<void> extend() {
    return hold_ ? hold_->extend() : expected<void>(errc::fenced, "an empty lock handle holds nothing to extend");
  }
  /// Safe twice, and when nothing is held. fenced: it had been lost before, so what was done under it may not have been
  /// alone. backend_failed: it is released as soon as the backend answers again, at the latest when it expires.
  expected<void> release() {
    const auto hold = std::exchange(hold_, nullptr);
    return hold ? hold->release() : expected<void>();
  }

private:
  void drop() noexcept {
    if (const auto hold = std::exchange(hold_, nullptr)) {
      try {
        (void)hold->release();
      } catch (...) {  // out of memory: it expires
      }
    }
  }
  std::shared_ptr<lock_hold> hold_;
};

/// One who waits or holds, as lists show it.
struct lock_user {
  std::string node{};                             ///< its node; empty: a program that is no node (a foreign value)
  std::string owner{};                            ///< known of this node's own only
  std::chrono::system_clock::time_point since{};  ///< of this node's own only
};
struct lock_info {
  std::string key{};
  lock_user holder{};
  std::uint64_t token = 0;
  std::optional<std::chrono::milliseconds> remaining{};  ///< nothing: held until released
  std::chrono::milliseconds lease{0};                    ///< of this node's own: 0 is renewed until released
  std::vector<lock_user> waiters{};                      ///< in their order; the first 100
  std::size_t waiting = 0;                               ///< all of them
};

/// What locks stand on. Thread safe; calls that ask a Redis block for a bounded time, lock() as its options say.
class lock_port {
public:
  virtual ~lock_port() = default;
  /// Null: taken, where `wait` is false.
  virtual expected<std::shared_ptr<lock_hold>> lock(std::string_view key, const lock_options& options, bool wait) = 0;
  virtual expected<void> release(std::string_view key, std::string_view owner) = 0;
  [[nodiscard]] virtual bool held_by(std::string_view key, std::string_view owner) const = 0;
  virtual expected<std::vector<lock_info>> list(std::size_t most) = 0;
  virtual expected<std::optional<lock_info>> find(std::string_view key) = 0;
  virtual expected<bool> force_release(std::string_view key) = 0;
  virtual expected<std::uint64_t> open_session(std::chrono::milliseconds ttl) = 0;
  virtual expected<void> keep_session(std::uint64_t id) = 0;
  virtual void close_session(std::uint64_t id) = 0;
  [[nodiscard]] virtual std::optional<std::chrono::milliseconds> session_remaining(std::uint64_t id) const = 0;
  [[nodiscard]] virtual std::stop_token session_ended(std::uint64_t id) const = 0;
};

/// A lease of a client on all it locks: when it ends, everything that it holds is free and whatever it waits for is
/// refused. Lives `ttl` from the last keep_alive(); the destructor closes it.
class lock_session {
public:
  lock_session() = default;
  lock_session(std::shared_ptr<lock_port> port, std::uint64_t id) : port_(std::move(port)), id_(id) {}
  lock_session(lock_session&& other) noexcept
      : port_(std::move(other.port_)), id_(std::exchange(other.id_, std::uint64_t{0})) {}
  lock_session& operator=(lock_session&& other) noexcept {
    if (this != &other) {
      close();
      port_ = std::move(other.port_);
      id_ = std::exchange(other.id_, std::uint64_t{0});
    }
    return *this;
  }
  ~lock_session() { close(); }

  [[nodiscard]] std::uint64_t id() const noexcept { return id_; }
  /// fenced: it has ended.
  expected<void> keep_alive() {
    return port_ ? port_->keep_session(id_) : expected<void>(errc::fenced, "an empty lock session has ended");
  }
  /// Nothing: it has ended.
  [[nodiscard]] std::optional<std::chrono::milliseconds> remaining() const {
    return port_ ? port_->session_remaining(id_) : std::nullopt;
  }
  [[nodiscard]] std::stop_token ended() const { return port_ ? port_->session_ended(id_) : std::stop_token(); }
  void close() noexcept {
    if (const auto port = std::exchange(port_, nullptr)) port->close_session(id_);
  }

private:
  std::shared_ptr<lock_port> port_;
  std::uint64_t id_ = 0;
};

/// A handle; copies mean the same locks. Thread safe. Must not outlive its node: calls then answer queue_closed.
///
/// Answers that all calls share: conflict (taken, or the waiting was ended), fenced (lost, not the owner's, or the
/// session ended), backend_failed (Redis does not answer), queue_closed (the node stops), invalid_argument (a key has
/// 1 to 512 bytes, none of them a control character).
class locks {
public:
  locks() = default;
  explicit locks(std::shared_ptr<lock_port> port) : port_(std::move(port)) {}

  /// Waits its turn. Those who wait get it in the order in which they came, on whichever node they wait.
  expected<lock_handle> lock(std::string_view key, const lock_options& options = {}) {
    return to_handle(port_->lock(key, options, true));
  }
  /// Answers at once. An empty handle: taken, or others wait for it already.
  expected<lock_handle> try_lock(std::string_view key, const lock_options& options = {}) {
    return to_handle(port_->lock(key, options, false));
  }

  /// Calls `f`, with the handle if it takes one, and returns what it returns. What it throws is passed on. The lock is
  /// released in any case. An `f` that returns expected<X> makes this expected<X>: its errors are passed on.
  template <class F>
  auto lock_and_do(std::string_view key, F&& f, const lock_options& options = {}) {
    using answer = wrapped<F>;
    auto held = lock(key, options);
    if (!held) return answer(held.failure());
    return run<answer>(std::forward<F>(f), *held);
  }
  /// False: taken, and `f` was not called. An error that `f` returns is passed on.
  template <class F>
  expected<bool> try_lock_and_do(std::string_view key, F&& f, const lock_options& options = {}) {
    auto held = try_lock(key, options);
    if (!held) return held.failure();
    if (!*held) return false;
    const auto done = run<wrapped<F>>(std::forward<F>(f), *held);
    if (!done) return done.failure();
    return true;
  }

  /// Releases what `owner` holds, once. fenced: it does not hold it.
  expected<void> release(std::string_view key, std::string_view owner) { return port_->release(key, owner); }
  [[nodiscard]] bool held_by(std::string_view key, std::string_view owner) const { return port_->held_by(key, owner); }
  /// How long the key is held if nobody renews it; milliseconds::max(): until it is released. Nothing: it is free.
  expected<std::optional<std::chrono::milliseconds>> remaining(std::string_view key) {
    auto info = port_->find(key);
    if (!info) return info.failure();
    if (!*info) return std::optional<std::chrono::milliseconds>();
    return std::optional((*info)->remaining.value_or(std::chrono::milliseconds::max()));
  }
  /// Who holds and who waits, by key.
  expected<std::vector<lock_info>> list(std::size_t most = 1000) { return port_->list(most); }
  /// Nothing: it is free.
  expected<std::optional<lock_info>> find(std::string_view key) { return port_->find(key); }
  /// Takes it from whoever holds it; the next in line gets it. The holder notices at its next renewal. False: it was
  /// free.
  expected<bool> force_release(std::string_view key) { return port_->force_release(key); }
  expected<lock_session> open_session(std::chrono::milliseconds ttl = std::chrono::seconds{60}) {
    auto id = port_->open_session(ttl);
    if (!id) return id.failure();
    return lock_session(port_, *id);
  }

private:
  template <class T>
  struct wrap {
    using type = expected<T>;
  };
  template <class T>
  struct wrap<expected<T>> {
    using type = expected<T>;
  };
  template <class F>
  static auto call(F&& f, lock_handle& held) {
    if constexpr (std::is_invocable_v<F, lock_handle&>)
      return std::forward<F>(f)(held);
    else
      return std::forward<F>(f)();
  }
  template <class F>
  using wrapped = typename wrap<decltype(call(std::declval<F>(), std::declval<lock_handle&>()))>::type;

  template <class Answer, class F>
  static Answer run(F&& f, lock_handle& held) {
    if constexpr (std::is_void_v<decltype(call(std::forward<F>(f), held))>) {
      call(std::forward<F>(f), held);
      return Answer();
    } else {
      return Answer(call(std::forward<F>(f), held));
    }
  }
  static expected<lock_handle> to_handle(expected<std::shared_ptr<lock_hold>> got) {
    if (!got) return got.failure();
    return lock_handle(std::move(*got));
  }

  std::shared_ptr<lock_port> port_;
};

}  // namespace caravan
