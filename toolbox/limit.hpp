#pragma once

/// Only so many may do something at once. `limit` is a counter of permits: borrow one, give it back, and giving back
/// more than was borrowed is found out. `timeout_limit` adds a wait with a deadline.
///
///   toolbox::limit downloads{4};
///   if (auto permit = downloads.try_scope()) download();   // given back by the destructor
///   downloads.borrow();                                     // waits; pair with give_back()
///   toolbox::timeout_limit slots{4};
///   if (auto ok = slots.borrow(1s); !ok) return busy(ok.error());
///
/// Standard: std::counting_semaphore. It is not used inside for three reasons: its bound is part of its type, giving
/// back too much is undefined, and the one of GCC 12 may sleep although a permit is free (libstdc++ bug 104928).
///
/// Threads: safe. Without a waiter a borrow and its return are two atomic steps, no lock. Waiters are served in no
/// promised order. Errors: the constructor throws std::invalid_argument for a size of 0. give_back answers
/// invalid_argument if nothing is out, the timed borrow timed_out or cancelled; nothing has changed then.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <utility>

#include "toolbox/clock.hpp"
#include "toolbox/outcome.hpp"
#include "toolbox/waiting.hpp"

namespace caravan::toolbox {

class limit {
public:
  /// A borrowed permit that gives itself back.
  class permit {
  public:
    explicit permit(limit& from) noexcept : from_(&from) {}
    permit(permit&& other) noexcept : from_(std::exchange(other.from_, nullptr)) {}
    permit& operator=(permit&& other) noexcept {
      std::swap(from_, other.from_);
      return *this;
    }
    ~permit() {
      if (from_ != nullptr) (void)from_->give_back();
    }

  private:
    limit* from_;
  };

  explicit limit(std::size_t size) : size_(static_cast<std::int64_t>(size)), free_(size_) {
    if (size == 0) throw std::invalid_argument("limit: the size must be above zero");
  }
  limit(const limit&) = delete;
  limit& operator=(const limit&) = delete;

  [[nodiscard]] bool try_borrow() noexcept {
    auto free = free_.load(std::memory_order_relaxed);
    while (free > 0)
      if (free_.compare_exchange_weak(free, free - 1)) return true;
    return false;
  }
  void borrow() {
    if (try_borrow()) return;
    std::unique_lock lock{mutex_};
    const waiting mark{*this};
    returned_.wait(lock, [this] { return try_borrow(); });
  }
  [[nodiscard]] std::optional<permit> try_scope() noexcept {
    return try_borrow() ? std::optional<permit>{std::in_place, *this} : std::nullopt;
  }
  [[nodiscard]] permit scope() {
    borrow();
    return permit{*this};
  }

  /// Refused if everything is back already.
  outcome<void> give_back() {
    auto free = free_.load(std::memory_order_relaxed);
    do {
      if (free == size_) return failure{fault::invalid_argument, "discarding a permit that was not borrowed"};
    } while (!free_.compare_exchange_weak(free, free + 1));
    // A waiter announces itself before it looks for a permit: either it sees ours, or we see it here.
    if (waiters_.load() > 0) {
      { const std::lock_guard guard{mutex_}; }  // it is between looking and sleeping no more
      returned_.notify_one();
    }
    return {};
  }

  [[nodiscard]] std::size_t size() const noexcept { return static_cast<std::size_t>(size_); }
  /// Permits that are free at this moment.
  [[nodiscard]] std::size_t available() const noexcept { return static_cast<std::size_t>(free_.load()); }

protected:
  struct waiting {
    explicit waiting(limit& l) : limit_(l) { ++l.waiters_; }
    ~waiting() { --limit_.waiters_; }
    limit& limit_;
  };

  const std::int64_t size_;
  std::atomic<std::int64_t> free_;
  std::atomic<int> waiters_{0};
  std::mutex mutex_;
  std::condition_variable returned_;
};

class timeout_limit : public limit {
public:
  explicit timeout_limit(std::size_t size, const clock& time = real_clock::shared()) : limit(size), time_(time) {}

  using limit::borrow;
  /// Waits at most `timeout`, and no longer than until `stop` fires.
  outcome<void> borrow(std::chrono::nanoseconds timeout, std::stop_token stop = {}) {
    if (try_borrow()) return {};
    const auto deadline = later(time_, timeout);
    const std::stop_callback wake{stop, [this] {
                                    const std::lock_guard guard{mutex_};
                                    returned_.notify_all();
                                  }};
    bool borrowed = false;
    {
      std::unique_lock lock{mutex_};
      const waiting mark{*this};
      wait_until(returned_, lock, time_, deadline, [&] {
        borrowed = try_borrow();
        return borrowed || stop.stop_requested();
      });
    }
    if (borrowed) return {};
    // The wake-up for a permit may have come to us just as we gave up: pass it on.
    returned_.notify_one();
    if (stop.stop_requested()) return failure{fault::cancelled, "the caller stopped waiting for a permit"};
    return failure{fault::timed_out, "no permit came back in time"};
  }

private:
  const clock& time_;
};

}  // namespace caravan::toolbox
