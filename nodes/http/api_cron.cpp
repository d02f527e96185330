#include "config/values.hpp"
#include "nodes/http/api_json.hpp"
#include "nodes/http/api_parts.hpp"
#include "nodes/http/schedule_preview.hpp"
#include "nodes/node_runtime.hpp"

#include <caravan/cron.hpp>

#include <algorithm>
#include <array>

namespace caravan::http {

namespace {

ordered_json text_or_null(const std::string& text) { return text.empty() ? ordered_json() : ordered_json(text); }

ordered_json to_json(const task_run_info& r) {
  if (r.token == 0) return nullptr;
  return {{"token", r.token},
          {"node", r.node},
          {"trigger", r.trigger},
          {"who", text_or_null(r.who)},
          {"occurrence", instant_or_null(r.occurrence)},
          {"started", instant_or_null(r.started)},
          {"ended", instant_or_null(r.ended)},
          {"outcome", text_or_null(r.outcome)},
          {"message", r.message}};
}

ordered_json to_json(const task_info& t) {
  auto missed = ordered_json::object();
  for (const auto& [reason, count] : t.missed) missed[reason] = count;
  return {{"name", t.name},
          {"description", t.description},
          {"action", t.action},
          {"schedule", t.schedule},
          {"zone", t.zone},
          {"enabled", t.enabled},
          {"paused", t.paused},
          {"paused_by", t.paused_by},
          {"next", instant_or_null(t.next)},
          {"status", text_or_null(t.status)},
          {"running", to_json(t.running)},
          {"previous", to_json(t.last)},
          {"runs", t.runs},
          {"failures", t.failures},
          {"missed", std::move(missed)}};
}

ordered_json to_json(const task_event& e) {
  return {{"what", e.what},
          {"occurrence", instant_or_null(e.occurrence)},
          {"until", instant_or_null(e.until)},
          {"count", e.count},
          {"token", e.token ? ordered_json(e.token) : ordered_json()},
          {"trigger", text_or_null(e.trigger)},
          {"node", e.node},
          {"who", text_or_null(e.who)},
          {"started", instant_or_null(e.started)},
          {"ended", instant_or_null(e.ended)},
          {"message", e.message}};
}

/// With its history.
expected<ordered_json> shown(cron_port& tasks, const std::string& name) {
  const auto task = tasks.find(name);
  if (!task) return task.failure();
  const auto events = tasks.history(name);
  if (!events) return events.failure();
  auto out = to_json(*task);
  auto list = ordered_json::array();
  for (const auto& e : *events) list.push_back(to_json(e));
  out["history"] = std::move(list);
  return out;
}

void reply(const responder& answer, const expected<ordered_json>& what) {
  if (what)
    answer.reply(json_response(dump(*what)));
  else
    answer.reply(what.failure());
}

using change = expected<void> (cron_port::*)(const std::string&, const std::string&);

void add_change(api a, const std::string& verb, change what) {
  change_route(a, "POST", "/v1/cron/{task}/" + verb, role::admin, [a, what](const request& r, const responder& answer) {
    a.web.post_blocking(
        answer, [tasks = a.node.tasks(), what, name = std::string(r.param("task")), by = who(r)](const responder& to) {
          if (const auto done = (tasks.get()->*what)(name, by); !done) return void(to.reply(done.failure()));
          reply(to, shown(*tasks, name));
        });
  });
}

expected<ordered_json> preview(const request& r) {
  constexpr std::array<std::string_view, 6> known{"spec", "zone", "count", "from", "dialect", "name"};
  for (const auto& f : r.query.list())
    if (std::find(known.begin(), known.end(), f.name) == known.end())
      return error{errc::invalid_argument, "there is no query " + with_nearest(f.name, known)};
  const auto value = [&](std::string_view name) { return std::string(r.query_value(name).value_or("")); };
  if (value("spec").empty())
    return error{errc::invalid_argument, "\"spec\" is missing; write for example ?spec=30+2+*+*+mon-fri"};
  const auto dialect = value("dialect");
  if (!dialect.empty() && dialect != "standard" && dialect != "extended")
    return error{errc::invalid_argument, "\"dialect\" must be standard or extended"};
  const auto count = config::parse_integer(r.query_value("count").value_or("5"));
  if (!count || *count < 1 || *count > static_cast<std::int64_t>(most_previewed))
    return error{errc::invalid_argument, "\"count\" must be a number from 1 to " + std::to_string(most_previewed)};
  auto from = std::chrono::system_clock::now();
  if (const auto text = r.query_value("from")) {
    const auto at = parse_instant(*text);
    if (!at) return error{errc::invalid_argument, "\"from\" is no instant; write for example 2026-05-01T12:00:00Z"};
    from = *at;
  }
  const auto s = schedule::parse(
      value("spec"),
      {dialect == "extended" ? cron_dialect::extended : cron_dialect::standard, value("zone"), value("name")});
  if (!s) return s.failure();
  return schedule_preview(*s, std::chrono::floor<std::chrono::seconds>(from), static_cast<std::size_t>(*count));
}

}  // namespace

// The answers come from the actor of the tasks, and the first change of an idle node opens their store: on a thread
// that may wait.
void add_cron_routes(api a) {
  a.web.route("GET", "/v1/cron", role::read, [a](const request&, const responder& answer) {
    a.web.post_blocking(answer, [tasks = a.node.tasks()](const responder& to) {
      const auto all = tasks->list();
      if (!all) return void(to.reply(all.failure()));
      auto list = ordered_json::array();
      for (const auto& t : *all) list.push_back(to_json(t));
      to.reply(json_response(dump({{"tasks", std::move(list)}})));
    });
  });
  a.web.route("GET", "/v1/cron/preview", role::read, [a](request r, const responder& answer) {
    a.web.post_blocking(answer, [r = std::move(r)](const responder& to) { reply(to, preview(r)); });
  });
  a.web.route("GET", "/v1/cron/{task}", role::read, [a](const request& r, const responder& answer) {
    a.web.post_blocking(answer, [tasks = a.node.tasks(), name = std::string(r.param("task"))](const responder& to) {
      reply(to, shown(*tasks, name));
    });
  });
  add_change(a, "run", &cron_port::run);
  add_change(a, "skip", &cron_port::skip_next);
  add_change(a, "pause", &cron_port::pause);
  add_change(a, "resume", &cron_port::resume);
}

}  // namespace caravan::http
