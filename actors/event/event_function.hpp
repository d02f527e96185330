#pragma once

#include "actors/event/event_door.hpp"

#include <functional>
#include <memory>
#include <string>

namespace caravan {

/// A function of the application that gets events, on a thread of its own. What it throws is told and counted, and it
/// gets the next event all the same.
class event_function final : public event_receiver {
public:
  /// `complain` is called on the function's thread.
  event_function(std::shared_ptr<event_door> door, std::function<void(const event&)> function,
                 std::function<void(const std::string&)> complain);
  ~event_function() override;

  void begin(event_subscriber_id id) override;
  next take(const std::string& run, event_core::handed some) override;
  /// When it returns the function does not run any more, unless it is the function that calls. Idempotent.
  void close();

private:
  struct work;
  const std::shared_ptr<work> work_;
};

}  // namespace caravan
