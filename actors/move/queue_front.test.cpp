#define CAF_SUITE queue_front
#include "actors/move/queue_front.hpp"

#include "tests/support/shell_fixture.hpp"

using namespace caravan;
using namespace std::chrono_literals;

namespace {

/// Answers as a home does, or says nothing, and notes what it got.
struct home_state {
  static inline const char* name = "home";
  std::vector<std::string> got;
  std::vector<std::string> keys;
  bool silent = false;
  bool repeated = false;
  home_state() = default;
};
using home_pointer = queue_actor::stateful_pointer<home_state>;
queue_actor::behavior_type fake_home(home_pointer self) {
  const auto note = [self](const char* what) {
    self->state.got.emplace_back(what);
    return ack{};
  };
  return {
      [](items_stored) {},
      [](queue_tick) {},
      [note](const attach_pool&) { return note("attach"); },
      [note](const demand&) { note("demand"); },
      [note](const batch_done&) { note("done"); },
      [note](const renew_leases&) { note("renew"); },
      [self, note](const push_items& p) -> caf::result<push_results> {
        note("push");
        for (const auto& r : p.items) self->state.keys.push_back(r.idempotency_key);
        auto promise = self->make_response_promise<push_results>();
        push_results results;
        for (std::size_t i = 0; i < p.items.size(); ++i)
          results.items.push_back({item_id{i + 1}, !self->state.repeated, self->state.repeated});
        if (!self->state.silent) promise.deliver(std::move(results));
        return promise;
      },
      [note](const pause_queue&) { return note("pause"); },
      [note](resume_queue) { return note("resume"); },
      [note](drain_queue) { return note("drain"); },
      [note](const flush_queue&) { return note("flush"); },
      [](const purge_queue&) { return purged_count{7}; },
      [](const stop_queue&) { return queue_status{}; },
      [](get_queue_status) { return queue_status{}; },
      [](const find_job&) { return job_status{}; },
      [](const list_jobs&) { return job_list{}; },
      [note](const change_job&) { return note("change"); },
      [note](const move_queue&) { return note("move"); },
      [note](const report_batches&) {
        note("report");
        return batches_reported{true, {}};
      },
      [](const change_jobs&) { return jobs_changed{}; },
      [](const find_key&) { return found_key{item_id{7}}; },
  };
}

struct fixture : test::shell_fixture {
  std::vector<std::uint64_t> lost;
  queue_front_actor front = sys.spawn(
      queue_front_behavior, front_parts{"mail", "venus", "start1", 5s, [this](std::uint64_t s) { lost.push_back(s); }});
  queue_actor one = sys.spawn(fake_home);
  queue_actor two = sys.spawn(fake_home);

  fixture() { consume_messages(); }
  ~fixture() override {
    kill(front);
    kill(one);
    kill(two);
  }
  home_state& state(const queue_actor& q) { return deref<std::remove_pointer_t<home_pointer>>(q).state; }
  push_items items(std::size_t n) {
    push_items p;
    p.items.resize(n);
    return p;
  }
};

using texts = std::vector<std::string>;

}  // namespace

CAF_TEST_FIXTURE_SCOPE(queue_front_tests, fixture)

CAF_TEST(everything goes to the home) {
  tell(front, set_target{"mars", one, false, 1});
  (void)must<ack>(front, pause_queue{});
  tell(front, demand{1, 1, 0});
  tell(front, batch_done{});
  (void)must<push_results>(front, items(1));
  CAF_CHECK(state(one).got == (texts{"pause", "demand", "done", "push"}));
  const auto key = must<found_key>(front, find_key{}).holder.value;
  CAF_CHECK_EQUAL(key, 7u);
}

CAF_TEST(what comes while it is held goes on in order to where the queue is then) {
  tell(front, set_target{"venus", one, true, 1});
  (void)must<ack>(front, hold_messages{});
  tell(front, demand{1, 1, 0});
  const auto pushed = ask<push_results>(front, items(2));
  tell(front, batch_done{});
  const auto paused = ask<ack>(front, pause_queue{});
  CAF_CHECK(!*pushed);
  CAF_CHECK(state(one).got.empty());
  tell(front, set_target{"mars", two, false, 2});
  CAF_CHECK(state(two).got.empty());  // a move that is decided releases it by itself
  (void)must<ack>(front, release_messages{});
  CAF_CHECK(state(one).got.empty());
  CAF_CHECK(state(two).got == (texts{"demand", "push", "done", "pause"}));
  CAF_CHECK(pushed->value);
  CAF_CHECK(paused->value);
}

CAF_TEST(requests wait for a home and not for ever) {
  const auto pushed = ask<push_results>(front, items(1));
  const auto paused = ask<ack>(front, pause_queue{});
  pass(4s);
  CAF_CHECK(!*pushed);
  tell(front, set_target{"mars", one, false, 1});
  CAF_CHECK(pushed->value);
  CAF_CHECK(paused->value);
  CAF_CHECK(state(one).got == (texts{"push", "pause"}));
  tell(front, set_target{"mars", {}, false, 2});
  const auto vain = ask<ack>(front, pause_queue{});
  pass(6s);
  CAF_CHECK(vain->code() == errc::fenced);
  CAF_CHECK(vain->failure->text.find("\"mars\"") != std::string::npos);
  const auto status = must<queue_status>(front, get_queue_status{});
  CAF_CHECK(status.phase == queue_phase::standby);
  CAF_CHECK_EQUAL(status.owner, "mars");
  pass(1s);
  CAF_CHECK_EQUAL(timers(), 0u);
}

CAF_TEST(a push without an answer is repeated with its key at the next home) {
  tell(front, set_target{"mars", one, false, 1});
  state(one).silent = true;
  auto two_items = items(2);
  two_items.items[1].idempotency_key = "own";
  const auto pushed = ask<push_results>(front, two_items);
  pass(2500ms);
  CAF_CHECK(lost == (std::vector<std::uint64_t>{1}));
  CAF_CHECK(!*pushed);
  state(two).repeated = true;
  tell(front, set_target{"mars", two, false, 2});
  CAF_REQUIRE(pushed->value);
  CAF_CHECK(state(one).keys == state(two).keys);
  CAF_CHECK(!state(one).keys[0].empty());
  CAF_CHECK_EQUAL(state(one).keys[1], "own");
  // The caller pushed the first once; the second it may have pushed before itself.
  CAF_CHECK(pushed->value->items[0].stored);
  CAF_CHECK(!pushed->value->items[0].repeated);
  CAF_CHECK(pushed->value->items[1].repeated);
}

CAF_TEST(a home on this node needs no keys) {
  tell(front, set_target{"venus", one, true, 1});
  (void)must<push_results>(front, items(1));
  CAF_CHECK(state(one).keys == (texts{""}));
}

CAF_TEST(a home that dies is told of once) {
  tell(front, set_target{"mars", one, false, 4});
  kill(one);
  CAF_CHECK(lost == (std::vector<std::uint64_t>{4}));
}

CAF_TEST(only so many messages wait) {
  (void)must<ack>(front, hold_messages{});
  for (int i = 0; i < 10'000; ++i) caf::anon_send(front, renew_leases{});
  consume_messages();
  CAF_CHECK(ask<ack>(front, pause_queue{})->code() == errc::queue_full);
}

CAF_TEST_FIXTURE_SCOPE_END()
