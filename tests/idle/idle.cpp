// 50 queues with handlers that have worked once, and then nothing: the CPU time of the whole node.
// CARAVAN_IDLE_SECONDS: how long it is watched (5). The goal is under 0.5 % of a core over a minute; a few seconds on a
// machine with other work are good for a coarse guard only.

#include "tests/crash/real_node.hpp"
#include "tests/support/temp_folder.hpp"

#include <curl/curl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>

using namespace caravan::crash;
using namespace std::chrono_literals;

namespace {

constexpr int queues = 50;

struct process_facts {
  double cpu_seconds = 0;
  long threads = 0;
  long wakeups = 0;  ///< how often a thread waited for something
};

process_facts facts_of(pid_t pid) {
  const auto text = read_file("/proc/" + std::to_string(pid) + "/stat");
  // The name in brackets may hold blanks; field 3 is behind it.
  std::istringstream in(text.substr(text.rfind(')') + 2));
  std::string skipped;
  for (int field = 3; field < 14; ++field) in >> skipped;
  double user = 0, system = 0;
  in >> user >> system;
  for (int field = 16; field < 20; ++field) in >> skipped;
  process_facts f;
  in >> f.threads;
  require(!in.fail(), "/proc/PID/stat cannot be read: " + text);
  f.cpu_seconds = (user + system) / static_cast<double>(::sysconf(_SC_CLK_TCK));
  for (const auto& thread : std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/task")) {
    const auto status = read_file(thread.path() / "status");
    constexpr std::string_view name = "\nvoluntary_ctxt_switches:";
    if (const auto at = status.find(name); at != std::string::npos) f.wakeups += std::atol(status.c_str() + at + name.size());
  }
  return f;
}

}  // namespace

int main(int argc, char** argv) {
  require(argc == 2, "call it with the path of caravan");
  curl_global_init(CURL_GLOBAL_DEFAULT);
  const char* set = std::getenv("CARAVAN_IDLE_SECONDS");
  const int seconds = set && std::atoi(set) > 0 ? std::atoi(set) : 5;
  const caravan::testing_support::temp_folder folder;
  const auto work = folder.path();
  std::string ini = "[node]\nNAME = idle\nDATA_DIR = " + (work / "data").string() +
                    "\n[http]\nADDR = 127.0.0.1:0\n[queue]\nHANDLER = exec:true\nMAX_WORKERS = 4\nLEASE = 1s\n";
  for (int i = 0; i < queues; ++i) ini += "[queue.q" + std::to_string(i) + "]\n";
  write_file(work / "node.ini", ini);
  real_node node(argv[1], work);
  node.start();
  node.wait_until_up();
  http_client http;
  for (int i = 0; i < queues; ++i) {
    const auto name = "q" + std::to_string(i);
    const auto a = http.post(node.port(), "/v1/queues/" + name + "/jobs", {{{"payload", 1}}, {{"payload", 2}}});
    require(a.status == 201, "push: " + a.text);
    empty_queue(http, node.port(), name, 20s);
  }
  std::this_thread::sleep_for(3s);  // beyond WORKER_IDLE, LEASE and the interval of SYNC

  const auto before = facts_of(node.pid());
  const auto begun = std::chrono::steady_clock::now();
  std::this_thread::sleep_for(std::chrono::seconds(seconds));
  const auto after = facts_of(node.pid());
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
  const double percent = 100 * (after.cpu_seconds - before.cpu_seconds) / took.count();
  std::printf("queues=%d seconds=%.1f cpu_s=%.2f percent_of_a_core=%.3f threads=%ld wakeups=%ld\n", queues, took.count(),
              after.cpu_seconds - before.cpu_seconds, percent, after.threads, after.wakeups - before.wakeups);
  require(node.stop() == 0, "the node does not end with 0");
  const double most = seconds >= 60 ? 0.5 : 3;
  require(percent < most, "an idle node takes more than " + std::to_string(most) + " % of a core");
}
