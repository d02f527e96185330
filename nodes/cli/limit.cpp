#include "nodes/cli/client.hpp"
#include "nodes/cli/table.hpp"
#include "nodes/cli/verbs.hpp"

#include "config/values.hpp"

#include <cstdio>

namespace caravan::cli {

namespace {

using json = nlohmann::ordered_json;

std::string number(const json& j, const char* name) {
  return j.contains(name) && j[name].is_number() ? std::to_string(j[name].get<std::int64_t>()) : "-";
}

exit_code run_ls(const arguments& given) {
  client node(given);
  const auto answer = node.ask({"GET", "/v1/limits"});
  if (given.has("--json")) {
    print_json(answer);
    return exit_done;
  }
  table t({{"NAME"},
           {"KIND"},
           {"RATE", side::right},
           {"PER MS", side::right},
           {"BURST", side::right},
           {"STORE"},
           {"TAKEN", side::right},
           {"REFUSED", side::right},
           {"FAILURES", side::right}});
  for (const auto& l : answer["limits"])
    t.add({clean(l.value("name", "")),
           clean(l.value("kind", "")),
           number(l, "rate"),
           number(l, "per_ms"),
           number(l, "burst"),
           {clean(l.value("store", "")) +
                (l.value("down", false) ? " (down: " + clean(l.value("when_down", "")) + ")" : ""),
            l.value("down", false) ? colour::red : colour::none},
           number(l, "taken"),
           number(l, "refused"),
           number(l, "failures")});
  t.print();
  return exit_done;
}

std::int64_t whole(const arguments& given, const char* name) {
  const auto n = config::parse_integer(given.get(name));
  if (!n) throw stop(exit_usage, std::string(name) + ": \"" + clean(given.get(name)) + "\" is no whole number");
  return *n;
}

exit_code run_set(const arguments& given) {
  nlohmann::json body{{"rate", whole(given, "RATE")}};
  if (given.has("--burst")) body["burst"] = whole(given, "--burst");
  if (given.has("--per")) body["per"] = given.get("--per");
  client node(given);
  const auto answer = node.ask({"PUT", "/v1/limits/" + path_segment(given.get("LIMIT")) + "/rate", body.dump()});
  if (given.has("--json"))
    print_json(answer);
  else
    std::printf("%s: %s each %s ms, burst %s\n", clean(given.get("LIMIT")).c_str(), number(answer, "rate").c_str(),
                number(answer, "per_ms").c_str(), number(answer, "burst").c_str());
  return exit_done;
}

exit_code run_reset(const arguments& given) {
  client node(given);
  const auto body =
      nlohmann::json{{"key", given.get("KEY")}}.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  const auto answer = node.ask({"POST", "/v1/limits/" + path_segment(given.get("LIMIT")) + "/reset", body});
  if (given.has("--json"))
    print_json(answer);
  else
    std::printf("%s: may take again as one that was never seen\n", clean(given.get("KEY")).c_str());
  return exit_done;
}

exit_code run_top(const arguments& given) {
  client node(given);
  const auto answer = node.ask({"GET", "/v1/limits/" + path_segment(given.get("LIMIT"))});
  if (given.has("--json")) {
    print_json(answer["top"]);
    return exit_done;
  }
  table t({{"KEY"}, {"TAKEN", side::right}, {"REFUSED", side::right}});
  for (const auto& u : answer["top"])
    t.add({shortened(clean(u.value("key", "")), 60),
           number(u, "taken"),
           {number(u, "refused"), u.value("refused", 0) > 0 ? colour::red : colour::none}});
  t.print();
  return exit_done;
}

option limit_operand() { return {"LIMIT", "", "The name of [limit.NAME]", times::once}; }

}  // namespace

std::vector<verb> limit_verbs() {
  return {{"limit", "ls", "Lists the limits of a node.", {}, "caravan limit ls", run_ls, talks_to::node},
          {"limit",
           "set",
           "Changes a limit on this node until it restarts.",
           {limit_operand(),
            {"RATE", "", "How much a key may take", times::once},
            {"--per", "DURATION", "The time that RATE is for; unchanged without it"},
            {"--burst", "N", "Most at once after a quiet time; unchanged without it"}},
           "caravan limit set sms 10 --per 1h",
           run_set,
           talks_to::node},
          {"limit",
           "reset",
           "Lets a key take again as one that was never seen.",
           {limit_operand(), {"KEY", "", "The key", times::once}},
           "caravan limit reset sms +4917012345",
           run_reset,
           talks_to::node},
          {"limit",
           "top",
           "Shows the keys that take most on this node.",
           {limit_operand()},
           "caravan limit top sms",
           run_top,
           talks_to::node,
           "Counts fade when there are more than 1,000 keys: who is busy now stays."}};
}

}  // namespace caravan::cli
