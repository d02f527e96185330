#pragma once

/// A program that handles the jobs of queues on nodes elsewhere, on as many machines as there are.
///
///   caravan::worker w({.addresses = "mars:7171,venus:7171", .queue = "mail", .concurrency = 8},
///                     [](std::vector<mail>& batch) { for (auto& m : batch) send(m); });
///   w.wait();

#include <caravan/context.hpp>
#include <caravan/error.hpp>
#include <caravan/queue.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace caravan {

struct worker_options {
  std::string addresses;                    ///< of nodes: "HOST:PORT", "https://HOST:PORT"; several with commas between
  std::string queue;                        ///< several with commas between: one handler for all of them
  unsigned concurrency = 1;                 ///< handler calls at once
  std::size_t batch = 1;                    ///< most jobs of one handler call
  std::string name{};                       ///< how operators see it; empty: host, process id and a number
  std::string token{};                      ///< bearer token with the role work; empty: none
  std::string tls_ca{};                     ///< PEM file of those who sign the nodes' certificates; empty: the system's
  std::chrono::milliseconds lease{30'000};  ///< 1 s to 24 h: others get the jobs when nothing is heard for so long
  std::chrono::milliseconds shutdown_timeout{2'000};  ///< how long stop() waits for handlers
  /// "info", "warn" or "error" and a sentence; from any thread, and must not call the worker. Empty: nothing is told.
  std::function<void(std::string_view level, const std::string& text)> log{};
};

/// Since its start, in jobs.
struct worker_figures {
  std::uint64_t claimed = 0;
  std::uint64_t handled = 0;      ///< and the queue has counted it
  std::uint64_t not_handled = 0;  ///< failed, rejected, later, unhandled
  std::uint64_t handed_back = 0;  ///< untried, at the end
  std::uint64_t lost = 0;         ///< under a lease that was lost: they come again
};

namespace detail {
template <class F>
struct handler_item;
template <class C, class R, class T, class... Rest>
struct handler_item<R (C::*)(std::vector<T>&, Rest...)> {
  using type = T;
};
template <class C, class R, class T, class... Rest>
struct handler_item<R (C::*)(std::vector<T>&, Rest...) const> {
  using type = T;
};
}  // namespace detail

/// Begins when it is made and stops when it is destroyed. Thread safe.
///
/// Handlers are those of queues (node.hpp): `handler(items)` or `handler(items, context)` with `std::vector<T>& items`;
/// what they return or throw counts as there. context.stop() is tripped when a lease is lost, at the job's TIMEOUT, and
/// when the worker stops and SHUTDOWN_TIMEOUT is over.
class worker {
public:
  /// Throws caravan::exception (invalid_argument). Nodes that do not answer are no error: it tries again.
  template <class Handler>
  requires(!std::is_same_v<Handler, raw_handler> &&
           requires { typename detail::handler_item<decltype(&Handler::operator())>::type; })
      worker(worker_options options, Handler handler)
      : worker(std::move(options),
               raw_handler(detail::wrap_handler<typename detail::handler_item<decltype(&Handler::operator())>::type>(
                   std::move(handler)))) {}
  worker(worker_options options, raw_handler handler);
  ~worker();
  worker(const worker&) = delete;
  worker& operator=(const worker&) = delete;

  /// Claims nothing more, waits for handlers, hands back what was not handled. Returns how many handlers still run;
  /// their jobs come again.
  std::size_t stop();
  /// Until an operator orders it to stop, or somebody else calls stop().
  void wait();
  [[nodiscard]] worker_figures figures() const;
  [[nodiscard]] const std::string& name() const;

private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

}  // namespace caravan
