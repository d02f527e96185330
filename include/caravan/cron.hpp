#pragma once

/// Tasks that run at set times: functions of the application, beside those that [cron.NAME] defines by PUSH, EXEC,
/// HTTP.
///
///   node.cron().add("report", {.description = "Mails the daily report", .schedule = "0 6 * * *", .zone =
///   "Europe/Berlin"},
///                   [](const caravan::task_run& run) { send_report(run.occurrence); }).value();
///
/// Schedules are in <caravan/schedule.hpp>; how a cluster runs each occurrence once stands in docs/cron.md. All nodes
/// of a cluster must have the same tasks. Times are UTC; the epoch means none.

#include <caravan/error.hpp>
#include <caravan/schedule.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace caravan {

using task_time = std::chrono::sys_time<std::chrono::milliseconds>;

/// A setting of a task's own, in [cron.NAME]. A value that is not of the type of `fallback` is refused when the task is
/// added, and so is a key that the task does not have.
struct task_key {
  using value_type = std::variant<std::string, bool, std::int64_t, std::chrono::nanoseconds>;
  std::string name;           ///< "OLDER_THAN"; "SUB.KEY" for a KEY in [cron.NAME.SUB]
  value_type fallback;        ///< of std::chrono::nanoseconds: "90", "10m", "1h30m" may be written
  std::string description{};  ///< one line for people
};

/// What was written for a task's own keys, or their fallbacks. A key that was not declared, or is of another type, is a
/// mistake in the program: caravan::exception, not_found or invalid_argument.
class task_settings {
public:
  void set(const std::string& key, task_key::value_type value) { values_[key] = std::move(value); }
  [[nodiscard]] const std::string& text(const std::string& key) const { return get<std::string>(key); }
  [[nodiscard]] bool boolean(const std::string& key) const { return get<bool>(key); }
  [[nodiscard]] std::int64_t integer(const std::string& key) const { return get<std::int64_t>(key); }
  [[nodiscard]] std::chrono::nanoseconds duration(const std::string& key) const {
    return get<std::chrono::nanoseconds>(key);
  }

private:
  template <class T>
  const T& get(const std::string& key) const {
    const auto at = values_.find(key);
    if (at == values_.end()) throw exception({errc::not_found, "the task declared no key " + key});
    const auto* value = std::get_if<T>(&at->second);
    if (!value) throw exception({errc::invalid_argument, "the task's key " + key + " is of another type"});
    return *value;
  }
  std::map<std::string, task_key::value_type> values_;
};

/// What a function is told. Valid during the call.
struct task_run {
  const std::string& task;
  const std::string& id;      ///< "report@2026-03-29T04:00:00Z#17"
  std::uint64_t token;        ///< grows with each run: a place that the run writes to can refuse a smaller one
  schedule::time occurrence;  ///< the instant it was scheduled for, not that of the call
  std::string_view trigger;   ///< schedule, missed, start, manual, queued
  const std::string& who;     ///< who asked for it; empty: the schedule
  std::stop_token stop;       ///< at TIMEOUT, when its lease is lost, when the node stops
  const task_settings& settings;
};

struct task_options {
  std::string description;                        ///< one line for people; required
  std::string schedule{};                         ///< SCHEDULE in [cron.NAME] wins; one of them is required
  std::string zone{};                             ///< likewise; empty: the machine's
  cron_dialect dialect = cron_dialect::standard;  ///< of `schedule`
  std::vector<task_key> keys{};
};

/// A run that goes on, or the last that ended.
struct task_run_info {
  std::uint64_t token = 0;  ///< 0: there is none
  std::string node;
  std::string who;  ///< who asked for it; empty: the schedule
  std::string trigger;
  task_time occurrence{};
  task_time started{};
  task_time ended{};
  std::string outcome;  ///< finished, error, cancelled, lost
  std::string message;
};

struct task_info {
  std::string name;
  std::string description;
  std::string schedule;
  std::string zone;
  std::string action;  ///< PUSH mail, exec:PROGRAM, a URL, built-in, C++ function
  bool enabled = false;
  bool paused = false;
  std::string paused_by;
  task_time next{};
  task_run_info running;
  task_run_info last;
  std::string status;      ///< running, finished, cancelled, error, lost; empty: it never ran
  std::uint64_t runs = 0;  ///< on all nodes
  std::uint64_t failures = 0;
  std::vector<std::pair<std::string, std::uint64_t>> missed;  ///< by reason; what this node knows of
};

/// A line of a task's history: a run that ended on this node, or what this node knows not to have run.
struct task_event {
  std::string task;
  std::string what;         ///< finished, error, cancelled; no_node, overlap, skipped, lost: it did not run
  task_time occurrence{};   ///< the first one, if there are several
  task_time until{};        ///< the last one
  std::uint64_t count = 1;  ///< at most 1000
  std::uint64_t token = 0;
  std::string trigger;
  std::string node;
  std::string who;
  task_time started{};
  task_time ended{};
  std::string message;
};

struct task_notice {
  std::string task;
  bool failure = false;
  std::string text;
};

/// What a function answers in the end: a line for the list of tasks.
using task_function = std::function<expected<std::string>(const task_run&)>;

/// What `cron` stands on. Thread safe; calls block for 10 s at most.
class cron_port {
public:
  virtual ~cron_port() = default;
  virtual expected<void> add(const std::string& name, task_options options, task_function function) = 0;
  virtual expected<std::vector<task_info>> list() = 0;
  virtual expected<task_info> find(const std::string& task) = 0;
  virtual expected<std::vector<task_event>> history(const std::string& task) = 0;
  virtual expected<void> run(const std::string& task, const std::string& who) = 0;
  virtual expected<void> skip_next(const std::string& task, const std::string& who) = 0;
  virtual expected<void> pause(const std::string& task, const std::string& who) = 0;
  virtual expected<void> resume(const std::string& task, const std::string& who) = 0;
  virtual void on_notice(std::function<void(const task_notice&)> function) = 0;
};

/// The tasks of a node: node::cron(). Cheap to copy; thread safe. After the node's end every call answers queue_closed.
class cron {
public:
  explicit cron(std::shared_ptr<cron_port> port) : port_(std::move(port)) {}

  /// `function(run)` returns nothing, a text for the list, expected<void> or expected<std::string>; an exception fails
  /// the run. It is called on a thread of its own and may block, but should end soon after run.stop is asked; a
  /// stopping node waits 10 s for it. Never two calls at once for one task, in the whole cluster. ENABLED, TIMEOUT,
  /// OVERLAP ... come from [cron.NAME] over [cron]. conflict: there is a task of this name. invalid_argument: no
  /// description, a schedule that is none or never fires, a wrong key or value in its section. backend_failed: the
  /// store cannot be opened. Nothing is changed then.
  template <class Function>
  expected<void> add(const std::string& name, task_options options, Function function) {
    return port_->add(name, std::move(options),
                      [f = std::move(function)](const task_run& run) mutable -> expected<std::string> {
                        using result = std::invoke_result_t<Function&, const task_run&>;
                        if constexpr (std::is_void_v<result>) {
                          f(run);
                          return std::string();
                        } else if constexpr (std::is_same_v<result, expected<void>>) {
                          if (const expected<void> done = f(run); !done) return done.failure();
                          return std::string();
                        } else {
                          return f(run);
                        }
                      });
  }
  /// Disabled ones too, and the built-in ones.
  expected<std::vector<task_info>> list() const { return port_->list(); }
  /// not_found, with the name that may have been meant.
  expected<task_info> find(const std::string& task) const { return port_->find(task); }
  /// The newest first, 100 at most; what this node knows of since its start.
  expected<std::vector<task_event>> history(const std::string& task) const { return port_->history(task); }
  /// Also a disabled or paused one. Returns when it began; conflict: it runs already.
  expected<void> run(const std::string& task, const std::string& who = "the application") const {
    return port_->run(task, who);
  }
  /// Passes over the next occurrence.
  expected<void> skip_next(const std::string& task, const std::string& who = "the application") const {
    return port_->skip_next(task, who);
  }
  /// On all nodes, until it is resumed; a restart does not end it.
  expected<void> pause(const std::string& task, const std::string& who = "the application") const {
    return port_->pause(task, who);
  }
  expected<void> resume(const std::string& task, const std::string& who = "the application") const {
    return port_->resume(task, who);
  }
  /// Called for each failure, and for a success where NOTICE_ON_SUCCESS is set, beside the log. On a thread of the
  /// node: it must not block, throw, or ask for anything here. A second function replaces the first.
  void on_notice(std::function<void(const task_notice&)> function) const { port_->on_notice(std::move(function)); }

private:
  std::shared_ptr<cron_port> port_;
};

}  // namespace caravan
