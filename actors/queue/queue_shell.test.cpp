#define CAF_SUITE queue_shell
#include "actors/queue/queue_shell.hpp"

#include "tests/support/model_storage.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "tests/support/shell_fixture.hpp"

using namespace caravan;
using namespace std::chrono_literals;

namespace {

using ms = std::chrono::milliseconds;

record item(std::string payload, std::string key = {}) {
  record r;
  r.payload = std::move(payload);
  r.key = std::move(key);
  return r;
}

push_items items(const std::vector<std::string>& payloads) {
  push_items p;
  for (const auto& text : payloads) p.items.push_back(item(text));
  return p;
}

std::vector<std::string> payloads(const std::vector<record>& records) {
  std::vector<std::string> texts;
  for (const auto& r : records) texts.push_back(r.payload);
  return texts;
}
std::vector<std::string> payloads(const batch& b) { return payloads(*b.items); }

using texts = std::vector<std::string>;

/// Notes which changes were made, in order.
class noting_storage final : public test::model_storage {
public:
  using model_storage::model_storage;
  std::vector<std::string> calls;

  expected<void> erase(std::span<const record_ref> refs, item_id low_water) override {
    return noted("erase", refs.size(), model_storage::erase(refs, low_water));
  }
  expected<void> update(std::span<const record_move> moves) override {
    return noted("update", moves.size(), model_storage::update(moves));
  }
  expected<std::vector<record>> read(record_state state, read_cursor after, std::size_t max) override {
    calls.push_back("read");
    return model_storage::read(state, after, max);
  }
  expected<std::optional<record>> find(item_id id) override {
    calls.push_back("find");
    return model_storage::find(id);
  }

private:
  expected<void> noted(const std::string& what, std::size_t n, expected<void> ok) {
    calls.push_back(what + " " + std::to_string(n) + (ok ? "" : " failed"));
    return ok;
  }
};

struct fixture : test::shell_fixture {
  test::virtual_clock clock{sched.clock()};
  config::queue_settings settings;
  std::shared_ptr<noting_storage> store = std::make_shared<noting_storage>();
  std::shared_ptr<intake> door;
  std::shared_ptr<trouble> health = std::make_shared<trouble>();
  store_actor storekeeper;
  queue_actor queue;
  std::vector<std::string> logged;
  std::vector<worker_pool_actor> pools;
  bool certain = true;  ///< that no other node owns the queue
  int fenced = 0;

  fixture() {
    settings.name = "mail";
    settings.batch_length = 2;
    settings.length = 5;
  }
  ~fixture() override {
    stop_actors();
    for (auto& p : pools) kill(p);
  }

  void unique(unique_policy policy) {
    settings.unique = true;
    settings.until = policy.kind == unique_policy::until::start ? config::unique_until::start : config::unique_until::done;
    store = std::make_shared<noting_storage>(policy);
  }
  void start(std::uint64_t first_token = 1) {
    const auto counts = store->count();
    door = std::make_shared<intake>(
      store, intake::limits{settings.name, settings.length, settings.max_item_size, settings.push_timeout, settings.unique},
      counts.waiting + counts.delayed, [this] { caf::anon_send(queue, items_stored{}); }, clock);
    storekeeper = sys.spawn(store_behavior, store, door, health);
    queue_parts parts;
    parts.settings = settings;
    parts.node = "tester";
    parts.store = store;
    parts.door = door;
    parts.health = health;
    parts.storekeeper = storekeeper;
    parts.clock = &clock;
    parts.first_token = first_token;
    parts.seed = 7;
    parts.log = [this](std::string_view what, const std::string& text) { logged.push_back(std::string(what) + ": " + text); };
    parts.may_hand_out = [this] { return certain; };
    parts.on_fenced = [this] { ++fenced; };
    queue = sys.spawn(queue_behavior, std::move(parts));
    consume_messages();
  }
  void stop_actors() {
    kill(queue);
    kill(storekeeper);
  }

  /// A pool that wants `idle` batches.
  worker_pool_actor attach(pool_id id, std::uint32_t idle, pool_kind kind = pool_kind::local,
                           std::function<void(const batch&)> on_batch = {}) {
    pools.push_back(spawn_fake_pool(std::move(on_batch)));
    const auto pool = pools.back();
    const auto ok = ask<ack>(queue, attach_pool{id, kind, caf::actor_cast<caf::strong_actor_ptr>(pool)});
    CAF_REQUIRE(ok->value);
    if (idle > 0) tell(queue, demand{id, idle, 0});
    return pool;
  }
  void lose(const worker_pool_actor& pool, caf::exit_reason why = caf::exit_reason::kill) {
    caf::anon_send_exit(pool, why);
    consume_messages();
  }
  /// Through the intake, as C++ threads do it.
  item_id push(const std::string& payload, const std::string& key = {}) {
    std::vector<record> one{item(payload, key)};
    const auto results = door->push(one, intake::when_full::refuse);
    CAF_REQUIRE(results);
    CAF_REQUIRE(results->front().what == append_result::kind::stored);
    consume_messages();
    return results->front().id;
  }
  void done(pool_id pool, std::uint64_t token, batch_result rest = {}, std::uint32_t idle = 0, bool handed_back = false) {
    tell(queue, batch_done{pool, token, std::move(rest), handed_back, idle, 0});
  }
  queue_status status() {
    const auto st = ask<queue_status>(queue, get_queue_status{});
    CAF_REQUIRE(st->value);
    return *st->value;
  }
  job_phase phase_of(item_id id) {
    const auto st = ask<job_status>(queue, find_job{id});
    CAF_REQUIRE(st->value);
    return st->value->phase;
  }
};

template <class T>
bool holds(const std::shared_ptr<test::answer<T>>& a) { return a->value.has_value(); }

}  // namespace

CAF_TEST_FIXTURE_SCOPE(queue_shell_tests, fixture)

// ---- the way of an item ----

CAF_TEST(an item pushed through the intake reaches a pool and is forgotten when it was handled) {
  start();
  const auto pool = attach(1, 1);
  push("a");
  auto& got = batches_of(pool);
  CAF_REQUIRE_EQUAL(got.size(), 1u);
  CAF_CHECK_EQUAL(got[0].queue, "mail");
  CAF_CHECK_EQUAL(payloads(got[0]), texts{"a"});
  CAF_CHECK_EQUAL(status().counts.running, 1u);
  CAF_CHECK_EQUAL(store->rows().size(), 1u);
  done(1, got[0].token);
  CAF_CHECK(store->rows().empty());
  CAF_CHECK_EQUAL(status().counts.totals.handled, 1u);
  CAF_CHECK_EQUAL(timers(), 0u);
}

CAF_TEST(a push by message is answered with the ids in order) {
  start();
  const auto pushed = ask<push_results>(queue, items({"a", "b", "c"}));
  CAF_REQUIRE(holds(pushed));
  CAF_REQUIRE_EQUAL(pushed->value->items.size(), 3u);
  const auto rows = store->rows();
  for (std::size_t i = 0; i < 3; ++i) {
    CAF_CHECK(pushed->value->items[i].stored);
    CAF_CHECK_EQUAL(rows.at(pushed->value->items[i].id).payload, std::string(1, static_cast<char>('a' + i)));
  }
  CAF_CHECK_EQUAL(status().counts.waiting, 3u);
}

CAF_TEST(a batch is as long as BATCH_LENGTH and no pool gets more than it asked for) {
  start();
  ask<push_results>(queue, items({"a", "b", "c", "d", "e"}));
  const auto one = attach(1, 1);
  const auto two = attach(2, 1);
  CAF_REQUIRE_EQUAL(batches_of(one).size(), 1u);
  CAF_REQUIRE_EQUAL(batches_of(two).size(), 1u);
  CAF_CHECK_EQUAL(payloads(batches_of(one)[0]), (texts{"a", "b"}));
  CAF_CHECK_EQUAL(payloads(batches_of(two)[0]), (texts{"c", "d"}));
  CAF_CHECK_EQUAL(status().counts.waiting, 1u);
  done(1, batches_of(one)[0].token, {}, 1);
  CAF_REQUIRE_EQUAL(batches_of(one).size(), 2u);
  CAF_CHECK_EQUAL(payloads(batches_of(one)[1]), texts{"e"});
}

CAF_TEST(what an earlier run left in the storage is handed out first) {
  start();
  const auto first = push("old");
  stop_actors();
  start(100);
  push("new");
  const auto pool = attach(1, 1);
  CAF_REQUIRE_EQUAL(batches_of(pool).size(), 1u);
  CAF_CHECK_EQUAL(payloads(batches_of(pool)[0]), (texts{"old", "new"}));
  CAF_CHECK_EQUAL(batches_of(pool)[0].items->front().id, first);
  CAF_CHECK_GREATER_OR_EQUAL(batches_of(pool)[0].token, 100u);
}

CAF_TEST(a delayed item comes when its time has come) {
  start();
  const auto pool = attach(1, 1);
  auto later = item("later");
  later.due = clock.wall() + 90s;
  ask<push_results>(queue, push_items{{later}});
  CAF_CHECK_EQUAL(status().counts.delayed, 1u);
  pass(89'999ms, 1s);
  CAF_CHECK(batches_of(pool).empty());
  pass(1ms);
  CAF_CHECK_EQUAL(batches_of(pool).size(), 1u);
  done(1, batches_of(pool)[0].token);
  CAF_CHECK(store->rows().empty());
  CAF_CHECK_EQUAL(timers(), 0u);
}

CAF_TEST(a delayed item comes in time although the wall clock was set meanwhile) {
  start();
  const auto pool = attach(1, 1);
  auto later = item("later");
  later.due = clock.wall() + 1h;
  ask<push_results>(queue, push_items{{later}});
  clock.shift_wall(1h);
  pass(30s, 1s);
  CAF_CHECK_EQUAL(batches_of(pool).size(), 1u);
}

CAF_TEST(a failed item comes again after a while and is dead after its last attempt) {
  settings.max_attempts = 2;
  start();
  const auto pool = attach(1, 9);
  const auto id = push("a");
  done(1, batches_of(pool)[0].token, {{0, item_outcome::kind::failed, "no luck", {}}});
  CAF_CHECK(phase_of(id) == job_phase::delayed);
  pass(2s);
  CAF_REQUIRE_EQUAL(batches_of(pool).size(), 2u);
  CAF_CHECK(phase_of(id) == job_phase::running);
  done(1, batches_of(pool)[1].token, {{0, item_outcome::kind::failed, "still no luck", {}}});
  CAF_CHECK(phase_of(id) == job_phase::dead);
  CAF_CHECK_EQUAL(std::string(store->rows().at(id).last_error), "still no luck");
  CAF_CHECK_EQUAL(timers(), 0u);
}

CAF_TEST(a wholly unhandled batch comes again after REQUEUE_DELAY) {
  start();
  const auto pool = attach(1, 2);
  push("a");
  done(1, batches_of(pool)[0].token, {{0, item_outcome::kind::unhandled, {}, {}}});
  pass(999ms);
  CAF_CHECK_EQUAL(batches_of(pool).size(), 1u);
  pass(1ms);
  CAF_CHECK_EQUAL(batches_of(pool).size(), 2u);
}

CAF_TEST(items gather for BATCH_DEBOUNCE) {
  settings.batch_debounce = 50ms;
  settings.batch_length = 3;
  start();
  const auto pool = attach(1, 2);
  push("a");
  push("b");
  pass(49ms, 1ms);
  CAF_CHECK(batches_of(pool).empty());
  pass(1ms);
  CAF_REQUIRE_EQUAL(batches_of(pool).size(), 1u);
  CAF_CHECK_EQUAL(payloads(batches_of(pool)[0]), (texts{"a", "b"}));
  ask<push_results>(queue, items({"c", "d", "e"}));
  CAF_CHECK_EQUAL(batches_of(pool).size(), 2u);
}

CAF_TEST(an outcome of a kind that only newer nodes know hands the item back) {
  start();
  const auto pool = attach(1, 1);
  const auto id = push("a");
  done(1, batches_of(pool)[0].token, {{0, static_cast<item_outcome::kind>(77), "from the future", {}}});
  CAF_CHECK(phase_of(id) == job_phase::waiting);
  CAF_CHECK_EQUAL(status().counts.waiting, 1u);
  tell(queue, demand{1, 1, 0});
  pass(1s);
  CAF_CHECK_EQUAL(batches_of(pool).size(), 2u);
}

// ---- LENGTH ----

CAF_TEST(a push into a full queue waits and is answered when there is room) {
  start();
  ask<push_results>(queue, items({"a", "b", "c", "d"}));
  const auto parked = ask<push_results>(queue, items({"e", "f"}));
  CAF_CHECK(!*parked);
  attach(1, 1);
  CAF_REQUIRE(holds(parked));
  CAF_CHECK_EQUAL(parked->value->items.size(), 2u);
  CAF_CHECK_EQUAL(status().counts.waiting, 4u);
  pass(6s);
  CAF_CHECK_EQUAL(timers(), 0u);
}

CAF_TEST(a push that waits in vain gets queue_full at PUSH_TIMEOUT) {
  start();
  ask<push_results>(queue, items({"a", "b", "c", "d", "e"}));
  const auto parked = ask<push_results>(queue, items({"f"}));
  pass(2s);
  const auto later = ask<push_results>(queue, items({"g"}));
  pass(2'999ms, 1s);
  CAF_CHECK(!*parked);
  pass(1ms);
  CAF_CHECK(parked->code() == errc::queue_full);
  CAF_CHECK(parked->failure->text.find("LENGTH = 5") != std::string::npos);
  CAF_CHECK(!*later);
  pass(2s);
  CAF_CHECK(later->code() == errc::queue_full);
  CAF_CHECK_EQUAL(timers(), 0u);
}

CAF_TEST(a push that can never fit is refused at once) {
  start();
  CAF_CHECK(ask<push_results>(queue, items({"1", "2", "3", "4", "5", "6"}))->code() == errc::too_large);
  CAF_CHECK_EQUAL(timers(), 0u);
}

CAF_TEST(an item above MAX_ITEM_SIZE is refused at once) {
  settings.max_item_size = 3;
  start();
  CAF_CHECK(ask<push_results>(queue, items({"1234"}))->code() == errc::too_large);
}

CAF_TEST(room that comes while the refusal is on its way is not missed) {
  start();
  ask<push_results>(queue, items({"a", "b", "c", "d", "e"}));
  attach(1, 0);
  const auto pushed = send_request<push_results>(queue, items({"f"}));
  while (!sched.prioritize(queue)) sched.run_once();
  sched.run_once();  // the request goes to the storekeeper
  CAF_REQUIRE(sched.prioritize(storekeeper));
  caf::anon_send(queue, demand{1, 1, 0});
  CAF_REQUIRE(sched.prioritize(storekeeper));
  sched.run_once();  // refuses; its answer is behind the demand
  consume_messages();
  CAF_CHECK(holds(pushed));
}

CAF_TEST(parked pushes keep their order) {
  settings.length = 2;
  start();
  ask<push_results>(queue, items({"a", "b"}));
  const auto c = ask<push_results>(queue, items({"c"}));
  const auto d = ask<push_results>(queue, items({"d"}));
  const auto pool = attach(1, 1);
  CAF_REQUIRE(holds(c));
  CAF_REQUIRE(holds(d));
  done(1, batches_of(pool)[0].token, {}, 1);
  CAF_REQUIRE_EQUAL(batches_of(pool).size(), 2u);
  CAF_CHECK_EQUAL(payloads(batches_of(pool)[1]), (texts{"c", "d"}));
}

// ---- unique queues ----

CAF_TEST(a duplicate of a waiting item is answered with that one) {
  unique({unique_policy::until::start});
  start();
  const auto first = ask<push_results>(queue, items({"42"}));
  const auto second = ask<push_results>(queue, items({"42"}));
  CAF_REQUIRE(holds(first));
  CAF_REQUIRE(holds(second));
  CAF_CHECK(!second->value->items[0].stored);
  CAF_CHECK_EQUAL(second->value->items[0].id, first->value->items[0].id);
  CAF_CHECK_EQUAL(status().counts.waiting, 1u);
}

CAF_TEST(a repeated push with the same idempotency key gets the id of the first) {
  start();
  push_items p{{item("a")}};
  p.items[0].idempotency_key = "once";
  const auto first = ask<push_results>(queue, p);
  const auto second = ask<push_results>(queue, p);
  CAF_REQUIRE(holds(second));
  CAF_CHECK(second->value->items[0].repeated);
  CAF_CHECK_EQUAL(second->value->items[0].id, first->value->items[0].id);
}

CAF_TEST(a key that ends at the start is free before the batch leaves) {
  unique({unique_policy::until::start});
  start();
  std::vector<bool> free;
  attach(1, 1, pool_kind::local, [&](const batch& b) {
    for (const auto& r : *b.items) free.push_back(!store->key_owner(r.digest).value().has_value());
  });
  push("a", "k");
  CAF_CHECK_EQUAL(free, std::vector<bool>{true});
  push("b", "k");
}

CAF_TEST(a key that lasts until done is taken while its item runs) {
  unique({unique_policy::until::done});
  start();
  const auto pool = attach(1, 1);
  push("a", "k");
  const auto duplicate = ask<push_results>(queue, push_items{{item("b", "k")}});
  CAF_REQUIRE(holds(duplicate));
  CAF_CHECK(!duplicate->value->items[0].stored);
  done(1, batches_of(pool)[0].token);
  push("c", "k");
}

CAF_TEST(a key is free while its item runs again although its return is not written yet) {
  unique({unique_policy::until::start});
  start();
  const auto pool = attach(1, 2);
  push("x");
  const auto id = push("a", "k");
  CAF_REQUIRE_EQUAL(batches_of(pool).size(), 2u);
  store->fail_next(1);  // the erasure of x, so that what follows gathers behind it
  done(1, batches_of(pool)[0].token);
  done(1, batches_of(pool)[1].token, {{0, item_outcome::kind::unhandled, {}, {}}}, 0, true);
  tell(queue, demand{1, 1, 0});  // it starts again while the change that took its key back is still to be written
  CAF_REQUIRE_EQUAL(batches_of(pool).size(), 3u);
  pass(5s);
  CAF_CHECK(!store->key_owner(store->rows().at(id).digest).value());
  push("b", "k");
}

// ---- pools ----

CAF_TEST(what a lost pool had goes to another one) {
  start();
  const auto first = attach(1, 1);
  ask<push_results>(queue, items({"a", "b"}));
  CAF_REQUIRE_EQUAL(batches_of(first).size(), 1u);
  lose(first);
  CAF_CHECK_EQUAL(status().counts.waiting, 2u);
  CAF_CHECK_EQUAL(status().pools, 0u);
  const auto second = attach(2, 1);
  CAF_REQUIRE_EQUAL(batches_of(second).size(), 1u);
  CAF_CHECK_EQUAL(payloads(batches_of(second)[0]), (texts{"a", "b"}));
  CAF_REQUIRE_EQUAL(logged.size(), 1u);
  CAF_CHECK(logged[0].find("a worker pool is gone") != std::string::npos);
}

CAF_TEST(a pool that was shut down in order is no line in the log) {
  start();
  lose(attach(1, 1), caf::exit_reason::user_shutdown);
  CAF_CHECK_EQUAL(status().pools, 0u);
  CAF_CHECK(logged.empty());
}

CAF_TEST(a pool without a handle is refused) {
  start();
  CAF_CHECK(ask<ack>(queue, attach_pool{1, pool_kind::local, nullptr})->code() == errc::invalid_argument);
}

CAF_TEST(a pool that is dead already is noticed at once) {
  start();
  auto pool = spawn_fake_pool();
  const auto handle = caf::actor_cast<caf::strong_actor_ptr>(pool);
  lose(pool);
  ask<ack>(queue, attach_pool{1, pool_kind::local, handle});
  CAF_CHECK_EQUAL(status().pools, 0u);
}

CAF_TEST(a pool that attaches again counts its demand from zero) {
  start();
  const auto pool = attach(1, 3);
  ask<ack>(queue, attach_pool{1, pool_kind::local, caf::actor_cast<caf::strong_actor_ptr>(pool)});
  push("a");
  CAF_CHECK(batches_of(pool).empty());
  CAF_CHECK_EQUAL(status().pools, 1u);
  tell(queue, demand{1, 1, 0});
  CAF_CHECK_EQUAL(batches_of(pool).size(), 1u);
  lose(pool);
  CAF_CHECK_EQUAL(status().pools, 0u);
  CAF_CHECK_EQUAL(status().counts.totals.leases_lost, 1u);
}

CAF_TEST(the lease of a remote pool ends unless it is renewed) {
  start();
  const auto far = attach(1, 1, pool_kind::remote);
  push("a");
  CAF_REQUIRE_EQUAL(batches_of(far).size(), 1u);
  pass(20s, 1s);
  tell(queue, renew_leases{1, {batches_of(far)[0].token}});
  pass(29s, 1s);
  CAF_CHECK_EQUAL(status().counts.running, 1u);
  const auto near = attach(2, 1);
  pass(2s, 1s);
  CAF_REQUIRE_EQUAL(batches_of(near).size(), 1u);
  CAF_CHECK_EQUAL(payloads(batches_of(near)[0]), texts{"a"});
  CAF_CHECK_EQUAL(status().counts.totals.leases_lost, 1u);
}

// ---- flush ----

CAF_TEST(a flush of an empty queue is answered at once) {
  start();
  CAF_CHECK(holds(ask<ack>(queue, flush_queue{1s})));
  CAF_CHECK_EQUAL(timers(), 0u);
}

CAF_TEST(a flush is answered when the last item was handled) {
  start();
  const auto pool = attach(1, 1);
  push("a");
  const auto flushed = ask<ack>(queue, flush_queue{10s});
  CAF_CHECK(!*flushed);
  done(1, batches_of(pool)[0].token);
  CAF_CHECK(holds(flushed));
  CAF_CHECK(store->rows().empty());
}

CAF_TEST(a flush that takes too long is answered at its timeout) {
  start();
  push("a");
  const auto flushed = ask<ack>(queue, flush_queue{10s});
  pass(9'999ms, 1s);
  CAF_CHECK(!*flushed);
  pass(1ms);
  CAF_CHECK(flushed->code() == errc::timed_out);
  CAF_CHECK(flushed->failure->text.find("no worker pool is attached") != std::string::npos);
  CAF_CHECK_EQUAL(timers(), 0u);
}

CAF_TEST(a flush with the longest timeout there is waits) {
  start();
  const auto pool = attach(1, 1);
  push("a");
  const auto flushed = ask<ack>(queue, flush_queue{ms::max()});
  pass(1h, 10min);
  CAF_CHECK(!*flushed);
  done(1, batches_of(pool)[0].token);
  CAF_CHECK(holds(flushed));
  CAF_CHECK_EQUAL(timers(), 0u);
}

CAF_TEST(a flush covers what was pushed just before) {
  start();
  const auto pool = attach(1, 1);
  std::vector<record> one{item("a")};
  CAF_REQUIRE(door->push(one));
  caf::anon_send(pool, get_pool_status{});
  // The flush overtakes the announcement.
  const auto flushed = send_request<ack>(queue, flush_queue{10s});
  consume_messages();
  CAF_CHECK(!*flushed);
  done(1, batches_of(pool)[0].token);
  CAF_CHECK(holds(flushed));
}

CAF_TEST(a negative flush forgets what waits) {
  start();
  push("a");
  CAF_CHECK(holds(ask<ack>(queue, flush_queue{-1ms})));
  CAF_CHECK(store->rows().empty());
  CAF_CHECK_EQUAL(status().counts.totals.removed, 1u);
}

// ---- pause and purge ----

CAF_TEST(a paused queue hands nothing out until it is resumed) {
  start();
  const auto pool = attach(1, 1);
  CAF_CHECK(holds(ask<ack>(queue, pause_queue{{}, "ann"})));
  push("a");
  CAF_CHECK(batches_of(pool).empty());
  CAF_CHECK_EQUAL(timers(), 0u);
  auto st = status();
  CAF_CHECK(st.phase == queue_phase::paused);
  CAF_CHECK_EQUAL(st.paused_by, "ann");
  CAF_CHECK(ask<ack>(queue, flush_queue{1s})->code() == errc::conflict);
  CAF_CHECK(holds(ask<ack>(queue, resume_queue{})));
  CAF_CHECK_EQUAL(batches_of(pool).size(), 1u);
  st = status();
  CAF_CHECK(st.phase == queue_phase::running);
  CAF_CHECK(st.paused_by.empty());
}

CAF_TEST(a pause with an end ends by itself) {
  start();
  const auto pool = attach(1, 1);
  ask<ack>(queue, pause_queue{clock.wall() + 2min, "ann"});
  push("a");
  pass(119s, 1s);
  CAF_CHECK(batches_of(pool).empty());
  pass(1s);
  CAF_CHECK_EQUAL(batches_of(pool).size(), 1u);
  CAF_CHECK(status().phase == queue_phase::running);
  done(1, batches_of(pool)[0].token);
  CAF_CHECK_EQUAL(timers(), 0u);
}

CAF_TEST(a purge forgets one state and what was announced is part of it) {
  start();
  std::vector<record> one{item("a")};
  CAF_REQUIRE(door->push(one));
  auto later = item("later");
  later.due = clock.wall() + 1h;
  ask<push_results>(queue, push_items{{later}});
  const auto purged = ask<purged_count>(queue, purge_queue{record_state::waiting});
  CAF_REQUIRE(holds(purged));
  CAF_CHECK_EQUAL(purged->value->count, 1u);
  CAF_CHECK_EQUAL(store->rows().size(), 1u);
  CAF_CHECK_EQUAL(must<purged_count>(queue, purge_queue{record_state::delayed}).count, 1u);
  CAF_CHECK(store->rows().empty());
  CAF_CHECK_EQUAL(must<purged_count>(queue, purge_queue{record_state::dead}).count, 0u);
}

CAF_TEST(a purge makes room for parked pushes) {
  start();
  ask<push_results>(queue, items({"a", "b", "c", "d", "e"}));
  const auto parked = ask<push_results>(queue, items({"f"}));
  ask<purged_count>(queue, purge_queue{record_state::waiting});
  CAF_REQUIRE(holds(parked));
  CAF_REQUIRE_EQUAL(store->rows().size(), 1u);
  CAF_CHECK_EQUAL(std::string(store->rows().begin()->second.payload), "f");
}

CAF_TEST(states and changes that only newer nodes know are refused) {
  start();
  const auto id = push("a");
  const auto odd = static_cast<record_state>(9);
  CAF_CHECK(ask<purged_count>(queue, purge_queue{odd})->code() == errc::invalid_argument);
  CAF_CHECK(ask<job_list>(queue, list_jobs{odd, wall_time::min(), {}, 10})->code() == errc::invalid_argument);
  CAF_CHECK(ask<ack>(queue, change_job{id, static_cast<job_change>(9)})->code() == errc::invalid_argument);
  CAF_CHECK_EQUAL(store->rows().size(), 1u);
}

// ---- single jobs ----

CAF_TEST(a job is found wherever it is) {
  settings.batch_length = 1;
  settings.max_attempts = 1;
  start();
  const auto pool = attach(1, 2);
  const auto handled = push("handled");
  const auto dead = push("dead");
  done(1, batches_of(pool)[0].token);
  done(1, batches_of(pool)[1].token, {{0, item_outcome::kind::failed, "no luck", {}}}, 1);
  const auto running = push("running");
  const auto waiting = push("waiting");
  const auto removed = push("removed");
  ask<ack>(queue, change_job{removed, job_change::remove});
  auto later = item("later");
  later.due = clock.wall() + 1h;
  const auto delayed = must<push_results>(queue, push_items{{later}}).items[0].id;

  CAF_CHECK(phase_of(handled) == job_phase::handled);
  CAF_CHECK(phase_of(dead) == job_phase::dead);
  CAF_CHECK(phase_of(running) == job_phase::running);
  CAF_CHECK(phase_of(waiting) == job_phase::waiting);
  CAF_CHECK(phase_of(removed) == job_phase::removed);
  CAF_CHECK(phase_of(delayed) == job_phase::delayed);
  CAF_CHECK_EQUAL(must<job_status>(queue, find_job{waiting}).item.payload, "waiting");
  CAF_CHECK_EQUAL(must<job_status>(queue, find_job{handled}).finished_at, clock.wall());
  const auto missing = ask<job_status>(queue, find_job{{1}});
  CAF_CHECK(missing->code() == errc::not_found);
  CAF_CHECK(missing->failure->text.find("job mail.") != std::string::npos);
}

CAF_TEST(an item that was handled is not found as waiting while its erasure is still to be written) {
  start();
  const auto pool = attach(1, 1);
  const auto id = push("a");
  store->fail_next(1);
  done(1, batches_of(pool)[0].token);
  CAF_CHECK_EQUAL(store->rows().size(), 1u);
  CAF_CHECK(phase_of(id) == job_phase::handled);
}

CAF_TEST(a job whose change is still to be written is found as it will be) {
  settings.batch_length = 1;
  settings.max_attempts = 1;
  start();
  const auto pool = attach(1, 2);
  push("a");
  const auto id = push("b");
  store->fail_next(1);
  done(1, batches_of(pool)[0].token);  // stuck, so what follows gathers behind it
  done(1, batches_of(pool)[1].token, {{0, item_outcome::kind::failed, "no luck", {}}});
  const auto found = ask<job_status>(queue, find_job{id});
  CAF_CHECK(!*found);
  pass(1s);
  CAF_REQUIRE(holds(found));
  CAF_CHECK(found->value->phase == job_phase::dead);
}

CAF_TEST(a list names the jobs of a state without those that are finished) {
  start();
  const auto pool = attach(1, 1);
  const auto a = push("a");
  const auto b = push("b");
  auto listed = ask<job_list>(queue, list_jobs{});
  CAF_REQUIRE(holds(listed));
  CAF_REQUIRE_EQUAL(listed->value->jobs.size(), 2u);
  CAF_CHECK(listed->value->jobs[0].phase == job_phase::running);
  CAF_CHECK(listed->value->jobs[1].phase == job_phase::waiting);
  listed = ask<job_list>(queue, list_jobs{record_state::waiting, wall_time::min(), a, 100});
  CAF_REQUIRE_EQUAL(listed->value->jobs.size(), 1u);
  CAF_CHECK_EQUAL(listed->value->jobs[0].item.id, b);
  done(1, batches_of(pool)[0].token);
  listed = ask<job_list>(queue, list_jobs{});
  CAF_REQUIRE_EQUAL(listed->value->jobs.size(), 1u);
  CAF_CHECK(must<job_list>(queue, list_jobs{record_state::dead, wall_time::min(), {}, 100}).jobs.empty());
}

CAF_TEST(a dead job is tried again on request) {
  settings.max_attempts = 1;
  start();
  const auto pool = attach(1, 2);
  const auto id = push("a");
  done(1, batches_of(pool)[0].token, {{0, item_outcome::kind::failed, "no luck", {}}});
  CAF_CHECK_EQUAL(status().counts.dead, 1u);
  CAF_CHECK(holds(ask<ack>(queue, change_job{id, job_change::retry})));
  CAF_CHECK_EQUAL(batches_of(pool).size(), 2u);
  CAF_CHECK_EQUAL(status().counts.dead, 0u);
  done(1, batches_of(pool)[1].token);
  CAF_CHECK(store->rows().empty());
}

CAF_TEST(a job that runs or is finished cannot be changed) {
  start();
  const auto pool = attach(1, 1);
  const auto id = push("a");
  CAF_CHECK(ask<ack>(queue, change_job{id, job_change::remove})->code() == errc::conflict);
  CAF_CHECK(ask<ack>(queue, change_job{id, job_change::retry})->code() == errc::conflict);
  done(1, batches_of(pool)[0].token);
  CAF_CHECK(ask<ack>(queue, change_job{id, job_change::remove})->code() == errc::not_found);
  CAF_CHECK(ask<ack>(queue, change_job{{1}, job_change::retry})->code() == errc::not_found);
}

CAF_TEST(a removed job frees its key and its room) {
  unique({unique_policy::until::done});
  settings.length = 1;
  start();
  const auto id = push("a", "k");
  const auto parked = ask<push_results>(queue, push_items{{item("b", "k")}});
  CAF_CHECK(!*parked);
  CAF_CHECK(holds(ask<ack>(queue, change_job{id, job_change::remove})));
  CAF_REQUIRE(holds(parked));
  CAF_CHECK(parked->value->items[0].stored);
}

CAF_TEST(a job can be removed in the moment it was pushed) {
  start();
  std::vector<record> one{item("a")};
  CAF_REQUIRE(door->push(one));
  const auto id = store->rows().begin()->first;
  CAF_CHECK(holds(ask<ack>(queue, change_job{id, job_change::remove})));
  CAF_CHECK(store->rows().empty());
  CAF_CHECK_EQUAL(status().counts.waiting, 0u);
}

// ---- the end ----

CAF_TEST(a cancelled job of a handler is told to its pool and found as cancelled) {
  start();
  const auto pool = attach(1, 1);
  const auto id = push("a");
  const auto token = batches_of(pool)[0].token;
  CAF_CHECK(holds(ask<ack>(queue, change_job{id, job_change::cancel})));
  const auto& asked = deref<std::remove_pointer_t<test::fake_pool_pointer>>(pool).state.asked_to_stop;
  CAF_CHECK_EQUAL(asked, std::vector<std::uint64_t>{token});
  CAF_CHECK(phase_of(id) == job_phase::running);
  done(1, token, {{0, item_outcome::kind::failed, "it was stopped", 0ms}});
  CAF_CHECK(phase_of(id) == job_phase::cancelled);
  CAF_CHECK(store->rows().empty());
  const auto again = ask<ack>(queue, change_job{id, job_change::cancel});
  CAF_CHECK(!holds(again));
}

CAF_TEST(dead jobs that match are tried again in their order and others stay) {
  settings.max_attempts = 1;
  settings.batch_length = 5;
  start();
  const auto pool = attach(1, 1);
  ask<push_results>(queue, items({"a", "b", "c", "d"}));
  batch_result rest;
  for (std::uint32_t i = 0; i < 4; ++i) rest.push_back({i, item_outcome::kind::failed, i % 2 ? "timeout" : "refused", 0ms});
  const auto& got = batches_of(pool);
  for (const auto& b : std::vector(got)) done(1, b.token, rest);
  CAF_REQUIRE_EQUAL(status().counts.dead, 4u);
  change_jobs wanted;
  wanted.filter.error = "time";
  wanted.count_only = true;
  auto answer = ask<jobs_changed>(queue, wanted);
  CAF_REQUIRE(holds(answer));
  CAF_CHECK(answer->value->seen == 4 && answer->value->matched == 2 && answer->value->changed == 0);
  // In parts of three rows.
  wanted.count_only = false;
  wanted.most = 3;
  std::uint64_t changed = 0;
  for (bool more = true; more;) {
    answer = ask<jobs_changed>(queue, wanted);
    CAF_REQUIRE(holds(answer));
    changed += answer->value->changed;
    wanted.after_sort = answer->value->after_sort;
    wanted.after_id = answer->value->after_id;
    more = answer->value->more;
  }
  CAF_CHECK_EQUAL(changed, 2u);
  CAF_CHECK_EQUAL(status().counts.dead, 2u);
  tell(queue, demand{1, 1, 0});
  CAF_CHECK_EQUAL(payloads(batches_of(pool).back()), (texts{"b", "d"}));
}

CAF_TEST(two moves of a record that wait for one write become one) {
  settings.requeue_delay = 10ms;
  settings.retry = config::parse_retry_policy("list 1ms").value();
  settings.retry_jitter = 0;
  start();
  const auto pool = attach(1, 1);
  const auto id = push("a");
  store->fail_next(1);
  // The first write fails and is tried again a second later; what is decided meanwhile gathers behind it.
  for (int i = 0; i < 4; ++i) {
    done(1, batches_of(pool).back().token, {{0, item_outcome::kind::failed, "why", 0ms}}, 1);
    pass(5ms, 1ms);
  }
  CAF_CHECK_EQUAL(batches_of(pool).size(), 5u);
  pass(3s, 100ms);
  CAF_REQUIRE(store->rows().count(id));
  CAF_CHECK_EQUAL(store->rows().at(id).attempts, 4u);
}

CAF_TEST(an idle queue stops at once) {
  start();
  push("a");
  const auto stopped = ask<queue_status>(queue, stop_queue{1s});
  CAF_REQUIRE(holds(stopped));
  CAF_CHECK(stopped->value->phase == queue_phase::stopped);
  CAF_CHECK_EQUAL(stopped->value->counts.waiting, 1u);
  CAF_CHECK_EQUAL(store->rows().size(), 1u);
  CAF_CHECK_EQUAL(timers(), 0u);
  CAF_CHECK(ask<push_results>(queue, items({"b"}))->code() == errc::queue_closed);
  CAF_CHECK(ask<ack>(queue, resume_queue{})->code() == errc::queue_closed);
  CAF_CHECK(holds(ask<queue_status>(queue, stop_queue{1s})));
}

CAF_TEST(a stop waits for what runs and answers after its changes are written) {
  start();
  const auto pool = attach(1, 1);
  push("a");
  push("b");
  const auto stopped = ask<queue_status>(queue, stop_queue{5s});
  CAF_CHECK(!*stopped);
  CAF_CHECK(status().phase == queue_phase::stopping);
  store->fail_next(2);
  done(1, batches_of(pool)[0].token, {}, 1);
  CAF_CHECK_EQUAL(batches_of(pool).size(), 1u);
  pass(1'900ms);
  CAF_CHECK(!*stopped);
  pass(200ms);
  CAF_REQUIRE(holds(stopped));
  CAF_CHECK_EQUAL(store->rows().size(), 1u);
  CAF_CHECK(stopped->value->trouble.empty());
}

CAF_TEST(a storage that never recovers does not hold up a stop for ever) {
  start();
  const auto pool = attach(1, 1);
  push("a");
  store->fail_next(1'000);
  done(1, batches_of(pool)[0].token, {}, 1);
  const auto stopped = ask<queue_status>(queue, stop_queue{1s});
  pass(4'900ms);
  CAF_CHECK(!*stopped);
  pass(700ms);
  CAF_REQUIRE(holds(stopped));
  CAF_CHECK(!stopped->value->trouble.empty());
}

CAF_TEST(a stop gives up what does not end in time and the items stay) {
  start();
  const auto pool = attach(1, 1);
  push("a");
  const auto stopped = ask<queue_status>(queue, stop_queue{2s});
  pass(1'999ms, 500ms);
  CAF_CHECK(!*stopped);
  pass(1ms);
  CAF_REQUIRE(holds(stopped));
  CAF_CHECK_EQUAL(store->rows().size(), 1u);
  CAF_CHECK_EQUAL(timers(), 0u);
}

CAF_TEST(a stop with timeout zero first runs what waits) {
  start();
  const auto pool = attach(1, 1);
  ask<push_results>(queue, items({"a", "b", "c"}));
  const auto stopped = ask<queue_status>(queue, stop_queue{0ms});
  done(1, batches_of(pool)[0].token, {}, 1);
  CAF_CHECK(!*stopped);
  CAF_REQUIRE_EQUAL(batches_of(pool).size(), 2u);
  done(1, batches_of(pool)[1].token);
  CAF_REQUIRE(holds(stopped));
  CAF_CHECK(store->rows().empty());
}

CAF_TEST(a stop with the longest timeout there is waits) {
  start();
  const auto pool = attach(1, 1);
  push("a");
  const auto stopped = ask<queue_status>(queue, stop_queue{ms::max()});
  pass(1h, 10min);
  CAF_CHECK(!*stopped);
  done(1, batches_of(pool)[0].token);
  CAF_CHECK(holds(stopped));
}

CAF_TEST(parked pushes get queue_closed when the queue stops) {
  start();
  ask<push_results>(queue, items({"a", "b", "c", "d", "e"}));
  const auto parked = ask<push_results>(queue, items({"f"}));
  const auto stopped = ask<queue_status>(queue, stop_queue{1s});
  CAF_CHECK(holds(stopped));
  CAF_CHECK(parked->code() == errc::queue_closed);
  pass(6s);
  CAF_CHECK_EQUAL(timers(), 0u);
}

CAF_TEST(parked pushes need not wait for the handlers of a queue that stops) {
  start();
  attach(1, 1);
  ask<push_results>(queue, items({"a"}));
  ask<push_results>(queue, items({"b", "c", "d", "e", "f"}));
  const auto parked = ask<push_results>(queue, items({"g"}));
  CAF_CHECK(!*parked);
  ask<queue_status>(queue, stop_queue{3s});
  CAF_CHECK(parked->code() == errc::queue_closed);
}

CAF_TEST(parked pushes get queue_closed when the queue drains) {
  start();
  ask<push_results>(queue, items({"a", "b", "c", "d", "e"}));
  const auto parked = ask<push_results>(queue, items({"f"}));
  ask<ack>(queue, drain_queue{});
  CAF_CHECK(parked->code() == errc::queue_closed);
  CAF_CHECK(parked->failure->text.find("draining") != std::string::npos);
}

CAF_TEST(a flush that waits is answered when the queue stops) {
  start();
  push("a");
  const auto flushed = ask<ack>(queue, flush_queue{1min});
  ask<queue_status>(queue, stop_queue{1s});
  CAF_CHECK(flushed->code() == errc::queue_closed);
}

CAF_TEST(a draining queue takes nothing and runs the rest) {
  start();
  const auto pool = attach(1, 0);
  push("a");
  CAF_CHECK(holds(ask<ack>(queue, drain_queue{})));
  CAF_CHECK(ask<push_results>(queue, items({"b"}))->code() == errc::queue_closed);
  CAF_CHECK(status().phase == queue_phase::draining);
  tell(queue, demand{1, 1, 0});
  CAF_REQUIRE_EQUAL(batches_of(pool).size(), 1u);
  done(1, batches_of(pool)[0].token);
  CAF_CHECK(status().phase == queue_phase::stopped);
}

CAF_TEST(a draining queue runs what was stored just before) {
  start();
  const auto pool = attach(1, 1);
  const auto drained = send_request<ack>(queue, drain_queue{});
  while (!sched.prioritize(queue)) sched.run_once();
  std::vector<record> one{item("a")};
  CAF_REQUIRE(door->push(one));  // its announcement is behind the request
  consume_messages();
  CAF_CHECK(holds(drained));
  CAF_REQUIRE_EQUAL(batches_of(pool).size(), 1u);
  CAF_CHECK(status().phase == queue_phase::draining);
  done(1, batches_of(pool)[0].token);
  CAF_CHECK(status().phase == queue_phase::stopped);
}

CAF_TEST(a queue that drains can be resumed) {
  start();
  push("a");
  ask<ack>(queue, drain_queue{});
  CAF_CHECK(holds(ask<ack>(queue, resume_queue{})));
  CAF_CHECK(holds(ask<push_results>(queue, items({"b"}))));
}

// ---- a storage that fails ----

CAF_TEST(changes that fail are tried again every second in order and the status names the trouble) {
  start();
  const auto pool = attach(1, 2);
  push("a");
  push("b");
  store->calls.clear();
  store->fail_next(3);
  done(1, batches_of(pool)[0].token);
  done(1, batches_of(pool)[1].token, {{0, item_outcome::kind::failed, "no luck", 1h}});
  CAF_CHECK_EQUAL(status().trouble, "the model storage fails on request");
  pass(900ms);
  CAF_CHECK_EQUAL(store->calls, texts{"erase 1 failed"});
  pass(1'000ms);
  CAF_CHECK_EQUAL(store->calls, (texts{"erase 1 failed", "erase 1 failed"}));
  pass(2'000ms);
  CAF_CHECK_EQUAL(store->calls, (texts{"erase 1 failed", "erase 1 failed", "erase 1 failed", "erase 1", "update 1"}));
  CAF_CHECK(status().trouble.empty());
}

CAF_TEST(reads wait behind changes that are tried again) {
  start();
  const auto pool = attach(1, 1);
  push("a");
  push("b");
  store->calls.clear();
  store->fail_next(1);
  done(1, batches_of(pool)[0].token);
  const auto listed = ask<job_list>(queue, list_jobs{});
  CAF_CHECK(!*listed);
  pass(1s);
  CAF_REQUIRE(holds(listed));
  CAF_CHECK_EQUAL(listed->value->jobs.size(), 1u);
  CAF_CHECK_EQUAL(store->calls, (texts{"erase 1 failed", "erase 1", "read"}));
  CAF_CHECK_EQUAL(timers(), 0u);
}

CAF_TEST(what is decided while a change is tried again becomes one write) {
  settings.batch_length = 1;
  start();
  const auto pool = attach(1, 4);
  for (const auto* p : {"a", "b", "c", "d"}) push(p);
  store->calls.clear();
  store->fail_next(1);
  for (std::size_t i = 0; i < 4; ++i) done(1, batches_of(pool)[i].token);
  pass(1s);
  CAF_CHECK_EQUAL(store->calls, (texts{"erase 1 failed", "erase 1", "erase 3"}));
  CAF_CHECK(store->rows().empty());
}

CAF_TEST(the trouble stays while changes wait although a push succeeds) {
  start();
  const auto pool = attach(1, 1);
  push("a");
  store->fail_next(1);
  done(1, batches_of(pool)[0].token);
  CAF_CHECK(holds(ask<push_results>(queue, items({"b"}))));
  CAF_CHECK(!status().trouble.empty());
  pass(1s);
  CAF_CHECK(status().trouble.empty());
}

CAF_TEST(a push that fails is answered with backend_failed and nothing is kept) {
  start();
  store->fail_next(1);
  const auto pushed = ask<push_results>(queue, items({"a"}));
  CAF_CHECK(pushed->code() == errc::backend_failed);
  CAF_CHECK(!status().trouble.empty());
  CAF_CHECK(holds(ask<push_results>(queue, items({"b"}))));
  CAF_CHECK(status().trouble.empty());
  CAF_CHECK_EQUAL(status().counts.waiting, 1u);
}

CAF_TEST(a storage that cannot be read at the start is asked again) {
  start();
  push("a");
  stop_actors();
  store->fail_next(2);
  start();
  const auto pool = attach(1, 1);
  CAF_CHECK(batches_of(pool).empty());
  CAF_CHECK(!status().trouble.empty());
  pass(2s);
  CAF_REQUIRE_EQUAL(batches_of(pool).size(), 1u);
  CAF_CHECK(status().trouble.empty());
}

CAF_TEST(a closed storage refuses changes once and for all) {
  start();
  const auto pool = attach(1, 1);
  push("a");
  CAF_REQUIRE(store->close());
  done(1, batches_of(pool)[0].token);
  CAF_CHECK(!logged.empty());
  CAF_CHECK_EQUAL(timers(), 0u);
  CAF_CHECK(holds(ask<queue_status>(queue, stop_queue{1s})));
}

// ---- timers ----

CAF_TEST(an idle queue has no timer) {
  start();
  CAF_CHECK_EQUAL(timers(), 0u);
  const auto pool = attach(1, 3);
  CAF_CHECK_EQUAL(timers(), 0u);
  push("a");
  CAF_CHECK_EQUAL(timers(), 0u);
  done(1, batches_of(pool)[0].token, {}, 1);
  lose(pool);
  CAF_CHECK_EQUAL(timers(), 0u);
}

CAF_TEST(a tick that nobody waits for changes nothing) {
  start();
  push("a");
  const auto flushed = ask<ack>(queue, flush_queue{10s});
  CAF_CHECK_EQUAL(timers(), 1u);
  for (int i = 0; i < 3; ++i) tell(queue, queue_tick{});
  CAF_CHECK_EQUAL(timers(), 1u);
  pass(10s);
  CAF_CHECK(flushed->code() == errc::timed_out);
  CAF_CHECK_EQUAL(timers(), 0u);
}

CAF_TEST(an earlier tick replaces a later one and both find their time) {
  start();
  push("a");
  const auto late = ask<ack>(queue, flush_queue{10s});
  const auto early = ask<ack>(queue, flush_queue{2s});
  pass(2s);
  CAF_CHECK(early->code() == errc::timed_out);
  CAF_CHECK(!*late);
  pass(8s);
  CAF_CHECK(late->code() == errc::timed_out);
  CAF_CHECK_EQUAL(timers(), 0u);
}

CAF_TEST(timers do not pile up behind a far one) {
  settings.lease = 1h;
  settings.batch_debounce = 10ms;
  start();
  const auto pool = attach(1, 1, pool_kind::remote);
  std::size_t seen = 0;
  std::size_t most = 0;
  for (int i = 0; i < 200; ++i) {
    push("a");
    pass(10ms);
    auto& got = batches_of(pool);
    CAF_REQUIRE_EQUAL(got.size(), seen + 1);
    done(1, got[seen++].token, {}, 1);
    most = std::max(most, timers());
  }
  CAF_CHECK_LESS_OR_EQUAL(most, 3u);
}

// ---- a storage that nodes share ----

CAF_TEST(in a shared storage a batch leaves when its key is free there and behind what was decided before) {
  unique({unique_policy::until::start, {}});
  store->is_shared = true;
  start();
  const auto pool = attach(1, 1);
  certain = false;
  push("a", "k");
  certain = true;
  store->fail_next(1);
  tell(queue, items_stored{});
  // The key cannot be freed yet: its handler might push it again, and be refused.
  auto& got = batches_of(pool);
  CAF_CHECK(got.empty());
  CAF_CHECK_EQUAL(status().counts.running, 1u);
  pass(2s);
  CAF_REQUIRE_EQUAL(got.size(), 1u);
  CAF_CHECK(!store->key_owner(digest_of("k")).value());
  done(1, got[0].token, {{0, item_outcome::kind::unhandled, {}, {}}}, 1);
  pass(2s);
  CAF_REQUIRE_EQUAL(got.size(), 2u);
  CAF_CHECK(!store->key_owner(digest_of("k")).value());
  done(1, got[1].token);
  CAF_CHECK(store->rows().empty());
}

CAF_TEST(what other nodes pushed is handed out in its turn) {
  store->is_shared = true;
  start();
  const auto a = push("a");
  const auto b = store->append_elsewhere(item("b"), clock.wall());
  CAF_CHECK(a < b);
  CAF_CHECK_EQUAL(status().counts.waiting, 1u);
  tell(storekeeper, adopt_pushes{});
  push("c");
  CAF_CHECK_EQUAL(status().counts.waiting, 3u);
  const auto pool = attach(1, 2);
  auto& got = batches_of(pool);
  CAF_REQUIRE_EQUAL(got.size(), 2u);
  CAF_CHECK_EQUAL(payloads(got[0]), (texts{"a", "b"}));
  CAF_CHECK_EQUAL(payloads(got[1]), texts{"c"});
  CAF_CHECK_EQUAL(must<store_counts>(storekeeper, store_look{}).counts.waiting, 3u);
}

CAF_TEST(while the owner is in doubt nothing leaves but answers count) {
  store->is_shared = true;
  start();
  const auto pool = attach(1, 1);
  push("a");
  auto& got = batches_of(pool);
  CAF_REQUIRE_EQUAL(got.size(), 1u);
  certain = false;
  push("b");
  done(1, got[0].token, {}, 1);
  CAF_CHECK_EQUAL(got.size(), 1u);
  CAF_CHECK_EQUAL(status().counts.totals.handled, 1u);
  CAF_CHECK_EQUAL(status().counts.waiting, 1u);
  certain = true;
  tell(queue, items_stored{});
  CAF_CHECK_EQUAL(got.size(), 2u);
}

CAF_TEST(an owner that is fenced tells its node and ends without waiting for the rest) {
  store->is_shared = true;
  settings.shutdown_timeout = 0ms;
  start();
  const auto pool = attach(1, 1);
  push("a");
  push("b");
  certain = false;
  store->fence();
  done(1, batches_of(pool)[0].token, {}, 1);
  CAF_CHECK(fenced > 0);
  const auto stopped = ask<queue_status>(queue, stop_queue{0ms});  // would run what waits
  CAF_CHECK(stopped->value);
  CAF_CHECK_EQUAL(batches_of(pool).size(), 1u);
}

CAF_TEST_FIXTURE_SCOPE_END()
