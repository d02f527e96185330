#pragma once

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace caravan::testing_support {

/// Stands between a client and a server on loopback, and misbehaves on demand. One thread.
class redis_proxy {
public:
  enum class mode {
    pass,
    black_hole,   ///< connections stay, and new ones are accepted, but nothing goes through
    refuse,       ///< every connection is closed
    errors,       ///< a command is answered by an error with the given chance, and not passed on
    lose_replies  ///< a command is passed on, its reply is lost with the given chance, with the connection
  };

  explicit redis_proxy(std::uint16_t server) : server_(server), random_(20'260'101) {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in a = loopback(0);
    socklen_t size = sizeof a;
    if (::bind(listener_, reinterpret_cast<sockaddr*>(&a), size) != 0 || ::listen(listener_, 64) != 0 ||
        ::getsockname(listener_, reinterpret_cast<sockaddr*>(&a), &size) != 0)
      throw std::runtime_error("the proxy cannot listen");
    port_ = ntohs(a.sin_port);
    thread_ = std::jthread([this](std::stop_token stop) { run(stop); });
  }
  ~redis_proxy() {
    thread_.request_stop();
    thread_.join();
    ::close(listener_);
  }

  [[nodiscard]] std::uint16_t port() const { return port_; }
  /// `chance`: of 1, for errors and lose_replies. In force when it returns.
  void set(mode m, double chance = 0) {
    std::unique_lock lock(mutex_);
    mode_ = m;
    chance_ = chance;
    in_force_ = false;
    changed_.wait(lock, [&] { return in_force_; });
  }
  [[nodiscard]] std::size_t injected() const { return injected_; }

private:
  struct link {
    int client = -1;
    int server = -1;
    std::string from_client;  ///< not passed on yet
    bool lose = false;        ///< the next reply
    ~link() {
      if (client >= 0) ::close(client);
      if (server >= 0) ::close(server);
    }
  };

  static sockaddr_in loopback(std::uint16_t port) {
    sockaddr_in a{};
    a.sin_family = AF_INET;
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    a.sin_port = htons(port);
    return a;
  }

  // The length of the first command in `text`; 0: it is not complete.
  static std::size_t command_length(const std::string& text) {
    if (text.empty() || text[0] != '*') return text.find("\r\n") == std::string::npos ? 0 : text.find("\r\n") + 2;
    auto at = text.find("\r\n");
    if (at == std::string::npos) return 0;
    auto words = std::strtol(text.c_str() + 1, nullptr, 10);
    at += 2;
    while (words-- > 0) {
      const auto end = text.find("\r\n", at);
      if (end == std::string::npos) return 0;
      at = end + 2 + static_cast<std::size_t>(std::strtol(text.c_str() + at + 1, nullptr, 10)) + 2;
      if (at > text.size()) return 0;
    }
    return at;
  }

  static bool write_all(int fd, const std::string& bytes) {
    for (std::size_t at = 0; at < bytes.size();) {
      const auto n = ::send(fd, bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
      if (n <= 0) return false;
      at += static_cast<std::size_t>(n);
    }
    return true;
  }

  bool chance() { return std::uniform_real_distribution<double>(0, 1)(random_) < chance_; }

  bool from_client(link& l, mode m) {
    char buffer[65'536];
    const auto n = ::recv(l.client, buffer, sizeof buffer, 0);
    if (n <= 0) return false;
    l.from_client.append(buffer, static_cast<std::size_t>(n));
    if (m == mode::pass) {
      const auto ok = write_all(l.server, l.from_client);
      l.from_client.clear();
      return ok;
    }
    for (auto size = command_length(l.from_client); size > 0; size = command_length(l.from_client)) {
      const auto command = l.from_client.substr(0, size);
      l.from_client.erase(0, size);
      const bool hit = chance();
      if (hit) ++injected_;
      if (m == mode::errors && hit) {
        if (!write_all(l.client, "-ERR injected by the test\r\n")) return false;
        continue;
      }
      if (m == mode::lose_replies && hit) l.lose = true;
      if (!write_all(l.server, command)) return false;
    }
    return true;
  }

  static bool from_server(link& l) {
    char buffer[65'536];
    const auto n = ::recv(l.server, buffer, sizeof buffer, 0);
    if (n <= 0 || l.lose) return false;
    return write_all(l.client, std::string(buffer, static_cast<std::size_t>(n)));
  }

  void accept_one(mode m) {
    auto l = std::make_unique<link>();
    l->client = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (l->client < 0 || m == mode::refuse) return;
    l->server = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const auto a = loopback(server_);
    // A server that is down shows as a connection that closes at once.
    if (::connect(l->server, reinterpret_cast<const sockaddr*>(&a), sizeof a) != 0) return;
    links_.push_back(std::move(l));
  }

  void run(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      mode m{};
      {
        const std::lock_guard lock(mutex_);
        m = mode_;
        in_force_ = true;
        changed_.notify_all();
      }
      if (m == mode::refuse) links_.clear();
      std::vector<pollfd> fds{{listener_, POLLIN, 0}};
      if (m != mode::black_hole)
        for (const auto& l : links_) {
          fds.push_back({l->client, POLLIN, 0});
          fds.push_back({l->server, POLLIN, 0});
        }
      ::poll(fds.data(), fds.size(), 20);
      for (std::size_t i = 0; 2 * i + 2 < fds.size(); ++i) {
        auto& l = links_[i];
        if (fds[2 * i + 1].revents != 0 && !from_client(*l, m)) l.reset();
        if (l && fds[2 * i + 2].revents != 0 && !from_server(*l)) l.reset();
      }
      std::erase(links_, nullptr);
      if (fds[0].revents != 0) accept_one(m);
    }
    links_.clear();
  }

  const std::uint16_t server_;
  int listener_ = -1;
  std::uint16_t port_ = 0;
  std::mutex mutex_;
  mode mode_ = mode::pass;
  double chance_ = 0;
  bool in_force_ = true;
  std::condition_variable changed_;
  std::atomic<std::size_t> injected_{0};
  std::mt19937_64 random_;
  std::vector<std::unique_ptr<link>> links_;
  std::jthread thread_;
};

}  // namespace caravan::testing_support
