#pragma once

/// Redis as the other files of this folder and nobody else use it.

#include "config/redis_address.hpp"
#include "integration/redis/redis_value.hpp"

#include <caravan/error.hpp>

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace caravan {

struct redis_options {
  config::redis_address address;
  std::string client_name = "caravan";                          ///< CLIENT SETNAME; seen in CLIENT LIST
  std::chrono::milliseconds connect_timeout{1000};              ///< of one attempt at one host
  std::chrono::milliseconds command_timeout{2000};              ///< from sending a command to its whole reply
  std::chrono::milliseconds give_up_after{3000};                ///< a call is repeated over new connections until then
  std::size_t max_connections = 8;                              ///< at once; a call beyond waits for one
  std::chrono::milliseconds max_age{std::chrono::minutes{30}};  ///< of a connection in the pool
};

/// For callers who would rather do without than wait: half a second for everything.
[[nodiscard]] redis_options impatient_redis_options(config::redis_address address, std::string client_name);

/// A pool of connections to one Redis. Thread safe; every call blocks, at most about `give_up_after`.
///
/// Lost connections, a failover (READONLY, Sentinel), LOADING after a restart and forgotten scripts are dealt with by
/// repeating the call over a new connection until `give_up_after`. So a call may run twice: everything sent through
/// here must bear that. Failures: backend_failed (with the address, never with a password), queue_closed after close().
class redis_client {
public:
  explicit redis_client(redis_options options);
  ~redis_client();
  redis_client(const redis_client&) = delete;
  redis_client& operator=(const redis_client&) = delete;

  /// Connects once and looks at the server: version at least 6, not a cluster. Tried `attempts` times, a second apart.
  /// Returns warnings for the log, e.g. a maxmemory-policy that evicts what was acknowledged.
  /// `on_wait`: called with the reason before each pause. May be empty.
  [[nodiscard]] expected<std::vector<std::string>> check(int attempts = 10, const std::function<void(const error&)>& on_wait = {});

  /// An error reply is backend_failed.
  [[nodiscard]] expected<redis_value> command(std::span<const std::string_view> words);
  [[nodiscard]] expected<redis_value> command(std::initializer_list<std::string_view> words);

  /// EVALSHA, and EVAL when the server does not know the script. An error reply is backend_failed.
  [[nodiscard]] expected<redis_value> eval(const redis_script& script, std::span<const std::string> keys,
                                           std::span<const std::string_view> args);

  /// Fails at once from now on. Calls that are waiting end. Idempotent.
  void close();

  /// Host and port or socket, and database; for texts.
  [[nodiscard]] std::string where() const;
  [[nodiscard]] const redis_options& options() const noexcept;

private:
  class impl;
  std::unique_ptr<impl> impl_;
};

/// Listens on channels with a connection and a thread of its own; reconnects for ever, a pause of at most a second
/// between tries. The functions are called on that thread, one at a time, must not block for long and must not throw.
class redis_subscriber {
public:
  struct events {
    std::function<void(const std::string& channel, std::string&& message)> message;
    /// It listens (again): what was published before may have been missed.
    std::function<void()> listening;
    /// The connection is lost; why. Called once for each loss.
    std::function<void(const error& why)> lost;
  };
  redis_subscriber(redis_options options, std::vector<std::string> channels, events on);
  /// Returns when no function is running any more.
  ~redis_subscriber();
  redis_subscriber(const redis_subscriber&) = delete;
  redis_subscriber& operator=(const redis_subscriber&) = delete;

  /// More channels, at any time.
  void add(const std::string& channel);
  void remove(const std::string& channel);

private:
  class impl;
  std::unique_ptr<impl> impl_;
};

}  // namespace caravan
