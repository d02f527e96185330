#pragma once

/// A storage under test, and short words for what tests do with one.

#include "integration/storage.hpp"
#include "toolbox/clock.hpp"

#include "caf/test/unit_test.hpp"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace caravan::contract {

using namespace std::chrono_literals;
using kind = append_result::kind;
using until = unique_policy::until;

/// Somewhere a storage can be. open() of a persistent place finds what an earlier storage left there.
struct place {
  std::function<std::unique_ptr<storage>(unique_policy, std::chrono::milliseconds idempotency_window)> open;
  bool persistent = false;
};

/// A new, empty place, whose storages go by this clock.
using make_place = std::function<place(const toolbox::clock&)>;

inline record item(std::string payload, std::string key = {}) {
  record r;
  r.payload = std::move(payload);
  r.key = std::move(key);
  return r;
}

inline std::vector<std::string> payloads(const std::vector<record>& records) {
  std::vector<std::string> result;
  for (const auto& r : records) result.push_back(r.payload);
  return result;
}

inline std::vector<record_ref> refs(const std::vector<record>& records) {
  std::vector<record_ref> result;
  for (const auto& r : records) result.push_back(ref_of(r));
  return result;
}

inline bool same(const record& a, const record& b) {
  return a.id == b.id && a.state == b.state && a.payload == b.payload && a.key == b.key && a.digest == b.digest &&
         a.pushed_at == b.pushed_at && a.due == b.due && a.priority == b.priority && a.attempts == b.attempts &&
         a.max_attempts == b.max_attempts && a.timeout == b.timeout && a.retention == b.retention &&
         a.deadline == b.deadline && a.order_by == b.order_by && a.idempotency_key == b.idempotency_key &&
         a.last_error == b.last_error && a.headers == b.headers && a.hold == b.hold && a.hold_for == b.hold_for &&
         a.more == b.more;
}

/// A storage under test with the calls that tests make all the time.
class bench {
public:
  using texts = std::vector<std::string>;

  bench(const make_place& make, unique_policy policy = {}, std::chrono::milliseconds window = 30min)
      : policy_(policy), window_(window) {
    // An ordinary day: the manual clock begins in 1970, where every id would be clamped.
    clock.advance(std::chrono::hours{24 * 365 * 55});
    place_ = make(clock);
    open();
  }

  void open() {
    store.reset();
    store = place_.open(policy_, window_);
    CAF_REQUIRE(store != nullptr);
  }
  void reopen() {
    store->close().value();
    open();
  }
  [[nodiscard]] bool persistent() const { return place_.persistent; }

  append_result push(record r) {
    auto results = store->append(std::span{&r, 1}, clock.wall()).value();
    CAF_REQUIRE_EQUAL(results.size(), 1u);
    CAF_CHECK(results[0].what != kind::stored || results[0].id == r.id);
    last = std::move(r);
    return results[0];
  }
  /// Records of this state, and none of any other.
  [[nodiscard]] bool only(record_state state, std::size_t n) const {
    const auto c = store->count();
    bool right = true;
    for (std::size_t i = 0; i < record_states; ++i) {
      const auto s = static_cast<record_state>(i);
      if (c.of(s) == (s == state ? n : 0)) continue;
      CAF_MESSAGE("counts " << c.of(s) << ' ' << name_of(s));
      right = false;
    }
    return right;
  }
  append_result push(const std::string& payload, const std::string& key = {}) { return push(item(payload, key)); }
  std::vector<append_result> push_all(std::vector<record>& records) {
    return store->append(records, clock.wall()).value();
  }

  std::vector<record> read(record_state state = record_state::waiting, std::size_t max = 100, read_cursor after = {}) {
    return store->read(state, after, max).value();
  }
  void erase(const std::vector<record_ref>& gone, item_id low_water = {}) { store->erase(gone, low_water).value(); }
  void erase(const record& r) { erase({ref_of(r)}); }
  record move(const record& from, record_state state, wall_time due = {}) {
    record_move m{ref_of(from), from};
    m.to.state = state;
    m.to.due = due;
    store->update(std::span{&m, 1}).value();
    return m.to;
  }
  [[nodiscard]] bool has(const std::string& key_or_payload) {
    return store->key_owner(digest_of(key_or_payload)).value().has_value();
  }
  [[nodiscard]] bool counts(std::size_t waiting, std::size_t delayed, std::size_t dead) const {
    const auto c = store->count();
    if (c.waiting == waiting && c.delayed == delayed && c.dead == dead) return true;
    CAF_MESSAGE("counts " << c.waiting << ' ' << c.delayed << ' ' << c.dead);
    return false;
  }

  toolbox::manual_clock clock;
  std::unique_ptr<storage> store;
  record last;  ///< what append made of the record of the last push

private:
  unique_policy policy_;
  std::chrono::milliseconds window_;
  place place_;
};

}  // namespace caravan::contract
