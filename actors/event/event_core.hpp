#pragma once

#include "messages/event_words.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace caravan {

using event_subscriber_id = std::uint64_t;

/// An event as this node tells it. Shared by all who get it; nobody changes it.
struct told_event {
  std::uint64_t number = 0;  ///< grows by one with each event of this node's run
  event what;
};
using event_ptr = std::shared_ptr<const told_event>;

/// Which events a subscriber gets, and from where on.
struct event_wish {
  std::vector<event_filter> filters;
  bool is_node = false;  ///< another node: what happened here; the filters are for what happens often
  std::size_t buffer = 1'000;
  /// Goes on behind that event; what is still kept comes first.
  struct position {
    std::string run;
    std::uint64_t number = 0;
  };
  std::optional<position> after{};
};

/// Decides which events go out, and to whom. No CAF, no I/O, no clock. Not thread safe.
///
/// A subscriber has a buffer of its own: where it is full the oldest event gives way and is counted, so that a slow one
/// costs a bounded amount of memory, sees what is new, and knows what it missed. The last events are kept for those who
/// come back, what happens often apart from the rest, which it would push out.
class event_core {
public:
  struct limits {
    std::size_t kept = 1'000;
    std::size_t kept_often = 1'000;
    std::size_t topics = 1'000;  ///< that are counted; further ones count as one, "(others)"
  };
  /// `run` tells the starts of a node apart.
  event_core(std::string node, std::string run, limits l);
  event_core(std::string node, std::string run) : event_core(std::move(node), std::move(run), limits{}) {}

  enum class fate : std::uint8_t { told, draft, held_back };
  /// `ready`: subscribers that have something to take now, of those that are not busy.
  fate on_event(event e, bool draft, std::vector<event_subscriber_id>& ready);
  /// One that another node told; it has been through the gate there.
  void on_remote(event e, std::vector<event_subscriber_id>& ready);

  /// A known id: the wish is replaced, what is buffered stays.
  void add(event_subscriber_id id, event_wish wish);
  void remove(event_subscriber_id id);

  struct handed {
    std::vector<event_ptr> events;
    std::uint64_t dropped = 0;  ///< before these
    bool gap = false;           ///< the position it wanted to go on from is not kept any more: unknown many are missing
    [[nodiscard]] bool empty() const { return events.empty() && dropped == 0 && !gap; }
  };
  /// At most `most` events, and about `most_bytes`, but at least one. Empty: there is nothing, or it is busy.
  [[nodiscard]] handed take(event_subscriber_id id, std::size_t most, std::size_t most_bytes);
  /// A busy one is not said to be ready.
  void set_busy(event_subscriber_id id, bool busy);
  [[nodiscard]] bool known(event_subscriber_id id) const { return subscribers_.contains(id); }
  [[nodiscard]] bool has_some(event_subscriber_id id) const;

  /// False: the event stays here. What it throws counts as false. Empty: all but drafts go out.
  void gate(std::function<bool(const event&)> may_go_out) { gate_ = std::move(may_go_out); }

  /// The newest `most`, the newest last.
  [[nodiscard]] event_list recent(const std::vector<event_filter>& filters, std::size_t most) const;
  /// Without `refused`, which is not known here.
  [[nodiscard]] event_status status() const;
  [[nodiscard]] const std::string& run() const { return run_; }

private:
  struct subscriber {
    event_wish wish;
    std::deque<event_ptr> buffer;
    std::uint64_t dropped = 0;
    bool gap = false;
    bool busy = false;
  };
  void tell(event&& e, bool from_here, std::vector<event_subscriber_id>& ready);
  void put(subscriber& s, const event_ptr& e);
  void catch_up(subscriber& s, const event_wish::position& after);
  /// Everything kept, the oldest first.
  [[nodiscard]] std::vector<event_ptr> all_kept() const;

  const std::string node_;
  const std::string run_;
  const limits limits_;
  std::function<bool(const event&)> gate_;
  std::map<event_subscriber_id, subscriber> subscribers_;
  std::deque<event_ptr> kept_;
  std::deque<event_ptr> kept_often_;
  std::uint64_t next_number_ = 1;
  std::uint64_t forgotten_through_ = 0;  ///< the highest number that was kept once and is not any more
  std::map<std::string, std::uint64_t> counts_;
  std::uint64_t drafts_ = 0;
  std::uint64_t held_back_ = 0;
  std::uint64_t dropped_ = 0;
};

}  // namespace caravan
