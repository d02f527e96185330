#pragma once

/// One connection to the Redis that an address names, signed in and with its database chosen.

#include "integration/redis/redis_client.hpp"
#include "integration/redis/redis_transport.hpp"
#include "integration/redis/redis_value.hpp"

#include <caravan/error.hpp>

#include <memory>
#include <span>
#include <string>
#include <string_view>

struct redisReader;

namespace caravan {

/// Appends one command as it goes over the wire.
void encode_command(std::string& to, std::span<const std::string_view> words);
void encode_command(std::string& to, std::initializer_list<std::string_view> words);

/// After any failure it is broken: drop it. Not thread safe.
class redis_connection {
public:
  /// Asks the sentinels if the address says so; tries each host; refuses a replica. `refused`: set when another try
  /// cannot help, a wrong password for example.
  [[nodiscard]] static expected<std::unique_ptr<redis_connection>> open(const redis_options& options,
                                                                        bool* refused = nullptr);
  ~redis_connection();
  redis_connection(const redis_connection&) = delete;
  redis_connection& operator=(const redis_connection&) = delete;

  expected<void> send(std::string_view encoded, redis_deadline until);
  expected<redis_value> receive(redis_deadline until);
  /// One there and back.
  expected<redis_value> ask(std::initializer_list<std::string_view> words, redis_deadline until);

  /// receive() will not wait for the socket: a whole reply has arrived already.
  [[nodiscard]] bool holds_reply() const noexcept { return next_ != nullptr; }
  [[nodiscard]] int fd() const noexcept { return transport_->fd(); }
  [[nodiscard]] const std::string& peer() const noexcept { return peer_; }

  /// Its place among the connections of its pool; the pool's business.
  std::uint64_t generation = 0;
  bool used = false;

private:
  redis_connection(std::unique_ptr<redis_transport> transport, std::string peer);
  static expected<std::unique_ptr<redis_connection>> open_one(const redis_options& options, const redis_endpoint& to,
                                                              bool is_sentinel, bool* refused);
  expected<void> parse();

  struct reader_deleter {
    void operator()(redisReader* r) const noexcept;
  };
  std::unique_ptr<redis_transport> transport_;
  std::string peer_;
  std::unique_ptr<redisReader, reader_deleter> reader_;
  std::unique_ptr<redis_value> next_;
  std::unique_ptr<char[]> buffer_;
};

}  // namespace caravan
