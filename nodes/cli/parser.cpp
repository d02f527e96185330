// The only file that includes CLI11, which costs 10 s to compile.
#include "nodes/cli/parser.hpp"

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
    if (o.how_often == times::any)
      p.option->expected(operand ? 0 : 1, CLI::detail::expected_max_vector_size);
    else
      p.option->expected(1);
    // Else CLI11 would split a JSON array at its commas, and let --header swallow what follows.
    p.option->allow_extra_args(false);
    if (o.how_often == times::once) p.option->required();
    p.option->type_name(operand ? "" : o.value);
  }
  into.places.push_back(p);
}

arguments collect(const parsed_verb& v) {
  arguments given;
  for (const auto& p : v.places) {
    if (p.option->count() == 0) continue;
    if (p.flag)
      given.add(p.name, "");
    else
      for (const auto& x : p.option->results()) given.add(p.name, x);
  }
  return given;
}

}  // namespace

int run(int argc, char** argv) {
  CLI::App app{"Durable job queues, as actors.", "caravan"};
  app.require_subcommand(1);
  app.footer("Exit codes: 0 done, 1 refused or failed, 2 wrong call or configuration, 3 no node answers.\n"
             "All verbs with all options: docs/cli.md, or `caravan VERB --help`.");
  std::map<std::string, CLI::App*> nouns;
  std::deque<parsed_verb> verbs;
  for (const auto& v : all_verbs()) {
    auto* parent = &app;
    if (!v.noun.empty()) {
      auto& noun = nouns[v.noun];
      if (!noun) {
        noun = app.add_subcommand(v.noun, "Verbs for a " + v.noun);
        noun->require_subcommand(1);
      }
      parent = noun;
    }
    auto& p = verbs.emplace_back();
    p.what = &v;
    p.app = parent->add_subcommand(v.name, v.summary);
    if (v.hidden) p.app->group("");
    if (!v.example.empty()) p.app->footer("Example: " + v.example);
    for (const auto& o : v.options) add_option(p, o);
    for (const auto& o : common_options(v.peer)) add_option(p, o);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    const bool help = e.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success);
    app.exit(e);
    return help ? exit_done : exit_usage;
  }
  for (const auto& p : verbs) {
    if (!p.app->parsed()) continue;
    try {
      const auto code = p.what->run(collect(p));
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
