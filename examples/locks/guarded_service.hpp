#pragma once

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>

/// An HTTP service that looks at the header Fencing-Token of each PUT: 204, or 412 for an outdated one. As small as it
/// can be: one connection at a time, a request that fits into one read.
class guarded_service {
public:
  guarded_service() {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in a{};
    a.sin_family = AF_INET;
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof a;
    if (::bind(listener_, reinterpret_cast<sockaddr*>(&a), size) != 0 || ::listen(listener_, 8) != 0 ||
        ::getsockname(listener_, reinterpret_cast<sockaddr*>(&a), &size) != 0)
      throw std::runtime_error("the service cannot listen");
    port_ = ntohs(a.sin_port);
    thread_ = std::jthread([this] { serve(); });
  }
  ~guarded_service() {
    ::shutdown(listener_, SHUT_RDWR);
    thread_.join();
    ::close(listener_);
  }
  [[nodiscard]] std::uint16_t port() const { return port_; }

private:
  void serve() {
    for (int fd = 0; (fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC)) >= 0; ::close(fd)) {
      std::string request(4096, '\0');
      const auto n = ::read(fd, request.data(), request.size());
      request.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
      const auto path = request.substr(0, request.find(" HTTP/"));
      const auto at = request.find("\r\nFencing-Token: ");
      const auto token = at == std::string::npos ? 0 : std::strtoull(request.c_str() + at + 17, nullptr, 10);
      auto& highest = seen_[path];
      std::string answer = "HTTP/1.1 204 No Content\r\n\r\n";
      if (token < highest || token == 0)
        answer = "HTTP/1.1 412 Precondition Failed\r\nContent-Length: 0\r\n\r\n";
      else
        highest = token;
      if (::write(fd, answer.data(), answer.size()) < 0) continue;
    }
  }

  int listener_ = -1;
  std::uint16_t port_ = 0;
  std::map<std::string, unsigned long long> seen_;
  std::jthread thread_;
};

/// The status of a PUT with the token of the lock under which it is made.
inline int guarded_put(std::uint16_t port, const std::string& path, std::uint64_t token) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  a.sin_port = htons(port);
  std::string answer(64, '\0');
  const auto request = "PUT " + path + " HTTP/1.1\r\nHost: localhost\r\nFencing-Token: " + std::to_string(token) +
                       "\r\nContent-Length: 0\r\n\r\n";
  const bool sent = ::connect(fd, reinterpret_cast<sockaddr*>(&a), sizeof a) == 0 &&
                    ::write(fd, request.data(), request.size()) == static_cast<ssize_t>(request.size());
  const auto n = sent ? ::read(fd, answer.data(), answer.size()) : 0;
  ::close(fd);
  return n > 12 ? std::atoi(answer.c_str() + 9) : 0;
}
