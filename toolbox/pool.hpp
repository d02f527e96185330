#pragma once

/// Connections are expensive to open, and the other side allows only so many. `pool` opens them on demand up to a
/// limit, lends them out one by one, and lends the one that came back last first, so that the surplus grows old and is
/// closed.
///
///   toolbox::pool<connection> pool{10, [] { return connection{"db:5432"}; }, {.max_age = 1min}};
///   {
///     auto c = pool.get();                        // waits if all ten are out
///     c->query("...");
///     if (c->broken()) c.discard();               // the next get opens a new one
///   }                                             // back in the pool
///   if (auto c = pool.get(100ms)) (*c)->query("...");   // outcome: timed_out, cancelled or closed
///
/// max_age: what has lain unused for longer is destroyed instead of lent, and by close_idle(); 0 means never.
/// The limit may be pool<...>::no_limit: then nobody ever waits, and the surplus of a busy time is closed by max_age.
///
/// Threads: safe. Opening and destroying run without the lock, on the threads of those who call. A lease may outlive
/// the pool: what it holds is destroyed when it ends. Errors: what the opener throws reaches the caller of get, whose
/// slot goes to the next. The constructor throws std::invalid_argument for a limit of 0 or no opener. get() without a
/// time limit throws error_thrown after close().

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <iterator>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "toolbox/clock.hpp"
#include "toolbox/outcome.hpp"
#include "toolbox/waiting.hpp"

namespace caravan::toolbox {

struct pool_options {
  std::chrono::nanoseconds max_age{0};
};

template <class Resource>
class pool {
  struct idle_resource {
    Resource resource;
    steady_time since;
  };
  struct state {
    explicit state(std::size_t most) : limit(most) {}
    std::mutex mutex;
    std::condition_variable freed;
    std::vector<idle_resource> idle;  // in the order of their return
    const std::size_t limit;
    std::size_t out = 0;  // lent, or being opened
    bool closed = false;
    const clock* time = nullptr;  // for the age of what comes back; none if age does not matter, or closed
  };

public:
  static constexpr std::size_t no_limit = std::numeric_limits<std::size_t>::max();

  /// A resource on loan; move-only.
  class lease {
  public:
    lease(lease&& other) noexcept = default;
    lease& operator=(lease&& other) noexcept {
      if (this != &other) {
        finish();
        home_ = std::move(other.home_);
        resource_ = std::move(other.resource_);
      }
      return *this;
    }
    ~lease() { finish(); }

    Resource& operator*() noexcept { return *resource_; }
    Resource* operator->() noexcept { return &*resource_; }
    /// Destroys the resource now, as one that is broken should be.
    void discard() {
      resource_.reset();
      finish();
    }

  private:
    friend class pool;
    lease(std::shared_ptr<state> home, Resource resource)
        : home_(std::move(home)), resource_(std::in_place, std::move(resource)) {}

    void finish() noexcept {
      const auto home = std::move(home_);
      if (!home) return;
      {
        const std::lock_guard guard{home->mutex};
        --home->out;
        // Room was reserved when it was lent, so this does not allocate.
        if (resource_ && !home->closed) {
          home->idle.push_back({std::move(*resource_), home->time != nullptr ? home->time->now() : steady_time{}});
          resource_.reset();
        }
        home->freed.notify_one();
      }
      resource_.reset();
    }

    std::shared_ptr<state> home_;
    std::optional<Resource> resource_;
  };

  pool(std::size_t limit, std::function<Resource()> open, pool_options options = {},
       const clock& time = real_clock::shared())
      : open_(std::move(open)), options_(options), time_(time), state_(std::make_shared<state>(limit)) {
    if (limit == 0) throw std::invalid_argument("pool: the limit must be above zero");
    if (!open_) throw std::invalid_argument("pool: a function that opens a resource is needed");
    if (options.max_age > std::chrono::nanoseconds::zero()) state_->time = &time;
  }
  pool(const pool&) = delete;
  pool& operator=(const pool&) = delete;
  ~pool() { close(); }

  /// Waits as long as it takes.
  [[nodiscard]] lease get() { return get(std::chrono::nanoseconds::max()).value(); }
  /// Only if one is idle or may be opened.
  [[nodiscard]] outcome<lease> try_get() { return get(std::chrono::nanoseconds::zero()); }
  [[nodiscard]] outcome<lease> get(std::chrono::nanoseconds timeout, std::stop_token stop = {}) {
    auto& s = *state_;
    {
      // Mostly there is one: then neither clock nor stop token matters.
      std::unique_lock lock{s.mutex};
      if (s.closed || s.out < s.limit) return take(lock);
    }
    const auto deadline = later(time_, timeout);
    const std::stop_callback wake{stop, [&s] {
                                    const std::lock_guard guard{s.mutex};
                                    s.freed.notify_all();
                                  }};
    std::unique_lock lock{s.mutex};
    const bool ready = wait_until(s.freed, lock, time_, deadline,
                                  [&] { return s.closed || s.out < s.limit || stop.stop_requested(); });
    if (s.closed || s.out < s.limit) return take(lock);
    if (ready) return failure{fault::cancelled, "the caller stopped waiting for a resource"};
    return failure{fault::timed_out, "all " + std::to_string(s.limit) + " resources are in use"};
  }

  /// Destroys what has been idle for longer than max_age; for owners with a timer. How many that were.
  std::size_t close_idle() {
    std::vector<idle_resource> aged;
    {
      const std::lock_guard guard{state_->mutex};
      take_aged(aged);
    }
    return aged.size();
  }

  /// Destroys what is idle, wakes all who wait; what is out is destroyed when it comes back.
  void close() {
    std::vector<idle_resource> all;
    {
      const std::lock_guard guard{state_->mutex};
      state_->closed = true;
      all.swap(state_->idle);
    }
    state_->freed.notify_all();
  }

  [[nodiscard]] std::size_t idle() const {
    const std::lock_guard guard{state_->mutex};
    return state_->idle.size();
  }
  /// Lent, or being opened.
  [[nodiscard]] std::size_t out() const {
    const std::lock_guard guard{state_->mutex};
    return state_->out;
  }

private:
  // An idle one or a new one; called with the lock held and room for one, or closed.
  outcome<lease> take(std::unique_lock<std::mutex>& lock) {
    auto& s = *state_;
    if (s.closed) return failure{fault::closed, "the pool is closed"};
    if (const auto all = s.idle.size() + s.out + 1; s.idle.capacity() < all)
      s.idle.reserve(std::max(all, 2 * s.idle.capacity()));
    ++s.out;
    std::vector<idle_resource> aged;
    take_aged(aged);
    if (!s.idle.empty()) {
      auto resource = std::move(s.idle.back().resource);
      s.idle.pop_back();
      lock.unlock();
      return lease{state_, std::move(resource)};
    }
    lock.unlock();
    aged.clear();  // before the new one: the other side counts both
    try {
      return lease{state_, open_()};
    } catch (...) {
      const std::lock_guard guard{s.mutex};
      --s.out;
      s.freed.notify_one();
      throw;
    }
  }
  // Those in front have waited longest.
  void take_aged(std::vector<idle_resource>& aged) {
    if (options_.max_age <= std::chrono::nanoseconds::zero()) return;
    auto& idle = state_->idle;
    auto end = idle.begin();
    while (end != idle.end() && time_.now() - end->since > options_.max_age) ++end;
    aged.assign(std::make_move_iterator(idle.begin()), std::make_move_iterator(end));
    idle.erase(idle.begin(), end);
  }

  const std::function<Resource()> open_;
  const pool_options options_;
  const clock& time_;
  const std::shared_ptr<state> state_;
};

}  // namespace caravan::toolbox
