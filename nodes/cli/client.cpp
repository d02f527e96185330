#include "nodes/cli/client.hpp"

#include "config/check.hpp"
#include "config/environment.hpp"
#include "config/read_settings.hpp"

#include <curl/curl.h>

#include <cstdio>
#include <cstdlib>

namespace caravan::cli {

namespace {

constexpr std::size_t most_answer = 256u << 20;

std::size_t take(char* data, std::size_t one, std::size_t n, void* into) {
  auto& text = *static_cast<std::string*>(into);
  if (text.size() + one * n > most_answer) return 0;
  text.append(data, one * n);
  return one * n;
}

std::string environment(const char* name) {
  const auto* value = std::getenv(name);
  return value ? value : "";
}

void read_config(const std::string& file, std::string& url, std::string& token) {
  auto loaded = config::load_configuration(file, config::process_environment());
  if (!loaded) throw stop(exit_usage, loaded.failure().text);
  config::problems found;
  const auto h = config::read_http_settings(loaded->content, found);
  if (config::has_errors(found)) throw stop(exit_usage, config::to_string(found));
  if (url.empty()) {
    auto host = h.host.empty() || h.host == "0.0.0.0" || h.host == "::" ? std::string("127.0.0.1") : h.host;
    if (host.find(':') != std::string::npos) host = "[" + host + "]";
    url = "http://" + host + ":" + std::to_string(h.port);
  }
  if (token.empty())
    for (const auto* t : {&h.admin_token, &h.work_token, &h.push_token, &h.read_token})
      if (token.empty()) token = *t;
}

}  // namespace

client::client(const arguments& given)
    : url_(given.get("--node")), token_(given.get("--token", environment("CARAVAN_TOKEN"))) {
  if (const auto file = given.find("--config")) read_config(*file, url_, token_);
  if (url_.empty()) url_ = environment("CARAVAN_NODE");
  if (url_.empty()) url_ = "http://127.0.0.1:7171";
  if (url_.find("://") == std::string::npos) url_ = "http://" + url_;
  while (url_.ends_with('/')) url_.pop_back();
  curl_global_init(CURL_GLOBAL_DEFAULT);
  curl_ = curl_easy_init();
  if (!curl_) throw stop(exit_refused, "libcurl cannot be set up");
}

client::~client() {
  curl_easy_cleanup(static_cast<CURL*>(curl_));
  curl_global_cleanup();
}

http_answer client::send(const http_call& call) {
  auto* curl = static_cast<CURL*>(curl_);
  curl_easy_reset(curl);  // keeps the connection
  http_answer answer;
  char why[CURL_ERROR_SIZE] = "";
  const auto url = url_ + call.path;
  curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_PROXY, "");  // nodes are near; a proxy for the outside world cannot reach loopback
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, 5'000L);
  curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, static_cast<long>(call.timeout.count()));
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, why);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &answer.body);
  curl_slist* headers = nullptr;
  const auto add = [&headers](const std::string& line) { headers = curl_slist_append(headers, line.c_str()); };
  add("Expect:");  // no extra round trip before a large body
  if (!token_.empty()) add("Authorization: Bearer " + token_);
  if (!call.idempotency_key.empty()) add("Idempotency-Key: " + call.idempotency_key);
  if (call.method != "GET") {
    add("Content-Type: " + call.content_type);
    curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, call.method.c_str());
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, call.body.data());
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(call.body.size()));
  }
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
  const auto code = curl_easy_perform(curl);
  curl_slist_free_all(headers);
  if (code != CURLE_OK)
    throw stop(exit_no_node, "no node answers at " + url_ + ": " + (why[0] != '\0' ? why : curl_easy_strerror(code)) +
                                 "; start one with `caravan node`, or name another with --node");
  long status = 0;
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
  answer.status = static_cast<int>(status);
  return answer;
}

namespace {

struct following {
  CURL* curl = nullptr;
  const std::function<bool(std::string_view)>& take;
  std::string refusal{};
  bool enough = false;
};

std::size_t take_part(char* data, std::size_t one, std::size_t n, void* into) {
  auto& f = *static_cast<following*>(into);
  long status = 0;
  curl_easy_getinfo(f.curl, CURLINFO_RESPONSE_CODE, &status);
  if (status != 200) return take(data, one, n, &f.refusal);
  f.enough = !f.take({data, one * n});
  return f.enough ? 0 : one * n;
}

}  // namespace

bool client::follow(const std::string& path, const std::string& last_event_id,
                    std::function<bool(std::string_view)> take) {
  auto* curl = static_cast<CURL*>(curl_);
  curl_easy_reset(curl);
  char why[CURL_ERROR_SIZE] = "";
  const auto url = url_ + path;
  following f{curl, take};
  curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_PROXY, "");
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, 5'000L);
  // A node says every 15 s that it lives.
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, 45L);
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, why);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take_part);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &f);
  curl_slist* headers = curl_slist_append(nullptr, "Accept: text/event-stream");
  if (!token_.empty()) headers = curl_slist_append(headers, ("Authorization: Bearer " + token_).c_str());
  if (!last_event_id.empty()) headers = curl_slist_append(headers, ("Last-Event-ID: " + last_event_id).c_str());
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
  const auto code = curl_easy_perform(curl);
  curl_slist_free_all(headers);
  if (f.enough) return true;
  long status = 0;
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
  if (status != 0 && status != 200) throw stop(exit_refused, words_of({static_cast<int>(status), f.refusal}));
  if (status == 200) return false;
  throw stop(exit_no_node, "no node answers at " + url_ + ": " + (why[0] != '\0' ? why : curl_easy_strerror(code)) +
                               "; start one with `caravan node`, or name another with --node");
}

nlohmann::ordered_json client::ask(const http_call& call) {
  const auto answer = send(call);
  if (answer.status < 200 || answer.status > 299) throw stop(exit_refused, words_of(answer));
  auto value = nlohmann::ordered_json::parse(answer.body, nullptr, false);
  if (value.is_discarded())
    throw stop(exit_refused, url_ + " answers with something that is no JSON; is it a Caravan node?");
  return value;
}

std::string words_of(const http_answer& answer) {
  const auto body = nlohmann::json::parse(answer.body, nullptr, false);
  auto text = body.is_object() ? body.value("detail", "") : std::string{};
  if (text.empty()) text = "the node answers with status " + std::to_string(answer.status);
  if (answer.status == 401) text += " (give --token or CARAVAN_TOKEN)";
  return text;
}

void print_json(const nlohmann::ordered_json& value) {
  std::printf("%s\n", value.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace).c_str());
}

}  // namespace caravan::cli
