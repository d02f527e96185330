#pragma once

/// What every cron_store must do. Each engine's own .test.cpp calls check_cron_store_contract with a function that
/// makes an empty store. Stores with a clock of their own say so: `own_clock` moves it.

#include "integration/cron_store.hpp"

#include "caf/test/unit_test.hpp"

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace caravan::contract {

/// A store with the clock that counts for it: the test's, unless the store has one.
struct cron_bed {
  std::unique_ptr<cron_store> store;
  std::function<cron_time()> now;
  std::function<void(std::chrono::milliseconds)> sleep;  ///< moves that clock, or waits
  /// The store once more after its process ended; empty for stores that keep nothing.
  std::function<void(cron_bed&)> reopen{};
};
using make_cron_bed = std::function<cron_bed()>;

inline constexpr cron_node one{"one", 1}, two{"two", 1};

class cron_client {
public:
  cron_client(cron_bed& bed, cron_node node) : bed_(bed), node_(std::move(node)) {}

  cron_claim want(cron_instant cursor, cron_instant occurrence) {
    cron_claim out;
    out.task = "task";
    out.node = node_;
    out.request = ++request_;
    out.cursor = cursor;
    out.occurrence = occurrence;
    out.lease = std::chrono::milliseconds(lease);
    return out;
  }
  cron_answer claim(const cron_claim& c) { return bed_.store->claim(c, bed_.now()).value(); }
  cron_answer claim(cron_instant cursor, cron_instant occurrence) { return claim(want(cursor, occurrence)); }
  cron_end over(std::uint64_t token, cron_outcome outcome = cron_outcome::finished, const std::string& message = {}) {
    cron_end out;
    out.task = "task";
    out.token = token;
    out.node = node_;
    out.outcome = outcome;
    out.message = message;
    out.lease = std::chrono::milliseconds(lease);
    return out;
  }
  cron_ended finish(const cron_end& end) { return bed_.store->finish(end, bed_.now()).value(); }
  cron_state look() { return bed_.store->open("task", {}, bed_.now()).value().state; }

  static constexpr int lease = 300;

private:
  cron_bed& bed_;
  cron_node node_;
  std::uint64_t request_ = 0;
};

/// The task's row with a cursor an hour ago, so that claims after it are not early for a store with a clock of its own.
inline cron_instant opened(cron_bed& bed) {
  const auto first = std::chrono::floor<std::chrono::seconds>(bed.now()) - std::chrono::hours(1);
  const auto cursor = bed.store->open("task", first, bed.now()).value().state.cursor;
  if (cursor == first) return first;
  auto back = cron_client(bed, {"opener", 1}).want(cursor, cursor - std::chrono::hours(1));
  back.what = cron_claim::action::pass_over;
  CAF_CHECK(bed.store->claim(back, bed.now()).value().verdict == cron_verdict::passed_over);
  return back.occurrence;
}

inline void cron_row_is_made_once(const make_cron_bed& make) {
  auto bed = make();
  const auto cursor = opened(bed);
  const auto again = bed.store->open("task", cursor + std::chrono::hours(7), bed.now()).value();
  CAF_CHECK(again.state.cursor == cursor);
  CAF_CHECK(!again.state.running && !again.state.last && !again.state.paused);
  CAF_CHECK_EQUAL(again.state.runs, 0u);
}

inline void cron_occurrence_goes_to_one(const make_cron_bed& make) {
  using std::chrono::seconds;
  auto bed = make();
  const auto cursor = opened(bed);
  cron_client a(bed, one), b(bed, two);
  const auto first = a.claim(cursor, cursor + seconds(1));
  CAF_CHECK(first.verdict == cron_verdict::granted && first.token > 0);
  CAF_CHECK(first.from == cursor);
  CAF_CHECK(b.claim(cursor, cursor + seconds(1)).verdict == cron_verdict::taken);
  CAF_CHECK(a.finish(a.over(first.token)).held);
  // Short as the run was, its time is gone.
  const auto late = b.claim(cursor, cursor + seconds(1));
  CAF_CHECK(late.verdict == cron_verdict::taken);
  CAF_CHECK(late.view.state.cursor == cursor + seconds(1));
  const auto next = b.claim(cursor + seconds(1), cursor + seconds(2));
  CAF_CHECK(next.verdict == cron_verdict::granted);
  CAF_CHECK(next.token > first.token);
}

inline void cron_repeat_gets_the_first_answer(const make_cron_bed& make) {
  using std::chrono::seconds;
  auto bed = make();
  const auto cursor = opened(bed);
  cron_client a(bed, one), b(bed, two);
  const auto claim = a.want(cursor, cursor + seconds(1));
  const auto first = a.claim(claim), again = a.claim(claim);
  CAF_CHECK(again.verdict == cron_verdict::granted && again.token == first.token && again.from == first.from);
  const auto busy = b.want(cursor + seconds(1), cursor + seconds(2));
  CAF_CHECK(b.claim(busy).verdict == cron_verdict::busy);
  const auto still = b.claim(busy);
  CAF_CHECK(still.verdict == cron_verdict::busy && still.from == cursor + seconds(1));
  const auto end = a.over(first.token);
  CAF_CHECK(a.finish(end).held && a.finish(end).held);
  const auto runs = a.look().runs;
  CAF_CHECK_EQUAL(runs, 1u);
}

inline void cron_overlap_is_dropped_or_queued(const make_cron_bed& make) {
  using std::chrono::seconds;
  auto bed = make();
  const auto cursor = opened(bed);
  cron_client a(bed, one), b(bed, two);
  const auto first = a.claim(cursor, cursor + seconds(1));
  auto queue = b.want(cursor + seconds(1), cursor + seconds(2));
  queue.busy = cron_claim::when_busy::queue;
  CAF_CHECK(b.claim(queue).verdict == cron_verdict::queued);
  auto more = b.want(cursor + seconds(2), cursor + seconds(3));
  more.busy = cron_claim::when_busy::queue;
  CAF_CHECK(b.claim(more).verdict == cron_verdict::busy);
  const auto end = a.over(first.token);
  const auto ended = a.finish(end), again = a.finish(end);
  CAF_REQUIRE(ended.next && again.next);
  CAF_CHECK(ended.next->occurrence == cursor + seconds(2) && ended.next->token == again.next->token);
  CAF_CHECK(ended.next->node == one && ended.next->trigger == cron_trigger::queued);
  CAF_CHECK(!a.finish(a.over(ended.next->token)).next);
}

inline void cron_lease_ends_and_is_renewed(const make_cron_bed& make) {
  using std::chrono::milliseconds;
  using std::chrono::seconds;
  auto bed = make();
  const auto cursor = opened(bed);
  cron_client a(bed, one), b(bed, two);
  const auto first = a.claim(cursor, cursor + seconds(1));
  bed.sleep(milliseconds(200));
  const auto renewed = bed.store->renew("task", first.token, milliseconds(cron_client::lease), bed.now()).value();
  CAF_CHECK(renewed.state.running && renewed.state.running->token == first.token);
  bed.sleep(milliseconds(200));
  CAF_CHECK(b.claim(cursor + seconds(1), cursor + seconds(2)).verdict == cron_verdict::busy);
  bed.sleep(milliseconds(cron_client::lease + 50));
  const auto next = b.claim(cursor + seconds(2), cursor + seconds(3));
  CAF_CHECK(next.verdict == cron_verdict::granted);
  CAF_REQUIRE(next.lost);
  CAF_CHECK(next.lost->token == first.token && next.lost->occurrence == cursor + seconds(1));
  const auto gone = bed.store->renew("task", first.token, milliseconds(cron_client::lease), bed.now()).value();
  CAF_CHECK(gone.state.running && gone.state.running->token == next.token);
  CAF_CHECK(!a.finish(a.over(first.token)).held);
  CAF_CHECK(b.look().running && b.look().running->token == next.token);
}

inline void cron_earlier_life_is_over(const make_cron_bed& make) {
  using std::chrono::seconds;
  auto bed = make();
  const auto cursor = opened(bed);
  cron_client a(bed, one), again(bed, {"one", 2});
  const auto first = a.claim(cursor, cursor + seconds(1));
  const auto next = again.claim(cursor + seconds(1), cursor + seconds(2));
  CAF_CHECK(next.verdict == cron_verdict::granted);
  CAF_CHECK(next.lost && next.lost->token == first.token);
}

inline void cron_given_back_runs_elsewhere(const make_cron_bed& make) {
  using std::chrono::seconds;
  auto bed = make();
  const auto cursor = opened(bed);
  cron_client a(bed, one), b(bed, two);
  auto back = a.over(a.claim(cursor, cursor + seconds(1)).token);
  back.give_back = true;
  CAF_CHECK(a.finish(back).held);
  CAF_CHECK(b.claim(cursor, cursor + seconds(1)).verdict == cron_verdict::granted);
  const auto runs = b.look().runs;
  CAF_CHECK_EQUAL(runs, 0u);
}

inline void cron_pause_holds_all_but_hands(const make_cron_bed& make) {
  using std::chrono::seconds;
  auto bed = make();
  const auto cursor = opened(bed);
  cron_client a(bed, one);
  CAF_CHECK(bed.store->set_paused("task", true, "ada", cursor, bed.now()).value().state.paused_by == "ada");
  CAF_CHECK(a.claim(cursor, cursor + seconds(1)).verdict == cron_verdict::paused);
  auto by_hand = a.want({}, cursor);
  by_hand.trigger = cron_trigger::manual;
  by_hand.who = "ada";
  const auto run = a.claim(by_hand);
  CAF_CHECK(run.verdict == cron_verdict::granted);
  CAF_CHECK(a.finish(a.over(run.token, cron_outcome::error, std::string(5000, 'x'))).held);
  const auto after = a.look();
  CAF_CHECK(after.last && after.last->who == "ada" && after.last->message.size() == 1000);
  CAF_CHECK_EQUAL(after.failures, 1u);
  CAF_CHECK(after.cursor == cursor);
  const auto resumed = bed.store->set_paused("task", false, "ada", cursor + seconds(9), bed.now()).value().state;
  CAF_CHECK(!resumed.paused && resumed.cursor == cursor + seconds(9));
}

inline void cron_row_that_was_lost_begins_now(const make_cron_bed& make) {
  using std::chrono::hours;
  auto bed = make();
  const auto now = bed.now();
  const auto view = bed.store->set_paused("lost", true, "ada", {}, now).value();
  CAF_CHECK(view.state.paused);
  CAF_CHECK(view.state.cursor >= std::chrono::floor<std::chrono::seconds>(now) - hours(1));
}

inline void cron_row_survives(const make_cron_bed& make) {
  using std::chrono::seconds;
  auto bed = make();
  if (!bed.reopen) return;
  const auto cursor = opened(bed);
  cron_client a(bed, one);
  const auto run = a.claim(cursor, cursor + seconds(1));
  CAF_CHECK(a.finish(a.over(run.token, cron_outcome::finished, "line\nline \xf0\x9f\x90\xab")).held);
  const auto before = a.look();
  bed.reopen(bed);
  CAF_CHECK(cron_client(bed, one).look() == before);
  const auto next = cron_client(bed, {"one", 2}).claim(cursor + seconds(1), cursor + seconds(2));
  CAF_CHECK(next.verdict == cron_verdict::granted && next.token > run.token);
}

/// Real threads: of all that ask for an occurrence at once one gets it.
inline void cron_race_has_one_winner(const make_cron_bed& make) {
  using std::chrono::seconds;
  auto bed = make();
  const auto cursor = opened(bed);
  std::atomic<int> granted{0}, taken{0};
  constexpr auto rounds = 20;
  {
    std::vector<std::jthread> threads;
    for (auto t = 0; t < 4; ++t)
      threads.emplace_back([&, t] {
        cron_client me(bed, {"node-" + std::to_string(t), 1});
        for (auto round = 0; round < rounds; ++round) {
          const auto got = me.claim(cursor + seconds(round), cursor + seconds(round + 1));
          if (got.verdict == cron_verdict::granted) {
            ++granted;
            (void)me.finish(me.over(got.token));
          } else if (got.verdict == cron_verdict::taken) {
            // Not there yet, or gone: the others decide which.
            if (got.view.state.cursor < cursor + seconds(round))
              --round;
            else
              ++taken;
          } else {
            ++taken;
          }
        }
      });
  }
  const auto end = cron_client(bed, one).look();
  CAF_CHECK(end.cursor == cursor + seconds(rounds));
  CAF_CHECK(static_cast<std::uint64_t>(granted.load()) == end.runs);
  CAF_CHECK_EQUAL(granted.load() + taken.load(), 4 * rounds);
}

inline void check_cron_store_contract(const make_cron_bed& make) {
  cron_row_is_made_once(make);
  cron_occurrence_goes_to_one(make);
  cron_repeat_gets_the_first_answer(make);
  cron_overlap_is_dropped_or_queued(make);
  cron_lease_ends_and_is_renewed(make);
  cron_earlier_life_is_over(make);
  cron_given_back_runs_elsewhere(make);
  cron_pause_holds_all_but_hands(make);
  cron_row_that_was_lost_begins_now(make);
  cron_row_survives(make);
  cron_race_has_one_winner(make);
}

}  // namespace caravan::contract
