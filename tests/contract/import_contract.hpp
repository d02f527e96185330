#pragma once

/// What a storage must do that a queue can be moved into and out of.

#include "tests/contract/storage_bench.hpp"

#include "caf/test/unit_test.hpp"

#include <algorithm>
#include <array>

namespace caravan::contract {

namespace import_checks {

inline void import_all(bench& to, bench& from, std::size_t part = 2) {
  for (std::size_t s = 0; s < record_states; ++s) {
    const auto state = static_cast<record_state>(s);
    read_cursor after;
    for (;;) {
      const auto some = from.read(state, part, after);
      if (some.empty()) break;
      after = {sort_of(some.back()), some.back().id};
      import_part p;
      p.fresh = some;
      to.store->import(p).value();
    }
  }
  item_id after;
  for (;;) {
    const auto keys = from.store->keys_after(after, part).value();
    if (keys.empty()) break;
    after = keys.back().owner;
    import_part p;
    p.keys = keys;
    p.sync = true;
    to.store->import(p).value();
  }
}

inline void check_equal(bench& a, bench& b) {
  for (const auto state : {record_state::waiting, record_state::delayed, record_state::dead}) {
    const auto left = a.read(state, 1'000);
    const auto right = b.read(state, 1'000);
    CAF_CHECK(std::equal(left.begin(), left.end(), right.begin(), right.end(), same));
  }
  const auto c = a.store->count();
  CAF_CHECK(b.counts(c.waiting, c.delayed, c.dead));
  CAF_CHECK(b.store->count().last >= c.last);
}

inline void everything_comes_along(const make_place& make) {
  bench from{make, {until::done, {}}};
  bench to{make, {until::done, {}}};
  for (int i = 0; i < 7; ++i) {
    auto r = item("w" + std::to_string(i));
    r.headers = {{"trace", std::to_string(i)}};
    r.attempts = 3;
    if (i % 2 == 0) r.idempotency_key = "again" + std::to_string(i);
    from.push(r);
  }
  auto later = item("later");
  later.due = from.clock.wall() + 1h;
  from.push(later);
  const auto waiting = from.read();
  from.move(waiting[2], record_state::dead);
  from.move(waiting[4], record_state::delayed, from.clock.wall() + 10min);
  import_all(to, from);
  check_equal(from, to);
  CAF_CHECK(to.has("w1"));
  CAF_CHECK(to.has("later"));
  CAF_CHECK(!to.has("w2"));  // dead
  if (to.persistent()) to.reopen();
  check_equal(from, to);
  CAF_CHECK(to.has("w1"));
  // A repeat answers with the id that it has had on the other node.
  auto again = item("other");
  again.idempotency_key = "again0";
  const auto repeated = to.push(again);
  CAF_CHECK(repeated.what == kind::repeated);
  CAF_CHECK(repeated.id == waiting[0].id);
  // And what comes now stands behind all of it.
  const auto fresh = to.push("fresh");
  CAF_CHECK(fresh.id > from.store->count().last);
}

inline void a_changed_row_takes_the_place_of_the_old_one(const make_place& make) {
  bench from{make, {until::done, {}}};
  bench to{make, {until::done, {}}};
  for (int i = 0; i < 6; ++i) from.push("p" + std::to_string(i));
  import_all(to, from);
  auto rows = from.read();
  const auto delayed = from.move(rows[1], record_state::delayed, from.clock.wall() + 1min);
  const auto dead = from.move(rows[2], record_state::dead);
  auto rewritten = rows[3];
  rewritten.attempts = 9;
  rewritten = from.move(rewritten, record_state::waiting);
  from.erase(rows[0]);
  const std::array changed{delayed, dead, rewritten};
  const std::array gone{rows[0].id, item_id{1}};
  const std::array freed{kept_key{kept_key::kind::unique, rows[0].digest, rows[0].id, {}},
                         kept_key{kept_key::kind::unique, rows[2].digest, rows[2].id, {}}};
  import_part p;
  p.changed = changed;
  p.gone = gone;
  p.keys = freed;
  to.store->import(p).value();
  check_equal(from, to);
  CAF_CHECK(!to.has("p0"));
  CAF_CHECK(to.has("p1"));
  CAF_CHECK(!to.has("p2"));
  // And back from each state.
  const auto back =
      from.move(from.move(delayed, record_state::delayed, from.clock.wall() + 2min), record_state::waiting);
  const auto replayed = from.move(dead, record_state::waiting);
  const std::array second{back, replayed};
  import_part q;
  q.changed = second;
  to.store->import(q).value();
  check_equal(from, to);
  CAF_CHECK(to.has("p2"));
  if (!to.persistent()) return;
  to.reopen();
  check_equal(from, to);
}

inline void keys_with_a_lifetime_come_by_themselves(const make_place& make) {
  bench from{make, {until::time, 1h}};
  bench to{make, {until::time, 1h}};
  from.push("handled");
  from.erase(refs(from.read()));
  from.push("here");
  import_all(to, from);
  CAF_CHECK(to.has("handled"));
  CAF_CHECK(to.has("here"));
  if (to.persistent()) to.reopen();
  CAF_CHECK(to.has("handled"));
  to.clock.advance(61min);
  CAF_CHECK(!to.has("handled"));
}

inline void a_wiped_storage_is_empty(const make_place& make) {
  bench b{make, {until::time, 1h}};
  auto r = item("x");
  r.idempotency_key = "k";
  b.push(r);
  auto later = item("y");
  later.due = b.clock.wall() + 1h;
  b.push(later);
  b.push("z");
  b.move(b.last, record_state::dead);
  const auto last = b.store->count().last;
  b.store->wipe().value();
  const auto look = [&] {
    CAF_CHECK(b.counts(0, 0, 0));
    CAF_CHECK(!b.has("x"));
    CAF_CHECK(!b.has("y"));
  };
  look();
  if (b.persistent()) {
    b.reopen();
    look();
  }
  CAF_CHECK(b.push(r).what == kind::stored);
  CAF_CHECK(b.last.id > last);
}

}  // namespace import_checks

}  // namespace caravan::contract

namespace caravan {

inline void check_import_contract(const contract::make_place& make) {
  contract::import_checks::everything_comes_along(make);
  contract::import_checks::a_changed_row_takes_the_place_of_the_old_one(make);
  contract::import_checks::keys_with_a_lifetime_come_by_themselves(make);
  contract::import_checks::a_wiped_storage_is_empty(make);
}

}  // namespace caravan
