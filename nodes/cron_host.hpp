#pragma once

#include "actors/cron/cron_shell.hpp"
#include "config/ini.hpp"
#include "nodes/cron_actions.hpp"
#include "nodes/log.hpp"
#include "nodes/queue_host.hpp"

#include <caravan/cron.hpp>

#include <caf/actor_system.hpp>

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace caravan {

struct cron_host_parts {
  caf::actor_system* system = nullptr;  ///< outlives stop()
  node_log* log = nullptr;              ///< likewise
  const toolbox::clock* clock = nullptr;
  const config::ini* configuration = nullptr;
  std::string node;  ///< its name
  std::string data_dir;
  std::string redis;  ///< CONN_STR of the Redis that the node uses; empty: none
  std::function<expected<std::shared_ptr<queue_port>>(const std::string&)> queue_of;
  std::function<std::vector<std::shared_ptr<hosted_queue>>()> queues;
  std::shared_ptr<event_sink> events{};  ///< may be null
};

/// The tasks of a node. Until a section or the application defines one, or somebody runs a built-in one, there is no
/// actor, no thread and no folder. Thread safe; stop() before what the parts point to goes.
class cron_host final : public cron_port {
public:
  /// Longest wait for runs at a stop.
  static constexpr std::chrono::milliseconds stop_patience{10'000};

  explicit cron_host(cron_host_parts parts);
  ~cron_host() override;
  cron_host(const cron_host&) = delete;
  cron_host& operator=(const cron_host&) = delete;

  /// Registers what the configuration and the library define, and begins if a section defines something.
  expected<void> begin();
  /// Sections that have no action, for which no function was added (yet).
  [[nodiscard]] std::vector<std::string> without_function() const;
  [[nodiscard]] bool active() const;
  /// What is wrong with the store; empty: nothing.
  [[nodiscard]] std::string trouble_text() const;
  /// Asks runs to stop and waits for them. Returns how many functions still run.
  std::size_t stop();

  expected<void> add(const std::string& name, task_options options, task_function function) override;
  expected<std::vector<task_info>> list() override;
  expected<task_info> find(const std::string& task) override;
  expected<std::vector<task_event>> history(const std::string& task) override;
  expected<void> run(const std::string& task, const std::string& who) override;
  expected<void> skip_next(const std::string& task, const std::string& who) override;
  expected<void> pause(const std::string& task, const std::string& who) override;
  expected<void> resume(const std::string& task, const std::string& who) override;
  void on_notice(std::function<void(const task_notice&)> function) override;

private:
  struct sinks;
  template <class Reply, class Message>
  expected<Reply> ask(Message message, std::chrono::milliseconds patience);
  expected<void> change(const std::string& task, cron_change what, const std::string& who);
  expected<add_cron_task> make(const std::string& name, const task_options& options, task_function function,
                               bool built_in) const;
  expected<void> register_built_in();
  expected<void> register_sections();
  expected<std::shared_ptr<cron_store>> open_store();
  /// Under mutex_.
  expected<void> activate();

  cron_host_parts parts_;
  const std::shared_ptr<trouble> health_ = std::make_shared<trouble>();
  const std::shared_ptr<sinks> sinks_;
  mutable std::mutex mutex_;
  cron_core passive_;                 ///< checks tasks, and answers lists while there is no actor
  std::vector<add_cron_task> tasks_;  ///< all
  std::shared_ptr<cron_threads> runs_;
  cron_store_actor store_;
  local_cron_actor actor_;
  bool shared_ = false;
  bool stopped_ = false;
};

}  // namespace caravan
