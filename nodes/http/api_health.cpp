#include "nodes/http/api_json.hpp"
#include "nodes/http/api_parts.hpp"
#include "nodes/node_runtime.hpp"

namespace caravan::http {

namespace {

constexpr std::string_view front_page =
    "Caravan: durable job queues.\n"
    "\n"
    "  POST   /v1/queues/{queue}/jobs            push: a job, an array of jobs, or JSON lines\n"
    "  GET    /v1/queues                         all queues\n"
    "  GET    /v1/queues/{queue}                 one queue\n"
    "  POST   /v1/queues/{queue}/pause|resume|flush|drain|purge|scale\n"
    "  GET    /v1/queues/{queue}/jobs?state=waiting|delayed|running|dead\n"
    "  GET    /v1/jobs/{id}                      one job\n"
    "  POST   /v1/jobs/{id}/retry\n"
    "  DELETE /v1/jobs/{id}\n"
    "  GET    /v1/cron, /v1/cron/{task}          tasks that run at set times\n"
    "  POST   /v1/cron/{task}/run|skip|pause|resume\n"
    "  GET    /v1/cron/preview?spec=             the next times of a schedule\n"
    "  GET    /v1/caches                         all caches\n"
    "  GET    /v1/caches/{cache}/{key}           one value; DELETE removes it\n"
    "  POST   /v1/caches/{cache}/clear\n"
    "  GET    /v1/limits                         all limits\n"
    "  POST   /v1/limits/{limit}/take            {\"key\": ..., \"n\": 1}\n"
    "  GET    /v1/locks                          all locks\n"
    "  POST   /v1/locks/{key}/acquire|extend|release\n"
    "  GET    /v1/node                           this node\n"
    "  GET    /v1/history, /v1/store, /v1/audit  rates over time, storages, who changed what\n"
    "  GET    /v1/openapi.json                   all of it for programs\n"
    "  GET    /metrics                           for Prometheus\n"
    "  GET    /ui/                               the dashboard\n"
    "  GET    /healthz, /readyz                  for supervisors and load balancers\n"
    "\n"
    "  curl -d '{\"payload\": {\"to\": \"ann@example.org\"}}' http://HOST/v1/queues/mail/jobs\n"
    "\n"
    "All of it: docs/http-api.md. The command line: caravan help.\n";

ordered_json overload_json(const server& web) {
  const auto o = web.overload();
  if (!o) return nullptr;
  return {{"overloaded", o->overloaded},     {"in_flight", o->in_flight},       {"waiting", o->waiting},
          {"admitted", o->admitted},         {"refused_full", o->refused_full}, {"refused_late", o->refused_late}};
}

}  // namespace

void add_health_routes(api a) {
  a.web.route("GET", "/", role::anyone, [](const request& r, const responder& answer) {
    if (r.header("Accept").value_or("").find("text/html") != std::string_view::npos)
      answer.reply({.status = 302, .content_type = {}, .headers = {{"Location", "ui/"}}});  // a browser
    else
      answer.reply(text_response(std::string(front_page)));
  });

  a.web.route("GET", "/healthz", role::anyone,
              [](const request&, const responder& answer) { answer.reply(text_response("ok\n")); });

  a.web.route("GET", "/readyz", role::anyone, [a](const request&, const responder& answer) {
    const auto wrong = a.node.not_ready();
    if (wrong.empty()) {
      answer.reply(json_response("{\"ready\":true}"));
      return;
    }
    auto no = json_response(dump({{"ready", false}, {"reasons", wrong}}), 503);
    no.headers.push_back({"Retry-After", "1"});
    answer.reply(std::move(no));
  });

  a.web.route("GET", "/v1/node", role::read, [a](const request&, const responder& answer) {
    answer.reply(json_response(dump({{"name", a.node.settings().node.name},
                                     {"version", CARAVAN_VERSION},
                                     {"started", format_instant(a.node.started_at())},
                                     {"data_dir", a.node.settings().node.data_dir},
                                     {"queues", a.node.all().size()},
                                     {"overload", overload_json(a.web)}})));
  });
}

}  // namespace caravan::http
