#pragma once

/// Private to the server. What a running server consists of.

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "nodes/http/server/blocking_pool.hpp"
#include "nodes/http/server/door.hpp"
#include "nodes/http/server/gate.hpp"
#include "nodes/http/server/io_loop.hpp"
#include "nodes/http/server/router.hpp"
#include "nodes/http/server/transport.hpp"

namespace caravan::http {

/// Outlives its sessions: stop() ends them all before it returns.
class engine {
public:
  explicit engine(options settings);

  expected<void> start();
  void stop(std::chrono::milliseconds grace);
  void post_blocking(responder answer, std::function<void(responder)> work);

  // For sessions.
  [[nodiscard]] bool stopping() const noexcept { return stopping_.load(std::memory_order_relaxed); }
  void log(const access_entry& line) const;
  void report(std::string_view text) const;
  /// On the session's loop.
  void gone(io_loop& loop, session& s);

  const options settings;
  const gate doors;
  /// The least time after which any deadline of a session can matter.
  const std::chrono::milliseconds shortest_deadline;
  std::shared_ptr<door> entrance;  ///< null: overload control is off. Set by start()
  router routes;  ///< fixed after start()
  std::atomic<std::uint16_t> port{0};
  std::atomic<std::size_t> connections{0};

private:
  using work_guard = boost::asio::executor_work_guard<boost::asio::io_context::executor_type>;

  expected<void> listen();
  void accept();
  void welcome(std::shared_ptr<io_loop> loop, boost::asio::ip::tcp::socket socket);
  void on_all_loops(const std::function<void(session&)>& what);

  std::shared_ptr<tls_context> tls_;
  std::vector<std::shared_ptr<io_loop>> loops_;
  std::vector<work_guard> guards_;
  std::vector<std::thread> threads_;
  std::size_t next_loop_ = 0;
  std::optional<boost::asio::ip::tcp::acceptor> acceptor_;
  std::optional<boost::asio::steady_timer> accept_again_;
  blocking_pool pool_;

  std::atomic<bool> stopping_{false};
  std::mutex mutex_;
  std::condition_variable emptied_;
  bool running_ = false;
};

}  // namespace caravan::http
