#pragma once

/// Who goes first at the door.

#include "nodes/http/server/message.hpp"
#include "toolbox/codel.hpp"

#include <optional>
#include <string_view>

namespace caravan::http {

/// Nothing: it passes without asking. overload_options has the reasons.
[[nodiscard]] constexpr std::optional<toolbox::priority> rank_of(std::string_view method, role needed) noexcept {
  using toolbox::priority;
  if (needed == role::anyone) return std::nullopt;
  if (method == "GET" || method == "HEAD") return priority::high;
  return needed == role::push ? priority::low : priority::normal;
}

}  // namespace caravan::http
