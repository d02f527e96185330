#define CAF_SUITE scenarios
// The list of scenarios is kept outside of this repository. Where it is at hand, every id in it must be the beginning
// of a test's name in this folder, or stand below with a reason.
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <set>
#include <sstream>
#include <string>

#include "caf/test/unit_test.hpp"

namespace {

const std::map<std::string, std::string> left_out;  // id, reason

std::string read(const std::filesystem::path& file) {
  std::ifstream in{file};
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

// The ids that follow `before` in a text.
std::set<std::string> ids_after(const std::string& text, const std::string& before) {
  std::set<std::string> ids;
  for (auto at = text.find(before); at != std::string::npos; at = text.find(before, at + 1))
    ids.insert(text.substr(at + before.size(), 8));
  return ids;
}

}  // namespace

CAF_TEST(every scenario has a test or a reason) {
  const std::filesystem::path root{CARAVAN_SOURCE_DIR};
  std::set<std::string> tested;
  for (const auto& entry : std::filesystem::directory_iterator{root / "toolbox"})
    if (entry.path().string().ends_with(".test.cpp")) tested.merge(ids_after(read(entry.path()), "CAF_TEST(\""));
  CAF_CHECK(!tested.empty());

  const auto list = root / ".." / "shared" / "cases" / "toolbox_scenarios.jsonl";
  if (!std::filesystem::exists(list)) {
    CAF_MESSAGE("the list of scenarios is not here: nothing to compare with");
    return;
  }
  const auto wanted = ids_after(read(list), "{\"id\": \"");
  CAF_CHECK(!wanted.empty());
  for (const auto& id : wanted) {
    const auto reason = left_out.find(id);
    std::cout << id
              << (tested.contains(id)        ? " tested"
                  : reason == left_out.end() ? " MISSING"
                                             : " left out: " + reason->second)
              << '\n';
    CAF_CHECK(tested.contains(id) || reason != left_out.end());
  }
  std::cout << wanted.size() << " scenarios\n";
}
