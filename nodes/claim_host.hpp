#pragma once

#include "messages/claim_actor.hpp"
#include "nodes/worker_board.hpp"
#include "toolbox/clock.hpp"

#include <caf/actor_system.hpp>

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace caravan {

class hosted_queue;

/// The claim pools of a node, one for each queue that somebody claimed from, and what is known of the workers outside.
/// Thread safe.
class claim_host {
public:
  /// Both outlive it.
  claim_host(caf::actor_system& system, const toolbox::clock& clock) : system_(system), clock_(clock) {}
  ~claim_host() { stop(); }
  claim_host(const claim_host&) = delete;
  claim_host& operator=(const claim_host&) = delete;

  /// Makes it with the first claim. Null once the node stops. The queue must have an actor.
  [[nodiscard]] claim_pool_actor pool_of(const std::shared_ptr<hosted_queue>& queue);
  /// Null: nobody ever claimed from it.
  [[nodiscard]] claim_pool_actor find(std::string_view queue) const;
  /// By the name of the queue.
  [[nodiscard]] std::vector<std::pair<std::string, claim_pool_actor>> all() const;

  [[nodiscard]] worker_board& workers() { return workers_; }
  /// Whatever claims of this worker wait are answered.
  void wake(const std::string& worker);

  /// How long close() may take.
  [[nodiscard]] std::chrono::milliseconds patience() const;
  /// Answers all claims that wait, gives out no more, and waits up to SHUTDOWN_TIMEOUT until nothing is in hand. What
  /// is then still in hand is handed back. Returns how many jobs that were.
  std::size_t close();
  /// Ends the actors.
  void stop();

private:
  struct pool {
    std::weak_ptr<hosted_queue> queue;
    claim_pool_actor actor;
    std::chrono::milliseconds patience{0};
  };

  caf::actor_system& system_;
  const toolbox::clock& clock_;
  worker_board workers_;
  mutable std::mutex mutex_;
  std::map<std::string, pool, std::less<>> pools_;
  bool closed_ = false;
};

}  // namespace caravan
