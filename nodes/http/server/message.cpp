#include "nodes/http/server/message.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace caravan::http {

namespace {

constexpr char lower(char c) noexcept { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

constexpr int hex_digit(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  if (lower(c) >= 'a' && lower(c) <= 'f') return lower(c) - 'a' + 10;
  return -1;
}

}  // namespace

std::string_view to_string(role r) noexcept {
  switch (r) {
    case role::anyone:
      return "anyone";
    case role::read:
      return "read";
    case role::push:
      return "push";
    case role::work:
      return "work";
    case role::admin:
      return "admin";
  }
  return "unknown";
}

bool role_set::allows(role needed) const noexcept {
  const auto has = [this](role r) { return (bits_ >> static_cast<unsigned>(r) & 1u) != 0; };
  if (needed == role::anyone || has(needed) || has(role::admin)) return true;
  return needed == role::read && (has(role::push) || has(role::work));
}

bool equal_any_case(std::string_view a, std::string_view b) noexcept {
  return a.size() == b.size() &&
         std::equal(a.begin(), a.end(), b.begin(), [](char x, char y) { return lower(x) == lower(y); });
}

std::optional<std::string_view> fields::find(std::string_view name) const noexcept {
  for (const auto& f : list_)
    if (f.name == name) return f.value;
  return std::nullopt;
}

std::optional<std::string_view> fields::find_any_case(std::string_view name) const noexcept {
  for (const auto& f : list_)
    if (equal_any_case(f.name, name)) return f.value;
  return std::nullopt;
}

response json_response(std::string text, int status) { return {status, "application/json", {}, std::move(text)}; }

response text_response(std::string text, int status) {
  return {status, "text/plain; charset=utf-8", {}, std::move(text)};
}

response empty_response(int status) { return {status, "", {}, ""}; }

int status_of(errc code) noexcept {
  switch (code) {
    case errc::already_in_queue:
      return 409;
    case errc::queue_full:
      return 429;
    case errc::queue_closed:
      return 503;
    case errc::too_large:
      return 413;
    case errc::backend_failed:
      return 503;
    case errc::fenced:
      return 409;
    case errc::not_found:
      return 404;
    case errc::invalid_argument:
      return 400;
    case errc::timed_out:
      return 504;
    case errc::not_supported:
      return 501;
    case errc::conflict:
      return 409;
    case errc::unauthorized:
      return 401;
    case errc::forbidden:
      return 403;
  }
  return 500;  // a code from a newer node
}

std::string_view reason_of(int status) noexcept {
  switch (status) {
    case 200:
      return "OK";
    case 201:
      return "Created";
    case 202:
      return "Accepted";
    case 204:
      return "No Content";
    case 206:
      return "Partial Content";
    case 207:
      return "Multi-Status";
    case 301:
      return "Moved Permanently";
    case 302:
      return "Found";
    case 303:
      return "See Other";
    case 304:
      return "Not Modified";
    case 307:
      return "Temporary Redirect";
    case 308:
      return "Permanent Redirect";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 406:
      return "Not Acceptable";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 410:
      return "Gone";
    case 412:
      return "Precondition Failed";
    case 413:
      return "Content Too Large";
    case 415:
      return "Unsupported Media Type";
    case 417:
      return "Expectation Failed";
    case 421:
      return "Misdirected Request";
    case 422:
      return "Unprocessable Content";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 502:
      return "Bad Gateway";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "Status";
  }
}

response problem(int status, std::string_view code, std::string_view detail) {
  const nlohmann::ordered_json body{
      {"type", "about:blank"}, {"title", reason_of(status)}, {"status", status}, {"detail", detail}, {"code", code}};
  // Details quote what callers sent, which need not be UTF-8.
  return {status, "application/problem+json", {}, body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)};
}

response problem(const error& cause, std::chrono::seconds retry_after) {
  auto answer = problem(status_of(cause.code), caravan::to_string(cause.code), cause.text);
  // A full queue drains and a broken backend comes back: the caller should know that trying again makes sense.
  if (answer.status == 429 || answer.status == 503)
    answer.headers.push_back({"Retry-After", std::to_string(retry_after.count())});
  if (answer.status == 401) answer.headers.push_back({"WWW-Authenticate", "Bearer realm=\"caravan\""});
  return answer;
}

std::string sse_event(std::string_view data, std::string_view event, std::string_view id) {
  std::string text;
  text.reserve(data.size() + event.size() + id.size() + 32);
  const auto line = [&text](std::string_view name, std::string_view value) {
    text.append(name).append(": ").append(value.substr(0, value.find_first_of("\r\n"))).push_back('\n');
  };
  if (!id.empty()) line("id", id);
  if (!event.empty()) line("event", event);
  for (;;) {
    const auto end = data.find_first_of("\r\n");
    line("data", data.substr(0, end));
    if (end == std::string_view::npos) break;
    data.remove_prefix(end + (data.substr(end, 2) == "\r\n" ? 2 : 1));
  }
  text.push_back('\n');
  return text;
}

std::optional<std::string> percent_decode(std::string_view text, bool plus_is_blank) {
  std::string plain;
  plain.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    auto c = text[i];
    if (c == '%') {
      if (text.size() - i < 3) return std::nullopt;
      const auto high = hex_digit(text[i + 1]);
      const auto low = hex_digit(text[i + 2]);
      if (high < 0 || low < 0) return std::nullopt;
      c = static_cast<char>(high * 16 + low);
      if (c == '\0') return std::nullopt;  // C interfaces further in would see another name
      i += 2;
    } else if (c == '+' && plus_is_blank) {
      c = ' ';
    }
    plain.push_back(c);
  }
  return plain;
}

std::optional<fields> parse_query(std::string_view text) {
  fields found;
  while (!text.empty()) {
    const auto end = std::min(text.find('&'), text.size());
    const auto pair = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (pair.empty()) continue;
    const auto middle = std::min(pair.find('='), pair.size());
    auto name = percent_decode(pair.substr(0, middle), true);
    auto value = percent_decode(pair.substr(std::min(middle + 1, pair.size())), true);
    if (!name || !value) return std::nullopt;
    found.add(std::move(*name), std::move(*value));
  }
  return found;
}

}  // namespace caravan::http
