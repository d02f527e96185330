#pragma once

#include "actors/cron/cron_store_actor.hpp"
#include "actors/cron/cron_threads.hpp"
#include "actors/wake_ups.hpp"
#include "messages/cron_actor.hpp"

#include <caf/allowed_unsafe_message_type.hpp>
#include <caf/typed_event_based_actor.hpp>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace caravan {

/// A task and what it does.
struct add_cron_task {
  cron_task task;
  cron_work work;
  std::string action;  ///< what it does, for people
};
/// Own timer.
struct cron_tick {};
struct cron_run_over {
  std::string task;
  std::uint64_t token = 0;
  cron_result result;
};

/// As the node has it, with what never leaves the process.
using local_cron_actor = cron_actor::extend<caf::replies_to<add_cron_task>::with<ack>, caf::reacts_to<cron_tick>,
                                            caf::reacts_to<cron_run_over>>;

struct cron_parts {
  cron_core::options options;
  cron_store_actor store;
  std::shared_ptr<cron_runs> runs;
  const toolbox::clock* clock = nullptr;             ///< for wall-clock time; outlives the actor
  std::vector<add_cron_task> tasks;                  ///< checked: one that is refused is told by a notice
  std::function<void(const cron_notice&)> notice{};  ///< may be empty; must not block
  std::function<void(const cron_record&)> record{};  ///< likewise
  std::function<void(const cron_run&)> started{};    ///< likewise
};

struct cron_shell_state {
  static inline const char* name = "cron";

  struct what {
    cron_work work;
    std::string action;
  };
  cron_parts parts;
  std::unique_ptr<cron_core> core;
  std::map<std::string, what> works;
  std::map<std::uint64_t, caf::typed_response_promise<ack>> requests;  ///< by ticket
  std::vector<caf::typed_response_promise<ack>> stops;
  bool stopped = false;
  wake_ups ticks;

  cron_shell_state() = default;
};

/// The actor of a node's tasks: feeds cron_core and carries out what it decides.
local_cron_actor::behavior_type cron_behavior(local_cron_actor::stateful_pointer<cron_shell_state> self,
                                              cron_parts parts);

/// For people and programs outside.
[[nodiscard]] task_info to_task_info(const cron_status& s, const std::string& action);
[[nodiscard]] task_event to_task_event(const cron_record& r);

}  // namespace caravan

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(caravan::add_cron_task)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(caravan::cron_tick)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(caravan::cron_run_over)
