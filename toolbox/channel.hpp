#pragma once

/// Threads that hand values to other threads need a queue that has a bound, an end, and a way to say that nobody reads
/// any more. `channel` is that queue; stream, map_reduce and their kin are built on it.
///
///   toolbox::channel<int> numbers{8};                    // at most eight wait; 0: push waits until its value is taken
///   std::jthread writer{[&] { for (int i = 0; i < 100 && numbers.push(i); ++i) {} numbers.close(); }};
///   while (auto n = numbers.pop()) use(*n);
///   if (!numbers.try_push(n)) refuse(n);                 // full, or at its end: n is what it was
///
/// close: no more values; those inside can still be taken. fail: the same, and who takes the end gets the exception.
/// abandon: nobody reads any more; what is inside is dropped, and push says false from now on.
///
/// Threads: any number of writers and readers. Order: first in, first out. Errors: push says false once closed or
/// abandoned, and its value is gone then (try_push leaves it); pop says nothing at the end, or throws what fail was
/// given.

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <utility>

namespace caravan::toolbox {

template <class T>
class channel {
public:
  explicit channel(std::size_t capacity) : capacity_(capacity) {}
  channel(const channel&) = delete;
  channel& operator=(const channel&) = delete;

  bool push(T value) {
    std::unique_lock lock{mutex_};
    room_.wait(lock, [this] { return closed_ || values_.size() < (capacity_ == 0 ? 1 : capacity_); });
    if (closed_) return false;
    values_.push_back(std::move(value));
    const auto mine = ++pushed_;
    filled_.notify_one();
    if (capacity_ > 0) return true;
    room_.wait(lock, [&] { return abandoned_ || popped_ >= mine; });
    return popped_ >= mine;
  }

  /// Never waits. False, with the value untouched, if there is no room or the end has come; with a capacity of 0
  /// always.
  [[nodiscard]] bool try_push(T& value) {
    {
      const std::lock_guard guard{mutex_};
      if (closed_ || values_.size() >= capacity_) return false;
      values_.push_back(std::move(value));
      ++pushed_;
    }
    filled_.notify_one();
    return true;
  }

  std::optional<T> pop() {
    std::unique_lock lock{mutex_};
    filled_.wait(lock, [this] { return closed_ || !values_.empty(); });
    if (values_.empty()) {
      if (error_) std::rethrow_exception(error_);
      return std::nullopt;
    }
    std::optional<T> value{std::move(values_.front())};
    values_.pop_front();
    ++popped_;
    // Writers wait for two things here, room and having been taken; one call must not wake only the wrong one.
    if (capacity_ == 0)
      room_.notify_all();
    else
      room_.notify_one();
    return value;
  }

  void close() { fail(nullptr); }
  /// Only the first end counts.
  void fail(std::exception_ptr error) {
    const std::lock_guard guard{mutex_};
    if (closed_) return;
    closed_ = true;
    error_ = std::move(error);
    filled_.notify_all();
    room_.notify_all();
  }
  void abandon() {
    std::deque<T> dropped;  // destroyed without the lock: a T may do anything
    const std::lock_guard guard{mutex_};
    closed_ = abandoned_ = true;
    dropped.swap(values_);
    filled_.notify_all();
    room_.notify_all();
  }
  [[nodiscard]] std::size_t size() const {
    const std::lock_guard guard{mutex_};
    return values_.size();
  }

private:
  const std::size_t capacity_;
  mutable std::mutex mutex_;
  std::condition_variable filled_;
  std::condition_variable room_;
  std::deque<T> values_;
  std::uint64_t pushed_ = 0;
  std::uint64_t popped_ = 0;
  bool closed_ = false;
  bool abandoned_ = false;
  std::exception_ptr error_;
};

}  // namespace caravan::toolbox
