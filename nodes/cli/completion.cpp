#include "nodes/cli/verbs.hpp"

#include <cstdio>
#include <set>

namespace caravan::cli {

namespace {

/// For a single-quoted text of a shell.
std::string quoted(std::string text) {
  for (std::size_t at = 0; (at = text.find('\'', at)) != std::string::npos; at += 4) text.replace(at, 1, "'\\''");
  return text;
}

std::vector<const verb*> shown() {
  std::vector<const verb*> list;
  for (const auto& v : all_verbs())
    if (!v.hidden) list.push_back(&v);
  return list;
}

/// "queue", "push": what may stand first, in the order of the help.
std::vector<std::string> first_words() {
  std::vector<std::string> words;
  std::set<std::string> seen;
  for (const auto* v : shown()) {
    const auto& word = v->noun.empty() ? v->name : v->noun;
    if (seen.insert(word).second) words.push_back(word);
  }
  return words;
}

std::vector<const option*> options_of(const verb& v) {
  std::vector<const option*> list;
  for (const auto* some : {&v.options, &common_options(v.peer)})
    for (const auto& o : *some)
      if (o.name.starts_with('-')) list.push_back(&o);
  return list;
}

bool names_a_queue(const verb& v) {
  for (const auto& o : v.options)
    if (o.name == "QUEUE" || o.value == "QUEUE") return true;
  return false;
}

std::string words(const verb& v) { return v.noun.empty() ? v.name : v.noun + " " + v.name; }

// A file after an option that takes one, the queues of the node where one is wanted, else what the verb takes.
constexpr const char* bash_head =
    "# bash completion of caravan: source <(caravan completion bash), or put it into\n"
    "# /etc/bash_completion.d. It asks the node for the names of its queues.\n"
    "_caravan_queues() { caravan queue ls --json 2>/dev/null | sed -n 's/^ *\"name\": \"\\(.*\\)\",*$/\\1/p'; }\n"
    "_caravan() {\n"
    "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} verb=${COMP_WORDS[1]}\n"
    "  case $before in --config|--file) COMPREPLY=($(compgen -f -- \"$word\")); return ;; esac\n";

void print_bash() {
  std::string text = bash_head;
  text += "  if [ \"$COMP_CWORD\" = 1 ]; then COMPREPLY=($(compgen -W '";
  for (const auto& w : first_words()) text += w + " ";
  text += "' -- \"$word\")); return; fi\n  case $verb in\n";
  std::set<std::string> nouns;
  for (const auto* v : shown()) {
    if (v->noun.empty() || !nouns.insert(v->noun).second) continue;
    text += "    " + v->noun + ") if [ \"$COMP_CWORD\" = 2 ]; then COMPREPLY=($(compgen -W '";
    for (const auto* other : shown())
      if (other->noun == v->noun) text += other->name + " ";
    text += "' -- \"$word\")); return; fi; verb=\"$verb ${COMP_WORDS[2]}\" ;;\n";
  }
  text += "  esac\n  case $verb in\n";
  for (const auto* v : shown()) {
    text += "    '" + words(*v) + "') COMPREPLY=($(compgen -W '";
    for (const auto* o : options_of(*v)) text += o->name + " ";
    text += "' -- \"$word\"))";
    if (names_a_queue(*v))
      text += "; [[ $word == -* ]] || COMPREPLY=($(compgen -W \"$(_caravan_queues)\" -- \"$word\"))";
    text += " ;;\n";
  }
  text += "  esac\n}\ncomplete -F _caravan caravan\n";
  std::fputs(text.c_str(), stdout);
}

// In zsh's descriptions a colon and brackets mean something.
std::string plain(std::string text) {
  for (auto& c : text)
    if (c == ':' || c == '[' || c == ']') c = ' ';
  return quoted(std::move(text));
}

void print_zsh() {
  std::string text =
      "#compdef caravan\n"
      "# zsh completion of caravan: caravan completion zsh > a file _caravan in a folder of $fpath.\n"
      "_caravan_queues() { compadd -- ${(f)\"$(caravan queue ls --json 2>/dev/null | sed -n 's/^ *\"name\": "
      "\"\\(.*\\)\",*$/\\1/p')\"} }\n"
      "_caravan() {\n"
      "  local verb=$words[2]\n"
      "  if (( CURRENT == 2 )); then\n    local -a all=(";
  std::set<std::string> seen;
  for (const auto* v : shown()) {
    const auto& word = v->noun.empty() ? v->name : v->noun;
    if (!seen.insert(word).second) continue;
    text += " '" + word + ":" + (v->noun.empty() ? plain(v->summary) : "verbs for a " + v->noun) + "'";
  }
  text += " )\n    _describe verb all; return\n  fi\n  case $verb in\n";
  std::set<std::string> nouns;
  for (const auto* v : shown()) {
    if (v->noun.empty() || !nouns.insert(v->noun).second) continue;
    text += "    " + v->noun + ")\n      if (( CURRENT == 3 )); then\n        local -a all=(";
    for (const auto* other : shown())
      if (other->noun == v->noun) text += " '" + other->name + ":" + plain(other->summary) + "'";
    text += " )\n        _describe verb all; return\n      fi\n      verb=\"$verb $words[3]\" ;;\n";
  }
  text += "  esac\n  case $verb in\n";
  for (const auto* v : shown()) {
    text += "    '" + words(*v) + "') _arguments";
    for (const auto* o : options_of(*v)) {
      text += " '";
      if (o->how_often == times::any) text += "*";
      text += o->name + "[" + plain(o->help) + "]";
      if (!o->value.empty())
        text += ":" + o->value + ":" + (o->value == "FILE" ? "_files" : o->value == "QUEUE" ? "_caravan_queues" : " ");
      text += "'";
    }
    if (names_a_queue(*v)) text += " '*:queue:_caravan_queues'";
    text += " ;;\n";
  }
  text += "  esac\n}\n_caravan \"$@\"\n";
  std::fputs(text.c_str(), stdout);
}

exit_code run_completion(const arguments& given) {
  const auto shell = given.get("SHELL");
  if (shell == "bash")
    print_bash();
  else if (shell == "zsh")
    print_zsh();
  else
    throw stop(exit_usage, "completion: there are bash and zsh, not \"" + shell + "\"");
  return exit_done;
}

}  // namespace

std::vector<verb> completion_verbs() {
  return {{"",
           "completion",
           "Prints what a shell needs to complete the verbs, their options and the names of queues.",
           {{"SHELL", "", "bash or zsh", times::once}},
           "source <(caravan completion bash)",
           run_completion}};
}

}  // namespace caravan::cli
