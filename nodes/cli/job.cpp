#include "nodes/cli/client.hpp"
#include "nodes/cli/table.hpp"
#include "nodes/cli/verbs.hpp"

#include "config/values.hpp"

#include <algorithm>
#include <cstdio>

namespace caravan::cli {

namespace {

using json = nlohmann::ordered_json;

std::string text(const json& j, const char* name) {
  return j.contains(name) && j[name].is_string() ? j[name].get<std::string>() : std::string{};
}

std::string payload_text(const json& j) {
  if (j.contains("payload")) return j["payload"].dump(-1, ' ', false, json::error_handler_t::replace);
  return j.contains("payload_base64") ? "base64:" + text(j, "payload_base64") : "";
}

exit_code run_ls(const arguments& given) {
  const auto wanted = config::parse_integer(given.get("--limit", "100"));
  if (!wanted || *wanted < 1) throw stop(exit_usage, "--limit must be a whole number from 1");
  client node(given);
  auto jobs = json::array();
  std::string after;
  // In pages, as many as asked for.
  while (static_cast<std::int64_t>(jobs.size()) < *wanted) {
    const auto limit = std::min<std::int64_t>(*wanted - static_cast<std::int64_t>(jobs.size()), 1000);
    auto page = node.ask({"GET", "/v1/queues/" + path_segment(given.get("QUEUE")) + "/jobs?state=" +
                                     path_segment(given.get("--state", "waiting")) + "&limit=" + std::to_string(limit) +
                                     (after.empty() ? "" : "&after=" + path_segment(after))});
    for (auto& j : page["jobs"]) jobs.push_back(std::move(j));
    after = text(page, "next");
    if (after.empty()) break;
  }
  if (given.has("--json")) {
    print_json({{"jobs", std::move(jobs)}});
    return exit_done;
  }
  table t({{"ID"},
           {"STATE"},
           {"TRIES", side::right},
           {"AGE", side::right},
           {"DUE", side::right},
           {"LAST ERROR"},
           {"PAYLOAD"}});
  for (const auto& j : jobs)
    t.add({text(j, "id"),
           {text(j, "state"), text(j, "state") == "dead" ? colour::red : colour::none},
           std::to_string(j.value("attempts", 0)),
           age_of(text(j, "pushed_at")),
           age_of(text(j, "due")),
           shortened(clean(text(j, "last_error")), 40),
           shortened(clean(payload_text(j)), 60)});
  t.print();
  return exit_done;
}

exit_code run_show(const arguments& given) {
  client node(given);
  const auto job = node.ask({"GET", "/v1/jobs/" + path_segment(given.get("ID"))});
  if (given.has("--json"))
    print_json(job);
  else
    for (const auto& [name, value] : job.items())
      std::printf("%-13s %s\n", name.c_str(),
                  value.is_string() && name != "payload" ? clean(value.get<std::string>()).c_str()
                  : value.is_null()                      ? ""
                                    : clean(value.dump(-1, ' ', false, json::error_handler_t::replace)).c_str());
  return exit_done;
}

exit_code change(const arguments& given, const std::string& method, const std::string& action, const char* said) {
  client node(given);
  const auto answer = node.ask({method, "/v1/jobs/" + path_segment(given.get("ID")) + action});
  if (given.has("--json"))
    print_json(answer);
  else
    std::printf("%s: %s\n", clean(given.get("ID")).c_str(), said);
  return exit_done;
}

exit_code run_retry(const arguments& given) { return change(given, "POST", "/retry", "waits again"); }
exit_code run_delete(const arguments& given) { return change(given, "DELETE", "", "deleted"); }

exit_code run_cancel(const arguments& given) { return change(given, "POST", "/cancel", "cancelled, or asked to stop where it runs"); }

/// Asks again from where the node stopped until all was looked at.
exit_code change_all(const arguments& given, const std::string& action) {
  client node(given);
  json body = json::object();
  body["state"] = given.get("--state", "dead");
  for (const auto* name : {"error", "key", "older-than"})
    if (const auto value = given.find(std::string("--") + name)) body[std::string(name) == "older-than" ? "older_than" : name] = *value;
  if (const auto p = given.find("--priority")) {
    const auto value = config::parse_integer(*p);
    if (!value) throw stop(exit_usage, "--priority must be a whole number");
    body["priority"] = *value;
  }
  body["dry_run"] = given.has("--dry-run");
  std::uint64_t seen = 0;
  std::uint64_t matched = 0;
  std::uint64_t changed = 0;
  for (;;) {
    const auto part = node.ask({"POST", "/v1/queues/" + path_segment(given.get("QUEUE")) + "/jobs/" + action, body.dump()});
    seen += part.value("seen", std::uint64_t{0});
    matched += part.value("matched", std::uint64_t{0});
    changed += part.value("changed", std::uint64_t{0});
    const auto next = text(part, "next");
    if (next.empty()) break;
    body["after"] = next;
  }
  if (given.has("--json"))
    print_json({{"seen", seen}, {"matched", matched}, {"changed", changed}});
  else
    std::printf("%llu jobs looked at, %llu match, %llu changed%s\n", static_cast<unsigned long long>(seen),
                static_cast<unsigned long long>(matched), static_cast<unsigned long long>(changed),
                given.has("--dry-run") ? " (--dry-run)" : "");
  return exit_done;
}

exit_code run_retry_all(const arguments& given) { return change_all(given, "retry"); }
exit_code run_delete_all(const arguments& given) { return change_all(given, "delete"); }

std::vector<option> filters() {
  return {{"QUEUE", "", "The queue", times::once},
          {"--state", "STATE", "dead (without it), delayed or done"},
          {"--error", "TEXT", "Only those whose last error has this in it"},
          {"--key", "KEY", "Only those with this unique key or order key"},
          {"--older-than", "DURATION", "Only those pushed longer ago than this"},
          {"--priority", "N", "Only those of this priority"},
          {"--dry-run", "", "Counts, and changes nothing"}};
}

option id_operand() { return {"ID", "", "The job's id", times::once}; }

}  // namespace

std::vector<verb> job_verbs() {
  return {{"job",
           "ls",
           "Lists jobs of one state, in order.",
           {{"QUEUE", "", "The queue", times::once},
            {"--state", "STATE", "waiting (without it), delayed, running, dead or done"},
            {"--limit", "N", "At most so many; 100 without it"}},
           "caravan job ls mail --state dead",
           run_ls,
           talks_to::node},
          {"job",
           "show",
           "Shows one job.",
           {id_operand()},
           "caravan job show mail.01hq3k5v2x8rt",
           run_show,
           talks_to::node},
          {"job",
           "retry",
           "Puts a dead or delayed job in line now.",
           {id_operand()},
           "caravan job retry mail.01hq3k5v2x8rt",
           run_retry,
           talks_to::node},
          {"job",
           "cancel",
           "Cancels a job: it is not begun any more, and a handler that has it is asked to stop.",
           {id_operand()},
           "caravan job cancel mail.01hq3k5v2x8rt",
           run_cancel,
           talks_to::node},
          {"job",
           "retry-all",
           "Puts dead or delayed jobs in line, in their old order.",
           filters(),
           "caravan job retry-all mail --error timeout --dry-run",
           run_retry_all,
           talks_to::node},
          {"job",
           "delete-all",
           "Forgets jobs that do not run.",
           filters(),
           "caravan job delete-all mail --older-than 720h",
           run_delete_all,
           talks_to::node},
          {"job",
           "delete",
           "Forgets a job that does not run.",
           {id_operand()},
           "caravan job delete mail.01hq3k5v2x8rt",
           run_delete,
           talks_to::node}};
}

}  // namespace caravan::cli
