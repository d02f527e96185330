#define CAF_SUITE testing
#include <caravan/testing.hpp>

#include <caf/test/unit_test.hpp>

#include <map>
#include <set>

using namespace caravan;
using namespace std::chrono_literals;
namespace kit = caravan::testing;

namespace {

using numbers = std::vector<int>;

/// Handles what it gets, and remembers it.
struct recorder {
  std::shared_ptr<numbers> seen = std::make_shared<numbers>();
  void operator()(std::vector<int>& batch) const { seen->insert(seen->end(), batch.begin(), batch.end()); }
};

}  // namespace

CAF_TEST(nothing happens by itself) {
  kit::node node;
  const recorder r;
  auto q = node.create_simple_queue<int>("q", r);
  for (int i = 0; i < 50; ++i) CAF_REQUIRE(q.push(i));
  CAF_CHECK(r.seen->empty());
  CAF_CHECK(q.size().value() == 50u);
  const auto calls = node.run();
  CAF_CHECK(calls == 3u);  // BATCH_LENGTH is 20
  CAF_REQUIRE(r.seen->size() == 50u);
  for (int i = 0; i < 50; ++i) CAF_CHECK((*r.seen)[static_cast<std::size_t>(i)] == i);
  CAF_CHECK(node.run() == 0u);
  CAF_CHECK(q.info()->handled == 50u);
}

CAF_TEST(a year passes in no time) {
  kit::node node;
  const recorder r;
  auto q = node.create_simple_queue<int>("q", r);
  const auto begun = node.now();
  CAF_REQUIRE(q.push(1, {.delay = 24h}));
  CAF_REQUIRE(q.push(2, {.at = begun + 12h}));
  CAF_REQUIRE(q.push(3, {.delay = 365 * 24h}));
  node.advance(12h - 1ms);
  CAF_CHECK(r.seen->empty());
  node.advance(1ms);
  CAF_CHECK(*r.seen == numbers{2});
  node.advance(12h - 1ms);
  CAF_CHECK(*r.seen == numbers{2});
  node.advance(364 * 24h + 1ms);
  CAF_CHECK((*r.seen == numbers{2, 1, 3}));
  CAF_CHECK(node.now() == begun + 365 * 24h);
}

CAF_TEST(retries and death are those of a real queue) {
  kit::node node({.config_text = "[queue.q]\nMAX_ATTEMPTS = 3\n"});
  std::vector<std::chrono::system_clock::time_point> tries;
  auto q = node.create_simple_queue<int>("q", [&](std::vector<int>&, context& ctx) {
    tries.push_back(node.now());
    ctx.fail(0, "no luck");
  });
  const auto id = q.push(1).value();
  node.run();
  CAF_CHECK(tries.size() == 1u);
  CAF_CHECK(q.find(id)->state == "delayed");
  node.advance(1h);
  CAF_REQUIRE(tries.size() == 3u);
  CAF_CHECK(tries[1] - tries[0] <= 1s && tries[1] - tries[0] >= 500ms);
  CAF_CHECK(tries[2] - tries[1] <= 2s && tries[2] - tries[1] >= 1s);
  const auto job = q.find(id).value();
  CAF_CHECK(job.state == "dead");
  CAF_CHECK(job.last_error == "no luck");
  CAF_CHECK(job.attempts == 3u);
}

CAF_TEST(the seed fixes the jitter) {
  const auto second_try = [](std::uint64_t seed) {
    kit::node node({.config_text = "[queue.q]\nMAX_ATTEMPTS = 2\n", .seed = seed});
    const auto begun = node.now();
    std::chrono::system_clock::time_point last;
    auto q = node.create_simple_queue<int>("q", [&](std::vector<int>&, context& ctx) {
      last = node.now();
      ctx.fail(0, "");
    });
    q.push(1).value();
    node.advance(1min);
    return last - begun;
  };
  CAF_CHECK(second_try(7) == second_try(7));
  std::set<std::chrono::system_clock::duration> different;
  for (std::uint64_t seed = 0; seed < 20; ++seed) different.insert(second_try(seed));
  CAF_CHECK(different.size() > 10);
}

CAF_TEST(an exception and a hand back and a postponement) {
  kit::node node;
  int calls = 0;
  auto q = node.create_simple_queue<int>("q", [&](std::vector<int>&, context& ctx) {
    switch (calls++) {
      case 0:
        throw std::runtime_error("broken");
      case 1:
        ctx.hand_back(0);
        break;
      case 2:
        ctx.later(0, 10min);
        break;
      default:
        break;
    }
  });
  const auto id = q.push(1).value();
  node.run();
  CAF_CHECK(q.find(id)->last_error == "the handler threw: broken");
  node.advance(1s);  // the backoff
  CAF_CHECK(calls == 2);
  node.advance(1s);  // REQUEUE_DELAY
  CAF_CHECK(calls == 3);
  node.advance(10min - 1s);
  CAF_CHECK(calls == 3);
  node.advance(1s);
  CAF_CHECK(calls == 4);
  CAF_CHECK(q.find(id)->state == "handled");
}

CAF_TEST(a unique queue refuses what waits) {
  kit::node node;
  const recorder r;
  auto q = node.create_unique_queue<int>("q", r);
  CAF_REQUIRE(q.push(1));
  const auto again = q.push(1);
  CAF_REQUIRE(!again);
  CAF_CHECK(again.failure().code == errc::already_in_queue);
  CAF_CHECK(q.has(1).value());
  node.run();
  CAF_CHECK(!q.has(1).value());
  CAF_CHECK(q.push(1));
}

CAF_TEST(handlers may push) {
  kit::node node;
  numbers seen;
  queue<int> second;
  auto first = node.create_simple_queue<int>("first", [&](std::vector<int>& batch) {
    for (const int i : batch) second.push(i * 10).value();
  });
  second = node.create_simple_queue<int>("second", [&](std::vector<int>& batch) {
    for (const int i : batch) {
      seen.push_back(i);
      if (i < 1000) second.push(i * 10).value();
    }
  });
  first.push(1).value();
  node.run();
  CAF_CHECK((seen == numbers{10, 100, 1000}));
}

CAF_TEST(a full queue says so at once) {
  kit::node node({.config_text = "[queue.q]\nLENGTH = 2\n"});
  const recorder r;
  auto q = node.create_simple_queue<int>("q", r);
  CAF_REQUIRE(q.push(1));
  CAF_REQUIRE(q.push(2));
  const auto third = q.push(3);
  CAF_REQUIRE(!third);
  CAF_CHECK(third.failure().code == errc::queue_full);
  node.run();
  CAF_CHECK(q.push(3));
}

CAF_TEST(a handler that takes too long) {
  kit::node node({.config_text = "[queue.q]\nTIMEOUT = 1m\nMAX_ATTEMPTS = 1\n"});
  auto q = node.create_simple_queue<int>("q", [&](std::vector<int>& batch) { node.advance(batch[0] * 1s); });
  const auto slow = q.push(61).value();
  node.run();
  const auto fast = q.push(59).value();
  node.run();
  CAF_CHECK(q.find(slow)->state == "dead");
  CAF_CHECK(q.find(slow)->last_error.find("TIMEOUT = 60000 ms") != std::string::npos);
  CAF_CHECK(q.find(fast)->state == "handled");
}

CAF_TEST(pushes that fail and pushes whose answer is lost) {
  kit::node node;
  const recorder r;
  auto q = node.create_simple_queue<int>("q", r);
  node.fail_pushes("q", 2);
  for (int i = 0; i < 2; ++i) {
    const auto failed = q.push(1);
    CAF_REQUIRE(!failed);
    CAF_CHECK(failed.failure().code == errc::backend_failed);
  }
  CAF_CHECK(node.run() == 0u);
  node.lose_push_answers("q", 1);
  const auto unknown = q.push(2, {.idempotency_key = "k"});
  CAF_REQUIRE(!unknown);
  CAF_CHECK(unknown.failure().code == errc::timed_out);
  CAF_CHECK(q.push(2, {.idempotency_key = "k"}));
  node.run();
  CAF_CHECK(*r.seen == numbers{2});  // once
}

CAF_TEST(a worker that is cut off) {
  kit::node node({.config_text = "[queue.q]\nLEASE = 30s\n"});
  const recorder r;
  auto q = node.create_simple_queue<int>("q", r);
  const auto id = q.push(1).value();
  node.lose_handler_answers("q", 1);
  node.run();
  CAF_CHECK(*r.seen == numbers{1});
  CAF_CHECK(q.find(id)->state == "running");
  CAF_REQUIRE(q.push(2));
  node.run();
  CAF_CHECK((*r.seen == numbers{1, 2}));  // others go on
  node.advance(30s);
  CAF_CHECK((*r.seen == numbers{1, 2, 1}));
  CAF_CHECK(q.find(id)->state == "handled");
  CAF_CHECK(q.info()->leases_lost == 1u);
}

CAF_TEST(a crash keeps what was stored and nothing else) {
  kit::node node;
  const recorder r;
  auto q = node.create_unique_queue<int>("q", r);
  const auto id = q.push(1, {.delay = 1h}).value();
  q.push(2).value();
  CAF_REQUIRE(q.pause());
  node.crash();
  CAF_CHECK(q.info()->phase == "running");
  node.run();
  CAF_CHECK(*r.seen == numbers{2});
  node.crash_after_handlers("q", 2);
  node.advance(1h);
  CAF_CHECK((*r.seen == numbers{2, 1, 1, 1}));  // two calls were not acknowledged
  CAF_CHECK(q.find(id)->state == "handled");
  const auto in_handler = [&] {
    std::string text;
    auto p = node.create_simple_queue<int>("p", [&](std::vector<int>&) {
      try {
        node.crash();
      } catch (const exception& e) {
        text = e.what();
      }
    });
    p.push(1).value();
    node.run();
    return text;
  }();
  CAF_CHECK(in_handler.find("crash_after_handlers") != std::string::npos);
}

CAF_TEST(a storage that cannot be reached) {
  kit::node node;
  const recorder r;
  auto q = node.create_unique_queue<int>("q", r);
  q.push(1).value();
  q.push(2, {.delay = 1min}).value();
  node.cut_off("q", true);
  CAF_CHECK(q.push(3).failure().code == errc::backend_failed);
  CAF_CHECK(q.has(1).failure().code == errc::backend_failed);
  CAF_CHECK(!q.info()->trouble.empty());
  node.advance(1h);
  CAF_CHECK(r.seen->empty());
  node.cut_off("q", false);
  node.run();
  CAF_CHECK((*r.seen == numbers{1, 2}));
  CAF_CHECK(q.info()->trouble.empty());
}

CAF_TEST(flush pause drain and purge) {
  kit::node node;
  const recorder r;
  auto q = node.create_simple_queue<int>("q", r);
  q.push(1).value();
  CAF_CHECK(q.flush(1s));
  CAF_CHECK(*r.seen == numbers{1});
  CAF_REQUIRE(q.pause_until(node.now() + 10min));
  q.push(2).value();
  node.advance(9min);
  CAF_CHECK(*r.seen == numbers{1});
  node.advance(1min);
  CAF_CHECK((*r.seen == numbers{1, 2}));
  auto idle = node.open_queue<int>("idle");
  idle.push(1).value();
  const auto before = node.now();
  CAF_CHECK(idle.flush(5s).failure().code == errc::timed_out);
  CAF_CHECK(node.now() - before == 5s);
  CAF_CHECK(idle.remove_all().value() == 1u);
  CAF_REQUIRE(q.drain());
  CAF_CHECK(q.push(3).failure().code == errc::queue_closed);
}

CAF_TEST(mistakes in a test are named) {
  kit::node node;
  const auto complaint = [](auto&& what) -> std::string {
    try {
      what();
    } catch (const exception& e) {
      return e.what();
    }
    return "";
  };
  CAF_CHECK(complaint([&] { node.fail_pushes("nope", 1); }).find("\"nope\"") != std::string::npos);
  CAF_CHECK(complaint([&] { node.advance(-1ms); }).find("back") != std::string::npos);
  CAF_CHECK(complaint([] { const kit::node bad({.config_text = "[queue.q]\nLENGTH = x\n"}); }).find("LENGTH") !=
            std::string::npos);
  const recorder r;
  auto q = node.create_simple_queue<int>("q", r);
  CAF_CHECK(complaint([&] { (void)node.create_unique_queue<int>("q", r); }).find("uniqueness") != std::string::npos);
  CAF_CHECK(complaint([&] { (void)node.create_simple_queue<int>("q", r); }).find("handler") != std::string::npos);
  auto endless = node.create_simple_queue<int>("endless", [&](std::vector<int>& batch) {
    node.find_queue("endless")->push_one({std::to_string(batch[0]), {}}).value();
  });
  endless.push(1).value();
  CAF_CHECK(complaint([&] { node.run(); }).find("\"endless\"") != std::string::npos);
}

CAF_TEST(thousands of seeds at once) {
  // What an application may want to know of itself: with crashes, lost answers and failed pushes, each job is done at
  // least once.
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    kit::node node({.config_text = "[queue.q]\nLEASE = 10s\nBATCH_LENGTH = 3\n", .seed = seed});
    std::map<int, int> done;
    std::uint64_t dice = seed * 0x9e3779b97f4a7c15u + 1;
    const auto roll = [&](std::uint64_t n) {
      dice = dice * 6364136223846793005u + 1442695040888963407u;
      return (dice >> 33) % n;
    };
    auto q = node.create_simple_queue<int>("q", [&](std::vector<int>& batch, context& ctx) {
      for (std::size_t i = 0; i < batch.size(); ++i) {
        if (roll(5) == 0)
          ctx.fail(i, "dice");
        else
          ++done[batch[i]];
      }
    });
    int pushed = 0;
    for (int step = 0; step < 100; ++step) {
      switch (roll(8)) {
        case 0:
          node.crash();
          break;
        case 1:
          node.lose_handler_answers("q", 1);
          break;
        case 2:
          node.fail_pushes("q", 1);
          break;
        case 3:
          node.crash_after_handlers("q", 1);
          break;
        case 4:
          node.advance(std::chrono::milliseconds(roll(20'000)));
          break;
        default:
          if (q.push(pushed)) ++pushed;
      }
    }
    node.crash();
    node.advance(24h);
    CAF_REQUIRE(done.size() == static_cast<std::size_t>(pushed));
    CAF_REQUIRE(q.info()->waiting + q.info()->delayed + q.info()->running + q.info()->dead == 0u);
  }
}
