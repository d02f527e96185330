// One real node on a real Redis that restarts, freezes, vanishes behind a black hole, forgets its scripts, becomes read-only,
// runs out of memory and answers errors at random, under load. After each: work flows within 5 s, readiness was red meanwhile, nothing that was
// acknowledged is lost beyond what `appendfsync everysec` states, no unique item is there twice, no key is left that nobody owns.
//
// CARAVAN_FREEZE, CARAVAN_BLACK_HOLE: seconds (2 and 3; the long ones take minutes).

#include "tests/crash/real_node.hpp"
#include "tests/support/redis_proxy.hpp"
#include "tests/support/redis_server.hpp"
#include "tests/support/temp_folder.hpp"

#include <curl/curl.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
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

struct record {
  std::mutex mutex;
  std::map<std::string, clock_type::time_point> ids;  ///< acknowledged, and when
  std::atomic<std::uint64_t> refused{0}, failed{0};
  [[nodiscard]] std::size_t size() {
    const std::lock_guard lock(mutex);
    return ids.size();
  }
};

/// Each job once more with the same key until it is acknowledged.
void push_jobs(const std::stop_token& stop, const real_node& node, const std::string& queue, record& r) {
  http_client http;
  for (std::uint64_t n = 0; !stop.stop_requested(); ++n) {
    json body{{"payload", n}, {"idempotency_key", queue + std::to_string(n)}};
    if (queue == "once") body["key"] = "k" + std::to_string(n % 50);
    for (;;) {
      const auto a = http.post(node.port(), "/v1/queues/" + queue + "/jobs", body);
      if (a.status == 201) {
        const std::lock_guard lock(r.mutex);
        r.ids[a.body.at("id")] = clock_type::now();
        break;
      }
      if (a.status == 409 && a.body.value("code", "") == "already_in_queue") {
        ++r.refused;
        break;
      }
      if (a.status != 0 && a.status != 429 && a.status != 503 && a.status != 409 && a.status != 504)
        fail("a push was answered with " + std::to_string(a.status) + " " + a.text);
      ++r.failed;
      if (stop.stop_requested()) return;
      std::this_thread::sleep_for(20ms);
    }
    std::this_thread::sleep_for(2ms);
  }
}

std::uint64_t handled_count(const std::filesystem::path& file) {
  std::uint64_t n = 0;
  for (const auto& [line, times] : line_counts(file)) n += static_cast<std::uint64_t>(times);
  return n;
}

double ms_since(clock_type::time_point t) { return std::chrono::duration<double, std::milli>(clock_type::now() - t).count(); }

}  // namespace

int main(int argc, char** argv) {
  require(argc == 2, "call it with the path of caravan");
  curl_global_init(CURL_GLOBAL_DEFAULT);
  redis_server redis;
  redis_proxy proxy(redis.port());
  const temp_folder folder;
  const auto work = folder.path();
  const auto handled = work / "handled";
  write_file(work / "handle.sh", R"sh(exec sed -n 's/^{"id":"\([^"]*\)".*/\1/p' >>"$1")sh");
  const auto handler = "HANDLER = exec:sh " + (work / "handle.sh").string() + " " + handled.string() + "\n";
  write_file(work / "node.ini", "[node]\nNAME = earth\nDATA_DIR = " + (work / "data").string() +
                                    "\n[http]\nADDR = 127.0.0.1:0\n[log]\nFORMAT = json\n[redis]\nCONN_STR = redis://127.0.0.1:" +
                                    std::to_string(proxy.port()) +
                                    "/0\n[cluster]\nOWNER_LEASE = 2s\n[queue]\nTYPE = redis\nMAX_WORKERS = 2\nPUSH_TIMEOUT = 200ms\n[queue.load]\n" + handler +
                                    "[queue.once]\nUNIQUE = true\nUNIQUE_UNTIL = done\n" + handler);
  real_node node(argv[1], work);
  node.start();
  node.wait_until_up();
  http_client http;
  const auto ready = [&] { return http.get(node.port(), "/readyz").status == 200; };
  require(eventually(ready), "the node does not become ready");
  caravan::redis_client direct(redis.options());

  record r;
  std::size_t slow = 0;
  std::set<std::string> may_be_lost;
  {
    std::jthread load([&](const std::stop_token& stop) { push_jobs(stop, node, "load", r); });
    std::jthread once([&](const std::stop_token& stop) { push_jobs(stop, node, "once", r); });

    // `breaks`, then after `lasting` `mends`. Red in between where calls cannot succeed.
    const auto trouble = [&](const char* name, bool turns_red, std::chrono::milliseconds lasting, const std::function<void()>& breaks,
                             const std::function<void()>& mends) {
      const auto acknowledged = r.size();
      require(eventually([&] { return r.size() > acknowledged + 20; }), std::string("no flow before: ") + name);
      const auto began = clock_type::now();
      breaks();
      bool red = false;
      if (turns_red) red = eventually([&] { return !ready(); }, std::max<std::chrono::milliseconds>(lasting, 10s));
      std::this_thread::sleep_until(began + lasting);
      mends();
      const auto mended = clock_type::now();
      const auto pushed = r.size();
      const auto done = handled_count(handled);
      const bool flows = eventually([&] { return r.size() > pushed + 5 && handled_count(handled) > done + 5; }, 20s);
      const auto flow_ms = ms_since(mended);
      const bool green = eventually(ready, 20s);
      std::printf("%-12s red=%s flow_again_ms=%.0f green_ms=%.0f\n", name, turns_red ? (red ? "yes" : "NO") : "-", flow_ms, ms_since(mended));
      std::fflush(stdout);
      if (!flows || !green || (turns_red && !red)) std::printf("%s\n", node.log().c_str());
      require(flows, std::string(name) + ": no work flows after it");
      require(green, std::string(name) + ": readiness stays red");
      require(!turns_red || red, std::string(name) + ": readiness was never red");
      if (flow_ms > 5000) ++slow;
    };

    trouble("scripts", false, 0ms, [&] { (void)direct.command({"SCRIPT", "FLUSH"}); }, [] {});
    trouble("restart", true, 500ms, [&] { redis.stop(); }, [&] { redis.start(); });
    trouble("kill -9", true, 500ms,
            [&] {
              // What was acknowledged within the last moments need not be on the disk.
              redis.kill9();
              const std::lock_guard lock(r.mutex);
              for (const auto& [id, at] : r.ids)
                if (at > clock_type::now() - 2s) may_be_lost.insert(id);
            },
            [&] { redis.start(); });
    trouble("freeze", true, std::chrono::seconds(number_of("CARAVAN_FREEZE", 2)), [&] { redis.freeze(); }, [&] { redis.thaw(); });
    trouble("black hole", true, std::chrono::seconds(number_of("CARAVAN_BLACK_HOLE", 3)), [&] { proxy.set(redis_proxy::mode::black_hole); },
            [&] { proxy.set(redis_proxy::mode::pass); });
    trouble("refused", true, 2s, [&] { proxy.set(redis_proxy::mode::refuse); }, [&] { proxy.set(redis_proxy::mode::pass); });
    trouble("read-only", true, 2s, [&] { (void)direct.command({"REPLICAOF", "127.0.0.1", "1"}); },
            [&] {
              // A replica is refused by the client itself, so another way in is needed.
              require(std::system(("redis-cli -p " + std::to_string(redis.port()) + " replicaof no one >/dev/null").c_str()) == 0, "redis-cli");
            });
    trouble("maxmemory", true, 2s, [&] { (void)direct.command({"CONFIG", "SET", "maxmemory", "1"}); },
            [&] { (void)direct.command({"CONFIG", "SET", "maxmemory", "0"}); });
    trouble("errors", false, 3s, [&] { proxy.set(redis_proxy::mode::errors, 0.3); }, [&] { proxy.set(redis_proxy::mode::pass); });
    trouble("lost replies", false, 3s, [&] { proxy.set(redis_proxy::mode::lose_replies, 0.1); }, [&] { proxy.set(redis_proxy::mode::pass); });
  }
  empty_queue(http, node.port(), "load", 60s);
  empty_queue(http, node.port(), "once", 60s);
  const auto times = line_counts(handled);
  std::size_t lost = 0, lost_unsynced = 0;
  for (const auto& [id, at] : r.ids)
    if (!times.contains(id)) ++(may_be_lost.contains(id) ? lost_unsynced : lost);
  json again = json::array();
  for (int i = 0; i < 50; ++i) again.push_back({{"payload", "again"}, {"key", "k" + std::to_string(i)}});
  const auto a = http.post(node.port(), "/v1/queues/once/jobs", again);
  require(a.status == 201, "the keys cannot be pushed again: " + a.text);
  std::size_t phantoms = 0;
  for (const auto& one : a.body.at("jobs"))
    if (!one.at("stored")) ++phantoms;
  empty_queue(http, node.port(), "once", 60s);
  require(node.stop() == 0, "the node does not end with 0");
  std::size_t left = 0;
  const auto keys = direct.command({"KEYS", "*"}).value();
  for (const auto& k : keys.items) {
    const auto& name = k.text;
    if (direct.command({"PTTL", name})->number >= 0 || name.ends_with("}:meta") || name.find("}:idempotency") != std::string::npos) continue;
    std::printf("  left in Redis: %s\n", name.c_str());
    ++left;
  }
  std::printf("acknowledged=%zu handled=%zu failed_pushes=%llu lost=%zu lost_within_everysec=%zu phantom_keys=%zu left_in_redis=%zu injected=%zu slow=%zu\n",
              r.ids.size(), times.size(), static_cast<unsigned long long>(r.failed.load()), lost, lost_unsynced, phantoms, left, proxy.injected(), slow);
  std::fflush(stdout);
  require(lost == 0, "acknowledged jobs were lost");
  require(phantoms == 0, "unique keys are held by nobody");
  require(left == 0, "something is left in Redis");
  require(slow == 0, "work took longer than 5 s to flow again");
}
