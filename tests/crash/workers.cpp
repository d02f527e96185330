// Worker processes that claim over HTTP are killed (-9), frozen and started anew under load, and the node's own lease
// is short. Every job that a push acknowledged is handled; one is handled twice only where a lease was lost.
//
// CARAVAN_SECONDS: how long (10). CARAVAN_SEED: repeats the moments of a run.

#include "tests/crash/real_node.hpp"
#include "tests/support/temp_folder.hpp"

#include <curl/curl.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <vector>

using namespace caravan::crash;
using namespace std::chrono_literals;
using nlohmann::json;
using clock_type = std::chrono::steady_clock;

namespace {

class worker_process {
public:
  worker_process(std::string program, int port, std::string handler, std::string log)
      : program_(std::move(program)),
        join_("127.0.0.1:1,127.0.0.1:" + std::to_string(port)),  // the first never answers
        handler_(std::move(handler)),
        log_(std::move(log)) {}
  ~worker_process() {
    if (pid_ > 0) end(SIGKILL);
  }
  worker_process(const worker_process&) = delete;
  worker_process& operator=(const worker_process&) = delete;

  void start() {
    const auto parent = ::getpid();
    pid_ = ::fork();
    require(pid_ >= 0, "fork");
    if (pid_ > 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(126);
    const int out = ::open(log_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    ::dup2(out, STDOUT_FILENO);
    ::dup2(out, STDERR_FILENO);
    ::execl(program_.c_str(), "caravan", "worker", "--join", join_.c_str(), "--queue", "load", "--concurrency", "3",
            "--batch", "5", "--lease", "1s", "--handler", handler_.c_str(), nullptr);
    ::_exit(127);
  }
  void signal(int which) const { ::kill(pid_, which); }
  int end(int which) {
    ::kill(pid_, which);
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

private:
  std::string program_, join_, handler_, log_;
  pid_t pid_ = -1;
};

void push_numbers(const std::stop_token& stop, int port, int thread, std::set<std::string>& ids, std::mutex& mutex) {
  http_client http;
  for (int n = 0; !stop.stop_requested(); ++n) {
    auto jobs = json::array();
    for (int i = 0; i < 10; ++i)
      jobs.push_back({{"payload", std::to_string(thread) + "-" + std::to_string(10 * n + i)}});
    const auto a = http.post(port, "/v1/queues/load/jobs", jobs);
    if (a.status == 429) continue;
    require(a.status == 201, "a push was answered with " + std::to_string(a.status) + " " + a.text);
    const std::lock_guard lock(mutex);
    for (const auto& j : a.body.at("jobs")) ids.insert(j.at("id"));
    std::this_thread::sleep_for(20ms);
  }
}

}  // namespace

int main(int argc, char** argv) {
  require(argc == 2, "call it with the path of caravan");
  curl_global_init(CURL_GLOBAL_DEFAULT);
  const auto seconds = number_of("CARAVAN_SECONDS", 10);
  const auto seed = number_of("CARAVAN_SEED", std::random_device{}());
  std::printf("CARAVAN_SEED=%llu CARAVAN_SECONDS=%llu\n", static_cast<unsigned long long>(seed),
              static_cast<unsigned long long>(seconds));
  std::fflush(stdout);
  std::mt19937_64 random(seed);
  const caravan::testing_support::temp_folder folder;
  const std::filesystem::path work = folder.path();
  write_file(work / "handle.sh", R"sh(exec sed -n 's/^{"id":"\([^"]*\)".*/\1/p' >>"$1")sh");
  const auto handled = (work / "handled").string();
  write_file(work / "node.ini",
             "[node]\nNAME = crash\nDATA_DIR = " + (work / "data").string() +
                 "\n[http]\nADDR = 127.0.0.1:0\n[queue.load]\nLENGTH = 20000\nPUSH_TIMEOUT = 200ms\n");
  real_node node(argv[1], work);
  node.start();
  node.wait_until_up();
  std::vector<std::unique_ptr<worker_process>> workers;
  for (int i = 0; i < 3; ++i) {
    workers.push_back(std::make_unique<worker_process>(argv[1], node.port(),
                                                       "exec:sh " + (work / "handle.sh").string() + " " + handled,
                                                       (work / ("worker" + std::to_string(i))).string()));
    workers.back()->start();
  }
  std::set<std::string> ids;
  std::mutex mutex;
  int kills = 0, freezes = 0;
  {
    std::vector<std::jthread> pushers;
    for (int thread = 0; thread < 2; ++thread)
      pushers.emplace_back(
          [&, thread](const std::stop_token& stop) { push_numbers(stop, node.port(), thread, ids, mutex); });
    for (const auto end = clock_type::now() + std::chrono::seconds(seconds); clock_type::now() < end;) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100 + random() % 500));
      auto& w = *workers[random() % workers.size()];
      if (random() % 2 == 0) {
        w.end(SIGKILL);
        w.start();
        ++kills;
      } else {
        w.signal(SIGSTOP);
        std::this_thread::sleep_for(std::chrono::milliseconds(random() % 2'500));  // its lease is 1 s
        w.signal(SIGCONT);
        ++freezes;
      }
    }
  }
  http_client http;
  empty_queue(http, node.port(), "load", 120s);
  for (auto& w : workers) require(w->end(SIGTERM) == 0, "a worker does not end with 0");
  const auto st = http.get(node.port(), "/v1/queues/load");
  const auto times = line_counts(handled);
  std::uint64_t lost = 0, twice = 0;
  for (const auto& id : ids) lost += times.contains(id) ? 0 : 1;
  for (const auto& [id, n] : times) twice += static_cast<std::uint64_t>(n - 1);
  const auto redelivered = st.body.at("leases_lost").get<std::uint64_t>();
  std::printf("kills=%d freezes=%d acknowledged=%zu handled=%zu twice=%llu leases_lost=%llu lost=%llu\n", kills,
              freezes, ids.size(), times.size(), static_cast<unsigned long long>(twice),
              static_cast<unsigned long long>(redelivered), static_cast<unsigned long long>(lost));
  require(!ids.empty(), "nothing was pushed");
  require(lost == 0, "acknowledged jobs were not handled");
  require(twice <= redelivered, "jobs were handled twice although no lease of theirs was lost");
  require(node.stop() == 0, "the node does not end with 0");
}
