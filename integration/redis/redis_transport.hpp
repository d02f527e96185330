#pragma once

/// One byte stream to a server: TCP or a unix socket, with or without TLS. Everything that waits takes a deadline.

#include <caravan/error.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace caravan {

using redis_deadline = std::chrono::steady_clock::time_point;

struct redis_endpoint {
  std::string socket_path;  ///< not empty: a unix socket, and nothing else counts
  std::string host;
  std::uint16_t port = 0;
  bool tls = false;
  bool verify = true;   ///< TLS: the server's certificate must be good for `host`
  std::string ca_file;  ///< TLS: who may sign it; empty: the system's list

  [[nodiscard]] std::string text() const;
};

/// After a failure it is good for nothing but destruction. Not thread safe, but for wake_fd-style polling on fd().
class redis_transport {
public:
  virtual ~redis_transport() = default;
  /// All of it.
  virtual expected<void> send(std::string_view bytes, redis_deadline until) = 0;
  /// At least one byte. timed_out, or backend_failed when the other side closed.
  virtual expected<std::size_t> receive(char* to, std::size_t room, redis_deadline until) = 0;
  /// For poll(): readable when receive() may have something.
  [[nodiscard]] virtual int fd() const noexcept = 0;
};

/// Looks the host up (which may take as long as the resolver likes), tries each address, and shakes hands.
[[nodiscard]] expected<std::unique_ptr<redis_transport>> connect_redis(const redis_endpoint& to, redis_deadline until);

}  // namespace caravan
