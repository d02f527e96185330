// A queue on LevelDB moves between real nodes that joined by address. First while both work, there and back; then with
// the old or the new owner killed (-9) by itself at each step of the move, and started again. Each time exactly one
// node must be the queue's home afterwards, and every job whose push was acknowledged must be handled.
//
// CARAVAN_STEP: only this one, as "source:freeze". CARAVAN_ITEMS: only a move of so many items, while both nodes push
// and handle.

#include "tests/crash/real_node.hpp"
#include "tests/support/temp_folder.hpp"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <set>
#include <thread>

using namespace caravan::crash;
using namespace caravan::testing_support;
using namespace std::chrono_literals;
using nlohmann::json;
using steady = std::chrono::steady_clock;

namespace {

int free_port() {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof a;
  require(::bind(fd, reinterpret_cast<sockaddr*>(&a), size) == 0 &&
              ::getsockname(fd, reinterpret_cast<sockaddr*>(&a), &size) == 0,
          "a free port");
  ::close(fd);
  return ntohs(a.sin_port);
}

struct cluster {
  temp_folder folder;
  std::string program;
  std::array<std::unique_ptr<real_node>, 2> nodes;
  const std::array<std::string, 2> names{"earth", "mars"};
  std::string handled;

  explicit cluster(const std::string& caravan) : program(caravan), handled((folder.path() / "handled").string()) {
    write_file(folder.path() / "handle.sh", R"sh(exec sed -n 's/^{"id":"\([^"]*\)".*/\1/p' >>"$1")sh");
    const std::array<int, 2> ports{free_port(), free_port()};
    for (std::size_t i = 0; i < 2; ++i) {
      const auto work = folder.path() / names[i];
      nodes[i] = std::make_unique<real_node>(program, work);
      write_file(work / "node.ini",
                 "[node]\nNAME = " + names[i] + "\nDATA_DIR = " + (work / "data").string() +
                     "\n[http]\nADDR = 127.0.0.1:0\n[log]\nFORMAT = json\n[cluster]\nADDR = 127.0.0.1:" +
                     std::to_string(ports[i]) + "\nJOIN = 127.0.0.1:" + std::to_string(ports[1 - i]) +
                     "\n[queue]\nTYPE = level\nMAX_WORKERS = 2\nLEASE = 2s\nSHUTDOWN_TIMEOUT = "
                     "100ms\n[queue.load]\nLENGTH = 5000000\nBATCH_LENGTH = 100\n"
                     "HANDLER = exec:sh " +
                     (folder.path() / "handle.sh").string() + " " + handled + "\n");
    }
  }
  void start(std::size_t i, const std::string& kill_at = {}) {
    if (kill_at.empty())
      ::unsetenv("MOVE_TEST_KILL");
    else
      ::setenv("MOVE_TEST_KILL", kill_at.c_str(), 1);
    nodes[i]->start();
    nodes[i]->wait_until_up();
  }
  [[nodiscard]] std::string logs() const { return nodes[0]->log() + "\n----\n" + nodes[1]->log(); }
};

/// Who owns the queue by the word of node `i`; empty when it cannot say.
std::string owner_by(http_client& http, cluster& c, std::size_t i) {
  const auto a = http.get(c.nodes[i]->port(), "/v1/queues/load");
  if (a.status != 200 || a.body.value("phase", "") == "standby") return {};
  return a.body.value("owner", "");
}

template <class Condition>
void wait_for(cluster& c, const std::string& what, Condition holds, std::chrono::seconds patience = 40s,
              const answer* last = nullptr) {
  for (const auto end = steady::now() + patience; steady::now() < end; std::this_thread::sleep_for(20ms))
    if (holds()) return;
  fail(what + (last ? ": " + last->text : "") + "\n" + c.logs().substr(0, 12'000));
}

/// Both say the same.
std::string settled_owner(http_client& http, cluster& c) {
  std::string owner;
  wait_for(c, "no node is the home of the queue", [&] {
    owner = owner_by(http, c, 0);
    return !owner.empty() && owner == owner_by(http, c, 1);
  });
  return owner;
}

/// A node that has just come may have no way to the other for a moment.
void move(http_client& http, cluster& c, std::size_t asked, const std::string& to) {
  wait_for(c, "the move is refused", [&] {
    const auto a = http.post(c.nodes[asked]->port(), "/v1/queues/load/move", {{"to", to}});
    require(a.status == 202 || a.status == 503 || a.status == 0,
            "the move was answered with " + std::to_string(a.status) + " " + a.text + "\n" + c.logs());
    return a.status != 503;
  });
}

struct acknowledged {
  std::mutex mutex;
  std::set<std::string> ids;
  std::chrono::milliseconds longest{0};
  std::uint64_t pushes = 0, refused = 0;
};

/// To whichever node answers, with the same idempotency keys until one does.
void push_jobs(const std::stop_token& stop, cluster& c, std::size_t first, acknowledged& r) {
  http_client http;
  for (std::uint64_t n = 0; !stop.stop_requested(); ++n) {
    json body = json::array();
    for (int i = 0; i < 5; ++i) {
      const auto name = std::to_string(first) + "-" + std::to_string(n) + "-" + std::to_string(i);
      body.push_back({{"payload", name}, {"idempotency_key", name}});
    }
    const auto begun = steady::now();
    for (std::size_t i = first;; ++i) {
      const int port = c.nodes[i % 2]->port();
      const auto a = port == 0 ? answer{} : http.post(port, "/v1/queues/load/jobs", body);
      if (a.status == 201) {
        const std::lock_guard lock(r.mutex);
        for (const auto& one : a.body.at("jobs")) r.ids.insert(one.at("id"));
        ++r.pushes;
        r.longest = std::max(r.longest, std::chrono::ceil<std::chrono::milliseconds>(steady::now() - begun));
        break;
      }
      if (a.status != 0) ++r.refused;
      if (a.status == 400 || a.status == 401 || a.status == 413) fail("a push was answered with " + a.text);
      std::this_thread::sleep_for(10ms);
    }
    std::this_thread::sleep_for(3ms);
  }
}

std::pair<std::uint64_t, std::uint64_t> check_handled(http_client& http, cluster& c, const acknowledged& r,
                                                      std::chrono::seconds patience = 40s) {
  answer last;
  wait_for(
      c, "the queue does not become empty",
      [&] {
        last = http.get(c.nodes[0]->port(), "/v1/queues/load");
        return last.status == 200 && last.body.value("phase", "") == "running" && last.body.at("waiting") == 0 &&
               last.body.at("running") == 0 && last.body.at("delayed") == 0;
      },
      patience, &last);
  const auto times = line_counts(c.handled);
  std::uint64_t lost = 0, again = 0;
  for (const auto& id : r.ids)
    if (!times.contains(id) && lost++ < 10) std::printf("  lost: %s\n", id.c_str());
  for (const auto& [id, n] : times)
    if (n > 1) ++again;
  return {lost, again};
}

void there_and_back(const std::string& program) {
  cluster c(program);
  c.start(0);
  c.start(1);
  http_client http;
  auto owner = settled_owner(http, c);
  acknowledged r;
  int moves = 0;
  {
    std::jthread a([&](const std::stop_token& s) { push_jobs(s, c, 0, r); });
    std::jthread b([&](const std::stop_token& s) { push_jobs(s, c, 1, r); });
    for (; moves < 6; ++moves) {
      const auto to = owner == "earth" ? "mars" : "earth";
      std::this_thread::sleep_for(300ms);
      move(http, c, static_cast<std::size_t>(moves % 2), to);
      wait_for(c, std::string("the queue did not move to ") + to,
               [&] { return owner_by(http, c, 0) == to && owner_by(http, c, 1) == to; });
      owner = to;
    }
  }
  const auto [lost, again] = check_handled(http, c, r);
  std::printf(
      "there and back: moves=%d acknowledged=%zu lost=%llu handled_twice=%llu refused=%llu longest_push_ms=%lld\n",
      moves, r.ids.size(), static_cast<unsigned long long>(lost), static_cast<unsigned long long>(again),
      static_cast<unsigned long long>(r.refused), static_cast<long long>(r.longest.count()));
  std::fflush(stdout);
  require(r.ids.size() > 100, "nothing was tried");
  require(lost == 0, "acknowledged jobs were lost\n" + c.logs());
  require(again == 0, "jobs were handled twice because of a move\n" + c.logs());
  require(r.refused == 0, "producers saw errors");
  for (auto& n : c.nodes) require(n->stop() == 0, "a node does not end with 0\n" + c.logs());
}

void killed_at(const std::string& program, const std::string& step) {
  cluster c(program);
  const bool old_owner = step.starts_with("source:");
  c.start(0, old_owner ? step : "");
  c.start(1, old_owner ? "" : step);
  http_client http;
  require(settled_owner(http, c) == "earth", "the first node is not the home");
  acknowledged r;
  const std::size_t victim = old_owner ? 0 : 1;
  std::string owner;
  {
    std::jthread a([&](const std::stop_token& s) { push_jobs(s, c, 0, r); });
    std::jthread b([&](const std::stop_token& s) { push_jobs(s, c, 1, r); });
    std::this_thread::sleep_for(200ms);
    move(http, c, 0, "mars");
    const int code = c.nodes[victim]->wait_for_end(20s);
    require(code == 128 + SIGKILL, step + ": the node ended with " + std::to_string(code) + "\n" + c.logs());
    std::this_thread::sleep_for(500ms);
    c.start(victim);
    owner = settled_owner(http, c);
    std::this_thread::sleep_for(300ms);
  }
  const auto [lost, again] = check_handled(http, c, r);
  std::printf("%-18s home=%-5s acknowledged=%zu lost=%llu handled_twice=%llu longest_push_ms=%lld\n", step.c_str(),
              owner.c_str(), r.ids.size(), static_cast<unsigned long long>(lost),
              static_cast<unsigned long long>(again), static_cast<long long>(r.longest.count()));
  std::fflush(stdout);
  require(lost == 0, step + ": acknowledged jobs were lost\n" + c.logs());
  // Neither side's record may say otherwise after the next start.
  for (auto& n : c.nodes) require(n->stop() == 0, step + ": a node does not end with 0\n" + c.logs());
}

/// Minutes, and a gigabyte: by hand.
void large(const std::string& program, std::uint64_t items) {
  cluster c(program);
  c.start(0);
  c.start(1);
  http_client http;
  require(settled_owner(http, c) == "earth", "the first node is not the home");
  const int port = c.nodes[0]->port();
  require(http.post(port, "/v1/queues/load/pause", json::object()).status / 100 == 2, "the queue cannot be paused");
  acknowledged r;
  for (std::uint64_t n = 0; n < items; n += 1'000) {
    json body = json::array();
    for (std::uint64_t i = n; i < n + 1'000; ++i)
      body.push_back({{"payload", {{"n", i}, {"text", std::string(80, 'x')}}}});
    const auto a = http.post(port, "/v1/queues/load/jobs", body);
    require(a.status == 201, "a push was answered with " + a.text);
    for (const auto& one : a.body.at("jobs")) r.ids.insert(one.at("id"));
  }
  require(http.post(port, "/v1/queues/load/resume", json::object()).status / 100 == 2, "the queue cannot be resumed");
  const auto begun = steady::now();
  {
    std::jthread a([&](const std::stop_token& s) { push_jobs(s, c, 0, r); });
    std::jthread b([&](const std::stop_token& s) { push_jobs(s, c, 1, r); });
    std::this_thread::sleep_for(500ms);
    move(http, c, 0, "mars");
    wait_for(
        c, "the queue did not move", [&] { return owner_by(http, c, 0) == "mars" && owner_by(http, c, 1) == "mars"; },
        300s);
  }
  const auto moves = http.get(c.nodes[0]->port(), "/v1/cluster/moves");
  std::printf("%s\n", moves.text.c_str());
  const auto left = http.get(c.nodes[1]->port(), "/v1/queues/load");
  std::printf("moved after %lld ms, %s waiting still\n",
              static_cast<long long>(std::chrono::ceil<std::chrono::milliseconds>(steady::now() - begun).count()),
              left.body.at("waiting").dump().c_str());
  std::fflush(stdout);
  const auto [lost, again] = check_handled(http, c, r, 400s);
  std::printf("items=%zu lost=%llu handled_twice=%llu refused=%llu longest_push_ms=%lld\n", r.ids.size(),
              static_cast<unsigned long long>(lost), static_cast<unsigned long long>(again),
              static_cast<unsigned long long>(r.refused), static_cast<long long>(r.longest.count()));
  require(lost == 0 && again == 0, "items were lost or handled twice");
}

}  // namespace

int main(int argc, char** argv) {
  require(argc == 2, "call it with the path of caravan");
  curl_global_init(CURL_GLOBAL_DEFAULT);
  if (const auto items = number_of("CARAVAN_ITEMS", 0); items > 0) {
    large(argv[1], items);
    return 0;
  }
  const char* only = std::getenv("CARAVAN_STEP");
  if (!only) there_and_back(argv[1]);
  for (const auto* step : {"source:prepare", "source:copy", "source:freeze", "source:rest", "source:image",
                           "source:decide", "source:decided", "source:tell", "target:prepare", "target:rows",
                           "target:image", "target:promised", "target:activate", "target:active"})
    if (!only || std::string(only) == step) killed_at(argv[1], step);
}
