#pragma once

/// What a handler gets and what it gives back. Standard library only: no HTTP engine, no JSON type.

#include <caravan/error.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace caravan::http {

/// What a token may do. `push` and `work` may read too; `admin` may do everything; `anyone` needs no token at all.
enum class role : std::uint8_t { anyone, read, push, work, admin };

[[nodiscard]] std::string_view to_string(role r) noexcept;

inline constexpr role all_roles[] = {role::read, role::push, role::work, role::admin};

/// The roles one token was given.
class role_set {
public:
  void add(role r) noexcept { bits_ = static_cast<std::uint8_t>(bits_ | (1u << static_cast<unsigned>(r))); }
  void add(role_set other) noexcept { bits_ = static_cast<std::uint8_t>(bits_ | other.bits_); }
  [[nodiscard]] bool allows(role needed) const noexcept;
  [[nodiscard]] bool empty() const noexcept { return bits_ == 0; }

private:
  std::uint8_t bits_ = 0;
};

struct field {
  std::string name;
  std::string value;
};

/// Small, ordered, may hold a name more than once; look-up finds the first.
class fields {
public:
  void add(std::string name, std::string value) { list_.push_back({std::move(name), std::move(value)}); }
  /// Names are compared as they are.
  [[nodiscard]] std::optional<std::string_view> find(std::string_view name) const noexcept;
  /// For header names: letter case does not matter.
  [[nodiscard]] std::optional<std::string_view> find_any_case(std::string_view name) const noexcept;
  [[nodiscard]] const std::vector<field>& list() const noexcept { return list_; }
  void reserve(std::size_t count) { list_.reserve(count); }

private:
  std::vector<field> list_;
};

struct request {
  std::string method;  ///< "GET"; a HEAD request reaches the GET handler as "HEAD"
  std::string path;    ///< as sent: still percent-encoded, without the query
  fields query;        ///< decoded
  fields headers;
  fields params;  ///< the route's {names}, decoded
  std::string body;
  std::string remote;  ///< "127.0.0.1:40122"
  role_set granted;

  [[nodiscard]] std::optional<std::string_view> header(std::string_view name) const noexcept {
    return headers.find_any_case(name);
  }
  [[nodiscard]] std::optional<std::string_view> query_value(std::string_view name) const noexcept {
    return query.find(name);
  }
  /// Empty for a name that the route does not have.
  [[nodiscard]] std::string_view param(std::string_view name) const noexcept {
    return params.find(name).value_or(std::string_view{});
  }
  /// Where an event stream that broke off wants to go on; empty: from now.
  [[nodiscard]] std::string_view last_event_id() const noexcept {
    return header("Last-Event-ID").value_or(std::string_view{});
  }
};

/// Content-Length, Date and Connection are the server's business. Line breaks in header values become blanks, so that
/// no item can smuggle a header into its answer.
struct response {
  int status = 200;
  std::string content_type;  ///< empty: no Content-Type line
  std::vector<field> headers{};
  std::string body{};
};

[[nodiscard]] response json_response(std::string text, int status = 200);
[[nodiscard]] response text_response(std::string text, int status = 200);
[[nodiscard]] response empty_response(int status = 204);

/// RFC 9457: application/problem+json with type, title, status, detail and code, which is the errc's name.
[[nodiscard]] response problem(const error& cause, std::chrono::seconds retry_after = std::chrono::seconds{1});
/// The same for what is no errc; `code` is a word for programs ("method_not_allowed").
[[nodiscard]] response problem(int status, std::string_view code, std::string_view detail);

[[nodiscard]] int status_of(errc code) noexcept;
[[nodiscard]] std::string_view reason_of(int status) noexcept;

/// One event of an event stream. Every line of `data` gets its own "data:", as the format demands.
[[nodiscard]] std::string sse_event(std::string_view data, std::string_view event = {}, std::string_view id = {});

/// nothing for a broken escape or an encoded NUL.
[[nodiscard]] std::optional<std::string> percent_decode(std::string_view text, bool plus_is_blank = false);
/// nothing when any part is broken.
[[nodiscard]] std::optional<fields> parse_query(std::string_view text);
[[nodiscard]] bool equal_any_case(std::string_view a, std::string_view b) noexcept;

}  // namespace caravan::http
