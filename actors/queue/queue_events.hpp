#pragma once

#include "actors/event/event_sink.hpp"
#include "actors/queue/queue_core.hpp"

#include <memory>
#include <string>
#include <vector>

namespace caravan {

/// What a queue's actor tells about itself and its items. The subject is the queue. Without a sink it tells nothing.
class queue_events {
public:
  queue_events() = default;
  queue_events(std::shared_ptr<event_sink> to, std::string queue) : to_(std::move(to)), queue_(std::move(queue)) {}

  /// Before the core takes them.
  void pushed(const std::vector<record>& items) const;
  /// What the core decided on a batch's answer, before it is carried out: what it erases was handled.
  void handled(const queue_effects& fx) const;
  /// After each event of the core, before it is carried out.
  void decided(const queue_effects& fx, const queue_core& core, const std::string& paused_by);
  void purged(record_state state, std::uint64_t count) const;
  void changed(item_id job, bool retried) const;
  /// Empty: it is over.
  void trouble(const std::string& text) const;

private:
  [[nodiscard]] bool wants(event_topic t) const { return to_ && to_->wants(t); }

  std::shared_ptr<event_sink> to_;
  std::string queue_;
  queue_phase phase_ = queue_phase::running;
  std::uint64_t failed_ = 0;
};

}  // namespace caravan
