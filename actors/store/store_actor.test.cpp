#define CAF_SUITE store_actor
#include "actors/store/store_actor.hpp"

#include "tests/support/model_storage.hpp"

#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/shell_fixture.hpp"

using namespace caravan;
using namespace std::chrono_literals;

namespace {

using texts = std::vector<std::string>;

/// Notes its calls, and answers or throws what it is told to.
class strange_storage final : public test::model_storage {
public:
  using model_storage::model_storage;
  texts calls;
  std::optional<error> refuse_with;
  int throwing = 0;

  expected<void> erase(std::span<const record_ref> refs, item_id low) override {
    return call("erase", [&] { return model_storage::erase(refs, low); });
  }
  expected<void> update(std::span<const record_move> moves) override {
    return call("update", [&] { return model_storage::update(moves); });
  }
  expected<void> release(std::span<const record_ref> refs) override {
    return call("release", [&] { return model_storage::release(refs); });
  }
  expected<std::size_t> clear(record_state state, item_id through) override {
    return call("clear", [&] { return model_storage::clear(state, through); });
  }
  expected<std::vector<record>> read(record_state state, read_cursor after, std::size_t max) override {
    return call("read", [&] { return model_storage::read(state, after, max); });
  }
  expected<std::optional<record>> find(item_id id) override {
    return call("find", [&] { return model_storage::find(id); });
  }

private:
  template <class Call>
  auto call(const char* what, Call real) -> decltype(real()) {
    calls.emplace_back(what);
    if (throwing > 0) {
      if (--throwing % 2 == 0) throw std::runtime_error("no luck");
      throw 42;
    }
    if (refuse_with) return *refuse_with;
    return real();
  }
};

struct fixture : test::shell_fixture {
  test::virtual_clock clock{sched.clock()};
  std::shared_ptr<strange_storage> store =
    std::make_shared<strange_storage>(unique_policy{unique_policy::until::done});
  std::shared_ptr<intake> door;
  std::shared_ptr<trouble> health = std::make_shared<trouble>();
  store_actor keeper;

  fixture() {
    intake::limits limits;
    limits.queue = "mail";
    limits.length = 3;
    limits.unique = true;
    door = std::make_shared<intake>(store, limits, 0, [] {}, clock);
    keeper = sys.spawn(store_behavior, store, door, health);
    consume_messages();
  }
  ~fixture() override { kill(keeper); }

  std::shared_ptr<test::answer<push_results>> push(const texts& payloads) {
    push_items p;
    for (const auto& text : payloads) {
      record r;
      r.payload = text;
      p.items.push_back(std::move(r));
    }
    return ask<push_results>(keeper, std::move(p));
  }
  record_ref only_row() { return ref_of(store->rows().begin()->second); }
  store_changes erase(const record_ref& ref) {
    store_changes c;
    c.erase.push_back(ref);
    c.low_water = ref.id;
    return c;
  }
};

}  // namespace

CAF_TEST_FIXTURE_SCOPE(store_actor_tests, fixture)

CAF_TEST(pushes are answered one by one) {
  const auto first = push({"a", "b"});
  CAF_REQUIRE(first->value);
  CAF_CHECK(first->value->items[0].stored);
  const auto second = push({"b"});
  CAF_REQUIRE(second->value);
  CAF_CHECK(!second->value->items[0].stored);
  CAF_CHECK(!second->value->items[0].repeated);
  CAF_CHECK_EQUAL(second->value->items[0].id, first->value->items[1].id);
}

CAF_TEST(a push without room is refused and does not wait) {
  push({"a", "b", "c"});
  CAF_CHECK(push({"d"})->code() == errc::queue_full);
  CAF_CHECK(health->text().empty());
}

CAF_TEST(changes are carried out in their order) {
  push({"a", "b"});
  auto& c = store->calls;
  const auto rows = store->rows();
  const auto a = rows.begin()->second;
  const auto b = rows.rbegin()->second;
  auto dead = a;
  dead.state = record_state::dead;
  store_changes changes;
  changes.move.push_back({ref_of(a), dead});
  changes.erase.push_back(ref_of(b));
  changes.low_water = b.id;
  changes.release.push_back(ref_of(b));
  changes.clear = {record_state::waiting, record_state::dead};
  changes.clear_through = no_item_limit;
  CAF_CHECK(ask<ack>(keeper, changes)->value);
  CAF_CHECK_EQUAL(c, (texts{"update", "erase", "release", "clear", "clear"}));
  CAF_CHECK(store->rows().empty());
}

CAF_TEST(empty changes are answered and call nothing) {
  CAF_CHECK(ask<ack>(keeper, store_changes{})->value);
  CAF_CHECK(store->calls.empty());
}

CAF_TEST(reads and finds answer what is there) {
  push({"a", "b"});
  const auto read = ask<store_records>(keeper, store_load{record_state::waiting, {}, 1});
  CAF_REQUIRE(read->value);
  CAF_REQUIRE_EQUAL(read->value->records.size(), 1u);
  CAF_CHECK_EQUAL(read->value->records[0].payload, "a");
  const auto id = read->value->records[0].id;
  CAF_CHECK_EQUAL(must<store_records>(keeper, store_find{id}).records.size(), 1u);
  CAF_CHECK(must<store_records>(keeper, store_find{{1}}).records.empty());
}

CAF_TEST(a change that fails is tried every second and all that is in order waits behind it) {
  push({"a"});
  const auto ref = only_row();
  store->fail_next(3);
  const auto erased = ask<ack>(keeper, erase(ref));
  const auto read = ask<store_records>(keeper, store_load{record_state::waiting, {}, 9});
  const auto found = ask<store_records>(keeper, store_find{ref.id});
  CAF_CHECK(!*erased);
  CAF_CHECK(!*read);
  CAF_CHECK(!*found);
  CAF_CHECK_EQUAL(health->text(), "the model storage fails on request");
  CAF_CHECK_EQUAL(timers(), 1u);
  pass(2'900ms);
  CAF_CHECK(!*erased);
  CAF_CHECK_EQUAL(store->calls.size(), 3u);
  pass(100ms);
  CAF_CHECK(erased->value);
  CAF_REQUIRE(read->value);
  CAF_CHECK(read->value->records.empty());
  CAF_REQUIRE(found->value);
  CAF_CHECK(found->value->records.empty());
  CAF_CHECK(health->text().empty());
  CAF_CHECK_EQUAL(timers(), 0u);
}

CAF_TEST(pushes do not wait behind changes and do not hide their trouble) {
  push({"a"});
  store->fail_next(1);
  const auto erased = ask<ack>(keeper, erase(only_row()));
  CAF_CHECK(push({"b"})->value);
  CAF_CHECK(!health->text().empty());
  pass(1s);
  CAF_CHECK(erased->value);
  CAF_CHECK(health->text().empty());
}

CAF_TEST(a read that fails is answered at once) {
  push({"a"});
  store->fail_next(1);
  CAF_CHECK(ask<store_records>(keeper, store_load{record_state::waiting, {}, 9})->code() == errc::backend_failed);
  CAF_CHECK(!health->text().empty());
  store->fail_next(1);
  CAF_CHECK(ask<store_records>(keeper, store_find{{1}})->code() == errc::backend_failed);
  CAF_CHECK_EQUAL(must<store_records>(keeper, store_load{record_state::waiting, {}, 9}).records.size(), 1u);
  CAF_CHECK(health->text().empty());
  CAF_CHECK_EQUAL(timers(), 0u);
}

CAF_TEST(a push that fails names the trouble until the next success) {
  store->fail_next(1);
  CAF_CHECK(push({"a"})->code() == errc::backend_failed);
  CAF_CHECK(!health->text().empty());
  store->throw_next(1);
  CAF_CHECK(push({"a"})->code() == errc::backend_failed);
  CAF_CHECK(push({"a"})->value);
  CAF_CHECK(health->text().empty());
}

CAF_TEST(fenced and closed are final) {
  push({"a"});
  for (const auto code : {errc::fenced, errc::queue_closed}) {
    store->refuse_with = error{code, "not yours"};
    CAF_CHECK(ask<ack>(keeper, erase(only_row()))->code() == code);
    store_changes clear;
    clear.clear = {record_state::waiting};
    CAF_CHECK(ask<ack>(keeper, clear)->code() == code);
  }
  CAF_CHECK_EQUAL(timers(), 0u);
}

CAF_TEST(a storage that throws counts as one that failed) {
  push({"a"});
  store->throwing = 2;
  const auto erased = ask<ack>(keeper, erase(only_row()));
  CAF_CHECK(!*erased);
  CAF_CHECK(health->text().find("threw") != std::string::npos);
  pass(2s);
  CAF_CHECK(erased->value);
  store->throwing = 2;
  CAF_CHECK(ask<store_records>(keeper, store_load{record_state::waiting, {}, 9})->code() == errc::backend_failed);
  CAF_CHECK(ask<store_records>(keeper, store_find{{1}})->code() == errc::backend_failed);
  CAF_CHECK(ask<store_records>(keeper, store_find{{1}})->value);
}

CAF_TEST_FIXTURE_SCOPE_END()
