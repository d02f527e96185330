#pragma once

#include <caravan/item_id.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace caravan {

/// What is known of one item of a batch besides its value.
struct item_facts {
  item_id id;
  std::uint32_t attempt = 1;  ///< 1 for the first handler call
  std::string_view key;
  std::span<const std::pair<std::string, std::string>> headers;
};

/// Facts about one handler call, and how the handler says what became of single items.
/// Items that are neither returned as unhandled nor named here count as handled. Used by one thread: the call's.
class context {
public:
  enum class verdict : std::uint8_t { handled, unhandled, failed, rejected, later, result };
  struct outcome {
    verdict what = verdict::handled;
    std::string text;
    std::chrono::milliseconds delay{0};
  };

  context(std::string_view queue, std::uint64_t lease_token, std::stop_token stop,
          std::chrono::steady_clock::time_point deadline, std::vector<item_facts> items)
    : queue_(queue), lease_token_(lease_token), stop_(std::move(stop)), deadline_(deadline), items_(std::move(items)),
      outcomes_(items_.size()) {}

  [[nodiscard]] std::string_view queue() const { return queue_; }
  /// Tripped when the call should end: at TIMEOUT, when its lease is lost, at shutdown. What a handler returns after
  /// its TIMEOUT counts as failed.
  [[nodiscard]] const std::stop_token& stop() const { return stop_; }
  /// When stop() will be tripped because of TIMEOUT; time_point::max(): never.
  [[nodiscard]] std::chrono::steady_clock::time_point deadline() const { return deadline_; }
  /// Only grows within one queue: hand it to whatever must refuse an outdated worker.
  [[nodiscard]] std::uint64_t lease_token() const { return lease_token_; }

  /// Of the items as the handler got them.
  [[nodiscard]] std::size_t size() const { return numbers_.empty() ? items_.size() : numbers_.size(); }
  [[nodiscard]] const item_facts& item(std::size_t index) const { return items_.at(at(index)); }

  /// The attempt failed: comes again with growing delays, and is dead after MAX_ATTEMPTS.
  void fail(std::size_t index, std::string why) { outcomes_.at(at(index)) = {verdict::failed, std::move(why), {}}; }
  /// Never again: the item is dead at once.
  void reject(std::size_t index, std::string why) { outcomes_.at(at(index)) = {verdict::rejected, std::move(why), {}}; }
  /// Not now: comes again after `delay`; no attempt is counted.
  void later(std::size_t index, std::chrono::milliseconds delay) { outcomes_.at(at(index)) = {verdict::later, {}, delay}; }
  /// It is handled, and this JSON text can be seen for the job's `retention`.
  void result(std::size_t index, std::string json) { outcomes_.at(at(index)) = {verdict::result, std::move(json), {}}; }
  /// As if its index had been returned.
  void hand_back(std::size_t index) { outcomes_.at(at(index)) = {verdict::unhandled, {}, {}}; }

  /// For the library: outcomes in batch order, and the numbers of the items that the handler gets to see.
  [[nodiscard]] const std::vector<outcome>& outcomes() const { return outcomes_; }
  void renumber(std::vector<std::size_t> numbers) { numbers_ = std::move(numbers); }

private:
  [[nodiscard]] std::size_t at(std::size_t index) const { return numbers_.empty() ? index : numbers_.at(index); }

  std::string_view queue_;
  std::uint64_t lease_token_;
  std::stop_token stop_;
  std::chrono::steady_clock::time_point deadline_;
  std::vector<item_facts> items_;
  std::vector<outcome> outcomes_;
  std::vector<std::size_t> numbers_;  ///< empty: all items, as they are
};

/// A handler as a node keeps it: payloads in, outcomes left in the context. Called by many workers at once.
using raw_handler = std::function<void(std::span<const std::string* const>, context&)>;

}  // namespace caravan
