#pragma once

/// Lets other nodes in, and gets into theirs. One thread of its own does all input and output.

#include "nodes/peer/greeting.hpp"

#include <caravan/error.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace caravan {

/// TLS between nodes: all three, or none. PEM files.
struct peer_tls {
  std::string certificate;
  std::string key;
  std::string ca;
  [[nodiscard]] bool on() const { return !certificate.empty(); }
};

class peer_door {
public:
  struct options {
    std::string host = "127.0.0.1";
    std::uint16_t port = 0;  ///< 0: any free one
    peer_greeting me;
    std::vector<std::string> nodes;  ///< who may join, by name; empty: any name
    peer_tls tls;
    std::chrono::milliseconds deadline{5000};  ///< for a stranger, from the accept to the end of the greeting
    std::size_t most_strangers = 256;          ///< at once; one more costs the oldest its place
    /// A node has passed. The descriptor is the callee's from now on: non-blocking, a stream, nothing read from it
    /// yet. On the door's thread; must not block.
    std::function<void(int fd, const peer_greeting& who)> passed;
    /// Somebody did not, and why. At most one call a second; the text counts those between. On the door's thread.
    std::function<void(const std::string& text)> turned_away;
  };

  /// Throws caravan::exception: the port is taken, a file cannot be read, or TLS is missing beyond loopback.
  explicit peer_door(options o);
  /// Ends what was passed with TLS: its bytes went through here.
  ~peer_door();
  peer_door(const peer_door&) = delete;
  peer_door& operator=(const peer_door&) = delete;

  /// Where it listens.
  [[nodiscard]] std::uint16_t port() const noexcept;

  struct passage {
    int fd = -1;  ///< the caller's
    peer_greeting who;
  };
  /// Connects and greets; blocks up to `timeout`. backend_failed: not reachable, or it hung up; forbidden: one of the
  /// two sides will not have the other; not_supported: another protocol. Thread safe.
  [[nodiscard]] expected<passage> dial(const std::string& host, std::uint16_t port, std::chrono::milliseconds timeout);

  /// For tests: connections that were accepted and have not passed yet.
  [[nodiscard]] std::size_t strangers() const;

private:
  class impl;
  std::unique_ptr<impl> impl_;
};

}  // namespace caravan
