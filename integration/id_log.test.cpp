#define CAF_SUITE id_log
#include "integration/id_log.hpp"

#include "caf/test/unit_test.hpp"

#include <map>
#include <random>
#include <string>

using namespace caravan;

namespace {

void check_equal(id_log<std::string>& log, const std::map<std::uint64_t, std::string>& model, std::uint64_t after) {
  auto expected = model.upper_bound(after);
  log.scan(item_id{after}, [&](item_id id, const std::string& value) {
    if (expected == model.end() || id.value != expected->first || value != expected->second)
      CAF_FAIL("at " << id.value);
    ++expected;
    return true;
  });
  CAF_REQUIRE(expected == model.end());
  CAF_REQUIRE_EQUAL(log.size(), model.size());
  if (!model.empty()) CAF_REQUIRE_EQUAL(log.first().value, model.begin()->first);
}

}  // namespace

CAF_TEST(a log agrees with a map under random use) {
  for (unsigned seed = 1; seed <= 8; ++seed) {
    id_log<std::string> log;
    std::map<std::uint64_t, std::string> model;
    std::mt19937 random{seed};
    std::uint64_t last = 0;
    for (int step = 0; step < 20'000; ++step) {
      const auto some = last == 0 ? 1 : 1 + random() % (last + 10);
      switch (random() % 8) {
        case 0:
        case 1:
        case 2:
          last += 1 + random() % 3;
          log.insert(item_id{last}, std::to_string(step));
          model[last] = std::to_string(step);
          break;
        case 3:
          log.insert(item_id{some}, "back");
          model[some] = "back";
          last = std::max(last, static_cast<std::uint64_t>(some));
          break;
        case 4:
          if (log.erase(item_id{some}) != (model.erase(some) > 0)) CAF_FAIL("erase");
          break;
        default:
          if (model.empty()) break;
          CAF_REQUIRE(log.erase(item_id{model.begin()->first}));
          model.erase(model.begin());
      }
      if (log.contains(item_id{some}) != model.contains(some)) CAF_FAIL("contains");
      const auto* value = log.find(item_id{some});
      if (value && *value != model[some]) CAF_FAIL("value");
      if (step % 97 == 0) check_equal(log, model, some);
    }
    check_equal(log, model, 0);
    log.clear();
    CAF_CHECK(log.empty());
  }
}

CAF_TEST(the highest id has its place) {
  id_log<std::string> log;
  log.insert(item_id{~0ull}, "end");
  CAF_CHECK(log.contains(item_id{~0ull}));
  int seen = 0;
  log.scan(item_id{~0ull}, [&](auto, auto&) { return ++seen > 0; });
  CAF_CHECK_EQUAL(seen, 0);
}
