// Runs the fuzzer's entry on the seeds and on changed copies of them, the same ones each time.

#define CAF_SUITE schedule_fuzz
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
  for (const auto& file : std::filesystem::directory_iterator(CARAVAN_SOURCE_DIR "/tests/fuzz/corpus/schedule"))
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

const std::vector<std::string> pieces = {" ",
                                         "*",
                                         "?",
                                         ",",
                                         "-",
                                         "/",
                                         "0",
                                         "7",
                                         "59",
                                         "60",
                                         "31",
                                         "L",
                                         "W",
                                         "#",
                                         "H",
                                         "H(",
                                         ")",
                                         "@",
                                         "@every ",
                                         "TZ=",
                                         "CRON_TZ=",
                                         "UTC ",
                                         "Asia/Tehran ",
                                         "feb",
                                         "fri-mon",
                                         "99999999999999999999",
                                         "2100",
                                         "\t",
                                         "\xc2\xa0",
                                         "\xe2\x80\x83",
                                         "\xff",
                                         std::string(1, '\0'),
                                         "TZif2",
                                         "M3.5.0/2",
                                         "<+03>-3",
                                         "h",
                                         "ms",
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
