#pragma once

/// What handlers outside the process get to see, the same for an executable and for an HTTP endpoint
/// (docs/handlers.md is the page for those who write them).
/// Free functions without state: callable from any thread. None throws but std::bad_alloc.

#include "integration/runner.hpp"
#include "messages/batch.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace caravan::handlers {

/// Appends the item as one JSON object without a line break:
/// {"id":"mail.01hq...","payload":...,"attempt":1,"key":"","headers":{}}, and "max_attempts" where the item has its
/// own. The payload is copied as it is, only line breaks between its tokens become blanks. One that is not JSON in
/// UTF-8 comes as "payload_base64" instead. Bytes of key and headers that are not UTF-8 become U+FFFD; the values of a
/// header that is there twice are joined by ", ".
void append_item_json(std::string& out, std::string_view queue, const record& item);

/// Appends `text` as a JSON string with its quotes. Bytes that are not UTF-8 become U+FFFD.
void append_json_string(std::string& out, std::string_view text);

/// "2026-01-31T12:00:00.000Z"
[[nodiscard]] std::string to_rfc3339(wall_time when);

/// ctx.deadline on the wall clock as RFC 3339; empty when there is none (or none within a hundred years).
[[nodiscard]] std::string deadline_text(const run_context& ctx);

/// The header `traceparent` of a batch of one item; empty for larger batches and for values that are no plain printable
/// ASCII: it goes into an environment and an HTTP header, where a line break could forge others.
[[nodiscard]] std::string trace_parent(const batch& work);

/// "1.5 s", "250 ms"
[[nodiscard]] std::string to_text(std::chrono::milliseconds duration);

/// Output of a stranger made fit for error texts: valid UTF-8, no control characters but line feed and tab, no blanks
/// and line breaks at either end.
[[nodiscard]] std::string readable(std::string_view bytes);

/// Was the call ended by its deadline? `stop` is asked for at TIMEOUT too, by a timer that may be a little early.
[[nodiscard]] bool is_past_deadline(const run_context& ctx, std::chrono::steady_clock::time_point now);

/// Finds the items of a batch by what handlers call them. Keeps the queue's name, not the batch.
class item_names {
public:
  explicit item_names(const batch& work);
  /// `name` is a job id ("mail.01hq3k5v2x8rt") or the item's id alone. Nothing if the batch has no such item.
  [[nodiscard]] std::optional<std::uint32_t> find(std::string_view name) const;

private:
  std::string queue_;
  std::unordered_map<item_id, std::uint32_t> index_;
};

}  // namespace caravan::handlers
