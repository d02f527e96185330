#pragma once

/// What every lock_store does. Call it with a store that holds nothing.

#include "integration/lock_store.hpp"
#include "tests/support/eventually.hpp"

#include <chrono>
#include <mutex>
#include <string>
#include <vector>

#include "caf/test/unit_test.hpp"

namespace caravan::test {

class lock_store_contract {
public:
  explicit lock_store_contract(lock_store& store) : store_(store) {
    store_.on_granted([this](const std::string& key, lock_id id, std::uint64_t token) {
      const std::lock_guard lock(mutex_);
      if (id != 0)
        turns_.push_back({key, id, token});
      else
        listens_ = true;
    });
    if (store_.blocks() && store_.has_line())
      CAF_REQUIRE(testing_support::eventually([&] {
        const std::lock_guard lock(mutex_);
        return listens_;
      }));
  }

  void run() {
    grants_one();
    is_repeatable();
    if (store_.has_line()) {
      hands_on_in_order();
      lets_leave_the_line();
    } else {
      tries_for_the_first();
    }
    renews_only_its_own();
    can_be_forced();
    is_shown();
    keeps_keys_apart();
  }

private:
  using kind = lock_taken::kind;
  struct turn {
    std::string key;
    lock_id id;
    std::uint64_t token;
  };
  static constexpr auto life = std::chrono::seconds{30};

  lock_taken take(const std::string& key, lock_id id, bool wait = false) {
    return store_.take({key, id, life, wait}).value();
  }
  bool release(const std::string& key, lock_id id) { return store_.release({key, id}).value(); }
  /// The latest turn, once it was told.
  turn turn_of(const std::string& key, lock_id id) {
    turn found{};
    CAF_REQUIRE(testing_support::eventually([&] {
      const std::lock_guard lock(mutex_);
      for (const auto& t : turns_)
        if (t.id == id && t.key == key) found = t;
      return found.id == id;
    }));
    return found;
  }

  void grants_one() {
    const auto first = take("one", 1);
    CAF_CHECK(first.what == kind::granted && first.token > 0);
    CAF_CHECK(take("one", 2).what == kind::busy);
    CAF_CHECK(release("one", 1));
    const auto second = take("one", 2);
    CAF_CHECK(second.what == kind::granted && second.token > first.token);
    CAF_CHECK(!release("one", 1));
    CAF_CHECK(take("one", 3).what == kind::busy);
    CAF_CHECK(release("one", 2));
  }

  void is_repeatable() {
    const auto first = take("twice", 1);
    const auto again = take("twice", 1);
    CAF_CHECK(again.what == kind::granted && again.token == first.token);
    if (!store_.has_line()) {
      CAF_CHECK(release("twice", 1));
      CAF_CHECK(!release("twice", 1));
      return;
    }
    const auto queued = take("twice", 2, true);
    const auto requeued = take("twice", 2, true);
    CAF_CHECK(queued.what == kind::queued && requeued.what == kind::queued && requeued.place == queued.place);
    CAF_CHECK(store_.show("twice").value()->waiting == 1);
    CAF_CHECK(release("twice", 1));
    const auto token = turn_of("twice", 2).token;
    CAF_CHECK(token > first.token);
    CAF_CHECK(take("twice", 2, true).token == token);
    CAF_CHECK(release("twice", 2));
    CAF_CHECK(!release("twice", 2));
  }

  void hands_on_in_order() {
    take("line", 1);
    for (lock_id id = 2; id <= 5; ++id) CAF_CHECK(take("line", id, true).what == kind::queued);
    std::uint64_t last = 0;
    for (lock_id id = 1; id < 5; ++id) {
      CAF_CHECK(release("line", id));
      const auto t = turn_of("line", id + 1);
      CAF_CHECK(t.token > last);
      last = t.token;
      CAF_CHECK(take("line", 9).what == kind::busy);
    }
    CAF_CHECK(release("line", 5));
    CAF_CHECK(!store_.show("line").value());
  }

  void lets_leave_the_line() {
    take("leave", 1);
    take("leave", 2, true);
    take("leave", 3, true);
    CAF_CHECK(!release("leave", 2));
    CAF_CHECK(release("leave", 1));
    turn_of("leave", 3);
    CAF_CHECK(release("leave", 3));
    // Whose turn has come and who leaves hands on as well.
    take("leave", 1);
    take("leave", 2, true);
    take("leave", 4, true);
    CAF_CHECK(release("leave", 1));
    CAF_CHECK(release("leave", 2));
    turn_of("leave", 4);
    CAF_CHECK(release("leave", 4));
  }

  void tries_for_the_first() {
    const auto first = take("tries", 1);
    std::vector<lock_ticket> waiting;
    for (lock_id id = 2; id <= 3; ++id) {
      const auto got = take("tries", id, true);
      CAF_CHECK(got.what == kind::queued && got.again.count() > 0);
      waiting.insert(waiting.begin(), {"tries", id, got.place});
    }
    for (const auto& s : store_.beat(waiting).value()) CAF_CHECK(s.token == 0 && s.again.count() > 0);
    CAF_CHECK(release("tries", 1));
    const auto seen = store_.beat(waiting).value();
    CAF_REQUIRE(seen.size() == 2);
    CAF_CHECK(seen[0].id == 3 && seen[0].token == 0 && seen[0].again.count() > 0);
    CAF_CHECK(seen[1].id == 2 && seen[1].token > first.token);
    const std::vector<lock_renewal> claim{{"tries", 2, life, seen[1].token}};
    CAF_CHECK(store_.renew(claim).value() == std::vector<std::uint64_t>{seen[1].token});
    CAF_CHECK(!release("tries", 3));
    CAF_CHECK(release("tries", 2));
  }

  void renews_only_its_own() {
    const auto token = take("renew", 1).token;
    const std::vector<lock_renewal> both{
        {"renew", 1, life, token}, {"renew", 2, life, token}, {"renew-not-there", 1, life, token}};
    const auto answer = store_.renew(both).value();
    CAF_CHECK((answer == std::vector<std::uint64_t>{token, 0, 0}));
    CAF_CHECK(release("renew", 1));
  }

  void can_be_forced() {
    CAF_CHECK(!store_.force("force").value());
    take("force", 1);
    take("force", 2, true);
    CAF_CHECK(store_.force("force").value());
    if (store_.has_line())
      turn_of("force", 2);
    else
      CAF_CHECK(take("force", 2).what == kind::granted);
    CAF_CHECK(!release("force", 1));
    CAF_CHECK(store_.force("force").value());
    CAF_CHECK(!release("force", 2));
    CAF_CHECK(!store_.show("force").value());
  }

  void is_shown() {
    const auto token = take("show b", 1).token;
    take("show a", 2);
    take("show b", 3, true);
    const auto list = store_.list(10).value();
    CAF_REQUIRE(list.size() == 2);
    CAF_CHECK(list[0].key == "show a" && list[1].key == "show b");
    CAF_CHECK(list[1].holder.id == 1 && list[1].holder.node == store_.node() && list[1].token == token);
    if (store_.has_line()) {
      CAF_REQUIRE(list[1].waiters.size() == 1);
      CAF_CHECK(list[1].waiters[0].id == 3 && list[1].waiting == 1);
    }
    CAF_CHECK(store_.list(1).value().size() == 1);
    release("show b", 3);
    release("show b", 1);
    release("show a", 2);
    CAF_CHECK(store_.list(10).value().empty());
  }

  void keeps_keys_apart() {
    for (const std::string key : {"k", "k:line", "K", "k|1", "k:1", " ", "*", "k\xff"})
      CAF_CHECK(take(key, 1).what == kind::granted);
    for (const std::string key : {"k", "k:line", "K", "k|1", "k:1", " ", "*", "k\xff"}) CAF_CHECK(release(key, 1));
  }

  lock_store& store_;
  std::mutex mutex_;
  std::vector<turn> turns_;
  bool listens_ = false;
};

}  // namespace caravan::test
