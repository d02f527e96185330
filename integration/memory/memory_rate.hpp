#pragma once

/// Limits that one process counts for itself.

#include "integration/rate_limiter.hpp"
#include "toolbox/clock.hpp"
#include "toolbox/limit_table.hpp"

namespace caravan {

/// Never fails, never blocks. Keys are forgotten when that makes no difference.
class memory_rate final : public rate_limiter {
public:
  /// `time` must outlive it.
  explicit memory_rate(const toolbox::clock& time = toolbox::real_clock::shared()) : table_(time) {}
  [[nodiscard]] std::string name() const override { return "memory"; }
  expected<bool> take(std::string_view key, const rate_rule& rule, std::uint64_t n) override {
    if (rule.how == rate_rule::kind::period)
      return table_.take_period(key, {.period = rule.per, .quota = rule.rate, .aligned = false}, n) !=
             toolbox::quota::over;
    const auto a_second = static_cast<double>(rule.rate) * 1000 / static_cast<double>(rule.per.count());
    return table_.take_tokens(key, {.rate = a_second, .burst = rule.burst}, n);
  }
  expected<void> reset(std::string_view key) override {
    table_.forget(key);
    return {};
  }

private:
  toolbox::limit_table table_;
};

}  // namespace caravan
