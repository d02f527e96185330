#define CAF_SUITE event_door
#include "actors/event/event_door.hpp"

#include "actors/event/event_function.hpp"
#include "tests/support/eventually.hpp"

#include <caf/test/unit_test.hpp>

#include <atomic>
#include <future>
#include <stdexcept>
#include <thread>

using namespace caravan;
using namespace caravan::testing_support;

namespace {

event_wish wish(const std::string& topic) {
  event_wish w;
  w.filters = {{topic, {}}};
  return w;
}

event news(const std::string& topic) { return {topic, {}, {}, {}, "{}"}; }

struct null_receiver final : event_receiver {
  next take(const std::string&, event_core::handed) override { return next::ready; }
};

event_core::handed handed(int n) {
  event_core::handed h;
  for (int i = 0; i < n; ++i)
    h.events.push_back(std::make_shared<const told_event>(
        told_event{static_cast<std::uint64_t>(i + 1), news("app.n" + std::to_string(i))}));
  return h;
}

const toolbox::clock& real() { return toolbox::real_clock::shared(); }

}  // namespace

CAF_TEST(what happens often is wanted only while somebody listens) {
  event_door door(real());
  CAF_CHECK(door.wants(event_topic::queue_paused));
  CAF_CHECK(!door.wants(event_topic::job_handled));
  const auto all = door.subscribe(wish("#"), std::make_shared<null_receiver>());
  const auto job = door.subscribe(wish("job.handled"), std::make_shared<null_receiver>());
  CAF_CHECK(door.wants(event_topic::job_handled));
  CAF_CHECK(door.wants(event_topic::lock_acquired));
  door.unsubscribe(all);
  CAF_CHECK(door.wants(event_topic::job_handled));
  CAF_CHECK(!door.wants(event_topic::lock_acquired));
  door.unsubscribe(job);
  CAF_CHECK(!door.wants(event_topic::job_handled));
  CAF_CHECK(door.wants(event_topic::queue_paused));
  std::vector<event_order> orders;
  door.take(orders);
  door.tell(event_topic::job_handled, {}, "{}");
  door.take(orders);
  CAF_CHECK(orders.empty());
}

CAF_TEST(the line is bounded and says so) {
  event_door door(real(), 3);
  for (int i = 0; i < 3; ++i) CAF_CHECK(door.publish(news("app.x"), false));
  const auto refused = door.publish(news("app.x"), false);
  CAF_CHECK(!refused && refused.failure().code == errc::queue_full);
  door.tell(event_topic::queue_paused, {}, "{}");
  door.publish_remote({news("app.y")});
  CAF_CHECK_EQUAL(door.refused(), 3u);
  // Who comes and goes is not news: it always gets in.
  const auto id = door.subscribe(wish("#"), std::make_shared<null_receiver>());
  door.unsubscribe(id);
  std::vector<event_order> orders;
  door.take(orders);
  CAF_CHECK_EQUAL(orders.size(), 5u);
  CAF_CHECK(door.publish(news("app.x"), false));
}

CAF_TEST(the bus is woken once for all that waits) {
  event_door door(real());
  int woken = 0;
  CAF_CHECK(door.publish(news("app.x"), false));
  door.connect([&] { ++woken; }, {});
  CAF_CHECK_EQUAL(woken, 1);  // for what came before there was a bus
  CAF_CHECK(door.publish(news("app.x"), false));
  CAF_CHECK_EQUAL(woken, 1);
  std::vector<event_order> orders;
  door.take(orders);
  CAF_CHECK(door.publish(news("app.x"), false));
  CAF_CHECK(door.publish(news("app.x"), false));
  CAF_CHECK_EQUAL(woken, 2);
}

CAF_TEST(other nodes are told what is wanted here) {
  event_door door(real());
  int changes = 0;
  door.connect({}, [&] { ++changes; });
  const auto a = door.subscribe(wish("job.*"), std::make_shared<null_receiver>());
  door.subscribe(wish("job.*"), std::make_shared<null_receiver>());
  auto far = wish("lock.*");
  far.is_node = true;
  const auto node = door.subscribe(far, std::make_shared<null_receiver>());
  CAF_CHECK_EQUAL(changes, 2);  // what another node wants is no wish of this one
  const auto wishes = door.wishes();
  CAF_REQUIRE_EQUAL(wishes.size(), 1u);
  CAF_CHECK_EQUAL(wishes[0].topic, "job.*");
  CAF_CHECK(door.wants(event_topic::lock_acquired));
  door.unsubscribe(node);
  door.unsubscribe(a);
  CAF_CHECK_EQUAL(changes, 3);
  CAF_CHECK_EQUAL(door.wishes().size(), 1u);
}

CAF_TEST(a closed door takes nothing and forgets who was waiting) {
  event_door door(real());
  // A receiver may come back to the door as it ends.
  struct leaving final : event_receiver {
    explicit leaving(event_door& d) : door(d) {}
    ~leaving() override { door.unsubscribe(1); }
    next take(const std::string&, event_core::handed) override { return next::ready; }
    event_door& door;
  };
  door.subscribe(wish("#"), std::make_shared<leaving>(door));
  door.close();
  CAF_CHECK(!door.wants(event_topic::queue_paused));
  const auto late = door.publish(news("app.x"), false);
  CAF_CHECK(!late && late.failure().code == errc::queue_closed);
  std::vector<event_order> orders;
  door.take(orders);
  CAF_CHECK(orders.empty());
}

CAF_TEST(publishers and subscribers on many threads lose nothing) {
  event_door door(real(), 1'000'000);
  std::atomic<int> woken{0};
  door.connect([&] { ++woken; }, {});
  std::atomic<bool> done{false};
  std::size_t taken = 0;
  std::thread bus([&] {
    std::vector<event_order> orders;
    while (!done) {
      door.take(orders);
      for (const auto& o : orders) taken += o.what == event_order::kind::event ? 1 : 0;
    }
    door.take(orders);
    for (const auto& o : orders) taken += o.what == event_order::kind::event ? 1 : 0;
  });
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 2'000; ++i) {
        const auto id = i % 10 == 0 ? door.subscribe(wish("job.*"), std::make_shared<null_receiver>()) : 0;
        door.tell(event_topic::queue_paused, "q", "{}");
        (void)door.wants(event_topic::job_handled);
        if (id != 0) door.unsubscribe(id);
      }
    });
  for (auto& t : threads) t.join();
  done = true;
  bus.join();
  CAF_CHECK_EQUAL(taken, 8'000u);
  CAF_CHECK(woken > 0);
}

CAF_TEST(a function that throws gets the next event all the same) {
  const auto door = std::make_shared<event_door>(real());
  std::atomic<int> calls{0};
  std::mutex mutex;
  std::vector<std::string> complaints;
  event_function f(
      door,
      [&](const event&) {
        ++calls;
        throw std::runtime_error("no");
      },
      [&](const std::string& text) {
        const std::lock_guard lock(mutex);
        complaints.push_back(text);
      });
  f.begin(7);
  CAF_CHECK(f.take("run", handed(5)) == event_receiver::next::will_tell);
  std::vector<event_order> orders;
  CAF_CHECK(eventually([&] {
    std::vector<event_order> some;
    door->take(some);
    for (auto& o : some) orders.push_back(std::move(o));
    return !orders.empty();
  }));
  CAF_CHECK_EQUAL(calls.load(), 5);
  CAF_CHECK(orders[0].what == event_order::kind::ready);
  CAF_CHECK_EQUAL(orders[0].id, 7u);
  f.close();
  CAF_CHECK_EQUAL(complaints.size(), 3u);  // the first, the second, the fourth
  CAF_CHECK(complaints[0].find("\"app.n0\": no") != std::string::npos);
  CAF_CHECK(f.take("run", handed(1)) == event_receiver::next::gone);
}

CAF_TEST(closing waits for the function that runs and stops the batch) {
  const auto door = std::make_shared<event_door>(real());
  std::promise<void> begun;
  std::promise<void> go_on;
  std::atomic<int> calls{0};
  event_function f(
      door,
      [&, gate = go_on.get_future().share()](const event&) {
        if (++calls == 1) begun.set_value();
        gate.wait();
      },
      [](const std::string&) {});
  f.begin(1);
  f.take("run", handed(5));
  begun.get_future().wait();
  std::atomic<bool> closed{false};
  std::thread closer([&] {
    f.close();
    closed = true;
  });
  CAF_CHECK(!closed);
  go_on.set_value();
  closer.join();
  CAF_CHECK(calls <= 5);
  const auto after = calls.load();
  CAF_CHECK(f.take("run", handed(1)) == event_receiver::next::gone);
  CAF_CHECK_EQUAL(calls.load(), after);
}

CAF_TEST(a function may end its own subscription) {
  const auto door = std::make_shared<event_door>(real());
  std::promise<void> ended;
  std::shared_ptr<event_function> f;
  std::promise<void> ready;
  f = std::make_shared<event_function>(
      door,
      [&, set = ready.get_future().share()](const event&) {
        set.wait();
        f->close();
        f.reset();
        ended.set_value();
      },
      [](const std::string&) {});
  f->begin(1);
  f->take("run", handed(1));
  ready.set_value();
  ended.get_future().wait();
  CAF_CHECK(!f);
}
