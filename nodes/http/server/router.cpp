#include "nodes/http/server/router.hpp"

#include <algorithm>
#include <set>

namespace caravan::http {

namespace {

std::vector<std::string_view> split(std::string_view path) {
  std::vector<std::string_view> parts;
  path.remove_prefix(1);  // the leading '/'
  for (;;) {
    const auto end = std::min(path.find('/'), path.size());
    parts.push_back(path.substr(0, end));
    if (end == path.size()) return parts;
    path.remove_prefix(end + 1);
  }
}

[[noreturn]] void refuse(std::string_view pattern, std::string_view why) {
  throw exception({errc::invalid_argument, "route \"" + std::string{pattern} + "\": " + std::string{why}});
}

}  // namespace

void router::add(std::string_view method, std::string_view pattern, role needed, handler call) {
  if (!pattern.starts_with('/')) refuse(pattern, "must start with '/'");
  auto* at = &root_;
  std::vector<std::string> names;
  const auto parts = split(pattern);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    auto part = parts[i];
    if (part.starts_with('{') && part.ends_with('}') && part.size() > 2) {
      part = part.substr(1, part.size() - 2);
      const auto takes_rest = part.ends_with("...");
      if (takes_rest) part.remove_suffix(3);
      if (part.empty()) refuse(pattern, "a parameter has no name");
      if (takes_rest && i + 1 != parts.size()) refuse(pattern, "\"...\" must come last");
      if (std::find(names.begin(), names.end(), part) != names.end()) refuse(pattern, "a parameter comes twice");
      names.emplace_back(part);
      auto& next = takes_rest ? at->rest : at->parameter;
      if (!next) next = std::make_unique<node>();
      at = next.get();
    } else {
      if (part.find_first_of("{}") != std::string_view::npos) refuse(pattern, "braces must enclose a whole segment");
      auto& next = at->literals[std::string{part}];
      if (!next) next = std::make_unique<node>();
      at = next.get();
    }
  }
  const auto added =
      at->methods.emplace(std::string{method}, route_target{needed, std::move(call), std::move(names)}).second;
  if (!added) refuse(pattern, "is there already for " + std::string{method});
  list_.push_back({std::string{method}, std::string{pattern}, needed});
}

/// Walks the tree, literal segments first, and steps back when a branch has the path but not the method.
struct router::search {
  std::string_view method;
  std::vector<std::string> parts;  // decoded
  std::vector<std::string> values{};
  std::set<std::string, std::less<>> allowed{};
  const route_target* found = nullptr;

  bool here(const node& n) {
    auto it = n.methods.find(method);
    if (it == n.methods.end() && method == "HEAD") it = n.methods.find("GET");
    if (it != n.methods.end()) {
      found = &it->second;
      return true;
    }
    for (const auto& entry : n.methods) allowed.insert(entry.first);
    return false;
  }

  bool walk(const node& n, std::size_t depth) {
    if (depth == parts.size()) return here(n);
    const auto& part = parts[depth];
    if (const auto it = n.literals.find(part); it != n.literals.end() && walk(*it->second, depth + 1)) return true;
    if (n.parameter && !part.empty()) {
      values.push_back(part);
      if (walk(*n.parameter, depth + 1)) return true;
      values.pop_back();
    }
    if (n.rest) {
      auto all = part;
      for (auto i = depth + 1; i < parts.size(); ++i) all.append("/").append(parts[i]);
      values.push_back(std::move(all));
      if (here(*n.rest)) return true;
      values.pop_back();
    }
    return false;
  }
};

route_match router::find(std::string_view method, std::string_view path) const {
  route_match match;
  if (!path.starts_with('/')) {
    match.result = route_match::verdict::bad_path;
    return match;
  }
  search s{method, {}};
  // Split before decoding: an encoded '/' belongs to a name.
  for (const auto raw : split(path)) {
    auto part = percent_decode(raw);
    if (!part) {
      match.result = route_match::verdict::bad_path;
      return match;
    }
    s.parts.push_back(std::move(*part));
  }
  if (s.walk(root_, 0)) {
    match.result = route_match::verdict::found;
    match.target = s.found;
    for (std::size_t i = 0; i < s.values.size(); ++i) match.params.add(s.found->names[i], std::move(s.values[i]));
  } else if (!s.allowed.empty()) {
    match.result = route_match::verdict::no_method;
    if (s.allowed.contains("GET")) s.allowed.insert("HEAD");
    for (const auto& name : s.allowed) match.allow.append(match.allow.empty() ? "" : ", ").append(name);
  }
  return match;
}

}  // namespace caravan::http
