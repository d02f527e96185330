#pragma once

/// Private to the server. One I/O thread's event loop and the sessions that live on it.

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <ctime>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

namespace caravan::http {

class session;

/// A connection never changes its loop, so sessions need no locks and no strands.
/// Shared with responders, which may outlive the server: post() then says no.
class io_loop {
public:
  boost::asio::io_context io{1};
  std::unordered_map<session*, std::shared_ptr<session>> sessions;  ///< touched on the loop's thread only

  [[nodiscard]] bool here() { return io.get_executor().running_in_this_thread(); }

  /// Thread safe. False when the loop has ended; `task` is then not kept.
  bool post(std::function<void()> task) {
    const std::lock_guard guard{mutex_};
    if (closed_) return false;
    boost::asio::post(io, std::move(task));
    return true;
  }

  /// Runs what came after the thread had ended, so that every stream learns its end. After the join.
  void close() {
    {
      const std::lock_guard guard{mutex_};
      closed_ = true;
    }
    io.restart();
    io.poll();
  }

  /// For the Date header; formatted once a second. On the loop's thread.
  const std::string& date() {
    const auto now = std::time(nullptr);
    if (now != date_of_) {
      date_of_ = now;
      std::tm parts{};
      gmtime_r(&now, &parts);
      char text[40];
      date_.assign(text, std::strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &parts));
    }
    return date_;
  }

private:
  std::mutex mutex_;
  bool closed_ = false;
  std::time_t date_of_ = 0;
  std::string date_;
};

}  // namespace caravan::http
