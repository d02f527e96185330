#pragma once

/// Which of the queues in one Redis this node owns.

#include "integration/redis/redis_client.hpp"

#include <caravan/error.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace caravan {

/// One thread tries for, renews and gives up the places of all shared queues of this node; another listens.
/// A call to Redis that hangs delays the others by a second at most: then none of them would have fared better.
class ownership {
public:
  /// What a queue is told, one call at a time. None must throw. After remove() none comes any more.
  struct listener {
    std::function<bool(std::uint64_t epoch)> owned;    ///< this node owns it from now on; may take a while. False: it cannot after all
    std::function<void()> lost;                        ///< another owns it, or may soon; must not block
    std::function<void(const std::string&)> held_by;   ///< what the owner's node says of itself, see node_text
    std::function<void()> look_again;                  ///< others pushed, or it may hand out again; must not block
    std::function<void(const std::string&)> trouble;   ///< Redis does not answer (said again while so); empty: it does
  };
  /// The place of one queue.
  class place {
  public:
    virtual ~place() = default;
    /// Nobody else owns it at this moment. From any thread.
    [[nodiscard]] virtual bool certain() const noexcept = 0;
    /// Somebody says that another owns it: to be made sure. From any thread, does not block.
    virtual void doubt() = 0;
  };

  /// `node_text`: what others see, the node's name first; different for each start of a node.
  ownership(redis_options options, std::string node_text, std::chrono::milliseconds lease);
  ~ownership();
  ownership(const ownership&) = delete;
  ownership& operator=(const ownership&) = delete;

  [[nodiscard]] std::shared_ptr<place> add(const std::string& queue_full_name, listener on);
  /// From now on the place is tried for.
  void begin(const std::shared_ptr<place>& which);
  /// Waits for a call under way. The place stays this node's until give_up() or the end of its lease.
  void remove(const std::shared_ptr<place>& which);
  /// Frees it at once for others, after remove().
  void give_up(const std::shared_ptr<place>& which);

  /// For the queues' data.
  [[nodiscard]] const std::shared_ptr<redis_client>& client() const noexcept;

private:
  class impl;
  std::unique_ptr<impl> impl_;
};

}  // namespace caravan
