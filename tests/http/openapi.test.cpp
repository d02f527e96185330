#define CAF_SUITE http_openapi
// web/openapi.json against the server that runs: the same routes with the same roles, and answers that fit.
#include "nodes/http/api.hpp"
#include "nodes/http/server/server.hpp"
#include "nodes/node_runtime.hpp"

#include "tests/support/http_node.hpp"

#include <algorithm>
#include <cctype>
#include <map>

#include "caf/test/unit_test.hpp"

using namespace caravan;
using namespace caravan::testing_support;

namespace {

constexpr auto with_all =
    "[queue.mail]\n[queue.slow]\n[limit.api]\nRATE = 5\n[cache.pages]\n[cron.tick]\nSCHEDULE = @every 1h\nPUSH = mail "
    "{\"n\": 1}\n";

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

/// What the file uses of JSON Schema. Empty: `value` fits; else where it does not.
std::string misfit(const json& value, const json& schema, const json& root, const std::string& where) {
  if (const auto r = schema.find("$ref"); r != schema.end())
    return misfit(value, root.at(json::json_pointer(r->get<std::string>().substr(1))), root, where);
  if (value.is_null()) return schema.value("nullable", false) || !schema.contains("type") ? "" : where + " is null";
  if (!schema.contains("type")) return "";
  const auto type = schema["type"].get<std::string>();
  const std::map<std::string, bool> is{{"object", value.is_object()}, {"array", value.is_array()},
                                       {"string", value.is_string()}, {"integer", value.is_number_integer()},
                                       {"number", value.is_number()}, {"boolean", value.is_boolean()}};
  if (!is.at(type)) return where + " is no " + type + ": " + value.dump();
  if (const auto e = schema.find("enum"); e != schema.end() && std::find(e->begin(), e->end(), value) == e->end())
    return where + " is none of the permitted words: " + value.dump();
  if (type == "array") {
    for (std::size_t i = 0; i < value.size(); ++i)
      if (auto no = misfit(value[i], schema["items"], root, where + "/" + std::to_string(i)); !no.empty()) return no;
    return "";
  }
  if (type != "object") return "";
  for (const auto& name : schema.value("required", json::array()))
    if (!value.contains(name.get<std::string>())) return where + " lacks " + name.dump();
  const auto properties = schema.value("properties", json::object());
  const auto more = schema.value("additionalProperties", json(true));
  for (const auto& [name, member] : value.items()) {
    if (const auto p = properties.find(name); p != properties.end()) {
      if (auto no = misfit(member, *p, root, where + "/" + name); !no.empty()) return no;
    } else if (more.is_object()) {
      if (auto no = misfit(member, more, root, where + "/" + name); !no.empty()) return no;
    } else if (!more.get<bool>()) {
      return where + " has a member that is not described: " + name;
    }
  }
  return "";
}

}  // namespace

CAF_TEST(every route is described and every description is a route) {
  temp_folder folder;
  node_options o;
  o.config_text = "[node]\nNAME = tester\n";
  o.data_dir = folder.path().string() + "/data";
  o.use_environment = false;
  o.quiet = true;
  node_runtime node(o);
  http::server web(http::options{});
  add_api(web, node);

  http_node running;
  const auto file = running.get("/v1/openapi.json");
  CAF_REQUIRE_EQUAL(file.status, 200);
  std::map<std::string, std::string> described, served;  // "GET /v1/queues": role
  for (const auto& [path, methods] : file.body.at("paths").items())
    for (const auto& [method, what] : methods.items()) described[method + " " + path] = what.value("x-role", "");
  for (const auto& r : web.routes()) {
    auto path = r.pattern;
    if (const auto dots = path.find("..."); dots != std::string::npos) path.erase(dots, 3);
    served[lower(r.method) + " " + path] = std::string(to_string(r.needed));
  }
  for (const auto& [route, role] : served) {
    if (!described.contains(route)) {
      CAF_ERROR("web/openapi.json lacks " << route);
    } else if (described[route] != role) {
      CAF_ERROR(route << " needs the role " << role << ", not " << described[route]);
    }
  }
  for (const auto& [route, role] : described)
    if (!served.contains(route)) CAF_ERROR("no such route: " << route);
  CAF_CHECK(served.size() > 40u);
}

CAF_TEST(answers fit their descriptions) {
  http_node node(with_all);
  const auto file = node.get("/v1/openapi.json").body;
  const auto id = node.push("mail", "{\"payload\":{\"n\":1},\"key\":\"k\"}").at("id").get<std::string>();
  node.post("/v1/locks/nightly/acquire", "{\"owner\":\"backup\"}");
  node.post("/v1/limits/api/take", "{\"key\":\"ann\"}");
  node.post("/v1/cron/tick/run");
  const std::map<std::string, std::string> examples{{"{queue}", "mail"},  {"{id}", id},       {"{task}", "tick"},
                                                    {"{key}", "nightly"}, {"{limit}", "api"}, {"{cache}", "pages"}};
  std::size_t checked = 0;
  const auto check = [&](const std::string& method, const std::string& path, const std::string& call,
                         const std::string& body) {
    const auto a = node.ask(method, call, body);
    const auto responses = file.at("paths").at(path).at(lower(method)).at("responses");
    const auto status = std::to_string(a.status);
    if (!responses.contains(status)) {
      CAF_ERROR(method << " " << call << ": status " << status << " " << a.text);
      return;
    }
    const auto content = responses[status].value("content", json::object());
    if (!content.contains("application/json")) return;
    const auto no = misfit(a.body, content["application/json"]["schema"], file, call);
    if (!no.empty()) CAF_ERROR(method << " " << no);
    ++checked;
  };
  for (const auto& [path, methods] : file.at("paths").items()) {
    if (!methods.contains("get") || path == "/" || path.starts_with("/ui") || path.starts_with("/v1/cluster") ||
        path == "/v1/caches/{cache}/{key}" || methods["get"].value("x-stream", false))
      continue;
    auto call = path;
    for (const auto& [name, value] : examples)
      if (const auto at = call.find(name); at != std::string::npos) call.replace(at, name.size(), value);
    if (path == "/v1/cron/preview") call += "?spec=0+2+*+*+*";
    check("GET", path, call, "");
  }
  check("POST", "/v1/queues/{queue}/pause", "/v1/queues/mail/pause", "{\"for\":\"5m\"}");
  check("GET", "/v1/queues/{queue}", "/v1/queues/mail", "");
  check("POST", "/v1/queues/{queue}/resume", "/v1/queues/mail/resume", "");
  check("POST", "/v1/queues/{queue}/purge", "/v1/queues/slow/purge", "{\"state\":\"dead\"}");
  check("DELETE", "/v1/jobs/{id}", "/v1/jobs/" + id, "");
  check("PUT", "/v1/limits/{limit}/rate", "/v1/limits/api/rate", "{\"rate\":3}");
  check("POST", "/v1/cron/{task}/pause", "/v1/cron/tick/pause", "");
  CAF_CHECK(checked > 20u);
}

CAF_TEST(errors are problems as described) {
  http_node node;
  const auto file = node.get("/v1/openapi.json").body;
  const auto& schema = file.at("components").at("schemas").at("problem");
  for (const auto* path : {"/v1/queues/none", "/v1/jobs/x", "/v1/history?span=x", "/v1/cluster"}) {
    const auto a = node.get(path);
    CAF_CHECK(a.status >= 400);
    const auto no = misfit(a.body, schema, file, path);
    if (!no.empty()) CAF_ERROR(no);
  }
}
