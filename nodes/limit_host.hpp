#pragma once

/// The limits of one node.

#include "config/limit_settings.hpp"
#include "integration/rate_limiter.hpp"
#include "nodes/busy_keys.hpp"
#include "nodes/log.hpp"
#include "toolbox/clock.hpp"

#include <caravan/error.hpp>
#include <caravan/limit.hpp>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace caravan {

/// One limit: asks its store, and does what WHEN_DOWN says while that does not answer. Thread safe.
class hosted_limit final : public limit_port {
public:
  struct numbers {
    std::uint64_t taken = 0;
    std::uint64_t refused = 0;
    std::uint64_t failures = 0;  ///< takes that the store could not answer
    bool down = false;           ///< the store did not answer the last time
  };
  /// `store` must not be null. `alarm(text)` is called when the store stops to answer, and with an empty text when it
  /// answers again. `time` must outlive it.
  hosted_limit(config::limit_settings s, std::shared_ptr<rate_limiter> store,
               std::function<void(const std::string& text)> alarm, const toolbox::clock& time);

  expected<bool> take(std::string_view key, std::uint64_t n) override;
  expected<void> reset(std::string_view key) override;

  /// As KIND, RATE, PER and BURST are now.
  [[nodiscard]] rate_rule rule() const;
  /// Until the node restarts, and on this node alone. invalid_argument: a rule that is none.
  expected<void> set_rule(rate_rule rule);

  [[nodiscard]] const config::limit_settings& settings() const { return settings_; }
  [[nodiscard]] numbers statistics() const;
  [[nodiscard]] std::vector<busy_keys::usage> top(std::size_t n) const;

private:
  [[nodiscard]] expected<void> check(std::string_view key) const;
  [[nodiscard]] expected<bool> ask(std::string_view key, const rate_rule& rule, std::uint64_t n);
  [[nodiscard]] bool may_ask();
  [[nodiscard]] bool while_down(std::string_view key, const rate_rule& rule, std::uint64_t n);
  void note(const expected<bool>& answer);

  const config::limit_settings settings_;
  const std::shared_ptr<rate_limiter> store_;
  const std::unique_ptr<rate_limiter> local_;  ///< WHEN_DOWN = local
  const std::function<void(const std::string&)> alarm_;
  const toolbox::clock& time_;

  mutable std::mutex mutex_;
  rate_rule rule_;
  numbers numbers_;
  busy_keys busy_;
  toolbox::steady_time rests_until_ = toolbox::steady_time::min();
};

class limit_host {
public:
  struct parts {
    std::vector<config::limit_settings> limits;
    node_log* log = nullptr;  ///< outlives the host
    const toolbox::clock* time = &toolbox::real_clock::shared();
    /// Said when a store stops to answer, and when it answers again (empty text); may be empty.
    std::function<void(const std::string& limit, const std::string& text)> on_trouble{};
  };
  /// Connects to nothing. Throws caravan::exception for a connection string that is none.
  explicit limit_host(parts p);

  /// not_found, with the nearest right name.
  [[nodiscard]] expected<std::shared_ptr<hosted_limit>> find(std::string_view name) const;
  /// In the order of the configuration.
  [[nodiscard]] const std::vector<std::shared_ptr<hosted_limit>>& all() const noexcept { return all_; }

private:
  std::vector<std::shared_ptr<hosted_limit>> all_;
};

}  // namespace caravan
