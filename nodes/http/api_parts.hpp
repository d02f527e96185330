#pragma once

/// What the files of the API share.

#include "nodes/http/server/server.hpp"

#include <caravan/error.hpp>

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace caravan {
class hosted_queue;
class node_runtime;
}  // namespace caravan

namespace caravan::http {

/// Both outlive every handler. An answer that comes from an actor may outlive `web`: it uses its responder only.
struct api {
  server& web;
  node_runtime& node;
};

void add_cluster_routes(api a);
void add_queue_routes(api a);
void add_job_routes(api a);
void add_cron_routes(api a);
void add_health_routes(api a);
void add_cache_routes(api a);
void add_limit_routes(api a);
void add_lock_routes(api a);
void add_claim_routes(api a);
void add_worker_routes(api a);
void add_event_routes(api a);
void add_metrics_routes(api a);
void add_store_routes(api a);
void add_history_routes(api a);
void add_audit_routes(api a);
void add_ui_routes(api a);
/// After all others: it lists what there is.
void add_openapi_routes(api a);

/// An answer that a client which has it already need not get again: 304 for its ETag.
[[nodiscard]] response unless_known(const request& r, response answer);

/// A handler for one queue of this node; answers 404 by itself.
using queue_handler = std::function<void(const std::shared_ptr<hosted_queue>&, request, responder)>;
[[nodiscard]] handler on_queue(api a, queue_handler h);

/// Registers a route that changes something. A page of another site may make a browser send such a request, but cannot
/// hide its Origin: that is refused.
void change_route(api a, std::string_view method, std::string_view pattern, role needed, handler h);

/// Who asks, for people: its address.
[[nodiscard]] std::string who(const request& r);

[[nodiscard]] error no_such_queue(const node_runtime& node, std::string_view name);

}  // namespace caravan::http
