#pragma once

/// A storage that fails when told to, for tests of whoever uses one.
///
///   failing_storage store{open_memory_storage({})};
///   store.fail_next(2);                       // the next two calls answer backend_failed and do nothing
///   store.fail_at(5, failure::after_writing); // the fifth call from here writes, but answers backend_failed

#include "integration/storage.hpp"

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

namespace caravan {

/// Passes storage_contract.hpp while nothing is armed. Thread safe.
class failing_storage final : public storage {
public:
  enum class failure : std::uint8_t {
    before_writing,  ///< nothing happened
    after_writing,   ///< the outcome the caller cannot know: it happened, and the answer got lost
  };

  /// `lose_unsynced`: what lose_unsynced() calls: makes the engine forget what it did not write through.
  explicit failing_storage(std::unique_ptr<storage> real, std::function<void()> lose_unsynced = {})
      : real_(std::move(real)), lose_unsynced_(std::move(lose_unsynced)) {}

  void fail_next(std::size_t calls, failure how = failure::before_writing) {
    const std::lock_guard lock{mutex_};
    for (std::size_t i = 1; i <= calls; ++i) plan_[calls_ + i] = how;
  }
  /// `call` counts from now: 1 is the next one.
  void fail_at(std::size_t call, failure how = failure::before_writing) {
    const std::lock_guard lock{mutex_};
    plan_[calls_ + call] = how;
  }
  void heal() {
    const std::lock_guard lock{mutex_};
    plan_.clear();
  }
  void lose_unsynced() {
    if (lose_unsynced_) lose_unsynced_();
  }
  /// Calls so far that can fail.
  [[nodiscard]] std::size_t calls() const {
    const std::lock_guard lock{mutex_};
    return calls_;
  }

  expected<std::vector<append_result>> append(std::span<record> records, wall_time now) override {
    const auto answer = guarded<std::vector<append_result>>([&] { return real_->append(records, now); });
    // As with a real engine: who got no answer has no id either.
    if (!answer)
      for (auto& r : records) r.id = {};
    return answer;
  }
  expected<std::vector<record>> read(record_state state, read_cursor after, std::size_t max) override {
    return guarded<std::vector<record>>([&] { return real_->read(state, after, max); });
  }
  expected<std::optional<record>> find(item_id id) override {
    return guarded<std::optional<record>>([&] { return real_->find(id); });
  }
  expected<void> erase(std::span<const record_ref> refs, item_id low_water) override {
    return guarded<void>([&] { return real_->erase(refs, low_water); });
  }
  expected<void> update(std::span<const record_move> moves) override {
    return guarded<void>([&] { return real_->update(moves); });
  }
  expected<void> release(std::span<const record_ref> refs) override {
    return guarded<void>([&] { return real_->release(refs); });
  }
  expected<std::optional<item_id>> key_owner(const key_digest& digest) override {
    return guarded<std::optional<item_id>>([&] { return real_->key_owner(digest); });
  }
  [[nodiscard]] storage_counts count() const override { return real_->count(); }
  expected<std::size_t> clear(record_state state, item_id through) override {
    return guarded<std::size_t>([&] { return real_->clear(state, through); });
  }
  expected<void> close() override { return real_->close(); }
  [[nodiscard]] bool blocks() const noexcept override { return real_->blocks(); }
  [[nodiscard]] bool shared() const noexcept override { return real_->shared(); }
  expected<std::size_t> adopt(std::size_t most) override {
    return guarded<std::size_t>([&] { return real_->adopt(most); });
  }
  std::vector<record> take_adopted() override { return real_->take_adopted(); }

private:
  template <class T, class Call>
  expected<T> guarded(Call call) {
    const auto planned = next();
    if (!planned) return call();
    if (*planned == failure::after_writing) (void)call();
    return error{errc::backend_failed, "failing_storage: told to fail; call heal() to stop this"};
  }

  std::optional<failure> next() {
    const std::lock_guard lock{mutex_};
    const auto planned = plan_.find(++calls_);
    if (planned == plan_.end()) return std::nullopt;
    const auto how = planned->second;
    plan_.erase(planned);
    return how;
  }

  std::unique_ptr<storage> real_;
  std::function<void()> lose_unsynced_;
  mutable std::mutex mutex_;
  std::map<std::size_t, failure> plan_;
  std::size_t calls_ = 0;
};

}  // namespace caravan
