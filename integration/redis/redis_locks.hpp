#pragma once

#include "integration/lock_store.hpp"
#include "integration/redis/redis_client.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

namespace caravan {

struct redis_lock_options {
  redis_options redis;
  std::string node;                          ///< how others call this one: letters, digits, - _ .
  bool unique = false;                       ///< `node` is new at every start already
  std::chrono::milliseconds expiry{30'000};  ///< LOCK_EXPIRY
  std::chrono::milliseconds claim{5'000};    ///< how long a key is kept for one whose turn has come, at most `expiry`
  std::chrono::milliseconds node_life{10'000};  ///< a node that waits and gave no sign of life for this long is dead
};

/// Locks of all nodes that use one Redis. Thread safe; calls block at most about give_up_after. Renewals and beats have
/// a connection of their own.
class redis_locks final : public lock_store {
public:
  /// Connects once, with ten tries. `warnings` gets what an operator should know.
  static expected<std::unique_ptr<redis_locks>> open(redis_lock_options options,
                                                     std::vector<std::string>* warnings = nullptr, int attempts = 10);
  ~redis_locks() override;

  expected<lock_taken> take(const lock_take& wish) override;
  expected<std::vector<std::uint64_t>> renew(std::span<const lock_renewal> held) override;
  expected<bool> release(const lock_ref& held) override;
  expected<std::vector<lock_seen>> beat(std::span<const lock_ticket> waiting) override;
  expected<bool> force(std::string_view key) override;
  expected<std::optional<lock_view>> show(std::string_view key) override;
  expected<std::vector<lock_view>> list(std::size_t most) override;
  void on_granted(granted_function f) override;
  [[nodiscard]] bool blocks() const noexcept override { return true; }
  [[nodiscard]] const std::string& node() const noexcept override { return node_; }
  void close() override;

  /// For locks on several servers (redis_quorum_locks.hpp): writes their tokens, which others than this server chose,
  /// and counts the time of each anew. Where it did not, nothing was changed.
  ///   raise   what is its own, and has no higher token here
  ///   keep    what is its own
  ///   put     the same, and what is free
  enum class hold_mode : std::uint8_t { raise, keep, put };
  expected<std::vector<bool>> hold(std::span<const lock_renewal> held, hold_mode mode);
  /// check() of the client: once.
  expected<std::vector<std::string>> check();
  /// Without connecting.
  static std::unique_ptr<redis_locks> unchecked(redis_lock_options options);
  /// A node's name with a part that is new every time.
  static std::string new_name(const std::string& node);

private:
  explicit redis_locks(redis_lock_options options);
  [[nodiscard]] std::string value_of(lock_id id) const;
  [[nodiscard]] error odd(std::string_view what) const;
  [[nodiscard]] expected<std::vector<lock_view>> views(const std::vector<std::string>& keys);
  void on_message(std::string_view message);
  void learn_time(const redis_value& microseconds);

  const redis_lock_options options_;
  const std::string node_;  ///< with a part that is new at every start
  const std::string node_key_;
  const std::string claim_, node_life_;
  redis_client client_;
  redis_client keeper_;  ///< for renewals and beats
  granted_function granted_;
  std::unique_ptr<redis_subscriber> listener_;
  /// Redis' clock minus ours, in us; 0: not known yet.
  std::atomic<std::int64_t> ahead_{0};
};

}  // namespace caravan
