#define CAF_SUITE memory_storage
#include "integration/memory/memory_storage.hpp"

#include "tests/contract/failing_storage.hpp"
#include "tests/contract/import_contract.hpp"
#include "tests/contract/storage_contract.hpp"

#include "caf/test/unit_test.hpp"

using namespace caravan;
using namespace std::chrono_literals;

namespace {

contract::place memory_place(const toolbox::clock& clock) {
  return {[&clock](unique_policy unique, std::chrono::milliseconds window) {
            return open_memory_storage({"mail_queue", unique, window, &clock});
          },
          false};
}

}  // namespace

CAF_TEST(memory keeps the storage contract) { check_storage_contract(memory_place); }

CAF_TEST(memory can be moved into) { check_import_contract(memory_place); }

CAF_TEST(the failing double keeps the contract while it is not armed) {
  check_storage_contract([](const toolbox::clock& clock) {
    auto real = memory_place(clock);
    return contract::place{[real](unique_policy unique, std::chrono::milliseconds window) -> std::unique_ptr<storage> {
                             return std::make_unique<failing_storage>(real.open(unique, window));
                           },
                           false};
  });
}

CAF_TEST(the failing double fails when told) {
  failing_storage store{open_memory_storage({})};
  auto r = contract::item("x");
  const auto now = wall_time{std::chrono::hours{24 * 365 * 55}};
  store.fail_next(1);
  CAF_CHECK(store.append(std::span{&r, 1}, now).failure().code == errc::backend_failed);
  CAF_CHECK_EQUAL(store.count().waiting, 0u);
  store.fail_at(2, failing_storage::failure::after_writing);
  CAF_CHECK(store.append(std::span{&r, 1}, now));
  CAF_CHECK(!store.append(std::span{&r, 1}, now));
  CAF_CHECK(!r.id);
  CAF_CHECK_EQUAL(store.count().waiting, 2u);
  CAF_CHECK(store.append(std::span{&r, 1}, now));
  CAF_CHECK_EQUAL(store.calls(), 4u);
  bool lost = false;
  failing_storage other{open_memory_storage({}), [&] { lost = true; }};
  other.lose_unsynced();
  CAF_CHECK(lost);
}

CAF_TEST(a million items may wait) {
  auto store = open_memory_storage({});
  const auto now = wall_time{std::chrono::hours{24 * 365 * 55}};
  std::vector<record> part;
  for (int i = 0; i < 1000; ++i) {
    part.assign(1000, contract::item("{\"n\":1}"));
    store->append(part, now).value();
  }
  CAF_CHECK_EQUAL(store->count().waiting, 1'000'000u);
  for (int i = 0; i < 1000; ++i) {
    const auto head = store->read(record_state::waiting, {}, 1000).value();
    store->erase(contract::refs(head), {}).value();
  }
  CAF_CHECK_EQUAL(store->count().waiting, 0u);
}
