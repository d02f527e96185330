#pragma once

#include "actors/event/event_sink.hpp"
#include "config/queue_settings.hpp"
#include "integration/runner.hpp"
#include "integration/storage.hpp"
#include "messages/queue_actor.hpp"
#include "nodes/log.hpp"
#include "toolbox/clock.hpp"

#include <caravan/queue_port.hpp>

#include <caf/actor_system.hpp>

#include <cstdint>
#include <memory>
#include <string>

namespace caravan {

class mesh;
class ownership;
struct cluster_parts;

/// A queue as its node registers it.
class hosted_queue : public queue_port {
public:
  [[nodiscard]] virtual std::uint64_t id() const = 0;
  [[nodiscard]] virtual const config::queue_settings& settings() const = 0;
  /// Of C++ queues, else empty.
  [[nodiscard]] virtual std::string item_type() const = 0;
  /// Stops claiming, waits SHUTDOWN_TIMEOUT, closes the storage. Returns how many handlers still run.
  virtual std::size_t stop() = 0;
  /// Starts handling its items here. conflict: it has a handler already.
  virtual expected<void> attach(std::shared_ptr<runner> handler, const std::string& item_type) = 0;
  /// The actor to ask; null for a queue that has none (dummy).
  [[nodiscard]] virtual queue_actor actor() const = 0;
  [[nodiscard]] virtual worker_pool_actor pool() const = 0;
  /// The actor that decides about the items, if it lives on this node; else null.
  [[nodiscard]] virtual queue_actor owned_actor() const { return actor(); }
  /// For maintenance. Null where the storage is shared or there is none; it answers queue_closed once the queue stopped.
  [[nodiscard]] virtual std::shared_ptr<storage> local_storage() const { return nullptr; }
  /// What is wrong with its storage now; empty: nothing.
  [[nodiscard]] virtual std::string trouble_text() const = 0;
};

struct host_parts {
  caf::actor_system* system = nullptr;      ///< outlives the queue
  node_log* log = nullptr;                  ///< likewise
  const toolbox::clock* clock = nullptr;    ///< likewise
  std::string node;                         ///< its name
  std::uint64_t id = 0;
  config::queue_settings settings;
  std::shared_ptr<runner> handler;          ///< null: nothing is handled here
  std::string item_type;
  std::shared_ptr<ownership> shared;        ///< TYPE = redis: who owns what there
  std::shared_ptr<cluster_parts> cluster;   ///< JOIN: the other nodes; null: this node stands alone
  mesh* others = nullptr;                   ///< TYPE = redis: the way to other nodes; outlives the queue
  std::shared_ptr<event_sink> events{};     ///< may be null
};

/// TYPE = level and channel. May wait up to 10 s for another process to leave a folder.
[[nodiscard]] expected<std::shared_ptr<storage>> open_storage(const host_parts& parts);

/// Opens the storage (which may wait up to 10 s for another process to leave it) and spawns the actors.
[[nodiscard]] expected<std::shared_ptr<hosted_queue>> host_queue(host_parts parts);

/// TYPE = dummy: the handler runs inside push; without one the item is dropped.
[[nodiscard]] std::shared_ptr<hosted_queue> make_immediate_queue(host_parts parts);

/// `store` as ENCRYPT says, if it says anything.
[[nodiscard]] expected<std::unique_ptr<storage>> sealed_as_set(std::unique_ptr<storage> store, const host_parts& parts);

[[nodiscard]] unique_policy policy_of(const config::queue_settings& s);
/// A draft as a record; delays count from `now`.
[[nodiscard]] record to_record(item_draft&& draft, wall_time now);
/// Why a push cannot be meant, whatever the queue is like: invalid_argument names the field.
[[nodiscard]] expected<void> check_options(const push_options& options, const std::string& queue);
/// `pool` may be null: nothing is handled here.
[[nodiscard]] queue_info to_queue_info(const hosted_queue& queue, const queue_status& status, const pool_status* pool);
[[nodiscard]] job_info to_job_info(const job_status& status);

}  // namespace caravan
