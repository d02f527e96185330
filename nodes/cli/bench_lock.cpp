#include "config/values.hpp"
#include "nodes/bench/lock_bench.hpp"
#include "nodes/cli/verbs.hpp"

#include <cstdio>

namespace caravan::cli {

namespace {

std::size_t number(const arguments& given, const std::string& name, std::int64_t fallback, std::int64_t most) {
  const auto text = given.find(name);
  if (!text) return static_cast<std::size_t>(fallback);
  const auto n = config::parse_integer(*text);
  if (!n || *n < 1 || *n > most)
    throw stop(exit_usage, name + " " + *text + ": write a whole number from 1 to " + std::to_string(most));
  return static_cast<std::size_t>(*n);
}

exit_code run_lock(const arguments& given) {
  lock_bench_options o;
  o.service = given.get("--backend", "memory");
  if (o.service != "memory" && o.service != "redis")
    throw stop(exit_usage, "--backend " + o.service + ": write memory or redis");
  o.conn_str = given.get("--conn-str");
  o.threads = static_cast<unsigned>(number(given, "--threads", 1, 1'000));
  o.contended = given.has("--one-key");
  o.rounds = number(given, "--rounds", o.service == "redis" ? 50'000 : 1'000'000, 1'000'000'000);
  const auto r = bench_lock(o);
  if (!r) throw stop(exit_refused, r.failure().text);
  const auto* form = given.has("--json")
                         ? "{\"bench\":\"lock\",\"backend\":\"%s\",\"threads\":%u,\"one_key\":%s,\"n\":%zu,"
                           "\"rounds_per_s\":%.0f,\"p50_us\":%.1f,\"p99_us\":%.1f,\"max_us\":%.1f}\n"
                         : "bench lock  backend %s  threads %u  one_key %s  n %zu  rounds_per_s %.0f  p50_us %.1f  "
                           "p99_us %.1f  max_us %.1f\n";
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
  std::printf(form, o.service.c_str(), o.threads, o.contended ? "true" : "false", o.rounds, r->rounds_per_s, r->p50_us,
              r->p99_us, r->max_us);
#pragma GCC diagnostic pop
  return exit_done;
}

}  // namespace

std::vector<verb> bench_lock_verbs() {
  return {{"bench",
           "lock",
           "Measures locks in this process, as an application uses them: a round is a lock and its release.",
           {{"--backend", "TYPE", "memory (default) or redis"},
            {"--conn-str", "URL", "Of the Redis; redis://127.0.0.1:6379/0 without it"},
            {"--rounds", "N", "How many; 1000000 without it, 50000 on redis"},
            {"--threads", "N", "So many threads, each with a key of its own; 1 without it"},
            {"--one-key", "", "All threads want the same key"},
            {"--json", "", "One JSON object"}},
           "caravan bench lock --backend redis --json",
           run_lock,
           talks_to::nobody}};
}

}  // namespace caravan::cli
