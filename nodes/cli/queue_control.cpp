#include "config/values.hpp"
#include "nodes/cli/client.hpp"
#include "nodes/cli/table.hpp"
#include "nodes/cli/verbs.hpp"

#include <cstdio>

namespace caravan::cli {

using namespace std::chrono_literals;

namespace {

using json = nlohmann::ordered_json;

/// Asks for it, and says in a line what the queue is like then.
exit_code control(const arguments& given, const std::string& action, const json& body,
                  std::chrono::milliseconds timeout = 30s) {
  client node(given);
  const auto answer = node.ask({.method = "POST",
                                .path = "/v1/queues/" + path_segment(given.get("QUEUE")) + "/" + action,
                                .body = body.dump(-1, ' ', false, json::error_handler_t::replace),
                                .timeout = timeout});
  if (given.has("--json")) {
    print_json(answer);
    return exit_done;
  }
  if (answer.contains("purged")) {
    std::printf("%s: %s items forgotten\n", clean(given.get("QUEUE")).c_str(), answer["purged"].dump().c_str());
    return exit_done;
  }
  std::string until;
  if (answer.contains("paused_until") && answer["paused_until"].is_string())
    until = " until " + answer["paused_until"].get<std::string>();
  std::printf("%s: %s%s, %s waiting, %s running, %s delayed, %s dead\n", clean(answer.value("name", "")).c_str(),
              clean(answer.value("phase", "")).c_str(), clean(until).c_str(), answer["waiting"].dump().c_str(),
              answer["running"].dump().c_str(), answer["delayed"].dump().c_str(), answer["dead"].dump().c_str());
  return exit_done;
}

exit_code run_pause(const arguments& given) {
  if (given.has("--until") && given.has("--for")) throw stop(exit_usage, "give --until or --for, not both");
  auto body = json::object();
  if (const auto until = given.find("--until")) body["until"] = *until;
  if (const auto length = given.find("--for")) body["for"] = *length;
  return control(given, "pause", body);
}

exit_code run_resume(const arguments& given) { return control(given, "resume", json::object()); }
exit_code run_drain(const arguments& given) { return control(given, "drain", json::object()); }

exit_code run_flush(const arguments& given) {
  const auto text = given.get("--timeout", "30s");
  const auto timeout = config::parse_duration(text);
  if (!timeout || *timeout < 0ns || *timeout > 24h)
    throw stop(exit_usage, "--timeout " + text + ": write a duration up to 24h like 30s or 5m");
  return control(given, "flush", {{"timeout", text}}, std::chrono::ceil<std::chrono::milliseconds>(*timeout) + 20s);
}

exit_code run_purge(const arguments& given) {
  if (given.has("--dry-run")) {
    client node(given);
    const auto q = node.ask({"GET", "/v1/queues/" + path_segment(given.get("QUEUE"))});
    const auto state = given.get("--state");
    if (!q.contains(state) || (state != "waiting" && state != "delayed" && state != "dead"))
      throw stop(exit_usage, "--state " + state + ": there are waiting, delayed and dead");
    if (given.has("--json"))
      print_json({{"would_purge", q[state]}});
    else
      std::printf("%s: would forget %s %s items\n", clean(given.get("QUEUE")).c_str(), q[state].dump().c_str(), state.c_str());
    return exit_done;
  }
  if (!given.has("--yes"))
    throw stop(exit_usage, "purge forgets all " + given.get("--state") + " items of queue \"" + given.get("QUEUE") +
                               "\" for good; add --yes if that is meant");
  return control(given, "purge", {{"state", given.get("--state")}});
}

exit_code run_scale(const arguments& given) {
  const auto most = config::parse_integer(given.get("--max-workers"));
  if (!most) throw stop(exit_usage, "--max-workers must be a whole number; 0 or less: no limit");
  return control(given, "scale", {{"max_workers", *most}});
}

option queue_operand() { return {"QUEUE", "", "The queue", times::once}; }

}  // namespace

std::vector<verb> queue_control_verbs() {
  return {
      {"queue",
       "pause",
       "Stops handing out items; pushes are still taken.",
       {queue_operand(),
        {"--until", "TIME", "Resumes by itself at this instant: 2026-05-01T12:00:00Z"},
        {"--for", "DURATION", "Resumes by itself after this: 10m"}},
       "caravan queue pause mail --for 10m",
       run_pause,
       talks_to::node},
      {"queue",
       "resume",
       "Goes on after a pause, or takes back a drain that has not ended.",
       {queue_operand()},
       "caravan queue resume mail",
       run_resume,
       talks_to::node},
      {"queue",
       "flush",
       "Handles all that waits now and returns when nothing waits or runs.",
       {queue_operand(), {"--timeout", "DURATION", "Gives up after this; 30s without it"}},
       "caravan queue flush mail --timeout 5m",
       run_flush,
       talks_to::node},
      {"queue",
       "drain",
       "Refuses pushes, hands out the rest, and then stops the queue until its node starts again.",
       {queue_operand()},
       "caravan queue drain mail",
       run_drain,
       talks_to::node},
      {"queue",
       "purge",
       "Forgets all items of one state.",
       {queue_operand(), {"--state", "STATE", "waiting, delayed or dead", times::once}, {"--yes", "", "It is meant"}, {"--dry-run", "", "Only says how many there are"}},
       "caravan queue purge mail --state dead --yes",
       run_purge,
       talks_to::node},
      {"queue",
       "scale",
       "Changes how many workers a queue may have on this node, until it ends.",
       {queue_operand(), {"--max-workers", "N", "0 or less: no limit", times::once}},
       "caravan queue scale mail --max-workers 4",
       run_scale,
       talks_to::node},
  };
}

}  // namespace caravan::cli
