#pragma once

/// The way from this node to the others.

#include "messages/queue_actor.hpp"
#include "nodes/peer/peer_door.hpp"

#include <caravan/error.hpp>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace caravan {

/// Where a node can be reached, as it says of itself: "HOST:PORT".
struct mesh_peer {
  std::string name;
  std::string incarnation;
  std::string address;
};

/// Whether anybody listens at HOST:PORT; empty: yes, else why not. At most half a second, and what the resolver takes.
[[nodiscard]] std::string probe_address(const std::string& address);

/// Loads CAF's modules. Before the actor system exists.
void prepare_mesh(caf::actor_system_config& config);

/// Publishes this node's actor and finds queues on others. One thread of its own makes what may block.
///
/// Connections are made by a peer_door and then handed to CAF. One that CAF calls good may be dead: a hello proves it.
class mesh {
public:
  struct options {
    std::string name;
    std::string incarnation;
    std::string host;        ///< to listen on
    std::uint16_t port = 0;  ///< 0: any free one
    peer_tls tls;
    std::vector<std::string> nodes;                       ///< who may join, by name; empty: any
    std::function<void(const std::string&)> turned_away;  ///< a connection that was refused, for the log
    /// The actor of a queue that this node owns; null when it does not. Called on an actor's thread, must not block.
    std::function<queue_actor(const std::string&)> own_queue;
  };
  /// Throws caravan::exception when the port is taken or TLS is missing where it is needed.
  mesh(caf::actor_system& system, options o);
  /// No answer comes after it.
  ~mesh();
  mesh(const mesh&) = delete;
  mesh& operator=(const mesh&) = delete;

  /// "HOST:PORT" for others.
  [[nodiscard]] const std::string& address() const noexcept;

  /// Asks `peer` for a queue. The answer comes once, on the mesh's thread: not_found (it does not own it), conflict
  /// (another node answers there), backend_failed (not reachable), not_supported (it speaks another protocol). Not
  /// before `delay` has passed.
  void find(mesh_peer peer, std::string queue, std::chrono::milliseconds delay,
            std::function<void(expected<queue_actor>)> answer);

private:
  class impl;
  std::unique_ptr<impl> impl_;
};

}  // namespace caravan
