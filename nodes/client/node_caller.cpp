#include "nodes/client/node_caller.hpp"

#include <curl/curl.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>

namespace caravan {

using namespace std::chrono_literals;

namespace {

constexpr std::size_t most_answer = 1u << 30;

void set_up_curl() {
  static const bool done = [] { return curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK; }();
  (void)done;
}

std::size_t take_body(char* data, std::size_t one, std::size_t n, void* into) {
  auto& text = *static_cast<std::string*>(into);
  if (text.size() + one * n > most_answer) return 0;
  text.append(data, one * n);
  return one * n;
}

std::size_t take_header(char* data, std::size_t one, std::size_t n, void* into) {
  std::string_view line(data, one * n);
  constexpr std::string_view name = "retry-after:";
  if (line.size() > name.size() &&
      std::equal(name.begin(), name.end(), line.begin(), [](char a, char b) { return a == (b | 0x20); })) {
    line.remove_prefix(name.size());
    while (!line.empty() && line.front() == ' ') line.remove_prefix(1);
    long seconds = 0;
    if (std::from_chars(line.data(), line.data() + line.size(), seconds).ec == std::errc())
      *static_cast<std::chrono::milliseconds*>(into) = std::chrono::seconds{std::clamp(seconds, 0l, 3600l)};
  }
  return one * n;
}

errc code_of(std::string_view word, int status) {
  for (int i = 1; i < 32; ++i)
    if (to_string(static_cast<errc>(i)) == word) return static_cast<errc>(i);
  switch (status) {
    case 401:
      return errc::unauthorized;
    case 403:
      return errc::forbidden;
    case 404:
      return errc::not_found;
    case 429:
      return errc::queue_full;
    case 503:
      return errc::backend_failed;
    case 504:
      return errc::timed_out;
    default:
      return status >= 500 ? errc::backend_failed : errc::invalid_argument;
  }
}

}  // namespace

// ---- addresses ----

expected<std::shared_ptr<node_addresses>> node_addresses::parse(std::string_view text) {
  auto list = std::make_shared<node_addresses>();
  while (!text.empty()) {
    const auto comma = text.find(',');
    std::string url(text.substr(0, comma));
    text.remove_prefix(comma == std::string_view::npos ? text.size() : comma + 1);
    std::erase(url, ' ');
    while (url.ends_with('/')) url.pop_back();
    if (url.empty()) continue;
    if (url.find("://") == std::string::npos) url = "http://" + url;
    const auto host = url.find("://") + 3;
    const auto colon = url.rfind(':');
    const auto port = colon > host && url.find(']', colon) == std::string::npos ? url.substr(colon + 1) : std::string("80");
    const bool good_port = !port.empty() && port.size() <= 5 && port.find_first_not_of("0123456789") == std::string::npos &&
                           std::stoul(port) >= 1 && std::stoul(port) <= 65535;
    if ((!url.starts_with("http://") && !url.starts_with("https://")) || host == url.size() || !good_port ||
        url.find_first_of("/?#@", host) != std::string::npos)
      return {errc::invalid_argument,
              "\"" + url + "\" is no address of a node; write HOST:PORT, http://HOST:PORT or https://HOST:PORT"};
    list->urls_.push_back(std::move(url));
  }
  if (list->urls_.empty())
    return {errc::invalid_argument, "no address of a node is given; write HOST:PORT, several with commas between"};
  return list;
}

std::vector<std::string> node_addresses::in_order() const {
  const std::lock_guard lock(mutex_);
  auto list = urls_;
  std::rotate(list.begin(), list.begin() + static_cast<std::ptrdiff_t>(first_), list.end());
  return list;
}

void node_addresses::answered(const std::string& url) {
  const std::lock_guard lock(mutex_);
  const auto at = std::find(urls_.begin(), urls_.end(), url);
  if (at != urls_.end()) first_ = static_cast<std::size_t>(at - urls_.begin());
}

void node_addresses::failed(const std::string& url) {
  const std::lock_guard lock(mutex_);
  if (urls_[first_] == url) first_ = (first_ + 1) % urls_.size();
}

std::string node_addresses::text() const {
  const std::lock_guard lock(mutex_);
  std::string all;
  for (const auto& u : urls_) all += (all.empty() ? "" : ", ") + u;
  return all;
}

// ---- calls ----

error node_reply::failure() const {
  const auto said = nlohmann::json::parse(body, nullptr, false);
  std::string text, word;
  if (said.is_object()) {
    if (const auto at = said.find("detail"); at != said.end() && at->is_string()) text = at->get<std::string>();
    if (const auto at = said.find("code"); at != said.end() && at->is_string()) word = at->get<std::string>();
  }
  if (text.empty()) text = url + " answers with status " + std::to_string(status) + "; is it a Caravan node?";
  return {code_of(word, status), text};
}

struct node_caller::engine {
  CURLM* multi = nullptr;
  CURL* easy = nullptr;
  engine() {
    set_up_curl();
    multi = curl_multi_init();
    easy = curl_easy_init();
    if (!multi || !easy) throw exception({errc::backend_failed, "libcurl cannot be set up"});
  }
  ~engine() {
    curl_easy_cleanup(easy);
    curl_multi_cleanup(multi);
  }
};

node_caller::node_caller(std::shared_ptr<node_addresses> addresses, caller_options options)
    : addresses_(std::move(addresses)), options_(std::move(options)), engine_(std::make_unique<engine>()) {}

node_caller::~node_caller() = default;

expected<node_reply> node_caller::ask(const std::string& url, const node_call& what) {
  auto* curl = engine_->easy;
  curl_easy_reset(curl);  // keeps the connections
  node_reply answer;
  answer.url = url;
  std::array<char, CURL_ERROR_SIZE> why{};
  const auto full = url + what.path;
  curl_easy_setopt(curl, CURLOPT_URL, full.c_str());
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_PROXY, "");  // nodes are near; a proxy for the outside world cannot reach them
  curl_easy_setopt(curl, CURLOPT_TCP_KEEPALIVE, 1L);
  curl_easy_setopt(curl, CURLOPT_TCP_KEEPIDLE, 10L);
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(options_.connect_timeout.count()));
  curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, static_cast<long>(what.timeout.count()));
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, why.data());
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take_body);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &answer.body);
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, take_header);
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, &answer.retry_after);
  if (!options_.tls_ca.empty()) curl_easy_setopt(curl, CURLOPT_CAINFO, options_.tls_ca.c_str());
  curl_slist* headers = curl_slist_append(nullptr, "Expect:");  // no extra round trip before a large body
  if (!options_.token.empty())
    headers = curl_slist_append(headers, ("Authorization: Bearer " + options_.token).c_str());
  if (what.method != "GET") {
    headers = curl_slist_append(headers, "Content-Type: application/json");
    curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, what.method.c_str());
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, what.body.data());
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(what.body.size()));
  }
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
  curl_multi_add_handle(engine_->multi, curl);
  CURLcode code = CURLE_OK;
  {
    const std::stop_callback wake(what.stop, [multi = engine_->multi] { curl_multi_wakeup(multi); });
    for (int running = 1; running > 0;) {
      if (what.stop.stop_requested()) {
        code = CURLE_ABORTED_BY_CALLBACK;
        break;
      }
      if (curl_multi_perform(engine_->multi, &running) != CURLM_OK) {
        code = CURLE_FAILED_INIT;
        break;
      }
      if (running > 0) curl_multi_poll(engine_->multi, nullptr, 0, 1'000, nullptr);
    }
  }
  int left = 0;
  while (const auto* m = curl_multi_info_read(engine_->multi, &left))
    if (m->msg == CURLMSG_DONE) code = m->data.result;
  curl_multi_remove_handle(engine_->multi, curl);
  curl_slist_free_all(headers);
  if (code == CURLE_ABORTED_BY_CALLBACK) return {errc::conflict, "the call was ended by this program"};
  if (code != CURLE_OK) return {errc::timed_out, url + ": " + (why[0] != '\0' ? why.data() : curl_easy_strerror(code))};
  long status = 0;
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
  answer.status = static_cast<int>(status);
  return answer;
}

expected<node_reply> node_caller::call(const node_call& what) {
  if (!what.only.empty()) return ask(what.only, what);
  std::string text;
  std::optional<node_reply> busy;
  for (const auto& url : addresses_->in_order()) {
    auto answer = ask(url, what);
    if (answer && answer->status != 503) {
      addresses_->answered(url);
      return answer;
    }
    if (answer)
      busy = std::move(*answer);
    else if (answer.failure().code == errc::conflict)
      return answer.failure();
    else
      text += (text.empty() ? "" : "; ") + answer.failure().text;
    addresses_->failed(url);
  }
  if (busy) return *busy;
  return {errc::timed_out, "no node answers: " + text};
}

std::string path_segment(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto b = static_cast<unsigned char>(c);
    if ((b >= '0' && b <= '9') || (b >= 'a' && b <= 'z') || (b >= 'A' && b <= 'Z') || b == '-' || b == '_' ||
        b == '.' || b == '~') {
      out.push_back(c);
    } else {
      constexpr std::string_view hex = "0123456789ABCDEF";
      out += {'%', hex[b >> 4], hex[b & 15]};
    }
  }
  return out;
}

}  // namespace caravan
