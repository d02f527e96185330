#pragma once

/// Events without the types of what they carry. Applications start at events.hpp.

#include <caravan/error.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

namespace caravan {

struct event {
  std::string topic;    ///< "queue.paused"; what applications publish begins with "app."
  std::string subject;  ///< what it is about: the name of a queue, a task, a lock, a node; may be empty
  std::string node;     ///< where it happened
  std::chrono::sys_time<std::chrono::milliseconds> at{};
  std::string body;  ///< JSON text
};

/// Which events a subscriber wants.
struct event_filter {
  /// Words with dots between; `*` stands for one word, a last `#` for any number of them: "queue.*", "job.dead", "#".
  std::string topic = "#";
  std::string subject{};  ///< empty: any
};

/// What `events` stands on. Thread safe; may outlive its node, and answers queue_closed then.
class event_port {
public:
  virtual ~event_port() = default;
  virtual expected<void> publish(event e, bool draft) = 0;
  virtual expected<std::uint64_t> subscribe(event_filter filter, std::function<void(const event&)> function) = 0;
  virtual void unsubscribe(std::uint64_t id) = 0;
  virtual void gate(std::function<bool(const event&)> may_go_out) = 0;
};

}  // namespace caravan
