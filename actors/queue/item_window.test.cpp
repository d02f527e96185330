#define CAF_SUITE item_window
#include "actors/queue/item_window.hpp"

#include <map>
#include <random>

#include "caf/test/unit_test.hpp"

using namespace caravan;
using namespace std::chrono_literals;
using load_result = item_window::load_result;

namespace {

record item(std::uint64_t id, std::int64_t due = 0, std::size_t size = 1) {
  record r;
  r.id = {id};
  r.due = wall_time{std::chrono::milliseconds{due}};
  if (due != 0) r.state = record_state::delayed;
  r.payload.assign(size, 'x');
  return r;
}

std::vector<std::uint64_t> take_all(item_window& w) {
  std::vector<std::uint64_t> ids;
  while (!w.empty()) ids.push_back(w.pop_front().id.value);
  return ids;
}

using ids = std::vector<std::uint64_t>;

}  // namespace

CAF_TEST(waiting records come in id order however they came) {
  item_window w{item_window::order::by_id, 100, 1000};
  for (const auto id : {5, 9, 2, 7, 1}) CAF_CHECK(w.add(item(static_cast<std::uint64_t>(id))));
  CAF_CHECK_EQUAL(take_all(w), (ids{1, 2, 5, 7, 9}));
}

CAF_TEST(delayed records come in the order of their due times and then their ids) {
  item_window w{item_window::order::by_sort, 100, 1000};
  w.add(item(1, 50));
  w.add(item(2, 10));
  w.add(item(3, 50));
  w.add(item(4, 30));
  CAF_CHECK_EQUAL(w.front().id.value, 2u);
  CAF_CHECK_EQUAL(take_all(w), (ids{2, 4, 1, 3}));
}

CAF_TEST(what does not fit is counted and what lies before the end is kept) {
  item_window w{item_window::order::by_id, 3, 1000};
  for (std::uint64_t id = 10; id < 15; ++id) CAF_CHECK_EQUAL(w.add(item(id)), id < 13);
  CAF_CHECK_EQUAL(w.unloaded(), 2u);
  CAF_CHECK_EQUAL(w.total(), 5u);
  CAF_CHECK(w.add(item(1)));
  CAF_CHECK_EQUAL(w.size(), 4u);
  // Behind unread ones nothing is kept, even when there is room.
  take_all(w);
  CAF_CHECK(!w.add(item(20)));
  CAF_CHECK_EQUAL(w.unloaded(), 3u);
}

CAF_TEST(bytes limit the window as well as counts) {
  item_window w{item_window::order::by_id, 100, 1000};
  CAF_CHECK(w.add(item(1, 0, 600)));
  CAF_CHECK(w.add(item(2, 0, 600)));
  CAF_CHECK(w.full());
  CAF_CHECK_EQUAL(w.room(), 0u);
  CAF_CHECK(!w.add(item(3)));
  w.pop_front();
  CAF_CHECK(!w.full());
  CAF_CHECK_EQUAL(w.room(), 1u);
  CAF_CHECK_EQUAL(w.take({2})->payload.size(), 600u);
  CAF_CHECK(w.room() >= 1u);
  item_window tiny{item_window::order::by_id, 10, 5};
  CAF_CHECK(tiny.room() >= 1u);
}

CAF_TEST(the answer to a read goes in once) {
  item_window w{item_window::order::by_id, 10, 1000};
  w.reset(3);
  w.begin_load();
  CAF_CHECK(w.load(item(4)) == load_result::fresh);
  CAF_CHECK(w.load(item(4)) == load_result::known);
  CAF_CHECK(w.load(item(6)) == load_result::fresh);
  CAF_CHECK_EQUAL(w.unloaded(), 1u);
  w.begin_load();
  CAF_CHECK_EQUAL(w.nothing_more(), 1u);
  CAF_CHECK_EQUAL(w.unloaded(), 0u);
}

CAF_TEST(an answer is in doubt from the first place that changed meanwhile) {
  item_window w{item_window::order::by_id, 10, 1000};
  w.reset(5);
  w.begin_load();
  CAF_CHECK(!w.add(item(7)));
  CAF_CHECK_EQUAL(w.nothing_more(), 0u);
  CAF_CHECK(w.load(item(5)) == load_result::fresh);
  CAF_CHECK(w.load(item(8)) == load_result::doubtful);
  CAF_CHECK_EQUAL(w.end().second.value, 5u);
  w.begin_load();
  CAF_CHECK(w.load(item(7)) == load_result::fresh);
  w.forget_unloaded(item(9));
  CAF_CHECK(w.load(item(9)) == load_result::doubtful);
}

CAF_TEST(earlier and earlier records push the last half out) {
  item_window w{item_window::order::by_sort, 4, 1000};
  for (std::uint64_t n = 0; n < 9; ++n) w.add(item(n + 1, 1000 - static_cast<std::int64_t>(n)));
  CAF_CHECK_EQUAL(w.total(), 9u);
  CAF_CHECK_EQUAL(w.size(), 4u);
  CAF_CHECK_EQUAL(w.unloaded(), 5u);
  CAF_CHECK_EQUAL(w.end().second.value, 6u);
  CAF_CHECK_EQUAL(take_all(w), (ids{9, 8, 7, 6}));
}

CAF_TEST(the end does not fall back behind what was handed out) {
  item_window w{item_window::order::by_sort, 2, 1000};
  w.add(item(1, 100));
  CAF_CHECK_EQUAL(w.pop_front().id.value, 1u);
  // The clock was set back: all of these lie before what is in a handler now. A read must not find that again.
  for (std::uint64_t n = 2; n < 12; ++n) w.add(item(n, 90 - static_cast<std::int64_t>(n)));
  CAF_CHECK(w.end() >= (item_window::place{wall_time{100ms}, item_id{1}}));
  CAF_CHECK_EQUAL(w.total(), 10u);
}

CAF_TEST(one record can be taken out wherever it lies) {
  item_window w{item_window::order::by_id, 10, 1000};
  for (const auto id : {5, 9, 2}) w.add(item(static_cast<std::uint64_t>(id)));
  CAF_CHECK(!w.take({3}));
  CAF_CHECK(w.take({2}));
  CAF_CHECK(w.take({9}));
  CAF_CHECK(!w.take({9}));
  CAF_CHECK_EQUAL(take_all(w), (ids{5}));
}

CAF_TEST(a window and a plain map agree on any sequence) {
  for (std::uint32_t seed = 1; seed <= 200; ++seed) {
    std::mt19937 random{seed};
    const auto pick = [&](std::size_t n) { return random() % n; };
    item_window w{item_window::order::by_sort, 1 + pick(8), 1 + pick(100)};
    std::map<item_window::place, record> rows;  // of the backend
    std::map<item_window::place, record> out;   // handed out: their rows are there, the window has them not
    std::optional<std::vector<record>> answer;
    std::uint64_t next = 1;
    const auto place = [](const record& r) { return item_window::place{r.due, r.id}; };
    for (int n = 0; n < 300; ++n) {
      switch (pick(8)) {
        case 0:
        case 1: {
          auto r = item(next++, static_cast<std::int64_t>(pick(50)), pick(5));
          rows[place(r)] = r;
          w.add(std::move(r));
          break;
        }
        case 2:
          if (!w.empty()) {
            auto r = w.pop_front();
            out[place(r)] = r;
          }
          break;
        case 3:
          if (!out.empty()) {
            const auto it = std::next(out.begin(), static_cast<std::ptrdiff_t>(pick(out.size())));
            rows.erase(it->first);
            out.erase(it);
          }
          break;
        case 4:
          if (!answer && w.unloaded() > 0 && !w.full()) {
            w.begin_load();
            answer.emplace();
            for (auto it = rows.upper_bound(w.end()); it != rows.end() && answer->size() < w.room(); ++it) answer->push_back(it->second);
          }
          break;
        case 5:
          if (answer) {
            for (auto& r : *answer)
              if (w.load(std::move(r)) == load_result::doubtful) break;
            answer.reset();
          }
          break;
        case 6: {
          const auto it = rows.upper_bound(w.end());
          if (it == rows.end()) break;
          CAF_REQUIRE(w.may_be_unloaded(it->second));
          w.forget_unloaded(it->second);
          rows.erase(it);
          break;
        }
        case 7:
          if (!out.empty()) {
            auto it = out.begin();
            w.add(record(it->second));
            out.erase(it);
          }
          break;
      }
      std::size_t behind = 0;
      for (const auto& [at, r] : rows) {
        if (at > w.end()) ++behind;
        if (at > w.end()) CAF_REQUIRE(!out.count(at));
      }
      CAF_REQUIRE_EQUAL(w.unloaded(), behind);
      CAF_REQUIRE_EQUAL(w.total(), rows.size() - out.size());
    }
  }
}

CAF_TEST(the end of a ranked window goes back when better records fill it) {
  item_window w{item_window::order::by_rank, 2, 1000};
  const auto ranked = [](std::uint64_t id, std::int32_t priority) {
    auto r = item(id);
    r.priority = priority;
    r.state = record_state::ranked;
    return r;
  };
  // One of low priority left already: it is in flight, far behind what follows.
  w.add(ranked(1, -9));
  CAF_CHECK_EQUAL(w.pop_front().id.value, 1u);
  for (std::uint64_t id = 2; id <= 8; ++id) w.add(ranked(id, static_cast<std::int32_t>(id)));
  CAF_CHECK(w.size() <= 4u);
  CAF_CHECK_EQUAL(w.total(), 7u);
  CAF_CHECK_EQUAL(w.front().id.value, 8u);
  CAF_CHECK(w.end() < (item_window::place{wall_time{std::chrono::milliseconds{9}}, item_id{1}}));
}
