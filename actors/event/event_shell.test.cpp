#define CAF_SUITE event_shell
#include "actors/event/event_shell.hpp"

#include "tests/support/shell_fixture.hpp"

#include <deque>

using namespace caravan;
using namespace std::chrono_literals;

namespace {

/// Keeps what it gets, and answers only when it is let.
struct listener_state {
  static inline const char* name = "listener";
  std::vector<event_batch> got;
  std::deque<caf::typed_response_promise<ack>> open;
  bool answers = true;
  std::optional<errc> refused;
  listener_state() = default;
};
/// An int: answer the oldest batch.
using listener =
    event_subscriber_actor::extend<caf::reacts_to<subscribe_events>, caf::reacts_to<event_wishes>, caf::reacts_to<int>>;
using listener_pointer = listener::stateful_pointer<listener_state>;

listener::behavior_type listen(listener_pointer self, event_bus_actor bus) {
  const auto refused = [self](caf::error& e) { self->state.refused = from_caf(e).code; };
  return {[self](event_batch& b) -> caf::result<ack> {
            self->state.got.push_back(std::move(b));
            if (self->state.answers) return ack{};
            auto promise = self->make_response_promise<ack>();
            self->state.open.push_back(promise);
            return promise;
          },
          [=](const subscribe_events& s) { self->request(bus, caf::infinite, s).then([](ack) {}, refused); },
          [=](const event_wishes& w) { self->request(bus, caf::infinite, w).then([](ack) {}, refused); },
          [self](int) {
            self->state.open.front().deliver(ack{});
            self->state.open.pop_front();
          }};
}

struct slow_receiver final : event_receiver {
  next take(const std::string&, event_core::handed some) override {
    for (const auto& e : some.events) got.push_back(e->what.topic);
    dropped += some.dropped;
    return room ? next::ready : next::look_again;
  }
  [[nodiscard]] bool is_ready() override { return room; }
  std::vector<std::string> got;
  std::uint64_t dropped = 0;
  bool room = true;
};

struct throwing_receiver final : event_receiver {
  next take(const std::string&, event_core::handed) override { throw std::runtime_error("broken"); }
};

struct fixture : test::shell_fixture {
  std::shared_ptr<event_door> door = std::make_shared<event_door>(toolbox::real_clock::shared());
  std::vector<std::string> log;
  local_event_bus bus = sys.spawn(
      event_bus_behavior, event_bus_parts{"me", "run", door, [this](const std::string& t) { log.push_back(t); }});
  std::vector<listener> listeners;

  fixture() {
    door->connect([this] { caf::anon_send(bus, events_waiting{}); }, {});
    consume_messages();
  }
  ~fixture() {
    door->close();
    door->connect({}, {});
    for (auto& l : listeners) kill(l);
    kill(bus);
  }
  listener add(const std::string& topic) {
    auto l = sys.spawn(listen, event_bus_actor(bus));
    listeners.push_back(l);
    tell(l, subscribe_events{{{topic, {}}}});
    return l;
  }
  listener_state& state(const listener& l) { return deref<std::remove_pointer_t<listener_pointer>>(l).state; }
  void publish(const std::string& topic) {
    CAF_REQUIRE(door->publish({topic, {}, {}, {}, "{}"}, false));
    consume_messages();
  }
  std::vector<std::string> topics(const listener& l) {
    std::vector<std::string> out;
    for (const auto& b : state(l).got)
      for (const auto& e : b.events) out.push_back(e.topic);
    return out;
  }
  event_subscriber_id subscribe(std::shared_ptr<event_receiver> to, std::size_t buffer = 1'000) {
    event_wish w;
    w.filters = {{"#", {}}};
    w.buffer = buffer;
    const auto id = door->subscribe(std::move(w), std::move(to));
    consume_messages();
    return id;
  }
  std::uint64_t subscribers() { return must<event_status>(bus, get_event_status{}).subscribers; }
};

using texts = std::vector<std::string>;

}  // namespace

CAF_TEST_FIXTURE_SCOPE(event_shell_tests, fixture)

CAF_TEST(an actor gets one batch at a time) {
  const auto l = add("app.#");
  state(l).answers = false;
  for (const auto* t : {"app.a", "app.b", "app.c", "job.dead"}) publish(t);
  const texts one{"app.a"};
  const texts three{"app.a", "app.b", "app.c"};
  CAF_CHECK_EQUAL(topics(l), one);
  tell(l, 1);
  CAF_CHECK_EQUAL(topics(l), three);
  CAF_CHECK_EQUAL(state(l).got.size(), 2u);
}

CAF_TEST(an actor that does not answer is left out and hurts nobody) {
  const auto dead = add("#");
  const auto good = add("#");
  state(dead).answers = false;
  publish("app.a");
  pass(6s);
  CAF_CHECK_EQUAL(subscribers(), 1u);
  publish("app.b");
  const texts one{"app.a"};
  const texts both{"app.a", "app.b"};
  CAF_CHECK_EQUAL(topics(dead), one);
  CAF_CHECK_EQUAL(topics(good), both);
  tell(dead, subscribe_events{{{"#", {}}}});  // it may come back
  CAF_CHECK_EQUAL(subscribers(), 2u);
}

CAF_TEST(an actor that asks again changes its wish) {
  const auto l = add("app.a");
  tell(l, subscribe_events{{{"app.b", {}}}});
  publish("app.a");
  publish("app.b");
  const texts only{"app.b"};
  CAF_CHECK_EQUAL(topics(l), only);
  CAF_CHECK_EQUAL(subscribers(), 1u);
  tell(l, subscribe_events{{{"not a pattern", {}}}});
  CAF_CHECK(state(l).refused == errc::invalid_argument);
}

CAF_TEST(who has no room is asked again and misses a counted number) {
  const auto slow = std::make_shared<slow_receiver>();
  slow->room = false;
  subscribe(slow, 2);
  publish("app.a");  // it takes this one before it says that it is full
  CAF_CHECK_EQUAL(slow->got.size(), 1u);
  for (const auto* t : {"app.b", "app.c", "app.d", "app.e"}) publish(t);
  pass(1s, 50ms);
  CAF_CHECK_EQUAL(slow->got.size(), 1u);
  slow->room = true;
  pass(100ms, 50ms);
  const texts rest{"app.a", "app.d", "app.e"};
  CAF_CHECK_EQUAL(slow->got, rest);
  CAF_CHECK_EQUAL(slow->dropped, 2u);
  CAF_CHECK_EQUAL(timers(), 0u);  // nobody is asked any more
}

CAF_TEST(a receiver that throws hurts no other) {
  subscribe(std::make_shared<throwing_receiver>());
  const auto good = std::make_shared<slow_receiver>();
  subscribe(good);
  publish("app.a");
  publish("app.b");
  CAF_CHECK_EQUAL(good->got.size(), 2u);
  CAF_CHECK_EQUAL(subscribers(), 1u);
  CAF_REQUIRE_EQUAL(log.size(), 1u);
  CAF_CHECK(log[0].find("broken") != std::string::npos);
}

CAF_TEST(another node gets each event once and nothing comes back to it) {
  const auto node = add("none");
  tell(node, event_wishes{"other", {{"job.handled", {}}}});
  CAF_CHECK_EQUAL(must<event_status>(bus, get_event_status{}).nodes, 1u);
  const auto here = add("#");
  publish("queue.paused");
  publish("app.a");
  const texts both{"queue.paused", "app.a"};
  CAF_CHECK_EQUAL(topics(node), both);

  event far{"queue.moved", "q", "other", {}, "{}"};
  must<ack>(bus, event_batch{{far}, 3});
  const texts all{"queue.paused", "app.a", "queue.moved"};
  CAF_CHECK_EQUAL(topics(here), all);
  CAF_CHECK_EQUAL(topics(node), both);
  CAF_CHECK_EQUAL(log.size(), 1u);  // three of its events are missing
  CAF_CHECK_EQUAL(must<event_list>(bus, get_recent_events{{{"#", {}}}, 10}).events.size(), 3u);

  // The same node says again what it wants, and then another start of it.
  tell(node, event_wishes{"other", {}});
  CAF_CHECK_EQUAL(must<event_status>(bus, get_event_status{}).nodes, 1u);
  const auto second = add("none");
  tell(second, event_wishes{"other", {}});
  CAF_CHECK_EQUAL(must<event_status>(bus, get_event_status{}).nodes, 1u);
  publish("app.b");
  CAF_CHECK_EQUAL(topics(node), both);
  const texts new_one{"app.b"};
  CAF_CHECK_EQUAL(topics(second), new_one);
}

CAF_TEST(a node that wants to listen is asked whether it does) {
  const auto node = sys.spawn(listen, event_bus_actor(bus));
  listeners.push_back(node);
  std::optional<bool> answered;
  // Here the other node is this bus itself: it answers.
  tell(bus, wish_at_node{caf::actor_cast<caf::strong_actor_ptr>(bus), [&](bool ok) { answered = ok; }});
  CAF_CHECK(answered == true);
  auto gone = sys.spawn(listen, event_bus_actor(bus));
  const auto handle = caf::actor_cast<caf::strong_actor_ptr>(gone);
  kill(gone);
  answered.reset();
  tell(bus, wish_at_node{handle, [&](bool ok) { answered = ok; }});
  CAF_CHECK(answered == false);
}

CAF_TEST_FIXTURE_SCOPE_END()
