#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace caravan {

/// Names one item of one queue. Grows with every append, so ids order the items of a queue by arrival, also across
/// restarts and moves. The upper 42 bits are the append's wall-clock milliseconds since 2020-01-01 UTC, the lower 22
/// a counter: a queue whose data were wiped does not hand out an old id again. 0 is no id.
struct item_id {
  std::uint64_t value = 0;

  explicit operator bool() const noexcept { return value != 0; }
  friend auto operator<=>(const item_id&, const item_id&) = default;
};

/// 13 characters of Crockford's base 32, lower case; sorts as the ids do.
[[nodiscard]] std::string to_string(item_id id);

/// Accepts upper case and Crockford's look-alikes (o, i, l). Nothing for any other text.
[[nodiscard]] std::optional<item_id> parse_item_id(std::string_view text);

/// A job as HTTP, CLI and logs name it: "mail.01hq3k5v2x8rt", the queue's name, a dot, the item's id.
struct job_id {
  std::string queue;
  item_id item;
};
[[nodiscard]] std::string to_string(const job_id& id);
/// The last dot separates: a queue's name may hold dots.
[[nodiscard]] std::optional<job_id> parse_job_id(std::string_view text);

}  // namespace caravan

template <>
struct std::hash<caravan::item_id> {
  std::size_t operator()(caravan::item_id id) const noexcept {
    // Ids are dense in their low bits; spread them, since unordered_map uses the hash as it is.
    return static_cast<std::size_t>(id.value * 0x9E3779B97F4A7C15ull);
  }
};
