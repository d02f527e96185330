#include "nodes/cli/client.hpp"
#include "nodes/cli/table.hpp"
#include "nodes/cli/verbs.hpp"

#include <cstdio>

namespace caravan::cli {

namespace {

using json = nlohmann::ordered_json;

std::string number(const json& q, const char* name) { return std::to_string(q.value(name, std::int64_t{0})); }
std::string text(const json& q, const char* name) {
  return q.contains(name) && q[name].is_string() ? q[name].get<std::string>() : std::string{};
}

cell phase_cell(const json& q) {
  const auto phase = text(q, "phase");
  if (!text(q, "trouble").empty()) return {phase + " (trouble)", colour::red};
  if (phase == "running") return {phase, colour::green};
  return {phase, phase == "unknown" ? colour::red : colour::yellow};
}

exit_code run_ls(const arguments& given) {
  client node(given);
  const auto answer = node.ask({"GET", "/v1/queues"});
  if (given.has("--json")) {
    print_json(answer);
    return exit_done;
  }
  table t({{"QUEUE"},
           {"TYPE"},
           {"PHASE"},
           {"WAITING", side::right},
           {"RUNNING", side::right},
           {"DELAYED", side::right},
           {"DEAD", side::right},
           {"HANDLED", side::right},
           {"FAILED", side::right},
           {"WORKERS", side::right},
           {"OLDEST", side::right}});
  for (const auto& q : answer["queues"]) {
    const auto dead = q.value("dead", std::int64_t{0});
    t.add({text(q, "name"),
           text(q, "type") + (q.value("unique", false) ? ", unique" : ""),
           phase_cell(q),
           number(q, "waiting"),
           number(q, "running"),
           number(q, "delayed"),
           {std::to_string(dead), dead ? colour::red : colour::none},
           number(q, "handled"),
           number(q, "failed"),
           number(q, "active") + "/" + number(q, "workers"),
           age_of(text(q, "oldest_waiting"))});
  }
  t.print();
  return exit_done;
}

exit_code run_inspect(const arguments& given) {
  client node(given);
  const auto answer = node.ask({"GET", "/v1/queues/" + path_segment(given.get("QUEUE"))});
  if (given.has("--json"))
    print_json(answer);
  else
    for (const auto& [name, value] : answer.items())
      std::printf("%-15s %s\n", name.c_str(),
                  value.is_string() ? clean(value.get<std::string>()).c_str()
                  : value.is_null() ? ""
                                    : value.dump().c_str());
  return exit_done;
}

}  // namespace

std::vector<verb> queue_show_verbs() {
  return {{"queue", "ls", "Lists the queues with what is in them.", {}, "caravan queue ls", run_ls, talks_to::node},
          {"queue",
           "inspect",
           "Shows all that is known of one queue.",
           {{"QUEUE", "", "The queue", times::once}},
           "caravan queue inspect mail",
           run_inspect,
           talks_to::node}};
}

}  // namespace caravan::cli
