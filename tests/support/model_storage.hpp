#pragma once

/// A storage for tests: plain maps, deterministic, fails and crashes on request. Thread safe.
///
///   model_storage store({unique_policy::until::start});
///   store.fail_next(2);   // the next two calls answer backend_failed and change nothing
///   store.crash();        // what a new process would find: the rows, no more

#include "integration/storage.hpp"

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace caravan::test {

class model_storage : public storage {
public:
  explicit model_storage(unique_policy unique = {}) : unique_(unique) {}

  /// The next `n` calls (count and close aside) fail.
  void fail_next(std::size_t n) {
    const std::lock_guard lock(mutex_);
    failing_ = n;
  }
  /// The next `n` appends throw.
  void throw_next(std::size_t n) {
    const std::lock_guard lock(mutex_);
    throwing_ = n;
  }
  /// Forgets what a process keeps in memory, and what a later open would not look for: waiting rows below the low water.
  void crash() {
    const std::lock_guard lock(mutex_);
    closed_ = false;
    failing_ = throwing_ = 0;
    auto& waiting = in(record_state::waiting);
    waiting.erase(waiting.begin(), waiting.lower_bound(low_water_));
    keys_.clear();
    for (const auto& rows : states_)
      for (const auto& [id, r] : rows)
        if (holds_key(r)) keep_key(r, {});
  }
  [[nodiscard]] std::map<item_id, record> rows() const {
    const std::lock_guard lock(mutex_);
    row_map all;
    for (const auto& rows : states_) all.insert(rows.begin(), rows.end());
    return all;
  }
  [[nodiscard]] item_id low_water() const {
    const std::lock_guard lock(mutex_);
    return low_water_;
  }
  [[nodiscard]] std::size_t appends() const {
    const std::lock_guard lock(mutex_);
    return appends_;
  }
  /// A row disappears behind the queue's back.
  void lose(item_id id) {
    const std::lock_guard lock(mutex_);
    for (auto& rows : states_) rows.erase(id);
  }

  /// As another node would push: it has its id, but is in line only once it is adopted.
  item_id append_elsewhere(record r, wall_time now) {
    const std::lock_guard lock(mutex_);
    r.id = last_ = {std::max(last_.value + 1, first_id_at(now).value)};
    r.pushed_at = now;
    r.state = first_state(r, now);
    incoming_.push_back(std::move(r));
    return last_;
  }
  expected<std::size_t> adopt(std::size_t most) override {
    const std::lock_guard lock(mutex_);
    if (closed_) return closed();
    if (fails()) return failed();
    return adopt_some(most);
  }
  std::vector<record> take_adopted() override {
    const std::lock_guard lock(mutex_);
    return std::exchange(adopted_, {});
  }

  expected<std::vector<append_result>> append(std::span<record> records, wall_time now) override {
    const std::lock_guard lock(mutex_);
    if (closed_) return closed();
    ++appends_;
    if (throwing_ > 0) {
      --throwing_;
      throw std::runtime_error("the model storage throws");
    }
    if (fails()) return failed();
    adopt_some(incoming_.size());
    std::vector<append_result> results;
    for (auto& r : records) {
      if (const auto known = repeats_.find(r.idempotency_key); !r.idempotency_key.empty() && known != repeats_.end()) {
        results.push_back({append_result::kind::repeated, known->second});
        continue;
      }
      if (const auto owner = owner_of(r.digest, now)) {
        results.push_back({append_result::kind::already_in_queue, *owner});
        continue;
      }
      r.id = last_ = {std::max(last_.value + 1, first_id_at(now).value)};
      if (r.pushed_at == wall_time{}) r.pushed_at = now;
      r.state = first_state(r, now);
      keep_key(r, now);
      if (!r.idempotency_key.empty()) repeats_[r.idempotency_key] = r.id;
      in(r.state)[r.id] = r;
      results.push_back({append_result::kind::stored, r.id});
    }
    return results;
  }

  expected<std::vector<record>> read(record_state state, read_cursor after, std::size_t max) override {
    const std::lock_guard lock(mutex_);
    if (closed_) return closed();
    if (fails()) return failed();
    std::vector<record> found;
    if (is_sorted(state)) {
      std::map<std::pair<wall_time, item_id>, const record*> line;
      for (const auto& [id, r] : in(state)) line[{sort_of(r), id}] = &r;
      for (auto it = line.upper_bound({after.sort, after.id}); it != line.end() && found.size() < max; ++it)
        found.push_back(*it->second);
      return found;
    }
    const auto& rows = in(state);
    for (auto it = rows.upper_bound(after.id); it != rows.end() && found.size() < max; ++it) found.push_back(it->second);
    return found;
  }

  expected<std::optional<record>> find(item_id id) override {
    const std::lock_guard lock(mutex_);
    if (closed_) return closed();
    if (fails()) return failed();
    for (auto& rows : states_)
      if (const auto it = rows.find(id); it != rows.end()) return std::optional<record>{it->second};
    return std::optional<record>{};
  }

  expected<void> erase(std::span<const record_ref> refs, item_id low_water) override {
    const std::lock_guard lock(mutex_);
    if (closed_) return closed();
    if (fails()) return failed();
    for (const auto& ref : refs) {
      if (in(ref.state).erase(ref.id) > 0) free_at_end(ref);
    }
    low_water_ = low_water;
    return {};
  }

  expected<void> update(std::span<const record_move> moves) override {
    const std::lock_guard lock(mutex_);
    if (closed_) return closed();
    if (fails()) return failed();
    for (const auto& m : moves) {
      if (in(m.from.state).erase(m.from.id) == 0) continue;
      in(m.to.state)[m.to.id] = m.to;
      if (m.to.state == record_state::done)
        free_at_end(m.from);
      else if (!holds_key(m.to))
        free_key(m.from);
      else if (policy_for(m.to, unique_).kind != unique_policy::until::time && !owner_of(m.to.digest, {}))
        keep_key(m.to, {});
      // A row that comes back in line may lie below what a later open would look at.
      if (m.to.state == record_state::waiting) low_water_ = std::min(low_water_, m.to.id);
    }
    return {};
  }

  expected<void> release(std::span<const record_ref> refs) override {
    const std::lock_guard lock(mutex_);
    if (closed_) return closed();
    if (fails()) return failed();
    for (const auto& ref : refs) free_key(ref);
    return {};
  }

  expected<std::optional<item_id>> key_owner(const key_digest& digest) override {
    const std::lock_guard lock(mutex_);
    if (closed_) return closed();
    return owner_of(digest, {});
  }

  [[nodiscard]] storage_counts count() const override {
    const std::lock_guard lock(mutex_);
    storage_counts c;
    for (std::size_t i = 0; i < record_states; ++i) c.of(static_cast<record_state>(i)) = states_[i].size();
    c.last = last_;
    return c;
  }

  expected<std::size_t> clear(record_state state, item_id through) override {
    const std::lock_guard lock(mutex_);
    if (closed_) return closed();
    if (fails()) return failed();
    return std::erase_if(in(state), [&](const auto& row) {
      if (row.first > through) return false;
      free_key(ref_of(row.second));
      return true;
    });
  }

  expected<void> close() override {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    return {};
  }
  [[nodiscard]] bool blocks() const noexcept override { return false; }
  [[nodiscard]] bool shared() const noexcept override { return is_shared; }
  bool is_shared = false;
  /// Another node owns it from now on.
  void fence() {
    const std::lock_guard lock(mutex_);
    fenced_ = true;
  }

private:
  using row_map = std::map<item_id, record>;
  struct held_key {
    item_id owner;
    wall_time until{};  ///< the epoch: no end
  };

  std::size_t adopt_some(std::size_t most) {
    std::size_t n = 0;
    for (; n < most && !incoming_.empty(); ++n) {
      in(incoming_.front().state)[incoming_.front().id] = incoming_.front();
      adopted_.push_back(std::move(incoming_.front()));
      incoming_.pop_front();
    }
    return n;
  }
  [[nodiscard]] bool fails() {
    if (fenced_) return true;
    if (failing_ == 0) return false;
    --failing_;
    return true;
  }
  [[nodiscard]] error failed() const {
    if (fenced_) return {errc::fenced, "another node owns it now"};
    return {errc::backend_failed, "the model storage fails on request"};
  }
  static error closed() { return {errc::queue_closed, "the model storage is closed"}; }
  row_map& in(record_state s) {
    return states_[static_cast<std::size_t>(s)];
  }
  [[nodiscard]] std::optional<item_id> owner_of(const key_digest& digest, wall_time now) const {
    const auto it = digest ? keys_.find(digest) : keys_.end();
    if (it == keys_.end() || (it->second.until != wall_time{} && it->second.until <= now)) return std::nullopt;
    return it->second.owner;
  }
  [[nodiscard]] bool holds_key(const record& r) const {
    if (r.state == record_state::done) return false;
    return r.state != record_state::dead || policy_for(r, unique_).kind == unique_policy::until::success;
  }
  void keep_key(const record& r, wall_time now) {
    const auto policy = policy_for(r, unique_);
    if (!r.digest || policy.kind == unique_policy::until::none) return;
    keys_[r.digest] = {r.id, policy.kind == unique_policy::until::time ? now + policy.lifetime : wall_time{}};
  }
  void free_at_end(const record_ref& ref) {
    const auto it = keys_.find(ref.digest);
    if (it != keys_.end() && it->second.until == wall_time{}) free_key(ref);
  }
  void free_key(const record_ref& ref) {
    if (const auto it = keys_.find(ref.digest); it != keys_.end() && it->second.owner == ref.id) keys_.erase(it);
  }

  const unique_policy unique_;
  mutable std::mutex mutex_;
  std::array<row_map, record_states> states_;
  std::deque<record> incoming_;
  std::vector<record> adopted_;
  std::map<key_digest, held_key> keys_;
  std::map<std::string, item_id> repeats_;
  item_id last_;
  item_id low_water_;
  std::size_t failing_ = 0;
  std::size_t throwing_ = 0;
  std::size_t appends_ = 0;
  bool closed_ = false;
  bool fenced_ = false;
};

}  // namespace caravan::test
