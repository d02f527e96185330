#include "nodes/http/api_json.hpp"
#include "nodes/http/api_parts.hpp"
#include "nodes/node_runtime.hpp"
#include "nodes/node_watch.hpp"

namespace caravan::http {

namespace {

/// Columns, as charts want them.
ordered_json columns_of(const history_ring& ring) {
  ordered_json out;
  for (const auto* name : {"at", "pushed", "handled", "failed", "oldest", "waiting", "running", "delayed", "dead"})
    out[name] = ordered_json::array();
  for (const auto& p : ring.points()) {
    out["at"].push_back(p.at);
    out["pushed"].push_back(p.pushed);
    out["handled"].push_back(p.handled);
    out["failed"].push_back(p.failed);
    out["oldest"].push_back(p.oldest);
    out["waiting"].push_back(p.waiting);
    out["running"].push_back(p.running);
    out["delayed"].push_back(p.delayed);
    out["dead"].push_back(p.dead);
  }
  return out;
}

void show(node_watch& watch, const std::string& queue, bool day, const responder& answer) {
  std::optional<ordered_json> out;
  watch.history([&](const queue_history& h) {
    if (const auto* ring = day ? h.minutes(queue) : h.fine(queue)) out = columns_of(*ring);
  });
  if (!out) out = columns_of(history_ring{0, 0});  // it is new, or one of too many
  ordered_json all{{"queue", queue}, {"span", day ? "24h" : "15m"}};
  all.update(*out);
  answer.reply(json_response(dump(all)));
}

}  // namespace

void add_history_routes(api a) {
  a.web.route("GET", "/v1/history", role::read, [a](const request& r, const responder& answer) {
    const std::string queue(r.query_value("queue").value_or(""));
    const auto span = r.query_value("span").value_or("15m");
    if (span != "15m" && span != "24h")
      return void(answer.reply(error{errc::invalid_argument, "\"span\" must be 15m or 24h"}));
    if (!queue.empty() && !a.node.find(queue)) return void(answer.reply(no_such_queue(a.node, queue)));
    auto& watch = a.node.watch();
    // A look brings the newest sample along; what is idle is sampled rarely.
    watch.queues([&watch, queue, day = span == "24h", answer](const std::shared_ptr<const queue_snapshot>&) {
      show(watch, queue, day, answer);
    });
  });
}

}  // namespace caravan::http
