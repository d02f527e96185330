#pragma once

namespace caravan {

class node_runtime;
namespace http {
class server;
}

/// The routes of the HTTP API (docs/http-api.md). `node` outlives the server.
void add_api(http::server& web, node_runtime& node);

}  // namespace caravan
