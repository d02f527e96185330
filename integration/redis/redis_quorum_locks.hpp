#pragma once

#include "integration/redis/redis_locks.hpp"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <vector>

namespace caravan {

struct redis_quorum_options {
  std::vector<config::redis_address> servers;  ///< independent of one another, none a replica of another
  std::string node;                            ///< how others call this one: letters, digits, - _ .
  std::chrono::milliseconds expiry{30'000};    ///< LOCK_EXPIRY
  std::chrono::milliseconds patience{500};     ///< with one server in one round; small beside `expiry`
  std::chrono::milliseconds pause{500};        ///< between two tries of who waits, give or take half of it
};

/// Locks on a majority of several Redis, in the keys of redis_locks. Thread safe; a call blocks at most about three
/// times `patience`. A minority of servers may be down, or keep somebody else's value; when no majority answers it is
/// backend_failed.
///
/// Two holders: each has a majority, two majorities have a server in common, and that one has one value. So there are
/// none as long as clocks run alike and no server forgets what it has confirmed.
///
/// Tokens: each server counts for itself. A grant's token is the highest that a majority gave, and it is told only
/// after a majority, where the lock still had its value and no higher token, has written it down (`raise`). Take two
/// grants. Their raises have a server in common; let the first's be the earlier one there. When the second's was done
/// the value was the second's, so it was put there after the first raise, with a token above the counter, which was at
/// least the first token. And a raise below the token that is there fails. So the second token is the higher one, with
/// no word of clocks. Where that server forgot its counter in between, its clock counts instead, as in redis_locks.
class redis_quorum_locks final : public lock_store {
public:
  /// Connects, with ten tries, until a majority answers. `warnings` gets what an operator should know. A server that
  /// cannot be used whatever happens (a wrong password, say) is an error also in a minority.
  static expected<std::unique_ptr<redis_quorum_locks>> open(redis_quorum_options options,
                                                            std::vector<std::string>* warnings = nullptr,
                                                            int attempts = 10);
  ~redis_quorum_locks() override;

  expected<lock_taken> take(const lock_take& wish) override;
  expected<std::vector<std::uint64_t>> renew(std::span<const lock_renewal> held) override;
  expected<bool> release(const lock_ref& held) override;
  expected<std::vector<lock_seen>> beat(std::span<const lock_ticket> waiting) override;
  expected<bool> force(std::string_view key) override;
  expected<std::optional<lock_view>> show(std::string_view key) override;
  expected<std::vector<lock_view>> list(std::size_t most) override;
  void on_granted(granted_function) override {}
  [[nodiscard]] bool has_line() const noexcept override { return false; }
  [[nodiscard]] bool blocks() const noexcept override { return true; }
  [[nodiscard]] const std::string& node() const noexcept override { return node_; }
  void close() override;

private:
  explicit redis_quorum_locks(redis_quorum_options options);
  [[nodiscard]] std::size_t majority() const { return servers_.size() / 2 + 1; }
  /// Asks all servers side by side and waits for all: what comes next for a key must not overtake this.
  template <class T>
  std::vector<expected<T>> ask(const std::function<expected<T>(redis_locks&)>& what);
  /// Of each: the token, 0 when it is taken.
  std::vector<expected<std::uint64_t>> acquire(const std::vector<lock_take>& wishes);
  void give_back(const std::vector<lock_ref>& held);
  template <class T>
  [[nodiscard]] error no_majority(const std::vector<expected<T>>& answers) const;
  [[nodiscard]] std::optional<lock_view> agreed(const std::vector<lock_view>& seen, std::size_t silent) const;
  std::chrono::milliseconds next_pause();

  const redis_quorum_options options_;
  const std::string node_;
  std::vector<std::unique_ptr<redis_locks>> servers_;
  std::atomic<std::uint64_t> places_{0};
  std::mutex mutex_;
  std::mt19937_64 random_;
};

}  // namespace caravan
