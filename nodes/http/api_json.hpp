#pragma once

/// JSON and times as the API reads and writes them. Knows no queue and no server.

#include <caravan/error.hpp>

#include <nlohmann/json.hpp>

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace caravan::http {

using json = nlohmann::json;                  ///< keys sorted: equal values have equal texts
using ordered_json = nlohmann::ordered_json;  ///< for answers, which people read
using system_time = std::chrono::system_clock::time_point;

/// Strict UTF-8 JSON without duplicate loss of data: refused are more than 100 levels of nesting and whole numbers that
/// no 64-bit integer holds. The error tells where.
[[nodiscard]] expected<json> parse_json(std::string_view text);
/// For an answer: what is no UTF-8 in it is replaced.
[[nodiscard]] std::string dump(const ordered_json& value);

/// The members of a request's object, each checked as it is taken. The first mistake stays; ask for it at the end.
class object_reader {
public:
  /// `what` names the thing in errors ("the job", "line 3").
  object_reader(const json& object, std::string what);

  [[nodiscard]] std::optional<std::string> text(std::string_view name, std::size_t most_bytes = 1024);
  /// Absent and null are nothing.
  [[nodiscard]] std::optional<std::int64_t> whole_number(std::string_view name, std::int64_t least, std::int64_t most);
  /// "5s" or a number of seconds; not negative, at most 100 years.
  [[nodiscard]] std::optional<std::chrono::milliseconds> duration(std::string_view name);
  [[nodiscard]] std::optional<system_time> instant(std::string_view name);
  [[nodiscard]] const json* any(std::string_view name);
  void complain(std::string text);

  /// Any member that is none of `known` is a mistake too.
  [[nodiscard]] expected<void> done(std::span<const std::string_view> known);

private:
  [[nodiscard]] const json* member(std::string_view name) const;

  const json& object_;
  std::string what_;
  std::optional<error> mistake_;
};

/// RFC 3339 ("2026-05-01T12:00:00Z", "2026-05-01T14:00:00.5+02:00") within the years 1970 to 2199.
[[nodiscard]] std::optional<system_time> parse_instant(std::string_view text);
/// UTC with milliseconds: "2026-05-01T12:00:00.000Z".
[[nodiscard]] std::string format_instant(system_time at);
/// null for the epoch, which means none.
[[nodiscard]] ordered_json instant_or_null(system_time at);

[[nodiscard]] std::string base64(std::string_view bytes);

/// Adds "payload", or "payload_base64" for one that is no JSON text; nothing for an empty one, whose job is finished.
void put_payload(ordered_json& into, const std::string& payload);

/// `word` with what it probably means: "\"dely\" (did you mean \"delay\"?)".
[[nodiscard]] std::string with_nearest(std::string_view word, std::span<const std::string_view> candidates);

/// A body that may be absent: then an empty object.
[[nodiscard]] expected<json> read_body(std::string_view body);

}  // namespace caravan::http
