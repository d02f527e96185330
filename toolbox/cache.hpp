#pragma once

/// What was expensive to get is kept for a while, in bounded memory, and when it runs out only one caller fetches it
/// again. `cache` holds values for a time, at most `limit` of them, drops the least recently used first, and spreads
/// the expiries by 5 % so that what was stored together does not run out together.
///
///   toolbox::cache<std::string, user> users{{.expiry = 1min, .limit = 10'000}};
///   users.set("7", u);
///   if (auto found = users.get("7")) show(*found);
///   user u = users.take("7", [&] { return database.load(7); });   // get, or load once and set
///
/// A loader that can fail without throwing returns something that holds a Value if it is true (std::optional, an
/// expected of your own): name that type as third parameter, and take returns it. An error, returned or thrown, reaches
/// everybody who waited for it and is not stored.
///
///   toolbox::cache<std::string, user, std::optional<user>> maybe_users{{.limit = 100}};
///
/// Threads: safe; the loader runs without the lock, once per key at a time. There is no background thread: what has
/// run out is gone for every call from that moment, and its memory is given back by the next call of any kind.
/// Units: std::chrono; expiry <= 0 means never; limit 0 means none.
/// Errors: none of its own. A loader that is under way while the key is set or removed still stores what it loaded.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <optional>
#include <random>
#include <type_traits>
#include <utility>

#include "toolbox/clock.hpp"
#include "toolbox/outcome.hpp"
#include "toolbox/single_flight.hpp"
#include "toolbox/timer_ring.hpp"
#include "toolbox/waiting.hpp"

namespace caravan::toolbox {

struct cache_options {
  std::chrono::nanoseconds expiry = std::chrono::minutes{1};
  std::size_t limit = 0;
  double jitter = 0.05;    ///< share by which an expiry varies in either direction
  std::uint64_t seed = 0;  ///< of the jitter; 0: a random one
};

/// Since construction. Every get and take counts once.
struct cache_statistics {
  std::uint64_t hits = 0;
  std::uint64_t misses = 0;
};

template <class Key, class Value, class Loaded = Value, class Hash = std::hash<Key>>
class cache {
  static_assert(std::is_same_v<Loaded, Value> || holder_of<Loaded, Value>,
                "a loader returns a Value or something that holds one when it is true");

public:
  explicit cache(cache_options options = {}, const clock& time = real_clock::shared())
      : options_(options),
        time_(time),
        start_(time.now()),
        random_(options.seed != 0 ? options.seed : std::random_device{}()) {}

  /// Stores or replaces; counts as a use.
  void set(const Key& key, Value value) { set(key, std::move(value), options_.expiry); }
  /// With an expiry of its own, spread like the common one.
  void set(const Key& key, Value value, std::chrono::nanoseconds expiry) {
    const std::lock_guard guard{mutex_};
    const auto now = time_.now();
    purge(now);
    const auto due = expiry > std::chrono::nanoseconds::zero() ? tick_at(later(now, spread(expiry))) : never;
    if (auto* found = entries_.find(key)) {
      found->value = std::move(value);
      touch(*found);
      entries_.move(key, due);
      return;
    }
    order_.push_front(key);
    try {
      entries_.set(key, entry{std::move(value), order_.begin()}, due);
    } catch (...) {
      order_.pop_front();
      throw;
    }
    if (options_.limit > 0 && entries_.size() > options_.limit) erase(order_.back());
  }

  /// Counts as a use.
  [[nodiscard]] std::optional<Value> get(const Key& key) {
    const std::lock_guard guard{mutex_};
    auto found = look(key);
    ++(found ? statistics_.hits : statistics_.misses);
    return found;
  }

  /// The stored value, or what `load` returns, stored if it is no error. Callers for the same key share one load.
  template <class Load>
  Loaded take(const Key& key, Load&& load) {
    if (auto found = get(key)) return Loaded(std::move(*found));
    return flights_.call(key, [&]() -> Loaded {
      {
        // What another caller loaded between our look and our start.
        const std::lock_guard guard{mutex_};
        if (auto found = look(key)) return Loaded(std::move(*found));
      }
      Loaded loaded = load();
      if constexpr (std::is_same_v<Loaded, Value>) {
        set(key, loaded);
      } else {
        if (static_cast<bool>(loaded)) set(key, *loaded);
      }
      return loaded;
    });
  }

  /// True if there was one.
  bool remove(const Key& key) {
    const std::lock_guard guard{mutex_};
    purge(time_.now());
    return erase(key);
  }

  [[nodiscard]] std::size_t size() {
    const std::lock_guard guard{mutex_};
    purge(time_.now());
    return entries_.size();
  }
  [[nodiscard]] cache_statistics statistics() const {
    const std::lock_guard guard{mutex_};
    return statistics_;
  }

private:
  struct entry {
    Value value;
    typename std::list<Key>::iterator place;
  };
  static constexpr auto never = ~std::uint64_t{0};

  std::optional<Value> look(const Key& key) {
    purge(time_.now());
    auto* found = entries_.find(key);
    if (found == nullptr) return std::nullopt;
    touch(*found);
    return found->value;
  }
  void touch(entry& used) { order_.splice(order_.begin(), order_, used.place); }
  bool erase(const Key& key) {
    const auto removed = entries_.remove(key);
    if (removed) order_.erase(removed->place);
    return removed.has_value();
  }
  // Every call begins with this, so what has run out neither is found nor takes up room.
  void purge(steady_time now) {
    entries_.advance(tick_at(now), [this](Key&&, entry&& gone) { order_.erase(gone.place); });
  }
  [[nodiscard]] std::uint64_t tick_at(steady_time moment) const {
    return static_cast<std::uint64_t>((moment - start_).count());  // a tick is a nanosecond: exact
  }
  std::chrono::nanoseconds spread(std::chrono::nanoseconds expiry) {
    if (options_.jitter <= 0) return expiry;
    const auto factor = std::uniform_real_distribution<double>{1 - options_.jitter, 1 + options_.jitter}(random_);
    const auto nanoseconds = static_cast<double>(expiry.count()) * factor;
    return nanoseconds >= 9e18 ? std::chrono::nanoseconds::max()
                               : std::chrono::nanoseconds{static_cast<std::int64_t>(nanoseconds)};
  }

  const cache_options options_;
  const clock& time_;
  const steady_time start_;
  mutable std::mutex mutex_;
  std::minstd_rand random_;
  std::list<Key> order_;                  // most recently used first
  timer_ring<Key, entry, Hash> entries_;  // it finds by key, and tells what has run out
  cache_statistics statistics_;
  single_flight<Key, Loaded, Hash> flights_;
};

}  // namespace caravan::toolbox
