#define CAF_SUITE cache_scenarios
// The list of scenarios is kept outside of this repository. Where it is at hand, every id in it must be the beginning
// of a test's or a check's name.
#include "caf/test/unit_test.hpp"

#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <set>
#include <string>

namespace {

std::string read(const std::filesystem::path& file) {
  std::ifstream in{file};
  return {std::istreambuf_iterator<char>{in}, {}};
}

void add_ids(std::set<std::string>& to, const std::string& text, const std::string& before) {
  for (auto at = text.find(before); at != std::string::npos; at = text.find(before, at + 1))
    to.insert(text.substr(at + before.size(), 9));
}

}  // namespace

CAF_TEST(every scenario has a test) {
  const std::filesystem::path root{CARAVAN_SOURCE_DIR};
  std::set<std::string> tested;
  for (const auto* file :
       {"toolbox/two_queue.test.cpp", "integration/cache/request_cache.test.cpp", "config/read_cache.test.cpp"})
    add_ids(tested, read(root / file), "CAF_TEST(\"");
  add_ids(tested, read(root / "tests/contract/cache_contract.hpp"), "{\"");
  CAF_CHECK(!tested.empty());

  const auto list = root / ".." / "shared" / "cases" / "cache_scenarios.jsonl";
  if (!std::filesystem::exists(list)) {
    CAF_MESSAGE("the list of scenarios is not here: nothing to compare with");
    return;
  }
  std::set<std::string> wanted;
  add_ids(wanted, read(list), "{\"id\": \"");
  CAF_CHECK(!wanted.empty());
  for (const auto& id : wanted) {
    std::cout << id << (tested.contains(id) ? " tested" : " MISSING") << '\n';
    CAF_CHECK(tested.contains(id));
  }
}
