#pragma once

#include "actors/event/event_core.hpp"
#include "actors/event/event_sink.hpp"
#include "toolbox/clock.hpp"

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace caravan {

/// Who gets events. Called on the bus's thread only; must not block.
class event_receiver {
public:
  enum class next : std::uint8_t {
    ready,       ///< takes more at once
    will_tell,   ///< not before event_door::ready() was called for it
    look_again,  ///< not before is_ready(), which is asked every 50 ms
    gone,        ///< never again
  };
  virtual ~event_receiver() = default;
  /// Before the first take().
  virtual void begin(event_subscriber_id) {}
  virtual next take(const std::string& run, event_core::handed some) = 0;
  [[nodiscard]] virtual bool is_ready() { return true; }
};

/// What the bus is told, in the order it came.
struct event_order {
  enum class kind : std::uint8_t { event, remote, subscribe, unsubscribe, ready, gate };
  kind what = kind::event;
  event news{};
  bool draft = false;
  event_subscriber_id id = 0;
  event_wish wish{};
  std::shared_ptr<event_receiver> receiver{};
  std::function<bool(const event&)> gate{};
};

/// The way into the bus of a node's events, for any thread. Whatever comes in waits in one line until the bus takes it;
/// events beyond the limit are refused and counted, so that a publisher never waits. No CAF.
class event_door final : public event_sink {
public:
  /// `clock` outlives the door.
  explicit event_door(const toolbox::clock& clock, std::size_t most_waiting = 10'000);

  [[nodiscard]] bool wants(event_topic t) const noexcept override {
    return (wanted_.load(std::memory_order_relaxed) >> static_cast<unsigned>(t) & 1u) != 0;
  }
  void tell(event_topic t, std::string subject, std::string body) noexcept override;

  /// queue_full: too many wait. queue_closed: after close().
  expected<void> publish(event e, bool draft);
  /// What another node told. Beyond the limit they are dropped.
  void publish_remote(std::vector<event> events);

  /// From here on events count as wanted. The filters are checked.
  event_subscriber_id subscribe(event_wish wish, std::shared_ptr<event_receiver> to);
  /// Its receiver may be called once more while this returns.
  void unsubscribe(event_subscriber_id id);
  void replace(event_subscriber_id id, event_wish wish);
  /// See event_receiver::next::will_tell.
  void ready(event_subscriber_id id);
  void gate(std::function<bool(const event&)> may_go_out);

  /// What this node's own subscribers want: for other nodes.
  [[nodiscard]] std::vector<event_filter> wishes() const;
  /// `wake`: called when the line is not empty any more. `changed`: what wishes() answers did. Both on any thread, and
  /// must not block; set them before others use the door, and again (empty) before what they use goes.
  void connect(std::function<void()> wake, std::function<void()> changed);
  /// Everything that waits. The bus is woken again by the next that comes.
  void take(std::vector<event_order>& into);
  void close();
  [[nodiscard]] bool closed() const { return closed_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t refused() const { return refused_.load(std::memory_order_relaxed); }

private:
  void put(event_order&& order, std::unique_lock<std::mutex>& lock);
  void reckon();

  const toolbox::clock& clock_;
  const std::size_t most_waiting_;
  std::atomic<std::uint64_t> wanted_{0};
  std::atomic<std::uint64_t> refused_{0};
  std::atomic<bool> closed_{false};

  mutable std::mutex mutex_;
  std::vector<event_order> waiting_;
  std::size_t events_waiting_ = 0;
  std::map<event_subscriber_id, event_wish> wishes_;  ///< without positions
  event_subscriber_id next_id_ = 1;
  std::mutex calling_;  ///< held while a function runs, so that connect() ends them
  std::function<void()> wake_;
  std::function<void()> changed_;
};

}  // namespace caravan
