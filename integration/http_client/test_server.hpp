#pragma once

/// An HTTP server for tests: plain sockets on 127.0.0.1, one thread per connection, canned answers.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace caravan::test {

struct request {
  std::string head;  ///< request line and headers, each with its CR LF
  std::string body;

  /// A header's value; "(none)" if it is not there. `name` as sent.
  [[nodiscard]] std::string header(const std::string& name) const {
    const auto at = head.find("\r\n" + name + ": ");
    if (at == std::string::npos) return "(none)";
    const auto start = at + name.size() + 4;
    return head.substr(start, head.find("\r\n", start) - start);
  }
};

struct reply {
  enum class then { keep, close, hold };  ///< hold: keep the connection, say nothing more
  std::string bytes;
  then what = then::keep;
};

inline reply answer(const std::string& status, const std::string& body = {}, const std::string& headers = {}) {
  return {
      "HTTP/1.1 " + status + "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" + headers + "\r\n" + body,
      reply::then::keep};
}

/// The next answer, set by the test and read by the connections.
class canned {
public:
  void set(reply next) {
    const std::lock_guard lock(mutex_);
    next_ = std::move(next);
  }
  [[nodiscard]] reply get() const {
    const std::lock_guard lock(mutex_);
    return next_;
  }

private:
  mutable std::mutex mutex_;
  reply next_;
};

class test_server {
public:
  /// `respond` is called on the connections' threads; it must not outwait the server's destructor.
  explicit test_server(std::function<reply(const request&)> respond, bool reads_bodies = true)
      : respond_(std::move(respond)), reads_bodies_(reads_bodies) {
    ::setenv("no_proxy", "127.0.0.1", 1);
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    auto* plain = reinterpret_cast<sockaddr*>(&address);
    if (::bind(listener_, plain, length) != 0 || ::listen(listener_, 128) != 0 ||
        ::getsockname(listener_, plain, &length) != 0)
      throw std::runtime_error("no listening socket");
    port_ = ntohs(address.sin_port);
    acceptor_ = std::thread([this] { accept_all(); });
  }

  ~test_server() {
    ::shutdown(listener_, SHUT_RDWR);
    acceptor_.join();
    ::close(listener_);
    {
      const std::lock_guard lock(mutex_);
      for (const int fd : open_) ::shutdown(fd, SHUT_RDWR);
    }
    for (auto& thread : threads_) thread.join();
  }
  test_server(const test_server&) = delete;
  test_server& operator=(const test_server&) = delete;

  [[nodiscard]] std::uint16_t port() const { return port_; }
  [[nodiscard]] std::string url(const std::string& path = "/") const {
    return "http://127.0.0.1:" + std::to_string(port_) + path;
  }
  [[nodiscard]] std::size_t connections() const {
    const std::lock_guard lock(mutex_);
    return connections_;
  }
  [[nodiscard]] std::size_t open_connections() const {
    const std::lock_guard lock(mutex_);
    return open_.size();
  }
  [[nodiscard]] std::vector<request> requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }
  /// Until so many requests have arrived.
  void wait_for(std::size_t count) const {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return requests_.size() >= count; });
  }

private:
  void accept_all() {
    for (;;) {
      const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0) return;
      const std::lock_guard lock(mutex_);
      ++connections_;
      open_.push_back(fd);
      threads_.emplace_back([this, fd] {
        serve(fd);
        const std::lock_guard inner(mutex_);
        std::erase(open_, fd);
        ::close(fd);
      });
    }
  }

  static bool read_more(int fd, std::string& buffer) {
    char bytes[64 * 1024];
    const auto n = ::recv(fd, bytes, sizeof bytes, 0);
    if (n > 0) buffer.append(bytes, static_cast<std::size_t>(n));
    return n > 0;
  }

  void serve(int fd) {
    std::string buffer;
    for (;;) {
      request got;
      std::size_t end;
      while ((end = buffer.find("\r\n\r\n")) == std::string::npos)
        if (!read_more(fd, buffer)) return;
      got.head = buffer.substr(0, end + 2);
      buffer.erase(0, end + 4);
      const auto length = got.header("Content-Length");
      const auto size = length == "(none)" || !reads_bodies_ ? 0 : std::stoul(length);
      while (buffer.size() < size)
        if (!read_more(fd, buffer)) return;
      got.body = buffer.substr(0, size);
      buffer.erase(0, size);
      {
        const std::lock_guard lock(mutex_);
        requests_.push_back(got);
      }
      changed_.notify_all();
      const auto said = respond_(got);
      for (std::string_view rest = said.bytes; !rest.empty();) {
        const auto n = ::send(fd, rest.data(), rest.size(), MSG_NOSIGNAL);
        if (n <= 0) return;
        rest.remove_prefix(static_cast<std::size_t>(n));
      }
      if (said.what == reply::then::close) return;
      while (said.what == reply::then::hold)
        if (!read_more(fd, buffer)) return;
    }
  }

  std::function<reply(const request&)> respond_;
  bool reads_bodies_;
  int listener_ = -1;
  std::uint16_t port_ = 0;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::vector<request> requests_;
  std::vector<int> open_;
  std::size_t connections_ = 0;
  std::vector<std::thread> threads_;
  std::thread acceptor_;
};

}  // namespace caravan::test
