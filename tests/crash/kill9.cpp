// Kills a real node (-9) at random moments under load and starts it again. What a push returned must be handled,
// nothing must stay behind, and no unique key may be held by nobody. kill -9 keeps what the kernel has, so this holds
// for every SYNC mode; what a power cut drops is the subject of integration/leveldb/level_crash.test.cpp.
//
// CARAVAN_KILLS: how often, over all modes (20). CARAVAN_SEED: repeats the moments and the mix of a run.

#include "tests/crash/real_node.hpp"
#include "tests/support/temp_folder.hpp"

#include <curl/curl.h>

#include <algorithm>
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
using namespace std::chrono_literals;
using nlohmann::json;

namespace {

constexpr int unique_keys = 300;

class record {
public:
  void acknowledge(const std::string& id) {
    const std::lock_guard lock(mutex_);
    ids_.insert(id);
  }
  void use_key(const std::string& key) {
    const std::lock_guard lock(mutex_);
    keys_.insert(key);
  }
  std::atomic<std::uint64_t> refused{0}, repeated{0}, broken{0};
  [[nodiscard]] const std::set<std::string>& ids() const { return ids_; }
  [[nodiscard]] const std::set<std::string>& keys() const { return keys_; }

private:
  std::mutex mutex_;
  std::set<std::string> ids_, keys_;
};

/// Sends the same until the node has answered: a push without an answer may or may not be stored, and its idempotency
/// key makes a repeat harmless.
answer push_until_answered(http_client& http, const real_node& node, const std::string& queue, const json& body,
                           record& r) {
  for (;;) {
    const int port = node.port();
    if (port == 0) {
      std::this_thread::sleep_for(2ms);
      continue;
    }
    auto a = http.post(port, "/v1/queues/" + queue + "/jobs", body);
    if (a.status == 0) {
      ++r.broken;
      std::this_thread::sleep_for(2ms);
    } else if (a.status == 429 || a.status == 503) {
      std::this_thread::sleep_for(20ms);
    } else {
      return a;
    }
  }
}

void push_jobs(std::stop_token stop, const real_node& node, int thread, std::uint64_t seed, record& r) {
  http_client http;
  std::mt19937_64 random(seed);
  for (std::uint64_t n = 0; !stop.stop_requested();) {
    const auto job = [&] {
      const auto name = std::to_string(thread) + "-" + std::to_string(n++);
      return json{{"payload", name}, {"idempotency_key", name}};
    };
    const bool single = thread % 2 == 0 || random() % 4 == 0;
    json body = json::array();
    for (auto size = single ? 0 : 2 + random() % 40; size > 0; --size) body.push_back(job());
    if (single) body = job();
    const auto a = push_until_answered(http, node, "load", body, r);
    if (a.status != 201) fail("a push was answered with " + std::to_string(a.status) + " " + a.text);
    const auto take = [&](const json& one) {
      if (!one.contains("id")) fail("a push returned no id: " + a.text);
      if (one.value("repeated", false)) ++r.repeated;
      r.acknowledge(one.at("id"));
    };
    if (single)
      take(a.body);
    else
      for (const auto& one : a.body.at("jobs")) take(one);
  }
}

void push_unique(std::stop_token stop, const real_node& node, std::uint64_t seed, record& r) {
  http_client http;
  std::mt19937_64 random(seed);
  for (std::uint64_t n = 0; !stop.stop_requested(); ++n) {
    const auto key = "k" + std::to_string(random() % unique_keys);
    r.use_key(key);
    const auto a = push_until_answered(http, node, "once",
                                       {{"payload", n}, {"key", key}, {"idempotency_key", std::to_string(n)}}, r);
    if (a.status == 201) {
      if (a.body.value("repeated", false)) ++r.repeated;
      r.acknowledge(a.body.at("id"));
    } else if (a.status == 409 && a.body.value("code", "") == "already_in_queue") {
      ++r.refused;
      std::this_thread::sleep_for(1ms);
    } else {
      fail("a push to the unique queue was answered with " + std::to_string(a.status) + " " + a.text);
    }
  }
}

/// A log that ends in the middle of a write is what a kill inside that write leaves: no push had an answer for it. It is
/// counted. Anything else that a storage or a node reports as an error fails the test.
int torn_writes(const std::string& log) {
  int torn = 0;
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    const auto holds = [&](const char* text) { return line.find(text) != std::string::npos; };
    if (holds(".log ends in the middle of a write: "))
      ++torn;
    else if (holds("\"level\":\"error\"") || holds("\"what\":\"storage\""))
      fail("the node's log has: " + line);
  }
  return torn;
}

/// Each unique key that was ever used is free again.
std::size_t count_phantoms(http_client& http, int port, const std::set<std::string>& keys) {
  json all = json::array();
  for (const auto& key : keys) all.push_back({{"payload", "again"}, {"key", key}});
  const auto a = http.post(port, "/v1/queues/once/jobs", all);
  if (a.status != 201) fail("the keys cannot be pushed again: " + std::to_string(a.status) + " " + a.text);
  std::size_t phantoms = 0;
  for (const auto& one : a.body.at("jobs"))
    if (!one.at("stored")) ++phantoms;
  if (phantoms > 0) std::printf("%s\n", a.text.c_str());
  return phantoms;
}

void run_mode(const std::string& program, const std::string& sync, int kills, std::mt19937_64& random) {
  const caravan::testing_support::temp_folder folder;
  const auto work = folder.path();
  // One write for a batch: lines of handlers that run side by side do not mix.
  write_file(work / "handle.sh", R"sh(sleep "$2"; exec sed -n 's/^{"id":"\([^"]*\)".*/\1/p' >>"$1")sh");
  const auto handled = (work / "handled").string();
  const auto handler = "HANDLER = exec:sh " + (work / "handle.sh").string() + " " + handled;
  write_file(work / "node.ini", "[node]\nNAME = crash\nDATA_DIR = " + (work / "data").string() +
                                    "\n[http]\nADDR = 127.0.0.1:0\n[log]\nFORMAT = json\n"
                                    "[queue]\nSYNC = " +
                                    sync +
                                    "\nMAX_WORKERS = 2\nPUSH_TIMEOUT = 200ms\n"
                                    "[queue.load]\nLENGTH = 20000\nBATCH_LENGTH = 100\n" +
                                    handler +
                                    " 0\n"
                                    "[queue.once]\nUNIQUE = true\nUNIQUE_UNTIL = start\nBATCH_LENGTH = 10\n" +
                                    handler + " 0.02\n");
  real_node node(program, work);
  record r;
  int early = 0;
  {
    std::vector<std::jthread> pushers;
    for (int thread = 0; thread < 3; ++thread)
      pushers.emplace_back(
          [&, thread, seed = random()](std::stop_token stop) { push_jobs(stop, node, thread, seed, r); });
    pushers.emplace_back([&, seed = random()](std::stop_token stop) { push_unique(stop, node, seed, r); });
    for (int kill = 0; kill < kills; ++kill) {
      node.start();
      if (random() % 6 == 0) {
        std::this_thread::sleep_for(std::chrono::microseconds(random() % 40'000));  // while it opens its queues
        ++early;
      } else {
        node.wait_until_up();
        std::this_thread::sleep_for(std::chrono::microseconds(5'000 + random() % 250'000));
      }
      node.kill9();
    }
    node.start();
    node.wait_until_up();
  }  // every push that was under way gets its answer
  http_client http;
  empty_queue(http, node.port(), "load", 120s);
  empty_queue(http, node.port(), "once", 120s);
  const auto times = line_counts(handled);
  const auto phantoms = count_phantoms(http, node.port(), r.keys());
  empty_queue(http, node.port(), "once", 120s);
  require(node.stop() == 0, "the node does not end with 0");
  const int torn = torn_writes(node.log());

  std::uint64_t lost = 0, redelivered = 0, unknown = 0;
  for (const auto& id : r.ids())
    if (!times.contains(id)) {
      if (lost++ < 10) std::printf("  lost: %s\n", id.c_str());
    }
  for (const auto& [id, n] : times) {
    if (n > 1) ++redelivered;
    if (!r.ids().contains(id) && unknown++ < 10) std::printf("  handled, but no push returned it: %s\n", id.c_str());
  }
  std::printf(
      "SYNC=%-13s kills=%d (%d while starting) acknowledged=%zu handled=%zu redelivered=%llu lost=%llu "
      "answers_broken=%llu repeats=%llu unique_refused=%llu unique_keys=%zu phantom_keys=%zu torn_writes=%d\n",
      sync.c_str(), kills, early, r.ids().size(), times.size(), static_cast<unsigned long long>(redelivered),
      static_cast<unsigned long long>(lost), static_cast<unsigned long long>(r.broken.load()),
      static_cast<unsigned long long>(r.repeated.load()), static_cast<unsigned long long>(r.refused.load()),
      r.keys().size(), phantoms, torn);
  std::fflush(stdout);
  require(!r.ids().empty(), "nothing was pushed");
  require(lost == 0, "acknowledged jobs were lost");
  require(unknown == 0, "a repeat with the same idempotency key stored a job twice");
  require(phantoms == 0, "unique keys are held by nobody");
}

}  // namespace

int main(int argc, char** argv) {
  require(argc == 2, "call it with the path of caravan");
  curl_global_init(CURL_GLOBAL_DEFAULT);
  const auto kills = static_cast<int>(number_of("CARAVAN_KILLS", 20));
  const auto seed = number_of("CARAVAN_SEED", std::random_device{}());
  std::printf("CARAVAN_SEED=%llu CARAVAN_KILLS=%d\n", static_cast<unsigned long long>(seed), kills);
  std::fflush(stdout);
  std::mt19937_64 random(seed);
  int done = 0, mode = 0;
  for (const auto* sync : {"always", "interval:100", "never"}) {
    const int until = kills * ++mode / 3;
    run_mode(argv[1], sync, until - done, random);
    done = until;
  }
  std::printf("done: %d kills, nothing lost\n", kills);
}
