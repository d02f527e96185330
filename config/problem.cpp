#include "config/problem.hpp"

#include <algorithm>

namespace caravan::config {

std::string to_string(const origin& where) {
  if (!where.variable.empty()) return "environment variable " + where.variable;
  if (where.file.empty() && where.line == 0) return "default";
  return (where.file.empty() ? "(text)" : where.file) + ":" + std::to_string(where.line);
}

std::string to_string(const problem& x) {
  std::string out;
  if (x.where != origin{}) out += to_string(x.where) + ": ";
  out += x.level == severity::error ? "error: " : "warning: ";
  out += x.what;
  if (!x.cause.empty()) out += (x.what.empty() ? "" : ": ") + x.cause;
  if (!x.remedy.empty()) out += "; " + x.remedy;
  return out;
}

std::string to_string(const problems& list) {
  std::string out;
  for (const auto& x : list) out += to_string(x) + "\n";
  return out;
}

bool has_errors(const problems& list) noexcept {
  return std::any_of(list.begin(), list.end(), [](const problem& x) { return x.level == severity::error; });
}

error to_error(const problems& list) {
  std::string text;
  for (const auto& x : list)
    if (x.level == severity::error) text += (text.empty() ? "" : "\n") + to_string(x);
  return {errc::invalid_argument, std::move(text)};
}

void report(problems& list, problem x) {
  if (std::find(list.begin(), list.end(), x) == list.end()) list.push_back(std::move(x));
}

}  // namespace caravan::config
