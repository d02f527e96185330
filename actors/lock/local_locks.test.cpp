#define CAF_SUITE local_locks
#include "actors/lock/local_locks.hpp"

#include "integration/memory/memory_locks.hpp"
#include "tests/support/eventually.hpp"

#include <atomic>
#include <thread>

#include "caf/test/unit_test.hpp"

using namespace caravan;
using namespace std::chrono_literals;
using testing_support::eventually;
using testing_support::gate;

namespace {

struct fixture {
  std::shared_ptr<local_locks> door =
      local_locks::open(std::make_unique<memory_locks>("here", toolbox::real_clock::shared()), lock_limits{});
  locks all{door};
};

}  // namespace

CAF_TEST_FIXTURE_SCOPE(local_locks_tests, fixture)

CAF_TEST(many threads one at a time) {
  std::uint64_t counter = 0, last = 0;
  bool ordered = true;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 8; ++t)
      threads.emplace_back([&] {
        for (int n = 0; n < 2'000; ++n) {
          auto held = all.lock("k");
          ordered = ordered && held && held->token() > last;
          last = held->token();
          ++counter;
        }
      });
  }
  CAF_CHECK_EQUAL(counter, 16'000u);
  CAF_CHECK(ordered);
  CAF_CHECK_EQUAL(door->waiting(), 0u);
}

CAF_TEST(the line moves in order past those who gave up) {
  auto held = all.lock("k");
  constexpr int n = 60;
  std::vector<std::stop_source> stops(n);
  std::vector<int> order;
  std::vector<std::jthread> threads;
  for (int i = 0; i < n; ++i) {
    threads.emplace_back([&, i] {
      lock_options o;
      o.stop = stops[static_cast<std::size_t>(i)].get_token();
      if (auto mine = all.lock("k", o)) order.push_back(i);
    });
    CAF_REQUIRE(eventually([&] { return door->waiting() == static_cast<std::size_t>(i + 1); }));
  }
  for (int i = 0; i < n; i += 3) stops[static_cast<std::size_t>(i)].request_stop();
  CAF_REQUIRE(eventually([&] { return door->waiting() == 40; }));
  CAF_CHECK(held->release());
  threads.clear();
  CAF_CHECK_EQUAL(order.size(), 40u);
  CAF_CHECK(std::is_sorted(order.begin(), order.end()));
}

CAF_TEST(a loss trips the stop token before the next one starts) {
  lock_options lease;
  lease.lease = 30ms;
  auto held = all.lock("k", lease);
  std::atomic<bool> tripped{false};
  const std::stop_callback on_loss(held->lost(), [&] { tripped = true; });
  auto next = all.lock("k");
  CAF_CHECK(tripped);
  CAF_CHECK(!held->valid());
  CAF_CHECK(next->token() > held->token());
  CAF_CHECK(held->release().failure().code == errc::fenced);
  CAF_CHECK(next->valid());
}

CAF_TEST(a stop callback may use the locks) {
  lock_options lease;
  lease.lease = 20ms;
  auto held = all.lock("k", lease);
  gate done;
  bool got = false;
  const std::stop_callback on_loss(held->lost(), [&] {
    got = all.try_lock("other").has_value();
    done.open();
  });
  done.wait();
  CAF_CHECK(got);
}

CAF_TEST(who looks after the loss sees it too) {
  lock_options lease;
  lease.lease = 10ms;
  auto held = all.lock("k", lease);
  CAF_CHECK(eventually([&] { return !all.find("k").value(); }));
  CAF_CHECK(held->lost().stop_requested());
}

CAF_TEST(an operator takes a lock away and the next in line gets it) {
  auto held = all.lock("k");
  bool got = false;
  std::jthread next([&] { got = all.lock("k").has_value(); });
  CAF_REQUIRE(eventually([&] { return door->waiting() == 1; }));
  CAF_CHECK(all.force_release("k").value());
  next.join();
  CAF_CHECK(got);
  CAF_CHECK(held->lost().stop_requested());
  CAF_CHECK(!all.force_release("k").value());
}

CAF_TEST(those who do not block are called and may be taken back) {
  std::vector<std::uint64_t> tokens;
  std::optional<errc> refused;
  const auto ask = [&] {
    lock_request r{"k"};
    r.wait = true;
    return door->acquire(r, [&](expected<local_locks::grant> g) {
      if (g)
        tokens.push_back(g->token);
      else
        refused = g.failure().code;
    });
  };
  const auto first = ask();
  const auto second = ask();
  const auto third = ask();
  CAF_CHECK_EQUAL(tokens.size(), 1u);
  door->cancel(second);
  CAF_CHECK(refused == errc::conflict);
  CAF_CHECK(door->release("k", first));
  CAF_CHECK_EQUAL(tokens.size(), 2u);
  CAF_CHECK(door->release("k", first).failure().code == errc::fenced);
  CAF_CHECK(door->release("other", third).failure().code == errc::fenced);
  CAF_CHECK(door->release("k", third));
  CAF_CHECK(all.list().value().empty());
}

CAF_TEST(lists name who holds and who waits) {
  lock_options o;
  o.owner = "ann";
  auto held = all.lock("k", o);
  lock_request r{"k"};
  r.label = "bob";
  r.wait = true;
  const auto bob = door->acquire(r, [](const auto&) {});
  const auto list = all.list().value();
  CAF_REQUIRE(list.size() == 1);
  CAF_CHECK(list[0].key == "k" && list[0].holder.owner == "ann" && list[0].holder.node == "here");
  CAF_REQUIRE(list[0].waiters.size() == 1);
  CAF_CHECK(list[0].waiters[0].owner == "bob");
  CAF_CHECK(list[0].token == held->token());
  door->cancel(bob);
}

CAF_TEST(closing wakes who waits and handles still release) {
  auto held = all.lock("k");
  std::optional<errc> told;
  std::jthread waits([&] { told = all.lock("k").failure().code; });
  CAF_REQUIRE(eventually([&] { return door->waiting() == 1; }));
  door->close();
  waits.join();
  CAF_CHECK(told == errc::queue_closed);
  CAF_CHECK(all.lock("other").failure().code == errc::queue_closed);
  CAF_CHECK(held->lost().stop_requested());
  CAF_CHECK(held->release());
}

CAF_TEST(handles may outlive everything else) {
  auto held = all.lock("k").value();
  all = {};
  door.reset();
  CAF_CHECK(held.valid());
  CAF_CHECK(held.release());
}

CAF_TEST(an empty handle is harmless) {
  lock_handle none;
  CAF_CHECK(none.release());
  CAF_CHECK(!none.valid());
  CAF_CHECK(none.extend().failure().code == errc::fenced);
  CAF_CHECK(!none.lost().stop_requested());
}

CAF_TEST_FIXTURE_SCOPE_END()
