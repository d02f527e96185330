#pragma once

/// Private to the server. A connection's bytes, plain or over TLS. Virtual, so that the session is compiled once and
/// Asio's templates stay in one file.

#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/system/error_code.hpp>
#include <caravan/error.hpp>
#include <cstddef>
#include <memory>
#include <string>

namespace caravan::http {

using error_code = boost::system::error_code;

/// Kept alive by each operation until its call.
class transport_user {
public:
  virtual ~transport_user() = default;
  virtual void on_ready(error_code ec) = 0;
  virtual void on_read(error_code ec, std::size_t bytes) = 0;
  virtual void on_written(error_code ec, std::size_t bytes) = 0;
};

/// At most one read and one write at a time; all calls come from the connection's I/O thread, never from within a call.
class transport {
public:
  virtual ~transport() = default;
  virtual void handshake(std::shared_ptr<transport_user> user) = 0;
  virtual void read(boost::asio::mutable_buffer into, std::shared_ptr<transport_user> user) = 0;
  virtual void write(boost::asio::const_buffer from, std::shared_ptr<transport_user> user) = 0;
  /// Ends our direction; the peer may still send, and a read may be pending.
  virtual void finish(std::shared_ptr<transport_user> user) = 0;
  virtual void close() = 0;
};

class tls_context;

[[nodiscard]] expected<std::shared_ptr<tls_context>> load_tls(const std::string& certificate, const std::string& key);

/// Without a context: plain.
[[nodiscard]] std::unique_ptr<transport> make_transport(boost::asio::ip::tcp::socket socket,
                                                        const std::shared_ptr<tls_context>& tls);

}  // namespace caravan::http
