#define CAF_SUITE request_cache
#include <caravan/cache.hpp>

#include "caf/test/unit_test.hpp"

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

using namespace caravan;
using namespace std::chrono_literals;

CAF_TEST("CACHE-023" get with a loader stores) {
  auto here = request_cache::begin();
  CAF_CHECK(here.get<int>("user", "1", [] { return 1; }) == 1);
  CAF_CHECK(here.get<int>("user", "1") == 1);
  CAF_CHECK(here.get<int>("user", "1", [] { return 2; }) == 1);
  CAF_CHECK(!here.get<int>("repository", "1"));
  CAF_CHECK(!here.get<int>("user", "2"));
  const auto same = here;
  CAF_CHECK(same.get<int>("user", "1") == 1);
  here.remove("user", "1");
  CAF_CHECK(!same.get<int>("user", "1"));
}

CAF_TEST("CACHE-025" without a cache nothing is stored) {
  request_cache none;
  CAF_CHECK(!none);
  none.put("user", "1", 1);
  CAF_CHECK(!none.get<int>("user", "1"));
  int runs = 0;
  for (int i = 0; i < 2; ++i) CAF_CHECK(none.get<int>("user", "1", [&] { return ++runs; }) == i + 1);
  none.remove("user", "1");
}

CAF_TEST("CACHE-027" a loader error is handed on and not stored) {
  auto here = request_cache::begin();
  const auto failed = here.get<int>("user", "1", []() -> expected<int> { return {errc::not_found, "no such user"}; });
  CAF_CHECK(!failed && failed.failure().text == "no such user");
  CAF_CHECK(!here.get<int>("user", "1"));
  bool thrown = false;
  try {
    (void)here.get<int>("user", "1", []() -> int { throw std::runtime_error("boom"); });
  } catch (const std::runtime_error&) {
    thrown = true;
  }
  CAF_CHECK(thrown);
  CAF_CHECK(!here.get<int>("user", "1"));
  CAF_CHECK(here.get<int>("user", "1", []() -> expected<int> { return 5; }).value() == 5);
  CAF_CHECK(here.get<int>("user", "1") == 5);
}

CAF_TEST("CACHE-028" a value of another type is a miss) {
  auto here = request_cache::begin();
  here.put("user", "1", std::string{"text"});
  CAF_CHECK(here.get<int>("user", "1", [] { return 7; }) == 7);
  CAF_CHECK(here.get<int>("user", "1") == 7);
}

CAF_TEST(after five minutes it warns once and keeps nothing) {
  std::chrono::steady_clock::time_point now{1h};
  std::vector<std::string> warnings;
  auto here = request_cache::begin(
      {.warn = [&](const std::string& text) { warnings.push_back(text); }, .now = [&] { return now; }});
  here.put("user", "1", 1);
  now += 5min;
  CAF_CHECK(here.get<int>("user", "1") == 1);
  CAF_CHECK(warnings.empty());
  now += 1ns;
  CAF_CHECK(!here.get<int>("user", "1"));
  here.put("user", "2", 2);
  CAF_CHECK(!here.get<int>("user", "2"));
  int runs = 0;
  for (int i = 0; i < 2; ++i) (void)here.get<int>("user", "1", [&] { return ++runs; });
  CAF_CHECK_EQUAL(runs, 2);
  CAF_CHECK_EQUAL(warnings.size(), 1u);
  CAF_CHECK(warnings[0].find("300 s") != std::string::npos);
  CAF_CHECK(warnings[0].find("user \"1\"") != std::string::npos);
}

CAF_TEST(threads of one request share it) {
  auto here = request_cache::begin();
  std::atomic<int> wrong{0};
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&wrong, here, t]() mutable {
      for (int i = 0; i < 500; ++i) {
        const auto key = std::to_string(i % 20);
        wrong += here.get<std::string>("k", key, [&] { return key; }) != key;
        if (i % 50 == t) here.remove("k", key);
      }
    });
  threads.clear();
  CAF_CHECK_EQUAL(wrong.load(), 0);
}
