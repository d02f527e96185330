#pragma once

/// What the command line is made of. A verb says all about itself as data: the parser, `caravan help` and docs/cli.md
/// come from it. To add verbs: a file with `std::vector<verb> NAME_verbs()`, and one line in verbs.hpp.

#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace caravan::cli {

enum exit_code : int {
  exit_done = 0,
  exit_refused = 1,  ///< refused or failed
  exit_usage = 2,    ///< the call or the configuration is wrong
  exit_no_node = 3,  ///< no node answers
};

/// Ends a verb: `text` goes to standard error.
class stop : public std::runtime_error {
public:
  stop(exit_code code, const std::string& text) : std::runtime_error(text), code_(code) {}
  [[nodiscard]] exit_code code() const noexcept { return code_; }

private:
  exit_code code_;
};

enum class times : unsigned char { at_most_once, once, any };

struct option {
  std::string name;   ///< "--delay"; without dashes an operand: "QUEUE"
  std::string value;  ///< "DURATION"; empty: a flag. Not for operands
  std::string help;
  times how_often = times::at_most_once;
};

class arguments {
public:
  void add(const std::string& name, std::string value) { given_[name].push_back(std::move(value)); }
  [[nodiscard]] bool has(const std::string& name) const { return given_.contains(name); }
  [[nodiscard]] std::optional<std::string> find(const std::string& name) const {
    const auto it = given_.find(name);
    return it == given_.end() ? std::nullopt : std::optional(it->second.back());
  }
  [[nodiscard]] std::string get(const std::string& name, const std::string& fallback = {}) const {
    return find(name).value_or(fallback);
  }
  [[nodiscard]] std::vector<std::string> all(const std::string& name) const {
    const auto it = given_.find(name);
    return it == given_.end() ? std::vector<std::string>{} : it->second;
  }

private:
  std::map<std::string, std::vector<std::string>> given_;
};

/// Which options a verb takes beside its own.
enum class talks_to : unsigned char {
  nobody,
  node,  ///< --node, --token, --config, --json
};

struct verb {
  std::string noun;     ///< "queue"; empty: the verb stands alone
  std::string name;     ///< "ls"; empty: the noun alone is the verb, and comes before its others
  std::string summary;  ///< one sentence
  std::vector<option> options;
  std::string example;  ///< a line that works
  exit_code (*run)(const arguments&) = nullptr;
  talks_to peer = talks_to::nobody;
  std::string more{};  ///< paragraphs for the page
  bool hidden = false;
};

/// The options that every verb of this kind takes.
[[nodiscard]] const std::vector<option>& common_options(talks_to peer);

}  // namespace caravan::cli
