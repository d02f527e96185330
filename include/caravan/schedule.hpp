#pragma once

/// When something is due: cron expressions, macros and intervals, in any time zone. Stands alone: needs no node.
///
///   auto backup = caravan::schedule::parse("CRON_TZ=Europe/Berlin 30 2 * * mon-fri").value();
///   auto due = backup.next(std::chrono::system_clock::now());
///
/// The dialect, what happens when clocks change, and the words are in docs/cron.md. In short: a schedule fires at
/// exactly those instants whose wall clock, in its zone, matches the fields. A time that a clock change leaves out does
/// not fire; one that comes twice fires twice.
///
/// Zones are read from the system's tzdata ($TZDIR, else /usr/share/zoneinfo) once for each process; "UTC" needs none.
/// Rules at the end of a zone's file are followed, so times beyond 2037 are right too.

#include <caravan/error.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace caravan {

enum class cron_dialect : std::uint8_t {
  standard,  ///< five or six fields, @macros, @every
  extended,  ///< also L, W, #, weekday 7, ranges over the end (fri-mon), a seventh field for years, H
};

struct schedule_options {
  cron_dialect dialect = cron_dialect::standard;
  std::string zone{};  ///< without a TZ= or CRON_TZ= in front; empty: the machine's
  std::string name{};  ///< what H is spread by: the same name gives the same times on every machine
};

/// What a change of clocks does to a wall-clock time of a schedule.
enum class clock_effect : std::uint8_t {
  none,
  skipped,      ///< the clocks jump over it: it does not fire
  first_pass,   ///< the clocks go back: it fires now, and again
  second_pass,  ///< it fired before
};
[[nodiscard]] std::string_view to_string(clock_effect effect) noexcept;

struct clock_note {
  clock_effect effect = clock_effect::none;
  std::chrono::local_seconds wall;  ///< what the wall clock shows, or would show
  std::chrono::sys_seconds at;      ///< when it fires; skipped: when the clocks jump

  friend bool operator==(const clock_note&, const clock_note&) = default;
};

/// Immutable; cheap to copy; any number of threads may use one at once. Instants before the year 1 or after the year
/// 9999 have no occurrences.
class schedule {
public:
  using time = std::chrono::sys_seconds;

  /// invalid_argument for any text that is no schedule, and for an unknown zone; the text names the part and what to
  /// write instead. At most 4096 bytes. A schedule that never fires is parsed: see fires_after.
  [[nodiscard]] static expected<schedule> parse(std::string_view text, const schedule_options& options = {});
  /// "@every": at least a second; a fraction of a second is cut. invalid_argument for less.
  [[nodiscard]] static expected<schedule> every(std::chrono::nanoseconds interval);

  /// The first occurrence strictly after `after`; nothing when there is none within eight calendar years (so that a
  /// leap day is found across a century), or 40 for what only the extended dialect can say. Bounded work for any
  /// schedule.
  [[nodiscard]] std::optional<time> next(time after) const;
  /// The last one strictly before `before`. Of an interval: `before` less the interval.
  [[nodiscard]] std::optional<time> previous(time before) const;
  template <class Duration>
  [[nodiscard]] std::optional<time> next(std::chrono::sys_time<Duration> after) const {
    return next(std::chrono::floor<std::chrono::seconds>(after));
  }
  template <class Duration>
  [[nodiscard]] std::optional<time> previous(std::chrono::sys_time<Duration> before) const {
    return previous(std::chrono::ceil<std::chrono::seconds>(before));
  }
  /// Fewer when there are no more.
  [[nodiscard]] std::vector<time> next_n(time after, std::size_t count) const;
  /// Of an interval always false: its times depend on when it began.
  [[nodiscard]] bool matches(time at) const;

  /// Refuses, with the reason, a schedule that has no occurrence after `now`: a day that no month has, years that are
  /// over.
  [[nodiscard]] expected<void> fires_after(time now) const;
  /// What its author may not have meant: six fields that make sixty runs a minute. Empty: nothing.
  [[nodiscard]] std::string warning() const;

  /// For an occurrence: whether its wall-clock time comes twice. skipped is never the answer.
  [[nodiscard]] clock_effect effect_at(time occurrence) const;
  /// Every time from `from` to before `to` that a change of clocks leaves out or doubles, in order, at most `limit`.
  [[nodiscard]] std::vector<clock_note> clock_notes(time from, time to, std::size_t limit) const;

  /// RFC 3339 in the schedule's zone: "2026-03-29T03:30:00+02:00". In UTC where the offset has seconds (before about
  /// 1930) and outside the years 1 to 9999.
  [[nodiscard]] std::string format(time at) const;
  /// The name of its zone: "Europe/Berlin".
  [[nodiscard]] const std::string& zone() const noexcept;
  /// As it was written, one blank between words.
  [[nodiscard]] const std::string& text() const noexcept;
  /// @every: the interval. Nothing for what follows the calendar.
  [[nodiscard]] std::optional<std::chrono::seconds> interval() const noexcept;

  /// The same occurrences in the same zone, however they were written: "@daily" and "0 0 * * *".
  friend bool operator==(const schedule& a, const schedule& b);

  struct plan;  ///< its parts, for the implementation

private:
  explicit schedule(std::shared_ptr<const plan> parts) : plan_(std::move(parts)) {}
  std::shared_ptr<const plan> plan_;
};

}  // namespace caravan
