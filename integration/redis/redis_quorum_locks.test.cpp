#define CAF_SUITE redis_quorum_locks
#include "integration/redis/redis_quorum_locks.hpp"

#include "tests/contract/lock_store_contract.hpp"
#include "tests/support/redis_server.hpp"

using namespace caravan;
using namespace std::chrono_literals;
using testing_support::redis_server;

namespace {

using kind = lock_taken::kind;
const std::string key_of_k = "caravan:globallock:k";

/// Three servers that forget everything when they end.
struct fixture {
  std::vector<std::unique_ptr<redis_server>> servers;

  fixture() {
    for (int n = 0; n < 3; ++n)
      servers.push_back(std::make_unique<redis_server>(std::vector<std::string>{"--appendonly", "no"}));
  }
  std::unique_ptr<redis_quorum_locks> open(std::chrono::milliseconds expiry = 30s) {
    redis_quorum_options o;
    for (const auto& s : servers) o.servers.push_back(s->options().address);
    o.node = "n";
    o.expiry = expiry;
    return std::move(redis_quorum_locks::open(std::move(o), nullptr, 1).value());
  }
  redis_value on(std::size_t n, std::initializer_list<std::string_view> words) {
    return redis_client(servers[n]->options()).command(words).value();
  }
  void restart_empty(std::size_t n) {
    servers[n]->kill9();
    servers[n]->start();
    CAF_REQUIRE_EQUAL(on(n, {"DBSIZE"}).number, 0);
  }
};

lock_taken take(lock_store& s, const std::string& key, lock_id id, std::chrono::milliseconds life = 30s) {
  return s.take({key, id, life, false}).value();
}

}  // namespace

CAF_TEST_FIXTURE_SCOPE(redis_quorum_locks_tests, fixture)

CAF_TEST(it keeps the contract) {
  const auto store = open();
  test::lock_store_contract(*store).run();
}

CAF_TEST(it keeps the contract without a minority) {
  servers[1]->kill9();
  const auto store = open();
  test::lock_store_contract(*store).run();
}

CAF_TEST(a grant has its token on a majority and a refused one leaves nothing) {
  const auto store = open();
  on(0, {"SET", "caravan:globallock-token", "9000000000000000"});
  const auto got = take(*store, "k", 1);
  CAF_CHECK_EQUAL(got.token, 9'000'000'000'000'001u);
  const auto expected = store->node() + ":1|9000000000000001";
  for (std::size_t n = 0; n < 3; ++n) {
    CAF_CHECK_EQUAL(on(n, {"GET", key_of_k}).text, expected);
    CAF_CHECK_EQUAL(on(n, {"GET", "caravan:globallock-token"}).text, "9000000000000001");
    CAF_CHECK(on(n, {"PTTL", key_of_k}).number > 29'000);
  }
  CAF_CHECK(store->release({"k", 1}).value());
  on(0, {"SET", key_of_k, "of another program"});
  on(1, {"SET", key_of_k, "of another program"});
  CAF_CHECK(take(*store, "k", 2).what == kind::busy);
  CAF_CHECK_EQUAL(on(2, {"EXISTS", key_of_k}).number, 0);
  CAF_CHECK_EQUAL(on(0, {"GET", key_of_k}).text, "of another program");
}

CAF_TEST(tokens grow while servers die and come back empty) {
  const auto store = open();
  std::uint64_t last = 0;
  for (lock_id id = 1; id <= 12; ++id) {
    const auto victim = id % 3;
    if (id % 2 == 0)
      restart_empty(victim);
    else
      servers[victim]->kill9();
    const auto got = take(*store, "k", id);
    CAF_CHECK(got.what == kind::granted);
    CAF_CHECK(got.token > last);
    last = got.token;
    CAF_CHECK(store->release({"k", id}).value());
    if (id % 2 != 0) servers[victim]->start();
  }
}

CAF_TEST(tokens grow without a word of clocks) {
  // Each server counts far from where the others do, and each grant has another majority.
  const auto store = open();
  on(0, {"SET", "caravan:globallock-token", "5000000000000000"});
  on(1, {"SET", "caravan:globallock-token", "4000000000000000"});
  std::uint64_t last = 0;
  for (lock_id id = 1; id <= 9; ++id) {
    const auto away = (id + 1) % 3;
    on(away, {"SET", key_of_k, "of another program"});
    const auto got = take(*store, "k", id);
    CAF_CHECK(got.what == kind::granted && got.token > last);
    last = got.token;
    CAF_CHECK(store->release({"k", id}).value());
    on(away, {"DEL", key_of_k});
  }
}

CAF_TEST(a held lock outlives the restart of one server after the other) {
  const auto store = open();
  const auto token = take(*store, "k", 1).token;
  const std::vector<lock_renewal> held{{"k", 1, 30s, token}};
  for (std::size_t n = 0; n < 3; ++n) {
    restart_empty(n);
    CAF_CHECK(store->renew(held).value() == std::vector<std::uint64_t>{token});
    CAF_CHECK_EQUAL(on(n, {"GET", key_of_k}).text, store->node() + ":1|" + std::to_string(token));
  }
  CAF_CHECK(take(*store, "k", 2).what == kind::busy);
  // Of a majority that forgot, the lock is lost.
  restart_empty(0);
  restart_empty(1);
  CAF_CHECK(store->renew(held).value() == std::vector<std::uint64_t>{0});
  CAF_CHECK_EQUAL(on(0, {"EXISTS", key_of_k}).number, 0);
}

CAF_TEST(one server raises only what is its own and never lowers anything) {
  redis_lock_options o;
  o.redis = servers[0]->options();
  o.node = "x";
  const auto one = std::move(redis_locks::open(std::move(o)).value());
  const auto token = one->take({"k", 1, 30s, false}).value().token;
  using mode = redis_locks::hold_mode;
  const auto hold = [&](lock_id id, std::uint64_t t, mode m) {
    const std::vector<lock_renewal> held{{"k", id, 30s, t}};
    return bool(one->hold(held, m).value()[0]);
  };
  CAF_CHECK(!hold(1, token - 1, mode::raise));
  CAF_CHECK(hold(1, token, mode::raise));
  CAF_CHECK(hold(1, token + 5, mode::raise));
  CAF_CHECK(!hold(1, token, mode::raise));
  CAF_CHECK(hold(1, token, mode::keep));
  CAF_CHECK(!hold(2, token + 9, mode::raise));
  CAF_CHECK(!hold(2, token + 9, mode::put));
  const auto counter = std::to_string(token + 5);
  CAF_CHECK_EQUAL(on(0, {"GET", "caravan:globallock-token"}).text, counter);
  CAF_CHECK(one->release({"k", 1}).value());
  CAF_CHECK(!hold(1, token, mode::keep));
  CAF_CHECK(hold(1, token, mode::put));
  CAF_CHECK_EQUAL(on(0, {"GET", "caravan:globallock-token"}).text, counter);
  on(0, {"DEL", key_of_k});
  on(0, {"LPUSH", key_of_k, "x"});
  CAF_CHECK(!hold(1, token, mode::put));
}

CAF_TEST(without a majority nothing is granted and everything says so) {
  const auto store = open();
  const auto token = take(*store, "k", 1).token;
  servers[0]->kill9();
  CAF_CHECK(store->show("k").value()->token == token);
  servers[2]->kill9();
  const std::vector<lock_renewal> held{{"k", 1, 30s, token}};
  const std::vector<lock_ticket> waiting{{"k", 2, 1}};
  const auto failed = store->take({"other", 3, 30s, false});
  CAF_CHECK(failed.failure().code == errc::backend_failed);
  CAF_CHECK(failed.failure().text.find("only 1 of 3 Redis") != std::string::npos);
  CAF_CHECK(store->renew(held).failure().code == errc::backend_failed);
  CAF_CHECK(store->beat(waiting).failure().code == errc::backend_failed);
  CAF_CHECK(store->release({"k", 1}).failure().code == errc::backend_failed);
  CAF_CHECK(store->show("k").failure().code == errc::backend_failed);
  CAF_CHECK(store->list(1).failure().code == errc::backend_failed);
  CAF_CHECK(store->force("k").failure().code == errc::backend_failed);
  CAF_CHECK_EQUAL(on(1, {"EXISTS", "caravan:globallock:other"}).number, 0);
  servers[0]->start();
  CAF_CHECK(take(*store, "k", 4).what == kind::granted);
}

CAF_TEST(a server that hangs costs its patience and no more) {
  const auto store = open();
  servers[1]->freeze();
  const auto got = take(*store, "k", 1);
  CAF_CHECK(got.what == kind::granted);
  std::vector<lock_ticket> waiting;
  for (lock_id id = 10; id < 40; ++id) waiting.push_back({"w" + std::to_string(id), id, id});
  for (const auto& s : store->beat(waiting).value()) CAF_CHECK(s.token > got.token);
  servers[1]->thaw();
  CAF_CHECK(store->release({"k", 1}).value());
}

CAF_TEST(a lease that is over before it was granted is none) {
  const auto store = open();
  servers[1]->freeze();  // the rounds take longer than the lease
  CAF_CHECK(take(*store, "k", 1, 300ms).what == kind::busy);
  servers[1]->thaw();
  CAF_CHECK_EQUAL(on(0, {"EXISTS", key_of_k}).number, 0);
}

CAF_TEST_FIXTURE_SCOPE_END()
