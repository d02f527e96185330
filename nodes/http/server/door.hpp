#pragma once

/// Private to the server. Who may be worked on, who waits and who is turned away while more comes in than can be done
/// (toolbox/codel.hpp decides).

#include "nodes/http/server/io_loop.hpp"
#include "nodes/http/server/server.hpp"
#include "toolbox/codel.hpp"

#include <boost/asio/steady_timer.hpp>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

namespace caravan::http {

/// Thread safe: requests arrive on their loops, and places are given back by whoever answers. No thread of its own; one
/// timer on the loop that it was made with, which runs only while somebody waits.
class door : public std::enable_shared_from_this<door> {
public:
  using ticket = toolbox::codel_core::ticket;

  /// One request that was let in. The place is free again when this is gone; or sooner, by leave().
  class place {
  public:
    explicit place(std::shared_ptr<door> from) : from_(std::move(from)) {}
    place(place&&) = delete;
    ~place() { leave(); }
    /// From any thread; once, further calls do nothing.
    void leave() {
      if (!left_.exchange(true)) from_->leave();
    }

  private:
    const std::shared_ptr<door> from_;
    std::atomic<bool> left_{false};
  };
  /// Whom to tell when it is decided: session::admitted or session::turned_away, on its loop.
  struct waiter {
    std::shared_ptr<io_loop> loop;
    std::weak_ptr<session> who;
    std::uint64_t request = 0;
  };
  struct decision {
    toolbox::admission what;
    ticket number;  ///< for give_up, of one that waits
  };

  door(std::shared_ptr<io_loop> loop, const overload_options& o);

  /// The waiter hears of the end of its wait; of `go` and `refused` the caller learns at once. Who is let in, now or
  /// later, makes a place.
  decision arrive(toolbox::priority level, waiter w);
  /// A waiting one goes away. Does nothing when it waits no more.
  void give_up(ticket number);
  /// The server stops: who waits is turned away, and nobody waits from now on.
  void close();

  [[nodiscard]] overload_statistics statistics() const;

private:
  void leave();
  void tell(const std::vector<toolbox::codel_core::verdict>& all);  // under mutex_, like all below
  void set_timer();
  void on_timer();

  mutable std::mutex mutex_;
  toolbox::codel_core core_;
  std::unordered_map<ticket, waiter> waiting_;
  bool closed_ = false;
  std::optional<toolbox::steady_time> alarm_;  // when the timer goes off

  const std::shared_ptr<io_loop> loop_;
  boost::asio::steady_timer timer_;  // touched on loop_ only
};

}  // namespace caravan::http
