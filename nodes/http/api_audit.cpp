#include "config/values.hpp"
#include "nodes/audit_log.hpp"
#include "nodes/http/api.hpp"
#include "nodes/http/api_json.hpp"
#include "nodes/http/api_parts.hpp"
#include "nodes/node_runtime.hpp"

namespace caravan::http {

namespace {

std::string words_of(role_set granted) {
  std::string text;
  for (const auto r : all_roles)
    if (granted.allows(r)) text.append(text.empty() ? "" : " ").append(to_string(r));
  return text;
}

}  // namespace

void note_change(audit_log& log, const access_entry& call, system_time now) {
  // What brings work in and takes it out is not an operator's deed; there may be thousands a second of it.
  if (call.needed != role::admin || call.method == "GET" || call.method == "HEAD" || call.method == "OPTIONS") return;
  // Whoever has no token at all is not worth a line for each try.
  if (call.granted.empty()) return;
  audit_line line;
  line.at = now;
  line.remote = call.remote;
  line.roles = words_of(call.granted);
  line.action = std::string(call.method) + " " + std::string(call.path.substr(0, 1024));
  line.status = call.status;
  log.add(std::move(line));
}

void add_audit_routes(api a) {
  a.web.route("GET", "/v1/audit", role::admin, [a](const request& r, const responder& answer) {
    const auto most = config::parse_integer(r.query_value("limit").value_or("100"));
    if (!most || *most < 1 || *most > static_cast<std::int64_t>(audit_log::remembered))
      return void(answer.reply(error{errc::invalid_argument, "\"limit\" must be a whole number from 1 to 1000"}));
    auto list = ordered_json::array();
    for (const auto& l : a.node.audit().latest(static_cast<std::size_t>(*most)))
      list.push_back({{"n", l.number},
                      {"at", format_instant(l.at)},
                      {"remote", l.remote},
                      {"roles", l.roles},
                      {"action", l.action},
                      {"status", l.status}});
    answer.reply(unless_known(r, json_response(dump({{"audit", std::move(list)}}))));
  });
}

}  // namespace caravan::http
