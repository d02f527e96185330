#pragma once

/// Queues and worker pools as others see them.

#include "messages/move_words.hpp"
#include "messages/queue_words.hpp"

#include <caf/actor_control_block.hpp>
#include <caf/allowed_unsafe_message_type.hpp>
#include <caf/typed_actor.hpp>

namespace caravan {

/// A worker pool offers its service; answered when it may state its demand. The queue watches `handle`.
struct attach_pool {
  pool_id pool = 0;
  pool_kind kind = pool_kind::local;
  caf::strong_actor_ptr handle;
};
template <class I>
typename I::result_type inspect(I& f, attach_pool& x) {
  return f(x.pool, x.kind, x.handle);
}

/// A queue that moves: its state, and where its pools are.
struct frozen_queue {
  queue_image image;
  std::vector<attach_pool> pools;
};
/// Nothing changes any more until it is thawed. Answered when all that was decided is written; errc::backend_failed: the
/// storage refuses, and the queue goes on as before.
struct freeze_queue {};
struct thaw_queue {};

/// Own timer.
struct queue_tick {};
/// intake::take() has something.
struct items_stored {};

/// A queue. The handle may point to any node.
using queue_actor =
  caf::typed_actor<caf::reacts_to<items_stored>, caf::reacts_to<queue_tick>, caf::replies_to<attach_pool>::with<ack>,
                   caf::reacts_to<demand>, caf::reacts_to<batch_done>, caf::reacts_to<renew_leases>,
                   caf::replies_to<push_items>::with<push_results>, caf::replies_to<pause_queue>::with<ack>,
                   caf::replies_to<resume_queue>::with<ack>, caf::replies_to<drain_queue>::with<ack>,
                   caf::replies_to<flush_queue>::with<ack>, caf::replies_to<purge_queue>::with<purged_count>,
                   caf::replies_to<stop_queue>::with<queue_status>, caf::replies_to<get_queue_status>::with<queue_status>,
                   caf::replies_to<find_job>::with<job_status>, caf::replies_to<list_jobs>::with<job_list>,
                   caf::replies_to<change_job>::with<ack>, caf::replies_to<move_queue>::with<ack>,
                   caf::replies_to<report_batches>::with<batches_reported>,
                   caf::replies_to<find_key>::with<found_key>,
                   caf::replies_to<change_jobs>::with<jobs_changed>>;

/// The queue's own actor, to those who live with it. No message of it but those of queue_actor leaves the process.
using home_actor = queue_actor::extend<caf::replies_to<freeze_queue>::with<frozen_queue>, caf::replies_to<thaw_queue>::with<ack>>;

/// The queue may not know the pool any more: it is to attach again.
struct attach_again {};

/// Own timer of a pool.
struct pool_tick {};
/// A worker's thread is done with a batch.
struct call_ended {
  std::uint64_t token = 0;
  batch_result rest;
  std::chrono::nanoseconds took{0};
};

/// The workers of one queue on one node.
using worker_pool_actor =
  caf::typed_actor<caf::reacts_to<batch>, caf::reacts_to<call_ended>, caf::reacts_to<pool_tick>, caf::reacts_to<attach_again>,
                   caf::replies_to<set_max_workers>::with<ack>, caf::replies_to<get_pool_status>::with<pool_status>,
                   caf::replies_to<stop_pool>::with<pool_status>, caf::reacts_to<stop_calls>>;

}  // namespace caravan

// Never leave their process.
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(caravan::queue_tick)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(caravan::items_stored)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(caravan::freeze_queue)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(caravan::thaw_queue)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(caravan::frozen_queue)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(caravan::attach_again)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(caravan::pool_tick)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(caravan::call_ended)
