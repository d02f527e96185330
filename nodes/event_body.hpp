#pragma once

#include <nlohmann/json.hpp>

#include <string>

namespace caravan {

/// The body of an event that says what is wrong.
inline std::string text_body(const std::string& text) {
  return nlohmann::json{{"text", text}}.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace caravan
