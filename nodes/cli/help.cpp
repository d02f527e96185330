#include "nodes/cli/client.hpp"
#include "nodes/cli/verbs.hpp"

#include <cstdio>

namespace caravan::cli {

namespace {

std::string title_of(const verb& v) {
  return v.noun.empty() ? v.name : v.name.empty() ? v.noun : v.noun + " " + v.name;
}

std::string usage_of(const verb& v) {
  auto text = "caravan " + title_of(v);
  for (const auto& o : v.options) {
    const bool operand = !o.name.starts_with('-');
    const auto shown = o.name + (o.value.empty() ? "" : " " + o.value);
    if (o.how_often == times::once) text += " " + shown;
    if (o.how_often == times::any && operand) text += " [" + shown + "...]";
    if (o.how_often == times::at_most_once && operand) text += " [" + shown + "]";
  }
  return text + " [options]";
}

void print_options(const std::vector<option>& options) {
  std::printf("| | |\n|---|---|\n");
  for (const auto& o : options)
    std::printf("| `%s%s%s` | %s |\n", o.name.c_str(), o.value.empty() ? "" : " ", o.value.c_str(), o.help.c_str());
  std::printf("\n");
}

/// docs/cli.md.
void print_page() {
  std::printf(
      "# The command line\n\n"
      "<!-- Printed by `caravan help --markdown`; a test compares. -->\n\n"
      "One program, `caravan`: it runs a node, and it asks one over HTTP. `caravan --help` lists the verbs, "
      "`caravan VERB --help` tells all about one.\n\n"
      "Exit codes: 0 done, 1 refused or failed, 2 wrong call or configuration, 3 no node answers.\n\n"
      "Durations are `500ms`, `5s`, `1h30m`, or a number of seconds; times are RFC 3339, `2026-05-01T12:00:00Z`. "
      "Tables are coloured on a terminal unless `NO_COLOR` is set. A payload that begins with `-` goes behind `--`.\n\n"
      "Verbs that ask a node take these too:\n\n");
  print_options(common_options(talks_to::node));
  for (const auto& v : all_verbs()) {
    if (v.hidden) continue;
    const auto title = title_of(v);
    std::printf("## %s\n\n%s\n\n    %s\n\n", title.c_str(), v.summary.c_str(), usage_of(v).c_str());
    if (!v.options.empty()) print_options(v.options);
    if (!v.more.empty()) std::printf("%s\n\n", v.more.c_str());
    if (v.peer == talks_to::node) std::printf("Asks a node.\n\n");
    if (!v.example.empty()) std::printf("    %s\n\n", v.example.c_str());
  }
}

exit_code run_help(const arguments& given) {
  if (given.has("--markdown")) {
    print_page();
    return exit_done;
  }
  for (const auto& v : all_verbs())
    if (!v.hidden)
      std::printf("  %-16s %s\n", title_of(v).c_str(), v.summary.c_str());
  std::printf("\ncaravan VERB --help tells more.\n");
  return exit_done;
}

exit_code run_version(const arguments& given) {
  if (given.has("--json"))
    print_json({{"version", CARAVAN_VERSION}});
  else
    std::printf("caravan %s\n", CARAVAN_VERSION);
  return exit_done;
}

}  // namespace

std::vector<verb> help_verbs() {
  return {{"", "version", "Prints the version.", {{"--json", "", "Prints JSON"}}, "caravan version", run_version},
          {"",
           "help",
           "Lists the verbs.",
           {{"--markdown", "", "Prints docs/cli.md"}},
           "",
           run_help,
           talks_to::nobody,
           "",
           true}};
}

}  // namespace caravan::cli
