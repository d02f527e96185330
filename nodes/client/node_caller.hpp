#pragma once

#include <caravan/error.hpp>

#include <chrono>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

namespace caravan {

/// The HTTP addresses of nodes of one cluster, and which of them answered last. Thread safe.
class node_addresses {
public:
  /// "HOST:PORT", "http://HOST:PORT", "https://...", several with commas between. invalid_argument: none, or one that
  /// is no address.
  static expected<std::shared_ptr<node_addresses>> parse(std::string_view text);

  /// All of them, the one that answered last first.
  [[nodiscard]] std::vector<std::string> in_order() const;
  void answered(const std::string& url);
  /// The next call begins with another one.
  void failed(const std::string& url);
  [[nodiscard]] std::string text() const;

private:
  mutable std::mutex mutex_;
  std::vector<std::string> urls_;
  std::size_t first_ = 0;
};

struct caller_options {
  std::string token;   ///< bearer token; empty: none
  std::string tls_ca;  ///< PEM file of those who sign the nodes' certificates; empty: the system's
  std::chrono::milliseconds connect_timeout{3'000};
};

struct node_call {
  std::string method = "GET";
  std::string path;
  std::string body{};
  std::chrono::milliseconds timeout{30'000};  ///< of the answer of one node
  std::string only{};                         ///< this address and no other
  std::stop_token stop{};
};

struct node_reply {
  int status = 0;
  std::string body;
  std::string url;                           ///< of the node that answered
  std::chrono::milliseconds retry_after{0};  ///< as the answer says; 0: it does not
  /// Its words, for an answer that is none of 2xx.
  [[nodiscard]] error failure() const;
};

/// Calls nodes over HTTP; keeps its connections. One thread at a time.
class node_caller {
public:
  node_caller(std::shared_ptr<node_addresses> addresses, caller_options options);
  ~node_caller();
  node_caller(const node_caller&) = delete;
  node_caller& operator=(const node_caller&) = delete;

  /// The first node that answers; one that cannot be reached, or that answers 503, is passed over for the next.
  /// A call may so be done by two nodes: it has to bear that. timed_out: none answered; conflict: `stop` was asked.
  expected<node_reply> call(const node_call& what);

  [[nodiscard]] node_addresses& addresses() { return *addresses_; }

private:
  struct engine;
  expected<node_reply> ask(const std::string& url, const node_call& what);

  std::shared_ptr<node_addresses> addresses_;
  caller_options options_;
  std::unique_ptr<engine> engine_;
};

/// One segment of a path, percent-encoded.
[[nodiscard]] std::string path_segment(std::string_view text);

}  // namespace caravan
