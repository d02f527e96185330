// A real node pushes and handles over Sentinel while the master is killed (-9) again and again; the replica takes over.
// Replication is asynchronous: what was acknowledged in the last moments before a kill may be lost, and nothing else.
//
// CARAVAN_FAILOVERS: how many (2).

#include "tests/crash/real_node.hpp"
#include "tests/support/redis_server.hpp"
#include "tests/support/temp_folder.hpp"

#include <curl/curl.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <mutex>
#include <set>
#include <thread>

using namespace caravan::crash;
using namespace caravan::testing_support;
using namespace std::chrono_literals;
using nlohmann::json;
using clock_type = std::chrono::steady_clock;

namespace {

/// What may be lost: the replica of this test is on the same machine and lags by milliseconds.
constexpr auto loss_window = 1s;

struct record {
  std::mutex mutex;
  std::map<std::string, clock_type::time_point> ids;
  [[nodiscard]] std::size_t size() {
    const std::lock_guard lock(mutex);
    return ids.size();
  }
};

void push_jobs(const std::stop_token& stop, const real_node& node, record& r) {
  http_client http;
  for (std::uint64_t n = 0; !stop.stop_requested(); ++n) {
    const json body{{"payload", n}, {"idempotency_key", std::to_string(n)}};
    for (;;) {
      const auto a = http.post(node.port(), "/v1/queues/load/jobs", body);
      if (a.status == 201) {
        const std::lock_guard lock(r.mutex);
        r.ids[a.body.at("id")] = clock_type::now();
        break;
      }
      if (a.status != 0 && a.status != 503 && a.status != 409 && a.status != 504) fail("a push was answered with " + std::to_string(a.status) + " " + a.text);
      if (stop.stop_requested()) return;
      std::this_thread::sleep_for(20ms);
    }
    std::this_thread::sleep_for(1ms);
  }
}

bool replica_is_there(redis_server& s) {
  caravan::redis_client c(s.options());
  const auto info = c.command({"INFO", "replication"});
  return info && info->text.find("state=online") != std::string::npos;
}

}  // namespace

int main(int argc, char** argv) {
  require(argc == 2, "call it with the path of caravan");
  curl_global_init(CURL_GLOBAL_DEFAULT);
  const auto failovers = static_cast<int>(number_of("CARAVAN_FAILOVERS", 2));
  std::map<std::uint16_t, std::unique_ptr<redis_server>> servers;
  auto first = std::make_unique<redis_server>();
  auto master = first->port();
  servers[master] = std::move(first);
  auto second = std::make_unique<redis_server>(std::vector<std::string>{"--replicaof", "127.0.0.1 " + std::to_string(master)});
  servers[second->port()] = std::move(second);

  const temp_folder folder;
  const auto work = folder.path();
  const auto conf = (work / "sentinel.conf").string();
  const auto port = spare_port();
  write_file(conf, "sentinel monitor main 127.0.0.1 " + std::to_string(master) +
                       " 1\nsentinel down-after-milliseconds main 500\nsentinel failover-timeout main 3000\n");
  child_server sentinel;
  sentinel.start({"redis-server", conf, "--sentinel", "--port", std::to_string(port), "--bind", "127.0.0.1"}, (work / "sentinel.log").string());
  require(eventually([&] { return read_file(work / "sentinel.log").find("+slave ") != std::string::npos && replica_is_there(*servers[master]); }, 60s),
          "the sentinel does not see the replica");

  const auto handled = work / "handled";
  write_file(work / "handle.sh", R"sh(exec sed -n 's/^{"id":"\([^"]*\)".*/\1/p' >>"$1")sh");
  write_file(work / "node.ini", "[node]\nNAME = earth\nDATA_DIR = " + (work / "data").string() +
                                    "\n[http]\nADDR = 127.0.0.1:0\n[log]\nFORMAT = json\n[redis]\nCONN_STR = redis-sentinel://127.0.0.1:" +
                                    std::to_string(port) + "/0?master_name=main\n[cluster]\nOWNER_LEASE = 2s\n[queue.load]\nTYPE = redis\nMAX_WORKERS = 2\nHANDLER = exec:sh " +
                                    (work / "handle.sh").string() + " " + handled.string() + "\n");
  real_node node(argv[1], work);
  node.start();
  node.wait_until_up();
  record r;
  std::set<std::string> may_be_lost;
  http_client http;
  {
    std::jthread load([&](const std::stop_token& stop) { push_jobs(stop, node, r); });
    for (int i = 0; i < failovers; ++i) {
      const auto before = r.size();
      require(eventually([&] { return r.size() > before + 300; }), "no flow before the kill");
      servers[master]->kill9();
      {
        const std::lock_guard lock(r.mutex);
        for (const auto& [id, at] : r.ids)
          if (at > clock_type::now() - loss_window) may_be_lost.insert(id);
      }
      const auto killed = clock_type::now();
      const auto old = master;
      for (const auto& [p, s] : servers)
        if (p != old) master = p;
      const auto is_master = [&] {
        caravan::redis_options o = servers[master]->options();
        o.give_up_after = 1ms;
        caravan::redis_client c(o);
        return c.command({"PING"}).has_value();  // a replica is refused
      };
      require(eventually(is_master, 60s), "no failover");
      const auto promoted = clock_type::now();
      const auto pushed = r.size();
      require(eventually([&] { return r.size() > pushed + 20; }), "no flow after the failover");
      std::printf("failover %d: promoted after %.1f s, flow %.2f s later\n", i + 1, std::chrono::duration<double>(promoted - killed).count(),
                  std::chrono::duration<double>(clock_type::now() - promoted).count());
      std::fflush(stdout);
      require(clock_type::now() - promoted < 5s, "flow came back too late");
      servers[old]->start();  // the sentinel makes it a replica
      require(eventually([&] { return replica_is_there(*servers[master]); }, 60s), "the old master does not become a replica");
    }
  }
  empty_queue(http, node.port(), "load", 60s);
  require(node.stop() == 0, "the node does not end with 0");
  const auto times = line_counts(handled);
  std::size_t lost = 0, lost_in_window = 0;
  for (const auto& [id, at] : r.ids)
    if (!times.contains(id)) ++(may_be_lost.contains(id) ? lost_in_window : lost);
  std::printf("failovers=%d acknowledged=%zu handled=%zu lost=%zu lost_within_the_window=%zu\n", failovers, r.ids.size(), times.size(), lost, lost_in_window);
  require(lost == 0, "acknowledged jobs were lost outside the window");
}
