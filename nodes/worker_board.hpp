#pragma once

#include "messages/record.hpp"

#include <caravan/error.hpp>

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace caravan {

/// What a worker outside says of itself, again and again.
struct worker_beat {
  std::string name;
  std::string host;
  std::uint64_t pid = 0;
  std::string version;
  std::string state;  ///< run, quiet, stopping
  std::vector<std::string> queues;
  wall_time started{};
  std::uint32_t concurrency = 0;
  std::uint32_t busy = 0;
  std::string from;  ///< its address
};

/// What an operator wants of it.
enum class worker_order : std::uint8_t {
  run,
  quiet,  ///< finishes what it has and claims nothing more
  stop,   ///< the same, and ends
};
[[nodiscard]] std::string_view to_string(worker_order o);

struct worker_orders {
  worker_order state = worker_order::run;
  std::uint32_t concurrency = 0;  ///< 0: as it was started
};

struct worker_entry {
  worker_beat last;
  wall_time seen{};
  worker_orders wanted;
};

/// The workers outside that told a node of themselves. Orders wait here until the worker's next call fetches them, and
/// hold until it starts anew. One that is silent for `kept` is forgotten. Thread safe; time comes in.
class worker_board {
public:
  static constexpr std::chrono::milliseconds kept{600'000};
  static constexpr std::size_t most = 1'000;  ///< workers; the one that is silent longest makes room

  /// A worker told of itself.
  worker_orders beat(worker_beat b, wall_time now);
  /// It ends.
  void leave(const std::string& name);
  /// Nothing for a worker that never told of itself.
  [[nodiscard]] std::optional<worker_orders> orders_for(const std::string& name) const;

  /// not_found: no such worker told this node of itself.
  expected<worker_entry> order(const std::string& name, worker_order o);
  expected<worker_entry> scale(const std::string& name, std::uint32_t concurrency);
  /// By name.
  [[nodiscard]] std::vector<worker_entry> list(wall_time now);

private:
  template <class Change>
  expected<worker_entry> change(const std::string& name, Change what);
  void forget_silent(wall_time now);

  mutable std::mutex mutex_;
  std::map<std::string, worker_entry> workers_;
};

}  // namespace caravan
