#pragma once

/// A hundred callers want the same thing at the same moment, and fetching it is expensive. `single_flight` lets the
/// first one fetch; those who ask for the same key before it is done wait and get a copy. It is no cache: the next
/// caller after that fetches again.
///
///   toolbox::single_flight<std::string, user> flight;
///   user u = flight.call("user:7", [&] { return database.load(7); });
///   auto [value, fresh] = flight.call_ex("user:7", load);        // fresh: this call did the work itself
///   auto maybe = flight.call("user:7", load, stop_token);        // outcome<user>: cancelled if the wait was given up
///
/// (`do` is a keyword here, hence call and call_ex.)
///
/// Threads: safe. The function runs on the thread of the first caller, without any lock. A caller who stops waiting
/// harms nobody: the function runs to its end and serves the others. Asking for a key from inside its own function
/// could only wait for itself and throws std::system_error (resource_deadlock_would_occur).
/// Errors: what the function throws reaches everyone who waited for it; what it returns (an expected of your own, say)
/// is copied to everyone, error or not. Value must be copyable; wrap what is not in std::shared_ptr.

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <system_error>
#include <thread>
#include <utility>

#include "toolbox/outcome.hpp"
#include "toolbox/spin_lock.hpp"

namespace caravan::toolbox {

template <class Value>
struct flight_result {
  Value value;
  bool fresh;  ///< this caller ran the function
};

template <class Key, class Value, class Hash = std::hash<Key>>
class single_flight {
public:
  single_flight() = default;
  single_flight(const single_flight&) = delete;
  single_flight& operator=(const single_flight&) = delete;

  template <class Fetch>
  Value call(const Key& key, Fetch&& fetch) {
    return std::move(*fly(key, fetch, {}).value);
  }
  template <class Fetch>
  flight_result<Value> call_ex(const Key& key, Fetch&& fetch) {
    auto done = fly(key, fetch, {});
    return {std::move(*done.value), done.fresh};
  }
  /// As call, but a caller who only waits gives up when `stop` fires.
  template <class Fetch>
  outcome<Value> call(const Key& key, Fetch&& fetch, std::stop_token stop) {
    auto done = fly(key, fetch, std::move(stop));
    if (!done.value) return failure{fault::cancelled, "the caller stopped waiting"};
    return std::move(*done.value);
  }

private:
  // What followers wait on. Made by the first of them, so that a call alone allocates nothing.
  struct landing {
    std::mutex mutex;
    std::condition_variable_any arrived;
    bool done = false;
    std::optional<Value> value;
    std::exception_ptr thrown;
  };
  // A function under way; lives on the stack of the thread that runs it, and in its bucket's list.
  struct flight {
    const Key& key;
    std::thread::id pilot;
    flight* next;
    std::shared_ptr<landing> followers;
  };
  struct alignas(64) bucket {
    spin_lock lock;
    flight* first = nullptr;
  };
  struct result {
    std::optional<Value> value;
    bool fresh;
  };

  template <class Fetch>
  result fly(const Key& key, Fetch& fetch, std::stop_token stop) {
    auto& place = bucket_of(key);
    flight mine{key, std::this_thread::get_id(), nullptr, nullptr};
    std::shared_ptr<landing> wait_at;
    {
      const std::lock_guard guard{place.lock};
      for (auto* f = place.first; f != nullptr && !wait_at; f = f->next)
        if (f->key == key) {
          if (f->pilot == mine.pilot)
            throw std::system_error(std::make_error_code(std::errc::resource_deadlock_would_occur),
                                    "single_flight: the function asks for its own key");
          if (!f->followers) f->followers = std::make_shared<landing>();
          wait_at = f->followers;
        }
      if (!wait_at) {
        mine.next = place.first;
        place.first = &mine;
      }
    }
    return wait_at ? follow(*wait_at, stop) : lead(place, mine, fetch);
  }

  template <class Fetch>
  result lead(bucket& place, flight& mine, Fetch& fetch) {
    result done{std::nullopt, true};
    try {
      done.value.emplace(fetch());
      if (const auto followers = land(place, mine)) {
        const std::lock_guard guard{followers->mutex};
        try {
          followers->value = done.value;
        } catch (...) {
          followers->thrown = std::current_exception();  // a copy failed: that is theirs, this caller has its value
        }
        followers->done = true;
        followers->arrived.notify_all();
      }
    } catch (...) {
      if (const auto followers = land(place, mine)) {
        const std::lock_guard guard{followers->mutex};
        followers->thrown = std::current_exception();
        followers->done = true;
        followers->arrived.notify_all();
      }
      throw;
    }
    return done;
  }

  static result follow(landing& at, const std::stop_token& stop) {
    std::unique_lock lock{at.mutex};
    if (!at.arrived.wait(lock, stop, [&] { return at.done; })) return {std::nullopt, false};
    if (at.thrown) std::rethrow_exception(at.thrown);
    return {at.value, false};
  }

  // From here on nobody can join.
  static std::shared_ptr<landing> land(bucket& place, flight& mine) noexcept {
    const std::lock_guard guard{place.lock};
    auto** link = &place.first;
    while (*link != nullptr && *link != &mine) link = &(*link)->next;
    if (*link == nullptr) return nullptr;
    *link = mine.next;
    return std::move(mine.followers);
  }

  bucket& bucket_of(const Key& key) {
    return buckets_[(static_cast<std::uint64_t>(Hash{}(key)) * 0x9E3779B97F4A7C15ull) >> 60];
  }

  std::array<bucket, 16> buckets_;
};

}  // namespace caravan::toolbox
