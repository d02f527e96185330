#pragma once

/// What a call over HTTP says and what its answer means. No network here.

#include "integration/runner.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace caravan::http_client {

/// An answer that arrived.
struct answer {
  int status = 0;
  std::string body;         ///< its first bytes, up to the limit of the call
  bool is_cut = false;      ///< there was more
  std::string retry_after;  ///< the header's value; empty: none
  std::string location;     ///< of a redirection; empty: none
};

/// {"queue":"mail","token":"42","node":"node-1","deadline":"2026-01-31T12:00:00.000Z","items":[...]}
/// `deadline` only if there is one. The token is a string: it may exceed what JavaScript keeps in a number.
[[nodiscard]] std::string request_body(const batch& work, const run_context& ctx);

/// "t=1769860800,v1=<hex>": HMAC-SHA256 of "<t>.<body>" under `secret`.
[[nodiscard]] std::string signature(std::string_view secret, std::int64_t unix_seconds, std::string_view body);

/// Retry-After: seconds or an HTTP date. Never negative, at most `longest`; nothing if it is neither.
[[nodiscard]] std::optional<std::chrono::milliseconds> parse_retry_after(std::string_view value, wall_time now,
                                                                         std::chrono::milliseconds longest);

/// A header's value from any text: what is not printable ASCII is percent-encoded, so that a line break cannot forge
/// headers.
[[nodiscard]] std::string header_value(std::string_view text);

/// What became of the items. `who` starts the texts: the method and the masked URL.
///   2xx            handled; 207: but for the items of {"unhandled":[ids]}. A 207 that cannot be read, was cut or names
///                  an item that is not in the batch: all failed, since something was not handled
///   409, 410       rejected
///   429, 503       later; after Retry-After if given
///   all others     failed; after Retry-After if given
[[nodiscard]] batch_result to_result(const batch& work, const answer& got, std::string_view who, wall_time now,
                                     std::chrono::milliseconds longest_delay);

}  // namespace caravan::http_client
