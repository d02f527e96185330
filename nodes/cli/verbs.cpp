#include "nodes/cli/verbs.hpp"

#include <iterator>

namespace caravan::cli {

const std::vector<option>& common_options(talks_to peer) {
  static const std::vector<option> none;
  static const std::vector<option> node{
      {"--node", "URL", "The node to ask; else CARAVAN_NODE, or http://127.0.0.1:7171"},
      {"--token", "TOKEN", "The bearer token; better in CARAVAN_TOKEN, where other users do not see it"},
      {"--config", "FILE", "Takes the address and the token from [http] of this file"},
      {"--json", "", "Prints JSON"},
  };
  return peer == talks_to::node ? node : none;
}

const std::vector<verb>& all_verbs() {
  static const auto verbs = [] {
    std::vector<verb> all;
    const auto add = [&](std::vector<verb> some) {
      all.insert(all.end(), std::make_move_iterator(some.begin()), std::make_move_iterator(some.end()));
    };
#define CARAVAN_ADD(file) add(file##_verbs());
    CARAVAN_VERBS(CARAVAN_ADD)
#undef CARAVAN_ADD
    for (auto& v : all)
      if (v.name == "ls" && v.peer == talks_to::node)
        v.options.push_back({"--watch", "", "Shows it again every 2 s, until q or Ctrl-C"});
    return all;
  }();
  return verbs;
}

}  // namespace caravan::cli
