#include "nodes/http/api_parts.hpp"
#include "nodes/http/embedded_file.hpp"

#include <algorithm>

namespace caravan::http {

void add_openapi_routes(api a) {
  a.web.route("GET", "/v1/openapi.json", role::anyone, [](const request& r, const responder& answer) {
    const auto all = embedded_files();
    const auto it = std::find_if(all.begin(), all.end(), [](const auto& f) { return f.path == "openapi.json"; });
    if (it == all.end()) return void(answer.reply(error{errc::not_found, "this build has no openapi.json"}));
    answer.reply(unless_known(r, json_response(std::string(it->content))));
  });
}

}  // namespace caravan::http
