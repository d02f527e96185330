#pragma once

/// What the nodes must agree on about tasks, so that each occurrence runs once: how far a task has got, who runs it,
/// what waits, whether it is paused, how the last run ended. One row for each task.
///
/// An *occurrence* is a task's name and the instant it was scheduled for. The row's *cursor* is the last occurrence
/// that somebody took or passed over. A claim names the cursor it knows and the occurrence to move it to, and is
/// granted only if the row still has that cursor: of any number of nodes with any clocks one moves it, and what lies
/// between both is that node's to account for.

#include <caravan/error.hpp>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace caravan {

using cron_time = std::chrono::sys_time<std::chrono::milliseconds>;
using cron_instant = std::chrono::sys_seconds;

/// Why a run began. Stored: append only.
enum class cron_trigger : std::uint8_t { schedule = 1, missed = 2, start = 3, manual = 4, queued = 5 };
/// How a run ended. Stored: append only.
enum class cron_outcome : std::uint8_t {
  finished = 1,
  error = 2,
  cancelled = 3,
  lost = 4,  ///< its node never said
};
[[nodiscard]] std::string_view to_string(cron_trigger x) noexcept;
[[nodiscard]] std::string_view to_string(cron_outcome x) noexcept;

/// A node in one of its lives: what an earlier life of the same node left behind is over.
struct cron_node {
  std::string name;
  std::uint64_t incarnation = 0;
  friend bool operator==(const cron_node&, const cron_node&) = default;
};

/// A run that has begun. Its token only grows within a task; a place that the run writes to can refuse a smaller one.
struct cron_running {
  std::uint64_t token = 0;
  cron_node node{};
  std::uint64_t request = 0;
  cron_trigger trigger = cron_trigger::schedule;
  std::string who{};  ///< who asked for it; empty: the schedule
  cron_instant occurrence{};
  cron_instant from{};  ///< the cursor before it
  cron_time since{};
  cron_time lease_until{};
  std::uint64_t after = 0;  ///< the token of the run whose end let it begin; 0: none
  friend bool operator==(const cron_running&, const cron_running&) = default;
};

struct cron_last_run {
  std::uint64_t token = 0;
  std::string node{};
  std::string who{};
  cron_trigger trigger = cron_trigger::schedule;
  cron_instant occurrence{};
  cron_time started{};
  cron_time ended{};
  cron_outcome outcome = cron_outcome::finished;
  std::string message{};
  friend bool operator==(const cron_last_run&, const cron_last_run&) = default;
};

/// What is stored of a task.
struct cron_state {
  cron_instant cursor{};
  bool paused = false;
  std::string paused_by;
  std::optional<cron_running> running;
  std::optional<cron_instant> queued;  ///< waits for the run to end
  std::optional<cron_last_run> last;
  std::uint64_t runs = 0;
  std::uint64_t failures = 0;
  friend bool operator==(const cron_state&, const cron_state&) = default;
};

/// `now` is the store's own clock, when it has one that all nodes see; then leases follow it, and nodes correct theirs.
struct cron_view {
  cron_state state;
  std::optional<cron_time> now;
};

struct cron_claim {
  std::string task{};
  cron_node node{};
  std::uint64_t request = 0;  ///< a repeat with the same number gives the first answer again
  cron_trigger trigger = cron_trigger::schedule;
  std::string who{};
  cron_instant cursor{};      ///< where the claimer believes it to be; of no account for start and manual
  cron_instant occurrence{};  ///< where to move it; start and manual do not
  enum class action : std::uint8_t { run, pass_over } what = action::run;
  enum class when_busy : std::uint8_t { skip, queue } busy = when_busy::skip;
  std::chrono::milliseconds lease{15'000};
};

enum class cron_verdict : std::uint8_t {
  granted = 1,      ///< run it
  passed_over = 2,  ///< the cursor moved
  busy = 3,         ///< the cursor moved (but not for start and manual); another run is not over
  queued = 4,       ///< the cursor moved; whoever ends the present run gets this one
  taken = 5,        ///< nothing changed: the cursor is elsewhere
  paused = 6,       ///< nothing changed
  early = 7,        ///< nothing changed: by the store's clock the occurrence is still to come
};

struct cron_answer {
  cron_verdict verdict = cron_verdict::taken;
  std::uint64_t token = 0;              ///< granted
  cron_instant from{};                  ///< where the cursor was when it moved,
  cron_instant to{};                    ///< and where it moved to: what lies between is the claimer's to account for
  std::optional<cron_running> lost;     ///< a run whose node is gone; it is over now
  std::optional<cron_instant> dropped;  ///< it was queued behind a run that did not end
  cron_view view;                       ///< after the claim
};

struct cron_end {
  std::string task{};
  std::uint64_t token = 0;
  cron_node node{};
  cron_outcome outcome = cron_outcome::finished;
  std::string message{};    ///< at most 1000 bytes are kept
  bool give_back = false;   ///< it never began: the cursor goes back, another may run it
  bool take_queued = true;  ///< begin what is queued at once
  std::chrono::milliseconds lease{15'000};
};

struct cron_ended {
  bool held = false;                 ///< false: the lease was over and somebody knew it
  std::optional<cron_running> next;  ///< what was queued: it is the caller's now
  cron_view view;
};

/// Calls may block; any number of threads. A failure (backend_failed, timed_out) means that the outcome is unknown:
/// repeat the same call. `now` is the caller's wall clock, for stores without one of their own.
class cron_store {
public:
  virtual ~cron_store() = default;

  /// Makes the row with this cursor if there is none.
  virtual expected<cron_view> open(const std::string& task, cron_instant first_cursor, cron_time now) = 0;
  virtual expected<cron_answer> claim(const cron_claim& claim, cron_time now) = 0;
  /// Prolongs the lease of a run. Whether it still has one is in the view: running with this token.
  virtual expected<cron_view> renew(const std::string& task, std::uint64_t token, std::chrono::milliseconds lease,
                                    cron_time now) = 0;
  virtual expected<cron_ended> finish(const cron_end& end, cron_time now) = 0;
  /// A resumed task's cursor moves on to `cursor`, so that what was due meanwhile is not missed.
  virtual expected<cron_view> set_paused(const std::string& task, bool paused, const std::string& who,
                                         cron_instant cursor, cron_time now) = 0;
};

}  // namespace caravan
