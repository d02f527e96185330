#pragma once

/// What [cron.NAME] can do without a program: PUSH, EXEC, HTTP.

#include "actors/cron/cron_threads.hpp"
#include "config/cron_settings.hpp"

#include <caravan/queue_port.hpp>

#include <functional>
#include <memory>
#include <string>

namespace caravan {

struct cron_action_parts {
  std::string node;  ///< its name
  /// The queue of this name, made where the node may.
  std::function<expected<std::shared_ptr<queue_port>>(const std::string&)> queue_of;
};

struct cron_action {
  cron_function function;
  std::string text;  ///< what it does, for people; no secret
};

/// Null function: the settings name no action. invalid_argument: a command or URL that is none, or an item that is no
/// JSON.
[[nodiscard]] expected<cron_action> make_cron_action(const config::cron_settings& s, cron_action_parts parts);

/// "2026-03-29T02:30:00Z"
[[nodiscard]] std::string to_text(cron_instant at);

}  // namespace caravan
