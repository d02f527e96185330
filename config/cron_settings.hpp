#pragma once

#include "config/problem.hpp"

#include <caravan/error.hpp>
#include <caravan/schedule.hpp>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace caravan::config {

enum class missed_mode : std::uint8_t { skip, once };
enum class overlap_mode : std::uint8_t { skip, queue };
enum class cron_store_type : std::uint8_t { automatic, level, redis, memory };
enum class cron_action : std::uint8_t { none, push, exec, http };

/// A key of a task's own: in [cron.NAME], or in [cron.NAME.SUB] as "SUB.KEY".
struct own_key {
  std::string key;
  std::string value;
  origin where;
};

/// The keys that a task defines itself, with typed access. A wrong value is invalid_argument with its place, never the
/// fallback.
class own_keys {
public:
  void add(own_key k) { keys_.push_back(std::move(k)); }
  [[nodiscard]] const std::vector<own_key>& all() const noexcept { return keys_; }
  [[nodiscard]] const own_key* find(std::string_view key) const noexcept;

  [[nodiscard]] std::string text(std::string_view key, std::string_view fallback = {}) const;
  [[nodiscard]] expected<bool> boolean(std::string_view key, bool fallback) const;
  [[nodiscard]] expected<std::int64_t> integer(std::string_view key, std::int64_t fallback) const;
  [[nodiscard]] expected<std::chrono::nanoseconds> duration(std::string_view key,
                                                            std::chrono::nanoseconds fallback) const;
  /// The keys of [cron.NAME.SUB], without their "SUB.".
  [[nodiscard]] own_keys nested(std::string_view sub) const;
  /// invalid_argument for the first key that is not among these, with the one that may have been meant.
  [[nodiscard]] expected<void> only(const std::vector<std::string_view>& known) const;

private:
  std::vector<own_key> keys_;
};

/// [cron.NAME] over [cron], defaults filled in and bounds checked by read_cron_settings.
struct cron_settings {
  std::string name;
  std::string description;                        ///< DESCRIPTION; without one, what an action says of itself
  bool enabled = true;                            ///< ENABLED
  bool run_at_start = false;                      ///< RUN_AT_START
  std::string schedule;                           ///< SCHEDULE, as it is written
  cron_dialect dialect = cron_dialect::standard;  ///< DIALECT
  std::string time_zone;                          ///< TIME_ZONE; empty: the machine's
  bool notice_on_success = false;                 ///< NOTICE_ON_SUCCESS
  std::chrono::milliseconds jitter{0};            ///< JITTER
  std::chrono::milliseconds timeout{0};           ///< TIMEOUT of one run; 0: none
  missed_mode missed = missed_mode::skip;         ///< MISSED
  overlap_mode overlap = overlap_mode::skip;      ///< OVERLAP
  cron_action action = cron_action::none;         ///< which of the three is set
  std::string queue;                              ///< PUSH: its first word
  std::string payload;                            ///< PUSH: what follows
  std::string target;                             ///< EXEC: the command; HTTP: the URL
  own_keys own;
};

}  // namespace caravan::config
