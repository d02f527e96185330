// Runs the fuzzer's entry on the seeds and on changed copies of them, the same ones each time.

#define CAF_SUITE ini_fuzz
#include "tests/fuzz/changed.hpp"

#include "caf/test/unit_test.hpp"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

constexpr auto seed = 20240229u;
constexpr auto mutations = 20'000;

std::vector<std::string> seeds() {
  std::vector<std::filesystem::path> paths;
  for (const auto& file : std::filesystem::directory_iterator(CARAVAN_SOURCE_DIR "/tests/fuzz/corpus/ini"))
    paths.push_back(file.path());
  std::sort(paths.begin(), paths.end());  // a directory has no order of its own
  std::vector<std::string> out;
  for (const auto& path : paths) {
    std::ifstream in(path, std::ios::binary);
    out.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  return out;
}

void run(const std::string& text) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
}

const std::vector<std::string> pieces = {"[",
                                         "]",
                                         "=",
                                         ":",
                                         ";",
                                         "#",
                                         "`",
                                         "\"",
                                         "\"\"\"",
                                         "'",
                                         "\n",
                                         "\r\n",
                                         "\\\n",
                                         std::string(1, '\0'),
                                         "\xef\xbb\xbf",
                                         "\xff\xfe",
                                         " ",
                                         "\t",
                                         "[queue.a]\n",
                                         "[queue.b]\n",
                                         "LENGTH = ",
                                         "-1",
                                         "1h",
                                         "redis://",
                                         "CONN_STR = ",
                                         "TYPE = redis\n",
                                         "@",
                                         "%",
                                         "://",
                                         "__",
                                         "_0x2E_",
                                         "99999999999999999999",
                                         "."};

}  // namespace

CAF_TEST(the seeds hold) {
  const auto all = seeds();
  CAF_CHECK(all.size() >= 5);
  for (const auto& text : all) run(text);
}

CAF_TEST(changed seeds hold) {
  const auto all = seeds();
  std::mt19937 chance(seed);
  std::cout << "seed " << seed << '\n';
  for (auto i = 0; i < mutations; ++i)
    run(caravan::fuzz::changed(all[static_cast<std::size_t>(i) % all.size()], pieces, all, chance));
  CAF_CHECK(true);
}
