#pragma once

#include "actors/event/event_function.hpp"
#include "actors/event/event_shell.hpp"
#include "integration/redis/redis_nodes.hpp"
#include "nodes/log.hpp"
#include "nodes/mesh.hpp"

#include <caravan/event_port.hpp>

#include <caf/actor_system.hpp>

#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

namespace caravan {

/// The events of a node put together: door, bus, functions of the application, other nodes. Thread safe.
class event_host final : public event_port, public std::enable_shared_from_this<event_host> {
public:
  struct parts {
    node_log* log = nullptr;                ///< outlives stop()
    const toolbox::clock* clock = nullptr;  ///< lives for ever: handles of applications may outlive the node
    std::string node;                       ///< its name
    std::string run;                        ///< different for each start
  };
  /// Events are taken from now on, and told when the bus has begun.
  explicit event_host(parts p);
  ~event_host() override;
  event_host(const event_host&) = delete;
  event_host& operator=(const event_host&) = delete;

  /// `system` outlives stop().
  void begin(caf::actor_system& system);

  struct cluster {
    mesh* others = nullptr;  ///< outlives stop()
    /// All nodes, this one included. Blocks on Redis.
    std::function<expected<std::vector<node_entry>>()> nodes;
    std::chrono::milliseconds every{1'000};  ///< how often it is looked who is there
  };
  /// Tells other nodes what is wanted here, and tells here who comes and goes. Once.
  void join(cluster c);

  [[nodiscard]] event_sink& sink() { return *door_; }
  [[nodiscard]] const std::shared_ptr<event_door>& door() const { return door_; }
  /// Null before begin() and once it is stopped.
  [[nodiscard]] local_event_bus bus() const;

  expected<void> publish(event e, bool draft) override;
  expected<std::uint64_t> subscribe(event_filter filter, std::function<void(const event&)> function) override;
  void unsubscribe(std::uint64_t id) override;
  void gate(std::function<bool(const event&)> may_go_out) override;

  /// Waits for functions that run. Idempotent.
  void stop();

private:
  struct peer {
    std::string incarnation;
    std::string address;
    caf::strong_actor_ptr bus;
    bool under_way = false;  ///< it is looked for, or asked
    bool again = false;      ///< something changed meanwhile
  };
  void watch(const std::stop_token& stop);
  void see(const std::vector<node_entry>& all);
  void speak();
  void found(const std::string& name, const std::string& incarnation, expected<caf::strong_actor_ptr> bus);
  void answered(const std::string& name, const std::string& incarnation, bool ok);

  const parts parts_;
  const std::shared_ptr<event_door> door_;
  caf::actor_system* system_ = nullptr;
  cluster cluster_;

  mutable std::mutex mutex_;
  local_event_bus bus_;
  std::map<std::uint64_t, std::shared_ptr<event_function>> functions_;
  std::map<std::string, peer> peers_;  ///< other nodes that are alive, by name
  bool saw_any_ = false;
  bool changed_ = false;  ///< what is wanted here
  bool stopped_ = false;
  std::condition_variable_any wake_;
  std::jthread thread_;
};

}  // namespace caravan
