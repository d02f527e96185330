#pragma once

/// A million waiting things, each with a moment at which it is due, most of them moved or removed before it comes: in
/// a sorted map each such step costs a walk through a tree that no longer fits the processor's cache. `timer_ring`
/// keeps them in rings of slots, the innermost one slot per tick, each further one a whole ring per slot: setting,
/// moving and removing are a few writes, and a timer is sorted again only as often as there are rings.
///
///   toolbox::timer_ring<std::uint64_t, std::string> ring;
///   ring.set(42, "renew the lease", 5);         // due at tick 5
///   ring.move(42, 9);
///   ring.advance(8, fire);                      // nothing
///   ring.advance(9, [](std::uint64_t id, std::string what) { ... });
///
/// This is the bookkeeping alone, for cores that are told the time; timing_wheel adds a clock, a lock and a thread.
///
/// Threads: not thread safe. Units: ticks, absolute, starting at 0; what a tick is worth is the caller's choice.
/// Order: two timers fire in the order of their ticks; within a tick in no promised order.
/// Errors: none but std::bad_alloc and what Key's hash throws; the ring is then as before. Memory stays at its highest
/// level until the ring is destroyed.

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace caravan::toolbox {

template <class Key, class Value, class Hash = std::hash<Key>, class Equal = std::equal_to<Key>>
class timer_ring {
public:
  using tick = std::uint64_t;

  /// `slots`: ticks in the innermost ring, rounded up to a power of two within 64 .. 65536. It never changes what is
  /// fired: more slots cost memory (4 bytes each per ring in use) and spare some sorting again.
  explicit timer_ring(std::size_t slots = 256)
      : bits_(static_cast<unsigned>(std::bit_width(std::clamp<std::size_t>(slots, 64, 65536) - 1))),
        mask_((tick{1} << bits_) - 1) {
    for (unsigned bit = 0; bit < 64; ++bit) level_of_[bit] = static_cast<std::uint8_t>(bit / bits_);
    heads_.assign(first_slot, nil);
    table_.assign(16, cell{});
  }

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  /// The tick up to which everything has been fired.
  [[nodiscard]] tick now() const noexcept { return now_; }

  /// Adds a timer, or gives a known key a new value and moment. True if the key was new.
  /// A moment that is not after now() is due at the next advance, even one to the same tick.
  bool set(Key key, Value value, tick due) {
    const auto tag = tag_of(key);
    if (const auto found = find(key, tag); found != nil) {
      node& n = at(found);
      n.content->second = std::move(value);
      unlink(found);
      place(found, due);
      return false;
    }
    grow_table();
    const auto fresh = take_node();
    node& n = at(fresh);
    n.content.emplace(std::move(key), std::move(value));
    n.tag = tag;
    enter(fresh, tag);
    ++size_;
    place(fresh, due);
    return true;
  }

  /// False if the key is unknown.
  bool move(const Key& key, tick due) {
    const auto found = find(key, tag_of(key));
    if (found == nil) return false;
    unlink(found);
    place(found, due);
    return true;
  }

  /// The value that was waiting, none if the key is unknown.
  std::optional<Value> remove(const Key& key) {
    const auto found = find(key, tag_of(key));
    if (found == nil) return std::nullopt;
    unlink(found);
    std::optional<Value> value{std::move(release(found).second)};
    return value;
  }

  /// The value that waits under the key, or nullptr. Valid until the next call that changes the ring.
  [[nodiscard]] Value* find(const Key& key) {
    const auto found = find(key, tag_of(key));
    return found == nil ? nullptr : &at(found).content->second;
  }

  /// Fires everything that is due at `to` or before: fire(Key, Value), by value or rvalue. A `to` before now() fires
  /// only what was set too late. `fire` may use the ring, but not advance it; what it sets for a tick that is
  /// already over waits for the next advance. If it throws, its own timer is gone, the others stay due.
  template <class Fire>
  std::size_t advance(tick to, Fire fire) {
    if (to < quiet_until_ && heads_[ready] == nil) {
      now_ = std::max(now_, to);
      return 0;
    }
    const advancing mark{*this};
    std::size_t fired = 0;
    for (;;) {
      while (heads_[ready] != nil) {
        const auto first = heads_[ready];
        unlink(first);
        auto content = release(first);
        ++fired;
        fire(std::move(content.first), std::move(content.second));
      }
      const auto event = next_slot();
      if (!event || *event > to) {
        quiet_until_ = event.value_or(~tick{0});
        break;
      }
      now_ = std::max(now_, *event);
      sort_again();
    }
    now_ = std::max(now_, to);
    return fired;
  }

  /// The first tick at which advance has something to do: never after the first timer that is due, sometimes before it.
  [[nodiscard]] std::optional<tick> next() const {
    if (heads_[ready] != nil || heads_[held] != nil) return now_;
    return next_slot();
  }

  /// Takes everything out, in no promised order, and hands it to take(Key, Value).
  template <class Take>
  void drain(Take take) {
    for (std::size_t list = 0; list < heads_.size(); ++list)
      while (heads_[list] != nil) {
        const auto first = heads_[list];
        unlink(first);
        auto content = release(first);
        take(std::move(content.first), std::move(content.second));
      }
  }

private:
  using index = std::uint32_t;
  static constexpr index nil = ~index{0};
  static constexpr std::size_t chunk_bits = 10;
  static constexpr std::size_t ready = 0;       // list: due, waits to be fired
  static constexpr std::size_t held = 1;        // list: became due while firing
  static constexpr std::size_t first_slot = 2;  // lists from here on: ring by ring, slot by slot

  struct node {
    tick due = 0;
    index previous = nil;  // circular: the head's previous is the tail
    index following = nil;
    index list = 0;
    std::uint32_t tag = 0;
    std::optional<std::pair<Key, Value>> content;
  };
  struct cell {
    index where = nil;
    std::uint32_t tag = 0;  // kept here as well, so that most wrong keys are passed without touching their node
  };
  struct advancing {
    explicit advancing(timer_ring& ring) : ring_(ring) { ring_.advancing_ = true; }
    ~advancing() {
      ring_.advancing_ = false;
      while (ring_.heads_[held] != nil) {
        const auto first = ring_.heads_[held];
        ring_.unlink(first);
        ring_.append(first, ready);
      }
    }
    timer_ring& ring_;
  };

  node& at(index i) { return chunks_[i >> chunk_bits][i & ((1u << chunk_bits) - 1)]; }
  const node& at(index i) const { return chunks_[i >> chunk_bits][i & ((1u << chunk_bits) - 1)]; }

  // -- the slots ------------------------------------------------------------------------------------------------------

  void place(index i, tick due) {
    at(i).due = due;
    if (due <= now_) {
      append(i, advancing_ ? held : ready);
      return;
    }
    // The highest bit in which the moment differs from now names the ring: all bits above it are equal, so that
    // ring's hand passes the slot exactly once before the moment comes.
    const auto level = level_of_[static_cast<std::size_t>(std::bit_width(due ^ now_) - 1)];
    if (level >= levels_) {
      const auto slots = static_cast<std::size_t>(mask_ + 1);
      heads_.resize(first_slot + (level + 1u) * slots, nil);
      used_.resize((level + 1u) * slots / 64, 0);
      levels_ = level + 1u;
    }
    quiet_until_ = std::min(quiet_until_, due >> (level * bits_) << (level * bits_));
    append(i, first_slot + (static_cast<std::size_t>(level) << bits_) +
                  static_cast<std::size_t>((due >> (level * bits_)) & mask_));
  }

  void append(index i, std::size_t list) {
    node& n = at(i);
    n.list = static_cast<index>(list);
    auto& head = heads_[list];
    if (head == nil) {
      head = n.previous = n.following = i;
      if (list >= first_slot) used_[(list - first_slot) / 64] |= std::uint64_t{1} << ((list - first_slot) % 64);
    } else {
      const auto tail = at(head).previous;
      n.previous = tail;
      n.following = head;
      at(tail).following = i;
      at(head).previous = i;
    }
  }

  void unlink(index i) {
    node& n = at(i);
    auto& head = heads_[n.list];
    if (n.following == i) {
      head = nil;
      if (n.list >= first_slot)
        used_[(n.list - first_slot) / 64] &= ~(std::uint64_t{1} << ((n.list - first_slot) % 64));
    } else {
      at(n.previous).following = n.following;
      at(n.following).previous = n.previous;
      if (head == i) head = n.following;
    }
  }

  // Inner rings first: whatever waits in an outer one lies beyond all of an inner one.
  [[nodiscard]] std::optional<tick> next_slot() const {
    for (unsigned level = 0; level < levels_; ++level) {
      const auto shift = level * bits_;
      const auto here = static_cast<std::size_t>((now_ >> shift) & mask_);
      if (const auto slot = next_used(level, here + 1)) {
        const auto block = shift + bits_ < 64 ? (now_ >> (shift + bits_)) << (shift + bits_) : tick{0};
        return block | (static_cast<tick>(*slot) << shift);
      }
    }
    return std::nullopt;
  }

  // now_ has just reached the start of a used slot: what waits in it belongs further in, or is due.
  void sort_again() {
    for (unsigned level = levels_; level-- > 0;) {
      if (level > 0 && (now_ & ((tick{1} << (level * bits_)) - 1)) != 0) continue;
      const auto list = first_slot + (static_cast<std::size_t>(level) << bits_) +
                        static_cast<std::size_t>((now_ >> (level * bits_)) & mask_);
      while (heads_[list] != nil) {
        const auto first = heads_[list];
        unlink(first);
        if (at(first).due <= now_)
          append(first, ready);
        else
          place(first, at(first).due);
      }
    }
  }

  [[nodiscard]] std::optional<std::size_t> next_used(unsigned level, std::size_t from) const {
    const auto slots = static_cast<std::size_t>(mask_ + 1);
    if (from >= slots) return std::nullopt;
    const auto base = level * slots / 64;
    auto word = from / 64;
    auto bits = used_[base + word] & (~std::uint64_t{0} << (from % 64));
    while (bits == 0) {
      if (++word == slots / 64) return std::nullopt;
      bits = used_[base + word];
    }
    return word * 64 + static_cast<std::size_t>(std::countr_zero(bits));
  }

  // -- the nodes ------------------------------------------------------------------------------------------------------

  index take_node() {
    if (free_ == nil) {
      const auto chunk = std::size_t{1} << chunk_bits;
      chunks_.push_back(std::make_unique<node[]>(chunk));
      for (auto i = chunk; i-- > 0;) {
        const auto fresh = static_cast<index>((chunks_.size() - 1) * chunk + i);
        at(fresh).following = free_;
        free_ = fresh;
      }
    }
    return std::exchange(free_, at(free_).following);
  }

  // Gives the node and its place in the table back; it must be in no list.
  std::pair<Key, Value> release(index i) {
    node& n = at(i);
    leave(i, n.tag);
    auto content = std::move(*n.content);
    n.content.reset();
    n.following = free_;
    free_ = i;
    --size_;
    return content;
  }

  // -- key to node: open addressing, a gap closes by moving followers back -------------------------------------------

  std::uint32_t tag_of(const Key& key) const {
    // std::hash of an integer is the integer itself: multiply, and use the half in which all bits took part.
    return static_cast<std::uint32_t>((static_cast<std::uint64_t>(Hash{}(key)) * 0x9E3779B97F4A7C15ull) >> 32);
  }
  index find(const Key& key, std::uint32_t tag) const {
    for (std::size_t i = tag & (table_.size() - 1);; i = (i + 1) & (table_.size() - 1)) {
      const auto& c = table_[i];
      if (c.where == nil) return nil;
      if (c.tag == tag && Equal{}(at(c.where).content->first, key)) return c.where;
    }
  }
  void enter(index where, std::uint32_t tag) {
    auto i = tag & (table_.size() - 1);
    while (table_[i].where != nil) i = (i + 1) & (table_.size() - 1);
    table_[i] = {where, tag};
  }
  void leave(index where, std::uint32_t tag) {
    const auto last = table_.size() - 1;
    auto gap = tag & last;
    while (table_[gap].where != where) gap = (gap + 1) & last;
    for (auto i = (gap + 1) & last; table_[i].where != nil; i = (i + 1) & last) {
      const auto home = table_[i].tag & last;
      // A cell may move to the gap unless its home lies between the gap and itself.
      if (((i - home) & last) >= ((i - gap) & last)) {
        table_[gap] = table_[i];
        gap = i;
      }
    }
    table_[gap] = {};
  }
  void grow_table() {
    if ((size_ + 1) * 3 < table_.size() * 2) return;
    std::vector<cell> old(table_.size() * 2);
    old.swap(table_);
    for (const auto& c : old)
      if (c.where != nil) enter(c.where, c.tag);
  }

  unsigned bits_;
  tick mask_;
  unsigned levels_ = 0;
  std::array<std::uint8_t, 64> level_of_{};
  tick now_ = 0;
  tick quiet_until_ = ~tick{0};  // no slot comes up before; removing may leave it too early, never too late
  bool advancing_ = false;
  std::vector<index> heads_;
  std::vector<std::uint64_t> used_;  // one bit per slot: is its list used
  std::vector<std::unique_ptr<node[]>> chunks_;
  index free_ = nil;
  std::vector<cell> table_;
  std::size_t size_ = 0;
};

}  // namespace caravan::toolbox
