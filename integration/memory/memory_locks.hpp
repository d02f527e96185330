#pragma once

#include "integration/lock_store.hpp"
#include "toolbox/clock.hpp"

#include <deque>
#include <string>
#include <unordered_map>

namespace caravan {

/// Locks of one process. Never blocks; not thread safe: whoever owns it orders the calls. What it holds does not expire
/// by itself: its owner has the clock and releases.
///
/// Tokens are microseconds since 1970, or one more than the last: they grow over restarts too, as long as a process
/// hands out less than a million a second over its whole life.
class memory_locks final : public lock_store {
public:
  memory_locks(std::string node, const toolbox::clock& clock);

  expected<lock_taken> take(const lock_take& wish) override;
  expected<std::vector<std::uint64_t>> renew(std::span<const lock_renewal> held) override;
  expected<bool> release(const lock_ref& held) override;
  expected<std::vector<lock_seen>> beat(std::span<const lock_ticket> waiting) override;
  expected<bool> force(std::string_view key) override;
  expected<std::optional<lock_view>> show(std::string_view key) override;
  expected<std::vector<lock_view>> list(std::size_t most) override;
  void on_granted(granted_function f) override { granted_ = std::move(f); }
  [[nodiscard]] bool blocks() const noexcept override { return false; }
  [[nodiscard]] const std::string& node() const noexcept override { return node_; }
  void close() override { closed_ = true; }

private:
  struct entry {
    lock_id holder = 0;
    std::uint64_t token = 0;
    std::deque<lock_id> line;
  };
  using table = std::unordered_map<std::string, entry>;

  std::uint64_t next_token();
  void hand_on(table::iterator at);
  [[nodiscard]] lock_view view_of(const std::string& key, const entry& e) const;
  [[nodiscard]] error closed(std::string_view key) const;

  const std::string node_;
  const toolbox::clock& clock_;
  const std::uint64_t base_;  ///< wall minus steady time at the start, in us: the wall clock may be set back later
  std::uint64_t last_token_ = 0;
  table locks_;
  granted_function granted_;
  bool closed_ = false;
};

}  // namespace caravan
