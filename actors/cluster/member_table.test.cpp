#define CAF_SUITE member_table
#include "actors/cluster/member_table.hpp"

#include <caf/test/unit_test.hpp>

using namespace caravan;
using namespace std::chrono_literals;

namespace {

const member_table::time t0{1h};

member_report node(const std::string& name, std::int64_t started, std::vector<home_claim> homes = {}) {
  member_report r;
  r.name = name;
  r.incarnation = name + std::to_string(started);
  r.protocol = 1;
  r.address = name + ":1";
  r.started = started;
  r.homes = std::move(homes);
  return r;
}

home_claim claim(std::uint64_t epoch, std::uint64_t items, const std::string& type = "level") {
  return {"mail", type, false, epoch, items};
}

member_table table(std::vector<home_claim> mine = {}) {
  auto t = member_table(node("a", 10), {"b:1"}, 5s);
  t.tell(std::move(mine));
  return t;
}

std::string names(const std::vector<std::string>& list) {
  std::string all;
  for (const auto& x : list) all += x + " ";
  return all;
}

errc code_of(const expected<void>& e) { return e ? errc{} : e.failure().code; }

}  // namespace

CAF_TEST(addresses are learned from others and tried with growing pauses) {
  auto t = table();
  CAF_CHECK_EQUAL(names(t.due(t0)), "b:1 ");
  auto b = node("b", 20);
  b.known = {"c:1", "a:1"};
  CAF_CHECK(t.on_report(b, t0));
  CAF_CHECK_EQUAL(names(t.due(t0)), "b:1 c:1 ");  // never itself
  t.on_failure("c:1", t0);
  CAF_CHECK_EQUAL(names(t.due(t0)), "b:1 ");
  CAF_CHECK_EQUAL(names(t.due(t0 + 200ms)), "b:1 c:1 ");
  for (int i = 0; i < 20; ++i) t.on_failure("c:1", t0);
  CAF_CHECK_EQUAL(names(t.due(t0 + 6s)), "b:1 ");
  CAF_CHECK_EQUAL(names(t.due(t0 + 7s)), "b:1 c:1 ");
  t.on_answer("c:1");
  CAF_CHECK_EQUAL(names(t.due(t0)), "b:1 c:1 ");
}

CAF_TEST(silence ends a member and a report brings it back) {
  auto t = table();
  CAF_CHECK(t.on_report(node("b", 20), t0));
  CAF_CHECK_EQUAL(names(t.alive()), "a b ");
  CAF_CHECK(!t.on_tick(t0 + 4s));
  CAF_CHECK(t.on_tick(t0 + 5s));
  CAF_CHECK_EQUAL(names(t.alive()), "a ");
  CAF_CHECK(t.on_report(node("b", 20), t0 + 6s));
  CAF_CHECK_EQUAL(names(t.alive()), "a b ");
  // One that comes by itself is asked at once, however often it was not there.
  t.on_gone("b", "b20");
  for (int i = 0; i < 9; ++i) t.on_failure("b:1", t0 + 6s);
  CAF_CHECK(t.due(t0 + 7s).empty());
  CAF_CHECK(t.on_report(node("b", 20), t0 + 7s));
  CAF_CHECK_EQUAL(names(t.due(t0 + 7s)), "b:1 ");
  t.on_gone("b", "older");
  CAF_CHECK_EQUAL(names(t.alive()), "a b ");
  t.on_gone("b", "b20");
  CAF_CHECK_EQUAL(names(t.alive()), "a ");
}

CAF_TEST(a name belongs to one living node) {
  auto t = table();
  CAF_CHECK(code_of(t.on_report(node("a", 30), t0)) == errc::conflict);
  CAF_CHECK(t.on_report(node("a", 10), t0));  // its own echo
  CAF_CHECK(t.on_report(node("b", 20), t0));
  auto other = node("b", 25);
  other.address = "elsewhere:1";
  CAF_CHECK(code_of(t.on_report(other, t0)) == errc::conflict);
  CAF_CHECK(t.on_report(node("b", 26), t0));                             // the same place: it was started again
  CAF_CHECK(code_of(t.on_report(node("b", 20), t0)) == errc::conflict);  // a late word of the old start
  t.on_gone("b", "b26");
  CAF_CHECK(t.on_report(other, t0));  // the name is free
}

CAF_TEST(another protocol is refused by name) {
  auto t = table();
  auto b = node("b", 20);
  b.protocol = 2;
  const auto ok = t.on_report(b, t0);
  CAF_CHECK(code_of(ok) == errc::not_supported);
  CAF_CHECK(ok.failure().text.find("\"b\" at b:1") != std::string::npos);
  CAF_CHECK_EQUAL(names(t.alive()), "a ");
}

CAF_TEST(the home is where the data are) {
  auto t = table();
  CAF_CHECK_EQUAL(t.home_of("mail").node, "");
  CAF_CHECK(t.on_report(node("b", 20, {claim(1, 5)}), t0));
  CAF_CHECK_EQUAL(t.home_of("mail").node, "b");
  CAF_CHECK(t.home_of("mail").alive);
  t.on_gone("b", "b20");
  CAF_CHECK_EQUAL(t.home_of("mail").node, "b");  // on its disk still
  CAF_CHECK(!t.home_of("mail").alive);
}

CAF_TEST(what was in memory is gone with its node) {
  auto t = table();
  CAF_CHECK(t.on_report(node("b", 20, {claim(1, 5, "channel")}), t0));
  CAF_CHECK_EQUAL(t.home_of("mail").node, "b");
  t.on_gone("b", "b20");
  CAF_CHECK_EQUAL(t.home_of("mail").node, "");
}

CAF_TEST(the higher epoch counts and then data and then who was first) {
  auto t = table({claim(1, 9)});
  CAF_CHECK(t.on_report(node("b", 20, {claim(2, 0)}), t0));
  CAF_CHECK_EQUAL(t.home_of("mail").node, "b");
  CAF_CHECK_EQUAL(t.home_of("mail").rival, "");
  auto u = table({claim(1, 0)});
  CAF_CHECK(u.on_report(node("b", 20, {claim(1, 3)}), t0));
  CAF_CHECK_EQUAL(u.home_of("mail").node, "b");
  CAF_CHECK_EQUAL(u.home_of("mail").rival, "");
  auto v = table({claim(1, 0)});
  CAF_CHECK(v.on_report(node("b", 20, {claim(1, 0)}), t0));
  CAF_CHECK_EQUAL(v.home_of("mail").node, "a");
}

CAF_TEST(two homes with data are told by name) {
  auto t = table({claim(1, 4)});
  CAF_CHECK(t.on_report(node("b", 20, {claim(1, 3)}), t0));
  CAF_CHECK_EQUAL(t.home_of("mail").node, "a");
  CAF_CHECK_EQUAL(t.home_of("mail").rival, "b");
}

CAF_TEST(of those that would begin a queue the first one does) {
  auto t = table({claim(0, 0)});
  CAF_CHECK(t.first_candidate("mail"));
  CAF_CHECK(t.on_report(node("b", 5, {claim(0, 0)}), t0));
  CAF_CHECK(!t.first_candidate("mail"));
  auto cordoned = node("b", 5, {claim(0, 0)});
  cordoned.cordoned = true;
  CAF_CHECK(t.on_report(cordoned, t0));
  CAF_CHECK(t.first_candidate("mail"));
  t.cordon(true);
  CAF_CHECK(!t.first_candidate("mail"));
}
