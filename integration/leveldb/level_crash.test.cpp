// What survives a power cut, and a full disk.
#define CAF_SUITE level_crash
#include "integration/leveldb/level_fixture.hpp"

#include "caf/test/unit_test.hpp"

#include <map>
#include <set>
#include <thread>

using namespace caravan;
using namespace caravan::level_tests;
using config::sync_mode;

namespace {

struct crash_fixture : level_fixture {
  level_options options(sync_mode sync, unique_policy policy = {until::done, {}}) {
    auto o = level_fixture::options();
    o.sync = sync;
    o.sync_interval = 10ms;
    o.unique = policy;
    o.env = disk.env();
    return o;
  }
  /// The machine stops now.
  void crash(std::unique_ptr<level_storage>& store) {
    disk.freeze();
    store.reset();
    disk.crash(datadir);
  }
  /// Exactly the records that are in line hold their keys, and whatever is gone can come again.
  void check_keys(level_storage& store, const std::vector<std::string>& payloads) {
    std::map<std::string, item_id> there;
    for (const auto state : {record_state::waiting, record_state::delayed})
      for (const auto& r : all(store, state)) there[r.payload] = r.id;
    for (const auto& payload : payloads) {
      const auto owner = store.key_owner(digest_of(payload)).value();
      const auto found = there.find(payload);
      if (owner.has_value() != (found != there.end())) CAF_FAIL("phantom or missing key of " << payload);
      if (owner && *owner != found->second) CAF_FAIL("wrong owner of " << payload);
    }
  }

  crash_env disk;
};

std::vector<std::string> numbered(int count) {
  std::vector<std::string> texts;
  for (int i = 0; i < count; ++i) texts.push_back("item " + std::to_string(i));
  return texts;
}

}  // namespace

CAF_TEST_FIXTURE_SCOPE(level_crash_tests, crash_fixture)

CAF_TEST(with SYNC always nothing acknowledged is lost) {
  auto store = open(options(sync_mode::always));
  const auto texts = numbered(200);
  for (const auto& t : texts) push(*store, item(t));
  auto first = all(*store)[0];
  record_move bury{ref_of(first), first};
  bury.to.state = record_state::dead;
  store->update(std::span{&bury, 1}).value();
  crash(store);
  store = open(options(sync_mode::always));
  CAF_CHECK_EQUAL(store->count().waiting, 199u);
  CAF_CHECK_EQUAL(store->count().dead, 1u);
  CAF_CHECK(contract::payloads(all(*store)) == std::vector<std::string>(texts.begin() + 1, texts.end()));
  check_keys(*store, texts);
}

CAF_TEST(with SYNC never only a suffix is lost and no key stays behind) {
  for (const auto policy : {until::start, until::done, until::time}) {
    reports.clear();
    fs::remove_all(datadir);
    auto store = open(options(sync_mode::never, {policy, 1h}));
    const auto texts = numbered(300);
    for (int i = 0; i < 100; ++i) push(*store, item(texts[static_cast<std::size_t>(i)]));
    store.reset();  // no sync at close either; what the engine itself wrote through is safe
    store = open(options(sync_mode::never, {policy, 1h}));
    for (int i = 100; i < 300; ++i) push(*store, item(texts[static_cast<std::size_t>(i)]));
    crash(store);
    store = open(options(sync_mode::never, {policy, 1h}));
    const auto left = contract::payloads(all(*store));
    CAF_MESSAGE(left.size() << " of 300 survived");
    CAF_CHECK(left.size() < 300);
    CAF_CHECK(left == std::vector<std::string>(texts.begin(), texts.begin() + static_cast<long>(left.size())));
    check_keys(*store, texts);
    for (auto i = left.size(); i < texts.size(); ++i) CAF_REQUIRE(push(*store, item(texts[i])));
    CAF_CHECK_EQUAL(store->count().waiting, 300u);
    CAF_CHECK(all(*store).size() == 300);
    CAF_CHECK(reports.empty());
  }
}

CAF_TEST(with SYNC interval what is older than the interval is safe) {
  auto store = open(options(sync_mode::interval));
  const auto texts = numbered(100);
  const auto before = disk.syncs();
  for (int i = 0; i < 50; ++i) push(*store, item(texts[static_cast<std::size_t>(i)]));
  for (int i = 0; i < 500 && disk.syncs() == before; ++i) std::this_thread::sleep_for(2ms);
  CAF_CHECK(disk.syncs() > before);
  std::this_thread::sleep_for(100ms);
  disk.freeze();
  for (int i = 50; i < 100; ++i) push(*store, item(texts[static_cast<std::size_t>(i)]));
  store.reset();
  disk.crash(datadir);
  store = open(options(sync_mode::interval));
  const auto left = contract::payloads(all(*store));
  CAF_CHECK(left == std::vector<std::string>(texts.begin(), texts.begin() + 50));
  check_keys(*store, texts);
}

CAF_TEST(an idle queue with SYNC interval does not sync) {
  auto store = open(options(sync_mode::interval));
  push(*store, item("x"));
  std::this_thread::sleep_for(200ms);
  const auto before = disk.syncs();
  std::this_thread::sleep_for(100ms);
  CAF_CHECK_EQUAL(disk.syncs(), before);
}

CAF_TEST(a lost push leaves no idempotency key behind) {
  auto o = options(sync_mode::never, {});
  auto store = open(o);
  auto r = item("x");
  r.idempotency_key = "once";
  push(*store, r);
  crash(store);
  store = open(o);
  CAF_CHECK_EQUAL(store->count().waiting, 0u);
  CAF_CHECK(store->append(std::span{&r, 1}, clock.wall()).value()[0].what == append_result::kind::stored);
}

CAF_TEST(any history with crashes keeps what was acknowledged) {
  for (unsigned seed = 1; seed <= 12; ++seed) {
    std::mt19937 dice{seed};
    fs::remove_all(datadir);
    auto store = open(options(sync_mode::always));
    std::map<item_id, record_state> sure;  // acknowledged, never erased
    std::set<item_id> gone;                // erased; may come back after a crash
    std::vector<std::string> texts;
    for (int step = 0; step < 150; ++step) {
      clock.advance(1ms);
      switch (dice() % 6) {
        case 0:
        case 1: {
          std::vector<record> records;
          for (unsigned i = 0; i <= dice() % 4; ++i) {
            texts.push_back(std::to_string(seed) + "/" + std::to_string(step) + "/" + std::to_string(i));
            records.push_back(item(texts.back()));
            if (dice() % 3 == 0) records.back().due = clock.wall() + 5s;
          }
          store->append(records, clock.wall()).value();
          for (const auto& r : records) sure[r.id] = r.state;
          break;
        }
        case 2:
        case 3: {
          const auto state = dice() % 2 ? record_state::waiting : record_state::delayed;
          const auto some = store->read(state, {}, 1 + dice() % 3).value();
          store->erase(refs(some), {}).value();
          for (const auto& r : some) {
            sure.erase(r.id);
            gone.insert(r.id);
          }
          break;
        }
        case 4: {
          const auto some = store->read(dice() % 2 ? record_state::waiting : record_state::delayed, {}, 2).value();
          std::vector<record_move> moves;
          for (const auto& r : some) {
            moves.push_back({ref_of(r), r});
            moves.back().to.state = static_cast<record_state>(dice() % 3);
            moves.back().to.due = clock.wall() + std::chrono::milliseconds{dice() % 9000};
          }
          store->update(moves).value();
          for (const auto& m : moves)
            if (!gone.contains(m.to.id)) sure[m.to.id] = m.to.state;
          break;
        }
        default:
          if (dice() % 5 > 0) break;
          crash(store);
          store = open(options(sync_mode::always));
      }
    }
    crash(store);
    store = open(options(sync_mode::always));
    std::map<item_id, record_state> there;
    for (const auto state : {record_state::waiting, record_state::delayed, record_state::dead})
      for (const auto& r : all(*store, state)) {
        if (there.contains(r.id)) CAF_FAIL("twice there, seed " << seed);
        there[r.id] = state;
      }
    for (const auto& [id, state] : sure)
      if (!there.contains(id) || there[id] != state) CAF_FAIL("lost " << to_string(id) << ", seed " << seed);
    for (const auto& [id, state] : there)
      if (!sure.contains(id) && !gone.contains(id)) CAF_FAIL("out of nowhere " << to_string(id) << ", seed " << seed);
    const auto c = store->count();
    CAF_CHECK_EQUAL(c.waiting + c.delayed + c.dead, there.size());
    check_keys(*store, texts);
    store.reset();
  }
}

CAF_TEST(a full disk stops writes until there is space again) {
  for (const auto sync : {sync_mode::always, sync_mode::never}) {
    for (const std::size_t room : {0u, 5u, 300u, 5000u}) {
      fs::remove_all(datadir);
      auto store = open(options(sync));
      auto other_options = level_fixture::options("news");
      other_options.env = disk.env();
      auto other = open(other_options);
      push(*other, item("news"));
      std::vector<std::string> good;
      for (int i = 0; i < 50; ++i) good.push_back("before " + std::to_string(i));
      for (const auto& t : good) push(*store, item(t));
      disk.fill_after(room);
      std::vector<std::string> refused;
      for (int i = 0; i < 60; ++i) {
        clock.advance(1s);  // each call tries to reopen
        auto r = item("during " + std::to_string(i) + noise(200));
        const auto result = store->append(std::span{&r, 1}, clock.wall());
        if (result) {
          good.push_back(r.payload);
          continue;
        }
        if (refused.empty()) {
          CAF_CHECK(result.failure().code == errc::backend_failed);
          CAF_CHECK(result.failure().text.find("No space left") != std::string::npos);
          CAF_CHECK(result.failure().text.find("mail_queue") != std::string::npos);
        }
        CAF_CHECK(!r.id);
        refused.push_back(r.payload);
      }
      CAF_CHECK(refused.size() > 30);
      CAF_CHECK_EQUAL(store->count().waiting, good.size());
      disk.free();
      clock.advance(1s);
      CAF_CHECK(contract::payloads(all(*store)) == good);
      check_keys(*store, refused);
      for (const auto& t : refused) CAF_REQUIRE(push(*store, item(t)));
      good.insert(good.end(), refused.begin(), refused.end());
      CAF_CHECK(contract::payloads(all(*store)) == good);
      CAF_CHECK(contract::payloads(all(*other)) == std::vector<std::string>{"news"});
      CAF_REQUIRE(push(*other, item("more news")));
      store->erase(refs(store->read(record_state::waiting, {}, 10).value()), {}).value();
      CAF_CHECK_EQUAL(store->count().waiting, good.size() - 10);
      // And all of it is on the disk.
      store.reset();
      other.reset();
      store = open(options(sync));
      CAF_CHECK(contract::payloads(all(*store)) == std::vector<std::string>(good.begin() + 10, good.end()));
      CAF_CHECK(reports.empty());
      store.reset();
    }
  }
}

CAF_TEST(erase and update on a full disk change nothing they do not report) {
  auto store = open(options(sync_mode::always));
  const auto texts = numbered(10);
  for (const auto& t : texts) push(*store, item(t));
  const auto records = all(*store);
  disk.fill();
  record_move bury{ref_of(records[0]), records[0]};
  bury.to.state = record_state::dead;
  CAF_CHECK(store->update(std::span{&bury, 1}).failure().code == errc::backend_failed);
  clock.advance(1s);
  CAF_CHECK(store->erase(refs(records), {}).failure().code == errc::backend_failed);
  CAF_CHECK_EQUAL(store->count().waiting, 10u);
  disk.free();
  clock.advance(1s);
  CAF_CHECK(contract::payloads(all(*store)) == texts);
  check_keys(*store, texts);
  store->update(std::span{&bury, 1}).value();
  store->erase(refs(records), {}).value();
  CAF_CHECK_EQUAL(store->count().waiting, 0u);
  CAF_CHECK_EQUAL(store->count().dead, 1u);
}

CAF_TEST_FIXTURE_SCOPE_END()
