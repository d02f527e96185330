#include "nodes/http/api_json.hpp"
#include "nodes/http/api_parts.hpp"
#include "nodes/http/embedded_file.hpp"
#include "nodes/node_runtime.hpp"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>

namespace caravan::http {

namespace {

// Nothing from elsewhere, nothing inline, in no frame of another page.
constexpr const char* content_policy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri "
    "'none'; "
    "form-action 'none'; frame-ancestors 'none'";

std::string_view type_of(std::string_view path) {
  const auto dot = path.rfind('.');
  const auto ending = dot == std::string_view::npos ? std::string_view{} : path.substr(dot + 1);
  if (ending == "html") return "text/html; charset=utf-8";
  if (ending == "js") return "text/javascript; charset=utf-8";
  if (ending == "css") return "text/css; charset=utf-8";
  if (ending == "svg") return "image/svg+xml";
  if (ending == "json") return "application/json";
  return "text/plain; charset=utf-8";
}

const embedded_file* find(std::string_view path) {
  const auto all = embedded_files();
  const auto it = std::find_if(all.begin(), all.end(), [&](const auto& f) { return f.path == path; });
  return it == all.end() ? nullptr : &*it;
}

/// Whoever works on web/ sees changes at once. Only files that the program has itself, by the same names.
std::string from_folder(const char* folder, std::string_view path) {
  std::ifstream in(std::string(folder) + "/" + std::string(path), std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void serve(const request& r, const responder& answer, std::string_view path) {
  const auto* file = find(path);
  if (!file) return void(answer.reply(error{errc::not_found, "the dashboard has no such file; its page is /ui/"}));
  response out{.status = 200, .content_type = std::string(type_of(path))};
  out.headers = {{"Content-Security-Policy", content_policy},
                 {"X-Content-Type-Options", "nosniff"},
                 {"Referrer-Policy", "no-referrer"},
                 {"Cache-Control", "no-cache"}};
  if (const auto* folder = std::getenv("CARAVAN_UI_FOLDER")) {
    out.body = from_folder(folder, path);
    return void(answer.reply(std::move(out)));
  }
  const auto tag = "\"" + std::string(file->hash.substr(0, 32)) + "\"";
  out.headers.push_back({"ETag", tag});
  if (r.header("If-None-Match").value_or("").find(tag) != std::string_view::npos)
    out.status = 304;
  else
    out.body = std::string(file->content);
  answer.reply(std::move(out));
}

}  // namespace

void add_ui_routes(api a) {
  // Relative, so that it holds behind a proxy that puts the node under a prefix.
  a.web.route("GET", "/ui", role::anyone, [](const request&, const responder& answer) {
    answer.reply({.status = 308, .content_type = {}, .headers = {{"Location", "ui/"}}});
  });
  a.web.route("GET", "/ui/{file...}", role::anyone, [](const request& r, const responder& answer) {
    const auto file = r.param("file");
    serve(r, answer, file.empty() ? "index.html" : file);
  });
  // What the caller may do, so that the dashboard need not offer the rest.
  a.web.route("GET", "/v1/me", role::anyone, [a](const request& r, const responder& answer) {
    const auto& h = a.node.settings().http;
    const bool open = h.read_token.empty() && h.push_token.empty() && h.work_token.empty() && h.admin_token.empty();
    auto roles = ordered_json::array();
    for (const auto x : all_roles)
      if (r.granted.allows(x)) roles.push_back(to_string(x));
    answer.reply(json_response(dump({{"roles", std::move(roles)}, {"login", !open}})));
  });
}

}  // namespace caravan::http
