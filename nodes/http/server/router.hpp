#pragma once

/// Finds the handler for a method and a path. A tree of path segments: the time depends on the path, not on the routes.

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "nodes/http/server/server.hpp"

namespace caravan::http {

struct route_target {
  role needed = role::admin;
  handler call;
  std::vector<std::string> names;  ///< of the pattern's parameters, in order
};

struct route_match {
  enum class verdict { found, no_path, no_method, bad_path };
  verdict result = verdict::no_path;
  const route_target* target = nullptr;
  fields params;
  std::string allow;  ///< for no_method: "GET, HEAD, POST"
};

class router {
public:
  /// Throws caravan::exception for a pattern that is malformed or taken.
  void add(std::string_view method, std::string_view pattern, role needed, handler call);
  [[nodiscard]] const std::vector<route_entry>& list() const noexcept { return list_; }
  [[nodiscard]] route_match find(std::string_view method, std::string_view path) const;

private:
  struct node {
    std::map<std::string, std::unique_ptr<node>, std::less<>> literals;
    std::unique_ptr<node> parameter;
    std::unique_ptr<node> rest;
    std::map<std::string, route_target, std::less<>> methods;
  };
  struct search;
  node root_;
  std::vector<route_entry> list_;
};

}  // namespace caravan::http
