#define CAF_SUITE level_storage
#include "integration/leveldb/level_storage.hpp"

#include "tests/contract/failing_storage.hpp"
#include "tests/contract/storage_contract.hpp"
#include "tests/contract/temp_folder.hpp"

#include "caf/test/unit_test.hpp"

using namespace caravan;
using namespace std::chrono_literals;

namespace {

contract::make_place level_places(config::sync_mode sync, std::shared_ptr<temp_folder> folder) {
  return [sync, folder, next = std::make_shared<int>(0)](const toolbox::clock& clock) {
    const auto datadir = folder->path() + "/" + std::to_string(++*next);
    return contract::place{[=, &clock](unique_policy unique, std::chrono::milliseconds window) -> std::unique_ptr<storage> {
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
