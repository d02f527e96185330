#pragma once

/// HANDLER = http(s)://URL. One POST per batch; docs/handlers.md describes what it carries and what may be answered.

#include "integration/http_client/target_guard.hpp"
#include "integration/runner.hpp"

#include <caravan/error.hpp>

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace caravan {

struct http_options {
  std::string secret;                                 ///< signs each call (X-Caravan-Signature); empty: no signature
  std::chrono::milliseconds connect_timeout{10'000};  ///< for name, connection and TLS
  std::size_t body_limit = 1024 * 1024;               ///< bytes of an answer that are kept; the rest is not read
  std::chrono::milliseconds max_delay = std::chrono::hours(24);  ///< a longer Retry-After is cut to this
  std::chrono::milliseconds max_idle{60'000};  ///< a connection unused for longer is closed when the next call begins
  http_client::guard_options guard{};          ///< when the target is not called
};

/// The URL may hold "user:password@" for basic authentication. Texts and describe() show it without that and without
/// the query. A proxy is taken from the environment as curl does (http_proxy, https_proxy, no_proxy).
/// errc::invalid_argument: not a URL, no host, or a scheme other than http and https. Nothing is connected yet.
///
/// run() of the result: any number of threads at once, each with a connection of its own. Connections are kept and used
/// again, the last one that was used first, so that the surplus of a busy time grows old and is closed. ctx.stop and
/// ctx.deadline end a call within milliseconds. Answers: http_client/http_answer.hpp. Beyond them
///   no connection, or it broke before the answer was complete: all failed
///   ctx.deadline: all failed       ctx.stop before the deadline: all unhandled (the other side may still be at work)
///   out of memory or descriptors here: all later
///   the target asked not to be called (429 or 503 with Retry-After), or the guard refuses: all later, nothing is sent.
///   A worker waits a moment before it says so, as else it would turn over all that waits in no time
/// The destructor must not run while a call does.
expected<std::unique_ptr<runner>> make_http_runner(std::string_view url, http_options options = {});

}  // namespace caravan
