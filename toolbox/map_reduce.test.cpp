#define CAF_SUITE map_reduce
#include "toolbox/map_reduce.hpp"

#include <numeric>
#include <string>

#include "caf/test/unit_test.hpp"
#include "toolbox/testing/support.hpp"

using namespace caravan::toolbox;
using namespace caravan::toolbox::testing;

namespace {

const auto one_to = [](int last) {
  return [last](auto& emit) {
    for (int i = 1; i <= last; ++i) emit(i);
  };
};
const auto pass_on = [](int item, auto& write, auto&) { write(item); };
const auto sum_up = [](auto& values, auto& write, auto&) {
  int sum = 0;
  while (auto v = values.next()) sum += *v;
  write(sum);
};

template <class Work>
std::string thrown_by(Work work) {
  try {
    work();
  } catch (const std::exception& e) {
    return e.what();
  }
  return "";
}

}  // namespace

CAF_TEST(squares are summed) {
  const auto sum = map_reduce<int, int, int>(
      one_to(4), [](int i, auto& write, auto&) { write(i * i); }, sum_up);
  CAF_REQUIRE(sum);
  CAF_CHECK_EQUAL(*sum, 30);
}

CAF_TEST("TOOL-121" a mapper cancels with an error) {
  const auto got = map_reduce<int, int, int>(
      one_to(5),
      [](int i, auto& write, auto& cancel) {
        if (i % 3 == 0) cancel(failure{fault::failed, "E"});
        write(i * i);
      },
      sum_up);
  CAF_REQUIRE(!got);  // and so there is no value
  CAF_CHECK_EQUAL(got.error().text, "E");
}

CAF_TEST("TOOL-122" a mapper cancels with nothing) {
  const auto got = map_reduce<int, int, int>(
      one_to(5),
      [](int i, auto& write, auto& cancel) {
        if (i % 3 == 0) cancel();
        write(i * i);
      },
      sum_up);
  CAF_CHECK(got.is(fault::cancelled));
  CAF_CHECK_EQUAL(got.error().text, "cancelled without a reason");
}

CAF_TEST("TOOL-123" the reducer cancels) {
  const auto got = map_reduce<int, int, int>(one_to(5), pass_on, [](auto& values, auto& write, auto& cancel) {
    int sum = 0;
    while (auto v = values.next()) {
      sum += *v;
      if (sum > 10) cancel(failure{fault::failed, "E"});
    }
    write(sum);
  });
  CAF_REQUIRE(!got);
  CAF_CHECK_EQUAL(got.error().text, "E");
}

CAF_TEST("TOOL-124" a reducer that writes twice throws) {
  bool thrown = false;
  try {
    (void)map_reduce<int, int, std::string>(one_to(5), pass_on, [](auto& values, auto& write, auto&) {
      while (values.next()) {
      }
      write("one");
      write("two");
    });
  } catch (const std::logic_error&) {
    thrown = true;
  }
  CAF_CHECK(thrown);
}

CAF_TEST(a reducer that writes nothing is found out) {
  const auto got = map_reduce<int, int, int>(one_to(5), pass_on, [](auto&, auto&, auto&) {});
  CAF_CHECK(got.is(fault::no_output));
}

CAF_TEST("TOOL-127" what the generator throws reaches the caller) {
  CAF_CHECK_EQUAL(thrown_by([] {
                    (void)map_reduce<int, int, int>([](auto&) { throw std::runtime_error("foo"); }, pass_on, sum_up);
                  }),
                  "foo");
}

CAF_TEST(what a mapper throws reaches the caller) {
  std::atomic<int> mapped{0};
  CAF_CHECK_EQUAL(thrown_by([&] {
                    (void)map_reduce<int, int, int>(
                        [](auto& emit) {
                          for (int i = 0; emit(i); ++i) {
                          }  // without end: the throw is what ends it
                        },
                        [&](int i, auto& write, auto&) {
                          ++mapped;
                          if (i == 100) throw std::runtime_error("foo");
                          write(i);
                        },
                        sum_up);
                  }),
                  "foo");
  CAF_CHECK(mapped >= 1);
}

CAF_TEST("TOOL-128" what the reducer throws reaches the caller once) {
  for (const bool mapper_too : {false, true}) {
    const auto text = thrown_by([&] {
      (void)map_reduce<int, int, int>(
          one_to(100),
          [&](int i, auto& write, auto&) {
            if (mapper_too && i > 50) throw std::runtime_error("foo");
            write(i);
          },
          [](auto& values, auto&, auto&) {
            (void)values.next();
            throw std::runtime_error("foo");
          });
    });
    CAF_CHECK_EQUAL(text, "foo");
  }
}

CAF_TEST("TOOL-131" the order is by completion) {
  std::atomic<bool> one_is_through{false};
  const auto got = map_reduce<int, int, std::vector<int>>(
      [](auto& emit) {
        emit(0);
        emit(1);
      },
      [&](int i, auto& write, auto&) {
        if (i == 0) {
          (void)comes_true([&] { return one_is_through.load(); });
          std::this_thread::sleep_for(50ms);
        }
        write(i);
        if (i == 1) one_is_through = true;
      },
      [](auto& values, auto& write, auto&) {
        std::vector<int> all;
        while (auto v = values.next()) all.push_back(*v);
        write(std::move(all));
      });
  CAF_REQUIRE(got);
  CAF_CHECK_EQUAL(*got, (std::vector<int>{1, 0}));
}

CAF_TEST("TOOL-132" workers) {
  CAF_CHECK_EQUAL(map_reduce_options{}.workers, 16);
  for (const int workers : {-1, 0, 1, 4, map_reduce_options{}.workers}) {
    std::atomic<int> inside{0};
    std::atomic<int> most{0};
    std::mutex mutex;
    const auto sum = map_reduce<int, int, int>(one_to(50),
                                               [&](int i, auto& write, auto&) {
                                                 const int now = ++inside;
                                                 {
                                                   const std::lock_guard guard{mutex};
                                                   most = std::max(most.load(), now);
                                                 }
                                                 std::this_thread::sleep_for(1ms);
                                                 --inside;
                                                 write(i);
                                               },
                                               sum_up, {.workers = workers});
    CAF_CHECK_EQUAL(*sum, 1275);
    CAF_CHECK(most <= std::max(workers, 1));
    if (workers > 1) CAF_CHECK(most > 1);
  }
}

CAF_TEST(the stop token of the caller cancels) {
  std::stop_source stop;
  std::atomic<int> emitted{0};
  const auto got = map_reduce<int, int, int>(
      [&](auto& emit) {
        while (emit(1))
          if (++emitted == 100) stop.request_stop();
      },
      pass_on, sum_up, {.workers = 4, .stop = stop.get_token()});
  CAF_CHECK(got.is(fault::cancelled));
  CAF_CHECK(map_reduce<int, int, int>(one_to(3), pass_on, sum_up, {.workers = 4, .stop = stop.get_token()})
                .is(fault::cancelled));
}

CAF_TEST(a reducer that has seen enough stops the rest) {
  const auto got = map_reduce<int, int, int>(
      [](auto& emit) {
        for (int i = 1; emit(i); ++i) {
        }
      },
      pass_on, [](auto& values, auto& write, auto&) { write(*values.next()); });
  CAF_REQUIRE(got);
  CAF_CHECK(*got > 0);
}

CAF_TEST(without a result) {
  std::atomic<int> sum{0};
  const auto reduce = [&](auto& values, auto&) {
    while (auto v = values.next()) sum += *v;
  };
  CAF_CHECK(map_reduce_void<int, int>(one_to(4), pass_on, reduce));
  CAF_CHECK_EQUAL(sum.load(), 10);
  const auto got = map_reduce_void<int, int>(
      one_to(4),
      [](int, auto&, auto& cancel) {
        cancel(failure{fault::failed, "E"});
      },
      reduce);
  CAF_CHECK(got.is(fault::failed));
}

CAF_TEST(for each runs all and passes a throw on) {
  std::atomic<int> sum{0};
  CAF_CHECK(for_each<int>(one_to(100), [&](int i) { sum += i; }));
  CAF_CHECK_EQUAL(sum.load(), 5050);
  CAF_CHECK_EQUAL(thrown_by([] { (void)for_each<int>(one_to(5), [](int) { throw std::runtime_error("foo"); }); }),
                  "foo");
}

CAF_TEST("TOOL-134" finish) {
  std::atomic<int> total{0};
  const auto add = [&](int n) {
    return [&total, n] {
      total += n;
      return outcome<void>{};
    };
  };
  CAF_CHECK(finish(add(2), add(3), add(5)));
  CAF_CHECK_EQUAL(total.load(), 10);
  const auto got = finish(
      add(2),
      [] {
        return outcome<void>{failure{fault::failed, "E"}};
      },
      add(5));
  CAF_REQUIRE(!got);
  CAF_CHECK_EQUAL(got.error().text, "E");
  CAF_CHECK(finish(std::vector<std::function<outcome<void>()>>{}));
}

CAF_TEST("TOOL-135" finish void) {
  std::atomic<int> total{0};
  finish_void([&] { total += 2; }, [&] { total += 3; }, [&] { total += 5; });
  CAF_CHECK_EQUAL(total.load(), 10);
  finish_void(std::vector<std::function<void()>>{});
  CAF_CHECK_EQUAL(thrown_by([] { finish_void([] {}, [] { throw std::runtime_error("foo"); }); }), "foo");
}

CAF_TEST(eight threads run map and reduce side by side) {
  std::atomic<int> wrong{0};
  all_at_once(8, [&](int thread) {
    for (int i = 0; i < 30 / (slowdown > 1 ? 3 : 1); ++i) {
      if (thread % 2 == 0) {
        const auto sum = map_reduce<int, int, int>(one_to(100), pass_on, sum_up, {.workers = 4});
        if (!sum || *sum != 5050) ++wrong;
      } else if (thrown_by([] {
                   (void)map_reduce<int, int, int>(one_to(100),
                                                   [](int n, auto& write, auto&) {
                                                     if (n == 50) throw std::runtime_error("foo");
                                                     write(n);
                                                   },
                                                   sum_up, {.workers = 4});
                 }) != "foo") {
        ++wrong;
      }
    }
  });
  CAF_CHECK_EQUAL(wrong.load(), 0);
}
