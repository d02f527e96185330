#pragma once

/// The tasks that every node has: off until [cron.NAME] says ENABLED = true, and to be run by hand at any time.

#include "nodes/queue_host.hpp"

#include <caravan/cron.hpp>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace caravan {

struct maintenance_parts {
  caf::actor_system* system = nullptr;
  const toolbox::clock* clock = nullptr;
  std::function<std::vector<std::shared_ptr<hosted_queue>>()> queues;
};

struct maintenance_task {
  std::string name;
  task_options options;
  task_function function;
};

[[nodiscard]] std::vector<maintenance_task> maintenance_tasks(const maintenance_parts& parts);

}  // namespace caravan
