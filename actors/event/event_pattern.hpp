#pragma once

#include <caravan/error.hpp>
#include <caravan/event_port.hpp>

#include <string_view>

namespace caravan {

/// 1 to 128 letters, digits, - and _, in words with dots between. Else invalid_argument.
[[nodiscard]] expected<void> check_topic(std::string_view topic);
/// The same with `*` for a word and `#` for the last one.
[[nodiscard]] expected<void> check_pattern(std::string_view pattern);

/// Both checked. `*` is one word; a last `#` any number of them, also none.
[[nodiscard]] bool matches(std::string_view pattern, std::string_view topic);
[[nodiscard]] inline bool matches(const event_filter& f, const event& e) {
  return (f.subject.empty() || f.subject == e.subject) && matches(f.topic, e.topic);
}

}  // namespace caravan
