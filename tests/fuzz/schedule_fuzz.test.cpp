// Runs the fuzzer's entry on the seeds and on changed copies of them, the same ones each time.

#define CAF_SUITE schedule_fuzz
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

std::string changed(std::string text, const std::vector<std::string>& all, std::mt19937& chance) {
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
  const auto below = [&](std::size_t n) { return n == 0 ? 0 : static_cast<std::size_t>(chance() % n); };
  for (auto n = 1 + below(8); n > 0; --n) {
    const auto at = below(text.size() + 1);
    switch (below(6)) {
      case 0:
        text.insert(at, pieces[below(pieces.size())]);
        break;
      case 1:
        text.erase(at, 1 + below(20));
        break;
      case 2:
        if (at < text.size()) text[at] = static_cast<char>(chance() & 0xff);
        break;
      case 3:
        text.insert(at, text.substr(below(text.size() + 1), below(60)));
        break;
      case 4:
        text.resize(at);
        break;
      default: {
        const auto& other = all[below(all.size())];
        text.insert(at, other.substr(below(other.size() + 1), below(80)));
      }
    }
  }
  return text;
}

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
  for (auto i = 0; i < mutations; ++i) run(changed(all[static_cast<std::size_t>(i) % all.size()], all, chance));
  CAF_CHECK(true);
}
