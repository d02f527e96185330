#define CAF_SUITE redis_locks
#include "integration/redis/redis_locks.hpp"

#include "tests/contract/lock_store_contract.hpp"
#include "tests/support/redis_proxy.hpp"
#include "tests/support/redis_server.hpp"

#include <atomic>
#include <thread>

using namespace caravan;
using namespace std::chrono_literals;
using testing_support::eventually;
using testing_support::redis_proxy;
using testing_support::redis_server;

namespace {

using kind = lock_taken::kind;

struct fixture {
  redis_server server;

  std::unique_ptr<redis_locks> open(std::uint16_t port = 0, std::chrono::milliseconds give_up = 1500ms) {
    redis_lock_options o;
    o.redis = server.options();
    if (port != 0)
      o.redis.address = config::parse_redis_address("redis://127.0.0.1:" + std::to_string(port) + "/0").value();
    o.redis.give_up_after = give_up;
    o.redis.command_timeout = 700ms;
    o.node = "n";
    o.node_life = 600ms;
    return std::move(redis_locks::open(o).value());
  }
  redis_client& redis() {
    if (!client) client = std::make_unique<redis_client>(server.options());
    return *client;
  }
  std::int64_t ttl(const std::string& key) { return redis().command({"PTTL", key})->number; }
  std::size_t keys() { return redis().command({"KEYS", "caravan:*"})->items.size(); }
  std::unique_ptr<redis_client> client;
};

lock_taken take(lock_store& s, const std::string& key, lock_id id, bool wait = false,
                std::chrono::milliseconds life = 30s) {
  return s.take({key, id, life, wait}).value();
}

/// Keeps what a store tells.
struct ear {
  explicit ear(lock_store& store) {
    store.on_granted([this](const std::string&, lock_id id, std::uint64_t) {
      if (id == 0)
        listens = true;
      else
        last = id;
    });
    CAF_REQUIRE(eventually([&] { return listens.load(); }));
  }
  std::atomic<lock_id> last{0};
  std::atomic<bool> listens{false};
};

}  // namespace

CAF_TEST_FIXTURE_SCOPE(redis_locks_tests, fixture)

CAF_TEST(it keeps the contract) {
  const auto store = open();
  test::lock_store_contract(*store).run();
}

CAF_TEST(every key has an end) {
  auto a = open(), b = open();
  take(*a, "k", 1);
  CAF_CHECK(ttl("caravan:globallock:k") > 29'000 && ttl("caravan:globallock:k") <= 30'000);
  take(*b, "k", 2, true);
  const auto all = redis().command({"KEYS", "caravan:*"}).value();
  CAF_CHECK_EQUAL(all.items.size(), 4u);
  for (const auto& k : all.items) CAF_CHECK(ttl(k.text) > 0);
  CAF_CHECK(!*b->release({"k", 2}));
  CAF_CHECK(*a->release({"k", 1}));
  CAF_CHECK(eventually([&] { return keys() == 1; }));  // the token counter
}

CAF_TEST(two nodes share one line) {
  auto a = open(), b = open();
  ear at_b(*b);
  const auto first = take(*a, "k", 1);
  CAF_CHECK(take(*b, "k", 2, true).what == kind::queued);
  CAF_CHECK(take(*a, "k", 3, true).what == kind::queued);
  CAF_CHECK(*a->release({"k", 1}));
  CAF_REQUIRE(eventually([&] { return at_b.last == 2; }));
  CAF_CHECK(ttl("caravan:globallock:k") <= 5'000);  // its turn; who is there makes it longer
  const std::vector<lock_renewal> claim{{"k", 2, 30s}};
  CAF_CHECK(b->renew(claim).value()[0] > first.token);
  CAF_CHECK(ttl("caravan:globallock:k") > 29'000);
  CAF_CHECK(redis().command({"GET", "caravan:globallock:k"})->text.starts_with(b->node() + ":2|"));
  CAF_CHECK(take(*b, "k", 2).token > first.token);
}

CAF_TEST(a free key does not go past those who wait) {
  auto a = open(), b = open();
  ear at_b(*b);
  take(*a, "k", 1);
  take(*b, "k", 2, true);
  CAF_CHECK(redis().command({"DEL", "caravan:globallock:k"}));  // as if it had expired
  CAF_CHECK(take(*a, "k", 3).what == kind::busy);
  CAF_CHECK(eventually([&] { return at_b.last == 2; }));
}

CAF_TEST(dead waiters do not block the line) {
  auto a = open(), b = open();
  take(*a, "k", 1);
  take(*b, "k", 2, true);
  CAF_REQUIRE(eventually([&] {
    return redis().command({"EXISTS", "caravan:globallock-node:" + b->node()})->number == 0;
  }));
  CAF_CHECK(take(*a, "k", 3, true).what == kind::queued);
  CAF_CHECK(*a->release({"k", 1}));
  CAF_CHECK(take(*a, "k", 3, true).what == kind::granted);
}

CAF_TEST(a beat keeps a node alive and finds its turn and its place again) {
  auto a = open(), b = open();
  take(*a, "k", 1);
  const auto second = take(*b, "k", 2, true), third = take(*a, "k", 3, true);
  CAF_CHECK(third.place > second.place);
  CAF_CHECK(redis().command({"FLUSHALL"}));
  const std::vector<lock_ticket> of_a{{"k", 3, third.place}}, of_b{{"k", 2, second.place}};
  const auto renewed = a->renew(std::vector<lock_renewal>{{"k", 1, 30s}}).value();
  CAF_CHECK(renewed[0] == 0);
  CAF_CHECK(a->beat(of_a).value()[0].token > 0);  // nobody else is there
  const auto wait = b->beat(of_b).value()[0];
  CAF_CHECK(wait.token == 0 && wait.again > 0ms);
  CAF_CHECK(*a->release({"k", 3}));
  CAF_CHECK(b->beat(of_b).value()[0].token > 0);
}

CAF_TEST(tokens grow over the loss of all data) {
  auto a = open();
  const auto first = take(*a, "k", 1).token;
  CAF_CHECK(redis().command({"FLUSHALL"}));
  CAF_CHECK(take(*a, "k", 2).token > first);
  CAF_CHECK(redis().command({"SET", "caravan:globallock-token", "9000000000000000"}));
  CAF_CHECK(*a->release({"k", 2}));
  CAF_CHECK(take(*a, "k", 3).token == 9'000'000'000'000'001u);
}

CAF_TEST(what another program put there is busy) {
  auto a = open();
  CAF_CHECK(redis().command({"SET", "caravan:globallock:k", "mine"}));
  CAF_CHECK(take(*a, "k", 1).what == kind::busy);
  const auto shown = a->show("k").value();
  CAF_REQUIRE(shown.has_value());
  CAF_CHECK(shown->holder.node.empty() && !shown->remaining);
  CAF_CHECK(!*a->release({"k", 1}));
  CAF_CHECK(redis().command({"LPUSH", "caravan:globallock:list", "x"}));
  CAF_CHECK(a->take({"list", 1, 30s, false}).failure().code == errc::backend_failed);
  CAF_CHECK(a->list(10).has_value());
  CAF_CHECK(*a->force("k"));
  CAF_CHECK(take(*a, "k", 1).what == kind::granted);
}

CAF_TEST(replies that get lost do no harm) {
  redis_proxy proxy(server.port());
  auto a = open(proxy.port(), 20s);
  take(*a, "warm", 999);
  proxy.set(redis_proxy::mode::lose_replies, 0.2);
  std::uint64_t last = 0;
  for (lock_id id = 1; id <= 100; ++id) {
    const auto got = take(*a, "k", id);
    CAF_CHECK(got.what == kind::granted && got.token > last);
    last = got.token;
    CAF_CHECK(a->release({"k", id}).has_value());  // the second run may find it free already
  }
  CAF_CHECK(proxy.injected() > 10);
  proxy.set(redis_proxy::mode::pass);
  CAF_CHECK(!a->show("k").value());
}

CAF_TEST(a request that was stuck does not lock for one who has given up) {
  auto a = open();
  take(*a, "warm", 1);
  server.freeze();
  CAF_CHECK(a->take({"k", 2, 30s, true}).failure().code == errc::backend_failed);
  std::this_thread::sleep_for(1'500ms);  // what is too old is said in time, so time must pass
  server.thaw();
  CAF_CHECK(!a->show("k").value());
  CAF_CHECK(take(*a, "k", 3).what == kind::granted);
}

CAF_TEST(forgotten scripts are no trouble) {
  auto a = open();
  take(*a, "k", 1);
  CAF_CHECK(redis().command({"SCRIPT", "FLUSH"}));
  CAF_CHECK(*a->release({"k", 1}));
  CAF_CHECK(take(*a, "k", 2).what == kind::granted);
}

CAF_TEST_FIXTURE_SCOPE_END()
