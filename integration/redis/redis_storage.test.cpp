#define CAF_SUITE redis_storage
#include "integration/redis/redis_storage.hpp"

#include "integration/redis/redis_owner.hpp"
#include "tests/contract/failing_storage.hpp"
#include "tests/contract/storage_contract.hpp"
#include "tests/support/redis_proxy.hpp"
#include "tests/support/redis_server.hpp"

#include <caf/test/unit_test.hpp>

using namespace caravan;
using namespace caravan::testing_support;
using namespace std::chrono_literals;

namespace {

redis_server& server() {
  static redis_server one;
  return one;
}

// A queue of its own for each place; whoever opens it owns it, under a new epoch.
struct queue_place {
  explicit queue_place(const toolbox::clock& c, redis_options o = server().options())
      : clock(&c), client(std::make_shared<redis_client>(o)) {
    static int next = 0;
    name = "q" + std::to_string(++next) + "_queue";
  }
  std::uint64_t own(const std::string& who, std::chrono::milliseconds lease = 10s) {
    redis_owner o(*client, name, who);
    return o.acquire(lease).value().epoch;
  }
  std::unique_ptr<storage> open(std::uint64_t epoch, unique_policy u = {}, std::size_t length = 0,
                                std::chrono::milliseconds window = 30min) {
    redis_storage_options o;
    o.client = client;
    o.queue_full_name = name;
    o.set_full_name = name + "_unique";
    o.unique = u;
    o.idempotency_window = window;
    o.epoch = epoch;
    o.length = length;
    o.clock = clock;
    return open_redis_storage(std::move(o)).value();
  }
  const toolbox::clock* clock;
  std::shared_ptr<redis_client> client;
  std::string name;
};

contract::make_place places(redis_options o) {
  return [o](const toolbox::clock& clock) {
    auto place = std::make_shared<queue_place>(clock, o);
    return contract::place{[place](unique_policy unique, std::chrono::milliseconds window) -> std::unique_ptr<storage> {
                             return place->open(place->own("me"), unique, 0, window);
                           },
                           true};
  };
}

std::vector<std::string> keys_left(redis_client& c) {
  std::vector<std::string> names;
  const auto found = c.command({"KEYS", "*"}).value();
  for (const auto& k : found.items) names.push_back(k.text);
  return names;
}

std::string joined(const std::vector<record>& records) {
  std::string out;
  for (const auto& r : records) out += r.payload;
  return out;
}

}  // namespace

CAF_TEST(redis keeps the storage contract) { check_storage_contract(places(server().options())); }

CAF_TEST(redis keeps the storage contract while replies get lost) {
  redis_proxy proxy(server().port());
  redis_options o;
  o.address = config::parse_redis_address("redis://127.0.0.1:" + std::to_string(proxy.port())).value();
  proxy.set(redis_proxy::mode::lose_replies, 0.01);
  check_storage_contract(places(o));
  CAF_CHECK(proxy.injected() > 0);
}

CAF_TEST(an epoch that is over changes nothing) {
  toolbox::manual_clock clock;
  queue_place p(clock);
  const auto old_epoch = p.own("old", 1ms);
  const auto old_store = p.open(old_epoch, {unique_policy::until::done, {}});
  auto r = contract::item("a");
  CAF_REQUIRE(old_store->append({&r, 1}, clock.wall()));
  CAF_REQUIRE(eventually([&] { return p.own("new", 10s) != 0; }));
  const auto epoch = p.own("new");
  CAF_CHECK(epoch > old_epoch);
  const auto now_store = p.open(epoch, {unique_policy::until::done, {}});
  const auto is_fenced = [](const auto& answer) { return !answer && answer.failure().code == errc::fenced; };
  auto b = contract::item("b");
  const auto ref = ref_of(r);
  const record_move move{ref, r};
  CAF_CHECK(is_fenced(old_store->append({&b, 1}, clock.wall())));
  CAF_CHECK(is_fenced(old_store->erase({&ref, 1}, {})));
  CAF_CHECK(is_fenced(old_store->update({&move, 1})));
  CAF_CHECK(is_fenced(old_store->release({&ref, 1})));
  CAF_CHECK(is_fenced(old_store->clear(record_state::waiting, no_item_limit)));
  CAF_CHECK(is_fenced(old_store->adopt(10)));
  const auto left = now_store->read(record_state::waiting, {}, 10).value();
  CAF_REQUIRE_EQUAL(left.size(), 1u);
  CAF_CHECK_EQUAL(left[0].payload, "a");
  CAF_CHECK(now_store->key_owner(r.digest).value() == r.id);
  CAF_CHECK(now_store->erase({&ref, 1}, {}));
}

CAF_TEST(one owner at a time and epochs that only grow) {
  toolbox::manual_clock clock;
  queue_place p(clock);
  redis_owner a(*p.client, p.name, "a#1");
  redis_owner b(*p.client, p.name, "b#1");
  const auto first = a.acquire(60s).value();
  CAF_CHECK(first.epoch > 0);
  const auto refused = b.acquire(60s).value();
  CAF_CHECK_EQUAL(refused.epoch, 0u);
  CAF_CHECK_EQUAL(refused.holder, "a#1");
  CAF_CHECK(refused.left > 50s && refused.left <= 60s);
  CAF_CHECK(a.acquire(60s).value().epoch == first.epoch);  // a repeat, its answer may have been lost
  CAF_CHECK(a.renew(first.epoch, 60s));
  CAF_CHECK(a.give_up(first.epoch));
  const auto second = b.acquire(1ms).value();
  CAF_CHECK(second.epoch > first.epoch);
  const auto late = a.renew(first.epoch, 60s);
  CAF_CHECK(!late && late.failure().code == errc::fenced);
  CAF_CHECK(a.give_up(first.epoch));  // harmless
  CAF_CHECK(eventually([&] { return p.client->command({"EXISTS", "caravan:{" + p.name + "}:owner"})->number == 0; }));
  CAF_CHECK(b.renew(second.epoch, 60s));  // ran out, but nobody took it
  CAF_CHECK_EQUAL(a.acquire(60s).value().holder, "b#1");
  CAF_CHECK(p.client->command({"FLUSHALL"}));
  CAF_CHECK(!b.renew(second.epoch, 60s));
  const auto third = a.acquire(60s).value();
  CAF_CHECK(third.epoch > second.epoch);  // nothing is left to count from but the time
}

CAF_TEST(pushes of other nodes are adopted in order and once) {
  toolbox::manual_clock clock;
  queue_place p(clock);
  const auto owner = p.open(p.own("owner"));
  const auto other = p.open(0);
  const auto push = [&](storage& s, const std::string& text, wall_time due = {}) {
    auto r = contract::item(text);
    r.due = due;
    const auto result = s.append({&r, 1}, clock.wall());
    CAF_REQUIRE(result);
    return result->front().id;
  };
  const auto a = push(*owner, "a");
  const auto b = push(*other, "b");
  const auto c = push(*other, "c");
  push(*other, "later", clock.wall() + 1h);
  CAF_CHECK(a < b && b < c);
  // Not in line before the owner knows of them.
  CAF_CHECK_EQUAL(joined(owner->read(record_state::waiting, {}, 10).value()), "a");
  const auto found = owner->find(b).value();
  CAF_CHECK(found && found->payload == "b");
  const auto d = push(*owner, "d");  // adopts first
  CAF_CHECK(c < d);
  CAF_CHECK_EQUAL(joined(owner->take_adopted()), "bclater");
  CAF_CHECK_EQUAL(joined(owner->read(record_state::waiting, {}, 10).value()), "abcd");
  CAF_CHECK_EQUAL(joined(owner->read(record_state::delayed, {}, 10).value()), "later");
  CAF_CHECK_EQUAL(owner->adopt(10).value(), 0u);
  CAF_CHECK(owner->take_adopted().empty());
  // Erased before the owner's next word about them: they must not come back.
  push(*other, "e");
  CAF_CHECK_EQUAL(owner->adopt(10).value(), 1u);
  const auto e = owner->take_adopted();
  const auto ref = ref_of(e[0]);
  CAF_CHECK(owner->erase({&ref, 1}, {}));
  push(*other, "f");
  const auto next = p.open(p.own("owner"));
  CAF_CHECK_EQUAL(joined(next->read(record_state::waiting, {}, 10).value()), "abcdf");
  CAF_CHECK_EQUAL(next->count().waiting, 5u);
  // An adoption whose answer was lost is answered again.
  push(*other, "g");
  const auto twin = p.open(p.own("owner"));
  push(*other, "h");
  CAF_CHECK_EQUAL(next->adopt(1).value(), 1u);
  CAF_CHECK_EQUAL(twin->adopt(1).value(), 1u);
  CAF_CHECK_EQUAL(joined(next->take_adopted()), joined(twin->take_adopted()));
  // Who does not own it may not change rows.
  CAF_CHECK(other->erase({&ref, 1}, {}).failure().code == errc::fenced);
  CAF_CHECK(other->update(std::vector<record_move>{{ref, e[0]}}).failure().code == errc::fenced);
  CAF_CHECK(other->release({&ref, 1}).failure().code == errc::fenced);
  CAF_CHECK_EQUAL(other->adopt(1).value(), 0u);
  CAF_CHECK(other->clear(record_state::waiting, no_item_limit).failure().code == errc::fenced);
}

CAF_TEST(an append whose answer never came is found or never runs) {
  toolbox::manual_clock clock;
  redis_proxy proxy(server().port());
  redis_options o;
  o.address = config::parse_redis_address("redis://127.0.0.1:" + std::to_string(proxy.port())).value();
  o.give_up_after = 1ms;
  o.command_timeout = 200ms;
  o.connect_timeout = 200ms;
  for (const bool unique : {false, true}) {
    queue_place p(clock, o);
    const unique_policy policy{unique ? unique_policy::until::done : unique_policy::until::none, {}};
    const auto store = p.open(p.own("owner"), policy);
    std::vector<record> known{contract::item("a")};
    CAF_REQUIRE(store->append(known, clock.wall()));
    // It runs, its answer is lost.
    proxy.set(redis_proxy::mode::lose_replies, 1);
    std::vector<record> unsure{contract::item("b"), contract::item("a"), contract::item("c")};
    const auto lost = store->append(unsure, clock.wall());
    CAF_REQUIRE(!lost);
    CAF_CHECK(lost.failure().code == errc::backend_failed);
    CAF_CHECK(!unsure[0].id);
    CAF_CHECK(!store->adopt(10));  // nothing is known yet
    proxy.set(redis_proxy::mode::pass);
    auto d = contract::item("d");
    CAF_REQUIRE(store->append({&d, 1}, clock.wall()));
    CAF_CHECK_EQUAL(joined(store->take_adopted()), unique ? "bc" : "bac");
    CAF_CHECK_EQUAL(joined(store->read(record_state::waiting, {}, 10).value()), unique ? "abcd" : "abacd");
    // It never arrived, and must not arrive later either.
    proxy.set(redis_proxy::mode::black_hole);
    auto e = contract::item("e");
    CAF_REQUIRE(!store->append({&e, 1}, clock.wall()));
    proxy.set(redis_proxy::mode::pass);
    CAF_REQUIRE(eventually([&] { return store->adopt(10).has_value(); }));
    const auto before = joined(store->take_adopted());
    CAF_CHECK_EQUAL(joined(store->read(record_state::waiting, {}, 10).value()), (unique ? "abcd" : "abacd") + before);
  }
}

CAF_TEST(what waits for adoption counts against the length and holds its keys) {
  toolbox::manual_clock clock;
  queue_place p(clock);
  const unique_policy done{unique_policy::until::done, {}};
  const auto other = p.open(0, done, 3);
  std::vector<record> two{contract::item("a"), contract::item("b")};
  CAF_REQUIRE(other->append(two, clock.wall()));
  std::vector<record> more{contract::item("c"), contract::item("d")};
  const auto no = other->append(more, clock.wall());
  CAF_REQUIRE(!no);
  CAF_CHECK(no.failure().code == errc::queue_full);
  CAF_CHECK(no.failure().text.find("LENGTH = 3") != std::string::npos);
  auto again = contract::item("a");
  const auto twice = other->append({&again, 1}, clock.wall());
  CAF_REQUIRE(twice);
  CAF_CHECK(twice->front().what == append_result::kind::already_in_queue);
  const auto owner = p.open(p.own("owner"), done);
  CAF_CHECK_EQUAL(owner->count().waiting, 2u);
  auto same = contract::item("b");
  CAF_CHECK(owner->append({&same, 1}, clock.wall())->front().what == append_result::kind::already_in_queue);
}

CAF_TEST(ten thousand foreign rows are absorbed by a new owner) {
  toolbox::manual_clock clock;
  queue_place p(clock);
  const auto other = p.open(0);
  for (int i = 0; i < 12; ++i) {
    std::vector<record> part(1000, contract::item("x"));
    if (i == 7)
      for (auto& r : part) r.due = clock.wall() + 1h;
    CAF_REQUIRE(other->append(part, clock.wall()));
  }
  const auto owner = p.open(p.own("owner"));
  CAF_CHECK_EQUAL(owner->count().waiting, 11'000u);
  CAF_CHECK_EQUAL(owner->count().delayed, 1'000u);
  const auto all = owner->read(record_state::waiting, {}, 20'000).value();
  CAF_CHECK_EQUAL(all.size(), 11'000u);
  CAF_CHECK(std::is_sorted(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.id < b.id; }));
}

CAF_TEST(what cannot be read is set aside and told) {
  toolbox::manual_clock clock;
  queue_place p(clock);
  std::string told;
  redis_storage_options o;
  o.client = p.client;
  o.queue_full_name = p.name;
  o.set_full_name = p.name + "_unique";
  o.epoch = p.own("owner");
  o.clock = &clock;
  o.report = [&](const std::string& what) { told = what; };
  const auto store = open_redis_storage(o).value();
  std::vector<record> three{contract::item("a"), contract::item("b"), contract::item("c")};
  CAF_REQUIRE(store->append(three, clock.wall()));
  CAF_REQUIRE(p.client->command({"HSET", "caravan:{" + p.name + "}:items", to_string(three[1].id), "garbage"}));
  CAF_CHECK_EQUAL(joined(store->read(record_state::waiting, {}, 10).value()), "ac");
  CAF_CHECK(told.find(to_string(three[1].id)) != std::string::npos);
  const auto kept = p.client->command({"HGET", "caravan:{" + p.name + "}:damaged", to_string(three[1].id)}).value();
  CAF_CHECK_EQUAL(kept.text, "garbage");
  CAF_CHECK_EQUAL(store->count().waiting, 2u);
}

CAF_TEST(an empty queue leaves nothing behind but its numbers) {
  toolbox::manual_clock clock;
  queue_place p(clock);
  CAF_REQUIRE(p.client->command({"FLUSHALL"}));
  const auto epoch = p.own("owner");
  {
    const auto store = p.open(epoch, {unique_policy::until::done, {}});
    const auto other = p.open(0, {unique_policy::until::done, {}});
    std::vector<record> part;
    for (int i = 0; i < 50; ++i) part.push_back(contract::item("x" + std::to_string(i)));
    CAF_REQUIRE(store->append(part, clock.wall()));
    std::vector<record> foreign;
    for (int i = 0; i < 50; ++i) {
      foreign.push_back(contract::item("y" + std::to_string(i)));
      if (i % 2 == 0) foreign.back().due = clock.wall() + 1h;
    }
    CAF_REQUIRE(other->append(foreign, clock.wall()));
    while (store->adopt(1000).value() > 0) {
    }
    CAF_CHECK_EQUAL(store->take_adopted().size(), 50u);
    CAF_CHECK_EQUAL(store->clear(record_state::delayed, no_item_limit).value(), 25u);
    const auto all = store->read(record_state::waiting, {}, 1000).value();
    CAF_CHECK_EQUAL(all.size(), 75u);
    CAF_CHECK(store->erase(contract::refs(all), {}));
    CAF_CHECK(store->close());
  }
  redis_owner(*p.client, p.name, "owner").give_up(epoch).value();
  std::string left;
  for (const auto& k : keys_left(*p.client))
    if (p.client->command({"PTTL", k})->number == -1) left += k + " ";  // the others go by themselves
  CAF_CHECK_EQUAL(left, "caravan:{" + p.name + "}:meta ");
}
