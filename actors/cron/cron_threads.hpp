#pragma once

#include "actors/cron/cron_core.hpp"

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>

namespace caravan {

struct cron_result {
  cron_outcome outcome = cron_outcome::finished;
  std::string message;
};
struct cron_call {
  std::stop_token stop;
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
};
/// What a task does. May block and throw.
using cron_function = std::function<cron_result(const cron_run&, const cron_call&)>;

struct cron_work {
  cron_function function;
  std::chrono::milliseconds timeout{0};  ///< 0: none
  bool bounded = false;  ///< of this library: it ends soon after a stop, and uses what is gone with the node
};

/// Where runs are carried out.
class cron_runs {
public:
  using on_ended = std::function<void(const std::string& task, std::uint64_t token, cron_result&&)>;

  virtual ~cron_runs() = default;
  /// False: the machine gives no more threads; nothing is called then.
  virtual bool start(const cron_run& run, const cron_work& work, on_ended ended) = 0;
  virtual void ask_stop(const std::string& task, std::uint64_t token) = 0;
};

/// A thread for each run. Thread safe. At the end of a run's timeout its stop token trips, and what it answers then
/// counts as an error.
class cron_threads final : public cron_runs {
public:
  cron_threads();
  ~cron_threads() override;

  bool start(const cron_run& run, const cron_work& work, on_ended ended) override;
  void ask_stop(const std::string& task, std::uint64_t token) override;
  /// Asks all to stop, waits for what is bounded, and leaves the others alone. Returns how many those are. No `ended`
  /// is called once it has returned.
  std::size_t close();

private:
  struct shared;
  std::shared_ptr<shared> shared_;
};

}  // namespace caravan
