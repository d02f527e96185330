#pragma once

#include <chrono>

namespace caravan {

class audit_log;
class node_runtime;

namespace http {
class server;
struct access_entry;
/// Writes down what changed something, or was refused the right to.
void note_change(audit_log& log, const access_entry& call, std::chrono::system_clock::time_point now);
}  // namespace http

/// The routes of the HTTP API (docs/http-api.md). `node` outlives the server.
void add_api(http::server& web, node_runtime& node);

}  // namespace caravan
