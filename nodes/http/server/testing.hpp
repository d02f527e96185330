#pragma once

/// For the tests of the server: a client on a bare socket, which can misbehave as no HTTP library would.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "nodes/http/server/server.hpp"

namespace caravan::http::testing {

using namespace std::chrono_literals;

/// Long enough for a loaded machine under a sanitizer; nobody waits so long when all is well.
constexpr auto patience = 20s;

template <class Condition>
bool eventually(Condition met) {
  const auto end = std::chrono::steady_clock::now() + patience;
  while (!met()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(1ms);
  }
  return true;
}

struct answer {
  int status = 0;  ///< 0: the connection ended before a whole answer
  fields headers;
  std::string body;

  [[nodiscard]] std::string header(std::string_view name) const {
    return std::string{headers.find_any_case(name).value_or("")};
  }
};

class client {
public:
  explicit client(std::uint16_t port, int receive_buffer = 0) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    if (receive_buffer > 0) ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    const timeval limit{patience.count(), 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    ::setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(fd_, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0;
  }
  client(client&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)), connected_(other.connected_), buffer_(std::move(other.buffer_)) {}
  client(const client&) = delete;
  client& operator=(const client&) = delete;
  ~client() { close(); }

  [[nodiscard]] bool connected() const { return connected_; }
  [[nodiscard]] int fd() const { return fd_; }

  void close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }
  void half_close() { ::shutdown(fd_, SHUT_WR); }
  /// Ends with a reset instead of a goodbye.
  void abort() {
    const linger none{1, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &none, sizeof none);
    close();
  }

  bool send(std::string_view text) {
    while (!text.empty()) {
      const auto n = ::send(fd_, text.data(), text.size(), MSG_NOSIGNAL);
      if (n <= 0) return false;
      text.remove_prefix(static_cast<std::size_t>(n));
    }
    return true;
  }

  /// One answer; interim ones are skipped. `head`: it has no body whatever its length says.
  answer read(bool head = false) {
    answer a;
    do {
      a = {};
      const auto text = read_until("\r\n\r\n");
      if (text.empty()) return {};
      a.status = std::atoi(text.substr(9, 3).c_str());
      for (auto at = text.find("\r\n") + 2; at + 2 < text.size();) {
        const auto end = text.find("\r\n", at);
        const auto colon = text.find(": ", at);
        a.headers.add(text.substr(at, colon - at), text.substr(colon + 2, end - colon - 2));
        at = end + 2;
      }
    } while (a.status == 100);
    if (head || a.status == 204 || a.status == 304) return a;
    if (a.header("Transfer-Encoding") == "chunked") {
      for (;;) {
        const auto size = std::strtoul(read_until("\r\n").c_str(), nullptr, 16);
        const auto chunk = read_bytes(size + 2);
        if (chunk.size() != size + 2) return {};
        if (size == 0) return a;
        a.body.append(chunk, 0, size);
      }
    }
    const auto length = std::strtoul(a.header("Content-Length").c_str(), nullptr, 10);
    a.body = read_bytes(length);
    return a.body.size() == length ? a : answer{};
  }

  answer ask(std::string_view text, bool head = false) { return send(text) ? read(head) : answer{}; }

  /// Up to and with `mark`; empty when the connection ended before it.
  std::string read_until(std::string_view mark) {
    std::size_t at = 0;
    while ((at = buffer_.find(mark)) == std::string::npos)
      if (!fill()) return {};
    return take(at + mark.size());
  }
  std::string read_bytes(std::size_t count) {
    while (buffer_.size() < count && fill()) {
    }
    return take(std::min(count, buffer_.size()));
  }
  /// Everything until the server ends the connection.
  std::string read_to_end() {
    while (fill()) {
    }
    return take(buffer_.size());
  }
  /// Whether the server ended the connection, not our patience.
  [[nodiscard]] bool ended() const { return ended_; }

private:
  bool fill() {
    char part[16384];
    const auto n = ::recv(fd_, part, sizeof part, 0);
    if (n > 0) {
      buffer_.append(part, static_cast<std::size_t>(n));
      return true;
    }
    ended_ = n == 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
    return false;
  }
  std::string take(std::size_t count) {
    auto text = buffer_.substr(0, count);
    buffer_.erase(0, count);
    return text;
  }

  int fd_;
  bool connected_ = false;
  bool ended_ = false;
  std::string buffer_;
};

inline std::string get(std::string_view path, std::string_view more = {}) {
  return "GET " + std::string{path} + " HTTP/1.1\r\nHost: test\r\n" + std::string{more} + "\r\n";
}

inline std::string post(std::string_view path, std::string_view body, std::string_view more = {}) {
  return "POST " + std::string{path} + " HTTP/1.1\r\nHost: test\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\n" + std::string{more} + "\r\n" + std::string{body};
}

}  // namespace caravan::http::testing
