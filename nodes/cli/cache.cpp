#include "nodes/cli/client.hpp"
#include "nodes/cli/table.hpp"
#include "nodes/cli/verbs.hpp"

#include <cstdio>

namespace caravan::cli {

namespace {

using json = nlohmann::ordered_json;

std::string number(const json& j, const char* name) {
  return j.contains(name) && j[name].is_number() ? std::to_string(j[name].get<std::int64_t>()) : "-";
}

std::string hit_rate(const json& j) {
  const auto hits = j.value("hits", 0.0), all = hits + j.value("misses", 0.0);
  if (all <= 0) return "-";
  char text[16];
  std::snprintf(text, sizeof text, "%.1f %%", 100 * hits / all);
  return text;
}

std::string one_path(const arguments& given) {
  return "/v1/caches/" + path_segment(given.get("CACHE")) + "/" + path_segment(given.get("KEY"));
}

exit_code run_ls(const arguments& given) {
  client node(given);
  const auto answer = node.ask({"GET", "/v1/caches"});
  if (given.has("--json")) {
    print_json(answer);
    return exit_done;
  }
  table t({{"NAME"},
           {"ADAPTER"},
           {"STATE"},
           {"ENTRIES", side::right},
           {"BYTES", side::right},
           {"HITS", side::right},
           {"LOADS", side::right},
           {"FAILURES", side::right}});
  for (const auto& c : answer["caches"]) {
    const bool enabled = c.value("enabled", true), open = c.value("open", false);
    t.add({clean(c.value("name", "")),
           clean(c.value("adapter", "")),
           !enabled ? "off"
           : open   ? "open"
                    : "not used yet",
           number(c, "entries"),
           number(c, "bytes"),
           hit_rate(c),
           number(c, "loads"),
           {number(c, "failures"), c.value("failures", 0) > 0 ? colour::red : colour::none}});
  }
  t.print();
  return exit_done;
}

exit_code run_stats(const arguments& given) {
  client node(given);
  const auto answer = node.ask({"GET", "/v1/caches"});
  const auto name = given.get("CACHE");
  for (const auto& c : answer["caches"]) {
    if (c.value("name", "") != name) continue;
    if (given.has("--json"))
      print_json(c);
    else
      for (const auto& [key, value] : c.items())
        std::printf("%-15s %s\n", key.c_str(),
                    value.is_string() ? clean(value.get<std::string>()).c_str()
                    : value.is_null() ? "unknown"
                                      : value.dump().c_str());
    return exit_done;
  }
  throw stop(exit_refused, "there is no cache \"" + clean(name) + "\" on this node; see \"caravan cache ls\"");
}

exit_code run_get(const arguments& given) {
  client node(given);
  const auto answer = node.ask({"GET", one_path(given)});
  if (given.has("--json"))
    print_json(answer);
  else if (answer.contains("value"))
    std::printf("%s\n", answer["value"].get<std::string>().c_str());
  else
    std::printf("base64:%s\n", answer.value("value_base64", "").c_str());
  return exit_done;
}

exit_code run_del(const arguments& given) {
  client node(given);
  const auto answer = node.ask({"DELETE", one_path(given)});
  if (given.has("--json"))
    print_json(answer);
  else
    std::printf("%s\n", answer.value("removed", false) ? "removed" : "it was not there");
  return exit_done;
}

exit_code run_clear(const arguments& given) {
  client node(given);
  const auto answer = node.ask({"POST", "/v1/caches/" + path_segment(given.get("CACHE")) + "/clear"});
  if (given.has("--json"))
    print_json(answer);
  else
    std::printf("%s: cleared\n", clean(given.get("CACHE")).c_str());
  return exit_done;
}

option cache_operand() { return {"CACHE", "", "The name of [cache.NAME]; default: [cache]", times::once}; }
option key_operand() { return {"KEY", "", "The key", times::once}; }

}  // namespace

std::vector<verb> cache_verbs() {
  return {{"cache", "ls", "Lists the caches of a node.", {}, "caravan cache ls", run_ls, talks_to::node},
          {"cache",
           "stats",
           "Shows what one cache holds and what it was asked.",
           {cache_operand()},
           "caravan cache stats default",
           run_stats,
           talks_to::node},
          {"cache",
           "get",
           "Prints one value.",
           {cache_operand(), key_operand()},
           "caravan cache get default user:7",
           run_get,
           talks_to::node,
           "Bytes that are no UTF-8 are printed in base64."},
          {"cache",
           "del",
           "Removes one value.",
           {cache_operand(), key_operand()},
           "caravan cache del default user:7",
           run_del,
           talks_to::node},
          {"cache",
           "clear",
           "Removes all values of one cache, and nothing else that its engine holds.",
           {cache_operand()},
           "caravan cache clear last_commit",
           run_clear,
           talks_to::node}};
}

}  // namespace caravan::cli
