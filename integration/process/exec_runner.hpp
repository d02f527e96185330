#pragma once

/// HANDLER = exec:COMMAND. One process per batch; docs/handlers.md describes what it gets and what it may answer.

#include "integration/runner.hpp"

#include <caravan/error.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace caravan {

/// Filled by all calls of the runners that share it; read it from any thread.
struct exec_counters {
  std::atomic<std::uint64_t> started{0};        ///< processes
  std::atomic<std::uint64_t> killed{0};         ///< those that got SIGTERM at a deadline or a stop
  std::atomic<std::uint64_t> ignored_lines{0};  ///< of standard output: not the id of an item of the batch
};

struct exec_options {
  std::chrono::milliseconds grace{1000};    ///< between SIGTERM and SIGKILL
  std::size_t stderr_tail = 4096;           ///< bytes of standard error that go into the text of a failure
  std::shared_ptr<exec_counters> counters;  ///< may be null
};

/// `command` is what stands behind "exec:". It is split into words like a shell would (process/command_line.hpp) but no
/// shell runs: for one write exec:sh -c '...'. The program is looked up in PATH at every call.
/// The environment of this process is copied here, once: changes made later do not reach handlers.
/// errc::invalid_argument: the command is empty or cannot be split. A program that is not there is no error here (it
/// may be installed later): ask check_exec_command, or see every attempt fail with a text that names it.
///
/// run() of the result: any number of threads at once; each call holds a process, 4 pipe and pid descriptors and one
/// more, about 200 KiB plus the largest item, and spends its time in poll(). No signal handler is installed, SIGCHLD is
/// not used, SIGPIPE is blocked for the calling thread while it runs. If the application ignores SIGCHLD or waits for
/// children it does not know, exit states are lost and every attempt fails with a text that says so.
///   exit 0   items named on standard output: unhandled; all others: handled
///   exit 75  all: later, no delay given
///   another exit, death by a signal, a program that does not start: all: failed. What was printed does not count
///   the machine is out of memory, processes or descriptors: all: later
///   ctx.deadline: SIGTERM to the process group, SIGKILL after the grace; all: failed
///   ctx.stop before the deadline: killed likewise; all: unhandled
/// A handler that exits by 0 after it got SIGTERM has not handled anything: many programs end so when asked to.
expected<std::unique_ptr<runner>> make_exec_runner(std::string_view command, exec_options options = {});

/// Is the command well formed and its program there and executable for this user? errc::invalid_argument or
/// errc::not_found, with a text for people. The answer is a hint: it may change until the program is run.
expected<void> check_exec_command(std::string_view command);

}  // namespace caravan
