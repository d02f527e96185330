#pragma once

#include "integration/storage.hpp"
#include "messages/record.hpp"
#include "toolbox/clock.hpp"

#include <caravan/error.hpp>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace caravan {

/// The door of a queue: admits items, stores them on the caller's thread, and tells the queue's actor what is there.
///
/// An actor's mailbox would cost each push two thread switches. Here the callers that wait at the same time elect one
/// who writes for all (group commit); the actor is woken once for all that came since it last looked.
/// Thread safe. No CAF: `wake` is how the actor learns that take() has something.
class intake {
public:
  struct limits {
    std::string queue;                       ///< its name, for error texts
    std::size_t length = 100'000;            ///< most items waiting or delayed
    std::size_t max_item_size = 1 << 20;     ///< bytes of one payload
    std::chrono::milliseconds push_timeout{5000};
    bool unique = false;
  };

  /// `outstanding`: what the storage holds already, waiting and delayed. `wake` is called without a lock held, from
  /// pushing threads; it must not block.
  intake(std::shared_ptr<storage> store, limits l, std::size_t outstanding, std::function<void()> wake,
         const toolbox::clock& clock);

  enum class when_full : std::uint8_t {
    wait,    ///< up to push_timeout for room
    refuse,  ///< queue_full at once
  };

  /// Stores all records that are admitted, or none. Answers one result a record, or:
  /// queue_full (there was no room for all of them), queue_closed, too_large, invalid_argument, backend_failed.
  /// Those that were stored are moved out of `records`, which keep their ids. Blocks on the engine, and for room where `full` says so.
  expected<std::vector<append_result>> push(std::span<record> records, when_full full = when_full::wait);

  /// Brings in what other nodes pushed, as if it had been pushed here. Returns how many. Blocks on the engine.
  expected<std::size_t> adopt();
  /// Somebody says that others pushed. True: nobody said so since the last adopt(), so call it.
  [[nodiscard]] bool want_adopt() { return !adopt_wanted_.exchange(true); }

  /// What was stored since the last call, in id order, in place of what `into` held. For the queue's actor, after
  /// every wake; handing the same vector in again saves allocations.
  void take(std::vector<record>& into);

  /// How many more items fit now.
  [[nodiscard]] std::size_t room() const;
  /// Makes room for `n` more items; negative: less.
  void add_room(std::ptrdiff_t n);

  /// Refuses pushes from now on, those that wait for room included; pushes that are being written finish. Returns when
  /// none is being written any more, so that what take() then gives is all.
  void close(error why);
  void open();
  /// While held, pushes find no room: they wait, or are refused as when it is full. Returns when none is being written
  /// any more, so that what take() then gives is all.
  void hold(bool held);

private:
  struct request {
    std::span<record> records;
    expected<std::vector<append_result>> answer{std::vector<append_result>{}};
    bool done = false;
  };

  expected<void> admit(std::unique_lock<std::mutex>& lock, std::size_t n, when_full full);
  void write_group(std::unique_lock<std::mutex>& lock);
  void write(std::span<request*> group);
  void announce_adopted(std::vector<record>&& adopted);
  void wake_if_needed(std::unique_lock<std::mutex>& lock);

  const std::shared_ptr<storage> store_;
  const limits limits_;
  const std::function<void()> wake_;
  const toolbox::clock& clock_;

  mutable std::mutex mutex_;
  std::condition_variable room_changed_;
  std::condition_variable written_;
  std::size_t outstanding_;
  std::vector<request*> pending_;
  std::vector<request*> group_;     ///< only the writer touches it
  std::vector<record> joined_;      ///< only the writer touches it
  std::vector<record> announced_;
  std::atomic<bool> adopt_wanted_{false};
  bool writing_ = false;
  bool woken_ = false;
  bool closed_ = false;
  bool held_ = false;
  error closed_because_;
};

}  // namespace caravan
