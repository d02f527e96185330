#pragma once

/// What every storage must do. Each backend's own .test.cpp calls check_storage_contract with a way to make empty
/// places.

#include "tests/contract/storage_bench.hpp"

#include "caf/test/unit_test.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <set>
#include <string>
#include <thread>

namespace caravan::contract {

// -- order and ids ----------------------------------------------------------------------------------------------------

inline void one_push_is_visible_in_the_count(const make_place& make) {  // QUEUE-002
  bench b{make};
  CAF_CHECK(b.counts(0, 0, 0));
  CAF_CHECK(b.read().empty());
  const auto result = b.push("foo");
  CAF_CHECK(result.what == kind::stored);
  CAF_CHECK(b.counts(1, 0, 0));
  CAF_CHECK(b.last.pushed_at == b.clock.wall());
  CAF_CHECK(result.id >= first_id_at(b.clock.wall()));
}

inline void a_simple_queue_keeps_duplicates(const make_place& make) {  // QUEUE-003
  bench b{make};
  CAF_CHECK(b.push("foo").what == kind::stored);
  CAF_CHECK(b.push("foo").what == kind::stored);
  CAF_CHECK(b.counts(2, 0, 0));
  CAF_CHECK(!b.has("foo"));
  CAF_CHECK(!b.last.digest);
}

inline void order_is_first_in_first_out(const make_place& make) {  // QUEUE-006
  bench b{make, {until::start, {}}};
  b.push("foo");
  b.push("bar");
  std::vector<record> more{item("c"), item("d"), item("e")};
  b.push_all(more);
  CAF_CHECK(payloads(b.read()) == (bench::texts{"foo", "bar", "c", "d", "e"}));
  const auto two = b.read(record_state::waiting, 2);
  CAF_CHECK(payloads(two) == (bench::texts{"foo", "bar"}));
  CAF_CHECK(payloads(b.read(record_state::waiting, 2, {{}, two[1].id})) == (bench::texts{"c", "d"}));
  CAF_CHECK(b.read(record_state::waiting, 0).empty());
  CAF_CHECK(b.read(record_state::waiting, 9, {{}, more[2].id}).empty());
}

inline void ids_grow_also_when_the_clock_goes_back(const make_place& make) {
  bench b{make};
  item_id last;
  for (const auto shift : {0ms, 5ms, -3'600'000ms, 1ms}) {
    b.clock.shift_wall(shift);
    for (int i = 0; i < 3; ++i) {
      const auto id = b.push("x").id;
      CAF_CHECK(last < id);
      last = id;
    }
  }
  if (!b.persistent()) return;
  for (const bool empty : {false, true}) {
    if (empty) b.erase(refs(b.read()));
    b.reopen();
    b.clock.shift_wall(-24h);
    const auto id = b.push("x").id;
    CAF_CHECK(last < id);
    last = id;
  }
}

// -- keys -------------------------------------------------------------------------------------------------------------

inline void a_unique_queue_refuses_a_duplicate(const make_place& make) {  // QUEUE-004
  for (const auto policy : {until::start, until::done, until::time}) {
    bench b{make, {policy, 1h}};
    const auto first = b.push("foo");
    CAF_CHECK(first.what == kind::stored);
    const auto again = b.push("foo");
    CAF_CHECK(again.what == kind::already_in_queue);
    CAF_CHECK(again.id == first.id);
    CAF_CHECK(!b.last.id);
    CAF_CHECK(b.counts(1, 0, 0));
    CAF_CHECK(b.has("foo"));
    CAF_CHECK(b.store->key_owner(digest_of("foo")).value() == first.id);
    CAF_CHECK(b.push("other payload", "foo").what == kind::already_in_queue);
    CAF_CHECK(b.push("foo", "other key").what == kind::stored);
  }
}

inline void a_popped_unique_item_can_be_pushed_again(const make_place& make) {  // QUEUE-007
  bench b{make, {until::start, {}}};
  b.push("foo");
  const auto popped = b.read();
  b.store->release(refs(popped)).value();
  CAF_CHECK(!b.has("foo"));
  CAF_CHECK(b.counts(1, 0, 0));
  CAF_CHECK(b.push("foo").what == kind::stored);
}

inline void an_old_item_never_frees_a_new_ones_key(const make_place& make) {
  bench b{make, {until::start, {}}};
  b.push("foo");
  const auto old = b.last;
  b.store->release(std::vector{ref_of(old)}).value();
  const auto fresh = b.push("foo");
  b.store->release(std::vector{ref_of(old)}).value();
  CAF_CHECK(b.store->key_owner(old.digest).value() == fresh.id);
  b.erase(old);
  b.erase(old);
  CAF_CHECK(b.store->key_owner(old.digest).value() == fresh.id);
  CAF_CHECK(b.counts(1, 0, 0));
  CAF_CHECK(b.push("foo").what == kind::already_in_queue);
  // Given back, it does not take the key from its new owner either, and dying frees nothing.
  bench c{make, {until::start, {}}};
  c.push("foo");
  const auto first = c.last;
  c.store->release(std::vector{ref_of(first)}).value();
  const auto second = c.push("foo");
  const auto dead = c.move(c.move(first, record_state::delayed, c.clock.wall() + 1s), record_state::dead);
  CAF_CHECK(c.store->key_owner(first.digest).value() == second.id);
  c.erase(dead);
  CAF_CHECK(c.store->key_owner(first.digest).value() == second.id);
}

inline void keys_are_freed_as_the_policy_says(const make_place& make) {
  bench done{make, {until::done, {}}};
  done.push("foo");
  done.erase(done.last);
  CAF_CHECK(!done.has("foo"));
  CAF_CHECK(done.push("foo").what == kind::stored);

  bench timed{make, {until::time, 10s}};
  timed.push("foo");
  const auto first = timed.last;
  timed.erase(first);
  CAF_CHECK(timed.counts(0, 0, 0));
  CAF_CHECK(timed.has("foo"));
  timed.clock.advance(9'999ms);
  CAF_CHECK(timed.push("foo").what == kind::already_in_queue);
  timed.clock.advance(1ms);
  CAF_CHECK(!timed.has("foo"));
  CAF_CHECK(timed.push("foo").what == kind::stored);
  const auto second = timed.last;
  timed.store->release(std::vector{ref_of(first)}).value();
  CAF_CHECK(timed.has("foo"));
  timed.store->release(std::vector{ref_of(second)}).value();
  CAF_CHECK(!timed.has("foo"));
  if (!timed.persistent()) return;
  timed.push("bar");
  timed.erase(timed.last);
  timed.clock.advance(4s);
  timed.reopen();
  CAF_CHECK(timed.has("bar"));
  CAF_CHECK(!timed.has("foo"));
  timed.clock.advance(6s);
  CAF_CHECK(!timed.has("bar"));
  timed.reopen();
  CAF_CHECK(timed.push("bar").what == kind::stored);
}

inline void a_dead_item_frees_its_key(const make_place& make) {
  for (const auto policy : {until::start, until::done, until::time}) {
    bench b{make, {policy, 1h}};
    b.push("foo");
    const auto dead = b.move(b.last, record_state::dead);
    CAF_CHECK(b.counts(0, 0, 1));
    CAF_CHECK(!b.has("foo"));
    if (b.persistent()) b.reopen();
    CAF_CHECK(!b.has("foo"));
    CAF_CHECK(b.push("foo").what == kind::stored);
    b.erase(dead);
    CAF_CHECK(b.has("foo"));
  }
  // Replayed while its key is free, it holds it again.
  bench b{make, {until::done, {}}};
  b.push("foo");
  const auto dead = b.move(b.last, record_state::dead);
  b.move(dead, record_state::waiting);
  CAF_CHECK(b.store->key_owner(dead.digest).value() == dead.id);
}

inline void a_finished_item_frees_its_key(const make_place& make) {
  for (const auto policy : {until::start, until::done, until::success, until::time}) {
    bench b{make, {policy, 1h}};
    b.push("foo");
    b.move(b.last, record_state::done, b.clock.wall() + 1h);
    CAF_CHECK_EQUAL(b.has("foo"), policy == until::time);
    if (b.persistent()) b.reopen();
    CAF_CHECK_EQUAL(b.has("foo"), policy == until::time);
  }
}

inline void until_success_a_dead_item_keeps_its_key(const make_place& make) {
  bench b{make, {until::success, {}}};
  b.push("foo");
  auto dead = b.move(b.last, record_state::dead);
  CAF_CHECK(b.push("foo").what == kind::already_in_queue);
  if (b.persistent()) b.reopen();
  CAF_CHECK(b.store->key_owner(dead.digest).value() == dead.id);
  dead = b.move(b.move(dead, record_state::waiting), record_state::dead);
  CAF_CHECK(b.has("foo"));
  b.erase(dead);
  CAF_CHECK(!b.has("foo"));
  CAF_CHECK(b.push("foo").what == kind::stored);
  b.move(b.last, record_state::dead);
  b.store->clear(record_state::dead, no_item_limit).value();
  CAF_CHECK(!b.has("foo"));
}

inline void a_push_may_say_how_long_its_key_is_held(const make_place& make) {
  for (const auto policy : {until::none, until::start, until::time}) {
    bench b{make, {policy, 1h}};
    const auto with = [&](const char* text, key_hold hold, std::chrono::milliseconds time = {}) {
      auto r = item(text);
      r.hold = hold;
      r.hold_for = time;
      return b.push(r).what;
    };
    CAF_CHECK(with("timed", key_hold::time, 10s) == kind::stored);
    const auto timed = b.last;
    CAF_CHECK(with("timed", key_hold::done) == kind::already_in_queue);
    CAF_CHECK(with("done", key_hold::done) == kind::stored);
    const auto done = b.last;
    CAF_CHECK(with("success", key_hold::success) == kind::stored);
    auto success = b.move(b.last, record_state::dead);
    b.erase({ref_of(timed), ref_of(done)});
    for (int round = 0; round < 2; ++round) {
      CAF_CHECK(b.has("timed"));
      CAF_CHECK(!b.has("done"));
      CAF_CHECK(b.has("success"));
      if (b.persistent()) b.reopen();
    }
    b.clock.advance(10s);
    CAF_CHECK(!b.has("timed"));
    b.erase(success);
    CAF_CHECK(!b.has("success"));
    // What says nothing is as the queue is.
    b.push("plain");
    CAF_CHECK_EQUAL(b.has("plain"), policy != until::none);
  }
}

inline void duplicates_in_one_call_are_found(const make_place& make) {
  bench b{make, {until::done, {}}};
  std::vector<record> records{item("a"), item("b"), item("a"), item("c"), item("x", "b")};
  const auto results = b.push_all(records);
  CAF_REQUIRE_EQUAL(results.size(), 5u);
  CAF_CHECK(results[2].what == kind::already_in_queue && results[2].id == results[0].id);
  CAF_CHECK(results[4].what == kind::already_in_queue && results[4].id == results[1].id);
  CAF_CHECK(results[3].what == kind::stored);
  CAF_CHECK(!records[2].id && !records[4].id);
  CAF_CHECK(payloads(b.read()) == (bench::texts{"a", "b", "c"}));
  CAF_CHECK(b.counts(3, 0, 0));
}

inline void a_repeated_push_answers_with_the_first_id(const make_place& make) {
  const auto with_key = [](const std::string& payload, const std::string& key) {
    auto r = item(payload);
    r.idempotency_key = key;
    return r;
  };
  bench b{make, {until::done, {}}, 10s};
  const auto first = b.push(with_key("foo", "k1"));
  const auto again = b.push(with_key("foo", "k1"));
  CAF_CHECK(again.what == kind::repeated && again.id == first.id);
  CAF_CHECK(!b.last.id);
  std::vector<record> two{with_key("bar", "k2"), with_key("baz", "k2")};
  const auto results = b.push_all(two);
  CAF_CHECK(results[1].what == kind::repeated && results[1].id == results[0].id);
  CAF_CHECK(b.counts(2, 0, 0));
  // The work being done changes nothing.
  b.erase(refs(b.read()));
  CAF_CHECK(b.push(with_key("foo", "k1")).what == kind::repeated);
  // A refused push leaves its key unknown.
  b.push("taken");
  CAF_CHECK(b.push(with_key("taken", "k3")).what == kind::already_in_queue);
  CAF_CHECK(b.push(with_key("free", "k3")).what == kind::stored);
  b.clock.advance(10s);
  CAF_CHECK(b.push(with_key("foo", "k1")).what == kind::stored);
  bench off{make, {}, 0ms};
  off.push(with_key("foo", "k1"));
  CAF_CHECK(off.push(with_key("foo", "k1")).what == kind::stored);
}

inline void the_idempotency_window_survives_restart_and_purge(const make_place& make) {  // QUEUE-117
  bench b{make, {}, 30min};
  const auto send_five = [&b] {
    std::size_t duplicates = 0;
    for (int i = 0; i < 5; ++i) {
      auto r = item("payload");
      r.idempotency_key = "id-" + std::to_string(i);
      if (b.push(r).what == kind::repeated) ++duplicates;
    }
    return duplicates;
  };
  CAF_CHECK_EQUAL(send_five(), 0u);
  if (b.persistent()) b.reopen();
  CAF_CHECK_EQUAL(send_five(), 5u);
  CAF_CHECK(b.store->clear(record_state::waiting, no_item_limit).value() == 5u);
  CAF_CHECK_EQUAL(send_five(), 5u);
  if (b.persistent()) b.reopen();
  CAF_CHECK_EQUAL(send_five(), 5u);
  b.clock.advance(30min);
  CAF_CHECK_EQUAL(send_five(), 0u);
}

// -- states -----------------------------------------------------------------------------------------------------------

inline void delayed_items_are_in_due_order(const make_place& make) {
  bench b{make};
  const auto now = b.clock.wall();
  std::vector<record> records{item("late"), item("soon"), item("now"), item("past"), item("soon too")};
  records[0].due = now + 2h;
  records[1].due = now + 1s;
  records[2].due = now;
  records[3].due = now - 1s;
  records[4].due = now + 1s;
  b.push_all(records);
  CAF_CHECK(records[0].state == record_state::delayed && records[2].state == record_state::waiting);
  CAF_CHECK(b.counts(2, 3, 0));
  CAF_CHECK(payloads(b.read()) == (bench::texts{"now", "past"}));
  const auto all = b.read(record_state::delayed);
  CAF_CHECK(payloads(all) == (bench::texts{"soon", "soon too", "late"}));
  CAF_CHECK(all[0].due == now + 1s && all[0].state == record_state::delayed);
  CAF_CHECK(payloads(b.read(record_state::delayed, 2)) == (bench::texts{"soon", "soon too"}));
  CAF_CHECK(payloads(b.read(record_state::delayed, 9, {all[0].due, all[0].id})) == (bench::texts{"soon too", "late"}));
  b.erase(all[0]);
  CAF_CHECK(b.counts(2, 2, 0));
  // An earlier one comes after the front was read and erased.
  auto early = item("early");
  early.due = now + 500ms;
  b.push(early);
  CAF_CHECK(payloads(b.read(record_state::delayed)) == (bench::texts{"early", "soon too", "late"}));
  b.clock.advance(3h);
  CAF_CHECK(b.counts(2, 3, 0));  // due ones stay until they are moved or erased
  // Times before 1970 and far away have their place too.
  b.erase(refs(b.read(record_state::delayed)));
  const auto old = b.read()[0];
  b.move(old, record_state::delayed, wall_time{-5s});
  CAF_CHECK(b.read(record_state::delayed)[0].due == wall_time{-5s});
}

inline void ranked_items_are_in_the_order_of_priority(const make_place& make) {
  bench b{make};
  std::vector<record> records;
  for (const auto priority : {-1, 5, 0, 100, 5, -100}) {
    records.push_back(item(std::to_string(priority)));
    records.back().priority = priority;
  }
  b.push_all(records);
  CAF_CHECK(records[2].state == record_state::waiting && records[3].state == record_state::ranked);
  const auto all = b.read(record_state::ranked);
  CAF_CHECK(payloads(all) == (bench::texts{"100", "5", "5", "-1", "-100"}));
  CAF_CHECK(all[1].id == records[1].id && all[2].id == records[4].id);
  CAF_CHECK(payloads(b.read(record_state::ranked, 2, {sort_of(all[1]), all[1].id})) == (bench::texts{"5", "-1"}));
  CAF_CHECK(payloads(b.read(record_state::ranked, 9, {wall_time{-3ms}, {}})) == (bench::texts{"-1", "-100"}));
  if (b.persistent()) b.reopen();
  CAF_CHECK_EQUAL(b.store->count().ranked, 5u);
  b.erase(all[0]);
  CAF_CHECK(payloads(b.read(record_state::ranked, 1)) == bench::texts{"5"});
  // A due time comes first, a priority after it.
  auto later = item("later");
  later.priority = 7;
  later.due = b.clock.wall() + 1s;
  b.push(later);
  CAF_CHECK(b.last.state == record_state::delayed);
}

inline void items_of_one_key_are_together(const make_place& make) {
  bench b{make};
  std::vector<record> records;
  for (const auto* key : {"a", "b", "a", "c", "b", "a"}) {
    records.push_back(item(std::string(key) + std::to_string(records.size())));
    records.back().order_by = key;
    records.back().priority = 9;  // says nothing beside a key
  }
  b.push_all(records);
  CAF_CHECK(b.only(record_state::keyed, 6));
  for (int round = 0; round < 2; ++round) {
    // A key's items begin after its hash, and go on until another hash.
    for (const auto& [key, want] : {std::pair{"a", bench::texts{"a0", "a2", "a5"}}, {"b", {"b1", "b4"}}, {"c", {"c3"}}}) {
      const wall_time sort{std::chrono::milliseconds{static_cast<std::int64_t>(order_hash(key))}};
      bench::texts got;
      for (const auto& r : b.read(record_state::keyed, 9, {sort, {}}))
        if (r.order_by == key) got.push_back(r.payload);
      CAF_CHECK(got == want);
      CAF_CHECK(payloads(b.read(record_state::keyed, 1, {sort, {}})) == bench::texts{want.front()});
    }
    if (b.persistent()) b.reopen();
  }
  CAF_CHECK(b.only(record_state::keyed, 6));
  CAF_CHECK_EQUAL(b.store->clear(record_state::keyed, records[3].id).value(), 4u);
  CAF_CHECK(b.only(record_state::keyed, 2));
}

inline void a_held_item_stays_so(const make_place& make) {
  bench b{make};
  auto r = item("held");
  r.state = record_state::held;
  b.push(r);
  CAF_CHECK(b.only(record_state::held, 1));
  CAF_CHECK(b.read().empty());
  b.move(b.last, record_state::waiting);
  CAF_CHECK(b.only(record_state::waiting, 1));
}

inline void records_move_between_all_states(const make_place& make) {
  bench b{make};
  const auto state = [](std::size_t i) { return static_cast<record_state>(i); };
  for (std::size_t from = 0; from < record_states; ++from) {
    for (std::size_t to = 0; to < record_states; ++to) {
      auto r = item("x");
      r.priority = 3;
      r.order_by = "key";
      b.push(r);
      auto at = b.move(b.last, state(from), b.clock.wall() + 1min);
      at.attempts = 3;
      at.last_error = "it broke";
      at = b.move(at, state(to), b.clock.wall() + 2min);
      for (std::size_t s = 0; s < record_states; ++s) CAF_CHECK_EQUAL(b.read(state(s)).size(), s == to ? 1u : 0u);
      CAF_CHECK(b.only(state(to), 1));
      const auto found = b.store->find(at.id).value();
      CAF_REQUIRE(found);
      CAF_CHECK(same(*found, at));
      CAF_CHECK(found->attempts == 3 && found->last_error == "it broke");
      if (b.persistent()) {
        b.reopen();
        CAF_CHECK(b.only(state(to), 1));
      }
      // Where it is not, an erase does not find it.
      auto elsewhere = at;
      elsewhere.state = state((to + 1) % record_states);
      b.erase(elsewhere);
      CAF_CHECK(b.only(state(to), 1));
      b.erase(at);
      CAF_CHECK(b.only(state(to), 0));
      CAF_CHECK(!b.store->find(at.id).value());
    }
  }
}

inline void a_move_that_lost_to_an_erase_does_nothing(const make_place& make) {
  bench b{make};
  b.push("a");
  const auto gone = b.last;
  b.push("b");
  const auto here = b.last;
  b.erase(gone);
  std::vector<record_move> moves{{ref_of(gone), gone}, {ref_of(here), here}};
  for (auto& m : moves) m.to.state = record_state::dead;
  b.store->update(moves).value();
  CAF_CHECK(b.counts(0, 0, 1));
  CAF_CHECK(payloads(b.read(record_state::dead)) == bench::texts{"b"});
  // It is not there any more under its old state either.
  b.store->update(moves).value();
  CAF_CHECK(b.counts(0, 0, 1));
}

inline void an_erase_that_lost_to_a_move_does_nothing(const make_place& make) {
  bench b{make, {until::done, {}}};
  b.push("a");
  const auto old = b.last;
  const auto now = b.move(old, record_state::delayed, b.clock.wall() + 1s);
  b.erase(old);
  CAF_CHECK(b.counts(0, 1, 0));
  CAF_CHECK(b.has("a"));
  b.erase({ref_of(now), ref_of(now)});
  CAF_CHECK(b.counts(0, 0, 0));
  CAF_CHECK(!b.has("a"));
}

inline void a_record_moved_back_below_the_head_is_found(const make_place& make) {
  bench b{make};
  std::vector<record> records;
  for (int i = 0; i < 3000; ++i) records.push_back(item(std::to_string(i)));
  b.push_all(records);
  const auto dead = b.move(records[0], record_state::dead);
  const auto later = b.move(records[1], record_state::delayed, b.clock.wall() + 1s);
  for (std::size_t i = 2; i < 2990; i += 100) {
    const auto end = std::min<std::size_t>(i + 100, 2990);
    b.erase(refs({records.begin() + static_cast<long>(i), records.begin() + static_cast<long>(end)}), records[end].id);
  }
  CAF_CHECK_EQUAL(b.read().size(), 10u);
  if (b.persistent()) b.reopen();
  b.move(dead, record_state::waiting);
  b.move(later, record_state::waiting);
  for (int round = 0; round < 2; ++round) {
    const auto all = b.read();
    CAF_REQUIRE_EQUAL(all.size(), 12u);
    CAF_CHECK(all[0].payload == "0" && all[1].payload == "1" && all[2].payload == "2990");
    CAF_CHECK(b.counts(12, 0, 0));
    if (b.persistent()) b.reopen();
  }
}

inline void clearing_empties_one_state(const make_place& make) {  // QUEUE-013
  bench b{make, {until::done, {}}};
  std::vector<record> records;
  for (int i = 0; i < 10; ++i) records.push_back(item("w" + std::to_string(i)));
  b.push_all(records);
  b.push("dead");
  b.move(b.last, record_state::dead);
  auto later = item("later");
  later.due = b.clock.wall() + 1s;
  b.push(later);
  CAF_CHECK(b.counts(10, 1, 1));
  CAF_CHECK(b.store->clear(record_state::waiting, no_item_limit).value() == 10u);
  CAF_CHECK(b.counts(0, 1, 1));
  CAF_CHECK(b.read().empty());
  CAF_CHECK(!b.has("w3"));
  CAF_CHECK(b.has("later"));
  CAF_CHECK(b.store->clear(record_state::delayed, no_item_limit).value() == 1u);
  CAF_CHECK(!b.has("later"));
  CAF_CHECK(b.store->clear(record_state::dead, no_item_limit).value() == 1u);
  CAF_CHECK(b.store->clear(record_state::dead, no_item_limit).value() == 0u);
  CAF_CHECK(b.counts(0, 0, 0));
  CAF_CHECK(b.push("w3").what == kind::stored);
  CAF_CHECK(b.counts(1, 0, 0));
  if (!b.persistent()) return;
  b.reopen();
  CAF_CHECK(b.counts(1, 0, 0));
}

inline void a_closed_storage_refuses_every_call(const make_place& make) {
  bench b{make};
  b.push("a");
  b.store->close().value();
  b.store->close().value();
  auto r = item("b");
  const auto ref = ref_of(b.last);
  const record_move move{ref, b.last};
  const auto is_closed = [](const auto& answer) { return !answer && answer.failure().code == errc::queue_closed; };
  CAF_CHECK(is_closed(b.store->append(std::span{&r, 1}, b.clock.wall())));
  CAF_CHECK(is_closed(b.store->read(record_state::waiting, {}, 1)));
  CAF_CHECK(is_closed(b.store->find(ref.id)));
  CAF_CHECK(is_closed(b.store->erase(std::span{&ref, 1}, {})));
  CAF_CHECK(is_closed(b.store->update(std::span{&move, 1})));
  CAF_CHECK(is_closed(b.store->release(std::span{&ref, 1})));
  CAF_CHECK(is_closed(b.store->key_owner(digest_of("a"))));
  CAF_CHECK(is_closed(b.store->clear(record_state::waiting, no_item_limit)));
}

// -- contents ---------------------------------------------------------------------------------------------------------

inline void bytes_come_back_as_they_went(const make_place& make) {  // QUEUE-019
  using namespace std::string_literals;
  for (const auto policy : {until::none, until::done}) {
    bench b{make, {policy, {}}};
    const bench::texts texts{"\x00\xff\x0a\x22\x5c"s, ""s, "\xc3\x28\xff\xfe not utf-8"s, std::string(1 << 20, '\x00')};
    for (const auto& text : texts) CAF_CHECK(b.push(text).what == kind::stored);
    CAF_CHECK(payloads(b.read()) == texts);
    if (!b.persistent()) continue;
    b.reopen();
    CAF_CHECK(payloads(b.read()) == texts);
  }
}

inline void every_field_comes_back(const make_place& make) {
  bench b{make, {until::done, {}}};
  record full;
  full.payload = "{}";
  full.key = "key";
  full.pushed_at = b.clock.wall() - 5min;
  full.due = b.clock.wall() + 1h;
  full.priority = -7;
  full.attempts = 2;
  full.max_attempts = 4'000'000'000u;
  full.timeout = 90s;
  full.retention = 240h;
  full.deadline = b.clock.wall() + 48h;
  full.order_by = "customer 17";
  full.idempotency_key = "once";
  full.last_error = "exit code 1";
  full.hold = key_hold::success;
  full.more = std::string("\x01\x00more", 6);
  full.headers = {{"traceparent", "00-aa-bb-01"}, {"", "\xff"}, {"x", std::string(300, 'y')}};
  b.push(full);
  const auto stored = b.last;
  CAF_CHECK(stored.pushed_at == full.pushed_at);
  if (b.persistent()) b.reopen();
  const auto found = b.store->find(stored.id).value();
  CAF_REQUIRE(found);
  CAF_CHECK(same(*found, stored));
  CAF_CHECK(!b.store->find(item_id{stored.id.value + 1}).value());
  CAF_CHECK(!b.store->find({}).value());
}

inline void ten_thousand_records_survive(const make_place& make) {  // QUEUE-095
  bench b{make, {until::start, {}}};
  constexpr std::size_t many = 10'000;
  for (std::size_t i = 0; i < many; i += 500) {
    std::vector<record> records;
    for (std::size_t j = 0; j < 500; ++j) records.push_back(item("{\"n\":" + std::to_string(i + j) + "}"));
    b.push_all(records);
  }
  if (b.persistent()) b.reopen();
  CAF_CHECK(b.counts(many, 0, 0));
  CAF_CHECK(b.has("{\"n\":9999}"));
  read_cursor after;
  std::size_t seen = 0;
  for (auto part = b.read(record_state::waiting, 999, after); !part.empty();
       part = b.read(record_state::waiting, 999, after)) {
    for (const auto& r : part) {
      if (r.payload != "{\"n\":" + std::to_string(seen) + "}") CAF_FAIL("out of order: " << r.payload);
      ++seen;
    }
    after.id = part.back().id;
    if (seen % 2 == 0) b.erase(refs(part), after.id);
  }
  CAF_CHECK_EQUAL(seen, many);
  const auto left = b.read(record_state::waiting, many);
  CAF_CHECK(b.counts(left.size(), 0, 0));
  if (!b.persistent()) return;
  b.reopen();
  CAF_CHECK(b.counts(left.size(), 0, 0));
  b.erase(refs(left));
  b.reopen();
  CAF_CHECK(b.counts(0, 0, 0));
}

inline void threads_work_side_by_side(const make_place& make) {
  bench b{make, {until::done, {}}};
  constexpr int pushes = 4000;
  std::atomic<bool> done{false};
  std::atomic<int> failures{0};
  std::mutex taken_mutex;
  std::set<item_id> taken;
  std::thread pusher{[&] {
    for (int i = 0; i < pushes; i += 4) {
      std::vector<record> records;
      for (int j = 0; j < 4; ++j) records.push_back(item("p" + std::to_string(i + j)));
      if ((i / 4) % 8 == 7) records[0].due = b.clock.wall() + 1min;
      if (!b.store->append(records, b.clock.wall())) ++failures;
    }
    done = true;
  }};
  // Two take turns on the same items: erase, bury, delay and bring back what they read, in competition.
  const auto worker = [&](unsigned seed) {
    for (bool last_round = false; !last_round;) {
      last_round = done;
      for (const auto state : {record_state::waiting, record_state::delayed}) {
        auto records = b.store->read(state, {}, 50);
        if (!records) {
          ++failures;
          continue;
        }
        for (const auto& r : *records) {
          seed = seed * 1664525 + 1013904223;
          record_move m{ref_of(r), r};
          switch ((seed >> 16) % 4) {
            case 0:
              m.to.state = record_state::dead;
              break;
            case 1:
              m.to.state = record_state::delayed;
              m.to.due = b.clock.wall() + 2min;
              break;
            case 2:
              m.to.state = record_state::waiting;
              break;
            default:
              if (!b.store->erase(std::span{&m.from, 1}, {})) ++failures;
              continue;
          }
          if (!b.store->update(std::span{&m, 1})) ++failures;
        }
      }
    }
  };
  std::thread one{worker, 1u};
  std::thread two{worker, 2u};
  std::thread reader{[&] {
    while (!done) {
      item_id before;
      for (const auto& r : b.store->read(record_state::waiting, {}, 200).value_or(std::vector<record>{})) {
        if (r.id <= before || r.payload.empty()) ++failures;
        before = r.id;
      }
      (void)b.store->count();
      (void)b.store->key_owner(digest_of("p1"));
    }
  }};
  for (auto* t : {&pusher, &one, &two, &reader}) t->join();
  CAF_CHECK_EQUAL(failures.load(), 0);
  for (int round = 0; round < 2; ++round) {
    const auto waiting = b.read(record_state::waiting, pushes);
    const auto delayed = b.read(record_state::delayed, pushes);
    const auto dead = b.read(record_state::dead, pushes);
    CAF_CHECK(b.counts(waiting.size(), delayed.size(), dead.size()));
    std::set<item_id> ids;
    for (const auto* part : {&waiting, &delayed, &dead})
      for (const auto& r : *part) ids.insert(r.id);
    CAF_CHECK_EQUAL(ids.size(), waiting.size() + delayed.size() + dead.size());
    // Exactly the items that are in line hold their keys.
    for (const auto* part : {&waiting, &delayed})
      for (const auto& r : *part)
        if (b.store->key_owner(r.digest).value() != r.id) CAF_FAIL("no key for " << r.payload);
    for (const auto& r : dead)
      if (b.store->key_owner(r.digest).value()) CAF_FAIL("a dead item holds " << r.payload);
    std::size_t held = 0;
    for (int i = 0; i < pushes; ++i) held += b.has("p" + std::to_string(i)) ? 1 : 0;
    CAF_CHECK_EQUAL(held, waiting.size() + delayed.size());
    if (!b.persistent()) return;
    b.reopen();
  }
}

}  // namespace caravan::contract

namespace caravan {

/// Runs the whole suite.
inline void check_storage_contract(const contract::make_place& make) {
  using check = void (*)(const contract::make_place&);
  const std::pair<const char*, check> checks[] = {
#define CARAVAN_CHECK(name) {#name, contract::name}
      CARAVAN_CHECK(one_push_is_visible_in_the_count),
      CARAVAN_CHECK(a_simple_queue_keeps_duplicates),
      CARAVAN_CHECK(order_is_first_in_first_out),
      CARAVAN_CHECK(ids_grow_also_when_the_clock_goes_back),
      CARAVAN_CHECK(a_unique_queue_refuses_a_duplicate),
      CARAVAN_CHECK(a_popped_unique_item_can_be_pushed_again),
      CARAVAN_CHECK(an_old_item_never_frees_a_new_ones_key),
      CARAVAN_CHECK(keys_are_freed_as_the_policy_says),
      CARAVAN_CHECK(a_dead_item_frees_its_key),
      CARAVAN_CHECK(a_finished_item_frees_its_key),
      CARAVAN_CHECK(until_success_a_dead_item_keeps_its_key),
      CARAVAN_CHECK(a_push_may_say_how_long_its_key_is_held),
      CARAVAN_CHECK(duplicates_in_one_call_are_found),
      CARAVAN_CHECK(a_repeated_push_answers_with_the_first_id),
      CARAVAN_CHECK(the_idempotency_window_survives_restart_and_purge),
      CARAVAN_CHECK(delayed_items_are_in_due_order),
      CARAVAN_CHECK(ranked_items_are_in_the_order_of_priority),
      CARAVAN_CHECK(items_of_one_key_are_together),
      CARAVAN_CHECK(a_held_item_stays_so),
      CARAVAN_CHECK(records_move_between_all_states),
      CARAVAN_CHECK(a_move_that_lost_to_an_erase_does_nothing),
      CARAVAN_CHECK(an_erase_that_lost_to_a_move_does_nothing),
      CARAVAN_CHECK(a_record_moved_back_below_the_head_is_found),
      CARAVAN_CHECK(clearing_empties_one_state),
      CARAVAN_CHECK(a_closed_storage_refuses_every_call),
      CARAVAN_CHECK(bytes_come_back_as_they_went),
      CARAVAN_CHECK(every_field_comes_back),
      CARAVAN_CHECK(ten_thousand_records_survive),
      CARAVAN_CHECK(threads_work_side_by_side),
#undef CARAVAN_CHECK
  };
  for (const auto& [name, run] : checks) {
    CAF_MESSAGE(name);
    run(make);
  }
}

}  // namespace caravan
