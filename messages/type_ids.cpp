#include "messages/type_ids.hpp"

#include "messages/caf_error.hpp"
#include "messages/cron_words.hpp"
#include "messages/event_words.hpp"
#include "messages/lock_actor.hpp"
#include "messages/node_actor.hpp"
#include "messages/queue_actor.hpp"

#include <caf/all.hpp>

namespace caravan {

void register_messages(caf::actor_system_config& config) {
  // The names are the wire format: append, never rename.
  config.add_message_type<item_id>("caravan.item_id");
  config.add_message_type<record>("caravan.record");
  config.add_message_type<batch>("caravan.batch");
  config.add_message_type<item_outcome>("caravan.item_outcome");
  config.add_message_type<std::vector<std::uint64_t>>("caravan.u64vec");
  config.add_message_type<ack>("caravan.ack");
  config.add_message_type<demand>("caravan.demand");
  config.add_message_type<batch_done>("caravan.batch_done");
  config.add_message_type<renew_leases>("caravan.renew_leases");
  config.add_message_type<attach_pool>("caravan.attach_pool");
  config.add_message_type<push_items>("caravan.push_items");
  config.add_message_type<push_results>("caravan.push_results");
  config.add_message_type<pause_queue>("caravan.pause_queue");
  config.add_message_type<resume_queue>("caravan.resume_queue");
  config.add_message_type<drain_queue>("caravan.drain_queue");
  config.add_message_type<flush_queue>("caravan.flush_queue");
  config.add_message_type<purge_queue>("caravan.purge_queue");
  config.add_message_type<purged_count>("caravan.purged_count");
  config.add_message_type<stop_queue>("caravan.stop_queue");
  config.add_message_type<get_queue_status>("caravan.get_queue_status");
  config.add_message_type<queue_status>("caravan.queue_status");
  config.add_message_type<find_job>("caravan.find_job");
  config.add_message_type<change_job>("caravan.change_job");
  config.add_message_type<list_jobs>("caravan.list_jobs");
  config.add_message_type<job_status>("caravan.job_status");
  config.add_message_type<job_list>("caravan.job_list");
  config.add_message_type<get_pool_status>("caravan.get_pool_status");
  config.add_message_type<set_max_workers>("caravan.set_max_workers");
  config.add_message_type<stop_pool>("caravan.stop_pool");
  config.add_message_type<pool_status>("caravan.pool_status");
  config.add_message_type<move_queue>("caravan.move_queue");
  config.add_message_type<report_batches>("caravan.report_batches");
  config.add_message_type<batches_reported>("caravan.batches_reported");
  config.add_message_type<change_jobs>("caravan.change_jobs");
  config.add_message_type<jobs_changed>("caravan.jobs_changed");
  config.add_message_type<stop_calls>("caravan.stop_calls");
  config.add_message_type<acquire_lock>("caravan.acquire_lock");
  config.add_message_type<lock_granted>("caravan.lock_granted");
  config.add_message_type<cancel_lock>("caravan.cancel_lock");
  config.add_message_type<release_lock>("caravan.release_lock");
  config.add_message_type<extend_lock>("caravan.extend_lock");
  config.add_message_type<get_locks>("caravan.get_locks");
  config.add_message_type<lock_status>("caravan.lock_status");
  config.add_message_type<lock_list>("caravan.lock_list");
  config.add_message_type<node_hello>("caravan.node_hello");
  config.add_message_type<find_queue>("caravan.find_queue");
  config.add_message_type<found_queue>("caravan.found_queue");
  config.add_message_type<find_key>("caravan.find_key");
  config.add_message_type<found_key>("caravan.found_key");
  config.add_message_type<member_report>("caravan.member_report");
  config.add_message_type<move_message>("caravan.move_message");
  config.add_message_type<move_reply>("caravan.move_reply");
  config.add_message_type<ask_move>("caravan.ask_move");
  config.add_message_type<move_decision>("caravan.move_decision");
  config.add_message_type<task_run_info>("caravan.task_run_info");
  config.add_message_type<task_info>("caravan.task_info");
  config.add_message_type<task_event>("caravan.task_event");
  config.add_message_type<get_cron_list>("caravan.get_cron_list");
  config.add_message_type<cron_list>("caravan.cron_list");
  config.add_message_type<get_cron_history>("caravan.get_cron_history");
  config.add_message_type<cron_history>("caravan.cron_history");
  config.add_message_type<change_cron>("caravan.change_cron");
  config.add_message_type<stop_cron>("caravan.stop_cron");
  config.add_message_type<event>("caravan.event");
  config.add_message_type<event_filter>("caravan.event_filter");
  config.add_message_type<event_batch>("caravan.event_batch");
  config.add_message_type<subscribe_events>("caravan.subscribe_events");
  config.add_message_type<event_wishes>("caravan.event_wishes");
  config.add_message_type<get_recent_events>("caravan.get_recent_events");
  config.add_message_type<numbered_event>("caravan.numbered_event");
  config.add_message_type<event_list>("caravan.event_list");
  config.add_message_type<get_event_status>("caravan.get_event_status");
  config.add_message_type<event_topic_count>("caravan.event_topic_count");
  config.add_message_type<event_status>("caravan.event_status");
  config.add_message_type<find_events>("caravan.find_events");
  config.add_message_type<found_events>("caravan.found_events");
  config.add_error_category(error_category(), [](std::uint8_t code, caf::atom_value, const caf::message& context) {
    std::string text(to_string(static_cast<errc>(code)));
    if (!context.empty() && context.match_element<std::string>(0)) text += ": " + context.get_as<std::string>(0);
    return text;
  });
}

}  // namespace caravan
