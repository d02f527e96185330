#include "integration/redis/redis_transport.hpp"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

namespace caravan {

namespace {

using std::chrono::milliseconds;

error broken(std::string text) { return {errc::backend_failed, std::move(text)}; }
error late(std::string text) { return {errc::timed_out, std::move(text)}; }

class descriptor {
public:
  explicit descriptor(int fd) : fd_(fd) {}
  descriptor(descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  descriptor& operator=(descriptor&&) = delete;
  ~descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  [[nodiscard]] int get() const noexcept { return fd_; }

private:
  int fd_;
};

// 0: the deadline passed.
int wait_for(int fd, short events, redis_deadline until) {
  for (;;) {
    const auto left = std::chrono::ceil<milliseconds>(until - std::chrono::steady_clock::now()).count();
    pollfd p{fd, events, 0};
    const int n = ::poll(&p, 1, static_cast<int>(std::clamp<std::int64_t>(left, 0, 3'600'000)));
    if (n >= 0 || errno != EINTR) return n;
  }
}

class plain_transport final : public redis_transport {
public:
  explicit plain_transport(descriptor fd) : fd_(std::move(fd)) {}

  expected<void> send(std::string_view bytes, redis_deadline until) override {
    while (!bytes.empty()) {
      const auto n = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n > 0) {
        bytes.remove_prefix(static_cast<std::size_t>(n));
      } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
        if (wait_for(fd_.get(), POLLOUT, until) == 0) return late("it takes nothing any more");
      } else if (errno != EINTR) {
        return broken(std::string("the connection is lost: ") + std::strerror(errno));
      }
    }
    return {};
  }

  expected<std::size_t> receive(char* to, std::size_t room, redis_deadline until) override {
    for (;;) {
      // The answer is seldom there already, so wait first: one call less.
      if (wait_for(fd_.get(), POLLIN, until) == 0) return late("no answer in time");
      const auto n = ::recv(fd_.get(), to, room, 0);
      if (n > 0) return static_cast<std::size_t>(n);
      if (n == 0) return broken("the server closed the connection");
      if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
        return broken(std::string("the connection is lost: ") + std::strerror(errno));
    }
  }

  [[nodiscard]] int fd() const noexcept override { return fd_.get(); }

private:
  descriptor fd_;
};

struct ssl_deleter {
  void operator()(SSL* s) const noexcept { SSL_free(s); }
  void operator()(SSL_CTX* c) const noexcept { SSL_CTX_free(c); }
};

std::string tls_errors(const SSL* ssl) {
  const auto verdict = ssl ? SSL_get_verify_result(ssl) : X509_V_OK;
  if (verdict != X509_V_OK) return X509_verify_cert_error_string(verdict);
  const auto code = ERR_get_error();
  ERR_clear_error();
  if (code == 0) return "the handshake failed";
  char text[160];
  ERR_error_string_n(code, text, sizeof text);
  return text;
}

// TLS over memory buffers: OpenSSL never touches the socket, so that a deadline and a closed peer (no SIGPIPE) are
// dealt with in one place, plain_transport.
class tls_transport final : public redis_transport {
public:
  static expected<std::unique_ptr<redis_transport>> open(descriptor fd, const redis_endpoint& to,
                                                         redis_deadline until) {
    std::unique_ptr<SSL_CTX, ssl_deleter> context(SSL_CTX_new(TLS_client_method()));
    if (!context) return broken("TLS cannot be set up: " + tls_errors(nullptr));
    SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
    if (to.ca_file.empty()) {
      SSL_CTX_set_default_verify_paths(context.get());
    } else if (SSL_CTX_load_verify_locations(context.get(), to.ca_file.c_str(), nullptr) != 1) {
      return broken("the CA file " + to.ca_file + " cannot be used: " + tls_errors(nullptr));
    }
    SSL_CTX_set_verify(context.get(), to.verify ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, nullptr);
    std::unique_ptr<SSL, ssl_deleter> ssl(SSL_new(context.get()));
    if (!ssl) return broken("TLS cannot be set up: " + tls_errors(nullptr));
    in_addr v4{};
    in6_addr v6{};
    const bool is_ip = inet_pton(AF_INET, to.host.c_str(), &v4) == 1 || inet_pton(AF_INET6, to.host.c_str(), &v6) == 1;
    if (is_ip) {
      X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl.get()), to.host.c_str());
    } else {
      SSL_set_tlsext_host_name(ssl.get(), to.host.c_str());
      SSL_set1_host(ssl.get(), to.host.c_str());
    }
    SSL_set_connect_state(ssl.get());
    SSL_set_bio(ssl.get(), BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    std::unique_ptr<tls_transport> made(new tls_transport(std::move(fd), std::move(ssl)));
    for (;;) {
      const int rc = SSL_do_handshake(made->ssl_.get());
      if (auto ok = made->flush(until); !ok) return ok.failure();
      if (rc == 1) return std::unique_ptr<redis_transport>(std::move(made));
      if (SSL_get_error(made->ssl_.get(), rc) != SSL_ERROR_WANT_READ)
        return broken("TLS: " + tls_errors(made->ssl_.get()));
      if (auto ok = made->fill(until); !ok) return error{ok.failure().code, "TLS handshake: " + ok.failure().text};
    }
  }

  expected<void> send(std::string_view bytes, redis_deadline until) override {
    while (!bytes.empty()) {
      const int n = SSL_write(ssl_.get(), bytes.data(), static_cast<int>(std::min<std::size_t>(bytes.size(), 1 << 20)));
      if (n <= 0) return broken("TLS: " + tls_errors(ssl_.get()));
      bytes.remove_prefix(static_cast<std::size_t>(n));
      if (auto ok = flush(until); !ok) return ok;
    }
    return {};
  }

  expected<std::size_t> receive(char* to, std::size_t room, redis_deadline until) override {
    for (;;) {
      const int n = SSL_read(ssl_.get(), to, static_cast<int>(std::min<std::size_t>(room, 1 << 20)));
      if (n > 0) return static_cast<std::size_t>(n);
      const int why = SSL_get_error(ssl_.get(), n);
      if (why == SSL_ERROR_ZERO_RETURN) return broken("the server closed the connection");
      if (why != SSL_ERROR_WANT_READ) return broken("TLS: " + tls_errors(ssl_.get()));
      if (auto ok = flush(until); !ok) return ok.failure();  // a key update wants an answer
      if (auto ok = fill(until); !ok) return ok.failure();
    }
  }

  [[nodiscard]] int fd() const noexcept override { return plain_.fd(); }

private:
  tls_transport(descriptor fd, std::unique_ptr<SSL, ssl_deleter> ssl) : plain_(std::move(fd)), ssl_(std::move(ssl)) {}

  expected<void> flush(redis_deadline until) {
    char* bytes = nullptr;
    auto* out = SSL_get_wbio(ssl_.get());
    const auto n = BIO_get_mem_data(out, &bytes);
    if (n <= 0) return {};
    auto ok = plain_.send({bytes, static_cast<std::size_t>(n)}, until);
    BIO_reset(out);
    return ok;
  }
  expected<void> fill(redis_deadline until) {
    char buffer[16'384];
    const auto n = plain_.receive(buffer, sizeof buffer, until);
    if (!n) return n.failure();
    BIO_write(SSL_get_rbio(ssl_.get()), buffer, static_cast<int>(*n));
    return {};
  }

  plain_transport plain_;
  std::unique_ptr<SSL, ssl_deleter> ssl_;
};

expected<descriptor> connect_to(const sockaddr* address, socklen_t size, int family, redis_deadline until) {
  descriptor fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (fd.get() < 0) return broken(std::string("no socket: ") + std::strerror(errno));
  if (family != AF_UNIX) {
    // A peer that vanished is found within half a minute also by one that only listens.
    const auto set = [&](int level, int name, int value) { ::setsockopt(fd.get(), level, name, &value, sizeof value); };
    set(IPPROTO_TCP, TCP_NODELAY, 1);
    set(SOL_SOCKET, SO_KEEPALIVE, 1);
    set(IPPROTO_TCP, TCP_KEEPIDLE, 10);
    set(IPPROTO_TCP, TCP_KEEPINTVL, 3);
    set(IPPROTO_TCP, TCP_KEEPCNT, 3);
  }
  // What was not sent when a connection is given up must not arrive later, when its caller has long been told of a
  // failure.
  const linger drop{1, 0};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &drop, sizeof drop);
  if (::connect(fd.get(), address, size) != 0) {
    if (errno != EINPROGRESS && errno != EINTR) return broken(std::strerror(errno));
    if (wait_for(fd.get(), POLLOUT, until) == 0) return late("no answer in time");
    int why = 0;
    socklen_t length = sizeof why;
    ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &why, &length);
    if (why != 0) return broken(std::strerror(why));
  }
  return fd;
}

struct address_list_deleter {
  void operator()(addrinfo* a) const noexcept { ::freeaddrinfo(a); }
};

expected<descriptor> connect_tcp(const redis_endpoint& to, redis_deadline until) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int rc = ::getaddrinfo(to.host.c_str(), std::to_string(to.port).c_str(), &hints, &found); rc != 0)
    return broken(std::string("the host is not known: ") + ::gai_strerror(rc));
  const std::unique_ptr<addrinfo, address_list_deleter> all(found);
  error why = broken("the host has no address");
  for (const auto* a = found; a; a = a->ai_next) {
    auto fd = connect_to(a->ai_addr, a->ai_addrlen, a->ai_family, until);
    if (fd) return fd;
    why = fd.failure();
  }
  return why;
}

expected<descriptor> connect_unix(const std::string& path, redis_deadline until) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path)
    return broken("the socket's path has more than " + std::to_string(sizeof address.sun_path - 1) + " bytes");
  path.copy(address.sun_path, path.size());
  return connect_to(reinterpret_cast<const sockaddr*>(&address), sizeof address, AF_UNIX, until);
}

}  // namespace

std::string redis_endpoint::text() const {
  if (!socket_path.empty()) return "unix:" + socket_path;
  const bool v6 = host.find(':') != std::string::npos;
  return (v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

expected<std::unique_ptr<redis_transport>> connect_redis(const redis_endpoint& to, redis_deadline until) {
  auto fd = to.socket_path.empty() ? connect_tcp(to, until) : connect_unix(to.socket_path, until);
  if (!fd) return fd.failure();
  if (to.tls && to.socket_path.empty()) return tls_transport::open(std::move(*fd), to, until);
  return std::unique_ptr<redis_transport>(std::make_unique<plain_transport>(std::move(*fd)));
}

}  // namespace caravan
