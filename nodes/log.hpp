#pragma once

#include "config/node_settings.hpp"

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace caravan {

/// The node's log: text lines on a terminal, JSON lines otherwise. Thread safe; a line is written before the call
/// returns. Never hand it a secret.
class node_log {
public:
  using fields = std::vector<std::pair<std::string_view, std::string>>;

  /// Throws caravan::exception when [log] FILE cannot be opened.
  explicit node_log(const config::log_settings& settings);
  ~node_log();

  /// `what` is a short word for filters ("queue", "storage", "http"), `text` a sentence.
  void info(std::string_view what, std::string_view text, const fields& more = {});
  void warn(std::string_view what, std::string_view text, const fields& more = {});
  void error(std::string_view what, std::string_view text, const fields& more = {});
  void debug(std::string_view what, std::string_view text, const fields& more = {});

private:
  struct engine;
  std::unique_ptr<engine> engine_;
};

}  // namespace caravan
