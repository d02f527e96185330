#include "config/values.hpp"
#include "nodes/cli/client.hpp"
#include "nodes/cli/table.hpp"
#include "nodes/cli/verbs.hpp"
#include "nodes/http/api_json.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>

namespace caravan::cli {

namespace {

using json = nlohmann::ordered_json;

enum class verdict : int { ok = 0, warning = 1, critical = 2 };

/// What was found, the worst first, and the figures behind it.
class findings {
public:
  void add(verdict v, const std::string& text) { all_.emplace_back(v, text); }
  /// `value` against two bounds, either of which may be absent.
  void judge(const std::string& what, double value, std::optional<double> warn, std::optional<double> critical,
             const char* unit) {
    char text[64];
    std::snprintf(text, sizeof text, "%.15g%s", value, unit);
    if (critical && value > *critical)
      add(verdict::critical, what + " " + text);
    else if (warn && value > *warn)
      add(verdict::warning, what + " " + text);
  }
  void figure(const std::string& name, double value, const char* unit) {
    char text[64];
    std::snprintf(text, sizeof text, "=%.15g%s", value, unit);
    figures_ += (figures_.empty() ? "" : " ") + name + text;
  }

  verdict print(bool as_json) {
    std::stable_sort(all_.begin(), all_.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
    const auto worst = all_.empty() ? verdict::ok : all_.front().first;
    constexpr const char* words[] = {"OK", "WARNING", "CRITICAL"};
    if (as_json) {
      auto list = json::array();
      for (const auto& [v, text] : all_) list.push_back({{"verdict", words[static_cast<int>(v)]}, {"text", text}});
      print_json({{"verdict", words[static_cast<int>(worst)]}, {"found", list}, {"figures", figures_}});
      return worst;
    }
    std::string line;
    for (const auto& [v, text] : all_) line += (line.empty() ? "" : "; ") + text;
    if (line.empty()) line = "nothing is wrong";
    // One line and figures behind a bar: what Nagios and its kin read.
    std::replace(line.begin(), line.end(), '|', '/');
    std::printf("CARAVAN %s - %s | %s\n", words[static_cast<int>(worst)], clean(line).c_str(), figures_.c_str());
    return worst;
  }

private:
  std::vector<std::pair<verdict, std::string>> all_;
  std::string figures_;
};

struct bounds {
  std::optional<double> warn, critical;
};

std::optional<double> number(const arguments& given, const char* name) {
  const auto text = given.find(name);
  if (!text) return std::nullopt;
  const auto n = config::parse_integer(*text);
  if (!n || *n < 0) throw stop(exit_usage, std::string(name) + " " + *text + ": write a whole number");
  return static_cast<double>(*n);
}

std::optional<double> seconds(const arguments& given, const char* name) {
  const auto text = given.find(name);
  if (!text) return std::nullopt;
  const auto d = config::parse_duration(*text);
  if (!d || d->count() < 0)
    throw stop(exit_usage, std::string(name) + " " + *text + ": write a duration like 30s or 5m");
  return std::chrono::duration<double>(*d).count();
}

double seconds_since(const json& q, const char* name) {
  if (!q.contains(name) || !q[name].is_string()) return 0;
  const auto at = http::parse_instant(q[name].get<std::string>());
  return at ? std::max(0.0, std::chrono::duration<double>(std::chrono::system_clock::now() - *at).count()) : 0;
}

void check_queues(findings& f, client& node, const arguments& given) {
  const auto chosen = given.all("--queue");
  const bounds depth{number(given, "--warn-waiting"), number(given, "--critical-waiting")};
  const bounds dead{number(given, "--warn-dead"), number(given, "--critical-dead")};
  const bounds oldest{seconds(given, "--warn-oldest"), seconds(given, "--critical-oldest")};
  std::vector<std::string> missing = chosen;
  const auto answer = node.ask({"GET", "/v1/queues"});
  for (const auto& q : answer["queues"]) {
    const auto name = q.value("name", "");
    if (!chosen.empty() && std::find(chosen.begin(), chosen.end(), name) == chosen.end()) continue;
    std::erase(missing, name);
    const auto waiting = static_cast<double>(q.value("waiting", std::int64_t{0}));
    const auto buried = static_cast<double>(q.value("dead", std::int64_t{0}));
    const auto waited = std::floor(seconds_since(q, "oldest_waiting"));
    f.judge(name + ": waiting", waiting, depth.warn, depth.critical, "");
    f.judge(name + ": dead", buried, dead.warn, dead.critical, "");
    f.judge(name + ": the next in line has waited", waited, oldest.warn, oldest.critical, "s");
    const auto phase = q.value("phase", "");
    if (const auto trouble = q.value("trouble", ""); !trouble.empty()) f.add(verdict::critical, name + ": " + trouble);
    if (phase == "standby") f.add(verdict::critical, name + ": its owner cannot be reached");
    if (phase == "paused") f.add(verdict::warning, name + " is paused by " + q.value("paused_by", "somebody"));
    f.figure("'" + name + " waiting'", waiting, "");
    f.figure("'" + name + " dead'", buried, "");
    f.figure("'" + name + " oldest'", waited, "s");
  }
  for (const auto& name : missing) f.add(verdict::critical, "there is no queue \"" + name + "\"");
}

void check_rest(findings& f, client& node, const arguments& given) {
  const auto ready = node.send({"GET", "/readyz"});
  if (ready.status != 200) {
    const auto body = json::parse(ready.body, nullptr, false);
    const auto reasons = body.is_object() ? body.value("reasons", json::array()) : json::array();
    if (reasons.empty()) f.add(verdict::critical, "the node is not ready");
    for (const auto& r : reasons) f.add(verdict::critical, r.is_string() ? r.get<std::string>() : r.dump());
  }
  if (const auto least = number(given, "--nodes")) {
    const auto cluster = node.send({"GET", "/v1/cluster"});
    const auto body = json::parse(cluster.body, nullptr, false);
    double up = cluster.status == 501 ? 1 : 0;  // it stands alone
    if (cluster.status == 200 && body.is_object())
      for (const auto& n : body.value("nodes", json::array())) up += n.value("alive", false) ? 1 : 0;
    if (up < *least)
      f.add(verdict::critical,
            std::to_string(static_cast<int>(up)) + " nodes are up, not " + std::to_string(static_cast<int>(*least)));
    f.figure("nodes", up, "");
  }
  const bounds late{seconds(given, "--warn-late"), seconds(given, "--critical-late")};
  if (!late.warn && !late.critical) return;
  const auto answer = node.ask({"GET", "/v1/cron"});
  for (const auto& t : answer["tasks"])
    if (t.value("enabled", false) && !t.value("paused", false))
      f.judge("task " + t.value("name", "") + ": late by", std::floor(seconds_since(t, "next")), late.warn,
              late.critical, "s");
}

exit_code run_check(const arguments& given) {
  findings f;
  try {
    client node(given);
    check_rest(f, node, given);
    check_queues(f, node, given);
  } catch (const stop& s) {
    if (s.code() == exit_usage) throw;
    f.add(verdict::critical, s.what());
  }
  return static_cast<exit_code>(f.print(given.has("--json")));
}

}  // namespace

std::vector<verb> check_verbs() {
  return {{"",
           "check",
           "For monitoring systems: one line about what is wrong, and an exit code.",
           {{"--queue", "QUEUE", "Only this queue, which must be there; may be given again", times::any},
            {"--warn-waiting", "N", "Warns above so many waiting jobs in a queue"},
            {"--critical-waiting", "N", "The same, critical"},
            {"--warn-oldest", "DURATION", "Warns when the next in line has waited longer"},
            {"--critical-oldest", "DURATION", "The same, critical"},
            {"--warn-dead", "N", "Warns above so many dead jobs in a queue"},
            {"--critical-dead", "N", "The same, critical"},
            {"--warn-late", "DURATION", "Warns when a task is late by more"},
            {"--critical-late", "DURATION", "The same, critical"},
            {"--nodes", "N", "Critical when fewer nodes are up"}},
           "caravan check --warn-oldest 1m --critical-oldest 10m --critical-dead 0 --nodes 3",
           run_check,
           talks_to::node,
           "Exit codes are those of Nagios here: 0 all is well, 1 a warning, 2 critical, also when no node answers. A "
           "storage that fails, an owner that cannot be reached and a queue that is not there are always critical, a "
           "pause always a "
           "warning; everything else is judged where a bound is given. 2 also stands for a wrong call. Behind the bar "
           "are the figures."}};
}

}  // namespace caravan::cli
