#include "config/check.hpp"
#include "config/environment.hpp"
#include "config/read_settings.hpp"
#include "config/show.hpp"
#include "nodes/cli/client.hpp"
#include "nodes/cli/verbs.hpp"
#include "nodes/node_runtime.hpp"

#include <cstdio>

namespace caravan::cli {

namespace {

using json = nlohmann::ordered_json;

config::parsed_ini load(const arguments& given) {
  auto loaded = config::load_configuration(given.get("--config"), config::process_environment());
  if (!loaded) throw stop(exit_usage, loaded.failure().text);
  return std::move(*loaded);
}

json to_json(const config::origin& o) { return config::to_string(o); }

exit_code run_check(const arguments& given) {
  const auto parsed = load(given);
  auto found = config::check(parsed);
  for (auto& p : check_handlers(parsed.content)) config::report(found, std::move(p));
  const bool wrong = config::has_errors(found);
  if (given.has("--json")) {
    auto list = json::array();
    for (const auto& p : found)
      list.push_back({{"level", p.level == config::severity::error ? "error" : "warning"},
                      {"where", to_json(p.where)},
                      {"what", p.what},
                      {"cause", p.cause},
                      {"remedy", p.remedy}});
    print_json({{"usable", !wrong}, {"problems", std::move(list)}});
  } else if (found.empty()) {
    std::printf("no problems\n");
  } else {
    std::printf("%s%s", config::to_string(found).c_str(), config::to_string(found).ends_with('\n') ? "" : "\n");
  }
  return wrong ? exit_refused : exit_done;
}

exit_code run_show(const arguments& given) {
  const auto parsed = load(given);
  const auto list = config::show(parsed.content);
  if (!given.has("--json")) {
    std::fputs(config::to_text(list).c_str(), stdout);
    return exit_done;
  }
  auto all = json::array();
  for (const auto& s : list)
    all.push_back({{"section", s.section}, {"key", s.key}, {"value", s.value}, {"where", to_json(s.where)}});
  print_json({{"settings", std::move(all)}});
  return exit_done;
}

exit_code run_explain(const arguments& given) {
  const auto text = config::explain(given.get("NAME"));
  if (!text) throw stop(exit_refused, text.failure().text);
  if (given.has("--json"))
    print_json({{"name", given.get("NAME")}, {"text", *text}});
  else
    std::printf("%s%s", text->c_str(), text->ends_with('\n') ? "" : "\n");
  return exit_done;
}

option file_option() { return {"--config", "FILE", "The INI file; without one the environment alone"}; }
option json_option() { return {"--json", "", "Prints JSON"}; }

}  // namespace

std::vector<verb> config_verbs() {
  return {{"config",
           "check",
           "Lists all that is wrong or doubtful in a configuration.",
           {file_option(), json_option()},
           "caravan config check --config caravan.ini",
           run_check,
           talks_to::nobody,
           "The exit code is 1 when a node would not start with it; warnings alone are 0."},
          {"config",
           "show",
           "Prints every setting in effect and where it comes from; no secrets.",
           {file_option(), json_option()},
           "caravan config show --config caravan.ini",
           run_show},
          {"config",
           "explain",
           "Tells what a setting does, its default and its bounds.",
           {{"NAME", "", "A key or a section: LENGTH, queue.LENGTH, queue", times::once}, json_option()},
           "caravan config explain queue.LENGTH",
           run_explain}};
}

}  // namespace caravan::cli
