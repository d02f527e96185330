#pragma once

/// A list of things passes through several steps, and some steps are slow enough to be done by several threads.
/// `stream` is such a list that does not exist yet: a value is made when the end of the pipe asks for it.
///
///   using toolbox::stream;
///   auto total = stream<int>::range(orders)
///     .filter([](int n) { return n % 2 == 0; })
///     .map([](int n) { return price_of(n); }, 8)                      // eight workers
///     .reduce(money{}, [](money sum, money m) { return sum + m; });
///   stream<int>::from([](auto& emit) { for (int i = 0; emit(i); ++i) {} }).head(10).for_each(print);
///   auto best = stream<int>::just(1, 2, 9, 5, 8).max();               // optional: 9
///
/// Steps give a new stream and empty the one they are called on; ends run the pipe. With one worker (the default) a
/// step runs on the thread that asks, in order; with more, results come as they are ready, and the function is called
/// from several threads at once. `unlimited_workers` takes a thread per value if need be.
///
/// Threads: a stream belongs to one thread at a time. Threads of its own are begun by `buffer` at once, and by `from`
/// and steps with several workers when the first value is asked for; all are told to stop and joined when the pipe is
/// destroyed or its end has enough, which waits for the functions that run just then. A generator learns that by
/// emit saying false.
/// Errors: a function given to filter, map, walk or parallel that throws drops that value only, and the exception goes
/// to the stray handler (run_safe.hpp). What a generator throws comes out of the end, after the values before it; so
/// does what the functions of all other steps and ends throw. Bad counts throw std::invalid_argument at once.

#include <algorithm>
#include <cstddef>
#include <deque>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "toolbox/channel.hpp"
#include "toolbox/run_safe.hpp"
#include "toolbox/stream_parts.hpp"

namespace caravan::toolbox {

inline constexpr int unlimited_workers = 1 << 16;

template <class T>
class stream {
public:
  using value_type = T;

  // -- beginnings -----------------------------------------------------------------------------------------------------

  stream() = default;
  /// From a function that returns the next value, or none at the end.
  template <class Pull>
  requires std::is_invocable_r_v<std::optional<T>, Pull&> explicit stream(Pull pull)
      : source_(std::make_unique<detail::pulled<T, Pull>>(std::move(pull))) {}

  template <class... Values>
  static stream just(Values&&... values) {
    std::vector<T> all;
    all.reserve(sizeof...(values));
    (all.push_back(std::forward<Values>(values)), ...);
    return range(std::move(all));
  }
  /// The values of a container, which it takes over, copied if given by name.
  template <class Range>
  static stream range(Range&& values) {
    using kept = std::decay_t<Range>;
    return stream{[all = std::make_unique<kept>(std::forward<Range>(values)),
                   at = std::optional<typename kept::iterator>{}]() mutable -> std::optional<T> {
      if (!at) at = all->begin();
      if (*at == all->end()) return std::nullopt;
      return std::optional<T>{std::move(*(*at)++)};
    }};
  }
  /// generate(emit), on a thread of its own. emit(value) waits until the value is taken; false: nobody wants more.
  template <class Generate>
  static stream from(Generate generate) {
    return stream{detail::generated<T>::start_later(
        [generate = std::move(generate)](channel<T>& out) mutable {
          auto emit = [&out](T value) { return out.push(std::move(value)); };
          generate(emit);
        },
        0)};
  }

  // -- steps ----------------------------------------------------------------------------------------------------------

  template <class Keep>
  stream filter(Keep keep, int workers = 1) {
    if (workers <= 1)
      return stream{[in = take(), keep = std::move(keep)]() mutable -> std::optional<T> {
        while (auto value = in.next()) {
          bool kept = false;
          if (run_safe([&] { kept = keep(std::as_const(*value)); }) && kept) return value;
        }
        return std::nullopt;
      }};
    return walk<T>(
        [keep = std::move(keep)](T value, auto& emit) mutable {
          if (keep(std::as_const(value))) emit(std::move(value));
        },
        workers);
  }
  template <class Convert>
  auto map(Convert convert, int workers = 1) {
    using to = std::decay_t<std::invoke_result_t<Convert&, T>>;
    if (workers <= 1)
      return stream<to>{[in = take(), convert = std::move(convert)]() mutable -> std::optional<to> {
        std::optional<to> made;
        while (auto value = in.next())
          if (run_safe([&] { made.emplace(convert(std::move(*value))); })) break;
        return made;
      }};
    return walk<to>([convert = std::move(convert)](T value, auto& emit) mutable { emit(convert(std::move(value))); },
                    workers);
  }
  /// work(value, emit) may emit any number of values.
  template <class U, class Work>
  stream<U> walk(Work work, int workers = 1) {
    if (workers <= 1)
      return stream<U>{[in = take(), work = std::move(work), ready = std::deque<U>{}]() mutable -> std::optional<U> {
        auto emit = [&ready](U value) {
          ready.push_back(std::move(value));
          return true;
        };
        while (ready.empty()) {
          auto value = in.next();
          if (!value) return std::nullopt;
          run_safe([&] { work(std::move(*value), emit); });
        }
        std::optional<U> first{std::move(ready.front())};
        ready.pop_front();
        return first;
      }};
    return stream<U>{detail::worked<U, stream, Work>::start_later(take(), std::move(work), workers)};
  }

  /// The first n. Throws for n < 1.
  stream head(std::ptrdiff_t n) {
    if (n < 1) throw std::invalid_argument("stream: head needs at least one value");
    return stream{[in = take(), n]() mutable -> std::optional<T> {
      if (n == 0) return std::nullopt;
      auto value = in.next();
      // Let go of what is before as soon as the last one is here: it may be without end.
      if (--n == 0 || !value) in = stream{};
      return value;
    }};
  }
  /// The last n. Throws for n < 1.
  stream tail(std::ptrdiff_t n) {
    if (n < 1) throw std::invalid_argument("stream: tail needs at least one value");
    return rearranged([n](stream& in) {
      std::deque<T> last;
      while (auto value = in.next()) {
        last.push_back(std::move(*value));
        if (last.size() > static_cast<std::size_t>(n)) last.pop_front();
      }
      return last;
    });
  }
  /// All but the first n. Throws for n < 0.
  stream skip(std::ptrdiff_t n) {
    if (n < 0) throw std::invalid_argument("stream: skip needs a count that is not negative");
    return stream{[in = take(), n]() mutable -> std::optional<T> {
      for (; n > 0; --n)
        if (!in.next()) n = 1;
      return in.next();
    }};
  }
  template <class Less = std::less<>>
  stream sort(Less less = {}) {
    return rearranged([less](stream& in) {
      auto all = in.to_vector();
      std::stable_sort(all.begin(), all.end(), less);
      return all;
    });
  }
  stream reverse() {
    return rearranged([](stream& in) {
      auto all = in.to_vector();
      std::reverse(all.begin(), all.end());
      return all;
    });
  }
  /// Keeps the first of those that have the same key(value); the key is hashed.
  template <class KeyOf = std::identity>
  stream distinct(KeyOf key_of = {}) {
    using key = std::decay_t<std::invoke_result_t<KeyOf&, const T&>>;
    return stream{[in = take(), key_of, seen = std::unordered_set<key>{}]() mutable -> std::optional<T> {
      while (auto value = in.next())
        if (seen.insert(key_of(std::as_const(*value))).second) return value;
      return std::nullopt;
    }};
  }
  /// These, then those of the others, in turn. A stream is not joined to itself.
  template <class... Others>
  stream concat(Others&&... others) {
    std::deque<stream> parts;
    const auto* self = this;
    const auto join = [&](stream& other) {
      if (&other != self) parts.push_back(other.take());
    };
    (join(others), ...);
    parts.push_front(take());
    return stream{[parts = std::move(parts)]() mutable -> std::optional<T> {
      while (!parts.empty()) {
        if (auto value = parts.front().next()) return value;
        parts.pop_front();
      }
      return std::nullopt;
    }};
  }
  /// All as one value.
  stream<std::vector<T>> merge() {
    return stream<std::vector<T>>{[in = take(), done = false]() mutable -> std::optional<std::vector<T>> {
      if (std::exchange(done, true)) return std::nullopt;
      return in.to_vector();
    }};
  }
  /// Lists of n; the last one may be shorter. Throws for n < 1.
  stream<std::vector<T>> split(std::ptrdiff_t n) {
    if (n < 1) throw std::invalid_argument("stream: split needs parts of at least one value");
    return stream<std::vector<T>>{[in = take(), n]() mutable -> std::optional<std::vector<T>> {
      std::vector<T> part;
      while (std::ssize(part) < n)
        if (auto value = in.next())
          part.push_back(std::move(*value));
        else
          break;
      if (part.empty()) return std::nullopt;
      return part;
    }};
  }
  /// Lists of those with the same key(value), in the order in which the keys came first.
  template <class KeyOf>
  stream<std::vector<T>> group(KeyOf key_of) {
    using key = std::decay_t<std::invoke_result_t<KeyOf&, const T&>>;
    return merge().template walk<std::vector<T>>([key_of](std::vector<T> all, auto& emit) mutable {
      std::vector<std::vector<T>> groups;
      std::unordered_map<key, std::size_t> places;
      for (auto& value : all) {
        const auto [place, fresh] = places.try_emplace(key_of(std::as_const(value)), groups.size());
        if (fresh) groups.emplace_back();
        groups[place->second].push_back(std::move(value));
      }
      for (auto& each : groups) emit(std::move(each));
    });
  }
  /// Runs what is before on a thread of its own, from now on, up to n values ahead.
  stream buffer(std::ptrdiff_t n) {
    return stream{detail::generated<T>::start_now(
        [in = take()](channel<T>& out) mutable {
          while (auto value = in.next())
            if (!out.push(std::move(*value))) return;
        },
        static_cast<std::size_t>(std::max<std::ptrdiff_t>(n, 0)))};
  }

  // -- ends -----------------------------------------------------------------------------------------------------------

  /// The next value, none at the end. The one thing that all ends are made of.
  std::optional<T> next() {
    if (!source_) return std::nullopt;
    auto value = source_->next();
    if (!value) source_.reset();  // its threads have nothing more to do
    return value;
  }
  template <class Work>
  void for_each(Work work) {
    auto in = take();
    while (auto value = in.next()) work(std::move(*value));
  }
  /// for_each by several threads; see Errors.
  template <class Work>
  void parallel(Work work, int workers = 16) {
    walk<char>([work = std::move(work)](T value, auto&) mutable { work(std::move(value)); }, workers).done();
  }
  /// Runs the pipe for what its steps do.
  void done() {
    for_each([](T&&) {});
  }
  std::vector<T> to_vector() {
    std::vector<T> all;
    for_each([&](T&& value) { all.push_back(std::move(value)); });
    return all;
  }
  template <class Sum, class Combine>
  Sum reduce(Sum sum, Combine combine) {
    for_each([&](T&& value) { sum = combine(std::move(sum), std::move(value)); });
    return sum;
  }
  std::size_t count() {
    return reduce(std::size_t{0}, [](std::size_t n, T&&) { return n + 1; });
  }
  std::optional<T> first() { return take().next(); }
  std::optional<T> last() {
    return reduce(std::optional<T>{}, [](std::optional<T>, T&& value) { return std::optional<T>{std::move(value)}; });
  }
  template <class Less = std::less<>>
  std::optional<T> max(Less less = {}) {
    return best([&](const T& a, const T& b) { return less(a, b); });
  }
  template <class Less = std::less<>>
  std::optional<T> min(Less less = {}) {
    return best([&](const T& a, const T& b) { return less(b, a); });
  }
  /// True for an empty stream, as none_match is; the pipe ends with the first value that decides.
  template <class Test>
  bool all_match(Test test) {
    return !any_match([&](const T& value) { return !test(value); });
  }
  template <class Test>
  bool any_match(Test test) {
    auto in = take();
    while (auto value = in.next())
      if (test(std::as_const(*value))) return true;
    return false;
  }
  template <class Test>
  bool none_match(Test test) {
    return !any_match(std::move(test));
  }

private:
  template <class>
  friend class stream;

  explicit stream(std::unique_ptr<detail::source<T>> source) : source_(std::move(source)) {}

  stream take() noexcept { return stream{std::move(source_)}; }

  // A step that has to see all values before it knows the first.
  template <class Arrange>
  stream rearranged(Arrange arrange) {
    using list = std::invoke_result_t<Arrange&, stream&>;
    return stream{
        [in = take(), arrange, all = std::optional<list>{}, at = std::size_t{0}]() mutable -> std::optional<T> {
          if (!all) all.emplace(arrange(in));
          if (at == all->size()) return std::nullopt;
          return std::optional<T>{std::move((*all)[at++])};
        }};
  }
  template <class Less>
  std::optional<T> best(Less less) {
    std::optional<T> found;
    for_each([&](T&& value) {
      if (!found || less(*found, value)) found = std::move(value);
    });
    return found;
  }

  std::unique_ptr<detail::source<T>> source_;
};

}  // namespace caravan::toolbox
