#include "actors/queue/key_lines.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

namespace caravan {

namespace {

wall_time sort_at(std::uint64_t hash) { return wall_time{std::chrono::milliseconds{static_cast<std::int64_t>(hash)}}; }

}  // namespace

bool key_lines::scanned(std::uint64_t hash) const { return !scanning_ || sort_at(hash) < scanned_to_.sort; }

bool key_lines::ahead_of_scan(std::uint64_t hash, item_id id) const {
  return scanning_ && std::pair{sort_at(hash), id} > std::pair{scanned_to_.sort, scanned_to_.id};
}

void key_lines::insert(line& l, record&& r) {
  // The first stands at the back: that is where items leave, and most that come back belong.
  const auto at = std::upper_bound(l.items.begin(), l.items.end(), r.id, [](item_id id, const record& x) { return id > x.id; });
  if (at == l.items.end()) l.waits = false;  // another is first now; what the maps say of the key is looked at again
  l.end = std::max(l.end, r.id);
  l.items.insert(at, std::move(r));
  ++loaded_;
}

void key_lines::add(record&& r) {
  const auto hash = order_hash(r.order_by);
  auto& l = lines_[hash];
  // Behind rows that are still unread, or no room: it is counted.
  const bool behind = r.id > l.end && (l.unloaded > 0 || l.items.size() >= limits_.per_key || loaded_ >= limits_.window);
  if (ahead_of_scan(hash, r.id)) {
    counted_.insert(r.id);
    running_rows_.erase(r.id);
    count_behind(l);
    distrust({hash, r.id});
  } else if (behind) {
    count_behind(l);
    distrust({hash, r.id});
  } else {
    insert(l, std::move(r));
  }
  settle(hash, l);
}

void key_lines::start_running(const record& r) {
  ++lines_[order_hash(r.order_by)].running;
  running_rows_.insert(r.id);
  if (unscanned_ > 0) --unscanned_;
}

void key_lines::put_back(record&& r, wall_time now) {
  wall_ = std::max(wall_, now);
  const auto hash = order_hash(r.order_by);
  if (ahead_of_scan(hash, r.id)) return add(std::move(r));
  auto& l = lines_[hash];
  insert(l, std::move(r));
  settle(hash, l);
}

void key_lines::ended(const record& r) {
  const auto hash = order_hash(r.order_by);
  const auto it = lines_.find(hash);
  assert(it != lines_.end() && it->second.running > 0);
  --it->second.running;
  settle(hash, it->second);
  drop_if_idle(it);
}

// Gives the key its turn, or notes what it waits for.
void key_lines::settle(std::uint64_t hash, line& l) {
  if (!scanned(hash)) return;
  const bool throttled = rate_ && l.gate.opens(rate_) > now_;
  const bool wants = l.unloaded > 0 && l.items.size() <= limits_.per_key / 5 && !(throttled && l.items.empty());
  if (wants && !std::exchange(l.hungry, true)) hungry_.push_back(hash);
  if (l.in_turn || l.waits || l.running >= concurrency_ || (l.items.empty() && l.unloaded == 0)) return;
  if (throttled) {
    l.waits = true;
    by_rate_.emplace(l.gate.opens(rate_), hash);
  } else if (!l.items.empty() && l.items.back().due > wall_) {
    l.waits = true;
    by_due_.emplace(l.items.back().due, hash);
  } else if (!l.items.empty()) {
    l.in_turn = true;
    turns_.push_back(hash);
  }
}

record key_lines::take(steady now, wall_time wall) {
  now_ = std::max(now_, now);
  wall_ = std::max(wall_, wall);
  const auto hash = turns_.front();
  turns_.pop_front();
  auto& l = lines_.find(hash)->second;
  l.in_turn = false;
  auto r = std::move(l.items.back());
  l.items.pop_back();
  if (l.items.empty()) l.items.shrink_to_fit();
  --loaded_;
  ++l.running;
  if (rate_) l.gate.pass(rate_, now);
  settle(hash, l);
  return r;
}

void key_lines::wake(steady now, wall_time wall) {
  now_ = std::max(now_, now);
  wall_ = std::max(wall_, wall);
  const auto again = [&](std::uint64_t hash) {
    const auto it = lines_.find(hash);
    if (it == lines_.end()) return;
    it->second.waits = false;
    settle(hash, it->second);
    drop_if_idle(it);
  };
  while (!by_rate_.empty() && by_rate_.begin()->first <= now_) {
    const auto hash = by_rate_.begin()->second;
    by_rate_.erase(by_rate_.begin());
    again(hash);
  }
  while (!by_due_.empty() && by_due_.begin()->first <= wall_) {
    const auto hash = by_due_.begin()->second;
    by_due_.erase(by_due_.begin());
    again(hash);
  }
}

std::optional<key_lines::steady> key_lines::next_steady() const {
  if (by_rate_.empty()) return std::nullopt;
  return by_rate_.begin()->first;
}

std::optional<wall_time> key_lines::next_wall() const {
  if (by_due_.empty()) return std::nullopt;
  return by_due_.begin()->first;
}

// A key without items is kept only while its rate still remembers something, or for what waits in a map.
void key_lines::drop_if_idle(line_map::iterator it) {
  auto& l = it->second;
  if (!l.items.empty() || l.unloaded > 0 || l.running > 0 || l.hungry || l.waits || l.in_turn) return;
  if (rate_ && !l.gate.full(now_)) {
    l.waits = true;
    by_rate_.emplace(now_ + rate_.interval() * std::int64_t{rate_.burst}, it->first);
    return;
  }
  lines_.erase(it);
}

// A read that is under way may have seen this place before the change or after it.
void key_lines::distrust(std::pair<std::uint64_t, item_id> place) {
  if (reading_ && (!distrusted_ || place < *distrusted_)) distrusted_ = place;
}

// Of lines that cannot go on only the first item stays: others need the room.
void key_lines::make_room() {
  for (auto& [hash, l] : lines_) {
    if (l.in_turn || l.running > 0 || l.items.size() < 2) continue;
    const auto n = l.items.size() - 1;
    l.items.erase(l.items.begin(), l.items.end() - 1);
    l.items.shrink_to_fit();
    l.end = l.items.front().id;
    l.unloaded += static_cast<std::uint32_t>(n);
    unloaded_ += n;
    loaded_ -= n;
  }
}

std::optional<key_lines::reading> key_lines::next_read() {
  if (reading_) return std::nullopt;
  if (scanning_) {
    reading_ = true;
    distrusted_.reset();
    return reading{scanned_to_, limits_.load};
  }
  while (!hungry_.empty()) {
    const auto hash = hungry_.front();
    const auto it = lines_.find(hash);
    if (it == lines_.end() || it->second.unloaded == 0) {
      hungry_.pop_front();
      if (it == lines_.end()) continue;
      it->second.hungry = false;
      drop_if_idle(it);
      continue;
    }
    if (loaded_ >= limits_.window) {
      if (!turns_.empty()) return std::nullopt;  // there is enough to do
      if (!it->second.items.empty()) {
        // It waits for something else than a read. It is hungry again when its next item leaves.
        hungry_.pop_front();
        it->second.hungry = false;
        continue;
      }
      make_room();
    }
    const auto& l = it->second;
    reading_ = true;
    distrusted_.reset();
    read_for_ = hash;
    const auto room = limits_.per_key - std::min(limits_.per_key, l.items.size());
    // A long line fills the answer by itself; behind a short one others may be found that are hungry too.
    return reading{{sort_at(hash), l.end}, std::max<std::size_t>(1, l.unloaded >= room ? room : limits_.load)};
  }
  return std::nullopt;
}

void key_lines::on_scanned(std::vector<record>&& records, item_id known_through) {
  for (auto& r : records) {
    const auto hash = order_hash(r.order_by);
    if (distrusted_ && std::pair{hash, r.id} >= *distrusted_) return;
    const auto before = std::exchange(scanned_to_, {sort_at(hash), r.id});
    // All rows of the key before were seen now.
    if (before.sort != scanned_to_.sort && before.sort != wall_time::min()) {
      const auto old = static_cast<std::uint64_t>(before.sort.time_since_epoch().count());
      if (const auto it = lines_.find(old); it != lines_.end()) settle(old, it->second);
    }
    if (r.id > known_through) continue;
    auto& l = lines_[hash];
    if (running_rows_.erase(r.id) > 0) {
      if (!l.gap) l.end = std::max(l.end, r.id);
      continue;
    }
    if (counted_.erase(r.id) > 0) {
      l.gap = true;
      continue;
    }
    if (unscanned_ > 0) --unscanned_;
    if (!l.gap && l.items.size() < limits_.per_key && loaded_ < limits_.window) {
      insert(l, std::move(r));
    } else {
      l.gap = true;
      count_behind(l);
    }
  }
}

std::size_t key_lines::end_scan() {
  scanning_ = false;
  counted_.clear();
  running_rows_.clear();
  for (auto& [hash, l] : lines_) {
    l.gap = false;
    settle(hash, l);
  }
  return std::exchange(unscanned_, 0);
}

std::size_t key_lines::on_loaded(std::vector<record>&& records, item_id known_through, wall_time now) {
  if (!std::exchange(reading_, false)) return 0;
  wall_ = std::max(wall_, now);
  if (scanning_) {
    const bool last = records.empty() && !distrusted_;
    on_scanned(std::move(records), known_through);
    return last ? end_scan() : 0;
  }
  bool found = false;
  for (auto& r : records) {
    const auto hash = order_hash(r.order_by);
    found = found || hash == read_for_;
    if (distrusted_ && std::pair{hash, r.id} >= *distrusted_) break;
    if (r.id > known_through) continue;
    const auto it = lines_.find(hash);
    if (it == lines_.end()) continue;
    auto& l = it->second;
    if (l.unloaded == 0 || r.id <= l.end || l.items.size() >= limits_.per_key) continue;
    if (hash != read_for_ && loaded_ >= limits_.window) break;
    --l.unloaded;
    --unloaded_;
    insert(l, std::move(r));
    settle(hash, l);
  }
  if (!hungry_.empty() && hungry_.front() == read_for_) hungry_.pop_front();
  const auto it = lines_.find(read_for_);
  if (it == lines_.end()) return 0;
  auto& l = it->second;
  l.hungry = false;
  std::size_t lost = 0;
  if (!found && !distrusted_) {
    lost = std::exchange(l.unloaded, 0);
    unloaded_ -= lost;
  }
  settle(read_for_, l);
  drop_if_idle(it);
  return lost;
}

std::optional<record> key_lines::remove(item_id id, std::uint64_t hash) {
  const auto it = lines_.find(hash);
  if (it == lines_.end()) return std::nullopt;
  auto& l = it->second;
  const auto at = std::find_if(l.items.begin(), l.items.end(), [&](const record& r) { return r.id == id; });
  if (at == l.items.end()) return std::nullopt;
  std::optional<record> found(std::move(*at));
  l.items.erase(at);
  --loaded_;
  l.waits = false;
  if (l.items.empty() && std::exchange(l.in_turn, false)) std::erase(turns_, hash);
  settle(hash, l);
  drop_if_idle(it);
  return found;
}

bool key_lines::may_be_unloaded(const record& r) const {
  const auto hash = order_hash(r.order_by);
  const auto it = lines_.find(hash);
  if (it != lines_.end() && it->second.unloaded > 0 && r.id > it->second.end) return true;
  return ahead_of_scan(hash, r.id) && unscanned_ > 0 && !counted_.contains(r.id);
}

void key_lines::forget_unloaded(const record& r) {
  const auto hash = order_hash(r.order_by);
  distrust({hash, r.id});
  const auto it = lines_.find(hash);
  if (ahead_of_scan(hash, r.id) && !counted_.contains(r.id)) {
    if (unscanned_ > 0) --unscanned_;
    return;
  }
  counted_.erase(r.id);
  if (it == lines_.end() || it->second.unloaded == 0) return;
  --it->second.unloaded;
  --unloaded_;
  drop_if_idle(it);
}

std::size_t key_lines::clear() {
  const auto n = total();
  for (auto it = lines_.begin(); it != lines_.end();) {
    auto& l = it->second;
    l.items.clear();
    l.unloaded = 0;
    l.in_turn = l.hungry = l.waits = l.gap = false;
    it = l.running == 0 ? lines_.erase(it) : std::next(it);
  }
  turns_.clear();
  hungry_.clear();
  by_rate_.clear();
  by_due_.clear();
  counted_.clear();
  running_rows_.clear();
  loaded_ = unloaded_ = unscanned_ = 0;
  scanning_ = reading_ = false;
  return n;
}

std::size_t key_lines::running(std::uint64_t hash) const {
  const auto it = lines_.find(hash);
  return it == lines_.end() ? 0 : it->second.running;
}

}  // namespace caravan
