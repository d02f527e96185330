#include "nodes/http/server/transport.hpp"

#include <openssl/ssl.h>

#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/ssl/stream.hpp>

namespace caravan::http {

namespace asio = boost::asio;
using tcp = asio::ip::tcp;

class tls_context {
public:
  asio::ssl::context context{asio::ssl::context::tls_server};
};

namespace {

class plain_transport final : public transport {
public:
  explicit plain_transport(tcp::socket socket) : socket_(std::move(socket)) {}

  void handshake(std::shared_ptr<transport_user> user) override {
    asio::post(socket_.get_executor(), [user = std::move(user)] { user->on_ready({}); });
  }
  void read(asio::mutable_buffer into, std::shared_ptr<transport_user> user) override {
    socket_.async_read_some(into, [user = std::move(user)](error_code ec, std::size_t n) { user->on_read(ec, n); });
  }
  void write(asio::const_buffer from, std::shared_ptr<transport_user> user) override {
    socket_.async_write_some(from, [user = std::move(user)](error_code ec, std::size_t n) { user->on_written(ec, n); });
  }
  void finish(std::shared_ptr<transport_user>) override {
    error_code ignored;
    socket_.shutdown(tcp::socket::shutdown_send, ignored);
  }
  void close() override {
    error_code ignored;
    socket_.close(ignored);
  }

private:
  tcp::socket socket_;
};

class tls_transport final : public transport {
public:
  tls_transport(tcp::socket socket, std::shared_ptr<tls_context> tls)
      : tls_(std::move(tls)), stream_(std::move(socket), tls_->context) {}

  void handshake(std::shared_ptr<transport_user> user) override {
    stream_.async_handshake(asio::ssl::stream_base::server,
                            [user = std::move(user)](error_code ec) { user->on_ready(ec); });
  }
  void read(asio::mutable_buffer into, std::shared_ptr<transport_user> user) override {
    stream_.async_read_some(into, [user = std::move(user)](error_code ec, std::size_t n) {
      // Many clients just hang up. HTTP knows by itself whether a message is whole.
      if (ec == asio::ssl::error::stream_truncated) ec = asio::error::eof;
      user->on_read(ec, n);
    });
  }
  void write(asio::const_buffer from, std::shared_ptr<transport_user> user) override {
    stream_.async_write_some(from, [user = std::move(user)](error_code ec, std::size_t n) { user->on_written(ec, n); });
  }
  void finish(std::shared_ptr<transport_user> user) override {
    // The user's own deadline ends this when the peer never says goodbye.
    stream_.async_shutdown([user = std::move(user)](error_code) {});
  }
  void close() override {
    error_code ignored;
    stream_.lowest_layer().close(ignored);
  }

private:
  std::shared_ptr<tls_context> tls_;
  asio::ssl::stream<tcp::socket> stream_;
};

}  // namespace

expected<std::shared_ptr<tls_context>> load_tls(const std::string& certificate, const std::string& key) {
  auto tls = std::make_shared<tls_context>();
  const auto refuse = [](const std::string& what, const std::string& file, const error_code& ec) {
    return error{errc::invalid_argument, "TLS " + what + " \"" + file + "\": " + ec.message() +
                                             "; it must be a readable PEM file, and key and certificate must match"};
  };
  error_code ec;
  tls->context.use_certificate_chain_file(certificate, ec);
  if (ec) return refuse("certificate", certificate, ec);
  tls->context.use_private_key_file(key, asio::ssl::context::pem, ec);
  if (ec) return refuse("key", key, ec);
  SSL_CTX_set_min_proto_version(tls->context.native_handle(), TLS1_2_VERSION);
  SSL_CTX_set_mode(tls->context.native_handle(), SSL_MODE_RELEASE_BUFFERS);  // idle connections are the normal case
  return tls;
}

std::unique_ptr<transport> make_transport(tcp::socket socket, const std::shared_ptr<tls_context>& tls) {
  if (tls) return std::make_unique<tls_transport>(std::move(socket), tls);
  return std::make_unique<plain_transport>(std::move(socket));
}

}  // namespace caravan::http
