#pragma once

#include "integration/redis/redis_client.hpp"
#include "tests/support/child_server.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/temp_folder.hpp"

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace caravan::testing_support {

/// A real Redis of the test's own, on a spare port of loopback and on a unix socket; appendonly, everysec.
class redis_server {
public:
  /// `more`: words for its command line, e.g. {"--requirepass", "x"}.
  explicit redis_server(std::vector<std::string> more = {}) : more_(std::move(more)) { start(); }

  /// On the same port with the same data. Returns when it answers.
  void start() {
    for (int i = 0; i < 20; ++i) {
      if (port_ == 0 || i > 0) port_ = i > 0 && fixed_ ? port_ : spare_port();
      std::vector<std::string> words{"redis-server",
                                     "--port",
                                     std::to_string(port_),
                                     "--bind",
                                     "127.0.0.1",
                                     "--dir",
                                     folder_.path().string(),
                                     "--unixsocket",
                                     socket_path(),
                                     "--save",
                                     "",
                                     "--appendonly",
                                     "yes",
                                     "--daemonize",
                                     "no",
                                     "--appendfsync",
                                     "everysec"};
      words.insert(words.end(), more_.begin(), more_.end());
      server_.start(words, log_path());
      if (answers()) {
        fixed_ = true;
        return;
      }
      server_.kill9();
    }
    throw std::runtime_error("redis-server does not start; is it installed?\n" + log());
  }
  void stop() { server_.stop(); }
  void kill9() { server_.kill9(); }
  void freeze() { server_.freeze(); }
  void thaw() { server_.thaw(); }

  [[nodiscard]] std::uint16_t port() const { return port_; }
  [[nodiscard]] std::string socket_path() const { return (folder_.path() / "redis.sock").string(); }
  [[nodiscard]] std::string url(unsigned db = 0) const {
    return "redis://127.0.0.1:" + std::to_string(port_) + "/" + std::to_string(db);
  }
  [[nodiscard]] redis_options options(unsigned db = 0) const {
    redis_options o;
    o.address = config::parse_redis_address(url(db)).value();
    return o;
  }
  [[nodiscard]] std::string log() const {
    std::ifstream in(log_path());
    std::ostringstream text;
    text << in.rdbuf();
    return std::move(text).str();
  }
  /// All that it wrote to its append-only files.
  [[nodiscard]] std::string appended() const {
    std::ostringstream text;
    for (const auto& f : std::filesystem::directory_iterator(folder_.path() / "appendonlydir"))
      text << std::ifstream(f.path()).rdbuf();
    return std::move(text).str();
  }

private:
  [[nodiscard]] std::string log_path() const { return (folder_.path() / "redis.log").string(); }
  bool answers() {
    return eventually(
               [&] { return log().find("eady to accept connections") != std::string::npos || !server_.runs(); }) &&
           server_.runs() && ready_again();
  }
  // The log keeps what earlier runs said.
  bool ready_again() {
    auto o = options();
    o.give_up_after = std::chrono::milliseconds{1};
    redis_client c(o);
    return eventually([&] {
      const auto pong = c.command({"PING"});
      return pong.has_value() || pong.failure().code != errc::backend_failed ||
             pong.failure().text.find("replica") != std::string::npos;
    });
  }

  temp_folder folder_;
  std::vector<std::string> more_;
  std::uint16_t port_ = 0;
  bool fixed_ = false;
  child_server server_;
};

}  // namespace caravan::testing_support
