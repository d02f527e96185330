#define CAF_SUITE level_cron_store
#include "integration/leveldb/level_cron_store.hpp"
#include "tests/contract/cron_store_contract.hpp"
#include "tests/support/cron_bench.hpp"
#include "tests/support/temp_folder.hpp"

#include <filesystem>
#include <fstream>

using namespace caravan;
using namespace caravan::contract;
using namespace caravan::testing_support;
using namespace std::chrono;
using namespace std::chrono_literals;

namespace {

constexpr cron_time noon = sys_days{2026y / 2 / 10} + 12h;

std::unique_ptr<level_cron_store> open_store(const std::string& folder) {
  return std::move(level_cron_store::in_folder({folder, [](milliseconds) {}}).value());
}

cron_bed bed() {
  const auto folder = std::make_shared<temp_folder>();
  auto clock = std::make_shared<std::atomic<std::int64_t>>(noon.time_since_epoch().count());
  cron_bed out;
  out.store = open_store(folder->path().string());
  out.now = [clock] { return cron_time(milliseconds(clock->load())); };
  out.sleep = [clock](milliseconds by) { *clock += by.count(); };
  out.reopen = [folder](cron_bed& b) {
    b.store.reset();
    b.store = open_store(folder->path().string());
  };
  return out;
}

}  // namespace

CAF_TEST(it keeps the contract) { check_cron_store_contract(bed); }

CAF_TEST(a folder belongs to one at a time) {
  const temp_folder folder;
  const auto first = open_store(folder.path().string());
  int waits = 0;
  const auto second = level_cron_store::in_folder({folder.path().string(), [&](milliseconds) { ++waits; }});
  CAF_REQUIRE(!second);
  CAF_CHECK(second.failure().code == errc::conflict);
  CAF_CHECK_EQUAL(waits, 100);
}

CAF_TEST(a damaged folder is told and left alone) {
  const temp_folder folder;
  open_store(folder.path().string())->open("task", {}, noon).value();
  std::ofstream(folder.path() / "CURRENT") << "nonsense\n";
  const auto again = level_cron_store::in_folder({folder.path().string(), {}});
  CAF_REQUIRE(!again);
  CAF_CHECK(again.failure().code == errc::backend_failed);
}

// A node that is restarted more often than the interval is long.
CAF_TEST(an interval of two hours fires although the node restarts each half hour) {
  const temp_folder folder;
  auto now = noon;
  std::string times;
  for (std::uint64_t life = 1; life <= 12; ++life) {
    cron_bench node(now, std::shared_ptr<cron_store>(open_store(folder.path().string())), {.node = {"one", life}});
    CAF_REQUIRE(node.add(task_of("tidy", "@every 2h")));
    node.start();
    node.run_until(now + 30min);
    node.stop(1s);
    now = node.now + 5s;
    if (const auto more = node.times(); !more.empty()) times += more + " ";
  }
  CAF_CHECK_EQUAL(times, "14:00:00 16:00:00 18:00:00 ");
  CAF_CHECK(now - noon == 12 * (30min + 5s));
}
