#include "config/read_settings.hpp"
#include "nodes/http/api_json.hpp"
#include "nodes/http/api_parts.hpp"
#include "nodes/node_runtime.hpp"
#include "nodes/node_watch.hpp"

namespace caravan::http {

void add_store_routes(api a) {
  a.web.route("GET", "/v1/store", role::read, [a](const request&, const responder& answer) {
    a.node.watch().outside([a, answer](const std::shared_ptr<const outside_facts>& facts) {
      auto queues = ordered_json::array();
      for (const auto& q : a.node.all()) {
        const auto type = q->settings().type;
        queues.push_back({{"name", q->name()},
                          {"type", config::to_string(type)},
                          {"durable", type == config::queue_type::level || type == config::queue_type::redis},
                          {"trouble", q->trouble_text()}});
      }
      auto shared = ordered_json::array();
      for (const auto& s : facts->stores)
        shared.push_back({{"where", s.where},
                          {"round_trip_ms", s.seconds ? ordered_json(*s.seconds * 1000) : ordered_json(nullptr)}});
      answer.reply(json_response(dump({{"node", a.node.settings().node.name},
                                       {"data_dir", a.node.settings().node.data_dir},
                                       {"queues", std::move(queues)},
                                       {"shared", std::move(shared)}})));
    });
  });
}

}  // namespace caravan::http
