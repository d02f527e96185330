#define CAF_SUITE intake
#include "actors/queue/intake.hpp"

#include "tests/support/model_storage.hpp"

#include <atomic>
#include <condition_variable>
#include <set>
#include <thread>

#include "caf/test/unit_test.hpp"

using namespace caravan;
using namespace std::chrono_literals;

namespace {

/// Appends only while its gate is open, so that a test decides who waits for whom.
class gated_storage final : public test::model_storage {
public:
  using model_storage::model_storage;
  void shut() {
    const std::lock_guard lock(gate_mutex_);
    shut_ = true;
  }
  void open_gate() {
    const std::lock_guard lock(gate_mutex_);
    shut_ = false;
    changed_.notify_all();
  }
  void await_writers(std::size_t n) {
    std::unique_lock lock(gate_mutex_);
    changed_.wait(lock, [&] { return inside_ >= n; });
  }
  std::size_t most_at_once = 0;
  std::atomic<std::size_t> throw_odd{0};

  expected<std::vector<append_result>> append(std::span<record> records, wall_time now) override {
    {
      std::unique_lock lock(gate_mutex_);
      ++inside_;
      most_at_once = std::max(most_at_once, inside_);
      changed_.notify_all();
      changed_.wait(lock, [&] { return !shut_; });
      --inside_;
    }
    if (throw_odd.load() > 0) {
      --throw_odd;
      throw 42;
    }
    return model_storage::append(records, now);
  }

private:
  std::mutex gate_mutex_;
  std::condition_variable changed_;
  bool shut_ = false;
  std::size_t inside_ = 0;
};

intake::limits limits(std::size_t length = 1'000'000, std::chrono::milliseconds timeout = 20s) {
  intake::limits l;
  l.queue = "q";
  l.length = length;
  l.push_timeout = timeout;
  return l;
}

std::vector<record> items(std::size_t n, const std::string& payload = "x") {
  std::vector<record> r(n);
  for (std::size_t i = 0; i < n; ++i) r[i].payload = payload + std::to_string(i);
  return r;
}

struct door {
  explicit door(intake::limits l = limits(), std::size_t outstanding = 0, unique_policy unique = {})
    : store(std::make_shared<gated_storage>(unique)),
      in(store, std::move(l), outstanding, [this] { ++wakes; }, clock) {}
  toolbox::manual_clock clock;
  std::shared_ptr<gated_storage> store;
  std::atomic<int> wakes{0};
  intake in;

  auto push(std::size_t n, intake::when_full full = intake::when_full::wait) {
    auto r = items(n);
    return in.push(r, full);
  }
  std::vector<record> take() {
    std::vector<record> r;
    in.take(r);
    return r;
  }
};

template <class F>
void on_threads(std::size_t n, F f) {
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < n; ++i) threads.emplace_back([&f, i] { f(i); });
  for (auto& t : threads) t.join();
}

}  // namespace

CAF_TEST(what was pushed is stored and announced in order) {
  door d;
  auto r = items(3);
  const auto answer = d.in.push(r);
  CAF_REQUIRE(answer);
  CAF_REQUIRE_EQUAL(answer->size(), 3u);
  const auto taken = d.take();
  CAF_REQUIRE_EQUAL(taken.size(), 3u);
  const auto rows = d.store->rows();
  for (std::size_t i = 0; i < 3; ++i) {
    CAF_CHECK((*answer)[i].what == append_result::kind::stored);
    CAF_CHECK(taken[i].id == (*answer)[i].id && r[i].id == taken[i].id);
    CAF_CHECK_EQUAL(taken[i].payload, "x" + std::to_string(i));
    CAF_CHECK_EQUAL(rows.at(taken[i].id).payload, taken[i].payload);
  }
  CAF_CHECK(d.take().empty());
  CAF_CHECK(d.in.push({}));
}

CAF_TEST(one wake stands for all that came since the last look) {
  door d;
  CAF_CHECK(d.push(1));
  CAF_CHECK(d.push(1));
  CAF_CHECK_EQUAL(d.wakes.load(), 1);
  CAF_CHECK_EQUAL(d.take().size(), 2u);
  CAF_CHECK(d.push(1));
  CAF_CHECK_EQUAL(d.wakes.load(), 2);
}

CAF_TEST(pushes that wait for one write are stored with the next as a group) {
  door d;
  d.store->shut();
  std::atomic<int> good{0};
  std::thread first([&] { good += d.push(1) ? 1 : 0; });
  d.store->await_writers(1);
  std::vector<std::thread> rest;
  std::atomic<int> started{0};
  for (int i = 0; i < 7; ++i)
    rest.emplace_back([&] {
      ++started;
      good += d.push(2) ? 1 : 0;
    });
  while (started < 7) std::this_thread::yield();
  d.store->open_gate();
  first.join();
  for (auto& t : rest) t.join();
  CAF_CHECK_EQUAL(good.load(), 8);
  CAF_CHECK_EQUAL(d.take().size(), 15u);
  CAF_CHECK(d.store->appends() <= 8u);
  CAF_CHECK_EQUAL(d.store->most_at_once, 1u);
}

CAF_TEST(eight threads get each their own results and ids are announced in order) {
  door d;
  constexpr std::size_t each = 400;
  std::vector<std::vector<item_id>> got(8);
  std::atomic<bool> running{true};
  std::vector<record> announced;
  std::thread actor([&] {
    std::vector<record> taken;
    for (bool last = false; !last;) {
      last = !running;
      d.in.take(taken);
      announced.insert(announced.end(), taken.begin(), taken.end());
      std::this_thread::yield();
    }
  });
  on_threads(8, [&](std::size_t t) {
    for (std::size_t i = 0; i < each; ++i) {
      auto r = items(1 + i % 3, std::to_string(t) + ":" + std::to_string(i) + ":");
      const auto answer = d.in.push(r);
      if (!answer || answer->size() != r.size()) continue;
      for (const auto& a : *answer) got[t].push_back(a.id);
    }
  });
  running = false;
  actor.join();
  std::size_t total = 0;
  std::map<item_id, std::string> stored;
  for (const auto& [id, r] : d.store->rows()) stored[id] = r.payload;
  for (std::size_t t = 0; t < 8; ++t) {
    std::size_t k = 0;
    bool own = true;
    for (std::size_t i = 0; i < each; ++i)
      for (std::size_t j = 0; j < 1 + i % 3; ++j)
        own = own && k < got[t].size() && stored[got[t][k++]] == std::to_string(t) + ":" + std::to_string(i) + ":" + std::to_string(j);
    CAF_CHECK(own);
    total += got[t].size();
  }
  CAF_CHECK_EQUAL(announced.size(), total);
  CAF_CHECK_EQUAL(stored.size(), total);
  CAF_CHECK(std::is_sorted(announced.begin(), announced.end(), [](const auto& a, const auto& b) { return a.id < b.id; }));
}

CAF_TEST(a failing storage fails the whole group and gives its room back) {
  door d{limits(10)};
  d.store->fail_next(1);
  const auto answer = d.push(10);
  CAF_REQUIRE(!answer);
  CAF_CHECK(answer.failure().code == errc::backend_failed);
  CAF_CHECK(d.take().empty());
  CAF_CHECK_EQUAL(d.wakes.load(), 0);
  CAF_CHECK(d.push(10, intake::when_full::refuse));
}

CAF_TEST(a storage that throws whatever it throws hangs nobody) {
  door d;
  d.store->throw_next(1);
  CAF_CHECK(d.push(1).failure().code == errc::backend_failed);
  d.store->throw_odd = 1;
  CAF_CHECK(d.push(1).failure().code == errc::backend_failed);
  std::atomic<int> good{0}, bad{0};
  d.store->throw_odd = 20;
  on_threads(8, [&](std::size_t) {
    for (int i = 0; i < 50; ++i) ++(d.push(2) ? good : bad);
  });
  CAF_CHECK_EQUAL(good + bad, 400);
  CAF_CHECK(bad >= 20);
  CAF_CHECK_EQUAL(d.take().size(), static_cast<std::size_t>(good) * 2);
}

CAF_TEST(LENGTH is kept exactly under contention) {
  door d{limits(100)};
  std::atomic<std::size_t> stored{0}, full{0};
  on_threads(8, [&](std::size_t t) {
    for (int i = 0; i < 40; ++i) {
      const auto n = 1 + (t + static_cast<std::size_t>(i)) % 3;
      if (d.push(n, intake::when_full::refuse))
        stored += n;
      else
        ++full;
    }
  });
  CAF_CHECK(stored <= 100u && stored > 97u);
  CAF_CHECK(full > 0u);
  CAF_CHECK_EQUAL(d.store->rows().size(), stored.load());
  d.in.add_room(1);
  d.in.add_room(-1);
  CAF_CHECK(!d.push(100 - stored + 1, intake::when_full::refuse));
}

CAF_TEST(what the storage held at the start counts) {
  door d{limits(10), 9};
  CAF_CHECK(d.push(1, intake::when_full::refuse));
  const auto answer = d.push(1, intake::when_full::refuse);
  CAF_REQUIRE(!answer);
  CAF_CHECK_EQUAL(answer.failure().text,
                  "queue \"q\": 10 items waiting, the limit is LENGTH = 10; raise it in [queue.q] or add workers");
}

CAF_TEST(a push waits for room no longer than PUSH_TIMEOUT) {
  door d{limits(1, 30ms), 1};
  const auto begun = std::chrono::steady_clock::now();
  const auto answer = d.push(1);
  const auto took = std::chrono::steady_clock::now() - begun;
  CAF_REQUIRE(!answer);
  CAF_CHECK(answer.failure().code == errc::queue_full);
  CAF_CHECK(took >= 20ms);
  const auto at_once = std::chrono::steady_clock::now();
  door patient{limits(1, 60s), 1};
  CAF_CHECK(!patient.push(1, intake::when_full::refuse));
  CAF_CHECK(std::chrono::steady_clock::now() - at_once < 30s);
}

CAF_TEST(a waiting push goes on when room comes) {
  door d{limits(4, 60s), 4};
  std::atomic<int> stored{0};
  std::vector<std::thread> waiting;
  for (int i = 0; i < 4; ++i)
    waiting.emplace_back([&] {
      if (d.push(1)) ++stored;
    });
  for (int i = 0; i < 4; ++i) {
    d.in.add_room(1);
    while (stored < i + 1) std::this_thread::yield();
  }
  for (auto& t : waiting) t.join();
  CAF_CHECK_EQUAL(d.take().size(), 4u);
}

CAF_TEST(items that are refused as known take no room) {
  auto l = limits(2);
  l.unique = true;
  door d{l, 0, {unique_policy::until::start, 0ms}};
  auto once = items(2);
  CAF_CHECK(d.in.push(once));
  d.in.add_room(2);
  d.take();
  for (int i = 0; i < 5; ++i) {
    auto again = items(2);
    const auto answer = d.in.push(again, intake::when_full::refuse);
    CAF_REQUIRE(answer);
    CAF_CHECK((*answer)[0].what == append_result::kind::already_in_queue);
    CAF_CHECK((*answer)[0].id == once[0].id);
    CAF_CHECK(!again[0].id);
  }
  CAF_CHECK(d.take().empty());
  auto twice = items(2, "y");
  twice[1].payload = twice[0].payload;
  const auto answer = d.in.push(twice, intake::when_full::refuse);
  CAF_REQUIRE(answer);
  CAF_CHECK((*answer)[0].what == append_result::kind::stored && (*answer)[1].what == append_result::kind::already_in_queue);
}

CAF_TEST(items too large and pushes that can never fit are refused before anything is stored) {
  auto l = limits(5);
  l.max_item_size = 4;
  door d{l};
  std::vector<record> r = items(2);
  r[1].payload = "12345";
  CAF_CHECK(d.in.push(r).failure().code == errc::too_large);
  r[1].payload = "1234";
  CAF_CHECK(d.in.push(r));
  const auto bulk = d.push(6);
  CAF_REQUIRE(!bulk);
  CAF_CHECK(bulk.failure().code == errc::too_large);
  CAF_CHECK(bulk.failure().text.find("can never fit") != std::string::npos);
  CAF_CHECK_EQUAL(d.store->rows().size(), 2u);
}

CAF_TEST(a bulk larger than a group is stored all or none) {
  door d;
  CAF_CHECK(d.push(10'000));
  CAF_CHECK_EQUAL(d.store->appends(), 1u);
  CAF_CHECK_EQUAL(d.take().size(), 10'000u);
}

CAF_TEST(closing waits for what is being written and refuses the rest) {
  door d{limits(3, 60s), 0};
  d.store->shut();
  bool written = false;
  errc refused = errc::forbidden;
  std::thread writing([&] { written = d.push(3).has_value(); });
  d.store->await_writers(1);
  std::thread waiting([&] {  // for room, or at the door
    const auto answer = d.push(1);
    if (!answer) refused = answer.failure().code;
  });
  std::atomic<bool> closed{false};
  std::thread closing([&] {
    d.in.close({errc::queue_closed, "queue \"q\": is stopping"});
    closed = true;
  });
  waiting.join();
  CAF_CHECK(!closed);
  d.store->open_gate();
  closing.join();
  writing.join();
  CAF_CHECK(written);
  CAF_CHECK(refused == errc::queue_closed);
  CAF_CHECK_EQUAL(d.take().size(), 3u);  // all there is
  const auto after = d.push(1);
  CAF_REQUIRE(!after);
  CAF_CHECK_EQUAL(after.failure().text, "queue \"q\": is stopping");
  d.in.open();
  d.in.add_room(3);
  CAF_CHECK(d.push(1));
}

CAF_TEST(a close while eight threads push loses and doubles nothing) {
  for (int round = 0; round < 8; ++round) {
    door d;
    std::atomic<std::size_t> stored{0};
    std::atomic<int> started{0};
    bool complete = false;
    std::thread closer([&] {
      while (started < 8) std::this_thread::yield();
      d.in.close({errc::queue_closed, "closed"});
      complete = d.take().size() == d.store->rows().size();
    });
    on_threads(8, [&](std::size_t) {
      for (int i = 0;; ++i) {
        if (!d.push(1)) break;
        ++stored;
        if (i == 3) ++started;
      }
    });
    closer.join();
    CAF_CHECK(complete);
    CAF_CHECK(d.take().empty());
    CAF_CHECK_EQUAL(stored.load(), d.store->rows().size());
  }
}

CAF_TEST(pushes of other nodes come in before later ones and wake the queue) {
  door d(limits(4));
  record foreign;
  foreign.payload = "other";
  const auto first = d.store->append_elsewhere(foreign, d.clock.wall());
  CAF_CHECK(d.in.want_adopt());
  CAF_CHECK(!d.in.want_adopt());  // once is enough
  const auto n = d.in.adopt();
  CAF_REQUIRE(n);
  CAF_CHECK_EQUAL(*n, 1u);
  CAF_CHECK(d.in.want_adopt());
  CAF_CHECK_EQUAL(d.wakes, 1);
  CAF_CHECK_EQUAL(d.in.room(), 3u);
  const auto second = d.store->append_elsewhere(foreign, d.clock.wall());
  auto own = items(1);
  CAF_REQUIRE(d.in.push(own));
  std::vector<record> taken;
  d.in.take(taken);
  CAF_REQUIRE_EQUAL(taken.size(), 3u);
  CAF_CHECK(taken[0].id == first);
  CAF_CHECK(taken[1].id == second);
  CAF_CHECK(second < taken[2].id);
  CAF_CHECK_EQUAL(d.in.room(), 1u);
  d.store->fail_next(1);
  const auto failed = d.in.adopt();
  CAF_CHECK(!failed);
  CAF_CHECK(d.in.adopt());
}
