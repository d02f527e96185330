#define CAF_SUITE lock_shell
#include "actors/lock/lock_shell.hpp"

#include "integration/memory/memory_locks.hpp"
#include "tests/support/shell_fixture.hpp"

using namespace caravan;
using namespace std::chrono_literals;

namespace {

struct fixture : test::shell_fixture {
  std::shared_ptr<local_locks> door =
      local_locks::open(std::make_unique<memory_locks>("here", toolbox::real_clock::shared()), lock_limits{});
  lock_manager_actor manager = sys.spawn(lock_behavior, door);

  ~fixture() {
    door->close();
    consume_messages();
    caf::anon_send_exit(manager, caf::exit_reason::user_shutdown);
    consume_messages();
  }
  auto acquire(std::uint64_t request, std::chrono::milliseconds wait = 1h) {
    return ask<lock_granted>(manager, acquire_lock{request, "k", "ann", wait, 1h});
  }
};

}  // namespace

CAF_TEST_FIXTURE_SCOPE(lock_shell_tests, fixture)

CAF_TEST(locks are granted in order and released by value) {
  const auto first = acquire(1);
  CAF_REQUIRE(first->value);
  const auto second = acquire(2);
  CAF_CHECK(!*second);
  CAF_CHECK(acquire(3, 0ms)->code() == errc::conflict);
  CAF_CHECK(ask<ack>(manager, release_lock{"k", 99, false})->code() == errc::fenced);
  CAF_CHECK(ask<ack>(manager, release_lock{"k", first->value->value, false})->value);
  consume_messages();
  CAF_REQUIRE(second->value);
  CAF_CHECK(second->value->token > first->value->token);
  CAF_CHECK(ask<lock_granted>(manager, extend_lock{"k", first->value->value})->code() == errc::fenced);
  CAF_CHECK(ask<lock_granted>(manager, extend_lock{"k", second->value->value})->value->remaining > 59min);
}

CAF_TEST(who is taken back leaves the line) {
  const auto first = acquire(1), second = acquire(2), third = acquire(3);
  caf::anon_send(manager, cancel_lock{2});
  consume_messages();
  CAF_CHECK(second->code() == errc::conflict);
  ask<ack>(manager, release_lock{"k", first->value->value, false});
  consume_messages();
  CAF_CHECK(third->value);
}

CAF_TEST(lists show who holds and who waits) {
  const auto first = acquire(1), second = acquire(2);
  const auto list = ask<lock_list>(manager, get_locks{});
  CAF_REQUIRE(list->value && list->value->locks.size() == 1);
  const auto& l = list->value->locks[0];
  CAF_CHECK(l.key == "k" && l.holder.owner == "ann" && l.holder.node == "here" && l.waiting == 1);
  CAF_CHECK(l.lease == 1h && l.remaining > 59min);
  CAF_CHECK(ask<lock_list>(manager, get_locks{"other"})->value->locks.empty());
}

CAF_TEST(an operator may release what others hold) {
  acquire(1);
  CAF_CHECK(ask<ack>(manager, release_lock{"k", 0, true})->value);
  CAF_CHECK(ask<ack>(manager, release_lock{"k", 0, true})->code() == errc::not_found);
}

CAF_TEST(a wish without a lease or with a bad key is refused) {
  CAF_CHECK(ask<lock_granted>(manager, acquire_lock{1, "k", "", 0ms, 0ms})->code() == errc::invalid_argument);
  CAF_CHECK(ask<lock_granted>(manager, acquire_lock{1, "", "", 0ms, 1s})->code() == errc::invalid_argument);
}

CAF_TEST(closing the door answers whoever waits) {
  acquire(1);
  const auto second = acquire(2);
  door->close();
  consume_messages();
  CAF_CHECK(second->code() == errc::queue_closed);
  CAF_CHECK(acquire(3)->code() == errc::queue_closed);
}

CAF_TEST_FIXTURE_SCOPE_END()
