#pragma once

#include "actors/cron/due.hpp"
#include "config/cron_settings.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace caravan {

/// A task as it is registered.
struct cron_task {
  std::string name;              ///< letters, digits, - and _
  std::string description;       ///< one line for people; required
  std::optional<schedule> when;  ///< none: only by hand
  config::cron_settings settings;
  std::vector<std::string> keys{};  ///< of its own, that its section may hold; others are refused
};

/// What is to be run. `token` is the run's fencing token; `id` travels with it as a header.
struct cron_run {
  std::string task;
  std::uint64_t token = 0;
  std::string id;  ///< "backup@2026-03-29T02:30:00Z#17"
  cron_trigger trigger = cron_trigger::schedule;
  std::string who;
  cron_instant occurrence{};
};

/// Why an occurrence did not run.
enum class cron_miss : std::uint8_t {
  none,
  no_node,  ///< nobody was there, and MISSED = skip; or the clock jumped over it
  overlap,  ///< the last run was not over
  skipped,  ///< somebody asked for that
  lost,     ///< a node took it and was gone before it said how it ended
};
[[nodiscard]] std::string_view to_string(cron_miss x) noexcept;

/// A line of a task's history, on the node that knew of it.
struct cron_record {
  std::string task{};
  cron_miss miss = cron_miss::none;  ///< none: it ran
  cron_instant occurrence{};         ///< the first one, if there are several
  cron_instant until{};              ///< the last one
  std::uint64_t count = 1;           ///< at most 1000
  std::uint64_t token = 0;
  cron_trigger trigger = cron_trigger::schedule;
  std::string node{};
  std::string who{};
  cron_time started{};
  cron_time ended{};
  cron_outcome outcome = cron_outcome::finished;
  std::string message{};
};

struct cron_notice {
  std::string task;
  bool failure = false;
  std::string text;
};

struct cron_pause {
  std::string task;
  bool paused = false;
  std::string who;
  cron_instant cursor{};
};

struct cron_open {
  std::string task;
  cron_instant first_cursor{};
};

struct cron_renewal {
  std::string task;
  std::uint64_t token = 0;
  std::chrono::milliseconds lease{};
};

/// The answer to run_now, skip_next, pause or resume with this ticket.
struct cron_reply {
  std::uint64_t ticket = 0;
  expected<void> result;
};

/// What the shell has to do after an event. Each call to the store is answered by its on_... event, also when it
/// failed; a task has one such call under way at most.
struct cron_effects {
  std::vector<cron_open> open;
  std::vector<cron_claim> claims;
  std::vector<cron_renewal> renew;
  std::vector<cron_end> finish;
  std::vector<cron_pause> pause;
  std::vector<cron_run> start;   ///< answered by on_run_ended
  std::vector<cron_run> cancel;  ///< trip the stop token of these
  std::vector<cron_record> records;
  std::vector<cron_notice> notices;
  std::vector<cron_reply> replies;
  bool stopped = false;
};

/// What a list shows of a task. `next` is the same on every node.
struct cron_status {
  std::string name;
  std::string description;
  std::string schedule_text;
  std::string zone;
  bool enabled = false;
  bool paused = false;
  std::string paused_by;
  std::optional<cron_instant> next;
  std::optional<cron_last_run> previous;
  std::optional<cron_running> running;
  std::string status;      ///< running, finished, cancelled, error, lost; empty: it never ran
  std::uint64_t runs = 0;  ///< on all nodes
  std::uint64_t failures = 0;
  std::map<std::string, std::uint64_t> missed;  ///< by reason; what this node knows of
};

/// Decides which occurrence of which task runs here. No CAF, no threads, no clock. Not thread safe.
///
/// All nodes of a cluster have the same tasks. At a due time each one asks the store for the occurrence; the store
/// gives it to one (integration/cron_store.hpp). There is no leader to lose. What the nodes' clocks say matters little:
/// where the store has a clock, the core follows that one, and elsewhere a cursor that only moves forward keeps an
/// occurrence from running twice. A node that dies with a run in hand loses that run's lease, and the next one to claim
/// records it.
class cron_core {
public:
  struct options {
    cron_node node;
    std::chrono::milliseconds lease{15'000};       ///< of a run; renewed at a third
    bool shared_store = false;                     ///< other nodes use it too
    std::chrono::milliseconds most_sleep{30'000};  ///< how late a jump of the clock is noticed
    std::size_t history = 100;                     ///< records kept of each task
  };

  explicit cron_core(options o) : options_(std::move(o)) {}

  /// Before or after start. conflict: there is a task of this name; invalid_argument: no name, no description, a
  /// key that the task does not know, an enabled task without a schedule or with one that never fires again. Nothing is
  /// changed then.
  expected<void> add(cron_task task, cron_time now, cron_effects& fx);
  /// Opens every row, and runs what has RUN_AT_START once that is done.
  void start(cron_time now, cron_effects& fx);
  /// Call it at next_wake, and at least every `most_sleep`.
  void on_tick(cron_time now, cron_effects& fx);

  void on_opened(const std::string& task, const expected<cron_view>& view, cron_time now, cron_effects& fx);
  void on_claimed(const std::string& task, const expected<cron_answer>& answer, cron_time now, cron_effects& fx);
  void on_renewed(const std::string& task, const expected<cron_view>& view, cron_time now, cron_effects& fx);
  void on_finished(const std::string& task, const expected<cron_ended>& answer, cron_time now, cron_effects& fx);
  void on_paused(const std::string& task, const expected<cron_view>& view, cron_time now, cron_effects& fx);
  /// Ignored when no such run is in hand.
  void on_run_ended(const std::string& task, std::uint64_t token, cron_outcome outcome, std::string message,
                    cron_time now, cron_effects& fx);

  /// Any task, enabled or not, paused or not. The ticket's reply: done means it began; conflict: it runs already.
  /// not_found: no such task, with the name that may have been meant. queue_closed: the node is stopping.
  expected<std::uint64_t> run_now(const std::string& task, const std::string& who, cron_time now, cron_effects& fx);
  /// Passes over the next occurrence.
  expected<std::uint64_t> skip_next(const std::string& task, const std::string& who, cron_time now, cron_effects& fx);
  expected<std::uint64_t> set_paused(const std::string& task, bool paused, const std::string& who, cron_time now,
                                     cron_effects& fx);

  /// Starts nothing any more, asks what runs to stop, and waits for it until `deadline`; then fx.stopped.
  void stop(cron_time deadline, cron_time now, cron_effects& fx);

  /// By the clock that `now` comes from, at most `most_sleep` later.
  [[nodiscard]] cron_time next_wake(cron_time now) const;
  [[nodiscard]] std::vector<cron_status> list(cron_time now) const;
  /// The newest first.
  [[nodiscard]] std::vector<cron_record> history(const std::string& task) const;
  /// How far the store's clock is ahead of the node's.
  [[nodiscard]] std::chrono::milliseconds clock_offset() const noexcept { return offset_; }

private:
  enum class call : std::uint8_t { none, open, claim, renew, finish, pause };
  /// What somebody asked for and has no reply to yet.
  struct request {
    enum class kind : std::uint8_t { run, skip, pause, resume } what = kind::run;
    std::string who;
    std::uint64_t ticket = 0;
  };
  struct local_run {
    cron_run run;
    cron_time started{};
    cron_time renew_at{};
    cron_time lease_until{};
    bool cancelled = false;
    bool lost = false;
  };
  struct entry {
    cron_task task;
    std::optional<cron_timing> timing;  ///< of an enabled one
    call under_way = call::none;
    cron_time asked_at{};
    bool opened = false;
    bool caught_up = false;  ///< the time before the start is dealt with
    bool start_once = false;
    cron_state state;
    cron_time seen_at{};  ///< when `state` was true
    std::optional<cron_instant> rewound_to;
    std::optional<cron_claim> claim;  ///< under way, or to be repeated
    std::optional<request> asked;     ///< what the claim or pause is for
    std::deque<request> requests;
    std::optional<cron_end> end;
    std::optional<local_run> run;
    std::optional<cron_time> retry_at;
    unsigned failed = 0;
    std::map<std::string, std::uint64_t> missed;
    std::deque<cron_record> history;
  };

  [[nodiscard]] cron_time common(cron_time now) const { return now + offset_; }
  entry* find(const std::string& task);
  expected<entry*> find_for_request(const std::string& task);
  [[nodiscard]] cron_instant base(const entry& e) const { return e.rewound_to.value_or(e.state.cursor); }

  void advance(entry& e, cron_time now, cron_effects& fx);
  void watch_run(entry& e, cron_time now, cron_effects& fx);
  bool serve_request(entry& e, cron_time now, cron_effects& fx);
  bool claim_due(entry& e, cron_time now, cron_effects& fx);
  void send_claim(entry& e, cron_claim claim, cron_time now, cron_effects& fx);
  void send(entry& e, call what, cron_time now);
  /// The store answered: false, and a repeat is planned, when it failed.
  bool answered(entry& e, call what, const error* failure, cron_time now);
  void see(entry& e, const cron_view& view, cron_time now);
  void begin(entry& e, cron_run run, cron_time asked_at, cron_time now, cron_effects& fx);
  void account(entry& e, const cron_claim& claim, const cron_answer& answer, cron_effects& fx);
  void reply(entry& e, expected<void> result, cron_effects& fx);
  void miss(entry& e, cron_miss why, passed which, const std::string& who, cron_effects& fx);
  void record(entry& e, cron_record what, cron_effects& fx);
  void check_stopped(cron_time now, cron_effects& fx);
  /// When a run must stop because its lease cannot be prolonged.
  [[nodiscard]] std::optional<cron_time> cancel_at(const entry& e) const;
  [[nodiscard]] std::optional<cron_time> wake_of(const entry& e, cron_time now) const;

  options options_;
  std::map<std::string, entry> tasks_;
  std::chrono::milliseconds offset_{0};
  std::uint64_t last_request_ = 0;
  bool started_ = false;
  std::optional<cron_time> stop_at_;
  bool stopped_ = false;
};

}  // namespace caravan
