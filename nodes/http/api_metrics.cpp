#include "nodes/cache_host.hpp"
#include "nodes/http/api_json.hpp"
#include "nodes/http/api_parts.hpp"
#include "nodes/limit_host.hpp"
#include "nodes/metrics_text.hpp"
#include "nodes/node_runtime.hpp"
#include "nodes/node_watch.hpp"

#include <algorithm>

namespace caravan::http {

namespace {

using steady = std::chrono::steady_clock;

double seconds(std::chrono::duration<double> d) { return d.count(); }

/// One family over all queues that this node answers for.
class queue_families {
public:
  queue_families(metrics_text& to, const queue_snapshot& from, std::string node)
      : to_(to), from_(from), node_(std::move(node)) {}

  template <class Value>
  void counter(std::string_view name, std::string_view help, Value value) {
    to_.counter(name, help);
    each([&](const std::string& queue, const watched_queue& w) { to_.add({{"queue", queue}}, value(*w.status)); });
  }
  template <class Value>
  void gauge(std::string_view name, std::string_view help, Value value) {
    to_.gauge(name, help);
    each([&](const std::string& queue, const watched_queue& w) { to_.add({{"queue", queue}}, value(*w.status)); });
  }
  /// A shared queue is told of by its owner alone, so that a sum over nodes is right.
  template <class Function>
  void each(Function f) const {
    for (const auto& w : from_.queues)
      if (w.status && w.status->phase != queue_phase::standby && (w.status->owner.empty() || w.status->owner == node_))
        f(w.status->name, w);
  }

private:
  metrics_text& to_;
  const queue_snapshot& from_;
  const std::string node_;
};

void write_queues(metrics_text& m, const queue_snapshot& s, const std::string& node) {
  queue_families q(m, s, node);
  using st = const queue_status&;
  q.counter("caravan_jobs_pushed_total", "Jobs that were pushed", [](st x) { return x.counts.totals.pushed; });
  m.counter("caravan_jobs_done_total", "Jobs that ended: handled, dead, or removed by hand");
  q.each([&](const std::string& queue, const watched_queue& w) {
    const auto& t = w.status->counts.totals;
    m.add({{"queue", queue}, {"result", "handled"}}, t.handled);
    m.add({{"queue", queue}, {"result", "dead"}}, t.died);
    m.add({{"queue", queue}, {"result", "removed"}}, t.removed);
  });
  q.counter("caravan_jobs_failed_total", "Attempts that failed", [](st x) { return x.counts.totals.failed; });
  q.counter("caravan_jobs_returned_total", "Jobs that a handler gave back without an error",
            [](st x) { return x.counts.totals.returned; });
  q.counter("caravan_retries_total", "Jobs that came back to be handed out again",
            [](st x) { return x.counts.totals.redelivered; });
  m.counter("caravan_dead_total", "Jobs that became dead");
  q.each([&](const std::string& queue, const watched_queue& w) {
    const auto died = w.status->counts.totals.died;
    const auto rejected = std::min(died, w.status->timings.rejected);
    m.add({{"queue", queue}, {"reason", "rejected"}}, rejected);
    m.add({{"queue", queue}, {"reason", "attempts"}}, died - rejected);
  });
  q.counter("caravan_lease_lost_total", "Leases that ran out or whose workers died",
            [](st x) { return x.counts.totals.leases_lost; });
  m.gauge("caravan_jobs_state", "Jobs by state");
  q.each([&](const std::string& queue, const watched_queue& w) {
    const auto& c = w.status->counts;
    m.add({{"queue", queue}, {"state", "waiting"}}, c.waiting);
    m.add({{"queue", queue}, {"state", "running"}}, c.running);
    m.add({{"queue", queue}, {"state", "delayed"}}, c.delayed);
    m.add({{"queue", queue}, {"state", "dead"}}, c.dead);
  });
  q.gauge("caravan_queue_oldest_seconds", "How long the next job in line has waited; 0: none waits", [&](st x) {
    return x.oldest_waiting == wall_time{} ? 0.0 : std::max(0.0, seconds(s.at - x.oldest_waiting));
  });
  q.gauge("caravan_queue_paused", "1 while it is paused",
          [](st x) { return std::uint64_t{x.phase == queue_phase::paused}; });
  q.gauge("caravan_queue_trouble", "1 while its storage fails", [](st x) { return std::uint64_t{!x.trouble.empty()}; });
  m.gauge("caravan_queue_owner", "1 on the node that hosts it");
  q.each([&](const std::string& queue, const watched_queue&) {
    m.add({{"queue", queue}, {"node", node}}, std::uint64_t{1});
  });
  m.gauge("caravan_queue_up", "0 when it did not answer within 2 s");
  for (const auto& w : s.queues) m.add({{"queue", w.queue->name()}}, std::uint64_t{w.status.has_value()});
  m.histogram("caravan_job_wait_seconds", "From when a job might be handed out until it was");
  q.each([&](const std::string& queue, const watched_queue& w) { m.add({{"queue", queue}}, w.status->timings.wait); });
  m.histogram("caravan_job_run_seconds",
              "From when a job was handed out until the answer; a job of a batch counts as long as the batch");
  q.each([&](const std::string& queue, const watched_queue& w) { m.add({{"queue", queue}}, w.status->timings.run); });
  m.gauge("caravan_workers", "Workers of this node by state");
  for (const auto& w : s.queues) {
    if (!w.pool) continue;
    const auto& name = w.queue->name();
    const auto busy = w.pool->active;
    m.add({{"queue", name}, {"state", "busy"}}, std::uint64_t{busy});
    m.add({{"queue", name}, {"state", "idle"}}, std::uint64_t{w.pool->workers > busy ? w.pool->workers - busy : 0});
    m.add({{"queue", name}, {"state", "abandoned"}}, std::uint64_t{w.pool->abandoned});
  }
}

void write_outside(metrics_text& m, const outside_facts& f, system_time now) {
  m.counter("caravan_cron_fired_total", "Runs of a task on all nodes, those that go on included");
  for (const auto& t : f.tasks) m.add({{"task", t.name}}, t.runs);
  m.counter("caravan_cron_failed_total", "Runs of a task that failed, on all nodes");
  for (const auto& t : f.tasks) m.add({{"task", t.name}}, t.failures);
  m.counter("caravan_cron_missed_total", "Times of a task that did not run, as far as this node knows");
  for (const auto& t : f.tasks)
    for (const auto& [reason, n] : t.missed) m.add({{"task", t.name}, {"reason", reason}}, n);
  m.gauge("caravan_cron_late_seconds", "By how much the next time of a task has passed");
  for (const auto& t : f.tasks)
    if (t.enabled && !t.paused && t.next != task_time{})
      m.add({{"task", t.name}}, std::max(0.0, seconds(now - t.next)));
  if (f.locks_held) {
    m.gauge("caravan_lock_held", "Locks that are held, at most 10000 are counted");
    m.add({}, *f.locks_held);
    m.gauge("caravan_lock_waiters", "Who wait for a lock");
    m.add({}, f.lock_waiters);
  }
  if (!f.stores.empty()) {
    m.gauge("caravan_store_rtt_seconds", "The last round trip to a shared store");
    for (const auto& s : f.stores)
      if (s.seconds) m.add({{"store", s.where}}, *s.seconds);
    m.counter("caravan_store_errors_total", "Round trips to shared stores that failed");
    m.add({}, f.store_errors);
  }
  if (f.nodes.empty()) return;
  m.gauge("caravan_node_alive", "1 for each node of the cluster that has told of itself in time");
  for (const auto& n : f.nodes) m.add({{"node", n.name}}, std::uint64_t{n.alive});
}

void write_here(metrics_text& m, api a) {
  m.counter("caravan_limit_allowed_total", "Takes that a limit allowed on this node");
  for (const auto& l : a.node.limits().all()) m.add({{"limit", l->settings().name}}, l->statistics().taken);
  m.counter("caravan_limit_refused_total", "Takes that a limit refused on this node");
  for (const auto& l : a.node.limits().all()) m.add({{"limit", l->settings().name}}, l->statistics().refused);
  m.gauge("caravan_limit_down", "1 while the store of a limit does not answer");
  for (const auto& l : a.node.limits().all())
    m.add({{"limit", l->settings().name}}, std::uint64_t{l->statistics().down});

  // Only those that cost nothing to ask: what this process counts. An engine is not asked.
  struct seen {
    std::string name;
    cache_statistics s;
  };
  std::vector<seen> caches;
  for (auto& l : a.node.caches().list()) {
    if (!l.cache || (l.settings.adapter != config::cache_adapter_type::memory &&
                     l.settings.adapter != config::cache_adapter_type::twoqueue))
      continue;
    if (const auto s = l.cache.statistics())
      caches.push_back({l.settings.name.empty() ? std::string(default_cache) : l.settings.name, *s});
  }
  m.counter("caravan_cache_hits_total", "Reads of a cache in this process that found a value");
  for (const auto& c : caches) m.add({{"cache", c.name}}, c.s.hits);
  m.counter("caravan_cache_misses_total", "Reads that found none");
  for (const auto& c : caches) m.add({{"cache", c.name}}, c.s.misses);
  m.gauge("caravan_cache_entries", "Values in a cache");
  for (const auto& c : caches)
    if (c.s.entries) m.add({{"cache", c.name}}, *c.s.entries);
  m.gauge("caravan_cache_bytes", "Bytes in a cache");
  for (const auto& c : caches)
    if (c.s.bytes) m.add({{"cache", c.name}}, *c.s.bytes);

  if (const auto o = a.web.overload()) {
    m.gauge("caravan_http_in_flight", "Requests that are worked on");
    m.add({}, std::uint64_t{o->in_flight});
    m.gauge("caravan_http_waiting", "Requests that wait at the door");
    m.add({}, std::uint64_t{o->waiting});
    m.counter("caravan_http_admitted_total", "Requests that the door let in");
    m.add({}, o->admitted);
    m.counter("caravan_http_refused_total", "Requests that the door turned away");
    m.add({{"reason", "full"}}, o->refused_full);
    m.add({{"reason", "late"}}, o->refused_late);
  }
  m.gauge("caravan_http_connections", "Open connections");
  m.add({}, std::uint64_t{a.web.connections()});
  m.gauge("caravan_node_up", "1; with the node's name and version");
  m.add({{"node", a.node.settings().node.name}, {"version", CARAVAN_VERSION}}, std::uint64_t{1});
  m.gauge("caravan_node_ready", "0 while a storage fails or the node stops");
  m.add({}, std::uint64_t{a.node.not_ready().empty()});
  m.gauge("caravan_node_started_seconds", "When the node started, since 1970");
  m.add({}, seconds(a.node.started_at().time_since_epoch()));
}

}  // namespace

void add_metrics_routes(api a) {
  a.web.route("GET", "/metrics", role::read, [a](const request&, const responder& answer) {
    const auto begun = steady::now();
    a.node.watch().queues([a, answer, begun](const std::shared_ptr<const queue_snapshot>& queues) {
      a.node.watch().outside([a, answer, begun, queues](const std::shared_ptr<const outside_facts>& facts) {
        metrics_text m;
        write_queues(m, *queues, a.node.settings().node.name);
        write_outside(m, *facts, a.node.clock().wall());
        write_here(m, a);
        m.gauge("caravan_metrics_left_out", "Series that this answer lacks, since a family has at most 2000");
        m.add({}, m.left_out());
        m.gauge("caravan_scrape_seconds", "How long this answer took");
        m.add({}, seconds(steady::now() - begun));
        answer.reply({.status = 200,
                      .content_type = "text/plain; version=0.0.4; charset=utf-8",
                      .headers = {},
                      .body = m.take()});
      });
    });
  });
}

}  // namespace caravan::http
