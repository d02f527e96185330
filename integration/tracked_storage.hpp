#pragma once

/// A storage that notes which of its rows change while they are being copied.

#include "integration/storage.hpp"

#include <memory>
#include <mutex>
#include <unordered_set>
#include <utility>
#include <vector>

namespace caravan {

/// Forwards everything. Between watch(true) and watch(false) it notes the ids of rows that were changed, moved or
/// erased, of new rows that are delayed, and of unique keys that were given up: 8 and 32 bytes each. New rows that wait
/// are not noted: they stand behind all others.
class tracked_storage final : public storage {
public:
  explicit tracked_storage(std::shared_ptr<storage> real, bool keys_follow_rows)
      : real_(std::move(real)), keys_follow_rows_(keys_follow_rows) {}

  void watch(bool on) {
    const std::lock_guard lock(mutex_);
    watching_ = on;
    cleared_ = false;
    changed_.clear();
    freed_.clear();
  }
  struct changes {
    std::vector<item_id> rows;
    std::vector<kept_key> freed;
    bool cleared = false;  ///< whole states were forgotten: which rows, nobody noted
  };
  /// About `most` of what was noted, which is then forgotten.
  [[nodiscard]] changes take(std::size_t most) {
    const std::lock_guard lock(mutex_);
    changes c;
    c.cleared = cleared_;
    while (!changed_.empty() && c.rows.size() < most) c.rows.push_back(changed_.extract(changed_.begin()).value());
    while (!freed_.empty() && c.freed.size() < most) {
      c.freed.push_back(freed_.back());
      freed_.pop_back();
    }
    return c;
  }
  [[nodiscard]] bool is_changed(item_id id) const {
    const std::lock_guard lock(mutex_);
    return changed_.contains(id);
  }
  [[nodiscard]] std::size_t pending() const {
    const std::lock_guard lock(mutex_);
    return std::max(changed_.size(), freed_.size());
  }

  expected<std::vector<append_result>> append(std::span<record> records, wall_time now) override {
    auto done = real_->append(records, now);
    if (done)
      note([&] {
        for (const auto& r : records)
          if (r.id && r.state != record_state::waiting) changed_.insert(r.id);
      });
    return done;
  }
  expected<std::vector<record>> read(record_state state, read_cursor after, std::size_t max) override {
    return real_->read(state, after, max);
  }
  expected<std::optional<record>> find(item_id id) override { return real_->find(id); }
  expected<void> erase(std::span<const record_ref> refs, item_id low_water) override {
    // Noted before and after: a copy that is made meanwhile may have seen either.
    const auto what = [&] {
      for (const auto& r : refs) {
        changed_.insert(r.id);
        if (keys_follow_rows_) free(r);
      }
    };
    note(what);
    auto done = real_->erase(refs, low_water);
    note(what);
    return done;
  }
  expected<void> update(std::span<const record_move> moves) override {
    const auto what = [&] {
      for (const auto& m : moves) {
        changed_.insert(m.from.id);
        // One that keeps its key while it is dead takes it again when its row arrives.
        if (m.to.state == record_state::dead || (m.to.state == record_state::done && keys_follow_rows_)) free(m.from);
      }
    };
    note(what);
    auto done = real_->update(moves);
    note(what);
    return done;
  }
  expected<void> release(std::span<const record_ref> refs) override {
    auto done = real_->release(refs);
    note([&] {
      for (const auto& r : refs) free(r);
    });
    return done;
  }
  expected<std::optional<item_id>> key_owner(const key_digest& digest) override { return real_->key_owner(digest); }
  [[nodiscard]] storage_counts count() const override { return real_->count(); }
  expected<std::size_t> clear(record_state state, item_id through) override {
    note([&] { cleared_ = true; });
    return real_->clear(state, through);
  }
  expected<void> close() override { return real_->close(); }
  expected<void> import(const import_part& part) override { return real_->import(part); }
  expected<void> wipe() override { return real_->wipe(); }
  expected<std::vector<kept_key>> keys_after(item_id after, std::size_t max) override {
    return real_->keys_after(after, max);
  }
  [[nodiscard]] bool blocks() const noexcept override { return real_->blocks(); }
  [[nodiscard]] bool shared() const noexcept override { return real_->shared(); }

private:
  template <class What>
  void note(What what) {
    const std::lock_guard lock(mutex_);
    if (watching_) what();
  }
  void free(const record_ref& r) {
    if (r.digest) freed_.push_back({kept_key::kind::unique, r.digest, r.id, {}});
  }

  const std::shared_ptr<storage> real_;
  const bool keys_follow_rows_;
  mutable std::mutex mutex_;
  bool watching_ = false;
  bool cleared_ = false;
  std::unordered_set<item_id> changed_;
  std::vector<kept_key> freed_;
};

}  // namespace caravan
