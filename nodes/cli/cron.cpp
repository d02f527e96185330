#include "nodes/cli/client.hpp"
#include "nodes/cli/table.hpp"
#include "nodes/cli/verbs.hpp"

#include <cstdio>

namespace caravan::cli {

using namespace std::chrono_literals;

namespace {

using json = nlohmann::ordered_json;

std::string text(const json& of, const char* name, const char* otherwise = "") {
  return of.is_object() && of.contains(name) && of[name].is_string() ? of[name].get<std::string>() : otherwise;
}
std::string number(const json& of, const char* name) {
  return of.is_object() && of.contains(name) && of[name].is_number() ? of[name].dump() : "";
}

/// "2026-03-29T02:30:00.000Z" without its fraction.
std::string second(const std::string& instant) {
  const auto dot = instant.find('.');
  return dot == std::string::npos ? instant : instant.substr(0, dot) + "Z";
}

std::string state_of(const json& t) {
  if (!t.value("enabled", false)) return "disabled";
  if (t.value("paused", false)) return "paused";
  return "on";
}

cell status_cell(const std::string& status) {
  const auto paint = status == "finished" || status == "running" ? colour::green
                     : status.empty()                            ? colour::dim
                     : status == "cancelled"                     ? colour::yellow
                                                                 : colour::red;
  return {status.empty() ? "-" : status, paint};
}

std::string path_of(const arguments& given) { return "/v1/cron/" + path_segment(given.get("TASK")); }

exit_code run_ls(const arguments& given) {
  client node(given);
  const auto answer = node.ask({"GET", "/v1/cron"});
  if (given.has("--json")) {
    print_json(answer);
    return exit_done;
  }
  table t({{"TASK"},
           {"STATE"},
           {"SCHEDULE"},
           {"NEXT"},
           {"LAST"},
           {"STATUS"},
           {"RUNS", side::right},
           {"FAILED", side::right},
           {"DESCRIPTION"}});
  for (const auto& x : answer["tasks"]) {
    const auto state = state_of(x);
    t.add({text(x, "name"),
           {state, state == "on" ? colour::none : colour::dim},
           text(x, "schedule"),
           second(text(x, "next", "-")),
           second(text(x["previous"], "started", "-")),
           status_cell(text(x, "status")),
           number(x, "runs"),
           number(x, "failures"),
           shortened(text(x, "description"), 50)});
  }
  t.print();
  return exit_done;
}

void print_history(const json& task) {
  table t({{"OCCURRENCE"},
           {"WHAT"},
           {"COUNT", side::right},
           {"TRIGGER"},
           {"STARTED"},
           {"ENDED"},
           {"NODE"},
           {"WHO"},
           {"MESSAGE"}});
  for (const auto& e : task["history"])
    t.add({second(text(e, "occurrence")), status_cell(text(e, "what")), number(e, "count"), text(e, "trigger", "-"),
           second(text(e, "started", "-")), second(text(e, "ended", "-")), text(e, "node"), text(e, "who", "-"),
           shortened(text(e, "message"), 60)});
  t.print();
}

exit_code run_history(const arguments& given) {
  client node(given);
  const auto answer = node.ask({"GET", path_of(given)});
  if (given.has("--json"))
    print_json(answer["history"]);
  else
    print_history(answer);
  return exit_done;
}

void print_fields(const json& of, const std::string& before) {
  for (const auto& [name, value] : of.items()) {
    if (name == "history") continue;
    if (value.is_object()) {
      print_fields(value, before + name + ".");
      continue;
    }
    std::printf("%-20s %s\n", clean(before + name).c_str(),
                value.is_string() ? clean(value.get<std::string>()).c_str()
                : value.is_null() ? ""
                                  : value.dump().c_str());
  }
}

exit_code run_show(const arguments& given) {
  client node(given);
  const auto answer = node.ask({"GET", path_of(given)});
  if (given.has("--json"))
    print_json(answer);
  else
    print_fields(answer, "");
  return exit_done;
}

exit_code change(const arguments& given, const char* what) {
  client node(given);
  const auto answer = node.ask({.method = "POST", .path = path_of(given) + "/" + what});
  if (given.has("--json")) {
    print_json(answer);
    return exit_done;
  }
  const auto next = text(answer, "next");
  std::printf("%s: %s%s%s\n", clean(text(answer, "name")).c_str(), state_of(answer).c_str(),
              answer["running"].is_object() ? ", running" : "",
              next.empty() ? "" : clean(", next " + second(next)).c_str());
  return exit_done;
}

exit_code run_run(const arguments& given) { return change(given, "run"); }
exit_code run_pause(const arguments& given) { return change(given, "pause"); }
exit_code run_resume(const arguments& given) { return change(given, "resume"); }
exit_code run_skip(const arguments& given) { return change(given, "skip"); }

option task_operand() { return {"TASK", "", "The task", times::once}; }

}  // namespace

std::vector<verb> cron_verbs() {
  return {
      {"cron", "ls", "Lists the tasks, disabled and built-in ones too.", {}, "caravan cron ls", run_ls, talks_to::node},
      {"cron",
       "show",
       "Shows all that is known of one task.",
       {task_operand()},
       "caravan cron show backup",
       run_show,
       talks_to::node},
      {"cron",
       "run",
       "Runs a task now, also a disabled or paused one.",
       {task_operand()},
       "caravan cron run backup",
       run_run,
       talks_to::node,
       "Answers when the run has begun; `cron show` tells how it ended."},
      {"cron",
       "pause",
       "Passes over a task's times on all nodes, until it is resumed.",
       {task_operand()},
       "caravan cron pause backup",
       run_pause,
       talks_to::node},
      {"cron",
       "resume",
       "Ends a pause; what was due meanwhile is not made up.",
       {task_operand()},
       "caravan cron resume backup",
       run_resume,
       talks_to::node},
      {"cron",
       "skip",
       "Passes over the next time of a task.",
       {task_operand()},
       "caravan cron skip backup",
       run_skip,
       talks_to::node},
      {"cron",
       "history",
       "Lists the runs and the missed times that the asked node knows of, the newest first.",
       {task_operand()},
       "caravan cron history backup",
       run_history,
       talks_to::node},
  };
}

}  // namespace caravan::cli
