#pragma once

#include <nlohmann/json.hpp>

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

/// The real program as a process of its own, for tests that kill it or ask it from outside.
namespace caravan::crash {

/// Prints one line and ends the test.
[[noreturn]] void fail(const std::string& what);
void require(bool holds, const std::string& what);

void write_file(const std::filesystem::path& path, std::string_view text);
[[nodiscard]] std::string read_file(const std::filesystem::path& path);

/// Not thread safe but for port(). It dies with this process.
class real_node {
public:
  /// `work` holds node.ini, the log, the port file and the data.
  real_node(std::string program, std::filesystem::path work);
  ~real_node();
  real_node(const real_node&) = delete;
  real_node& operator=(const real_node&) = delete;

  void start();
  /// Waits until it serves; fails with its log when it ends instead.
  void wait_until_up();
  /// 0 while it is down.
  [[nodiscard]] int port() const { return port_.load(); }
  [[nodiscard]] pid_t pid() const { return pid_; }
  void kill9();
  /// SIGTERM; returns the exit code, or 128 + signal.
  int stop();
  /// For a node that ends by itself.
  int wait_for_end(std::chrono::seconds patience);
  [[nodiscard]] std::string log() const { return read_file(work_ / "node.log"); }

private:
  int reap(int options);

  std::string program_;
  std::filesystem::path work_;
  pid_t pid_ = -1;
  std::atomic<int> port_{0};
};

struct answer {
  long status = 0;  ///< 0: no answer
  std::string text;
  nlohmann::json body;
};

/// One kept connection; one thread.
class http_client {
public:
  http_client();
  ~http_client();
  http_client(const http_client&) = delete;
  http_client& operator=(const http_client&) = delete;
  answer get(int port, const std::string& path) { return call(port, path, nullptr); }
  answer post(int port, const std::string& path, const nlohmann::json& body) {
    const auto text = body.dump();
    return call(port, path, &text);
  }

private:
  answer call(int port, const std::string& path, const std::string* body);
  void* curl_;
  void* json_header_;
};

/// An environment variable as a number; `otherwise` when it is not set or empty.
[[nodiscard]] std::uint64_t number_of(const char* variable, std::uint64_t otherwise);

/// What handlers wrote, a line a call: how often each line is there.
[[nodiscard]] std::map<std::string, int> line_counts(const std::filesystem::path& file);

/// Flushes and waits until nothing waits, runs, is delayed or dead.
void empty_queue(http_client& http, int port, const std::string& queue, std::chrono::seconds patience);

}  // namespace caravan::crash
