#define CAF_SUITE redis_rate
#include "integration/redis/redis_rate.hpp"

#include "integration/memory/memory_rate.hpp"
#include "tests/contract/rate_limiter_contract.hpp"
#include "tests/support/redis_server.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

using namespace caravan;
using namespace std::chrono_literals;
using kind = rate_rule::kind;
using testing_support::redis_server;
using instant = std::chrono::steady_clock::time_point;

namespace {

struct permit {
  instant asked, answered;
};

/// Of all stretches of time: no more were permitted within it than what fills it and one burst. A permit was given
/// somewhere between its question and its answer, so only those that lie wholly within count: true on any machine.
void check_every_window(const std::vector<permit>& all, double a_second, double burst) {
  std::vector<instant> begins, ends;
  for (const auto& p : all) begins.push_back(p.asked);
  for (const auto& p : all) ends.push_back(p.answered);
  std::sort(ends.begin(), ends.end());
  auto sorted = all;
  std::sort(sorted.begin(), sorted.end(), [](const permit& x, const permit& y) { return x.answered < y.answered; });
  std::size_t worst = 0, broken = 0;
  for (const auto from : begins) {
    std::size_t within = 0;
    for (const auto& p : sorted) {
      if (p.asked < from) continue;
      ++within;
      const auto length = std::chrono::duration<double>(p.answered - from).count();
      // The server counts microseconds.
      if (static_cast<double>(within) > burst + a_second * (length + 0.001)) ++broken;
      worst = std::max(worst, within);
    }
  }
  CAF_CHECK_EQUAL(broken, 0u);
  CAF_CHECK(worst > 0);
}

}  // namespace

CAF_TEST(memory keeps the contract of limits) {
  contract::check_rate_limiter_contract([] { return std::make_unique<memory_rate>(); });
}

CAF_TEST(redis keeps the contract of limits) {
  redis_server server;
  const auto client = std::make_shared<redis_client>(server.options());
  int made = 0;
  contract::check_rate_limiter_contract(
      [&] { return std::make_unique<redis_rate>(client, "test" + std::to_string(++made)); });
}

CAF_TEST(keys expire when forgetting them makes no difference) {
  redis_server server;
  const auto client = std::make_shared<redis_client>(server.options());
  redis_rate l(client, "test");
  const auto left = [&](const char* key) { return client->command({"PTTL", key}).value().number; };
  CAF_CHECK(l.take("a", {kind::tokens, 10, 1000ms, 100}, 50).value());
  CAF_CHECK(left("test:t:a") > 4000);
  CAF_CHECK(left("test:t:a") <= 5000);
  CAF_CHECK(l.take("b", {kind::period, 10, 5000ms, 1}, 1).value());
  CAF_CHECK(left("test:p:b") > 4000);
  CAF_CHECK(left("test:p:b") <= 5000);
  CAF_CHECK(l.take("zero", {kind::tokens, 0, 1000ms, 2}, 1).value());
  CAF_CHECK_EQUAL(left("test:t:zero"), -1);  // for ever
}

// To the script a clock that was set back is a stamp that lies in the future.
CAF_TEST(a server whose clock was set back goes on from there) {
  redis_server server;
  const auto client = std::make_shared<redis_client>(server.options());
  redis_rate l(client, "test");
  const auto ahead = std::to_string(
      std::chrono::duration_cast<std::chrono::microseconds>((std::chrono::system_clock::now() + 24h).time_since_epoch())
          .count());
  CAF_CHECK(client->command({"HSET", "test:t:a", "tokens", "2", "at", ahead}).has_value());
  const rate_rule bucket{kind::tokens, 1, 24h, 5};
  CAF_CHECK(l.take("a", bucket, 2).value());
  CAF_CHECK(!l.take("a", bucket, 1).value());
  const rate_rule quick{kind::tokens, 100, 1000ms, 5};
  CAF_CHECK(testing_support::eventually([&] { return l.take("a", quick, 1).value(); }));

  const auto far = std::to_string(
      std::chrono::duration_cast<std::chrono::milliseconds>((std::chrono::system_clock::now() + 24h).time_since_epoch())
          .count());
  CAF_CHECK(client->command({"HSET", "test:p:b", "count", "3", "ends", far}).has_value());
  const rate_rule period{kind::period, 3, 50ms, 1};
  CAF_CHECK(!l.take("b", period, 1).value());
  CAF_CHECK(testing_support::eventually([&] { return l.take("b", period, 1).value(); }));
}

CAF_TEST(three clients together get no more than the rate and one burst in any stretch of time) {
  redis_server server;
  constexpr double a_second = 200, burst = 40;
  const rate_rule rule{kind::tokens, 200, 1000ms, 40};
  std::mutex mutex;
  std::vector<permit> permits;
  std::atomic<int> refused{0}, failed{0};
  std::atomic<bool> done{false};
  std::vector<std::jthread> clients;
  for (int i = 0; i < 3; ++i)
    clients.emplace_back([&] {
      redis_rate l(std::make_shared<redis_client>(redis_rate_options(server.options().address)), "test");
      while (!done) {
        const auto asked = std::chrono::steady_clock::now();
        const auto permitted = l.take("key", rule, 1);
        const auto answered = std::chrono::steady_clock::now();
        if (!permitted) {
          ++failed;
        } else if (*permitted) {
          const std::lock_guard guard{mutex};
          permits.push_back({asked, answered});
        } else {
          ++refused;
        }
      }
    });
  const auto got = [&] {
    const std::lock_guard guard{mutex};
    return permits.size();
  };
  CAF_CHECK(testing_support::eventually([&] { return got() >= 150 && refused > 0; }));
  // A restart that keeps its data changes nothing.
  server.stop();
  CAF_CHECK(testing_support::eventually([&] { return failed > 0; }));
  server.start();
  const auto before = got();
  CAF_CHECK(testing_support::eventually([&] { return got() >= before + 150; }));
  done = true;
  clients.clear();
  CAF_CHECK(failed > 0);
  check_every_window(permits, a_second, burst);
}
