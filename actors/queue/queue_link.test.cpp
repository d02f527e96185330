#define CAF_SUITE queue_link
#include "actors/queue/queue_link.hpp"

#include "actors/queue/intake.hpp"
#include "tests/support/model_storage.hpp"
#include "tests/support/shell_fixture.hpp"

#include <limits>

using namespace caravan;
using namespace std::chrono_literals;

namespace {

/// Full after so many items, as a shared storage looks after LENGTH itself.
class bounded_storage final : public test::model_storage {
public:
  std::size_t length = 2;
  expected<std::vector<append_result>> append(std::span<record> records, wall_time now) override {
    if (count().waiting + records.size() > length) return {errc::queue_full, "full"};
    return model_storage::append(records, now);
  }
};

/// Answers as an owner, and notes what it was asked.
struct owner_state {
  static inline const char* name = "owner";
  std::vector<std::string> asked;
  owner_state() = default;
};
queue_actor::behavior_type fake_owner(queue_actor::stateful_pointer<owner_state> self) {
  const auto note = [self](const char* what) {
    self->state.asked.emplace_back(what);
    return ack{};
  };
  return {
      [](items_stored) {},
      [](queue_tick) {},
      [note](const attach_pool&) { return note("attach"); },
      [note](const demand&) { note("demand"); },
      [note](const batch_done&) { note("done"); },
      [note](const renew_leases&) { note("renew"); },
      [note](const push_items&) {
        note("push");
        return push_results{};
      },
      [note](const pause_queue&) { return note("pause"); },
      [note](resume_queue) { return note("resume"); },
      [note](drain_queue) { return note("drain"); },
      [note](const flush_queue&) { return note("flush"); },
      [note](const purge_queue&) {
        note("purge");
        return purged_count{7};
      },
      [note](const stop_queue&) {
        note("stop");
        return queue_status{};
      },
      [](get_queue_status) {
        queue_status st;
        st.owner = "mars";
        return st;
      },
      [](const find_job&) { return job_status{}; },
      [](const list_jobs&) { return job_list{}; },
      [note](const change_job&) { return note("change"); },
      [note](const move_queue&) { return note("move"); },
      [note](const report_batches&) {
        note("report");
        return batches_reported{true, {}};
      },
      [](const find_key&) { return found_key{item_id{7}}; },
      [note](const change_jobs&) {
        note("change many");
        return jobs_changed{};
      },
  };
}

struct fixture : test::shell_fixture {
  test::virtual_clock clock{sched.clock()};
  std::shared_ptr<bounded_storage> store = std::make_shared<bounded_storage>();
  std::shared_ptr<intake> door = std::make_shared<intake>(
      store, intake::limits{"mail", std::numeric_limits<std::size_t>::max() / 2, 1 << 20, 5s, false}, 0, [] {}, clock);
  store_actor storekeeper = sys.spawn(store_behavior, store, door, std::make_shared<trouble>());
  queue_link_actor link =
      sys.spawn(queue_link_behavior, link_parts{"mail", "venus", storekeeper, 2, 5s, [this] { ++lost; }});
  queue_actor owner;
  int lost = 0;

  fixture() { consume_messages(); }
  ~fixture() override {
    kill(link);
    kill(owner);
    kill(storekeeper);
  }
  push_items items(std::size_t n) {
    push_items p;
    p.items.resize(n);
    for (auto& r : p.items) r.payload = "x";
    return p;
  }
};

}  // namespace

CAF_TEST_FIXTURE_SCOPE(queue_link_tests, fixture)

CAF_TEST(pushes go to the storage whoever owns the queue) {
  const auto results = must<push_results>(link, items(2));
  CAF_CHECK_EQUAL(results.items.size(), 2u);
  CAF_CHECK_EQUAL(store->count().waiting, 2u);
}

CAF_TEST(a push waits for room up to its timeout) {
  (void)must<push_results>(link, items(2));
  const auto first = ask<push_results>(link, items(1));
  pass(1s, 10ms);
  CAF_CHECK(!*first);
  store->length = 3;
  pass(300ms, 10ms);
  CAF_CHECK(first->value);
  const auto second = ask<push_results>(link, items(1));
  pass(4900ms, 10ms);
  CAF_CHECK(!*second || second->code() == errc::queue_full);
  pass(200ms, 10ms);
  CAF_CHECK(second->code() == errc::queue_full);
  const auto never = ask<push_results>(link, items(3));  // would not fit if it was empty
  CAF_CHECK(never->code() == errc::queue_full);
  CAF_CHECK_EQUAL(timers(), 0u);
}

CAF_TEST(without a way to the owner the answer names it) {
  tell(link, set_owner{"mars", {}});
  const auto paused = ask<ack>(link, pause_queue{});
  CAF_REQUIRE(paused->failure);
  CAF_CHECK(paused->code() == errc::fenced);
  CAF_CHECK(paused->failure->text.find("\"mars\"") != std::string::npos);
  tell(link, set_owner{"", {}});
  const auto none = ask<ack>(link, resume_queue{});
  CAF_CHECK(none->failure->text.find("no node") != std::string::npos);
  CAF_CHECK(ask<queue_status>(link, stop_queue{})->code() == errc::fenced);
}

CAF_TEST(status and jobs are then answered from the storage) {
  tell(link, set_owner{"mars", {}});
  const auto pushed = must<push_results>(link, items(1));
  const auto st = must<queue_status>(link, get_queue_status{});
  CAF_CHECK(st.phase == queue_phase::standby);
  CAF_CHECK_EQUAL(st.owner, "mars");
  CAF_CHECK_EQUAL(st.counts.waiting, 1u);
  const auto job = must<job_status>(link, find_job{pushed.items[0].id});
  CAF_CHECK(job.phase == job_phase::waiting);
  CAF_CHECK_EQUAL(job.item.payload, "x");
  CAF_CHECK(ask<job_status>(link, find_job{item_id{5}})->code() == errc::not_found);
  store->fail_next(1);
  CAF_CHECK(ask<queue_status>(link, get_queue_status{})->code() == errc::backend_failed);
}

CAF_TEST(everything else goes to an owner that can be reached) {
  owner = sys.spawn(fake_owner);
  tell(link, set_owner{"mars", owner});
  (void)must<ack>(link, pause_queue{});
  (void)must<ack>(link, resume_queue{});
  (void)must<ack>(link, drain_queue{});
  (void)must<ack>(link, flush_queue{});
  CAF_CHECK_EQUAL(must<purged_count>(link, purge_queue{}).count, 7u);
  (void)must<ack>(link, change_job{});
  (void)must<ack>(link, move_queue{});
  CAF_CHECK(must<batches_reported>(link, report_batches{}).attached);
  (void)must<ack>(link, attach_pool{});
  tell(link, demand{});
  tell(link, batch_done{});
  tell(link, renew_leases{});
  CAF_CHECK_EQUAL(must<queue_status>(link, get_queue_status{}).owner, "mars");
  (void)must<push_results>(link, items(1));
  CAF_CHECK_EQUAL(store->count().waiting, 1u);
  auto& asked = deref<std::remove_pointer_t<queue_actor::stateful_pointer<owner_state>>>(owner).state.asked;
  const std::vector<std::string> expected{"pause", "resume", "drain",  "flush", "purge", "change",
                                          "move",  "report", "attach", "demand", "done",  "renew"};
  CAF_CHECK(asked == expected);
}

CAF_TEST(an owner that goes away is noticed and not asked any more) {
  owner = sys.spawn(fake_owner);
  tell(link, set_owner{"mars", owner});
  const auto next = sys.spawn(fake_owner);
  tell(link, set_owner{"earth", next});
  kill(owner);  // not the one it had last
  CAF_CHECK_EQUAL(lost, 0);
  (void)must<ack>(link, resume_queue{});
  owner = next;
  kill(owner);
  CAF_CHECK_EQUAL(lost, 1);
  CAF_CHECK(ask<ack>(link, resume_queue{})->code() == errc::fenced);
}

CAF_TEST_FIXTURE_SCOPE_END()
