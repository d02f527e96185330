#define CAF_SUITE level_storage
#include "integration/leveldb/level_storage.hpp"

#include "tests/contract/crash_env.hpp"
#include "tests/contract/failing_storage.hpp"
#include "tests/contract/import_contract.hpp"
#include "tests/contract/storage_contract.hpp"
#include "tests/support/temp_folder.hpp"
#include "tests/contract/tsan_leveldb.hpp"

#include "caf/test/unit_test.hpp"

using namespace caravan;
using namespace std::chrono_literals;
using testing_support::temp_folder;

namespace {

contract::make_place level_places(config::sync_mode sync, std::shared_ptr<temp_folder> folder) {
  return [sync, folder, next = std::make_shared<int>(0)](const toolbox::clock& clock) {
    const auto datadir = folder->path().string() + "/" + std::to_string(++*next);
    return contract::place{
        [=, &clock](unique_policy unique, std::chrono::milliseconds window) -> std::unique_ptr<storage> {
          level_options options;
          options.datadir = datadir;
          options.queue_full_name = "mail_queue";
          options.set_full_name = "mail_queue_unique";
          options.unique = unique;
          options.idempotency_window = window;
          options.sync = sync;
          options.sync_interval = 20ms;
          options.clock = &clock;
          options.report = [](const damage_report& r) { CAF_FAIL("unexpected report: " << r.what); };
          auto opened = open_level_storage(std::move(options));
          if (!opened) CAF_FAIL(opened.failure().text);
          return std::move(*opened);
        },
        true};
  };
}

}  // namespace

CAF_TEST(level keeps the storage contract with SYNC interval) {
  check_storage_contract(level_places(config::sync_mode::interval, std::make_shared<temp_folder>()));
}

CAF_TEST(level keeps the storage contract with SYNC never) {
  check_storage_contract(level_places(config::sync_mode::never, std::make_shared<temp_folder>()));
}

CAF_TEST(a folder can be moved into) {
  check_import_contract(level_places(config::sync_mode::interval, std::make_shared<temp_folder>()));
}

CAF_TEST(level keeps the storage contract with SYNC always) {
  // The two checks with thousands of single writes would only measure the disk.
  const auto make = level_places(config::sync_mode::always, std::make_shared<temp_folder>());
  contract::one_push_is_visible_in_the_count(make);
  contract::order_is_first_in_first_out(make);
  contract::keys_are_freed_as_the_policy_says(make);
  contract::the_idempotency_window_survives_restart_and_purge(make);
  contract::records_move_between_all_states(make);
  contract::a_record_moved_back_below_the_head_is_found(make);
  contract::clearing_empties_one_state(make);
  contract::bytes_come_back_as_they_went(make);
}

CAF_TEST(the failing double over level keeps the contract while it is not armed) {
  const auto real = level_places(config::sync_mode::never, std::make_shared<temp_folder>());
  check_storage_contract([&](const toolbox::clock& clock) {
    auto place = real(clock);
    return contract::place{[place](unique_policy unique, std::chrono::milliseconds window) -> std::unique_ptr<storage> {
                             return std::make_unique<failing_storage>(place.open(unique, window));
                           },
                           true};
  });
}

CAF_TEST(the failing double can lose what was not synced) {
  temp_folder folder;
  crash_env disk;
  level_options options;
  options.datadir = folder.path().string() + "/data";
  options.queue_full_name = "mail_queue";
  options.set_full_name = "mail_queue_unique";
  options.sync = config::sync_mode::never;
  options.env = disk.env();
  auto store = std::make_unique<failing_storage>(open_level_storage(options).value(), [&] { disk.freeze(); });
  auto r = contract::item("x");
  store->append(std::span{&r, 1}, toolbox::real_clock::shared().wall()).value();
  store->lose_unsynced();
  store.reset();
  disk.crash(options.datadir);
  CAF_CHECK_EQUAL(open_level_storage(options).value()->count().waiting, 0u);
}

CAF_TEST(a pass over a million erased items is short and compact gives their space back) {
  temp_folder folder;
  level_options options;
  options.datadir = folder.path().string() + "/data";
  options.queue_full_name = "a_queue";
  options.set_full_name = "a_queue_unique";
  options.sync = config::sync_mode::never;
  auto store = open_level_storage(options).value();
  const auto size_on_disk = [&] {
    std::uintmax_t sum = 0;
    for (const auto& e : std::filesystem::directory_iterator{options.datadir}) sum += e.file_size();
    return sum;
  };
  std::vector<record> part;
  const auto now = toolbox::real_clock::shared().wall();
  for (int i = 0; i < 50; ++i) {
    part.assign(2000, contract::item(std::string(200, static_cast<char>('a' + i % 26))));
    store->append(part, now).value();
    store->erase(contract::refs(part), {}).value();
  }
  const auto timed = [](auto call) {
    const auto begin = std::chrono::steady_clock::now();
    call();
    return std::chrono::steady_clock::now() - begin;
  };
  // Its neighbour's rows would be walked too, without the fences.
  options.queue_full_name = "B_queue";
  auto other = open_level_storage(options).value();
  auto r = contract::item("x");
  for (auto* s : {store.get(), other.get()}) {
    s->append(std::span{&r, 1}, now).value();
    const auto took = timed([&] { CAF_CHECK_EQUAL(s->read(record_state::waiting, {}, 10).value().size(), 1u); });
    CAF_CHECK(took < 30ms);
    r.id = {};
  }
  const auto before = size_on_disk();
  store->compact();
  CAF_MESSAGE(before << " bytes on disk, then " << size_on_disk());
  CAF_CHECK(size_on_disk() < before / 2);
  CAF_CHECK_EQUAL(store->count().waiting, 1u);
}
