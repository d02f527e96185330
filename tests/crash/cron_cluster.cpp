// Three real nodes on one real Redis have the same tasks, due each second. Nodes are killed (-9) at random around due
// times and started again. Each occurrence ran exactly once, or a node recorded that it was missed.
//
// CARAVAN_SECONDS: how long (15). CARAVAN_SEED: repeats the choices of a run.

#include "tests/crash/real_node.hpp"
#include "tests/support/redis_server.hpp"
#include "tests/support/temp_folder.hpp"

#include <curl/curl.h>

#include <caravan/schedule.hpp>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
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

constexpr int task_count = 4;

struct run {
  std::string id;  ///< "t0@2026-03-29T02:30:00Z#17"
  std::uint64_t token = 0;
  std::string node;
};

/// "t0@2026-03-29T02:30:00Z" to the runs of that occurrence. Lines "ID TOKEN NODE" of what EXEC was told.
std::map<std::string, std::vector<run>> runs_in(const std::filesystem::path& file) {
  std::map<std::string, std::vector<run>> out;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    run r;
    words >> r.id >> r.token >> r.node;
    out[r.id.substr(0, r.id.find('#'))].push_back(r);
  }
  return out;
}

wall::time_point instant(const std::string& text) {
  std::tm tm{};
  ::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &tm);
  return wall::from_time_t(::timegm(&tm));
}
std::string text_of(wall::time_point at) {
  static const auto utc = caravan::schedule::parse("@every 1s", {.zone = "UTC"}).value();
  return utc.format(std::chrono::floor<std::chrono::seconds>(at));
}

/// Occurrences that some node's log says were missed, by reason.
void read_misses(const std::string& log, std::map<std::string, std::set<std::string>>& out) {
  std::istringstream in(log);
  for (std::string line; std::getline(in, line);) {
    const auto entry = json::parse(line, nullptr, false);
    if (!entry.is_object()) continue;
    std::string text;
    for (const auto& [key, value] : entry.items())
      if (value.is_string() && value.get<std::string>().starts_with("missed: "))
        text = value.get<std::string>().substr(8);
    if (text.empty()) continue;
    const auto until = instant(entry.at("until").get<std::string>());
    for (auto at = instant(entry.at("occurrence").get<std::string>()); at <= until; at += 1s)
      out[entry.at("task").get<std::string>() + "@" + text_of(at)].insert(text);
  }
}

}  // namespace

int main(int argc, char** argv) {
  require(argc == 2, "call it with the path of caravan");
  curl_global_init(CURL_GLOBAL_DEFAULT);
  const auto length = std::chrono::seconds(number_of("CARAVAN_SECONDS", 15));
  const auto seed = number_of("CARAVAN_SEED", std::random_device{}());
  std::printf("CARAVAN_SEED=%llu CARAVAN_SECONDS=%lld\n", static_cast<unsigned long long>(seed),
              static_cast<long long>(length.count()));
  std::fflush(stdout);
  std::mt19937_64 random(seed);

  redis_server redis;
  const temp_folder folder;
  const auto ran = folder.path() / "ran";
  const std::array<std::string, 3> names{"earth", "mars", "venus"};
  std::array<std::unique_ptr<real_node>, 3> nodes;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const auto work = folder.path() / names[i];
    nodes[i] = std::make_unique<real_node>(argv[1], work);
    std::string ini = "[node]\nNAME = " + names[i] + "\nDATA_DIR = " + (work / "data").string() +
                      "\n[http]\nADDR = 127.0.0.1:0\n[log]\nFORMAT = json\n[redis]\nCONN_STR = " + redis.url() +
                      "\n[cron]\nTIME_ZONE = UTC\n";
    for (int t = 0; t < task_count; ++t)
      ini += "[cron.t" + std::to_string(t) +
             "]\nSCHEDULE = * * * * * *\nEXEC = `sh -c 'echo $CARAVAN_RUN_ID $CARAVAN_RUN_TOKEN " + names[i] + " >>" +
             ran.string() + "'`\n";
    write_file(work / "node.ini", ini);
    nodes[i]->start();
  }
  for (const auto& n : nodes) n->wait_until_up();

  const auto first = std::chrono::ceil<std::chrono::seconds>(wall::now()) + 1s;
  const auto end = first + length;
  std::vector<wall::time_point> kills;
  while (wall::now() < end - 2s) {
    // From half a second before a due time to half a second behind it, most of them near.
    const auto due = std::chrono::ceil<std::chrono::seconds>(wall::now()) + std::chrono::seconds(1 + random() % 2);
    const auto near = std::chrono::milliseconds(static_cast<int>(random() % 60) - 10);
    const auto far = std::chrono::milliseconds(static_cast<int>(random() % 1000) - 500);
    std::this_thread::sleep_until(due + (random() % 4 ? near : far));
    const auto victim = random() % nodes.size();
    nodes[victim]->kill9();
    kills.push_back(wall::now());
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 2000));
    nodes[victim]->start();
    nodes[victim]->wait_until_up();
  }
  std::this_thread::sleep_until(end);
  // What is lost is told by the next claim after its lease; give the last kill that time.
  const auto settled = wall::now() + 18s;
  http_client http;
  std::uint64_t shown_runs = 0;
  std::this_thread::sleep_until(settled);
  for (int t = 0; t < task_count; ++t) {
    const auto a = http.get(nodes[0]->port(), "/v1/cron/t" + std::to_string(t));
    require(a.status == 200, "GET /v1/cron/TASK: " + a.text);
    shown_runs += a.body.at("runs").get<std::uint64_t>();
  }
  for (const auto& n : nodes) require(n->stop() == 0, "a node does not end with 0");

  const auto runs = runs_in(ran);
  std::map<std::string, std::set<std::string>> missed;
  for (const auto& n : nodes) read_misses(n->log(), missed);
  std::size_t occurrences = 0, once = 0, twice = 0, lost = 0, overlap = 0, no_node = 0, unaccounted = 0,
              ran_and_lost = 0;
  std::map<std::string, std::size_t> by_node;
  for (int t = 0; t < task_count; ++t)
    for (auto at = first; at < end; at += 1s, ++occurrences) {
      const auto key = "t" + std::to_string(t) + "@" + text_of(at);
      const auto it = runs.find(key);
      const auto& why = missed[key];
      if (it != runs.end()) {
        ++by_node[it->second.front().node];
        it->second.size() == 1 ? ++once : ++twice;
        if (it->second.size() > 1) std::printf("  ran %zu times: %s\n", it->second.size(), key.c_str());
        // It had begun when its node was killed: nobody knows how far it got.
        if (why.contains("lost")) ++ran_and_lost;
      } else if (why.empty()) {
        ++unaccounted;
        std::printf("  neither ran nor is recorded: %s\n", key.c_str());
      } else {
        if (why.contains("lost"))
          ++lost;
        else if (why.contains("overlap"))
          ++overlap;
        else
          ++no_node;
      }
    }
  // Tokens only grow, over all nodes and lives.
  std::size_t backwards = 0;
  std::map<std::string, std::uint64_t> last;
  for (const auto& [key, some] : runs)
    for (const auto& r : some)
      if (auto& before = last[key.substr(0, key.find('@'))]; r.token <= before)
        ++backwards;
      else
        before = r.token;
  std::printf(
      "kills=%zu occurrences=%zu once=%zu (earth=%zu mars=%zu venus=%zu) twice=%zu lost=%zu begun_then_lost=%zu "
      "overlap=%zu "
      "no_node=%zu unaccounted=%zu tokens_backwards=%zu runs_shown=%llu\n",
      kills.size(), occurrences, once, by_node["earth"], by_node["mars"], by_node["venus"], twice, lost, ran_and_lost,
      overlap, no_node, unaccounted, backwards, static_cast<unsigned long long>(shown_runs));
  std::fflush(stdout);
  require(!kills.empty() && once > 0, "nothing was tried");
  require(twice == 0, "an occurrence ran twice");
  require(unaccounted == 0, "an occurrence neither ran nor is recorded as missed");
  require(backwards == 0, "a later run has a smaller token");
}
