#pragma once

/// CAF's way to the other nodes: its connections come from a peer_door instead of from ports of its own.

#include "nodes/peer/peer_door.hpp"

#include <caf/actor_system.hpp>
#include <caf/io/middleman_actor.hpp>

#include <memory>
#include <string>

namespace caravan {

class peer_middleman {
public:
  /// As peer_door, whose `passed` is set here. CAF's middleman must be loaded. Throws as peer_door does.
  peer_middleman(caf::actor_system& system, peer_door::options o);
  /// Publish nothing any more before.
  ~peer_middleman();
  peer_middleman(const peer_middleman&) = delete;
  peer_middleman& operator=(const peer_middleman&) = delete;

  /// Speaks CAF's own middleman protocol: publish (one actor, at port()), connect, unpublish.
  [[nodiscard]] const caf::io::middleman_actor& actor() const noexcept;
  [[nodiscard]] std::uint16_t port() const noexcept;
  /// Why the last connect to that place failed: CAF's own errors do not say. Empty: it did not. Thread safe.
  [[nodiscard]] std::string trouble(const std::string& host, std::uint16_t port) const;

private:
  struct shared;
  std::shared_ptr<shared> shared_;
  caf::io::middleman_actor actor_;
};

}  // namespace caravan
