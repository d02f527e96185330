// Three real nodes on one real Redis push and handle together, while one of them at random is killed (-9) and started again, or frozen
// for longer than its lease, and queues are moved by hand. What a push returned must be handled, nobody takes over what a killed or frozen owner has
// in hand before its lease has ended, and nothing stays behind.
//
// CARAVAN_ROUNDS: how many of these (12). CARAVAN_SEED: repeats the choices of a run.

#include "tests/crash/real_node.hpp"
#include "tests/support/redis_server.hpp"
#include "tests/support/temp_folder.hpp"

#include <curl/curl.h>

#include <array>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <sstream>
#include <thread>
#include <vector>

using namespace caravan::crash;
using namespace caravan::testing_support;
using namespace std::chrono_literals;
using nlohmann::json;
using wall = std::chrono::system_clock;

namespace {

constexpr auto lease = 1500ms;
constexpr int unique_keys = 100;

struct record {
  std::mutex mutex;
  std::set<std::string> ids, keys;
  std::atomic<std::uint64_t> broken{0}, refused{0}, repeated{0};
  void acknowledge(const std::string& id) {
    const std::lock_guard lock(mutex);
    ids.insert(id);
  }
};

using nodes = std::array<std::unique_ptr<real_node>, 3>;

/// To whichever node answers, with the same idempotency key until one does.
answer push(http_client& http, const nodes& all, std::size_t first, const std::string& queue, const json& body, record& r) {
  for (std::size_t i = first;; ++i) {
    const int port = all[i % all.size()]->port();
    if (port == 0) {
      std::this_thread::sleep_for(2ms);
      continue;
    }
    auto a = http.post(port, "/v1/queues/" + queue + "/jobs", body);
    if (a.status == 0) {
      ++r.broken;
      std::this_thread::sleep_for(2ms);
    } else if (a.status == 429 || a.status == 503 || (a.status == 409 && a.body.value("code", "") != "already_in_queue")) {
      std::this_thread::sleep_for(20ms);
    } else {
      return a;
    }
  }
}

void push_jobs(const std::stop_token& stop, const nodes& all, std::size_t thread, std::uint64_t seed, record& r) {
  http_client http;
  std::mt19937_64 random(seed);
  for (std::uint64_t n = 0; !stop.stop_requested();) {
    json body = json::array();
    for (auto size = 1 + random() % 20; size > 0; --size) {
      const auto name = std::to_string(thread) + "-" + std::to_string(n++);
      body.push_back({{"payload", name}, {"idempotency_key", name}});
    }
    const auto a = push(http, all, thread, "load", body, r);
    if (a.status != 201) fail("a push was answered with " + std::to_string(a.status) + " " + a.text);
    for (const auto& one : a.body.at("jobs")) {
      if (one.value("repeated", false)) ++r.repeated;
      r.acknowledge(one.at("id"));
    }
    std::this_thread::sleep_for(5ms);
  }
}

void push_unique(const std::stop_token& stop, const nodes& all, std::uint64_t seed, record& r) {
  http_client http;
  std::mt19937_64 random(seed);
  for (std::uint64_t n = 0; !stop.stop_requested(); ++n) {
    const auto key = "k" + std::to_string(random() % unique_keys);
    {
      const std::lock_guard lock(r.mutex);
      r.keys.insert(key);
    }
    const auto a = push(http, all, random() % 3, "once", {{"payload", n}, {"key", key}, {"idempotency_key", "u" + std::to_string(n)}}, r);
    if (a.status == 201)
      r.acknowledge(a.body.at("id"));
    else if (a.status == 409)
      ++r.refused;
    else
      fail("a push to the unique queue was answered with " + std::to_string(a.status) + " " + a.text);
    std::this_thread::sleep_for(2ms);
  }
}

struct call {
  std::string node;
  wall::time_point at;
  std::string id;
};

/// Lines "NODE SECONDS.NANOSECONDS ID".
std::vector<call> handled_calls(const std::filesystem::path& file) {
  std::vector<call> calls;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    call c;
    double seconds = 0;
    words >> c.node >> seconds >> c.id;
    c.at = wall::time_point(std::chrono::duration_cast<wall::duration>(std::chrono::duration<double>(seconds)));
    calls.push_back(c);
  }
  return calls;
}

/// As Redis has it: the node, and how long its lease lasts still.
std::pair<std::string, std::chrono::milliseconds> owner_of(caravan::redis_client& redis, const std::string& queue) {
  const auto key = "caravan:{" + queue + "_queue}:owner";
  const auto left = redis.command({"PTTL", key}).value().number;
  std::istringstream words(redis.command({"GET", key}).value().text);  // "EPOCH NODE INCARNATION ADDRESS"
  std::string epoch, node;
  words >> epoch >> node;
  return {node, std::chrono::milliseconds(left)};
}

/// The queue is empty for good: asked of whoever owns it.
void wait_until_empty(http_client& http, const nodes& all, const std::string& queue) {
  const auto end = std::chrono::steady_clock::now() + 120s;
  for (;;) {
    bool empty = false;
    for (const auto& n : all) {
      const auto a = http.get(n->port(), "/v1/queues/" + queue);
      if (a.status == 200 && a.body.at("phase") == "running")
        empty = a.body.at("waiting") == 0 && a.body.at("running") == 0 && a.body.at("delayed") == 0;
    }
    if (empty) return;
    require(std::chrono::steady_clock::now() < end, "queue " + queue + " does not become empty");
    std::this_thread::sleep_for(50ms);
  }
}

}  // namespace

int main(int argc, char** argv) {
  require(argc == 2, "call it with the path of caravan");
  curl_global_init(CURL_GLOBAL_DEFAULT);
  const auto rounds = static_cast<int>(number_of("CARAVAN_ROUNDS", 12));
  const auto seed = number_of("CARAVAN_SEED", std::random_device{}());
  std::printf("CARAVAN_SEED=%llu CARAVAN_ROUNDS=%d\n", static_cast<unsigned long long>(seed), rounds);
  std::fflush(stdout);
  std::mt19937_64 random(seed);

  redis_server redis;
  caravan::redis_client direct(redis.options());
  const temp_folder folder;
  const auto handled = (folder.path() / "handled").string();
  write_file(folder.path() / "handle.sh", R"sh(now=$(date +%s.%N); sleep "$3"; exec sed -n 's/^{"id":"\([^"]*\)".*/'"$2 $now"' \1/p' >>"$1")sh");
  nodes all;
  const std::array<std::string, 3> names{"earth", "mars", "venus"};
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto work = folder.path() / names[i];
    all[i] = std::make_unique<real_node>(argv[1], work);
    const auto handler = "HANDLER = exec:sh " + (folder.path() / "handle.sh").string() + " " + handled + " " + names[i];
    write_file(work / "node.ini", "[node]\nNAME = " + names[i] + "\nDATA_DIR = " + (work / "data").string() +
                                      "\n[http]\nADDR = 127.0.0.1:0\n[log]\nFORMAT = json\n[redis]\nCONN_STR = " + redis.url() +
                                      "\n[cluster]\nOWNER_LEASE = " + std::to_string(lease.count()) +
                                      "ms\n[queue]\nTYPE = redis\nMAX_WORKERS = 2\nPUSH_TIMEOUT = 200ms\n"
                                      "[queue.load]\nLENGTH = 20000\nBATCH_LENGTH = 100\n" +
                                      handler + " 0\n[queue.once]\nUNIQUE = true\nUNIQUE_UNTIL = start\nBATCH_LENGTH = 10\n" + handler + " 0.02\n");
    all[i]->start();
  }
  for (const auto& n : all) n->wait_until_up();

  record r;
  struct killing {
    std::string node;
    wall::time_point at;
    std::map<std::string, wall::time_point> owned;  ///< until when, at the earliest
  };
  std::vector<killing> killings;
  int moves = 0, frozen = 0;
  {
    std::vector<std::jthread> pushers;
    for (std::size_t t = 0; t < 3; ++t)
      pushers.emplace_back([&, t, s = random()](const std::stop_token& stop) { push_jobs(stop, all, t, s, r); });
    pushers.emplace_back([&, s = random()](const std::stop_token& stop) { push_unique(stop, all, s, r); });
    http_client http;
    for (int round = 0; round < rounds; ++round) {
      std::this_thread::sleep_for(std::chrono::milliseconds(200 + random() % 1500));
      const auto victim = random() % 3;
      const auto dice = random() % 10;
      if (dice < 3) {
        const auto* q = random() % 2 == 0 ? "load" : "once";
        const auto a = http.post(all[random() % 3]->port(), std::string("/v1/queues/") + q + "/move", {{"to", names[victim]}});
        if (a.status == 202)
          ++moves;
        else if (a.status != 409 && a.status != 503 && a.status != 404)
          fail("a move was answered with " + std::to_string(a.status) + " " + a.text);
        continue;
      }
      killing k{names[victim], {}, {}};
      const bool freezes = dice < 5;
      if (freezes)
        ::kill(all[victim]->pid(), SIGSTOP);
      else
        all[victim]->kill9();
      k.at = wall::now();
      for (const auto* q : {"load", "once"}) {
        const auto asked = wall::now();
        if (const auto [who, left] = owner_of(direct, q); who == names[victim]) k.owned[q] = asked + left;
      }
      killings.push_back(k);
      if (freezes) {
        ++frozen;
        std::this_thread::sleep_for(2 * lease);
        ::kill(all[victim]->pid(), SIGCONT);
        continue;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(random() % 2500));
      all[victim]->start();
      all[victim]->wait_until_up();
    }
    std::this_thread::sleep_for(lease);
  }
  http_client http;
  for (const auto* q : {"load", "once"}) wait_until_empty(http, all, q);

  const auto calls = handled_calls(handled);
  std::map<std::string, int> times;
  std::map<std::string, std::size_t> by_node;
  for (const auto& c : calls) {
    ++times[c.id];
    ++by_node[c.node];
  }
  // What a killed owner had in hand nobody else may start before its lease has ended. (What the other had got before it may finish.)
  std::map<std::string, std::vector<const call*>> starts;
  for (const auto& c : calls) starts[c.id].push_back(&c);
  std::size_t owners_killed = 0, too_early = 0;
  for (const auto& k : killings) {
    if (!k.owned.empty()) ++owners_killed;
    for (const auto& c : calls)
      if (const auto q = k.owned.find(c.id.substr(0, c.id.find('.'))); q != k.owned.end() && c.node != k.node && c.at > k.at && c.at < q->second)
        for (const auto* other : starts[c.id])
          if (other->node == k.node && other->at <= k.at) ++too_early;
  }
  std::uint64_t lost = 0, redelivered = 0, unknown = 0;
  for (const auto& id : r.ids)
    if (!times.contains(id) && lost++ < 10) std::printf("  lost: %s\n", id.c_str());
  for (const auto& [id, n] : times) {
    if (n > 1) ++redelivered;
    if (!r.ids.contains(id) && unknown++ < 10) std::printf("  handled, but no push returned it: %s\n", id.c_str());
  }
  // Each unique key is free again.
  json again = json::array();
  for (const auto& key : r.keys) again.push_back({{"payload", "again"}, {"key", key}});
  const auto a = http.post(all[0]->port(), "/v1/queues/once/jobs", again);
  require(a.status == 201, "the keys cannot be pushed again: " + a.text);
  std::size_t phantoms = 0;
  for (const auto& one : a.body.at("jobs"))
    if (!one.at("stored")) ++phantoms;
  wait_until_empty(http, all, "once");
  for (const auto& n : all) require(n->stop() == 0, "a node does not end with 0");
  // What is left in Redis ends by itself, but for the numbers of each queue, and its idempotency keys.
  const auto keys = direct.command({"KEYS", "*"}).value();
  std::size_t left = 0;
  for (const auto& k : keys.items) {
    const auto& name = k.text;
    if (direct.command({"PTTL", name})->number >= 0 || name.ends_with("}:meta") || name.find("}:idempotency") != std::string::npos || name == "caravan:moves") continue;
    std::printf("  left in Redis: %s\n", name.c_str());
    ++left;
  }
  std::printf("rounds=%d moves=%d frozen=%d owners_killed=%zu acknowledged=%zu handled=%zu earth=%zu mars=%zu venus=%zu redelivered=%llu lost=%llu too_early=%zu answers_broken=%llu "
              "repeats=%llu unique_refused=%llu phantom_keys=%zu left_in_redis=%zu\n",
              rounds, moves, frozen, owners_killed, r.ids.size(), times.size(), by_node["earth"], by_node["mars"], by_node["venus"], static_cast<unsigned long long>(redelivered),
              static_cast<unsigned long long>(lost), too_early, static_cast<unsigned long long>(r.broken.load()),
              static_cast<unsigned long long>(r.repeated.load()), static_cast<unsigned long long>(r.refused.load()), phantoms, left);
  std::fflush(stdout);
  if (lost + unknown + phantoms + left + too_early > 0)
    for (const auto& n : all) std::printf("%s\n", n->log().substr(0, 4000).c_str());
  require(!r.ids.empty() && owners_killed > 0, "nothing was tried");
  require(lost == 0, "acknowledged jobs were lost");
  require(unknown == 0, "a repeat with the same idempotency key stored a job twice");
  require(phantoms == 0, "unique keys are held by nobody");
  require(too_early == 0, "work was taken over before the lease ended");
  require(left == 0, "something is left in Redis");
}
