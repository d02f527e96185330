#include "integration/http_client/http_answer.hpp"

#include "integration/process/handler_json.hpp"

#include <caravan/error.hpp>

#include <curl/curl.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <new>

namespace caravan::http_client {

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using kind = item_outcome::kind;

constexpr std::size_t shown_body = 512;

/// The items that a 207 hands back, or why its body cannot be read.
expected<std::vector<bool>> unhandled_items(const batch& work, const answer& got) {
  const auto refuse = [](std::string why) { return error{errc::invalid_argument, std::move(why)}; };
  if (got.is_cut) return refuse("its body is longer than the limit of " + std::to_string(got.body.size()) + " bytes");
  const auto json = nlohmann::json::parse(got.body, nullptr, false);
  if (json.is_discarded()) return refuse("its body is not JSON");
  const auto list = json.find("unhandled");
  if (!json.is_object() || list == json.end() || !list->is_array())
    return refuse("its body has no array \"unhandled\"");
  const handlers::item_names names(work);
  std::vector<bool> named(work.items->size());
  for (const auto& entry : *list) {
    if (!entry.is_string()) return refuse("\"unhandled\" holds something that is not a string");
    const auto& id = entry.get_ref<const std::string&>();
    const auto index = names.find(id);
    if (!index)
      return refuse("\"unhandled\" names \"" + handlers::readable(id.substr(0, 200)) +
                    "\", which is not in this batch");
    named[*index] = true;
  }
  return named;
}

}  // namespace

std::string request_body(const batch& work, const run_context& ctx) {
  std::string body = "{\"queue\":";
  handlers::append_json_string(body, work.queue);
  body += ",\"token\":\"" + std::to_string(work.token) + "\",\"node\":";
  handlers::append_json_string(body, ctx.node);
  if (const auto deadline = handlers::deadline_text(ctx); !deadline.empty())
    body += ",\"deadline\":\"" + deadline + "\"";
  body += ",\"items\":[";
  bool first = true;
  for (const auto& item : *work.items) {
    if (!first) body += ',';
    first = false;
    handlers::append_item_json(body, work.queue, item);
  }
  body += "]}";
  return body;
}

std::string signature(std::string_view secret, std::int64_t unix_seconds, std::string_view body) {
  const auto time = std::to_string(unix_seconds);
  auto signed_text = time + ".";
  signed_text += body;
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned length = 0;
  const auto* done =
      ::HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
             reinterpret_cast<const unsigned char*>(signed_text.data()), signed_text.size(), digest.data(), &length);
  if (done == nullptr) throw std::bad_alloc();  // the only way left for it to fail
  auto result = "t=" + time + ",v1=";
  for (unsigned i = 0; i < length; ++i) {
    constexpr std::string_view hex = "0123456789abcdef";
    result += hex[digest[i] >> 4];
    result += hex[digest[i] & 15];
  }
  return result;
}

std::optional<milliseconds> parse_retry_after(std::string_view value, wall_time now, milliseconds longest) {
  constexpr auto blanks = " \t";
  value.remove_prefix(std::min(value.find_first_not_of(blanks), value.size()));
  value = value.substr(0, value.find_last_not_of(blanks) + 1);
  if (value.empty()) return std::nullopt;
  const auto most = std::chrono::duration_cast<seconds>(longest).count();
  if (value.find_first_not_of("0123456789") == std::string_view::npos) {
    std::int64_t number = 0;
    for (const char digit : value) {
      number = number * 10 + (digit - '0');
      if (number >= most) return longest;
    }
    return seconds(number);
  }
  // curl_getdate also takes numbers and words alone ("-5", "Monday"); an HTTP date has a time of day.
  if (value.find(':') == std::string_view::npos) return std::nullopt;
  const auto date = ::curl_getdate(std::string(value).c_str(), nullptr);
  if (date == -1) return std::nullopt;
  // Compared as seconds: a date may be farther away than milliseconds can count.
  const auto left = static_cast<std::int64_t>(date) - std::chrono::floor<seconds>(now).time_since_epoch().count();
  if (left >= most) return longest;
  if (left <= 0) return milliseconds(0);
  return std::chrono::sys_seconds(seconds(date)) - now;
}

std::string header_value(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c > ' ' && c < 0x7F && c != '%') {
      result += c;
      continue;
    }
    constexpr std::string_view hex = "0123456789ABCDEF";
    const auto byte = static_cast<unsigned char>(c);
    result += '%';
    result += hex[byte >> 4];
    result += hex[byte & 15];
  }
  return result;
}

batch_result to_result(const batch& work, const answer& got, std::string_view who, wall_time now,
                       milliseconds longest_delay) {
  const auto size = work.items->size();
  const auto text = [&] {
    auto result = std::string(who) + " answered " + std::to_string(got.status);
    if (got.status >= 300 && got.status < 400 && !got.location.empty())
      result += ": a redirection, which is not followed; set HANDLER to the new address";
    if (const auto said = handlers::readable(std::string_view(got.body).substr(0, shown_body)); !said.empty())
      result += ": " + said;
    return result;
  };
  const auto delay = parse_retry_after(got.retry_after, now, longest_delay).value_or(milliseconds(0));
  if (got.status == 207) {
    const auto named = unhandled_items(work, got);
    if (!named) return whole_batch(size, kind::failed, std::string(who) + " answered 207, but " + named.failure().text);
    batch_result result;
    for (std::uint32_t i = 0; i < size; ++i)
      if ((*named)[i]) result.push_back({i, kind::unhandled, "", {}});
    return result;
  }
  if (got.status >= 200 && got.status < 300) return {};
  if (got.status == 409 || got.status == 410) return whole_batch(size, kind::rejected, text());
  if (got.status == 429 || got.status == 503) return whole_batch(size, kind::later, text(), delay);
  return whole_batch(size, kind::failed, text(), delay);
}

}  // namespace caravan::http_client
