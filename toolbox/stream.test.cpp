#define CAF_SUITE stream
#include "toolbox/stream.hpp"

#include <fstream>
#include <numeric>
#include <string>

#include "caf/test/unit_test.hpp"
#include "toolbox/testing/support.hpp"

using namespace caravan::toolbox;
using namespace caravan::toolbox::testing;

namespace {

using numbers = std::vector<int>;

stream<int> one_to(int last) {
  numbers all(static_cast<std::size_t>(last));
  std::iota(all.begin(), all.end(), 1);
  return stream<int>::range(all);
}

int sum_of(stream<int> s) {
  return s.reduce(0, [](int a, int b) { return a + b; });
}

numbers sorted(stream<int> s) { return s.sort().to_vector(); }

// Threads of this process, as the system counts them; -1 where it does not tell.
int threads_now() {
  std::ifstream status{"/proc/self/status"};
  for (std::string word; status >> word;)
    if (word == "Threads:") {
      int n = -1;
      status >> n;
      return n;
    }
  return -1;
}

template <class Work>
bool refused(Work work) {
  try {
    work();
  } catch (const std::invalid_argument&) {
    return true;
  }
  return false;
}

// Exceptions of items are dropped here and only counted.
struct quiet {
  quiet() : before(set_stray_handler([this](std::exception_ptr) { ++count; })) {}
  ~quiet() { set_stray_handler(std::move(before)); }
  std::atomic<int> count{0};
  stray_handler before;
};

}  // namespace

CAF_TEST("TOOL-100" a buffer holds the producer back) {
  std::atomic<int> sent{0};
  auto s = stream<int>::from([&](auto& emit) {
             for (int i = 0; i < 10; ++i) {
               if (!emit(i)) return;
               ++sent;
             }
           }).buffer(5);
  CAF_CHECK(comes_true([&] { return sent == 6; }));
  std::this_thread::sleep_for(10ms);
  CAF_CHECK_EQUAL(sent.load(), 6);
  CAF_CHECK_EQUAL(s.count(), 10u);
}

CAF_TEST("TOOL-104" filter) {
  for (const int workers : {1, 4})
    CAF_CHECK_EQUAL(sum_of(one_to(4).filter([](int n) { return n % 2 == 0; }, workers)), 6);
}

CAF_TEST("TOOL-105" first and last leave no thread) {
  using words = stream<std::string>;
  const auto before = threads_now();
  CAF_CHECK(words::just().first() == std::nullopt);
  CAF_CHECK(words::just().last() == std::nullopt);
  CAF_CHECK(words::just("foo").first() == "foo");
  CAF_CHECK(words::just("foo").last() == "foo");
  CAF_CHECK(words::just("foo", "bar").first() == "foo");
  CAF_CHECK(words::just("foo", "bar").last() == "bar");
  const auto endless = [] {
    return stream<int>::from([](auto& emit) {
      for (int i = 0; emit(i); ++i) {
      }
    });
  };
  CAF_CHECK(endless().first() == 0);
  CAF_CHECK(endless().buffer(3).map([](int n) { return n + 1; }, 4).first().has_value());
  CAF_CHECK_EQUAL(threads_now(), before);
}

CAF_TEST("TOOL-107" head) {
  CAF_CHECK_EQUAL(sum_of(one_to(4).head(2)), 3);
  CAF_CHECK_EQUAL(sum_of(one_to(4).head(6)), 10);
  CAF_CHECK(refused([] { one_to(4).head(0); }));
}

CAF_TEST(tail) {
  CAF_CHECK_EQUAL(one_to(4).tail(2).to_vector(), (numbers{3, 4}));
  CAF_CHECK_EQUAL(one_to(4).tail(6).to_vector(), (numbers{1, 2, 3, 4}));
  CAF_CHECK(refused([] { one_to(4).tail(0); }));
}

CAF_TEST("TOOL-109" map) {
  quiet strays;
  for (const int workers : {0, 1, 4, unlimited_workers}) {
    CAF_CHECK_EQUAL(sum_of(one_to(4).map([](int n) { return n * n; }, workers)), 30);
    CAF_CHECK_EQUAL(sum_of(one_to(4).map([](int n) { return n % 2 == 0 ? 0 : n * n; }, workers)), 10);
    CAF_CHECK_EQUAL(sum_of(one_to(4).map(
                        [](int n) {
                          if (n % 2 == 0) throw std::runtime_error("even");
                          return n * n;
                        },
                        workers)),
                    10);
  }
  CAF_CHECK_EQUAL(strays.count.load(), 8);
}

CAF_TEST("TOOL-110" merge) {
  const auto lists = one_to(4).merge().to_vector();
  CAF_CHECK_EQUAL(lists, (std::vector<numbers>{{1, 2, 3, 4}}));
}

CAF_TEST("TOOL-111" reverse) { CAF_CHECK_EQUAL(one_to(4).reverse().to_vector(), (numbers{4, 3, 2, 1})); }

CAF_TEST("TOOL-112" sort) {
  CAF_CHECK_EQUAL(stream<int>::just(5, 3, 7, 1, 9, 6, 4, 8, 2).sort().to_vector(),
                  (numbers{1, 2, 3, 4, 5, 6, 7, 8, 9}));
  CAF_CHECK_EQUAL(stream<int>::just(1, 3, 2).sort(std::greater<>{}).to_vector(), (numbers{3, 2, 1}));
}

CAF_TEST("TOOL-113" split) {
  const auto parts = one_to(10).split(4).to_vector();
  CAF_CHECK_EQUAL(parts, (std::vector<numbers>{{1, 2, 3, 4}, {5, 6, 7, 8}, {9, 10}}));
  CAF_CHECK(refused([] { one_to(10).split(0); }));
}

CAF_TEST("TOOL-114" skip) {
  CAF_CHECK_EQUAL(one_to(4).skip(1).count(), 3u);
  CAF_CHECK_EQUAL(one_to(4).skip(3).to_vector(), (numbers{4}));
  CAF_CHECK_EQUAL(one_to(4).skip(0).count(), 4u);
  CAF_CHECK_EQUAL(one_to(4).skip(9).count(), 0u);
  CAF_CHECK(refused([] { one_to(4).skip(-1); }));
}

CAF_TEST("TOOL-116" concat) {
  auto second = stream<int>::just(2);
  CAF_CHECK_EQUAL(sorted(stream<int>::just(1).concat(second, stream<int>::just(3))), (numbers{1, 2, 3}));
  auto self = stream<int>::just(1);
  CAF_CHECK_EQUAL(self.concat(self).to_vector(), (numbers{1}));
}

CAF_TEST("TOOL-117" max and min) {
  CAF_CHECK(stream<int>::just().max() == std::nullopt);
  CAF_CHECK(stream<int>::just().min() == std::nullopt);
  CAF_CHECK(stream<int>::just(1).max() == 1);
  CAF_CHECK(stream<int>::just(1, 2, 9, 5, 8).max() == 9);
  CAF_CHECK(stream<int>::just(-1, 1, 2, 9, 5, 8).min() == -1);
}

CAF_TEST("TOOL-118" walk) {
  const auto keep_odd = [](int n, auto& emit) {
    if (n % 2 != 0) emit(n);
  };
  CAF_CHECK_EQUAL(sum_of(one_to(5).walk<int>(keep_odd, unlimited_workers)), 9);
  CAF_CHECK_EQUAL(sum_of(one_to(5).walk<int>(keep_odd)), 9);
}

CAF_TEST(distinct and group) {
  CAF_CHECK_EQUAL(stream<int>::just(4, 1, 3, 2, 3, 4).distinct().to_vector(), (numbers{4, 1, 3, 2}));
  const auto groups = stream<int>::just(10, 11, 20, 21).group([](int n) { return n / 10; }).to_vector();
  CAF_CHECK_EQUAL(groups, (std::vector<numbers>{{10, 11}, {20, 21}}));
}

CAF_TEST(matches) {
  const auto even = [](int n) { return n % 2 == 0; };
  CAF_CHECK(stream<int>::just(2, 4).all_match(even));
  CAF_CHECK(!stream<int>::just(2, 3).all_match(even));
  CAF_CHECK(stream<int>::just(1, 2).any_match(even));
  CAF_CHECK(!stream<int>::just(1, 3).any_match(even));
  CAF_CHECK(stream<int>::just(1, 3).none_match(even));
  CAF_CHECK(!stream<int>::just(1, 2).none_match(even));
  CAF_CHECK(stream<int>::just().all_match(even));
  CAF_CHECK(!stream<int>::just().any_match(even));
  CAF_CHECK(stream<int>::just().none_match(even));
}

CAF_TEST(parallel and done and for each) {
  quiet strays;
  std::atomic<int> sum{0};
  one_to(100).parallel([&](int n) {
    if (n == 50) throw std::runtime_error("fifty");
    sum += n;
  });
  CAF_CHECK_EQUAL(sum.load(), 5000);
  CAF_CHECK_EQUAL(strays.count.load(), 1);
  one_to(3).map([&](int n) { return sum += n; }).done();
  CAF_CHECK_EQUAL(sum.load(), 5006);
}

CAF_TEST(nothing runs before an end asks) {
  int made = 0;
  {
    auto s = one_to(4).map([&](int n) {
      ++made;
      return n;
    });
    CAF_CHECK_EQUAL(made, 0);
    CAF_CHECK(s.next() == 1);
    CAF_CHECK_EQUAL(made, 1);
  }
  auto unused = stream<int>::from([&](auto&) { ++made; });
  CAF_CHECK_EQUAL(made, 1);
}

CAF_TEST(what a generator throws comes out of the end after the values before it) {
  for (const int workers : {1, 4}) {
    auto s = stream<int>::from([](auto& emit) {
               emit(1);
               emit(2);
               throw std::runtime_error("broken");
             }).map([](int n) { return n; }, workers);
    int sum = 0;
    std::string text;
    try {
      while (const auto n = s.next()) sum += *n;
    } catch (const std::runtime_error& e) {
      text = e.what();
    }
    CAF_CHECK_EQUAL(sum, 3);
    CAF_CHECK_EQUAL(text, "broken");
  }
}

CAF_TEST(values that can only be moved pass through) {
  auto s = one_to(3).map([](int n) { return std::make_unique<int>(n); });
  CAF_CHECK_EQUAL(s.reverse().reduce(0, [](int sum, std::unique_ptr<int> n) { return sum * 10 + *n; }), 321);
}

CAF_TEST(a pipe equals the same steps on a vector) {
  CAF_CHECK(holds("stream equals vector", [](numbers values) {
    const auto n = *rc::gen::inRange(1, 10);
    const auto workers = *rc::gen::element(1, 3);
    auto expected = values;
    std::erase_if(expected, [](int v) { return v % 3 == 0; });
    std::sort(expected.begin(), expected.end());
    expected.erase(expected.begin(), expected.begin() + std::min<std::ptrdiff_t>(n, std::ssize(expected)));
    const auto got =
        stream<int>::range(values).filter([](int v) { return v % 3 != 0; }, workers).sort().skip(n).to_vector();
    RC_ASSERT(got == expected);
    numbers joined;
    stream<int>::range(values).split(n).for_each([&](numbers part) {
      RC_ASSERT(std::ssize(part) <= n && !part.empty());
      joined.insert(joined.end(), part.begin(), part.end());
    });
    RC_ASSERT(joined == values);
  }));
}

CAF_TEST(eight threads each run a pipe of several threads) {
  std::atomic<int> wrong{0};
  all_at_once(8, [&](int) {
    for (int i = 0; i < 30 / (slowdown > 1 ? 5 : 1); ++i) {
      if (sum_of(stream<int>::from([](auto& emit) {
                   for (int n = 1; n <= 100; ++n) emit(n);
                 })
                     .buffer(3)
                     .map([](int n) { return n * 2; }, 4)
                     .filter([](int n) { return n % 4 == 0; }, 2)) != 5100)
        ++wrong;
      // Given up in the middle.
      if (one_to(100).buffer(2).map([](int n) { return n; }, 3).head(5).count() != 5) ++wrong;
    }
  });
  CAF_CHECK_EQUAL(wrong.load(), 0);
}
