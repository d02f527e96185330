#pragma once

#include <caf/logger.hpp>

namespace caravan {

/// Stands in every scope where a thread that is not CAF's spawns or asks an actor, before any scoped_actor.
///
/// CAF leaves a reference to the system's logger in each such thread, and the system's destructor waits until all
/// references are gone. Without this a node could only be destroyed by the one thread that used it, and hung for ever
/// on any other.
class foreign_thread {
public:
  foreign_thread() = default;
  ~foreign_thread() { caf::logger::set_current_actor_system(nullptr); }
  foreign_thread(const foreign_thread&) = delete;
  foreign_thread& operator=(const foreign_thread&) = delete;
};

}  // namespace caravan
