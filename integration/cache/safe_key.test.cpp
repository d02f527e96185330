#define CAF_SUITE safe_key
#include <caravan/cache.hpp>

#include "caf/test/unit_test.hpp"

#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

using namespace caravan;

CAF_TEST(what is visible and fits stays as it is) {
  CAF_CHECK(safe_cache_key("prefix", "a", 10) == "prefix:s-a");
  CAF_CHECK(safe_cache_key("p", "!~", 250) == "p:s-!~");
  CAF_CHECK(safe_cache_key("p", std::string(246, 'k')) == "p:s-" + std::string(246, 'k'));
  CAF_CHECK(safe_cache_key("", "k") == ":s-k");
}

CAF_TEST(all else is hashed) {
  CAF_CHECK(safe_cache_key("prefix", " ", 100) ==
            "prefix:h-36a9e7f1c95b82ffb99743e0c5c4ce95d83c9a430aac59f84ef3cbfab6145068");
  CAF_CHECK(safe_cache_key("prefix", "aa", 10) ==
            "prefix:h-961b6dd3ede3cb8ecbaacbd68de040cd78eb2ed5889130cceb4c49268ea4d506");
  // The published digest of the empty text.
  CAF_CHECK(safe_cache_key("p", "", 250) == "p:h-e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  for (const auto* odd : {"\x7f", "\x80", "a b", "\n", "\xc3\xa4"})
    CAF_CHECK(safe_cache_key("p", odd).starts_with("p:h-"));
  CAF_CHECK(safe_cache_key("p", std::string_view("\0", 1)).starts_with("p:h-"));
  CAF_CHECK(safe_cache_key("p", std::string(247, 'k')).starts_with("p:h-"));
}

CAF_TEST(further keys are right where there are any) {
  std::ifstream file(CARAVAN_SOURCE_DIR "/../shared/cases/cache_safekey.jsonl");
  if (!file) {
    CAF_MESSAGE("there are none here");
    return;
  }
  int count = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.empty()) continue;
    const auto c = nlohmann::json::parse(line);
    const auto is =
        safe_cache_key(c["prefix"].get<std::string>(), c["input"].get<std::string>(), c["limit"].get<std::size_t>());
    std::cout << c["id"].get<std::string>() << (is == c["output"] ? " ok" : " WRONG: " + is) << '\n';
    CAF_CHECK_EQUAL(is, c["output"].get<std::string>());
    ++count;
  }
  CAF_CHECK(count > 0);
}
