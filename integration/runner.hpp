#pragma once

/// How a batch is handled: a C++ function, an executable, an HTTP endpoint.

#include "messages/batch.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>

namespace caravan {

/// Facts about one handler call.
struct run_context {
  std::stop_token stop;  ///< asked at TIMEOUT, when the lease is lost, and at shutdown
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  std::string node;      ///< name of the node that runs it
};

/// Handles batches. run() is called on a worker's thread, by many workers at once, and may block; it should return soon
/// after ctx.stop is asked. It may throw: the caller turns that into a failed attempt of every item.
class runner {
public:
  virtual ~runner() = default;
  virtual batch_result run(const batch& work, const run_context& ctx) = 0;
  /// For people: "exec:sha256sum", "http://...", "C++ function". Never a secret.
  [[nodiscard]] virtual std::string describe() const = 0;
};

}  // namespace caravan
