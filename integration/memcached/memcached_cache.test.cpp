#define CAF_SUITE memcached_cache
#include "integration/memcached/memcached_cache.hpp"

#include "tests/contract/cache_contract.hpp"
#include "tests/support/memcached_server.hpp"

using namespace caravan;
using namespace std::chrono_literals;
using testing_support::eventually;
using testing_support::memcached_server;

namespace {

memcached_options to(const std::vector<const memcached_server*>& servers, std::string prefix = "test") {
  memcached_options out;
  for (const auto* server : servers) out.hosts.push_back({"127.0.0.1", server->port()});
  out.prefix = std::move(prefix);
  return out;
}

contract::cache_engine engine_of(std::string name, std::vector<const memcached_server*> servers) {
  auto made = std::make_shared<int>(0);
  auto prefixes = std::make_shared<std::map<cache_adapter*, std::string>>();
  return {std::move(name),
          [=]() -> std::unique_ptr<cache_adapter> {
            const auto prefix = "test" + std::to_string(++*made);
            auto out = std::make_unique<memcached_cache>(to(servers, prefix));
            (*prefixes)[out.get()] = prefix;
            return out;
          },
          {},
          [=](cache_adapter& c, const std::string& key) {
            for (const auto* server : servers) {
              const auto answer = server->ask("mg " + safe_cache_key((*prefixes)[&c], key) + " t\r\n", "\r\n");
              if (answer.starts_with("HD t")) return std::chrono::milliseconds{1000 * std::stoll(answer.substr(4))};
            }
            return std::chrono::milliseconds{0};
          }};
}

}  // namespace

CAF_TEST(memcached keeps the cache contract) {
  const memcached_server server;
  contract::check_cache_contract(engine_of("memcache", {&server}));
}

CAF_TEST(three memcached keep the cache contract) {
  const memcached_server a, b, c;
  contract::check_cache_contract(engine_of("memcache of three", {&a, &b, &c}));
  // Each of them got something to keep.
  for (const auto* server : {&a, &b, &c})
    CAF_CHECK(server->ask("stats\r\n", "END\r\n").find("STAT total_items 0\r") == std::string::npos);
}

CAF_TEST(a clear leaves alone what others keep) {
  const memcached_server server;
  CAF_CHECK_EQUAL(server.ask("set theirs 0 0 5\r\nvalue\r\n", "\r\n"), std::string("STORED\r\n"));
  memcached_cache c{to({&server})};
  CAF_CHECK(c.put("key", "value", 0s).has_value());
  CAF_CHECK(c.clear().has_value());
  CAF_CHECK(!c.get("key").value());
  CAF_CHECK_EQUAL(server.ask("get theirs\r\n", "END\r\n"), std::string("VALUE theirs 0 5\r\nvalue\r\nEND\r\n"));
}

CAF_TEST(two processes see the clear of each other) {
  const memcached_server server;
  memcached_cache one{to({&server})}, two{to({&server})};
  CAF_CHECK(one.put("key", "value", 0s).has_value());
  CAF_CHECK(two.get("key").value() == "value");
  CAF_CHECK(two.clear().has_value());
  CAF_CHECK(!one.get("key").value());
  CAF_CHECK(one.put("key", "new", 0s).has_value());
  CAF_CHECK(two.get("key").value() == "new");
}

CAF_TEST(values that were cleared do not come back when the server forgot the generation) {
  const memcached_server server;
  memcached_cache c{to({&server})};
  CAF_CHECK(c.put("key", "value", 0s).has_value());
  CAF_CHECK_EQUAL(server.ask("delete test:generation\r\n", "\r\n"), std::string("DELETED\r\n"));
  CAF_CHECK(!c.get("key").value());
  CAF_CHECK(c.put("other", "value", 0s).has_value());
  CAF_CHECK(!c.get("key").value());
  CAF_CHECK(c.get("other").value() == "value");
  // Nonsense in its place is no generation either.
  CAF_CHECK_EQUAL(server.ask("set test:generation 0 0 3\r\nabc\r\n", "\r\n"), std::string("STORED\r\n"));
  CAF_CHECK(!c.get("other").value());
}

CAF_TEST(a value that is too large says so) {
  const memcached_server server;
  memcached_cache c{to({&server})};
  const auto large = c.put("key", std::string(2 << 20, 'x'), 0s);
  CAF_REQUIRE(!large);
  CAF_CHECK(large.failure().code == errc::too_large);
  CAF_CHECK(large.failure().text.find("1 MiB") != std::string::npos);
  CAF_CHECK(c.put("key", std::string(1'000'000, 'x'), 0s).has_value());
  CAF_CHECK(c.get("key").value()->size() == 1'000'000u);
}

CAF_TEST(a server that is not there fails at once and is found when it comes) {
  memcached_server server;
  memcached_cache c{to({&server})};
  CAF_CHECK(c.put("key", "value", 0s).has_value());
  server.stop();
  const auto down = c.get("key");
  CAF_REQUIRE(!down);
  CAF_CHECK(down.failure().code == errc::backend_failed);
  CAF_CHECK(down.failure().text.find("127.0.0.1:" + std::to_string(server.port())) != std::string::npos);
  CAF_CHECK(!c.put("key", "value", 0s));
  CAF_CHECK(!c.remove("key"));
  CAF_CHECK(!c.take("key"));
  CAF_CHECK(!c.exists("key"));
  CAF_CHECK(!c.clear());
  CAF_CHECK(!c.ping());
  server.start();
  CAF_CHECK(eventually([&] { return c.ping().has_value(); }));
  CAF_CHECK(!c.get("key").value());
  CAF_CHECK(c.put("key", "value", 0s).has_value());
}

CAF_TEST(a connection that the server closed costs no call) {
  memcached_server server;
  memcached_cache c{to({&server})};
  for (int i = 0; i < 3; ++i) {
    CAF_CHECK(c.put("key", "value", 0s).has_value());
    server.stop();
    server.start();
  }
  CAF_CHECK(!c.get("key").value());
}

CAF_TEST(a server that does not answer is given up) {
  memcached_server server;
  auto options = to({&server});
  options.answer_timeout = 50ms;
  memcached_cache c{options};
  CAF_CHECK(eventually([&] { return c.put("key", "value", 0s).has_value(); }));
  server.freeze();
  CAF_CHECK(eventually([&] { return !c.get("key"); }));  // it may still be stopping
  CAF_CHECK(!c.put("key", "other", 0s));
  server.thaw();
  CAF_CHECK(eventually([&] { return c.get("key").has_value(); }));
}

CAF_TEST(of several servers one that is down fails its own keys only) {
  memcached_server a;
  const memcached_server b;
  memcached_cache c{to({&a, &b})};
  for (int i = 0; i < 50; ++i) CAF_CHECK(c.put(std::to_string(i), "value", 0s).has_value());
  a.stop();
  int failed = 0, there = 0;
  for (int i = 0; i < 50; ++i) {
    const auto value = c.get(std::to_string(i));
    failed += !value;
    there += value && *value == "value";
  }
  CAF_CHECK(failed > 5);
  CAF_CHECK(there > 5);
  CAF_CHECK_EQUAL(failed + there, 50);
  CAF_CHECK(!c.ping());
}

CAF_TEST(many threads share few connections) {
  const memcached_server server;
  auto options = to({&server});
  options.max_connections = 2;
  memcached_cache c{options};
  std::atomic<int> wrong{0};
  std::vector<std::jthread> threads;
  for (int t = 0; t < 6; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) {
        const auto key = std::to_string(t) + "/" + std::to_string(i % 10);
        wrong += !c.put(key, key, 1h);
        wrong += c.get(key).value() != key;
      }
    });
  threads.clear();
  CAF_CHECK_EQUAL(wrong.load(), 0);
  const auto stats = server.ask("stats\r\n", "END\r\n");
  const auto at = stats.find("STAT total_connections ");
  CAF_REQUIRE(at != std::string::npos);
  CAF_CHECK(std::stoi(stats.substr(at + 23)) < 10);
}

CAF_TEST(bad options are refused) {
  const auto refused = [](memcached_options options) {
    try {
      memcached_cache{std::move(options)};
    } catch (const exception& e) {
      return e.why().code == errc::invalid_argument;
    }
    return false;
  };
  CAF_CHECK(refused({}));
  for (const auto& prefix : {std::string{}, std::string("a b"), std::string(181, 'x')}) {
    memcached_options options;
    options.hosts = {{"127.0.0.1", 1}};
    options.prefix = prefix;
    CAF_CHECK(refused(options));
  }
}
