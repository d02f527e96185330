#pragma once

/// The body of a push as items. No queue, no server: text in, drafts out.

#include <caravan/error.hpp>
#include <caravan/queue_port.hpp>

#include <string_view>
#include <vector>

namespace caravan::http {

enum class push_form : std::uint8_t { single, array, lines };

struct push_call {
  push_form form = push_form::single;
  std::vector<item_draft> items;
};

struct push_headers {
  std::string_view content_type;
  std::string_view idempotency_key;  ///< of several items: with "." and their place behind it
  std::string_view traceparent;
};

/// All or nothing: one bad item refuses the whole, and the error names it (by its place from 0, or its line from 1).
/// too_large when a payload exceeds `max_item_size`.
[[nodiscard]] expected<push_call> read_push(std::string_view body, const push_headers& headers,
                                            std::size_t max_item_size, std::chrono::system_clock::time_point now);

}  // namespace caravan::http
