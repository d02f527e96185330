#pragma once

#include "integration/runner.hpp"
#include "nodes/client/node_caller.hpp"

#include <caravan/error.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace caravan {

struct remote_worker_options {
  std::shared_ptr<node_addresses> addresses;
  caller_options calls;
  std::vector<std::string> queues;
  unsigned concurrency = 1;  ///< handler calls at once
  std::size_t batch = 1;     ///< most jobs of one handler call
  std::string name;          ///< empty: HOST-PID and a number
  std::string version;
  std::chrono::milliseconds lease{30'000};
  std::chrono::milliseconds wait{20'000};  ///< how long a claim waits for the first job
  std::chrono::milliseconds shutdown_timeout{2'000};
  std::shared_ptr<runner> handler;
  /// "info", "warn" or "error", and a sentence. Called from any thread; must not call the worker.
  std::function<void(std::string_view, const std::string&)> log;
};

/// Since the start.
struct remote_worker_figures {
  std::uint64_t claimed = 0;      ///< jobs
  std::uint64_t handled = 0;      ///< the queue has counted them
  std::uint64_t not_handled = 0;  ///< failed, rejected, later, unhandled
  std::uint64_t handed_back = 0;  ///< untried, at the end
  std::uint64_t lost = 0;         ///< under a lease that was lost
};

/// Handles the jobs of queues that live on nodes elsewhere: claims as many as it has room for, keeps the leases alive
/// while handlers run, acknowledges each call's jobs when it ends. Goes on with another node when one does not answer.
/// What was claimed at a node is acknowledged there, until its lease ends.
///
/// A handler whose lease is lost is asked to stop. Orders of an operator (quiet, stop, concurrency) are fetched with
/// every claim and every few seconds.
class remote_worker {
public:
  explicit remote_worker(remote_worker_options options);
  /// As stop().
  ~remote_worker();
  remote_worker(const remote_worker&) = delete;
  remote_worker& operator=(const remote_worker&) = delete;

  /// Claims nothing more, waits SHUTDOWN_TIMEOUT for handlers, asks the rest to stop, hands back what was not handled.
  /// Returns how many handler calls still run: they keep running, and their jobs come again when the leases end.
  std::size_t stop();
  /// True once stop() is called or an operator ordered it; then call stop().
  [[nodiscard]] bool stopping() const;
  /// Waits until stopping(), at most this long.
  [[nodiscard]] bool wait_for_stop(std::chrono::milliseconds patience) const;

  [[nodiscard]] remote_worker_figures figures() const;
  [[nodiscard]] const std::string& name() const;

private:
  struct engine;
  std::shared_ptr<engine> engine_;
};

}  // namespace caravan
