#pragma once

/// How a batch is handled: a C++ function, an executable, an HTTP endpoint.

#include "messages/batch.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

namespace caravan {

/// Facts about one handler call.
struct run_context {
  std::stop_token stop;  ///< asked at TIMEOUT, when the lease is lost, and at shutdown
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  std::string node;      ///< name of the node that runs it
  /// More to tell the handler, by names like "RUN_ID": CARAVAN_RUN_ID in its environment, X-Caravan-Run-Id in its request.
  std::vector<std::pair<std::string, std::string>> facts{};
};

/// Handles batches. run() is called on a worker's thread, by many workers at once, and may block; it should return soon
/// after ctx.stop is asked. It may throw: the caller turns that into a failed attempt of every item.
class runner {
public:
  virtual ~runner() = default;
  virtual batch_result run(const batch& work, const run_context& ctx) = 0;
  /// For people: "exec:sha256sum", "http://...", "C++ function". Never a secret.
  [[nodiscard]] virtual std::string describe() const = 0;
  /// Why it does not take all that it could now, for people; empty: it does. From any thread.
  [[nodiscard]] virtual std::string restraint() const { return {}; }
};

}  // namespace caravan
