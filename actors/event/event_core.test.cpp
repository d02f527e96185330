#define CAF_SUITE event_core
#include "actors/event/event_core.hpp"

#include "actors/event/event_pattern.hpp"

#include <caf/test/unit_test.hpp>

#include <string>

using namespace caravan;

namespace {

event news(const std::string& topic, const std::string& subject = {}, const std::string& body = "{}") {
  return {topic, subject, {}, {}, body};
}

event_wish wish(const std::string& topic, const std::string& subject = {}) {
  event_wish w;
  w.filters = {{topic, subject}};
  return w;
}

struct fixture {
  event_core core{"me", "run1", {3, 3, 4}};
  std::vector<event_subscriber_id> ready;

  event_core::fate tell(const std::string& topic, const std::string& subject = {}) {
    return core.on_event(news(topic, subject), false, ready);
  }
  std::vector<std::uint64_t> numbers(const event_core::handed& h) {
    std::vector<std::uint64_t> out;
    for (const auto& e : h.events) out.push_back(e->number);
    return out;
  }
  std::vector<std::uint64_t> taken(event_subscriber_id id) { return numbers(core.take(id, 100, 1'000'000)); }
};

using list = std::vector<std::uint64_t>;

}  // namespace

CAF_TEST(a pattern is made of words) {
  CAF_CHECK(matches("#", "a"));
  CAF_CHECK(matches("#", "a.b.c"));
  CAF_CHECK(matches("queue.*", "queue.paused"));
  CAF_CHECK(!matches("queue.*", "queue"));
  CAF_CHECK(!matches("queue.*", "queue.paused.twice"));
  CAF_CHECK(matches("app.#", "app"));
  CAF_CHECK(matches("app.#", "app.order.placed"));
  CAF_CHECK(matches("*.dead", "job.dead"));
  CAF_CHECK(matches("app.*.placed", "app.order.placed"));
  CAF_CHECK(!matches("job.dead", "job.dea"));
  CAF_CHECK(!matches("job", "job.dead"));
  CAF_CHECK(!matches("job.dead", "job"));
  for (const auto* good : {"a", "a.b", "*", "#", "a.#", "*.b", "A-1_b.c"}) CAF_CHECK(check_pattern(good));
  for (const auto* bad : {"", ".", "a.", ".a", "a..b", "#.a", "a*", "a b", "a.\xc3\xa4"}) {
    const auto checked = check_pattern(bad);
    CAF_CHECK(!checked && checked.failure().code == errc::invalid_argument);
  }
  CAF_CHECK(check_topic("app.order.placed"));
  CAF_CHECK(!check_topic("app.*"));
  CAF_CHECK(!check_topic(std::string(129, 'a')));
}

CAF_TEST_FIXTURE_SCOPE(event_core_tests, fixture)

CAF_TEST(everybody gets what they asked for in order) {
  core.add(1, wish("queue.*"));
  core.add(2, wish("#", "mail"));
  tell("queue.paused", "mail");
  tell("job.dead", "mail");
  tell("queue.resumed", "sms");
  const list first{1, 3};
  const list second{1, 2};
  const list said{1, 2, 2, 1};
  CAF_CHECK_EQUAL(ready, said);
  CAF_CHECK_EQUAL(taken(1), first);
  CAF_CHECK_EQUAL(taken(2), second);
  CAF_CHECK(core.take(1, 100, 1'000).empty());
}

CAF_TEST(an event says where it happened) {
  core.add(1, wish("#"));
  tell("app.x");
  const auto got = core.take(1, 1, 1);
  CAF_REQUIRE_EQUAL(got.events.size(), 1u);
  CAF_CHECK_EQUAL(got.events[0]->what.node, "me");
}

CAF_TEST(a full buffer drops the oldest and counts them) {
  auto w = wish("#");
  w.buffer = 2;
  core.add(1, w);
  core.add(2, wish("#"));
  for (int i = 0; i < 5; ++i) tell("app.x");
  const auto got = core.take(1, 100, 1'000);
  const list newest{4, 5};
  const list all{1, 2, 3, 4, 5};
  CAF_CHECK_EQUAL(numbers(got), newest);
  CAF_CHECK_EQUAL(got.dropped, 3u);
  CAF_CHECK_EQUAL(taken(2), all);
  CAF_CHECK_EQUAL(core.take(1, 1, 1).dropped, 0u);
  CAF_CHECK_EQUAL(core.status().dropped, 3u);
}

CAF_TEST(who is busy is not bothered) {
  core.add(1, wish("#"));
  core.set_busy(1, true);
  tell("app.x");
  CAF_CHECK(ready.empty());
  CAF_CHECK(core.take(1, 100, 1'000).empty());
  CAF_CHECK(core.has_some(1));
  core.set_busy(1, false);
  const list one{1};
  CAF_CHECK_EQUAL(taken(1), one);
}

CAF_TEST(a batch is bounded in number and in bytes) {
  core.add(1, wish("#"));
  for (int i = 0; i < 4; ++i) core.on_event(news("app.x", {}, std::string(100, 'x')), false, ready);
  CAF_CHECK_EQUAL(core.take(1, 1, 1'000).events.size(), 1u);
  CAF_CHECK_EQUAL(core.take(1, 100, 150).events.size(), 2u);
  CAF_CHECK_EQUAL(core.take(1, 100, 1).events.size(), 1u);  // one at least
}

CAF_TEST(drafts and what the gate holds back are told to nobody) {
  core.add(1, wish("#"));
  CAF_CHECK(core.on_event(news("app.x"), true, ready) == event_core::fate::draft);
  core.gate([](const event& e) {
    if (e.topic == "app.throws") throw 1;
    return e.topic != "app.secret";
  });
  CAF_CHECK(tell("app.secret") == event_core::fate::held_back);
  CAF_CHECK(tell("app.throws") == event_core::fate::held_back);
  CAF_CHECK(tell("app.open") == event_core::fate::told);
  CAF_CHECK_EQUAL(taken(1).size(), 1u);
  CAF_CHECK_EQUAL(core.recent({{"#", {}}}, 10).events.size(), 1u);
  const auto st = core.status();
  CAF_CHECK_EQUAL(st.drafts, 1u);
  CAF_CHECK_EQUAL(st.held_back, 2u);
  core.gate({});
  CAF_CHECK(tell("app.secret") == event_core::fate::told);
}

CAF_TEST(who comes back goes on where it was) {
  for (int i = 0; i < 3; ++i) tell("app.x");
  auto w = wish("#");
  w.after = {"run1", 1};
  core.add(1, w);
  auto got = core.take(1, 100, 1'000);
  const list rest{2, 3};
  CAF_CHECK(!got.gap);
  CAF_CHECK_EQUAL(numbers(got), rest);

  for (int i = 0; i < 3; ++i) tell("app.x");  // 1 to 3 are not kept any more
  w.after = {"run1", 3};
  core.add(2, w);
  got = core.take(2, 100, 1'000);
  const list kept{4, 5, 6};
  CAF_CHECK(!got.gap);
  CAF_CHECK_EQUAL(numbers(got), kept);
  w.after = {"run1", 2};
  core.add(3, w);
  got = core.take(3, 100, 1'000);
  CAF_CHECK(got.gap);
  CAF_CHECK_EQUAL(numbers(got), kept);
  w.after = {"another", 6};
  core.add(4, w);
  got = core.take(4, 100, 1'000);
  CAF_CHECK(got.gap);
  CAF_CHECK_EQUAL(numbers(got), kept);
}

CAF_TEST(what happens often does not push out the rest) {
  tell("queue.paused");
  for (int i = 0; i < 100; ++i) tell("job.handled");
  const auto all = core.recent({{"#", {}}}, 100);
  CAF_REQUIRE_EQUAL(all.events.size(), 4u);
  CAF_CHECK_EQUAL(all.events[0].what.topic, "queue.paused");
  CAF_CHECK_EQUAL(all.events[3].number, 101u);
  const auto two = core.recent({{"#", {}}}, 2);
  CAF_REQUIRE_EQUAL(two.events.size(), 2u);
  CAF_CHECK_EQUAL(two.events[0].number, 100u);
  CAF_CHECK_EQUAL(core.recent({{"queue.*", {}}}, 100).events.size(), 1u);
}

CAF_TEST(another node gets what happened here and no more than it wants) {
  auto w = wish("job.handled");
  w.is_node = true;
  core.add(1, w);
  tell("queue.paused");     // seldom: always
  tell("job.handled");      // often: wanted
  tell("job.pushed");       // often: not wanted
  tell("cluster.node_up");  // each node sees it by itself
  auto far = news("queue.paused");
  far.node = "other";
  core.on_remote(far, ready);
  const list told{1, 2};
  CAF_CHECK_EQUAL(taken(1), told);
  core.add(2, wish("#"));
  core.on_remote(far, ready);
  far.node = "me";  // what comes back was told here before
  core.on_remote(far, ready);
  const auto got = core.take(2, 100, 1'000);
  CAF_REQUIRE_EQUAL(got.events.size(), 1u);
  CAF_CHECK_EQUAL(got.events[0]->what.node, "other");
}

CAF_TEST(a new wish takes the place of the old one and what was buffered stays) {
  core.add(1, wish("app.a"));
  tell("app.a");
  core.add(1, wish("app.b"));
  tell("app.a");
  tell("app.b");
  const list both{1, 3};
  CAF_CHECK_EQUAL(taken(1), both);
  core.remove(1);
  tell("app.b");
  CAF_CHECK(!core.known(1));
  CAF_CHECK(core.take(1, 1, 1).empty());
}

CAF_TEST(topics are counted up to a limit) {
  for (int i = 0; i < 10; ++i) tell("app.t" + std::to_string(i));
  const auto st = core.status();
  CAF_CHECK_EQUAL(st.topics.size(), 5u);
  std::uint64_t others = 0;
  for (const auto& t : st.topics)
    if (t.topic == "(others)") others = t.count;
  CAF_CHECK_EQUAL(others, 6u);
}

CAF_TEST_FIXTURE_SCOPE_END()
