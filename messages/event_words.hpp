#pragma once

/// What is said to and by the bus of a node's events. docs/events.md tells what each topic carries.

#include <caravan/event_port.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace caravan {

/// The topics of the node itself. Not on the wire: their names are.
enum class event_topic : std::uint8_t {
  queue_paused,
  queue_resumed,
  queue_draining,
  queue_stopped,
  queue_purged,
  queue_trouble,
  queue_recovered,
  queue_moved,
  queue_owner_changed,
  job_pushed,
  job_handled,
  job_failed,
  job_dead,
  job_retried,
  job_deleted,
  cron_started,
  cron_finished,
  cron_failed,
  cron_missed,
  lock_acquired,
  lock_released,
  lock_lost,
  lock_forced,
  lock_trouble,
  lock_recovered,
  cluster_node_up,
  cluster_node_down,
  cluster_cordoned,
  cluster_uncordoned,
  cluster_draining,
  cache_trouble,
  limit_trouble,
  limit_recovered,
  handler_opened,
  handler_closed,
  handler_throttled,
};

struct event_topic_facts {
  std::string_view name;
  bool often = false;  ///< one for each job or lock: made only while somebody listens
  bool local = false;  ///< each node sees it by itself, so it is not told to others
};

inline constexpr std::array<event_topic_facts, 36> event_topics{{
    {"queue.paused"},
    {"queue.resumed"},
    {"queue.draining"},
    {"queue.stopped"},
    {"queue.purged"},
    {"queue.trouble"},
    {"queue.recovered"},
    {"queue.moved"},
    {"queue.owner_changed"},
    {"job.pushed", true},
    {"job.handled", true},
    {"job.failed", true},
    {"job.dead"},
    {"job.retried"},
    {"job.deleted"},
    {"cron.started"},
    {"cron.finished"},
    {"cron.failed"},
    {"cron.missed"},
    {"lock.acquired", true},
    {"lock.released", true},
    {"lock.lost"},
    {"lock.forced"},
    {"lock.trouble"},
    {"lock.recovered"},
    {"cluster.node_up", false, true},
    {"cluster.node_down", false, true},
    {"cluster.cordoned"},
    {"cluster.uncordoned"},
    {"cluster.draining"},
    {"cache.trouble"},
    {"limit.trouble"},
    {"limit.recovered"},
    {"handler.opened"},
    {"handler.closed"},
    {"handler.throttled"},
}};
static_assert(static_cast<std::size_t>(event_topic::handler_throttled) + 1 == event_topics.size());
static_assert(event_topics.size() < 64, "the bus keeps a bit for each");

[[nodiscard]] constexpr const event_topic_facts& facts_of(event_topic t) {
  return event_topics[static_cast<std::size_t>(t)];
}

/// Events on their way to one subscriber, in order. The answer is the right to the next batch.
struct event_batch {
  std::vector<event> events;
  std::uint64_t dropped = 0;  ///< so many before these are missing: they came faster than they were taken
};
/// The sender takes event_batch from now on. Once more from the same sender: its new wish. It ends with the first batch
/// that is not answered in time.
struct subscribe_events {
  std::vector<event_filter> filters;
};
/// A node's bus wants the events of another's. Said again and again, as the other one may have forgotten.
struct event_wishes {
  std::string node;
  std::vector<event_filter> filters;  ///< for what happens often; all else is wanted anyway
};

struct get_recent_events {
  std::vector<event_filter> filters;
  std::uint32_t most = 0;
};
struct numbered_event {
  std::uint64_t number = 0;
  event what;
};
struct event_list {
  std::string run;                     ///< of the node: numbers of another run mean other events
  std::vector<numbered_event> events;  ///< the newest last
};
struct get_event_status {};
struct event_topic_count {
  std::string topic;
  std::uint64_t count = 0;
};
/// Since the start.
struct event_status {
  std::vector<event_topic_count> topics;  ///< those that had any
  std::uint64_t subscribers = 0;          ///< now
  std::uint64_t nodes = 0;                ///< of them, other nodes
  std::uint64_t drafts = 0;               ///< not sent as they were drafts
  std::uint64_t held_back = 0;            ///< not sent as the gate said no
  std::uint64_t dropped = 0;              ///< for a subscriber that was too slow
  std::uint64_t refused = 0;              ///< more came at once than can wait
};

// By position, so append only.
template <class I>
typename I::result_type inspect(I& f, event& x) {
  return f(x.topic, x.subject, x.node, x.at, x.body);
}
template <class I>
typename I::result_type inspect(I& f, event_filter& x) {
  return f(x.topic, x.subject);
}
template <class I>
typename I::result_type inspect(I& f, event_batch& x) {
  return f(x.events, x.dropped);
}
template <class I>
typename I::result_type inspect(I& f, subscribe_events& x) {
  return f(x.filters);
}
template <class I>
typename I::result_type inspect(I& f, event_wishes& x) {
  return f(x.node, x.filters);
}
template <class I>
typename I::result_type inspect(I& f, get_recent_events& x) {
  return f(x.filters, x.most);
}
template <class I>
typename I::result_type inspect(I& f, numbered_event& x) {
  return f(x.number, x.what);
}
template <class I>
typename I::result_type inspect(I& f, event_list& x) {
  return f(x.run, x.events);
}
template <class I>
typename I::result_type inspect(I& f, get_event_status&) {
  return f();
}
template <class I>
typename I::result_type inspect(I& f, event_topic_count& x) {
  return f(x.topic, x.count);
}
template <class I>
typename I::result_type inspect(I& f, event_status& x) {
  return f(x.topics, x.subscribers, x.nodes, x.drafts, x.held_back, x.dropped, x.refused);
}

}  // namespace caravan
