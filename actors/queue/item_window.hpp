#pragma once

#include "integration/storage.hpp"
#include "messages/record.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <iterator>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace caravan {

/// The first part of one state's records, kept in memory; the rest is only counted and read when it is needed.
///
/// Records are in (sort_of, id) order, as in the backend; for waiting ones only the id counts. The window holds every
/// record up to `end()` that is not in flight. What lies behind it is unloaded.
///
/// A read takes its time, and rows behind end() may come and go meanwhile: whether its answer knows of that nobody can
/// say. So the first such place is remembered, and the answer counts only up to there; the next read gets the rest.
/// Not thread safe.
class item_window {
public:
  using place = std::pair<wall_time, item_id>;

  /// In what order records lie. by_rank: as by_sort, and end() may go back, since better ones come at any time; whoever
  /// uses it must tell the reads which rows are in flight.
  enum class order : std::uint8_t { by_id, by_sort, by_rank };

  /// `capacity` records or `capacity_bytes` of payload, whichever comes first, are kept in memory; a soft limit.
  item_window(order o, std::size_t capacity, std::size_t capacity_bytes)
    : order_(o), capacity_(capacity), capacity_bytes_(capacity_bytes) {}

  [[nodiscard]] std::size_t size() const { return line_.size() + side_.size(); }
  [[nodiscard]] bool empty() const { return line_.empty() && side_.empty(); }
  /// Records of this state that are in the backend but not in the window.
  [[nodiscard]] std::size_t unloaded() const { return unloaded_; }
  [[nodiscard]] std::size_t total() const { return size() + unloaded_; }
  [[nodiscard]] place end() const { return end_; }

  [[nodiscard]] bool full() const { return size() >= capacity_ || bytes_ >= capacity_bytes_; }
  /// How many records a read should ask for, so that the window does not outgrow its bytes.
  [[nodiscard]] std::size_t room() const {
    if (full()) return 0;
    const auto by_count = capacity_ - size();
    // Nothing is known of what is still unread: assume that it is like what was seen, and start small.
    const auto each = (seen_ == 0 ? capacity_bytes_ / 64 : seen_bytes_ / seen_) + 1;
    return std::max<std::size_t>(1, std::min(by_count, (capacity_bytes_ - bytes_) / each));
  }

  /// At the start: what the backend counts, none of it loaded.
  void reset(std::size_t total) {
    clear(end_);
    unloaded_ = total;
    end_ = popped_through_ = nowhere;
  }

  /// Forgets everything; what comes next lies after `end`.
  void clear(place end) {
    line_.clear();
    side_.clear();
    bytes_ = 0;
    unloaded_ = 0;
    end_ = std::max(end_, end);
  }

  /// A record that has just come to this state, or comes back to it. True when it is kept in memory, false when it is only counted.
  bool add(record&& r) {
    const auto at = place_of(r);
    if (at > end_ && (unloaded_ > 0 || full())) {
      ++unloaded_;
      distrust(at);
      return false;
    }
    put(at, std::move(r));
    // Earlier and earlier due times would otherwise fill the memory, since each lies before end().
    if (size() > 2 * capacity_) drop_last_half();
    return at <= end_;
  }

  /// A read after end() is asked for: from now on changes behind end() make its answer doubtful.
  void begin_load() { distrusted_.reset(); }

  enum class load_result : std::uint8_t {
    fresh,      ///< it is in the window now
    known,      ///< it was there already
    doubtful,   ///< at or behind a place that changed meanwhile; this and all that follow are to be read again
  };
  /// One record of the answer to the read.
  load_result load(record&& r) {
    const auto at = place_of(r);
    if (at <= end_) return load_result::known;
    if (distrusted_ && at >= *distrusted_) return load_result::doubtful;
    put(at, std::move(r));
    if (unloaded_ > 0) --unloaded_;
    return load_result::fresh;
  }

  /// A row of the answer that is in flight. The window ends behind it from now on. False when it is doubtful.
  bool pass(const record& r) {
    const auto at = place_of(r);
    if (distrusted_ && at >= *distrusted_) return false;
    end_ = std::max(end_, at);
    popped_through(at);
    return true;
  }

  /// The read found nothing behind end(), whatever was counted: rows were lost or removed behind our back. Returns how
  /// many were forgotten; none while the answer is in doubt.
  std::size_t nothing_more() { return distrusted_ ? 0 : std::exchange(unloaded_, 0); }

  /// Whether a record that is not in the window may lie behind it.
  [[nodiscard]] bool may_be_unloaded(const record& r) const { return unloaded_ > 0 && place_of(r) > end_; }

  /// A record behind the window goes away.
  void forget_unloaded(const record& r) {
    if (unloaded_ > 0) --unloaded_;
    doubt(ref_of(r));
  }

  /// A row behind end() that is not counted here changes: a read that is under way may have seen it before or after.
  void doubt(const record_ref& r) { distrust({order_ == order::by_id ? wall_time{} : r.sort, r.id}); }

  /// The place of the first record; only when not empty.
  [[nodiscard]] place front_place() const {
    if (side_.empty()) return place_of(line_.front());
    if (line_.empty()) return side_.begin()->first;
    return std::min(side_.begin()->first, place_of(line_.front()));
  }

  /// The first record; only when not empty.
  [[nodiscard]] const record& front() const {
    if (!side_.empty() && (line_.empty() || side_.begin()->first < place_of(line_.front()))) return side_.begin()->second;
    return line_.front();
  }

  /// Takes the first record out; only when not empty.
  record pop_front() {
    record r;
    if (!side_.empty() && (line_.empty() || side_.begin()->first < place_of(line_.front()))) {
      r = std::move(side_.begin()->second);
      side_.erase(side_.begin());
    } else {
      r = std::move(line_.front());
      line_.pop_front();
    }
    bytes_ -= r.payload.size();
    popped_through(place_of(r));
    return r;
  }

  /// Takes one record out, if it is in the window. Linear: for operators, not for the hot path.
  std::optional<record> take(item_id id) {
    std::optional<record> found;
    for (auto it = side_.begin(); it != side_.end(); ++it) {
      if (it->second.id != id) continue;
      found = std::move(it->second);
      side_.erase(it);
      break;
    }
    for (auto it = line_.begin(); !found && it != line_.end(); ++it) {
      if (it->id != id) continue;
      found = std::move(*it);
      line_.erase(it);
      break;
    }
    if (found) bytes_ -= found->payload.size();
    return found;
  }

private:
  friend struct queue_core_probe;

  [[nodiscard]] place place_of(const record& r) const { return {order_ == order::by_id ? wall_time{} : sort_of(r), r.id}; }

  void popped_through(const place& at) {
    if (order_ != order::by_rank) popped_through_ = std::max(popped_through_, at);
  }

  void put(const place& at, record&& r) {
    if (at > end_) end_ = at;
    bytes_ += r.payload.size();
    seen_bytes_ += r.payload.size();
    ++seen_;
    // Appends arrive in order and go to the deque; whatever comes back or is due earlier goes to the side.
    if (line_.empty() || place_of(line_.back()) < at)
      line_.push_back(std::move(r));
    else
      side_.emplace(at, std::move(r));
  }

  [[nodiscard]] bool line_ends_last() const {
    return side_.empty() || (!line_.empty() && place_of(line_.back()) > side_.rbegin()->first);
  }
  [[nodiscard]] place last_place() const { return line_ends_last() ? place_of(line_.back()) : side_.rbegin()->first; }

  void distrust(const place& at) {
    if (!distrusted_ || at < *distrusted_) distrusted_ = at;
  }

  void drop_last_half() {
    // Rows of what was handed out still lie in the backend. end() stays behind them, or a read would find them again.
    while (size() > capacity_ && last_place() > popped_through_) {
      distrust(last_place());
      if (line_ends_last()) {
        bytes_ -= line_.back().payload.size();
        line_.pop_back();
      } else {
        bytes_ -= side_.rbegin()->second.payload.size();
        side_.erase(std::prev(side_.end()));
      }
      ++unloaded_;
    }
    if (unloaded_ > 0) end_ = empty() ? popped_through_ : std::max(last_place(), popped_through_);
  }

  static constexpr place nowhere{wall_time::min(), item_id{}};

  order order_;
  std::size_t capacity_;
  std::size_t capacity_bytes_;
  std::deque<record> line_;
  std::map<place, record> side_;
  std::size_t unloaded_ = 0;
  std::size_t bytes_ = 0;
  std::size_t seen_ = 0;
  std::size_t seen_bytes_ = 0;
  place end_ = nowhere;
  place popped_through_ = nowhere;   ///< the last place that was ever handed out
  std::optional<place> distrusted_;  ///< the first place that changed since the last read was asked for
};

}  // namespace caravan
