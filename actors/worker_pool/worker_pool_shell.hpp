#pragma once

#include "actors/wake_ups.hpp"
#include "actors/worker_pool/worker_pool_core.hpp"
#include "actors/worker_pool/worker_threads.hpp"
#include "integration/runner.hpp"
#include "messages/queue_actor.hpp"

#include <caf/typed_event_based_actor.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace caravan {

struct pool_parts {
  pool_id id = 0;
  pool_kind kind = pool_kind::local;
  std::string node;                  ///< name of the node it runs on
  worker_pool_core::limits limits;
  std::shared_ptr<runner> handler;
  queue_actor queue;
  std::function<void(std::string_view, const std::string&)> log;
};

struct pool_shell_state {
  static inline const char* name = "worker_pool";

  pool_parts parts;
  std::unique_ptr<worker_pool_core> core;
  std::unique_ptr<worker_threads> threads;
  pool_effects fx;
  wake_ups ticks;
  std::size_t threads_missing = 0;
  std::vector<caf::typed_response_promise<pool_status>> stops;
  std::chrono::milliseconds renew_every{0};  ///< remote pools: a third of the last batch's lease
  std::optional<std::chrono::steady_clock::time_point> renew_at;  ///< while batches are in hand

  pool_shell_state() = default;
};

/// The actor of one worker pool: attaches to its queue, feeds worker_pool_core and carries out what it decides.
worker_pool_actor::behavior_type worker_pool_behavior(worker_pool_actor::stateful_pointer<pool_shell_state> self,
                                                      pool_parts parts);

}  // namespace caravan
