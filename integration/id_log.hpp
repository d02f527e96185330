#pragma once

/// What waits, in id order: made for appending at the end and erasing near the front.

#include <caravan/item_id.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace caravan {

/// A sorted map from id to Value, cut into chunks. Append and erase are O(1) amortised near the ends, O(log n) else;
/// 8 bytes an id plus the value. Chunks without a live entry are given back. Not thread safe.
template <class Value>
class id_log {
public:
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }

  /// The lowest id. Undefined when empty.
  [[nodiscard]] item_id first() const noexcept {
    const auto& front = *chunks_.front();  // never without a live entry
    return item_id{front.ids[front.next_live(0)]};
  }

  [[nodiscard]] bool contains(item_id id) const noexcept { return locate(id).found != nullptr; }

  [[nodiscard]] Value* find(item_id id) noexcept {
    const auto at = locate(id);
    return at.found ? &at.found->values[at.index] : nullptr;
  }

  /// Adds or replaces. Cheap when `id` is above all others.
  void insert(item_id id, Value value) {
    if (chunks_.empty() || id.value > chunks_.back()->ids.back()) {
      if (chunks_.empty() || chunks_.back()->ids.size() == chunk_size) add_chunk(chunks_.size());
      chunks_.back()->push(id.value, std::move(value));
      ++size_;
      return;
    }
    const auto number = chunk_of(id.value);
    auto& home = *chunks_[number];
    const auto index = home.index_of(id.value);
    if (index < home.ids.size() && home.ids[index] == id.value) {
      if (!home.is_live(index)) {
        home.set_live(index);
        ++size_;
      }
      home.values[index] = std::move(value);
      return;
    }
    insert_between(number, id.value, std::move(value));
    ++size_;
  }

  /// True when it was there.
  bool erase(item_id id) {
    const auto at = locate(id);
    if (!at.found) return false;
    at.found->values[at.index] = Value{};
    at.found->live[at.index / 64] &= ~(std::uint64_t{1} << (at.index % 64));
    --size_;
    if (--at.found->count == 0) drop_chunk(at.number);
    return true;
  }

  /// Calls visit(id, value) in order for ids above `after` until it answers false.
  template <class Visit>
  void scan(item_id after, Visit visit) {
    if (chunks_.empty() || after.value == ~std::uint64_t{0}) return;
    for (auto number = chunk_of(after.value + 1); number < chunks_.size(); ++number) {
      auto& c = *chunks_[number];
      for (auto i = c.next_live(c.index_of(after.value + 1)); i < c.ids.size(); i = c.next_live(i + 1))
        if (!visit(item_id{c.ids[i]}, c.values[i])) return;
    }
  }

  void clear() {
    chunks_.clear();
    size_ = 0;
  }

private:
  static constexpr std::size_t chunk_size = 256;

  struct chunk {
    std::vector<std::uint64_t> ids;  ///< sorted; erased ones stay until the chunk goes
    std::vector<Value> values;
    std::array<std::uint64_t, chunk_size / 64> live{};
    std::size_t count = 0;  ///< live entries

    void push(std::uint64_t id, Value value) {
      ids.push_back(id);
      values.push_back(std::move(value));
      set_live(ids.size() - 1);
    }
    void set_live(std::size_t i) {
      live[i / 64] |= std::uint64_t{1} << (i % 64);
      ++count;
    }
    [[nodiscard]] bool is_live(std::size_t i) const noexcept { return (live[i / 64] >> (i % 64)) & 1; }
    [[nodiscard]] std::size_t index_of(std::uint64_t id) const noexcept {
      return static_cast<std::size_t>(std::lower_bound(ids.begin(), ids.end(), id) - ids.begin());
    }
    /// The first live index at or after `i`; ids.size() or more when there is none.
    [[nodiscard]] std::size_t next_live(std::size_t i) const noexcept {
      for (; i < ids.size(); i = (i / 64 + 1) * 64)
        if (const auto word = live[i / 64] >> (i % 64)) return i + static_cast<std::size_t>(std::countr_zero(word));
      return chunk_size;
    }
    void reset() {
      ids.clear();
      values.clear();
      live = {};
      count = 0;
    }
  };

  struct position {
    chunk* found = nullptr;
    std::size_t number = 0;
    std::size_t index = 0;
  };

  /// The chunk whose range holds `id`: the last one that begins at or before it, else the first.
  [[nodiscard]] std::size_t chunk_of(std::uint64_t id) const noexcept {
    if (id <= chunks_.front()->ids.back()) return 0;  // acknowledgements come from the front
    const auto next = std::upper_bound(chunks_.begin(), chunks_.end(), id,
                                       [](std::uint64_t x, const auto& c) { return x < c->ids.front(); });
    return next == chunks_.begin() ? 0 : static_cast<std::size_t>(next - chunks_.begin()) - 1;
  }

  [[nodiscard]] position locate(item_id id) const noexcept {
    if (chunks_.empty()) return {};
    const auto number = chunk_of(id.value);
    auto& c = *chunks_[number];
    const auto index = c.index_of(id.value);
    if (index == c.ids.size() || c.ids[index] != id.value || !c.is_live(index)) return {};
    return {&c, number, index};
  }

  chunk& add_chunk(std::size_t number) {
    auto fresh = spare_ ? std::move(spare_) : std::make_unique<chunk>();
    return **chunks_.insert(chunks_.begin() + static_cast<std::ptrdiff_t>(number), std::move(fresh));
  }

  void drop_chunk(std::size_t number) {
    // One is kept: a queue that swings around empty would allocate for each item.
    spare_ = std::move(chunks_[number]);
    spare_->reset();
    chunks_.erase(chunks_.begin() + static_cast<std::ptrdiff_t>(number));
  }

  /// The slow path: a record came back into the middle. Rewrites one chunk, in two halves when it is full.
  void insert_between(std::size_t number, std::uint64_t id, Value value) {
    chunk old = std::move(*chunks_[number]);
    auto& left = *chunks_[number];
    left.reset();
    std::vector<std::pair<std::uint64_t, Value>> all;
    all.reserve(old.count + 1);
    for (auto i = old.next_live(0); i < old.ids.size(); i = old.next_live(i + 1))
      all.emplace_back(old.ids[i], std::move(old.values[i]));
    const auto place = std::lower_bound(all.begin(), all.end(), id, [](const auto& e, auto x) { return e.first < x; });
    all.emplace(place, id, std::move(value));
    const auto half = all.size() > chunk_size ? all.size() / 2 : all.size();
    for (std::size_t i = 0; i < half; ++i) left.push(all[i].first, std::move(all[i].second));
    if (half == all.size()) return;
    auto& right = add_chunk(number + 1);
    for (auto i = half; i < all.size(); ++i) right.push(all[i].first, std::move(all[i].second));
  }

  std::deque<std::unique_ptr<chunk>> chunks_;  ///< in id order, each with at least one live entry
  std::unique_ptr<chunk> spare_;
  std::size_t size_ = 0;
};

}  // namespace caravan
