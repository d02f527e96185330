#define CAF_SUITE memory_cron_store
#include "integration/memory/memory_cron_store.hpp"
#include "tests/contract/cron_store_contract.hpp"

#include <random>

using namespace caravan;
using namespace caravan::contract;
using namespace std::chrono;
using namespace std::chrono_literals;

namespace {

constexpr cron_time noon = sys_days{2026y / 2 / 10} + 12h;

cron_bed bed(bool own_clock) {
  auto clock = std::make_shared<std::atomic<std::int64_t>>(noon.time_since_epoch().count());
  const auto now = [clock] { return cron_time(milliseconds(clock->load())); };
  cron_bed out;
  out.store = own_clock ? std::make_unique<memory_cron_store>([now] { return now() + 3min; })
                        : std::make_unique<memory_cron_store>();
  out.now = now;
  out.sleep = [clock](milliseconds by) { *clock += by.count(); };
  return out;
}

}  // namespace

CAF_TEST(it keeps the contract) {
  check_cron_store_contract([] { return bed(false); });
}

CAF_TEST(it keeps the contract with a clock of its own) {
  check_cron_store_contract([] { return bed(true); });
}

CAF_TEST(its own clock refuses what is still to come) {
  auto here = bed(true);
  const auto view = here.store->open("task", {}, here.now()).value();
  CAF_CHECK(view.now == here.now() + 3min);
  cron_client a(here, one);
  CAF_CHECK(a.claim(view.state.cursor, view.state.cursor + 2s).verdict == cron_verdict::early);
  CAF_CHECK(a.claim(view.state.cursor, view.state.cursor + 1s).verdict == cron_verdict::granted);
}

CAF_TEST(rows are read as they were written and damaged ones are refused) {
  cron_row row;
  row.token = 7;
  row.recent.push_back({{"one two", 3},
                        9,
                        cron_verdict::queued,
                        floor<seconds>(noon),
                        floor<seconds>(noon) + 1s,
                        cron_running{.token = 5},
                        floor<seconds>(noon)});
  row.state.queued = floor<seconds>(noon);
  row.state.running = cron_running{.token = 7, .node = {"n\n1", 2}, .occurrence = floor<seconds>(noon) - 1s};
  row.state.last = cron_last_run{.token = 6, .node = "x", .outcome = cron_outcome::lost, .message = "a 1 b\n"};
  const auto bytes = encode(row);
  CAF_CHECK(decode_cron_row(bytes) == row);
  CAF_CHECK(decode_cron_row(encode({})) == cron_row{});
  for (std::size_t n = 0; n < bytes.size(); ++n) CAF_CHECK(!decode_cron_row(bytes.substr(0, n)));
  CAF_CHECK(!decode_cron_row(bytes + " "));
  CAF_CHECK(!decode_cron_row("2" + bytes.substr(1)));
  std::mt19937 chance(3);
  for (auto i = 0; i < 5000; ++i) {
    auto other = bytes;
    other[chance() % other.size()] = static_cast<char>(chance() & 0xff);
    (void)decode_cron_row(other);
  }
}
