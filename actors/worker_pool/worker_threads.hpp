#pragma once

#include "actors/worker_pool/worker_pool_core.hpp"
#include "integration/runner.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace caravan {

/// Calls the handler; what it throws becomes a failed attempt of every item.
[[nodiscard]] batch_result run_guarded(runner& handler, const batch& work, const run_context& ctx);

/// The threads of one worker pool. They take batches from a common shelf, call the runner, and report.
///
/// Thread safe. No CAF: `ended` is how the pool's actor learns of an answer. A handler that never returns keeps its
/// thread; the thread holds what it needs, so everything else can go on and end without it.
class worker_threads {
public:
  struct ended_call {
    std::uint64_t token = 0;
    batch_result rest;
    std::chrono::nanoseconds took{0};
  };
  /// Called on a worker's thread after each call. Never called any more once close() has returned.
  using on_ended = std::function<void(ended_call&&)>;

  worker_threads(std::shared_ptr<runner> handler, std::chrono::milliseconds timeout, std::string node, on_ended ended);
  worker_threads(const worker_threads&) = delete;
  worker_threads& operator=(const worker_threads&) = delete;
  ~worker_threads();

  /// False when the machine gives no more threads; what is on the shelf then waits for the ones there are.
  bool start(std::size_t n);
  /// Idle threads that end.
  void retire(std::size_t n);
  void run(batch work);
  /// Takes what no thread has begun off the shelf.
  std::vector<batch> take_unstarted();
  /// Trips the stop token of a call.
  void ask_stop(std::uint64_t token);
  /// The thread that runs this call is lost to the pool: it ends whenever its handler returns, and reports nothing.
  void abandon(std::uint64_t token);
  [[nodiscard]] std::vector<running_call> running() const;

  /// Ends idle threads, waits up to `patience` for busy ones, then asks those to stop and leaves them alone. Returns how many were left.
  std::size_t close(std::chrono::milliseconds patience);

private:
  struct shared;
  std::shared_ptr<shared> shared_;
};

}  // namespace caravan
