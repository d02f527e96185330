#include "nodes/http/api.hpp"

#include "nodes/http/api_created.hpp"
#include "nodes/http/api_json.hpp"
#include "nodes/http/api_parts.hpp"
#include "nodes/node_runtime.hpp"

#include <cstdint>
#include <cstdio>

namespace caravan {

namespace http {

handler on_queue(api a, queue_handler h) {
  return [a, h = std::move(h)](request r, responder answer) {
    const auto name = r.param("queue");
    if (const auto q = a.node.find(name))
      h(q, std::move(r), std::move(answer));
    else
      answer.reply(no_such_queue(a.node, name));
  };
}

void change_route(api a, std::string_view method, std::string_view pattern, role needed, handler h) {
  a.web.route(method, pattern, needed, [h = std::move(h)](request r, responder answer) {
    if (const auto origin = r.header("Origin")) {
      const auto host = r.header("Host").value_or("");
      const auto scheme_end = origin->find("://");
      if (host.empty() || scheme_end == std::string_view::npos ||
          !equal_any_case(origin->substr(scheme_end + 3), host)) {
        answer.reply(error{errc::forbidden, "the page " + std::string(*origin) +
                                                " may not change this node; only its own pages and programs may"});
        return;
      }
    }
    h(std::move(r), std::move(answer));
  });
}

response unless_known(const request& r, response answer) {
  std::uint64_t hash = 14695981039346656037u;  // FNV-1a
  for (const unsigned char c : answer.body) hash = (hash ^ c) * 1099511628211u;
  char tag[40];
  std::snprintf(tag, sizeof tag, "W/\"%016llx\"", static_cast<unsigned long long>(hash));
  const auto known = r.header("If-None-Match").value_or("");
  if (known.find(tag) != std::string_view::npos) answer = {.status = 304, .content_type = {}};
  answer.headers.push_back({"ETag", tag});
  answer.headers.push_back({"Cache-Control", "no-cache"});
  return answer;
}

std::string who(const request& r) { return r.header("Authorization") ? r.remote + " (admin token)" : r.remote; }

error no_such_queue(const node_runtime& node, std::string_view name) {
  const auto all = node.all();
  std::vector<std::string_view> names;
  for (const auto& q : all) names.push_back(q->name());
  std::string text = "there is no queue ";
  if (names.empty())
    text += "\"" + std::string(name.substr(0, 128)) + "\", nor any other";
  else if (names.size() <= 20)
    text += with_nearest(name, names);
  else
    text += "\"" + std::string(name.substr(0, 128)) + "\"";
  text += node.settings().node.auto_create
              ? " (a push makes it)"
              : " (add [queue.NAME] to the node's configuration, or AUTO_CREATE = true to [node])";
  return {errc::not_found, text};
}

}  // namespace http

void add_api(http::server& web, node_runtime& node) {
  http::open_created(node);
  const http::api a{web, node};
  http::add_health_routes(a);
  http::add_queue_routes(a);
  http::add_cluster_routes(a);
  http::add_job_routes(a);
  http::add_cron_routes(a);
  http::add_cache_routes(a);
  http::add_limit_routes(a);
  http::add_lock_routes(a);
  http::add_claim_routes(a);
  http::add_worker_routes(a);
  http::add_event_routes(a);
  http::add_metrics_routes(a);
  http::add_store_routes(a);
  http::add_history_routes(a);
  http::add_audit_routes(a);
  http::add_ui_routes(a);
  http::add_openapi_routes(a);
}

}  // namespace caravan
