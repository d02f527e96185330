/// Five times the load that a server can do, over real connections, with and without overload control:
///   bench_qos [SECONDS]
/// The work is a sleep, so that what is measured is the door and not this machine.

#include "nodes/http/server/server.hpp"

#include <curl/curl.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

using namespace caravan;
using namespace std::chrono_literals;
using steady = std::chrono::steady_clock;

namespace {

constexpr std::size_t workers = 4;
constexpr auto service = 20ms;
constexpr double capacity = 200;
constexpr long patience_ms = 1000;  // an answer that comes later is of use to nobody
constexpr std::array<const char*, 3> names{"pushes", "changes", "reads"};
constexpr std::array<double, 3> offered{3.5 * capacity, 1.0 * capacity, 0.5 * capacity};

/// A few workers with one line, as long as it gets.
class backend {
public:
  backend() {
    for (std::size_t i = 0; i < workers; ++i)
      threads_.emplace_back([this](const std::stop_token& stop) { work(stop); });
  }
  void add(http::responder answer) {
    {
      const std::lock_guard guard{mutex_};
      line_.push_back(std::move(answer));
    }
    changed_.notify_one();
  }

private:
  void work(const std::stop_token& stop) {
    for (;;) {
      http::responder answer;
      {
        std::unique_lock lock{mutex_};
        if (!changed_.wait(lock, stop, [&] { return !line_.empty(); })) return;
        answer = std::move(line_.front());
        line_.pop_front();
      }
      std::this_thread::sleep_for(service);
      answer.reply(http::text_response("done"));
    }
  }
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<http::responder> line_;
  std::vector<std::jthread> threads_;
};

struct call {
  std::size_t level = 0;
  CURL* handle = nullptr;
};

struct figures {
  std::array<std::size_t, 3> asked{}, in_time{}, refused{}, late{};
  std::array<std::vector<double>, 3> took;  // milliseconds, of those in time
};

std::size_t ignore(char*, std::size_t one, std::size_t n, void*) { return one * n; }

/// Asks at its own pace, whatever comes back: strangers do not slow down because a server is busy.
figures load(std::uint16_t port, std::chrono::seconds length) {
  figures f;
  std::mt19937_64 random{1};
  const auto pause = [&](double rate) {
    return std::chrono::duration_cast<steady::duration>(
        std::chrono::duration<double>(std::exponential_distribution<double>{rate}(random)));
  };
  const auto begin = steady::now(), end = begin + length;
  std::array<steady::time_point, 3> next;
  for (std::size_t i = 0; i < 3; ++i) next[i] = begin + pause(offered[i]);
  CURLM* multi = curl_multi_init();
  curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, 2000L);
  std::vector<std::unique_ptr<call>> calls;
  const auto url = "http://127.0.0.1:" + std::to_string(port);
  std::size_t open = 0;
  while (steady::now() < end || open > 0) {
    const auto now = steady::now();
    for (std::size_t level = 0; level < 3; ++level)
      for (; next[level] <= now && next[level] < end; next[level] += pause(offered[level])) {
        auto c = std::make_unique<call>();
        c->level = level;
        c->handle = curl_easy_init();
        curl_easy_setopt(c->handle, CURLOPT_URL,
                         (url + (level == 0   ? "/push"
                                 : level == 1 ? "/change"
                                              : "/read"))
                             .c_str());
        curl_easy_setopt(c->handle, CURLOPT_TIMEOUT_MS, patience_ms);
        curl_easy_setopt(c->handle, CURLOPT_NOSIGNAL, 1L);
        curl_easy_setopt(c->handle, CURLOPT_PROXY, "");
        curl_easy_setopt(c->handle, CURLOPT_WRITEFUNCTION, ignore);
        curl_easy_setopt(c->handle, CURLOPT_PRIVATE, c.get());
        if (level < 2) curl_easy_setopt(c->handle, CURLOPT_POSTFIELDS, "");
        curl_multi_add_handle(multi, c->handle);
        ++f.asked[level];
        ++open;
        calls.push_back(std::move(c));
      }
    int running = 0;
    curl_multi_perform(multi, &running);
    int left = 0;
    while (const auto* m = curl_multi_info_read(multi, &left)) {
      if (m->msg != CURLMSG_DONE) continue;
      call* c = nullptr;
      long status = 0;
      double took = 0;
      const auto result = m->data.result;
      curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &c);
      curl_easy_getinfo(m->easy_handle, CURLINFO_RESPONSE_CODE, &status);
      curl_easy_getinfo(m->easy_handle, CURLINFO_TOTAL_TIME, &took);
      if (result != CURLE_OK) {
        ++f.late[c->level];
      } else if (status == 200) {
        ++f.in_time[c->level];
        f.took[c->level].push_back(took * 1000);
      } else {
        ++f.refused[c->level];
      }
      curl_multi_remove_handle(multi, c->handle);
      curl_easy_cleanup(std::exchange(c->handle, nullptr));
      --open;
    }
    curl_multi_poll(multi, nullptr, 0, 1, nullptr);
  }
  curl_multi_cleanup(multi);
  return f;
}

void run(const char* title, bool with_door, std::chrono::seconds length) {
  backend work;
  http::options o;
  o.max_connections = 20'000;
  if (with_door) o.overload = {true, workers, 50, 250ms};
  http::server web(std::move(o));
  const auto handle = [&](const http::request&, http::responder answer) { work.add(std::move(answer)); };
  web.route("GET", "/read", http::role::read, handle);
  web.route("POST", "/change", http::role::admin, handle);
  web.route("POST", "/push", http::role::push, handle);
  web.start().value();
  auto f = load(web.port(), length);
  const auto good =
      static_cast<double>(f.in_time[0] + f.in_time[1] + f.in_time[2]) / static_cast<double>(length.count());
  std::printf("%s: %.0f a second in time, %.0f %% of the capacity\n", title, good, 100 * good / capacity);
  for (std::size_t i = 3; i-- > 0;) {
    auto& t = f.took[i];
    std::sort(t.begin(), t.end());
    const auto at = [&](double part) {
      return t.empty() ? 0 : t[std::min(t.size() - 1, static_cast<std::size_t>(part * static_cast<double>(t.size())))];
    };
    const auto all = static_cast<double>(std::max<std::size_t>(1, f.asked[i]));
    std::printf("| %s | %zu | %.1f %% | %.1f %% | %.1f %% | %.0f | %.0f |\n", names[i], f.asked[i],
                100 * static_cast<double>(f.in_time[i]) / all, 100 * static_cast<double>(f.refused[i]) / all,
                100 * static_cast<double>(f.late[i]) / all, at(0.5), at(0.99));
  }
  web.stop(0ms);
}

}  // namespace

int main(int argc, char** argv) {
  curl_global_init(CURL_GLOBAL_DEFAULT);
  const std::chrono::seconds length{argc > 1 ? std::max(1, std::atoi(argv[1])) : 10};
  std::printf("| class | asked | in time | refused | too late | p50 ms | p99 ms |\n|---|---|---|---|---|---|---|\n");
  run("with overload control", true, length);
  run("without", false, length);
}
