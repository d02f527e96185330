#pragma once

/// Which of the queues in one Redis this node owns.

#include "integration/redis/redis_client.hpp"
#include "integration/redis/redis_nodes.hpp"

#include <caravan/error.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace caravan {

/// One thread tries for, renews and gives up the places of all shared queues of this node; another listens.
/// A call to Redis that hangs delays the others by a second at most: then none of them would have fared better.
class ownership {
public:
  /// What a queue is told, one call at a time. None must throw. After remove() none comes any more.
  struct listener {
    std::function<bool(std::uint64_t epoch)>
        owned;                   ///< this node owns it from now on; may take a while. False: it cannot after all
    std::function<void()> lost;  ///< another owns it, or may soon; must not block
    std::function<void(const std::string&)>
        held_by;                       ///< what the owner's node says of itself: "NAME INCARNATION ADDRESS", or a name
    std::function<void()> look_again;  ///< others pushed, or it may hand out again; must not block
    std::function<void(const std::string&)> trouble;  ///< Redis does not answer (said again while so); empty: it does
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

  /// `me` is told to others for as long as this lives.
  ownership(redis_options options, node_entry me, std::chrono::milliseconds lease);
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
  /// Frees it for one other node, and stays in line behind that. backend_failed: it may have been freed or not; its
  /// lease decides.
  expected<void> hand_over(const std::shared_ptr<place>& which, const std::string& to);

  /// Takes over no more queues, or does again.
  void cordon(bool on);
  [[nodiscard]] bool cordoned() const;
  /// Where this node serves HTTP, for people.
  void tell_http(std::string address);
  /// All nodes on this Redis. Blocks on it.
  [[nodiscard]] expected<std::vector<node_entry>> nodes();

  /// For the queues' data.
  [[nodiscard]] const std::shared_ptr<redis_client>& client() const noexcept;

private:
  class impl;
  std::unique_ptr<impl> impl_;
};

}  // namespace caravan
