#pragma once

/// One scan over everything empties a least-recently-used cache of all that was worth keeping. `two_queue` keeps what
/// was used once apart from what was used again: new keys go to the *recent* line and leave it soon, and only a second
/// use moves them to the *frequent* line. Keys that left the recent line are remembered for a while without their
/// values (*ghosts*): one that comes back goes straight to the frequent line.
///
///   toolbox::two_queue<std::string, user> users{{.size = 10'000}};
///   users.set("7", u);
///   if (auto* found = users.find("7")) show(*found);    // now it is a frequent one
///   users.set("8", v, 500);                             // due at tick 500
///   users.advance(500);                                 // "8" is gone
///
/// This is the bookkeeping alone, for those who are told the time and bring their own lock. Against a plain LRU see
/// docs/cache.md; on a trace without scans both do equally well, and LRU (cache.hpp) costs less memory.
///
/// Threads: not thread safe. Units: ticks as in timer_ring; `never` means without expiry. Both lines share `size`; the
/// recent line gives way while it holds more than its share. Errors: the constructor and resize throw
/// std::invalid_argument for a size of 0, the constructor also for a ratio outside 0..1; nothing has changed then.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <optional>
#include <stdexcept>
#include <unordered_map>
#include <utility>

#include "toolbox/timer_ring.hpp"

namespace caravan::toolbox {

struct two_queue_options {
  std::size_t size = 50'000;   ///< most values
  double recent_ratio = 0.25;  ///< share of `size` that keys used once may hold on to
  double ghost_ratio = 0.5;    ///< as many keys are remembered after their values left the recent line
};

template <class Key, class Value, class Hash = std::hash<Key>>
class two_queue {
public:
  using tick = std::uint64_t;
  static constexpr tick never = ~tick{0};

  explicit two_queue(two_queue_options options = {}) : options_(options) {
    // Written so that a NaN is refused as well.
    if (!(options.recent_ratio >= 0 && options.recent_ratio <= 1))
      throw std::invalid_argument("two_queue: the share of recent keys lies between 0 and 1");
    if (!(options.ghost_ratio >= 0 && options.ghost_ratio <= 1))
      throw std::invalid_argument("two_queue: the share of remembered keys lies between 0 and 1");
    resize(options.size);
  }

  /// Stores or replaces, value and expiry; counts as a use.
  void set(const Key& key, Value value, tick due = never) {
    if (auto* known = entries_.find(key)) {
      known->value = std::move(value);
      touch(*known);
      entries_.move(key, due);
      return;
    }
    const bool comes_back = forget_ghost(key);
    if (size() >= options_.size) evict(comes_back);
    auto& line = comes_back ? frequent_ : recent_;
    line.push_front(key);
    try {
      entries_.set(key, entry{std::move(value), line.begin(), comes_back}, due);
    } catch (...) {
      line.pop_front();
      throw;
    }
  }

  /// The value, or nullptr; counts as a use. Valid until the next call that changes anything.
  [[nodiscard]] Value* find(const Key& key) {
    auto* known = entries_.find(key);
    if (known == nullptr) return nullptr;
    touch(*known);
    return &known->value;
  }
  /// The same without counting as a use.
  [[nodiscard]] const Value* peek(const Key& key) {
    const auto* known = entries_.find(key);
    return known == nullptr ? nullptr : &known->value;
  }

  /// The value that was there. The key is not remembered as a ghost either.
  std::optional<Value> remove(const Key& key) {
    forget_ghost(key);
    auto gone = entries_.remove(key);
    if (!gone) return std::nullopt;
    unlink(*gone);
    return std::move(gone->value);
  }

  /// Drops what is due at `now` or before; how many those were.
  std::size_t advance(tick now) {
    return entries_.advance(now, [this](Key&&, entry&& gone) { unlink(gone); });
  }

  /// What is too much leaves at once, keys used once first.
  void resize(std::size_t size) {
    if (size == 0) throw std::invalid_argument("two_queue: the size must be above zero");
    options_.size = size;
    recent_share_ = static_cast<std::size_t>(static_cast<double>(size) * options_.recent_ratio);
    most_ghosts_ = static_cast<std::size_t>(static_cast<double>(size) * options_.ghost_ratio);
    while (this->size() > size) evict(true);
    trim_ghosts();
  }

  void clear() {
    entries_.drain([](Key&&, entry&&) {});
    recent_.clear();
    frequent_.clear();
    ghosts_.clear();
    ghost_at_.clear();
  }

  [[nodiscard]] std::size_t size() const noexcept { return entries_.size(); }
  [[nodiscard]] std::size_t recent() const noexcept { return recent_.size(); }
  [[nodiscard]] std::size_t frequent() const noexcept { return frequent_.size(); }
  [[nodiscard]] std::size_t ghosts() const noexcept { return ghosts_.size(); }

private:
  struct entry {
    Value value;
    typename std::list<Key>::iterator place;
    bool is_frequent;
  };

  void touch(entry& used) {
    frequent_.splice(frequent_.begin(), used.is_frequent ? frequent_ : recent_, used.place);
    used.is_frequent = true;
  }
  void unlink(const entry& gone) { (gone.is_frequent ? frequent_ : recent_).erase(gone.place); }

  // A ghost that comes back shows that the recent line is too short rather than too long, so at its exact share it is
  // spared then.
  void evict(bool spare_recent) {
    const bool over = recent_.size() > recent_share_ || (recent_.size() == recent_share_ && !spare_recent);
    const bool from_recent = !recent_.empty() && (over || frequent_.empty());
    auto& line = from_recent ? recent_ : frequent_;
    if (from_recent && most_ghosts_ > 0) {
      ghost_at_.emplace(line.back(), ghosts_.insert(ghosts_.begin(), line.back()));
      trim_ghosts();
    }
    entries_.remove(line.back());
    line.pop_back();
  }

  void trim_ghosts() {
    while (ghosts_.size() > most_ghosts_) {
      ghost_at_.erase(ghosts_.back());
      ghosts_.pop_back();
    }
  }
  bool forget_ghost(const Key& key) {
    const auto found = ghost_at_.find(key);
    if (found == ghost_at_.end()) return false;
    ghosts_.erase(found->second);
    ghost_at_.erase(found);
    return true;
  }

  two_queue_options options_;
  std::size_t recent_share_ = 0;
  std::size_t most_ghosts_ = 0;
  std::list<Key> recent_;  // of each list: used or left last first
  std::list<Key> frequent_;
  std::list<Key> ghosts_;
  std::unordered_map<Key, typename std::list<Key>::iterator, Hash> ghost_at_;
  timer_ring<Key, entry, Hash> entries_;  // finds by key, and tells what is due
};

}  // namespace caravan::toolbox
