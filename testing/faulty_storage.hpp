#pragma once

#include "integration/storage.hpp"

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace caravan::testing {

/// A storage that fails when it is told to. Outlives a crash of its queue: close() does nothing.
class faulty_storage final : public storage {
public:
  faulty_storage(std::unique_ptr<storage> real, std::string queue) : real_(std::move(real)), queue_(std::move(queue)) {}

  std::size_t failing_appends = 0;  ///< these store nothing
  std::size_t losing_appends = 0;   ///< these store, and say that they do not know
  bool away = false;                ///< nothing can be reached
  void mend();                      ///< none of them any more

  expected<std::vector<append_result>> append(std::span<record> records, wall_time now) override;
  expected<std::size_t> adopt(std::size_t most) override;
  std::vector<record> take_adopted() override { return std::exchange(unanswered_, {}); }
  expected<std::vector<record>> read(record_state state, read_cursor after, std::size_t max) override;
  expected<std::optional<record>> find(item_id id) override;
  expected<void> erase(std::span<const record_ref> refs, item_id low_water) override;
  expected<void> update(std::span<const record_move> moves) override;
  expected<void> release(std::span<const record_ref> refs) override;
  expected<std::optional<item_id>> key_owner(const key_digest& digest) override;
  [[nodiscard]] storage_counts count() const override { return real_->count(); }
  expected<std::size_t> clear(record_state state, item_id through) override;
  expected<void> close() override { return {}; }
  [[nodiscard]] bool blocks() const noexcept override { return false; }

private:
  [[nodiscard]] error unreachable() const;

  std::unique_ptr<storage> real_;
  const std::string queue_;
  std::vector<record> unanswered_;  ///< stored by a push that does not know it; the queue finds them by itself
};

}  // namespace caravan::testing
