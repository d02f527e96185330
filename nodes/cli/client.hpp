#pragma once

/// The HTTP client of the verbs.

#include "nodes/cli/verb.hpp"
#include "nodes/client/node_caller.hpp"

#include <nlohmann/json.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace caravan::cli {

struct http_answer {
  int status = 0;
  std::string body;
};

struct http_call {
  std::string method = "GET";
  std::string path;  ///< "/v1/queues"; see path_segment()
  std::string body{};
  std::string content_type{"application/json"};
  std::string idempotency_key{};
  std::chrono::milliseconds timeout{30'000};
};

/// Not thread safe. Keeps its connection.
class client {
public:
  /// The node and the token that the common options, the environment or the file name.
  explicit client(const arguments& given);
  client(const client&) = delete;
  client& operator=(const client&) = delete;
  ~client();

  /// Whatever the node answers. Throws stop(exit_no_node) when no whole answer came.
  http_answer send(const http_call& call);
  /// The JSON of a good answer. Throws stop(exit_refused) with the node's words for any other.
  nlohmann::ordered_json ask(const http_call& call);

  /// Hands on an event stream as it comes, until `take` says no (true is returned) or the stream ends (false). Throws
  /// stop(exit_no_node) when no node answers, stop(exit_refused) with its words when it refuses.
  bool follow(const std::string& path, const std::string& last_event_id, std::function<bool(std::string_view)> take);

  [[nodiscard]] const std::string& url() const noexcept { return url_; }

private:
  std::string url_;
  std::string token_;
  void* curl_ = nullptr;  ///< CURL*, whose header stays in client.cpp
};

/// The words of a problem+json answer, or what else is to be said about it.
[[nodiscard]] std::string words_of(const http_answer& answer);

/// Prints it as --json does.
void print_json(const nlohmann::ordered_json& value);

}  // namespace caravan::cli
