#include "nodes/http/api.hpp"

#include "nodes/http/api_created.hpp"
#include "nodes/http/api_json.hpp"
#include "nodes/http/api_parts.hpp"
#include "nodes/node_runtime.hpp"

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
}

}  // namespace caravan
