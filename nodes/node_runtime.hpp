#pragma once

#include "config/ini.hpp"
#include "config/node_settings.hpp"
#include "nodes/cache_host.hpp"

#include "nodes/claim_host.hpp"
#include "nodes/event_host.hpp"
#include "nodes/limit_host.hpp"
#include "nodes/home_queue.hpp"
#include "nodes/lock_host.hpp"
#include "nodes/log.hpp"
#include "nodes/queue_host.hpp"
#include "toolbox/clock.hpp"

#include <caravan/cron.hpp>
#include <caravan/error.hpp>
#include <caravan/node.hpp>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace caravan {

namespace http {
class server;
}

class audit_log;
class cron_host;
class node_watch;

/// What is wrong with the HANDLERs of the configured queues: commands and URLs that no handler can be made of.
[[nodiscard]] config::problems check_handlers(const config::ini& from);
/// What is wrong with the actions of the configured tasks: commands, URLs and items that are none.
[[nodiscard]] config::problems check_tasks(const config::ini& from);

/// A node put together: settings, log, actor system, queues, HTTP. The public class `node` and the command line stand on
/// this. Thread safe once constructed.
class node_runtime {
public:
  /// Reads and checks the configuration, opens the queues that it names, and serves HTTP where `options` says so.
  /// Throws caravan::exception: nothing is left running then.
  explicit node_runtime(const node_options& options);
  ~node_runtime();
  node_runtime(const node_runtime&) = delete;
  node_runtime& operator=(const node_runtime&) = delete;

  enum class uniqueness : std::uint8_t { simple, unique, as_configured };
  /// A queue that is open already and has no handler gets this one; conflict when both have one, or when it is open with
  /// the other uniqueness.
  expected<std::shared_ptr<hosted_queue>> create(const std::string& name, uniqueness unique, std::shared_ptr<runner> handler,
                                                 const std::string& item_type);

  /// Null when there is none.
  [[nodiscard]] std::shared_ptr<hosted_queue> find(std::string_view name) const;
  [[nodiscard]] std::shared_ptr<hosted_queue> find(std::uint64_t id) const;
  /// For a push from outside: a queue that no section names is made here where AUTO_CREATE permits it; else not_found
  /// with the nearest right name.
  expected<std::shared_ptr<hosted_queue>> find_or_create(const std::string& name);
  /// In the order of their ids.
  [[nodiscard]] std::vector<std::shared_ptr<hosted_queue>> all() const;

  /// The tasks that run at set times.
  [[nodiscard]] std::shared_ptr<cron_port> tasks() const;
  /// Sections of tasks without an action, for which no function was added (yet).
  [[nodiscard]] std::vector<std::string> tasks_without_function() const;
  /// How long stop() waits for runs of tasks.
  [[nodiscard]] std::chrono::milliseconds tasks_patience() const;

  [[nodiscard]] lock_host& locks() { return *locks_; }
  [[nodiscard]] const std::shared_ptr<event_host>& events() const { return events_; }
  /// Jobs for workers outside this process.
  [[nodiscard]] claim_host& claims() { return *claims_; }

  /// Empty: it takes and hands out work. Else what is wrong, one sentence each.
  [[nodiscard]] std::vector<std::string> not_ready() const;

  /// Where queues of this node are shared; more than one where they name different Redis. Empty: this node stands alone.
  [[nodiscard]] std::vector<std::shared_ptr<ownership>> shared_places() const;

  /// Nodes that joined by address; null: none do.
  [[nodiscard]] membership* members() const { return members_.get(); }
  /// Moves of queues away from this node, where nodes joined by address.
  [[nodiscard]] std::vector<kept_move> moves() const { return moves_ ? moves_->last() : std::vector<kept_move>{}; }

  /// Stops HTTP, then the tasks, then every queue. Returns how many handlers still run.
  std::size_t stop();

  [[nodiscard]] const config::settings& settings() const { return settings_; }
  [[nodiscard]] const config::ini& configuration() const { return ini_; }
  [[nodiscard]] cache_host& caches() { return *caches_; }
  [[nodiscard]] const limit_host& limits() const { return *limits_; }
  [[nodiscard]] node_log& log() { return *log_; }
  [[nodiscard]] caf::actor_system& system() { return *system_; }
  [[nodiscard]] const toolbox::clock& clock() const { return toolbox::real_clock::shared(); }
  [[nodiscard]] std::uint16_t http_port() const;
  /// While HTTP is served.
  [[nodiscard]] node_watch& watch() { return *watch_; }
  [[nodiscard]] audit_log& audit() { return *audit_; }
  [[nodiscard]] std::chrono::system_clock::time_point started_at() const { return started_at_; }

private:
  void start_mesh();
  expected<void> join();
  [[nodiscard]] std::vector<home_claim> home_claims() const;
  void members_changed();
  void hand_queues_over();
  void start_http();
  expected<std::shared_ptr<hosted_queue>> open(config::queue_settings s, std::shared_ptr<runner> handler,
                                               const std::string& item_type);
  [[nodiscard]] error no_such_queue(std::string_view name) const;
  [[nodiscard]] expected<std::vector<node_entry>> nodes_there() const;
  /// Of the Redis that this connection string names; the first call connects, which may take 10 s.
  expected<std::shared_ptr<ownership>> ownership_at(const std::string& conn_str);

  config::ini ini_;
  const std::string incarnation_;       ///< of this start, for other nodes
  config::settings settings_;
  std::unique_ptr<node_log> log_;
  std::shared_ptr<event_host> events_;
  std::unique_ptr<cache_host> caches_;
  std::unique_ptr<limit_host> limits_;
  std::unique_ptr<caf::actor_system_config> caf_config_;
  std::unique_ptr<caf::actor_system> system_;
  std::unique_ptr<lock_host> locks_;
  std::unique_ptr<claim_host> claims_;
  std::shared_ptr<cron_host> cron_;
  std::unique_ptr<audit_log> audit_;
  std::unique_ptr<node_watch> watch_;
  std::unique_ptr<http::server> http_;
  std::chrono::system_clock::time_point started_at_ = std::chrono::system_clock::now();

  mutable std::mutex mutex_;
  // Before the mesh: until that ends other nodes ask about them.
  std::map<std::string, std::shared_ptr<hosted_queue>, std::less<>> queues_;
  std::unique_ptr<home_book> book_;
  std::unique_ptr<move_log> moves_;
  std::unique_ptr<membership> members_;  ///< JOIN
  std::unique_ptr<mesh> mesh_;          ///< where queues are shared, or nodes joined
  std::map<std::string, std::shared_ptr<ownership>> ownerships_;  ///< by the Redis; under opening_
  mutable std::mutex opening_;  ///< one queue is opened at a time; look-ups do not wait for that
  std::uint64_t next_id_ = 1;
  bool stopping_ = false;
};

}  // namespace caravan
