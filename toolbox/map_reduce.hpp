#pragma once

/// Fetch a hundred things at the same time and make one of them, and stop at once when one fails. `map_reduce` runs a
/// generator, any number of mappers and a reducer side by side; `finish` and `for_each` are its two short forms.
///
///   auto total = toolbox::map_reduce<id, order, money>(
///     [&](auto& emit) { for (auto id : ids) emit(id); },
///     [&](id one, auto& write, auto& cancel) { if (auto o = load(one)) write(*o); else cancel(not_found); },
///     [&](auto& all, auto& write, auto&) { money sum; while (auto o = all.next()) sum += o->price; write(sum); },
///     {.workers = 16});
///   if (!total) report(total.error().text);
///
///   auto done = toolbox::finish([&] { return save_a(); }, [&] { return save_b(); });   // the first error, else good
///   toolbox::for_each<id>([&](auto& emit) { for (auto id : ids) emit(id); }, [&](id one) { touch(one); });
///
/// What is mapped first arrives first: the order of the items is not kept. The generator runs up to 64 items (or as
/// many as there are workers) ahead of the mappers, and these as far ahead of the reducer.
///
/// Cancel: any part may call cancel(failure), or cancel() without a reason; the first one counts and is the answer.
/// The caller's stop token does the same. From then on emit and write say false and drop what they are given, and
/// nothing new is started; what runs is waited for, since a thread cannot be cut off. A reducer that returns before the
/// end has seen enough and stops the rest in the same way.
///
/// Threads: the generator and the mappers each on their own, at most `workers` mappers, started as they are needed and
/// all joined on return; the reducer on the caller's. emit, write and cancel may be used from any thread until then.
/// workers <= 0 counts as 1. Errors: what any part throws cancels the rest and passes to the caller, of several the
/// first. A reducer that writes twice gets std::logic_error; one that writes nothing leads to no_output.

#include <algorithm>
#include <atomic>
#include <concepts>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "toolbox/channel.hpp"
#include "toolbox/outcome.hpp"

namespace caravan::toolbox {

struct map_reduce_options {
  int workers = 16;
  std::stop_token stop = {};
};

/// Where a generator or mapper puts its values. False: nobody wants them any more, so stop.
template <class T>
class emitter {
public:
  explicit emitter(channel<T>& to) : to_(to) {}
  bool operator()(T value) { return to_.push(std::move(value)); }

private:
  channel<T>& to_;
};

/// What a reducer takes its values from.
template <class T>
class received {
public:
  explicit received(channel<T>& from) : from_(from) {}
  /// Waits for the next one; none at the end, or when cancelled.
  std::optional<T> next() { return from_.pop(); }

private:
  channel<T>& from_;
};

/// Where a reducer puts its one result.
template <class T>
class result_writer {
public:
  void operator()(T value) {
    if (value_) throw std::logic_error("map_reduce: the reducer wrote a second result");
    value_.emplace(std::move(value));
  }
  [[nodiscard]] std::optional<T>& value() noexcept { return value_; }

private:
  std::optional<T> value_;
};

/// Stops everything; the first reason counts.
class canceller {
public:
  explicit canceller(std::function<void(failure)> cancel) : cancel_(std::move(cancel)) {}
  void operator()(failure reason) { cancel_(std::move(reason)); }
  void operator()() { cancel_(failure{fault::cancelled, "cancelled without a reason"}); }

private:
  std::function<void(failure)> cancel_;
};

namespace detail {

/// The generator and the mappers of one call, and what ended it.
template <class Item, class Mapped>
class mapping {
public:
  explicit mapping(const map_reduce_options& options)
      : workers_(options.workers < 1 ? 1 : static_cast<std::size_t>(options.workers)),
        items_(ahead(workers_)),
        mapped_(ahead(workers_)),
        cancel_([this](failure reason) { stop(std::move(reason), nullptr); }),
        outer_(options.stop, [this] {
          stop(failure{fault::cancelled, "the caller stopped waiting"}, nullptr);
        }) {}
  mapping(const mapping&) = delete;
  mapping& operator=(const mapping&) = delete;

  // Runs `consume` here while the others run, and returns when all have ended.
  template <class Generate, class Map, class Consume>
  void run(Generate& generate, Map& map, Consume consume) {
    const auto work = [this, &map](auto& self) -> void {
      guarded([&] {
        emitter<Mapped> write{mapped_};
        for (;;) {
          ++idle_;
          auto item = items_.pop();
          // Somebody has to wait for the next item; so there are as many mappers as are needed, up to the limit.
          if (--idle_ == 0 && item) start([&self] { self(self); });
          if (!item) break;
          map(std::move(*item), write, cancel_);
        }
      });
      if (--running_ == 0) mapped_.close();
    };
    try {
      start([&work] { work(work); });
      start_generator([&] {
        guarded([&] {
          emitter<Item> emit{items_};
          generate(emit);
        });
        items_.close();
      });
      consume(mapped_);
    } catch (...) {
      stop(failure{}, std::current_exception());
    }
    // A consumer that has seen enough ends the others too.
    mapped_.abandon();
    items_.abandon();
    join();
  }

  canceller& cancel() noexcept { return cancel_; }
  // After run: the first exception is thrown, the first reason to cancel returned.
  std::optional<failure> why() {
    const std::lock_guard guard{mutex_};
    if (error_) std::rethrow_exception(error_);
    return reason_;
  }

private:
  // A queue as short as the number of workers would put a thread to sleep for every item.
  static std::size_t ahead(std::size_t workers) { return std::max<std::size_t>(workers, 64); }

  template <class Body>
  void guarded(Body body) noexcept {
    try {
      body();
    } catch (...) {
      stop(failure{}, std::current_exception());
    }
  }
  void stop(failure reason, std::exception_ptr error) {
    {
      const std::lock_guard guard{mutex_};
      if (!reason_ && !error_) {
        if (error)
          error_ = std::move(error);
        else
          reason_ = std::move(reason);
      }
    }
    items_.abandon();
    mapped_.abandon();
  }
  template <class Body>
  void start(Body body) {
    const std::lock_guard guard{mutex_};
    if (started_ == workers_) return;
    ++running_;  // first: a thread that ends at once must not find itself the last one
    try {
      threads_.emplace_back(std::move(body));
    } catch (...) {
      --running_;
      throw;
    }
    ++started_;
  }
  template <class Body>
  void start_generator(Body body) {
    const std::lock_guard guard{mutex_};
    threads_.emplace_back(std::move(body));
  }
  void join() {
    for (;;) {
      std::vector<std::jthread> batch;
      {
        const std::lock_guard guard{mutex_};
        batch.swap(threads_);
      }
      if (batch.empty()) return;
    }
  }

  const std::size_t workers_;
  channel<Item> items_;
  channel<Mapped> mapped_;
  std::mutex mutex_;
  std::optional<failure> reason_;
  std::exception_ptr error_;
  std::size_t started_ = 0;
  std::atomic<std::size_t> running_{0};
  std::atomic<int> idle_{0};
  std::vector<std::jthread> threads_;
  canceller cancel_;
  std::stop_callback<std::function<void()>> outer_;
};

struct nothing {};

}  // namespace detail

/// reduce(received<Mapped>&, result_writer<Result>&, canceller&)
template <class Item, class Mapped, class Result, class Generate, class Map, class Reduce>
outcome<Result> map_reduce(Generate generate, Map map, Reduce reduce, const map_reduce_options& options = {}) {
  detail::mapping<Item, Mapped> parts{options};
  result_writer<Result> write;
  parts.run(generate, map, [&](channel<Mapped>& mapped) {
    received<Mapped> values{mapped};
    reduce(values, write, parts.cancel());
  });
  if (auto why = parts.why()) return *std::move(why);
  if (!write.value()) return failure{fault::no_output, "the reducer wrote no result"};
  return *std::move(write.value());
}

/// The reducer keeps its result to itself: reduce(received<Mapped>&, canceller&)
template <class Item, class Mapped, class Generate, class Map, class Reduce>
outcome<void> map_reduce_void(Generate generate, Map map, Reduce reduce, const map_reduce_options& options = {}) {
  detail::mapping<Item, Mapped> parts{options};
  parts.run(generate, map, [&](channel<Mapped>& mapped) {
    received<Mapped> values{mapped};
    reduce(values, parts.cancel());
  });
  if (auto why = parts.why()) return *std::move(why);
  return {};
}

/// Runs work(item) for everything that is generated. Answers only `cancelled`, by the stop token.
template <class Item, class Generate, class Work>
outcome<void> for_each(Generate generate, Work work, const map_reduce_options& options = {}) {
  return map_reduce_void<Item, detail::nothing>(
      std::move(generate), [&](Item item, auto&, auto&) { work(std::move(item)); },
      [](auto& values, auto&) { (void)values.next(); }, options);
}

/// Runs all at the same time; the first that returns an error is the answer, and tasks not yet begun are left out.
/// The tasks return a testable R; R{} must test true and is the answer if all went well.
template <class R>
R finish(const std::vector<std::function<R()>>& tasks) {
  static_assert(testable<R>);
  std::mutex mutex;
  std::optional<R> first;
  const auto done = map_reduce_void<std::size_t, detail::nothing>(
      [&](auto& emit) {
        for (std::size_t i = 0; i < tasks.size(); ++i) emit(i);
      },
      [&](std::size_t i, auto&, auto& cancel) {
        auto result = tasks[i]();
        if (static_cast<bool>(result)) return;
        {
          const std::lock_guard guard{mutex};
          if (!first) first.emplace(std::move(result));
        }
        cancel();
      },
      [](auto& values, auto&) { (void)values.next(); }, {.workers = static_cast<int>(tasks.size()), .stop = {}});
  (void)done;  // cancelled only together with `first`
  if (first) return std::move(*first);
  return R{};
}

template <class First, class... Tasks>
requires std::invocable<First&>
auto finish(First first, Tasks... tasks) {
  using result = std::invoke_result_t<First&>;
  return finish(std::vector<std::function<result()>>{std::move(first), std::move(tasks)...});
}

/// Runs all at the same time and waits for them.
inline void finish_void(const std::vector<std::function<void()>>& tasks) {
  (void)for_each<std::size_t>(
      [&](auto& emit) {
        for (std::size_t i = 0; i < tasks.size(); ++i) emit(i);
      },
      [&](std::size_t i) { tasks[i](); }, {.workers = static_cast<int>(tasks.size()), .stop = {}});
}

template <class First, class... Tasks>
requires std::invocable<First&>
void finish_void(First first, Tasks... tasks) {
  finish_void(std::vector<std::function<void()>>{std::move(first), std::move(tasks)...});
}

}  // namespace caravan::toolbox
