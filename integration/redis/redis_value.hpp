#pragma once

/// What Redis answers, and what it is asked to run.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace caravan {

/// A reply. Plain and movable; a Lua table arrives as an array.
struct redis_value {
  enum class kind : std::uint8_t { nil, integer, text, status, error, array };
  kind what = kind::nil;
  std::int64_t number = 0;         ///< integer
  std::string text;                ///< text, status, error: its bytes
  std::vector<redis_value> items;  ///< array

  [[nodiscard]] bool is_nil() const noexcept { return what == kind::nil; }
  [[nodiscard]] bool is_integer() const noexcept { return what == kind::integer; }
  [[nodiscard]] bool is_text() const noexcept { return what == kind::text || what == kind::status; }
  [[nodiscard]] bool is_error() const noexcept { return what == kind::error; }
  [[nodiscard]] bool is_array() const noexcept { return what == kind::array; }
  /// An array of at least `n` items.
  [[nodiscard]] bool has(std::size_t n) const noexcept { return is_array() && items.size() >= n; }
};

/// A Lua script. `text` must live for ever (a string literal). It must be safe to run twice with the same arguments: a
/// reply that got lost leads to a repeat.
class redis_script {
public:
  redis_script(std::string name, std::string_view text);
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] std::string_view text() const noexcept { return text_; }
  [[nodiscard]] const std::string& sha() const noexcept { return sha_; }  ///< 40 hex digits

private:
  std::string name_;  ///< for error texts
  std::string_view text_;
  std::string sha_;
};

}  // namespace caravan
