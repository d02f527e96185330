#pragma once

#include "nodes/cli/verb.hpp"

// One line for each file of verbs, in the order of the help.
#define CARAVAN_VERBS(X) \
  X(node)                \
  X(push)                \
  X(queue_show)          \
  X(queue_control)       \
  X(cluster)             \
  X(job)                 \
  X(worker)              \
  X(lock)                \
  X(cron)                \
  X(cron_preview)        \
  X(event)               \
  X(cache)               \
  X(limit)               \
  X(top)                 \
  X(check)               \
  X(config)              \
  X(completion)          \
  X(bench)               \
  X(bench_lock)          \
  X(help)

namespace caravan::cli {

#define CARAVAN_DECLARE(file) std::vector<verb> file##_verbs();
CARAVAN_VERBS(CARAVAN_DECLARE)
#undef CARAVAN_DECLARE

[[nodiscard]] const std::vector<verb>& all_verbs();

}  // namespace caravan::cli
