#pragma once

/// For the tests of applications: a node in memory on a clock that the test moves. Links caravan::testing.
///
///   caravan::testing::node node;
///   auto mails = node.create_unique_queue<mail>("mail", send);
///   mails.push(m, {.delay = 1h});
///   node.advance(1h);               // `send` was called, on this thread
///
/// Nothing happens by itself: handlers are called within run(), advance() and flush(), one after another, in an order
/// that a seed fixes. Order, batches, retries, backoff, unique keys and leases are decided by the same code as in a
/// real node; only the storage is memory (which survives crash()) and there are no actors, no threads and no waiting.

#include <caravan/error.hpp>
#include <caravan/queue.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace caravan::testing {

struct node_options {
  /// INI, as for a real node: [queue] and [queue.NAME]. TYPE, DATADIR, CONN_STR and HANDLER have no effect here.
  std::string config_text{};
  std::chrono::system_clock::time_point start{std::chrono::sys_days{std::chrono::year{2026} / 1 / 1}};
  std::uint64_t seed = 1;  ///< of the jitter in backoffs
};

/// Used by one thread, that of the test. Handlers may push, and ask about jobs; what they push waits until they return.
class node {
public:
  /// Throws caravan::exception (invalid_argument) for settings that a real node would refuse.
  explicit node(node_options options = {});
  ~node();
  node(const node&) = delete;
  node& operator=(const node&) = delete;

  /// As those of caravan::node.
  template <class T, class Handler>
  queue<T> create_simple_queue(const std::string& name, Handler handler) {
    return queue<T>(create(name, uniqueness::simple, detail::wrap_handler<T>(std::move(handler))));
  }
  template <class T, class Handler>
  queue<T> create_unique_queue(const std::string& name, Handler handler) {
    return queue<T>(create(name, uniqueness::unique, detail::wrap_handler<T>(std::move(handler))));
  }
  template <class T, class Handler>
  queue<T> create_queue(const std::string& name, Handler handler) {
    return queue<T>(create(name, uniqueness::as_configured, detail::wrap_handler<T>(std::move(handler))));
  }
  /// For pushing only: its items stay where they are.
  template <class T>
  queue<T> open_queue(const std::string& name) {
    return queue<T>(create(name, uniqueness::as_configured, {}));
  }
  [[nodiscard]] std::shared_ptr<queue_port> find_queue(std::string_view name) const;

  // ---- time ----

  [[nodiscard]] std::chrono::system_clock::time_point now() const;
  /// Calls handlers until there is nothing to do at this instant. Returns the number of calls. An item that a handler
  /// hands back at once for ever would keep it here: after 100,000 calls it throws caravan::exception (conflict).
  std::size_t run();
  /// One call of a handler of this queue, if there is something to do at this instant.
  bool run_one(std::string_view queue);
  /// run(), and then the clock goes on to the next instant when something is due, until `by` has passed. Returns the
  /// number of calls. Within a handler it only moves the clock: the call has lasted that long, and its TIMEOUT counts.
  std::size_t advance(std::chrono::milliseconds by);

  // ---- faults; all throw caravan::exception (not_found) for a queue that is not open ----

  /// The next `n` pushes answer backend_failed, and nothing is stored.
  void fail_pushes(std::string_view queue, std::size_t n);
  /// The next `n` pushes are stored and answer timed_out all the same: the case that idempotency keys are for.
  void lose_push_answers(std::string_view queue, std::size_t n);
  /// The next `n` handler calls run, and their answer is lost as with a worker that is cut off: when its LEASE is over
  /// the items come again.
  void lose_handler_answers(std::string_view queue, std::size_t n);
  /// After the next `n` handler calls of this queue (each) the process dies before they are acknowledged, as by
  /// crash().
  void crash_after_handlers(std::string_view queue, std::size_t n);
  /// The storage cannot be reached: pushes and questions answer backend_failed, and nothing is handed out.
  void cut_off(std::string_view queue, bool away);
  /// kill -9 and a new start, of all queues: what was in memory only is gone (who ended lately, pauses, totals, faults
  /// that were asked for), what was stored is there. Handles stay valid. Not within a handler.
  void crash();

private:
  enum class uniqueness : std::uint8_t { simple, unique, as_configured };
  std::shared_ptr<queue_port> create(const std::string& name, uniqueness unique, raw_handler handler);

  struct impl;
  std::unique_ptr<impl> impl_;
};

}  // namespace caravan::testing
