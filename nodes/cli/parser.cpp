// The only file that includes CLI11, which costs 10 s to compile.
#include "nodes/cli/parser.hpp"

#include "nodes/cli/live_screen.hpp"
#include "nodes/cli/verbs.hpp"

#include <CLI/CLI.hpp>

#include <cstdio>
#include <deque>
#include <map>

namespace caravan::cli {

namespace {

/// Where CLI11 puts what it finds for one verb.
struct parsed_verb {
  const verb* what = nullptr;
  CLI::App* app = nullptr;
  struct place {
    std::string name;
    CLI::Option* option = nullptr;
    bool flag = false;
  };
  std::vector<place> places;
  std::deque<std::vector<std::string>> values;  // addresses must stay
  std::deque<bool> flags;
};

void add_option(parsed_verb& into, const option& o) {
  const bool operand = !o.name.starts_with('-');
  parsed_verb::place p{o.name, nullptr, false};
  if (!operand && o.value.empty()) {
    p.flag = true;
    p.option = into.app->add_flag(o.name, into.flags.emplace_back(false), o.help);
  } else {
    auto& values = into.values.emplace_back();
    p.option = into.app->add_option(o.name, values, o.help);
    if (o.how_often != times::any) p.option->expected(1);
    // Else --header would swallow what follows.
    p.option->allow_extra_args(operand && o.how_often == times::any);
    if (o.how_often == times::once) p.option->required();
    p.option->type_name(operand ? "" : o.value);
  }
  into.places.push_back(p);
}

// CLI11 takes "[1,2]" for a list and splits it, but a JSON array is one payload. A blank before it prevents that.
bool looks_like_a_list(const std::string& text) {
  const auto first = text.find_first_not_of(' ');
  return first != std::string::npos && text[first] == '[';
}
std::string hide_list(std::string text) { return looks_like_a_list(text) ? " " + text : text; }
std::string show_list(std::string text) { return looks_like_a_list(text) ? text.substr(1) : text; }

arguments collect(const parsed_verb& v) {
  arguments given;
  for (const auto& p : v.places) {
    if (p.option->count() == 0) continue;
    if (p.flag)
      given.add(p.name, "");
    else
      for (const auto& x : p.option->results()) given.add(p.name, show_list(x));
  }
  return given;
}

exit_code watch(const verb& v, const arguments& given) {
  using namespace std::chrono_literals;
  live_screen screen;
  for (;;) {
    screen.begin();
    if (const auto code = v.run(given); code != exit_done) return code;
    if (!screen.show_for(2s)) return exit_done;
    if (!screen.is_terminal()) std::printf("\n");
  }
}

}  // namespace

int run(int argc, char** argv) {
  CLI::App app{"Durable job queues, as actors.", "caravan"};
  app.require_subcommand(1);
  app.footer(
      "Exit codes: 0 done, 1 refused or failed, 2 wrong call or configuration, 3 no node answers.\n"
      "All verbs with all options: docs/cli.md, or `caravan VERB --help`.");
  std::map<std::string, CLI::App*> nouns;
  std::deque<parsed_verb> verbs;
  for (const auto& v : all_verbs()) {
    auto* parent = &app;
    if (!v.noun.empty()) {
      auto& noun = nouns[v.noun];
      if (!noun) {
        noun = app.add_subcommand(v.noun, v.name.empty() ? v.summary : "Verbs for a " + v.noun);
        noun->require_subcommand(v.name.empty() ? 0 : 1, 1);
      }
      parent = noun;
    }
    auto& p = verbs.emplace_back();
    p.what = &v;
    p.app = v.name.empty() ? parent : parent->add_subcommand(v.name, v.summary);
    if (v.hidden) p.app->group("");
    if (!v.example.empty()) p.app->footer("Example: " + v.example);
    for (const auto& o : v.options) add_option(p, o);
    for (const auto& o : common_options(v.peer)) add_option(p, o);
  }
  try {
    std::vector<std::string> words;
    for (int i = argc - 1; i > 0; --i) words.push_back(hide_list(argv[i]));  // CLI11 wants the last one first
    app.parse(std::move(words));
  } catch (const CLI::ParseError& e) {
    const bool help = e.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success);
    app.exit(e);
    return help ? exit_done : exit_usage;
  }
  for (const auto& p : verbs) {
    if (!p.app->parsed()) continue;
    if (p.what->name.empty() && !p.app->get_subcommands().empty()) continue;  // the noun of another verb
    try {
      const auto given = collect(p);
      const auto code = given.has("--watch") ? watch(*p.what, given) : p.what->run(given);
      if (std::fflush(stdout) != 0) throw stop(exit_refused, "standard output cannot be written");
      return code;
    } catch (const stop& s) {
      std::fflush(stdout);
      std::fprintf(stderr, "caravan: %s\n", s.what());
      return s.code();
    } catch (const std::exception& e) {
      std::fflush(stdout);
      std::fprintf(stderr, "caravan: %s\n", e.what());
      return exit_refused;
    }
  }
  return exit_usage;
}

}  // namespace caravan::cli
