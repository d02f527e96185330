#include "nodes/http/ask.hpp"

#include "messages/caf_error.hpp"

#include <caf/actor_system.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include <memory>

namespace caravan::http {

namespace {

// An actor of its own for each request: it costs 2 us, and it ends with the answer.
template <class Reply, class Actor, class Message>
void ask_once(caf::actor_system& system, const Actor& whom, Message what, std::chrono::milliseconds patience,
              on_answer<Reply> then) {
  const auto answer = std::make_shared<on_answer<Reply>>(std::move(then));
  const auto tell = [answer](expected<Reply> x) {
    if (auto once = std::exchange(*answer, nullptr)) once(std::move(x));
  };
  system.spawn([whom, patience, tell, what = std::move(what)](caf::event_based_actor* self) mutable {
    // An actor that ends with a request in hand says nothing.
    self->monitor(whom);
    self->set_down_handler([self, tell](const caf::down_msg&) {
      tell({errc::queue_closed, "its actor has stopped; ask again when its node is back"});
      self->quit();
    });
    self->request(whom, patience, std::move(what))
        .then(
            [self, tell](Reply& r) {
              tell(std::move(r));
              self->quit();
            },
            [self, tell](caf::error& e) {
              tell(from_caf(e));
              self->quit();
            });
  });
}

}  // namespace

#define CARAVAN_ASK(whom_type, message_type, reply_type)                                                            \
  void ask(caf::actor_system& system, const whom_type& whom, message_type what, std::chrono::milliseconds patience, \
           on_answer<reply_type> then) {                                                                            \
    ask_once<reply_type>(system, whom, std::move(what), patience, std::move(then));                                 \
  }
CARAVAN_ASK(queue_actor, push_items, push_results)
CARAVAN_ASK(queue_actor, pause_queue, ack)
CARAVAN_ASK(queue_actor, resume_queue, ack)
CARAVAN_ASK(queue_actor, drain_queue, ack)
CARAVAN_ASK(queue_actor, flush_queue, ack)
CARAVAN_ASK(queue_actor, purge_queue, purged_count)
CARAVAN_ASK(queue_actor, get_queue_status, queue_status)
CARAVAN_ASK(queue_actor, find_job, job_status)
CARAVAN_ASK(queue_actor, list_jobs, job_list)
CARAVAN_ASK(queue_actor, change_job, ack)
CARAVAN_ASK(queue_actor, change_jobs, jobs_changed)
CARAVAN_ASK(queue_actor, move_queue, ack)
CARAVAN_ASK(worker_pool_actor, get_pool_status, pool_status)
CARAVAN_ASK(worker_pool_actor, set_max_workers, ack)
CARAVAN_ASK(event_bus_actor, get_recent_events, event_list)
CARAVAN_ASK(event_bus_actor, get_event_status, event_status)
#undef CARAVAN_ASK

}  // namespace caravan::http
