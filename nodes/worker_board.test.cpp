#define CAF_SUITE worker_board
#include "nodes/worker_board.hpp"

#include "caf/test/unit_test.hpp"

using namespace caravan;
using namespace std::chrono_literals;

namespace {

worker_beat beat_of(const std::string& name, int started = 1) {
  worker_beat b;
  b.name = name;
  b.started = wall_time{std::chrono::milliseconds{started}};
  b.concurrency = 8;
  return b;
}
constexpr wall_time t0{std::chrono::hours{24 * 365 * 50}};

}  // namespace

CAF_TEST(an order waits for the next word of its worker and holds until that begins anew) {
  worker_board board;
  CAF_CHECK(board.beat(beat_of("ann"), t0).state == worker_order::run);
  CAF_CHECK(board.order("ann", worker_order::quiet));
  CAF_CHECK(board.scale("ann", 3));
  for (int i = 0; i < 2; ++i) {
    const auto wanted = board.beat(beat_of("ann"), t0 + 1s);
    CAF_CHECK(wanted.state == worker_order::quiet);
    CAF_CHECK_EQUAL(wanted.concurrency, 3u);
  }
  CAF_CHECK(board.orders_for("ann")->state == worker_order::quiet);
  CAF_CHECK(board.beat(beat_of("ann", 2), t0 + 2s).state == worker_order::run);
}

CAF_TEST(nobody is ordered who is not known) {
  worker_board board;
  const auto no = board.order("bob", worker_order::stop);
  CAF_REQUIRE(!no);
  CAF_CHECK(no.failure().code == errc::not_found);
  CAF_CHECK(!board.orders_for("bob"));
}

CAF_TEST(who leaves or is silent for long is forgotten) {
  worker_board board;
  (void)board.beat(beat_of("ann"), t0);
  (void)board.beat(beat_of("bob"), t0 + 5min);
  (void)board.beat(beat_of("cy"), t0 + 5min);
  board.leave("cy");
  CAF_CHECK_EQUAL(board.list(t0 + 9min).size(), 2u);
  const auto left = board.list(t0 + 11min);
  CAF_REQUIRE_EQUAL(left.size(), 1u);
  CAF_CHECK_EQUAL(left[0].last.name, "bob");
}

CAF_TEST(a board that is full forgets the one that is silent longest) {
  worker_board board;
  for (std::size_t i = 0; i < worker_board::most; ++i)
    (void)board.beat(beat_of(std::to_string(i)), t0 + std::chrono::milliseconds{i});
  (void)board.beat(beat_of("new"), t0 + 1min);
  CAF_CHECK_EQUAL(board.list(t0 + 1min).size(), worker_board::most);
  CAF_CHECK(!board.orders_for("0"));
  CAF_CHECK(board.orders_for("new").has_value());
}
