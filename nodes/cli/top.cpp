#include "config/values.hpp"
#include "nodes/cli/client.hpp"
#include "nodes/cli/live_screen.hpp"
#include "nodes/cli/table.hpp"
#include "nodes/cli/verbs.hpp"

#include <algorithm>
#include <cstdio>
#include <map>

namespace caravan::cli {

using namespace std::chrono_literals;

namespace {

using json = nlohmann::ordered_json;
using steady = std::chrono::steady_clock;

/// What a queue has done up to a moment.
struct totals {
  std::int64_t pushed = 0, handled = 0, failed = 0;
};

struct sample {
  steady::time_point at;
  std::map<std::string, totals> of;
};

std::int64_t whole(const json& q, const char* name) { return q.value(name, std::int64_t{0}); }
std::string text(const json& q, const char* name) {
  return q.contains(name) && q[name].is_string() ? q[name].get<std::string>() : std::string{};
}

sample sample_of(const json& queues) {
  sample s{steady::now(), {}};
  for (const auto& q : queues) s.of[text(q, "name")] = {whole(q, "pushed"), whole(q, "handled"), whole(q, "failed")};
  return s;
}

/// "12.5/s"; a counter that fell began anew.
std::string rate(std::int64_t before, std::int64_t now, double seconds) {
  const auto grown = static_cast<double>(now >= before ? now - before : now);
  if (seconds <= 0) return "-";
  const auto r = grown / seconds;
  char out[32];
  std::snprintf(out, sizeof out, r < 100 ? "%.1f/s" : "%.0f/s", r);
  return out;
}

void draw(client& node, const sample& before, const sample& now, json queues, bool screen) {
  const auto about = node.ask({"GET", "/v1/node"});
  const auto seconds = std::chrono::duration<double>(now.at - before.at).count();
  totals all, all_before;
  std::int64_t waiting = 0, running = 0, delayed = 0, dead = 0;
  for (const auto& q : queues) {
    waiting += whole(q, "waiting");
    running += whole(q, "running");
    delayed += whole(q, "delayed");
    dead += whole(q, "dead");
  }
  for (const auto& [name, t] : now.of) {
    const auto it = before.of.find(name);
    const auto b = it == before.of.end() ? t : it->second;
    all_before.pushed += b.pushed, all_before.handled += b.handled, all_before.failed += b.failed;
    all.pushed += t.pushed, all.handled += t.handled, all.failed += t.failed;
  }
  std::printf("caravan %s  %s  up %s%s\n", clean(text(about, "version")).c_str(), clean(text(about, "name")).c_str(),
              age_of(text(about, "started")).c_str(), screen ? "   q leaves" : "");
  std::printf("pushed %s  handled %s  failed %s   waiting %lld  running %lld  delayed %lld  dead %lld\n\n",
              rate(all_before.pushed, all.pushed, seconds).c_str(),
              rate(all_before.handled, all.handled, seconds).c_str(),
              rate(all_before.failed, all.failed, seconds).c_str(), static_cast<long long>(waiting),
              static_cast<long long>(running), static_cast<long long>(delayed), static_cast<long long>(dead));
  // The busiest first, then those with most to do.
  const auto weight = [&](const json& q) {
    const auto it = before.of.find(text(q, "name"));
    return std::pair(it == before.of.end() ? 0 : whole(q, "handled") - it->second.handled, whole(q, "waiting"));
  };
  std::stable_sort(queues.begin(), queues.end(), [&](const auto& a, const auto& b) { return weight(a) > weight(b); });
  table t({{"QUEUE"},
           {"PHASE"},
           {"PUSHED", side::right},
           {"HANDLED", side::right},
           {"FAILED", side::right},
           {"WAITING", side::right},
           {"RUNNING", side::right},
           {"DELAYED", side::right},
           {"DEAD", side::right},
           {"OLDEST", side::right},
           {"WORKERS", side::right},
           {"OWNER"}});
  constexpr std::size_t most = 40;
  for (std::size_t i = 0; i < std::min(queues.size(), most); ++i) {
    const auto& q = queues[i];
    const auto name = text(q, "name");
    const auto& n = now.of.at(name);
    const auto it = before.of.find(name);
    const auto b = it == before.of.end() ? n : it->second;
    const auto phase = text(q, "phase");
    const bool wrong = !text(q, "trouble").empty() || phase == "unknown";
    t.add({shortened(name, 30),
           {wrong ? phase + " (trouble)" : phase, wrong                ? colour::red
                                                  : phase == "running" ? colour::green
                                                                       : colour::yellow},
           rate(b.pushed, n.pushed, seconds),
           rate(b.handled, n.handled, seconds),
           {rate(b.failed, n.failed, seconds), n.failed > b.failed ? colour::red : colour::none},
           std::to_string(whole(q, "waiting")),
           std::to_string(whole(q, "running")),
           std::to_string(whole(q, "delayed")),
           {std::to_string(whole(q, "dead")), whole(q, "dead") ? colour::red : colour::none},
           age_of(text(q, "oldest_waiting")),
           std::to_string(whole(q, "active")) + "/" + std::to_string(whole(q, "workers")),
           text(q, "owner")});
  }
  t.print();
  if (queues.size() > most) std::printf("... and %zu more\n", queues.size() - most);
}

exit_code run_top(const arguments& given) {
  const auto every = config::parse_duration(given.get("--every", "2s"));
  if (!every || *every < 200ms || *every > 1h)
    throw stop(exit_usage, "--every " + given.get("--every") + ": write a duration from 200ms to 1h");
  const auto pause = std::chrono::ceil<std::chrono::milliseconds>(*every);
  client node(given);
  auto before = sample_of(node.ask({"GET", "/v1/queues"})["queues"]);
  const bool once = given.has("--once") || given.has("--json");
  live_screen screen(once);
  for (bool first = true;; first = false) {
    if (!screen.show_for(first ? std::min<std::chrono::milliseconds>(pause, 1s) : pause)) return exit_done;
    const auto queues = node.ask({"GET", "/v1/queues"})["queues"];
    const auto now = sample_of(queues);
    screen.begin();
    if (given.has("--json"))
      print_json({{"queues", queues}});
    else
      draw(node, before, now, queues, screen.is_terminal());
    before = now;
    if (once) return exit_done;
  }
}

}  // namespace

std::vector<verb> top_verbs() {
  return {{"",
           "top",
           "Shows what the queues do, again and again, the busiest first.",
           {{"--every", "DURATION", "How often; 2s without it"}, {"--once", "", "Once, over a second, for scripts"}},
           "caravan top --every 5s",
           run_top,
           talks_to::node}};
}

}  // namespace caravan::cli
