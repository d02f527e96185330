#include "nodes/http/api.hpp"

#include "nodes/http/server/server.hpp"
#include "nodes/node_runtime.hpp"

namespace caravan {

void add_api(http::server& web, node_runtime&) {
  web.route("GET", "/healthz", http::role::anyone,
            [](const http::request&, const http::responder& answer) { answer.reply(http::text_response("ok\n")); });
}

}  // namespace caravan
