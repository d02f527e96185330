#pragma once

#include <caravan/node.hpp>

#include "tests/support/eventually.hpp"
#include "tests/support/temp_folder.hpp"

#include <curl/curl.h>
#include <nlohmann/json.hpp>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace caravan::testing_support {

using json = nlohmann::json;

struct answer {
  int status = 0;
  std::string text;
  std::string headers;
  json body;

  [[nodiscard]] std::string code() const { return body.is_object() ? body.value("code", "none") : "no json"; }
  /// By value: CAF's checks keep references, and an answer is often a temporary.
  [[nodiscard]] json at(const char* name) const { return body.is_object() ? body.value(name, json{}) : json{}; }
  [[nodiscard]] std::string detail() const { return body.is_object() ? body.value("detail", "") : ""; }
};

inline std::size_t take_text(char* data, std::size_t one, std::size_t n, void* into) {
  static_cast<std::string*>(into)->append(data, one * n);
  return one * n;
}

/// A node in this process with its API, and an HTTP client.
class http_node {
public:
  /// `prepare` is called with the data folder before the node starts.
  explicit http_node(const std::string& more = {}, const std::function<void(const std::filesystem::path&)>& prepare = {})
      : node_([&] {
          if (prepare) {
            std::filesystem::create_directories(folder_.path() / "data");
            prepare(folder_.path() / "data");
          }
          node_options o;
          o.config_text = "[node]\nNAME = tester\nAUTO_CREATE = true\n[http]\nADDR = 127.0.0.1:0\n" + more;
          o.data_dir = folder_.path().string() + "/data";
          o.use_environment = false;
          o.serve_http = true;
          o.quiet = true;
          return o;
        }()) {}

  answer ask(const std::string& method, const std::string& path, const std::string& body = {},
             const std::vector<std::string>& headers = {}) {
    const std::unique_ptr<CURL, void (*)(CURL*)> curl(curl_easy_init(), curl_easy_cleanup);
    answer a;
    curl_slist* list = curl_slist_append(nullptr, "Expect:");
    for (const auto& h : headers) list = curl_slist_append(list, h.c_str());
    const auto url = "http://127.0.0.1:" + std::to_string(node_.http_port()) + path;
    curl_easy_setopt(curl.get(), CURLOPT_URL, url.c_str());
    curl_easy_setopt(curl.get(), CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl.get(), CURLOPT_PROXY, "");
    curl_easy_setopt(curl.get(), CURLOPT_TIMEOUT, 60L);
    curl_easy_setopt(curl.get(), CURLOPT_HTTPHEADER, list);
    curl_easy_setopt(curl.get(), CURLOPT_WRITEFUNCTION, take_text);
    curl_easy_setopt(curl.get(), CURLOPT_WRITEDATA, &a.text);
    curl_easy_setopt(curl.get(), CURLOPT_HEADERFUNCTION, take_text);
    curl_easy_setopt(curl.get(), CURLOPT_HEADERDATA, &a.headers);
    if (method != "GET") {
      curl_easy_setopt(curl.get(), CURLOPT_CUSTOMREQUEST, method.c_str());
      curl_easy_setopt(curl.get(), CURLOPT_POSTFIELDS, body.data());
      curl_easy_setopt(curl.get(), CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
    }
    long status = 0;
    if (curl_easy_perform(curl.get()) == CURLE_OK) curl_easy_getinfo(curl.get(), CURLINFO_RESPONSE_CODE, &status);
    curl_slist_free_all(list);
    a.status = static_cast<int>(status);
    a.body = json::parse(a.text, nullptr, false);
    return a;
  }
  answer get(const std::string& path, const std::vector<std::string>& headers = {}) {
    return ask("GET", path, {}, headers);
  }
  answer post(const std::string& path, const std::string& body = {}, const std::vector<std::string>& headers = {}) {
    return ask("POST", path, body, headers);
  }
  answer push(const std::string& queue, const std::string& body, const std::vector<std::string>& headers = {}) {
    return post("/v1/queues/" + queue + "/jobs", body, headers);
  }
  std::uint64_t count(const std::string& queue, const char* state) {
    const auto a = get("/v1/queues/" + queue);
    return a.status == 200 ? a.body.value(state, std::uint64_t{0}) : 999'999;
  }
  caravan::node& node() { return node_; }
  std::string folder() { return folder_.path(); }

private:
  temp_folder folder_;
  caravan::node node_;
};

}  // namespace caravan::testing_support
