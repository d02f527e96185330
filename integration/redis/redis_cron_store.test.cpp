#define CAF_SUITE redis_cron_store
#include "integration/redis/redis_cron_store.hpp"
#include "tests/contract/cron_store_contract.hpp"
#include "tests/support/redis_server.hpp"

using namespace caravan;
using namespace caravan::contract;
using namespace caravan::testing_support;
using namespace std::chrono;
using namespace std::chrono_literals;

namespace {

struct fixture {
  redis_server redis;
  std::shared_ptr<redis_client> client = std::make_shared<redis_client>(redis.options());

  cron_bed bed() {
    client->command({"FLUSHALL"}).value();
    cron_bed out;
    out.store = std::make_unique<redis_cron_store>(client);
    out.now = [c = client] {
      const auto t = c->command({"TIME"}).value();
      return cron_time(milliseconds(std::stoll(t.items[0].text) * 1000 + std::stoll(t.items[1].text) / 1000));
    };
    out.sleep = [](milliseconds by) { std::this_thread::sleep_for(by); };
    out.reopen = [this](cron_bed& b) {
      redis.stop();
      redis.start();
      b.store = std::make_unique<redis_cron_store>(client);
    };
    return out;
  }
};

}  // namespace

CAF_TEST_FIXTURE_SCOPE(with_a_redis, fixture)

CAF_TEST(it keeps the contract) {
  check_cron_store_contract([this] { return bed(); });
}

CAF_TEST(it follows the clock of the server and refuses what is still to come) {
  auto here = bed();
  const auto far = here.now() + 3min;  // a node whose clock is wrong
  const auto view = here.store->open("task", {}, far).value();
  CAF_REQUIRE(view.now);
  CAF_CHECK(*view.now < far - 2min);
  cron_client a(here, one);
  CAF_CHECK(a.claim(view.state.cursor, view.state.cursor + 1h).verdict == cron_verdict::early);
  CAF_CHECK(client->command({"EXISTS", "caravan:cron:{task}"}).value().number == 1);
}

CAF_TEST(what somebody else wrote there is told) {
  auto here = bed();
  client->command({"SET", "caravan:cron:{task}", "hello"}).value();
  const auto damaged = here.store->open("task", {}, here.now());
  CAF_REQUIRE(!damaged);
  CAF_CHECK(damaged.failure().code == errc::backend_failed);
  client->command({"DEL", "caravan:cron:{task}"}).value();
  client->command({"LPUSH", "caravan:cron:{task}", "hello"}).value();
  CAF_CHECK(!here.store->open("task", {}, here.now()));
  CAF_CHECK(client->command({"LLEN", "caravan:cron:{task}"}).value().number == 1);
}

CAF_TEST(a redis that is gone is a failure and not a grant) {
  redis_cron_store store(std::make_shared<redis_client>(redis_cron_options(redis.options().address)));
  CAF_REQUIRE(store.open("task", {}, {}));
  redis.kill9();
  const auto gone = store.open("task", {}, {});
  CAF_REQUIRE(!gone);
  CAF_CHECK(gone.failure().code == errc::backend_failed);
  redis.start();
  CAF_CHECK(store.open("task", {}, {}));
}

CAF_TEST_FIXTURE_SCOPE_END()
