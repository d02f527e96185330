#pragma once

/// Private to the server. What stands behind a responder and an event_stream: they may be used on any thread, while the
/// session lives on its loop.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "nodes/http/server/door.hpp"
#include "nodes/http/server/io_loop.hpp"
#include "nodes/http/server/server.hpp"

namespace caravan::http {

/// The messages between a stream's producer and its session.
class stream_state {
public:
  stream_state(std::shared_ptr<io_loop> loop, std::weak_ptr<session> owner, std::size_t max_messages,
               std::size_t max_bytes)
      : loop_(std::move(loop)), owner_(std::move(owner)), max_messages_(max_messages), max_bytes_(max_bytes) {}

  // For producers, on any thread.
  bool send(std::string message);
  void end();
  [[nodiscard]] bool closed();
  [[nodiscard]] std::size_t waiting();
  void on_close(std::function<void()> callback);

  // For the session.
  struct batch {
    std::deque<std::string> messages;
    bool last = false;  ///< nothing will follow
  };
  /// An empty batch means: send() will call flush() again.
  batch take();
  /// The session is done with it. Calls on_close.
  void finish();

private:
  void wake();

  const std::shared_ptr<io_loop> loop_;
  const std::weak_ptr<session> owner_;
  const std::size_t max_messages_;
  const std::size_t max_bytes_;

  std::mutex mutex_;
  std::deque<std::string> waiting_;
  std::size_t bytes_ = 0;
  bool scheduled_ = true;  ///< the session will look by itself: at first, when it has written the head
  bool ending_ = false;    ///< no more may be sent
  bool finished_ = false;  ///< nothing more will be written
  std::function<void()> on_close_;
};

/// Ends the stream with the last event_stream.
class stream_handle {
public:
  explicit stream_handle(std::shared_ptr<stream_state> s) : state(std::move(s)) {}
  ~stream_handle() { state->end(); }
  stream_handle(const stream_handle&) = delete;
  stream_handle& operator=(const stream_handle&) = delete;

  const std::shared_ptr<stream_state> state;
};

/// One request's right to an answer.
class exchange {
public:
  exchange(std::shared_ptr<io_loop> loop, std::weak_ptr<session> owner, std::uint64_t id,
           std::shared_ptr<std::atomic<bool>> left, std::shared_ptr<door::place> place, std::size_t stream_messages, std::size_t stream_bytes)
      : loop_(std::move(loop)),
        owner_(std::move(owner)),
        id_(id),
        left_(std::move(left)),
        place_(std::move(place)),
        stream_messages_(stream_messages),
        stream_bytes_(stream_bytes) {}
  ~exchange();
  exchange(const exchange&) = delete;
  exchange& operator=(const exchange&) = delete;

  bool reply(response answer);
  std::shared_ptr<stream_state> stream(std::string content_type);
  void step_aside() {
    if (place_) place_->leave();
  }
  [[nodiscard]] bool client_left() const { return left_->load(std::memory_order_relaxed); }

private:
  const std::shared_ptr<io_loop> loop_;
  const std::weak_ptr<session> owner_;  // locked on the loop's thread only: a session must end there
  const std::uint64_t id_;
  const std::shared_ptr<std::atomic<bool>> left_;
  const std::shared_ptr<door::place> place_;  // null: it needs none
  const std::size_t stream_messages_;
  const std::size_t stream_bytes_;
  std::atomic<bool> answered_{false};
};

}  // namespace caravan::http
