// Executables that abort, hang, answer rubbish or leave children behind, on a real node: each has its defined end, and
// its neighbours are handled. And a second node on the same data folder.

#include "tests/crash/real_node.hpp"
#include "tests/support/temp_folder.hpp"

#include <curl/curl.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

using namespace caravan::crash;
using namespace std::chrono_literals;
using nlohmann::json;

namespace {

using clock = std::chrono::steady_clock;

template <class Condition>
bool eventually(Condition holds, std::chrono::seconds patience = 20s) {
  for (const auto end = clock::now() + patience; clock::now() < end; std::this_thread::sleep_for(10ms))
    if (holds()) return true;
  return false;
}

// Each item says what happens to it.
constexpr auto script = R"(work=$1
read -r item
case $item in
  *'"payload":"abort"'*) kill -ABRT $$ ;;
  *'"payload":"hang"'*) sleep 300 & echo "$$ $!" >>"$work/hung"; wait ;;
  *'"payload":"rubbish"'*) head -c 3000000 /dev/urandom; echo; echo "$CARAVAN_QUEUE.0000000000000"; echo '{"unhandled":[1'; exit 0 ;;
  *'"payload":"rubbish and 3"'*) head -c 100000 /dev/urandom; echo "nothing works" >&2; exit 3 ;;
  *'"payload":"leaves a child"'*) sleep 30 & echo "$!" >"$work/child" ;;
esac
echo "$CARAVAN_JOB_ID" >>"$work/handled"
)";

struct case_of {
  const char* queue;
  const char* payload;
  std::vector<std::string> error;  ///< what last_error must hold; empty: the item is handled
};

}  // namespace

int main(int argc, char** argv) {
  require(argc == 2, "call it with the path of caravan");
  curl_global_init(CURL_GLOBAL_DEFAULT);
  const caravan::testing_support::temp_folder folder;
  const auto work = folder.path();
  const std::vector<case_of> rounds = {
      {"aborts", "abort", {"exec:sh", "killed by signal 6 (SIGABRT)"}},
      {"hangs", "hang", {"exec:sh", "timed out after 3", "and was killed"}},
      {"babbles", "rubbish", {}},
      {"babbles-and-fails", "rubbish and 3", {"exited with 3", "stderr: nothing works"}},
      {"forks", "leaves a child", {}},
  };
  write_file(work / "handle.sh", script);
  std::string ini = "[node]\nNAME = bad\nDATA_DIR = " + (work / "data").string() +
                    "\n[http]\nADDR = 127.0.0.1:0\n[log]\nFORMAT = json\n"
                    "[queue]\nMAX_ATTEMPTS = 2\nBATCH_LENGTH = 1\nMAX_WORKERS = 2\nREQUEUE_DELAY = 10ms\n"
                    "HANDLER = exec:sh " +
                    (work / "handle.sh").string() + " " + work.string() + "\n";
  for (const auto& r : rounds) ini += "[queue." + std::string(r.queue) + "]\n";
  ini += "[queue.hangs]\nTIMEOUT = 300ms\n[queue.neighbour]\n";
  write_file(work / "node.ini", ini);
  real_node node(argv[1], work);
  node.start();
  node.wait_until_up();
  http_client http;
  const auto push = [&](const std::string& queue, const std::string& payload) {
    const auto a = http.post(node.port(), "/v1/queues/" + queue + "/jobs", {{"payload", payload}});
    require(a.status == 201, "push to " + queue + ": " + a.text);
    return a.body.at("id").get<std::string>();
  };
  const auto is_handled = [&](const std::string& id) {
    return read_file(work / "handled").find(id + "\n") != std::string::npos;
  };

  std::vector<std::string> bad, good;
  for (const auto& r : rounds) {
    good.push_back(push(r.queue, "good"));
    bad.push_back(push(r.queue, r.payload));
    good.push_back(push(r.queue, "good"));
    good.push_back(push("neighbour", "good"));
  }
  for (const auto& id : good)
    require(eventually([&] { return is_handled(id); }), "not handled: " + id + "\n" + node.log());

  for (std::size_t i = 0; i < rounds.size(); ++i) {
    const auto& r = rounds[i];
    answer a;
    const std::string end = r.error.empty() ? "handled" : "dead";
    const bool came = eventually([&] {
      a = http.get(node.port(), "/v1/jobs/" + bad[i]);
      return a.status == 200 && a.body.at("state") == end;
    });
    require(came, std::string(r.queue) + ": it is not " + end + ": " + a.text + "\n" + node.log());
    if (!r.error.empty()) require(a.body.at("attempts") == 2, std::string(r.queue) + ": attempts: " + a.text);
    for (const auto& part : r.error)
      require(a.body.at("last_error").get<std::string>().find(part) != std::string::npos,
              std::string(r.queue) + ": last_error lacks \"" + part + "\": " + a.text);
    const auto q = http.get(node.port(), "/v1/queues/" + std::string(r.queue)).body;
    require(q.at("waiting") == 0 && q.at("running") == 0 && q.at("delayed") == 0 && q.at("abandoned") == 0 &&
                q.at("dead") == (r.error.empty() ? 0 : 1),
            std::string(r.queue) + ": " + q.dump());
    std::printf("%-18s %s%s%s\n", r.queue, end.c_str(), r.error.empty() ? "" : ": ",
                r.error.empty() ? "" : a.body.at("last_error").get<std::string>().c_str());
  }

  // A hung program is killed with its children; each attempt left a line with both.
  int hung = 0;
  for (std::istringstream in(read_file(work / "hung")); !in.eof();) {
    pid_t pid = 0;
    if (!(in >> pid)) break;
    ++hung;
    require(eventually([&] { return ::kill(pid, 0) != 0; }),
            "process " + std::to_string(pid) + " outlives its timeout");
  }
  require(hung == 4, "two attempts with two processes each, not " + std::to_string(hung));
  // One that runs on after its parent's normal exit is left alone, and nobody waits for it.
  const auto child = static_cast<pid_t>(std::atoi(read_file(work / "child").c_str()));
  require(child > 0 && ::kill(child, 0) == 0, "the child that a handler left is gone");
  ::kill(child, SIGKILL);

  // A second node on the same data is refused, at once, and does the first no harm.
  const auto first = node.pid();
  {
    const auto other = work / "second";
    real_node second(argv[1], other);
    write_file(other / "node.ini", ini);
    second.start();
    const int code = second.wait_for_end(20s);
    const auto text = second.log();
    require(code == 1, "the second node ended with " + std::to_string(code) + ": " + text);
    require(text.find((work / "data").string() + " is in use by the node with process id " + std::to_string(first)) !=
                std::string::npos,
            "the second node says: " + text);
    std::printf("second node        %s", text.c_str());
  }
  const auto last = push("neighbour", "good");
  require(eventually([&] { return is_handled(last); }), "the first node no longer works");
  require(node.stop() == 0, "the node does not end with 0");
  std::printf("all have their end, and the neighbours were handled\n");
}
