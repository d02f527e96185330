#pragma once

#include "actors/queue/intake.hpp"
#include "actors/queue/queue_core.hpp"
#include "integration/runner.hpp"
#include "nodes/queue_host.hpp"
#include "testing/faulty_storage.hpp"
#include "toolbox/clock.hpp"

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace caravan::testing {

/// What a queue of the kit needs of its node.
struct surroundings {
  toolbox::manual_clock clock;
  bool in_handler = false;
  /// Moves the clock and runs what comes due, until `done` or `by` has passed.
  std::function<void(std::chrono::milliseconds by, const std::function<bool()>& done)> wait;
  std::function<void()> crash;
};

/// A queue without actors: what queue_shell, the storekeeper and a worker pool with one worker do, on the caller's
/// thread.
class test_queue final : public hosted_queue {
public:
  test_queue(config::queue_settings settings, std::uint64_t id, std::shared_ptr<runner> handler, std::uint64_t seed,
             surroundings& around);

  faulty_storage& faults() { return *store_; }
  std::size_t lost_answers = 0;    ///< handler calls whose answer gets lost
  std::size_t crashing_calls = 0;  ///< handler calls that are followed by a crash

  /// One handler call, if there is something to do now.
  bool step();
  [[nodiscard]] std::optional<toolbox::steady_time> next_wake();
  /// Forgets all that a dead process forgets.
  void restart();

  [[nodiscard]] const std::string& name() const override { return settings_.name; }
  [[nodiscard]] std::uint64_t id() const override { return id_; }
  [[nodiscard]] const config::queue_settings& settings() const override { return settings_; }
  [[nodiscard]] std::string item_type() const override { return {}; }
  [[nodiscard]] queue_actor actor() const override { return {}; }
  [[nodiscard]] worker_pool_actor pool() const override { return {}; }
  [[nodiscard]] std::string trouble_text() const override;
  std::size_t stop() override { return 0; }
  expected<void> attach(std::shared_ptr<runner> handler, const std::string& item_type) override;

  expected<item_id> push_one(item_draft draft) override;
  expected<std::vector<pushed>> push(std::vector<item_draft> drafts) override;
  expected<bool> has(const std::string& payload, const std::string& key) override;
  expected<queue_info> info() override;
  expected<void> flush(std::chrono::milliseconds timeout) override;
  expected<void> pause(std::chrono::system_clock::time_point until) override;
  expected<void> resume() override;
  expected<void> drain() override;
  expected<std::size_t> purge(std::string_view state) override;
  expected<void> set_max_workers(int most) override;
  expected<job_info> find(item_id id) override;
  expected<void> cancel(item_id id) override;

private:
  [[nodiscard]] instant now() const { return {around_.clock.now(), around_.clock.wall()}; }
  void start();
  void attach_worker();
  void take();
  void perform();
  bool write();
  void call(const batch& work);
  [[nodiscard]] error unreachable() const;

  const config::queue_settings settings_;
  const std::uint64_t id_;
  std::shared_ptr<runner> handler_;
  const std::uint64_t seed_;
  surroundings& around_;
  std::shared_ptr<faulty_storage> store_;

  std::unique_ptr<intake> door_;
  std::unique_ptr<queue_core> core_;
  queue_effects fx_;
  std::vector<record> taken_;
  std::deque<batch> ready_;
  pool_id worker_ = 0;  ///< a new one after an answer that got lost
  std::uint64_t next_token_ = 1;
  std::uint64_t next_flush_ = 1;
  std::map<std::uint64_t, expected<void>> flushed_;
};

}  // namespace caravan::testing
