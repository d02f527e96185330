#define CAF_SUITE pool
#include "toolbox/pool.hpp"

#include "caf/test/unit_test.hpp"
#include "toolbox/resource_manager.hpp"
#include "toolbox/testing/support.hpp"

using namespace caravan::toolbox;
using namespace caravan::toolbox::testing;

namespace {

// Counts the ones alive; cannot be copied, as a connection cannot.
struct connection {
  explicit connection(int n, std::atomic<int>& alive) : number(n), alive_(&alive) { ++alive; }
  connection(connection&& other) noexcept : number(other.number), alive_(std::exchange(other.alive_, nullptr)) {}
  connection& operator=(connection&& other) noexcept {
    std::swap(number, other.number);
    std::swap(alive_, other.alive_);
    return *this;
  }
  ~connection() {
    if (alive_ != nullptr) --*alive_;
  }
  int number;

private:
  std::atomic<int>* alive_;
};

struct pool_fixture {
  std::atomic<int> opened{0};
  std::atomic<int> alive{0};
  manual_clock time;
  auto opener() {
    return [this] { return connection{++opened, alive}; };
  }
};

}  // namespace

CAF_TEST("TOOL-044" the pool blocks at its limit) {
  pool_fixture f;
  pool<connection> p{10, f.opener()};
  std::vector<pool<connection>::lease> leases;
  for (int i = 0; i < 10; ++i) leases.push_back(p.get());
  CAF_CHECK(p.try_get().is(fault::timed_out));
  std::atomic<int> got{0};
  std::jthread eleventh{[&] { got = p.get()->number; }};
  std::this_thread::sleep_for(10ms);
  CAF_CHECK_EQUAL(got.load(), 0);
  leases.pop_back();
  CAF_CHECK(comes_true([&] { return got == 10; }));
  CAF_CHECK_EQUAL(f.opened.load(), 10);
}

CAF_TEST("TOOL-045" the last one that came back is lent again) {
  pool_fixture f;
  pool<connection> p{10, f.opener()};
  for (int i = 0; i < 100; ++i) CAF_CHECK(p.get()->number == 1);
  {
    auto a = p.get();
    auto b = p.get();
    auto moved = std::move(a);
    moved = p.get();
  }
  CAF_CHECK_EQUAL(p.idle(), 3u);
  CAF_CHECK_EQUAL(f.opened.load(), 3);
}

CAF_TEST(a pool without a limit makes nobody wait) {
  pool_fixture f;
  pool<connection> p{pool<connection>::no_limit, f.opener(), {.max_age = 1min}, f.time};
  {
    std::vector<pool<connection>::lease> leases;
    for (int i = 0; i < 1000; ++i) {
      auto got = p.try_get();
      CAF_REQUIRE(static_cast<bool>(got));
      leases.push_back(std::move(*got));
    }
    CAF_CHECK_EQUAL(p.out(), 1000u);
  }
  CAF_CHECK_EQUAL(p.idle(), 1000u);
  f.time.advance(59s);
  { auto busy = p.get(); }
  f.time.advance(59s);
  { auto busy = p.get(); }
  CAF_CHECK_EQUAL(f.alive.load(), 1);  // the surplus of the busy time is gone
  CAF_CHECK_EQUAL(f.opened.load(), 1000);
}

CAF_TEST(what lay unused too long is destroyed) {
  pool_fixture f;
  pool<connection> p{10, f.opener(), {.max_age = 1min}, f.time};
  {
    auto a = p.get();
    auto b = p.get();
  }
  CAF_CHECK_EQUAL(f.alive.load(), 2);
  f.time.advance(1min);
  CAF_CHECK(p.get()->number == 1);
  f.time.advance(1s);
  CAF_CHECK_EQUAL(p.close_idle(), 1u);
  CAF_CHECK_EQUAL(f.alive.load(), 1);
  f.time.advance(1min);
  CAF_CHECK(p.get()->number == 3);
  CAF_CHECK_EQUAL(f.alive.load(), 1);
}

CAF_TEST(a discarded one is replaced) {
  pool_fixture f;
  pool<connection> p{1, f.opener()};
  {
    auto a = p.get();
    a.discard();
    CAF_CHECK_EQUAL(f.alive.load(), 0);
    CAF_CHECK(p.get()->number == 2);
  }
  CAF_CHECK_EQUAL(p.out(), 0u);
  CAF_CHECK_EQUAL(p.idle(), 1u);
}

CAF_TEST(an opener that throws gives its slot to the next) {
  std::atomic<int> tries{0};
  pool<int> p{1, [&]() -> int {
                if (++tries == 1) throw std::runtime_error("refused");
                return 5;
              }};
  std::string text;
  try {
    (void)p.get();
  } catch (const std::runtime_error& e) {
    text = e.what();
  }
  CAF_CHECK_EQUAL(text, "refused");
  CAF_CHECK_EQUAL(p.out(), 0u);
  CAF_CHECK(*p.get() == 5);
}

CAF_TEST(waiting ends by time or by cancel or by close) {
  pool_fixture f;
  auto p = std::make_unique<pool<connection>>(1, f.opener(), pool_options{}, f.time);
  auto held = p->get();
  std::atomic<bool> timed_out{false};
  std::atomic<bool> cancelled{false};
  std::atomic<bool> closed{false};
  std::stop_source stop;
  std::jthread a{[&] { timed_out = p->get(1s).is(fault::timed_out); }};
  CAF_CHECK(move_until(f.time, 100ms, [&] { return timed_out.load(); }));
  std::jthread b{[&] { cancelled = p->get(1000h, stop.get_token()).is(fault::cancelled); }};
  stop.request_stop();
  CAF_CHECK(comes_true([&] { return cancelled.load(); }));
  std::jthread c{[&] { closed = p->get(1000h).is(fault::closed); }};
  p->close();
  CAF_CHECK(comes_true([&] { return closed.load(); }));
  c.join();
  p.reset();
  CAF_CHECK_EQUAL(f.alive.load(), 1);  // a lease may outlive its pool
  CAF_CHECK_EQUAL(held->number, 1);
  held.discard();
  CAF_CHECK_EQUAL(f.alive.load(), 0);
}

CAF_TEST(eight threads share three connections) {
  pool_fixture f;
  {
    pool<connection> p{3, f.opener()};
    std::atomic<int> inside{0};
    std::atomic<int> too_many{0};
    all_at_once(8, [&](int thread) {
      for (int i = 0; i < 2000 / slowdown; ++i) {
        auto c = p.get(1h);
        if (!c) continue;
        if (++inside > 3) ++too_many;
        --inside;
        if ((i + thread) % 17 == 0) c->discard();
      }
    });
    CAF_CHECK_EQUAL(too_many.load(), 0);
    CAF_CHECK(f.alive <= 3);
    CAF_CHECK_EQUAL(p.out(), 0u);
  }
  CAF_CHECK_EQUAL(f.alive.load(), 0);
}

// -- resources ------------------------------------------------------------------------------------------------------

CAF_TEST("TOOL-054" an immutable resource is fetched once) {
  int fetches = 0;
  immutable_resource<std::string> r{[&] {
    ++fetches;
    return std::string{"hello"};
  }};
  CAF_CHECK_EQUAL(r.get(), "hello");
  CAF_CHECK_EQUAL(r.get(), "hello");
  CAF_CHECK_EQUAL(fetches, 1);
}

CAF_TEST("TOOL-055" an error is remembered for the refresh interval) {
  manual_clock time;
  int fetches = 0;
  immutable_resource<int> r{[&]() -> int {
                              ++fetches;
                              throw std::runtime_error("any");
                            },
                            1s, time};
  const auto fails = [&] {
    try {
      (void)r.get();
    } catch (const std::runtime_error& e) {
      return std::string{e.what()} == "any";
    }
    return false;
  };
  CAF_CHECK(fails());
  CAF_CHECK_EQUAL(fetches, 1);
  time.advance(999ms);
  CAF_CHECK(fails());
  CAF_CHECK_EQUAL(fetches, 1);
  r.set_refresh_after_error(0s);
  time.advance(1ms);
  CAF_CHECK(fails());
  CAF_CHECK_EQUAL(fetches, 2);
}

CAF_TEST("TOOL-056" concurrent first use fetches once) {
  std::atomic<int> fetches{0};
  std::atomic<int> right{0};
  immutable_resource<int> r{[&] {
    ++fetches;
    std::this_thread::sleep_for(10ms);
    return 42;
  }};
  all_at_once(10, [&](int) { right += r.get() == 42; });
  CAF_CHECK_EQUAL(fetches.load(), 1);
  CAF_CHECK_EQUAL(right.load(), 10);
}

CAF_TEST("TOOL-057" mark broken) {
  int made = 0;
  managed_resource<int> r{[&] { return std::make_shared<int>(++made); }};
  const auto first = r.take();
  CAF_CHECK(r.take() == first);
  r.mark_broken(first);
  const auto second = r.take();
  CAF_CHECK(second != first);
  r.mark_broken(first);  // it was replaced already
  CAF_CHECK(r.take() == second);
}

CAF_TEST("TOOL-058" the last user cleans) {
  int cleaned = 0;
  ref_resource r{[&] { ++cleaned; }};
  CAF_CHECK(r.use());
  CAF_CHECK(r.use());
  r.clean();
  CAF_CHECK_EQUAL(cleaned, 0);
  r.clean();
  CAF_CHECK_EQUAL(cleaned, 1);
  r.clean();
  r.clean();
  CAF_CHECK_EQUAL(cleaned, 1);
  CAF_CHECK(r.use().is(fault::closed));
}

CAF_TEST("TOOL-059" one resource per key) {
  resource_manager<std::string, int> m;
  int made = 0;
  std::shared_ptr<int> first;
  for (int i = 0; i < 10; ++i) {
    auto got = m.get("key", [&] { return std::make_shared<int>(++made); });
    if (!first) first = got;
    CAF_CHECK(got == first);
  }
  CAF_CHECK_EQUAL(made, 1);
}

CAF_TEST("TOOL-060" errors are not stored) {
  resource_manager<std::string, int> m;
  int called = 0;
  int errors = 0;
  for (int i = 0; i < 10; ++i) {
    try {
      (void)m.get("key", [&]() -> std::shared_ptr<int> {
        ++called;
        throw std::runtime_error("fail");
      });
    } catch (const std::runtime_error&) {
      ++errors;
    }
  }
  CAF_CHECK_EQUAL(errors, 10);
  CAF_CHECK_EQUAL(called, 10);
  CAF_CHECK_EQUAL(m.size(), 0u);
}

CAF_TEST("TOOL-061" close collects errors) {
  resource_manager<std::string, int> m;
  m.inject("a", std::make_shared<int>(1));
  m.inject("b", std::make_shared<int>(2));
  const auto closed = m.close([](int& n) -> outcome<void> {
    if (n == 1) return failure{fault::failed, "first"};
    throw std::runtime_error("second");
  });
  CAF_REQUIRE(closed.is(fault::failed));
  CAF_CHECK(closed.error().text == "first; second" || closed.error().text == "second; first");
  CAF_CHECK_EQUAL(m.size(), 0u);
  CAF_CHECK(m.close([](int&) {}));
}

CAF_TEST(eight threads ask for the same resources) {
  resource_manager<int, int> m;
  ref_resource counted{[] {}};
  managed_resource<int> managed{[] { return std::make_shared<int>(1); }};
  std::array<std::atomic<int>, 5> made{};
  CAF_CHECK(counted.use());
  all_at_once(8, [&](int thread) {
    for (int i = 0; i < 2000 / slowdown; ++i) {
      const int key = (thread + i) % 5;
      (void)m.get(key, [&] {
        ++made[static_cast<std::size_t>(key)];
        return std::make_shared<int>(key);
      });
      if (counted.use()) counted.clean();
      managed.mark_broken(managed.take());
    }
  });
  for (const auto& each : made) CAF_CHECK_EQUAL(each.load(), 1);
}
