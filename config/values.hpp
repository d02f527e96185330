#pragma once

/// The texts that settings are made of: durations, sizes, numbers, yes and no. And the nearest right word for a wrong
/// one.

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace caravan::config {

/// Without blanks at both ends.
[[nodiscard]] std::string_view trim(std::string_view text) noexcept;

/// Go's durations ("1h30m", "500ms", "1.5s", "-2m"; units ns us µs ms s m h), and a bare number for seconds.
/// Nothing for any other text, and beyond about 292 years.
[[nodiscard]] std::optional<std::chrono::nanoseconds> parse_duration(std::string_view text);
/// As Go prints it: "1m30s", "500ms", "0s".
[[nodiscard]] std::string format_duration(std::chrono::nanoseconds value);

/// A decimal number with an optional sign, nothing else around it.
[[nodiscard]] std::optional<std::int64_t> parse_integer(std::string_view text);

/// "8 MiB", "512k", "10MB", "4096": K, M, G, T and KiB, MiB, ... count in 1024, KB, MB, ... in 1000.
[[nodiscard]] std::optional<std::int64_t> parse_bytes(std::string_view text);
/// "8MiB" where it divides, else the plain number.
[[nodiscard]] std::string format_bytes(std::int64_t value);

/// true, yes, on, y, t, 1 and false, no, off, n, f, 0 in any case.
[[nodiscard]] std::optional<bool> parse_boolean(std::string_view text);

/// How many single letters to change, add, drop or swap with the next. Case does not count.
[[nodiscard]] std::size_t edit_distance(std::string_view a, std::string_view b);
/// The candidate that `word` most likely means; empty when none is near.
[[nodiscard]] std::string_view nearest(std::string_view word, std::span<const std::string_view> candidates);

}  // namespace caravan::config
