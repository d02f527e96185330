#include "config/redis_address.hpp"
#include "integration/leveldb/level_limits.hpp"
#include "integration/redis/redis_limits.hpp"
#include "nodes/bench/queue_bench.hpp"
#include "nodes/cli/client.hpp"
#include "nodes/cli/verbs.hpp"

#include "config/values.hpp"

#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>

namespace caravan::cli {

namespace {

using json = nlohmann::ordered_json;
using work = queue_bench_options::work;

constexpr std::array works = {std::pair{"single", work::single}, std::pair{"bulk", work::bulk}, std::pair{"drain", work::drain},
                              std::pair{"both", work::both},     std::pair{"latency", work::latency}, std::pair{"unique", work::unique}};

std::size_t number(const arguments& given, const std::string& name, std::size_t fallback) {
  const auto text = given.find(name);
  if (!text) return fallback;
  const auto n = config::parse_integer(*text);
  if (!n || *n < 1 || *n > 1'000'000'000) throw stop(exit_usage, name + " " + *text + ": write a whole number from 1 to 1000000000");
  return static_cast<std::size_t>(*n);
}

void print(const arguments& given, const json& line) {
  if (given.has("--json")) {
    std::printf("%s\n", line.dump().c_str());
  } else {
    std::string text;
    for (const auto& [name, value] : line.items())
      text += (text.empty() ? "" : "  ") + name + " " + (value.is_string() ? value.get<std::string>() : value.dump());
    std::printf("%s\n", text.c_str());
  }
  std::fflush(stdout);
}

double rounded(double x) { return static_cast<double>(static_cast<long long>(x * 1000 + 0.5)) / 1000; }

exit_code run_queue(const arguments& given) {
  queue_bench_options o;
  o.backend = given.get("--backend", "level");
  o.sync = given.get("--sync", "interval:1000");
  o.producers = static_cast<unsigned>(std::min<std::size_t>(number(given, "--producers", 1), 1'000));
  o.workers = static_cast<unsigned>(std::min<std::size_t>(number(given, "--workers", 1), 1'000));
  o.push_batch = given.has("--push-batch") ? number(given, "--push-batch", 1) : 0;
  o.folder = given.get("--data-dir");
  o.redis = given.get("--redis", "redis://127.0.0.1:6379/0");
  auto names = given.all("--work");
  if (names.empty())
    for (const auto& [name, what] : works) names.emplace_back(name);
  for (const auto& name : names) {
    const auto* const found = std::find_if(works.begin(), works.end(), [&](const auto& w) { return name == w.first; });
    if (found == works.end()) throw stop(exit_usage, "--work " + name + ": write single, bulk, drain, both, latency or unique");
    o.what = found->second;
    o.jobs = number(given, "--jobs", o.what == work::latency ? 1'000 : 500'000);
    const auto r = bench_queue(o);
    if (!r) throw stop(exit_refused, r.failure().text);
    json line{{"bench", "queue"}, {"work", name}, {"backend", o.backend}, {"durability", r->durability}, {"n", r->n},
              {"producers", o.producers}, {"workers", o.workers}, {"push_batch", r->push_batch}};
    if (o.what == work::latency) {
      line["p50_ms"] = rounded(r->p50_ms);
      line["p99_ms"] = rounded(r->p99_ms);
      line["max_ms"] = rounded(r->max_ms);
    } else {
      line["jobs_per_s"] = static_cast<std::int64_t>(r->jobs_per_s);
    }
    print(given, line);
  }
  return exit_done;
}

exit_code run_redis_limits(const arguments& given, const std::string& url, std::size_t n) {
  const auto address = config::parse_redis_address(url);
  if (!address) throw stop(exit_usage, "--redis: " + address.failure().text);
  redis_options o;
  o.address = *address;
  const auto limits = measure_redis_limits(o, n);
  if (!limits) throw stop(exit_refused, limits.failure().text);
  const auto line = [&](const char* what, std::size_t count, double rate) {
    print(given, {{"bench", "limits"}, {"work", what}, {"backend", "redis"}, {"durability", "as Redis is set"}, {"n", count},
                  {"jobs_per_s", static_cast<std::int64_t>(rate)}});
  };
  line("round_trip", n / 10, limits->round_trip);
  line("script_one", n / 10, limits->script_one);
  line("script_pipelined", n, limits->script_pipelined);
  line("many_values_a_command", n, limits->many_values);
  return exit_done;
}

exit_code run_limits(const arguments& given) {
  const auto n = number(given, "--jobs", 500'000);
  if (const auto url = given.find("--redis")) return run_redis_limits(given, *url, n);
  const std::filesystem::path parent = given.has("--data-dir") ? given.get("--data-dir") : std::filesystem::temp_directory_path().string();
  const auto limits = measure_level_limits((parent / ("caravan-limits-" + std::to_string(getpid()))).string(), n);
  if (!limits) throw stop(exit_refused, limits.failure().text);
  const auto line = [&](const char* what, const char* durability, std::size_t count, double rate) {
    print(given, {{"bench", "limits"}, {"work", what}, {"backend", "leveldb"}, {"durability", durability}, {"n", count},
                  {"jobs_per_s", static_cast<std::int64_t>(rate)}});
  };
  line("write_batch_of_1", "no sync", n, limits->write_one);
  line("write_batch_of_100", "no sync", n, limits->write_hundred);
  line("read_and_delete", "no sync", 2 * n, limits->drain);
  line("write_batch_of_1_sync", "sync", n / 1'000 + 1, limits->write_one_sync);
  return exit_done;
}

}  // namespace

std::vector<verb> bench_verbs() {
  const option as_json{"--json", "", "One JSON object a line"};
  const option redis{"--redis", "URL", "Which Redis; what the measure leaves there is removed"};
  const option folder{"--data-dir", "DIR", "Where the measured data lie; removed afterwards. Without it: the folder for temporary files"};
  return {
    {"bench", "queue", "Measures queues in this process, as an application uses them; one line a measurement.",
     {{"--work", "WORK", "single, bulk, drain, both, latency or unique; all of them without it", times::any},
      {"--backend", "TYPE", "level (default), channel or redis"}, redis,
      {"--sync", "SYNC", "always, interval:MS or never; interval:1000 without it"},
      {"--jobs", "N", "How many; 500000 without it, 1000 for latency"},
      {"--producers", "P", "Threads that push; 1 without it"},
      {"--workers", "W", "Worker threads; 1 without it"},
      {"--push-batch", "N", "Items a push; 1 for single and latency, 100 for the others without it"},
      folder, as_json},
     "caravan bench queue --work single --jobs 100000 --json", run_queue, talks_to::nobody,
     "Payloads are JSON objects of 100 bytes. drain and both count until every job is handled and its acknowledgement is "
     "written. latency pushes one job every 5 ms and measures from before the push to the start of the handler."},
    {"bench", "limits", "Measures what LevelDB, or with --redis Redis, itself does on this machine, to hold the figures of bench queue against.",
     {{"--jobs", "N", "How many; 500000 without it"}, redis, folder, as_json}, "caravan bench limits --json", run_limits, talks_to::nobody},
  };
}

}  // namespace caravan::cli
