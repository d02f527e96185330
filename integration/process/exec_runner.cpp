#include "integration/process/exec_runner.hpp"

#include "integration/process/child.hpp"
#include "integration/process/command_line.hpp"
#include "integration/process/handler_json.hpp"
#include "integration/process/sigpipe_guard.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <system_error>
#include <vector>

namespace caravan {

namespace {

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr int exit_later = 75;  // EX_TEMPFAIL
constexpr auto give_up_after =
    2s;  // a process that outlives SIGKILL this long is another user's, or stuck in the kernel
constexpr std::size_t chunk = 64 * 1024;
// The most a pipe holds for an unprivileged process (/proc/sys/fs/pipe-max-size): what was written before the exit.
constexpr std::size_t pipe_capacity = 1024 * 1024;

std::string reason(int code) { return std::generic_category().message(code); }

/// Standard output, read as lines; keeps which items were named and nothing else, so a flood costs no memory.
class id_lines {
public:
  explicit id_lines(const batch& work) : names_(work), named_(work.items->size()), longest_(work.queue.size() + 64) {}

  void feed(std::string_view bytes) {
    while (!bytes.empty()) {
      const auto end = bytes.find('\n');
      const auto part = bytes.substr(0, end);
      if (line_.size() + part.size() > longest_) is_too_long_ = true;
      if (!is_too_long_) line_ += part;
      if (end == std::string_view::npos) return;
      finish_line();
      bytes.remove_prefix(end + 1);
    }
  }
  void finish() { finish_line(); }

  [[nodiscard]] const std::vector<bool>& named() const { return named_; }
  [[nodiscard]] std::uint64_t ignored() const { return ignored_; }

private:
  void finish_line() {
    std::string_view name = line_;
    constexpr auto blanks = " \t\r";
    name.remove_prefix(std::min(name.find_first_not_of(blanks), name.size()));
    name = name.substr(0, name.find_last_not_of(blanks) + 1);
    if (is_too_long_) {
      ++ignored_;
    } else if (!name.empty()) {
      if (const auto index = names_.find(name))
        named_[*index] = true;
      else
        ++ignored_;
    }
    line_.clear();
    is_too_long_ = false;
  }

  handlers::item_names names_;
  std::vector<bool> named_;
  std::size_t longest_;
  std::string line_;
  bool is_too_long_ = false;
  std::uint64_t ignored_ = 0;
};

/// The last bytes of standard error.
class tail {
public:
  explicit tail(std::size_t limit) : limit_(limit) {}
  void feed(std::string_view bytes) {
    if (bytes.size() >= limit_) {
      was_cut_ = was_cut_ || !bytes_.empty() || bytes.size() > limit_;
      bytes_ = bytes.substr(bytes.size() - limit_);
      return;
    }
    bytes_ += bytes;
    if (bytes_.size() > 2 * limit_) cut();
  }
  [[nodiscard]] std::string text() {
    cut();
    std::string_view bytes = bytes_;
    // The cut may have gone through a character.
    for (int i = 0; was_cut_ && i < 3 && !bytes.empty() && (static_cast<unsigned char>(bytes[0]) & 0xC0u) == 0x80u; ++i)
      bytes.remove_prefix(1);
    return handlers::readable(bytes);
  }

private:
  void cut() {
    if (bytes_.size() <= limit_) return;
    bytes_.erase(0, bytes_.size() - limit_);
    was_cut_ = true;
  }
  std::size_t limit_;
  std::string bytes_;
  bool was_cut_ = false;
};

/// Standard input, made item by item: a batch of 20 MiB needs no copy of 20 MiB.
class input_lines {
public:
  explicit input_lines(const batch& work) : work_(work) {}

  /// What is to be written next; empty at the end.
  std::string_view front() {
    if (written_ == buffer_.size()) {
      buffer_.clear();
      written_ = 0;
      while (next_ < work_.items->size() && buffer_.size() < chunk) {
        handlers::append_item_json(buffer_, work_.queue, (*work_.items)[next_++]);
        buffer_ += '\n';
      }
    }
    return std::string_view(buffer_).substr(written_);
  }
  void pop(std::size_t bytes) { written_ += bytes; }

private:
  const batch& work_;
  std::size_t next_ = 0;
  std::string buffer_;
  std::size_t written_ = 0;
};

constexpr std::array variables = {"CARAVAN_QUEUE",    "CARAVAN_BATCH_SIZE", "CARAVAN_LEASE_TOKEN", "CARAVAN_ATTEMPT",
                                  "CARAVAN_DEADLINE", "CARAVAN_NODE",       "CARAVAN_JOB_ID",      "TRACEPARENT",
                                  "CARAVAN_RUN_ID",   "CARAVAN_RUN_TOKEN",  "CARAVAN_TASK",        "CARAVAN_OCCURRENCE"};

std::vector<std::string> inherited_environment() {
  std::vector<std::string> result;
  for (char** at = environ; at != nullptr && *at != nullptr; ++at) {
    const std::string_view entry = *at;
    const auto name = entry.substr(0, entry.find('='));
    // A node started by a handler must not pass on the facts of that call.
    if (std::find(variables.begin(), variables.end(), name) == variables.end()) result.emplace_back(entry);
  }
  return result;
}

std::vector<std::string> environment_of(const std::vector<std::string>& inherited, const batch& work,
                                        const run_context& ctx) {
  auto result = inherited;
  const auto set = [&](const char* name, std::string value) {
    // The kernel ends a variable at a NUL.
    value.resize(std::min(value.find('\0'), value.size()));
    result.push_back(std::string(name) + "=" + value);
  };
  const auto& items = *work.items;
  std::uint64_t attempt = 0;
  for (const auto& item : items) attempt = std::max<std::uint64_t>(attempt, std::uint64_t{item.attempts} + 1);
  set("CARAVAN_QUEUE", work.queue);
  set("CARAVAN_BATCH_SIZE", std::to_string(items.size()));
  set("CARAVAN_LEASE_TOKEN", std::to_string(work.token));
  set("CARAVAN_ATTEMPT", std::to_string(attempt));
  set("CARAVAN_NODE", ctx.node);
  if (items.size() == 1) set("CARAVAN_JOB_ID", to_string(job_id{work.queue, items.front().id}));
  if (auto deadline = handlers::deadline_text(ctx); !deadline.empty()) set("CARAVAN_DEADLINE", std::move(deadline));
  if (auto trace = handlers::trace_parent(work); !trace.empty()) set("TRACEPARENT", std::move(trace));
  for (const auto& [name, value] : ctx.facts) set(("CARAVAN_" + name).c_str(), value);
  return result;
}

/// Why a child is ended before its time.
enum class ending { none, deadline, stop };

/// One call, from the started child to its result.
class exec_call {
public:
  exec_call(const batch& work, const run_context& ctx, const exec_options& options, const std::string& name)
      : ctx_(ctx), options_(options), name_(name), input_(work), output_(work), errors_(options.stderr_tail) {}

  /// Runs the child to its end. False: it could not be killed and runs on.
  bool watch(process::child& process, const process::unique_fd& wake) {
    const handlers::sigpipe_guard no_sigpipe;
    if (input_.front().empty()) process.input.reset();
    bool has_ended = false;
    for (;;) {
      // Its children had the SIGTERM as well. Those that still hold a stream get the rest of the grace.
      const bool is_quiet = !process.output && !process.errors;
      if (has_ended && (stage_ != stage::terminating || is_quiet)) break;

      const auto now = clock::now();
      if (stage_ == stage::running && ctx_.stop.stop_requested()) {
        terminate(process, handlers::is_past_deadline(ctx_, now) ? ending::deadline : ending::stop, now);
      } else if (stage_ == stage::running && now >= ctx_.deadline) {
        terminate(process, ending::deadline, now);
      } else if (stage_ == stage::terminating && now >= next_step_) {
        kill(process, now);
        if (has_ended) break;
      } else if (stage_ == stage::killing && now >= next_step_) {
        return false;
      }

      std::array<pollfd, 5> fds = {{{process.input.get(), POLLOUT, 0},
                                    {process.output.get(), POLLIN, 0},
                                    {process.errors.get(), POLLIN, 0},
                                    {has_ended ? -1 : process.exit_fd(), POLLIN, 0},
                                    {stage_ == stage::running ? wake.get() : -1, POLLIN, 0}}};
      if (::poll(fds.data(), fds.size(), poll_timeout(now)) < 0) {
        if (errno == EINTR) continue;
        throw std::system_error(errno, std::generic_category(), "poll");
      }
      if (fds[0].revents != 0) write_input(process);
      if (fds[1].revents != 0) read_some(process.output, [this](std::string_view bytes) { output_.feed(bytes); });
      if (fds[2].revents != 0) read_some(process.errors, [this](std::string_view bytes) { errors_.feed(bytes); });
      if (fds[3].revents != 0) has_ended = true;
    }
    // Somebody may hold the streams for ever; only what was there at the exit counts.
    drain(process.output, [this](std::string_view bytes) { output_.feed(bytes); });
    drain(process.errors, [this](std::string_view bytes) { errors_.feed(bytes); });
    output_.finish();
    if (ending_ != ending::none) process.kill_group(SIGKILL);
    exit_ = process.reap();
    return true;
  }

  batch_result result(std::size_t size, bool was_killed) {
    using kind = item_outcome::kind;
    if (ending_ == ending::stop) return whole_batch(size, kind::unhandled, "");
    if (ending_ == ending::deadline) {
      const auto fate =
          was_killed ? " and was killed" : " and could not be killed: it may still run, perhaps as another user";
      return whole_batch(size, kind::failed, text("timed out after " + handlers::to_text(ran_for_) + fate));
    }
    if (exit_.what == process::exit_state::kind::unknown)
      return whole_batch(
          size, kind::failed,
          text("ended, but its exit status is lost: this process ignores SIGCHLD or waits for every child"));
    if (exit_.what == process::exit_state::kind::killed) {
      const char* abbreviation = ::sigabbrev_np(exit_.value);
      const auto signal = abbreviation ? std::string(" (SIG") + abbreviation + ")" : std::string();
      return whole_batch(size, kind::failed, text("killed by signal " + std::to_string(exit_.value) + signal));
    }
    if (exit_.value == exit_later) return whole_batch(size, kind::later, text("exited with 75: not now"));
    if (exit_.value != 0) return whole_batch(size, kind::failed, text("exited with " + std::to_string(exit_.value)));
    batch_result unhandled;
    for (std::uint32_t i = 0; i < size; ++i)
      if (output_.named()[i]) unhandled.push_back({i, kind::unhandled, "", {}});
    return unhandled;
  }

  [[nodiscard]] std::uint64_t ignored_lines() const { return output_.ignored(); }
  [[nodiscard]] bool was_ended() const { return ending_ != ending::none; }

private:
  enum class stage { running, terminating, killing };

  std::string text(const std::string& what) {
    auto result = name_ + " " + what;
    if (const auto said = errors_.text(); !said.empty()) result += "; stderr: " + said;
    return result;
  }

  void terminate(const process::child& process, ending why, clock::time_point now) {
    ending_ = why;
    ran_for_ = std::chrono::duration_cast<milliseconds>(now - started_);
    stage_ = stage::terminating;
    next_step_ = now + options_.grace;
    process.kill_group(SIGTERM);
  }

  void kill(const process::child& process, clock::time_point now) {
    stage_ = stage::killing;
    next_step_ = now + give_up_after;
    process.kill_group(SIGKILL);
  }

  [[nodiscard]] int poll_timeout(clock::time_point now) const {
    const auto until = stage_ == stage::running ? ctx_.deadline : next_step_;
    if (until <= now) return 0;
    // Also keeps time_point::max() within an int; waking once an hour for nothing is cheap.
    return static_cast<int>(std::min<clock::duration>(until - now, 1h) / 1ms) + 1;
  }

  void write_input(process::child& process) {
    const auto bytes = input_.front();
    const auto n = ::write(process.input.get(), bytes.data(), std::min(bytes.size(), chunk));
    if (n >= 0)
      input_.pop(static_cast<std::size_t>(n));
    else if (errno == EAGAIN || errno == EINTR)
      return;
    else
      process.input.reset();  // EPIPE: it wants no more, which is its right
    if (process.input && input_.front().empty()) process.input.reset();
  }

  /// Returns the bytes read; 0 if there are none now.
  template <class Take>
  std::size_t read_some(process::unique_fd& fd, Take take) {
    const auto n = ::read(fd.get(), buffer_.data(), buffer_.size());
    if (n > 0) {
      take(std::string_view(buffer_.data(), static_cast<std::size_t>(n)));
      return static_cast<std::size_t>(n);
    }
    if (n == 0 || (errno != EAGAIN && errno != EINTR)) fd.reset();
    return 0;
  }

  template <class Take>
  void drain(process::unique_fd& fd, Take take) {
    for (std::size_t total = 0; fd && total < pipe_capacity;) {
      const auto n = read_some(fd, take);
      if (n == 0) return;
      total += n;
    }
  }

  const run_context& ctx_;
  const exec_options& options_;
  const std::string& name_;
  input_lines input_;
  id_lines output_;
  tail errors_;
  std::vector<char> buffer_ = std::vector<char>(chunk);
  stage stage_ = stage::running;
  ending ending_ = ending::none;
  clock::time_point started_ = clock::now();
  clock::time_point next_step_{};
  milliseconds ran_for_{0};
  process::exit_state exit_;
};

class exec_runner final : public runner {
public:
  exec_runner(std::vector<std::string> argv, exec_options options)
      : argv_(std::move(argv)),
        options_(std::move(options)),
        name_("exec:" + handlers::readable(argv_.front())),
        environment_(inherited_environment()) {
    if (!options_.counters) options_.counters = std::make_shared<exec_counters>();
  }

  ~exec_runner() override { reap_abandoned(); }

  batch_result run(const batch& work, const run_context& ctx) override {
    using kind = item_outcome::kind;
    if (!work.items || work.items->empty()) return {};
    const auto size = work.items->size();
    if (ctx.stop.stop_requested() && !handlers::is_past_deadline(ctx, clock::now()))
      return whole_batch(size, kind::unhandled, "");
    if (clock::now() >= ctx.deadline)
      return whole_batch(size, kind::failed, name_ + " was not started: its time was over");
    reap_abandoned();

    const process::unique_fd wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!wake) return not_started(size, {errno, "eventfd"});
    exec_call call(work, ctx, options_, name_);
    process::spawn_failure failure;
    auto process = process::child::spawn(argv_, environment_of(environment_, work, ctx), failure);
    if (!process) return not_started(size, failure);
    options_.counters->started.fetch_add(1, std::memory_order_relaxed);
    const std::stop_callback on_stop(ctx.stop, [&wake] {
      const std::uint64_t one = 1;
      // Cannot fail: the counter goes from 0 to 1.
      [[maybe_unused]] const auto n = ::write(wake.get(), &one, sizeof one);
    });
    const bool has_ended = call.watch(process, wake);
    if (!has_ended) abandon(process.abandon());
    if (call.was_ended()) options_.counters->killed.fetch_add(1, std::memory_order_relaxed);
    options_.counters->ignored_lines.fetch_add(call.ignored_lines(), std::memory_order_relaxed);
    return call.result(size, has_ended);
  }

  // The arguments may hold secrets.
  [[nodiscard]] std::string describe() const override { return name_; }

private:
  batch_result not_started(std::size_t size, const process::spawn_failure& failure) const {
    using kind = item_outcome::kind;
    const auto program = "\"" + handlers::readable(argv_.front()) + "\"";
    if (failure.is_shortage())
      return whole_batch(size, kind::later,
                         "cannot start " + program + " now: " + failure.step + ": " + reason(failure.code));
    if (failure.code == ENOENT)
      return whole_batch(size, kind::failed,
                         "cannot start " + program +
                             ": there is no such program, or the interpreter in its first line is missing; install it "
                             "or correct HANDLER");
    return whole_batch(size, kind::failed,
                       "cannot start " + program + ": " + failure.step + ": " + reason(failure.code));
  }

  void abandon(process::unique_fd exit_fd) {
    const std::lock_guard lock(mutex_);
    abandoned_.push_back(std::move(exit_fd));
  }

  void reap_abandoned() {
    const std::lock_guard lock(mutex_);
    std::erase_if(abandoned_, [](const process::unique_fd& fd) { return process::reap_by_fd(fd); });
  }

  const std::vector<std::string> argv_;
  exec_options options_;
  const std::string name_;
  const std::vector<std::string> environment_;
  std::mutex mutex_;
  std::vector<process::unique_fd> abandoned_;
};

/// 0, or why the file is no program.
int executable_error(const std::string& path) {
  struct stat facts {};
  if (::stat(path.c_str(), &facts) != 0) return errno;
  if (!S_ISREG(facts.st_mode)) return EACCES;
  return ::access(path.c_str(), X_OK) == 0 ? 0 : errno;
}

}  // namespace

expected<std::unique_ptr<runner>> make_exec_runner(std::string_view command, exec_options options) {
  auto argv = process::split_command(command);
  if (!argv) return argv.failure();
  if (options.grace < 0ms) return error{errc::invalid_argument, "exec: the grace period is negative"};
  return std::unique_ptr<runner>(std::make_unique<exec_runner>(*std::move(argv), std::move(options)));
}

expected<void> check_exec_command(std::string_view command) {
  const auto argv = process::split_command(command);
  if (!argv) return argv.failure();
  const auto& program = argv->front();
  const auto refuse = [&](const std::string& why) {
    return error{errc::not_found, "exec: the program \"" + handlers::readable(program) + "\" " + why};
  };
  if (program.find('/') != std::string::npos) {
    const int code = executable_error(program);
    if (code == 0) return {};
    return refuse("cannot be run: " + reason(code));
  }
  const char* set = std::getenv("PATH");
  std::string_view path = set != nullptr ? set : "/bin:/usr/bin";  // what posix_spawnp takes without PATH
  int worst = ENOENT;
  for (;;) {
    const auto colon = path.find(':');
    auto folder = std::string(path.substr(0, colon));
    if (folder.empty()) folder = ".";
    const int code = executable_error(folder + "/" + program);
    if (code == 0) return {};
    if (code == EACCES) worst = code;
    if (colon == std::string_view::npos) break;
    path.remove_prefix(colon + 1);
  }
  if (worst == EACCES) return refuse("is in PATH but cannot be run: " + reason(worst));
  return refuse("is not in PATH; install it or correct HANDLER");
}

}  // namespace caravan
