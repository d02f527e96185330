#pragma once

#include "messages/event_words.hpp"

#include <string>

namespace caravan {

/// Where actors and hosts say what happens. From any thread; never waits and never throws.
///
///   if (events && events->wants(event_topic::job_failed)) events->tell(event_topic::job_failed, id, body);
class event_sink {
public:
  virtual ~event_sink() = default;
  /// An atomic load. False: nobody listens, and it is not worth keeping.
  [[nodiscard]] virtual bool wants(event_topic t) const noexcept = 0;
  /// `body`: JSON text, an object. Dropped (counted) when too many wait.
  virtual void tell(event_topic t, std::string subject, std::string body) noexcept = 0;
};

}  // namespace caravan
