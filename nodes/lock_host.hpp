#pragma once

#include "actors/lock/local_locks.hpp"
#include "config/lock_settings.hpp"
#include "messages/lock_actor.hpp"
#include "nodes/log.hpp"
#include "toolbox/clock.hpp"

#include <caravan/locks.hpp>

#include <caf/actor_system.hpp>

#include <memory>
#include <mutex>
#include <string>

namespace caravan {

struct lock_host_parts {
  caf::actor_system* system = nullptr;    ///< outlives the host
  node_log* log = nullptr;                ///< likewise
  const toolbox::clock* clock = nullptr;  ///< lives for ever: handles of applications may outlive the node
  std::string node;                       ///< its name
  config::lock_settings settings;
  std::shared_ptr<event_sink> events{};  ///< may be null
};

/// The locks of a node put together: store, door, actor. Thread safe.
class lock_host {
public:
  /// Connects to Redis where SERVICE_TYPE says so, which may take 10 s.
  static expected<std::unique_ptr<lock_host>> open(lock_host_parts parts);
  ~lock_host();
  lock_host(const lock_host&) = delete;
  lock_host& operator=(const lock_host&) = delete;

  [[nodiscard]] locks face() const { return locks(door_); }
  /// Null once it is stopped.
  [[nodiscard]] lock_manager_actor actor() const;
  [[nodiscard]] const config::lock_settings& settings() const { return settings_; }
  /// What is wrong with the store now; empty: nothing.
  [[nodiscard]] std::string trouble_text() const { return door_->trouble(); }

  /// Refuses who waits, trips the stop tokens of what is held, and lets go of what was locked by message. Idempotent.
  void stop();

private:
  lock_host(const lock_host_parts& parts, std::shared_ptr<local_locks> door);

  caf::actor_system* const system_;
  const config::lock_settings settings_;
  const std::shared_ptr<local_locks> door_;
  mutable std::mutex mutex_;
  lock_manager_actor actor_;
};

}  // namespace caravan
