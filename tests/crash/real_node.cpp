#include "tests/crash/real_node.hpp"

#include <curl/curl.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>

namespace caravan::crash {

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;

void fail(const std::string& what) {
  std::fprintf(stdout, "FAILED: %s\n", what.c_str());
  std::fflush(stdout);
  std::_Exit(1);
}

void require(bool holds, const std::string& what) {
  if (!holds) fail(what);
}

void write_file(const std::filesystem::path& path, std::string_view text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.close();
  require(!out.fail(), path.string() + " cannot be written");
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return std::move(text).str();
}

std::uint64_t number_of(const char* variable, std::uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text && *text ? std::strtoull(text, nullptr, 10) : otherwise;
}

std::map<std::string, int> line_counts(const std::filesystem::path& file) {
  std::map<std::string, int> times;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) ++times[line];
  return times;
}

real_node::real_node(std::string program, std::filesystem::path work)
    : program_(std::move(program)), work_(std::move(work)) {
  std::filesystem::create_directories(work_);
}

real_node::~real_node() {
  if (pid_ > 0) kill9();
}

void real_node::start() {
  std::filesystem::remove(work_ / "port");
  const auto config = (work_ / "node.ini").string();
  const auto port_file = (work_ / "port").string();
  const auto log = (work_ / "node.log").string();
  const auto parent = ::getpid();
  // Other threads run: between fork and exec only calls that are safe in a signal handler.
  pid_ = ::fork();
  require(pid_ >= 0, "fork");
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(126);
    const int out = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    ::dup2(out, STDOUT_FILENO);
    ::dup2(out, STDERR_FILENO);
    ::execl(program_.c_str(), "caravan", "node", "--config", config.c_str(), "--port-file", port_file.c_str(), nullptr);
    ::_exit(127);
  }
}

void real_node::wait_until_up() {
  for (const auto end = clock::now() + 30s; clock::now() < end; std::this_thread::sleep_for(2ms)) {
    // Its line break comes last: a number that is half there is not taken.
    if (const auto text = read_file(work_ / "port"); text.ends_with('\n')) {
      port_ = std::atoi(text.c_str());
      return;
    }
    if (const int code = reap(WNOHANG); code >= 0)
      fail("the node ended with " + std::to_string(code) + " at its start; its log:\n" + log());
  }
  fail("the node does not serve after 30 s; its log:\n" + log());
}

void real_node::kill9() {
  port_ = 0;
  ::kill(pid_, SIGKILL);
  const int code = reap(0);
  require(code == 128 + SIGKILL, "the node had ended by itself with " + std::to_string(code) + "; its log:\n" + log());
}

int real_node::stop() {
  port_ = 0;
  ::kill(pid_, SIGTERM);
  return wait_for_end(30s);
}

int real_node::wait_for_end(std::chrono::seconds patience) {
  for (const auto end = clock::now() + patience; clock::now() < end; std::this_thread::sleep_for(5ms))
    if (const int code = reap(WNOHANG); code >= 0) return code;
  fail("the node does not end; its log:\n" + log());
}

int real_node::reap(int options) {
  int status = 0;
  if (::waitpid(pid_, &status, options) != pid_) return -1;
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

http_client::http_client()
    : curl_(curl_easy_init()), json_header_(curl_slist_append(nullptr, "Content-Type: application/json")) {
  require(curl_ != nullptr, "curl_easy_init");
}

http_client::~http_client() {
  curl_easy_cleanup(static_cast<CURL*>(curl_));
  curl_slist_free_all(static_cast<curl_slist*>(json_header_));
}

answer http_client::call(int port, const std::string& path, const std::string* body) {
  auto* const curl = static_cast<CURL*>(curl_);
  answer result;
  const auto url = "http://127.0.0.1:" + std::to_string(port) + path;
  curl_easy_reset(curl);  // keeps the connections
  curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_NOPROXY, "*");
  curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, 120'000L);
  if (body) {
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, static_cast<curl_slist*>(json_header_));
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE, static_cast<long>(body->size()));
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body->c_str());
  }
  const auto write = +[](char* data, std::size_t one, std::size_t n, void* to) -> std::size_t {
    static_cast<std::string*>(to)->append(data, one * n);
    return one * n;
  };
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, write);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &result.text);
  if (curl_easy_perform(curl) != CURLE_OK) return {};  // an answer that broke off is none
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &result.status);
  result.body = nlohmann::json::parse(result.text, nullptr, false);
  return result;
}

void empty_queue(http_client& http, int port, const std::string& queue, std::chrono::seconds patience) {
  const auto path = "/v1/queues/" + queue;
  answer a;
  for (const auto end = clock::now() + patience; clock::now() < end; std::this_thread::sleep_for(50ms)) {
    http.post(port, path + "/flush", {{"timeout", std::to_string(patience.count()) + "s"}});
    a = http.get(port, path);
    if (a.status != 200) fail(path + ": " + std::to_string(a.status) + " " + a.text);
    bool is_empty = true;
    for (const auto* state : {"waiting", "running", "delayed", "dead"}) is_empty = is_empty && a.body.at(state) == 0;
    if (is_empty) return;
  }
  fail("queue " + queue + " does not get empty: " + a.text);
}

}  // namespace caravan::crash
