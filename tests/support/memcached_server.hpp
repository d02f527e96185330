#pragma once

#include "tests/support/child_server.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/temp_folder.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pwd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace caravan::testing_support {

/// A real memcached of the test's own, on a spare port of loopback.
class memcached_server {
public:
  /// `more`: words for its command line.
  explicit memcached_server(std::vector<std::string> more = {}) : more_(std::move(more)) { start(); }

  /// Empty, on the same port. Returns when it answers.
  void start() {
    // It does not run as root unless told to.
    const auto* user = ::getpwuid(::geteuid());
    for (int i = 0; i < 20; ++i) {
      if (!fixed_) port_ = spare_port();
      std::vector<std::string> words{"memcached",
                                     "-l",
                                     "127.0.0.1",
                                     "-p",
                                     std::to_string(port_),
                                     "-U",
                                     "0",
                                     "-t",
                                     "1",
                                     "-u",
                                     user != nullptr ? user->pw_name : "root"};
      words.insert(words.end(), more_.begin(), more_.end());
      server_.start(words, (folder_.path() / "memcached.log").string());
      if (eventually([&] { return !server_.runs() || ask("version\r\n", "\r\n").starts_with("VERSION"); }) &&
          server_.runs()) {
        fixed_ = true;
        return;
      }
      server_.kill9();
    }
    throw std::runtime_error("memcached does not start; is it installed?");
  }
  void stop() { server_.stop(); }
  void freeze() { server_.freeze(); }
  void thaw() { server_.thaw(); }
  [[nodiscard]] std::uint16_t port() const { return port_; }

  /// What it answers to a line of its protocol, up to and with `end`; empty if it cannot be reached.
  [[nodiscard]] std::string ask(const std::string& line, const std::string& end) const {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port_);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    std::string got;
    if (::connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0 &&
        ::send(fd, line.data(), line.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(line.size())) {
      char bytes[4096];
      while (!got.ends_with(end)) {
        const auto n = ::recv(fd, bytes, sizeof bytes, 0);
        if (n <= 0) break;
        got.append(bytes, static_cast<std::size_t>(n));
      }
    }
    ::close(fd);
    return got;
  }

private:
  temp_folder folder_;
  std::vector<std::string> more_;
  std::uint16_t port_ = 0;
  bool fixed_ = false;
  child_server server_;
};

}  // namespace caravan::testing_support
