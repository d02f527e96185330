#define CAF_SUITE memory_locks
#include "integration/memory/memory_locks.hpp"

#include "tests/contract/lock_store_contract.hpp"

using namespace caravan;
using namespace std::chrono_literals;

CAF_TEST(it keeps the contract) {
  memory_locks store("here", toolbox::real_clock::shared());
  test::lock_store_contract(store).run();
}

CAF_TEST(tokens grow over a restart and when the wall clock is set back) {
  toolbox::manual_clock clock;
  std::uint64_t last = 0;
  {
    memory_locks store("here", clock);
    last = store.take({"k", 1, 0ms, false})->token;
    clock.shift_wall(-30min);
    CAF_CHECK(store.release({"k", 1}).value());
    const auto next = store.take({"k", 2, 0ms, false})->token;
    CAF_CHECK(next > last);
    last = next;
  }
  clock.shift_wall(30min);
  clock.advance(1ms);
  memory_locks store("here", clock);
  CAF_CHECK(store.take({"k", 3, 0ms, false})->token > last);
}

CAF_TEST(after close it refuses but still takes back) {
  memory_locks store("here", toolbox::real_clock::shared());
  CAF_CHECK(store.take({"k", 1, 0ms, false}));
  store.close();
  CAF_CHECK(store.take({"other", 1, 0ms, false}).failure().code == errc::queue_closed);
  CAF_CHECK(store.release({"k", 1}).value());
}
