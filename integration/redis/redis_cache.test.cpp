#define CAF_SUITE redis_cache
#include "integration/redis/redis_cache.hpp"

#include "tests/contract/cache_contract.hpp"
#include "tests/support/redis_server.hpp"

#include <map>

using namespace caravan;
using namespace std::chrono_literals;
using testing_support::redis_server;

CAF_TEST(redis keeps the cache contract) {
  redis_server server;
  const auto client = std::make_shared<redis_client>(server.options());
  int made = 0;
  std::map<cache_adapter*, std::string> prefixes;
  contract::check_cache_contract({"redis",
                                  [&]() -> std::unique_ptr<cache_adapter> {
                                    // Names that a pattern could take for each other.
                                    const auto prefix = "test[*]?" + std::to_string(++made);
                                    auto out = std::make_unique<redis_cache>(client, prefix);
                                    prefixes[out.get()] = prefix + ":";
                                    return out;
                                  },
                                  {},
                                  [&](cache_adapter& c, const std::string& key) {
                                    const auto left = client->command({"PTTL", prefixes[&c] + key}).value();
                                    return std::chrono::milliseconds{left.number};
                                  }});
}

CAF_TEST(a clear of many keys leaves alone what others keep) {
  redis_server server;
  const auto client = std::make_shared<redis_client>(server.options());
  redis_cache c{client, "caravan:cache"};
  redis_cache named{client, "caravan:cache.last_commit"};
  CAF_CHECK(client->command({"SET", "caravan:cache", "theirs"}).has_value());
  CAF_CHECK(client->command({"RPUSH", "mail_queue", "theirs"}).has_value());
  CAF_CHECK(named.put("key", "theirs", 0s).has_value());
  for (int i = 0; i < 5000; ++i) CAF_CHECK(c.put(std::to_string(i), "value", i % 2 ? 0s : 1h).has_value());
  CAF_CHECK(client->command({"DBSIZE"}).value().number == 5003);
  CAF_CHECK(c.clear().has_value());
  CAF_CHECK(client->command({"DBSIZE"}).value().number == 3);
  CAF_CHECK(named.get("key").value() == "theirs");
}

CAF_TEST(a server that is not there fails and is found when it comes) {
  redis_server server;
  redis_cache c{std::make_shared<redis_client>(redis_cache_options(server.options().address)), "test"};
  CAF_CHECK(c.put("key", "value", 0s).has_value());
  server.stop();
  const auto down = c.get("key");
  CAF_REQUIRE(!down);
  CAF_CHECK(down.failure().code == errc::backend_failed);
  CAF_CHECK(!c.put("key", "value", 0s));
  CAF_CHECK(!c.put("key", "value", -1s));
  CAF_CHECK(!c.remove("key"));
  CAF_CHECK(!c.take("key"));
  CAF_CHECK(!c.exists("key"));
  CAF_CHECK(!c.clear());
  CAF_CHECK(!c.ping());
  server.start();
  CAF_CHECK(testing_support::eventually([&] { return c.ping().has_value(); }));
  CAF_CHECK(c.get("key").value() == "value");
}

CAF_TEST(a key of another kind is an error to get and overwritten by put) {
  redis_server server;
  const auto client = std::make_shared<redis_client>(server.options());
  redis_cache c{client, "test"};
  CAF_CHECK(client->command({"RPUSH", "test:key", "x"}).has_value());
  CAF_CHECK(!c.get("key"));
  CAF_CHECK(c.put("key", "value", 0s).has_value());
  CAF_CHECK(c.get("key").value() == "value");
}
