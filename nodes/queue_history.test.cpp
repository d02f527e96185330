#define CAF_SUITE queue_history
#include "nodes/queue_history.hpp"

#include "caf/test/unit_test.hpp"

using namespace caravan;

namespace {

using samples = std::map<std::string, queue_counters, std::less<>>;

queue_counters counted(std::uint64_t pushed, std::uint64_t handled, std::uint64_t waiting) {
  queue_counters c;
  c.pushed = pushed;
  c.handled = handled;
  c.waiting = waiting;
  return c;
}

}  // namespace

CAF_TEST(rates are per second over the span between two samples) {
  queue_history h;
  h.note(1000, {{"mail", counted(10, 4, 6)}});
  h.note(1002, {{"mail", counted(30, 10, 20)}});
  const auto& points = h.fine("mail")->points();
  CAF_REQUIRE_EQUAL(points.size(), 2u);
  CAF_CHECK_EQUAL(points[0].pushed, 0.f);
  CAF_CHECK_EQUAL(points[1].pushed, 10.f);
  CAF_CHECK_EQUAL(points[1].handled, 3.f);
  CAF_CHECK_EQUAL(points[1].waiting, 20u);
}

CAF_TEST(counters that fell began anew) {
  queue_history h;
  h.note(1000, {{"mail", counted(1000, 900, 0)}});
  h.note(1001, {{"mail", counted(5, 2, 3)}});
  CAF_CHECK_EQUAL(h.fine("mail")->points().back().pushed, 5.f);
  CAF_CHECK_EQUAL(h.fine("mail")->points().back().handled, 2.f);
}

CAF_TEST(the sum of all queues is one more series) {
  queue_history h;
  h.note(1000, {{"a", counted(0, 0, 1)}, {"b", counted(0, 0, 2)}});
  h.note(1001, {{"a", counted(4, 0, 5)}, {"b", counted(1, 0, 3)}});
  CAF_CHECK_EQUAL(h.fine("")->points().back().pushed, 5.f);
  CAF_CHECK_EQUAL(h.fine("")->points().back().waiting, 8u);
}

CAF_TEST(a flat line takes two points and old points go) {
  queue_history h;
  for (int i = 0; i < 600; ++i) h.note(1000.0 + i, {{"a", counted(0, 0, 1)}});
  CAF_CHECK_EQUAL(h.fine("a")->points().size(), 2u);
  CAF_CHECK_EQUAL(h.fine("a")->points().back().at, 1599);
  for (std::uint64_t i = 0; i < 5000; ++i) h.note(2000 + static_cast<double>(i), {{"a", counted(i * i, 0, i)}});
  CAF_CHECK(h.fine("a")->points().size() <= 902u);
  CAF_CHECK(h.fine("a")->points()[1].at >= 6999 - 900);
}

CAF_TEST(minutes are averages and can be kept and restored) {
  queue_history h;
  for (std::uint64_t i = 0; i <= 120; ++i) h.note(6000 + static_cast<double>(i), {{"a", counted(2 * i, i, i)}});
  auto kept = h.take_ended_minutes();
  CAF_CHECK_EQUAL(kept.size(), 4u);  // two minutes of the queue and of the sum
  CAF_CHECK_EQUAL(h.minutes("a")->points().size(), 2u);
  CAF_CHECK_EQUAL(h.minutes("a")->points().back().pushed, 2.f);
  CAF_CHECK_EQUAL(h.minutes("a")->points().back().waiting, 120u);
  queue_history later;
  for (const auto& line : kept) later.restore(line);
  CAF_REQUIRE(later.minutes("a") != nullptr);
  CAF_CHECK_EQUAL(later.minutes("a")->points().size(), 2u);
  CAF_CHECK(h.take_ended_minutes().empty());
}

CAF_TEST(it says whether anything happened) {
  queue_history h;
  h.note(1000, {{"a", counted(1, 1, 0)}});
  const auto quiet = h.note(1001, {{"a", counted(1, 1, 0)}});
  CAF_CHECK(!quiet);
  const auto busy = h.note(1002, {{"a", counted(2, 1, 1)}});
  CAF_CHECK(busy);
}

CAF_TEST(the number of queues is bounded) {
  queue_history h;
  samples many;
  for (int i = 0; i < 300; ++i) many["q" + std::to_string(1000 + i)] = counted(1, 1, 1);
  h.note(1000, many);
  h.note(1001, many);
  CAF_CHECK(h.fine("q1000") != nullptr);
  CAF_CHECK(h.fine("q1299") == nullptr);
}
