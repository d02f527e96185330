#include "config/values.hpp"
#include "integration/http_client/http_runner.hpp"
#include "integration/process/exec_runner.hpp"
#include "nodes/cli/client.hpp"
#include "nodes/cli/table.hpp"
#include "nodes/cli/verbs.hpp"
#include "nodes/client/remote_worker.hpp"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <optional>
#include <thread>

namespace caravan::cli {

using namespace std::chrono_literals;

namespace {

using json = nlohmann::ordered_json;

// ---- to be one ----

std::vector<std::string> names_of(std::string_view text) {
  std::vector<std::string> list;
  while (!text.empty()) {
    const auto comma = text.find(',');
    if (const auto name = text.substr(0, comma); !name.empty()) list.emplace_back(name);
    text.remove_prefix(comma == std::string_view::npos ? text.size() : comma + 1);
  }
  return list;
}

std::size_t count_of(const arguments& given, const char* name, std::size_t otherwise, std::int64_t most) {
  const auto text = given.find(name);
  if (!text) return otherwise;
  const auto n = config::parse_integer(*text);
  if (!n || *n < 1 || *n > most)
    throw stop(exit_usage, std::string(name) + " must be a whole number from 1 to " + std::to_string(most));
  return static_cast<std::size_t>(*n);
}

std::chrono::milliseconds duration_of(const arguments& given, const char* name, std::chrono::milliseconds otherwise,
                                      std::chrono::milliseconds least) {
  const auto text = given.find(name);
  if (!text) return otherwise;
  const auto d = config::parse_duration(*text);
  if (!d || *d < least || *d > 24h)
    throw stop(exit_usage, std::string(name) + " must be a duration from " + config::format_duration(least) +
                               " to 24h, for example 30s");
  return std::chrono::floor<std::chrono::milliseconds>(*d);
}

std::shared_ptr<runner> handler_of(const std::string& text) {
  const auto take = [](auto made) -> std::shared_ptr<runner> {
    if (!made) throw stop(exit_usage, "--handler: " + made.failure().text);
    return std::move(*made);
  };
  if (text.starts_with("exec:")) {
    if (const auto ok = check_exec_command(text.substr(5)); !ok)
      throw stop(exit_usage, "--handler: " + ok.failure().text);
    return take(make_exec_runner(text.substr(5), {}));
  }
  if (text.starts_with("http://") || text.starts_with("https://")) return take(make_http_runner(text, {}));
  throw stop(exit_usage, "--handler: \"" + text + "\" is no handler; write exec:COMMAND, http://... or https://...");
}

[[noreturn]] void leave(int code) {
  std::fflush(stdout);
  std::fflush(stderr);
  std::_Exit(code);
}

exit_code run_worker(const arguments& given) {
  for (const auto* name : {"--join", "--queue", "--handler"})
    if (!given.has(name))
      throw stop(exit_usage, std::string("a worker needs ") + name +
                                 "; for example: caravan worker --join mars:7171 --queue mail --handler exec:./send");
  remote_worker_options o;
  auto addresses = node_addresses::parse(given.get("--join"));
  if (!addresses) throw stop(exit_usage, "--join: " + addresses.failure().text);
  o.addresses = std::move(*addresses);
  o.queues = names_of(given.get("--queue"));
  if (o.queues.empty()) throw stop(exit_usage, "--queue needs the name of a queue, several with commas between");
  const auto* token = std::getenv("CARAVAN_TOKEN");
  o.calls.token = given.get("--token", token ? token : "");
  o.calls.tls_ca = given.get("--tls-ca");
  o.concurrency = static_cast<unsigned>(count_of(given, "--concurrency", 1, 10'000));
  o.batch = count_of(given, "--batch", 1, 1'000);
  o.lease = duration_of(given, "--lease", 30s, 1s);
  o.shutdown_timeout = duration_of(given, "--shutdown-timeout", 2s, 0ms);
  o.name = given.get("--name");
  if (o.name.size() > 128) throw stop(exit_usage, "--name: at most 128 bytes");
  o.version = CARAVAN_VERSION;
  o.handler = handler_of(given.get("--handler"));
  o.log = [](std::string_view level, const std::string& text) {
    std::fprintf(stderr, "caravan worker: %.*s: %s\n", static_cast<int>(level.size()), level.data(), text.c_str());
  };

  // Before any thread: they inherit it.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);

  const auto queues = given.get("--queue");
  const auto nodes = o.addresses->text();
  const auto concurrency = o.concurrency;
  remote_worker worker(std::move(o));
  std::printf("caravan %s: worker %s handles %s of %s, %u at once\n", CARAVAN_VERSION, worker.name().c_str(),
              queues.c_str(), nodes.c_str(), concurrency);
  std::fflush(stdout);
  const timespec moment{0, 200'000'000};
  while (::sigtimedwait(&signals, nullptr, &moment) <= 0 && !worker.stopping()) {
  }
  std::thread([signals] {
    int which = 0;
    ::sigwait(&signals, &which);
    std::fprintf(stderr, "caravan worker: second signal, ends at once\n");
    leave(exit_refused);
  }).detach();
  const auto left = worker.stop();
  const auto f = worker.figures();
  std::printf(
      "worker %s ends: %llu jobs claimed, %llu handled, %llu not handled, %llu handed back, %llu under lost leases\n",
      worker.name().c_str(), static_cast<unsigned long long>(f.claimed), static_cast<unsigned long long>(f.handled),
      static_cast<unsigned long long>(f.not_handled), static_cast<unsigned long long>(f.handed_back),
      static_cast<unsigned long long>(f.lost));
  if (left > 0)
    std::fprintf(stderr, "caravan worker: %zu handler calls did not end when asked to; their jobs come again\n", left);
  leave(exit_done);
}

// ---- to see and order those of all nodes ----

/// The node that was asked and, where it is one of a cluster, the others that live. One that does not answer is told
/// of.
void on_every_node(const arguments& given, const std::function<void(client&)>& what) {
  client first(given);
  what(first);
  const auto cluster = first.send({.path = "/v1/cluster"});
  if (cluster.status != 200) return;  // it stands alone
  const auto nodes = json::parse(cluster.body, nullptr, false);
  if (!nodes.is_object() || !nodes.contains("nodes")) return;
  for (const auto& n : nodes["nodes"]) {
    const auto http = n.value("http", "");
    if (n.value("self", false) || !n.value("alive", false) || http.empty()) continue;
    auto other = given;
    other.add("--node", (first.url().starts_with("https") ? "https://" : "http://") + http);
    try {
      client node(other);
      what(node);
    } catch (const stop& s) {
      std::fprintf(stderr, "caravan: node %s: %s\n", clean(n.value("name", "")).c_str(), s.what());
    }
  }
}

std::string text_of(const json& w, const char* name) {
  return w.contains(name) && w[name].is_string() ? clean(w[name].get<std::string>()) : "-";
}
std::string number_of(const json& w, const char* name) {
  return w.contains(name) && w[name].is_number() ? w[name].dump() : "-";
}

exit_code run_ls(const arguments& given) {
  auto all = json::array();
  on_every_node(given, [&](client& node) {
    const auto answer = node.ask({.path = "/v1/workers"});
    for (const auto& w : answer["workers"]) all.push_back(w);
  });
  if (given.has("--json")) {
    print_json({{"workers", all}});
    return exit_done;
  }
  table t({{"NAME"},
           {"KIND"},
           {"NODE"},
           {"QUEUES"},
           {"HOST"},
           {"STATE"},
           {"BUSY", side::right},
           {"SIZE", side::right},
           {"JOBS", side::right},
           {"UP"},
           {"SEEN"}});
  for (const auto& w : all) {
    std::string queues;
    for (const auto& q : w["queues"]) queues += (queues.empty() ? "" : ",") + clean(q.get<std::string>());
    const auto state = text_of(w, "state");
    const auto wanted = text_of(w, "wanted");
    t.add(
        {shortened(text_of(w, "name"), 40),
         text_of(w, "kind"),
         text_of(w, "node"),
         shortened(queues, 40),
         text_of(w, "host") == "-" ? "-" : text_of(w, "host") + ":" + number_of(w, "pid"),
         {wanted == "run" || wanted == state ? state : state + " (" + wanted + ")", state == "silent" ? colour::red
                                                                                    : state == "run"  ? colour::green
                                                                                                      : colour::yellow},
         number_of(w, "busy"),
         number_of(w, "size"),
         number_of(w, "jobs"),
         w["started"].is_string() ? age_of(w["started"].get<std::string>()) : "-",
         w["last_seen"].is_string() ? age_of(w["last_seen"].get<std::string>()) : "-"});
  }
  t.print();
  return exit_done;
}

exit_code order(const arguments& given, const std::string& verb, const std::string& body) {
  const auto name = given.get("WORKER");
  std::optional<json> done;
  std::string refused;
  on_every_node(given, [&](client& node) {
    const auto answer =
        node.send({.method = "POST", .path = "/v1/workers/" + path_segment(name) + "/" + verb, .body = body});
    if (answer.status == 200)
      done = json::parse(answer.body, nullptr, false);
    else if (answer.status != 404 || refused.empty())
      refused = words_of(answer);
  });
  if (!done) throw stop(exit_refused, refused);
  if (given.has("--json"))
    print_json(*done);
  else
    std::printf("worker %s is to %s\n", clean(name).c_str(),
                verb == "scale"   ? ("handle " + given.get("CONCURRENCY") + " at once").c_str()
                : verb == "quiet" ? "claim nothing more"
                                  : verb.c_str());
  return exit_done;
}

exit_code run_quiet(const arguments& given) { return order(given, "quiet", "{}"); }
exit_code run_run(const arguments& given) { return order(given, "run", "{}"); }
exit_code run_stop(const arguments& given) { return order(given, "stop", "{}"); }
exit_code run_scale(const arguments& given) {
  const auto n = count_of(given, "CONCURRENCY", 1, 10'000);
  return order(given, "scale", json{{"concurrency", n}}.dump());
}

option worker_operand() { return {"WORKER", "", "Its name as `caravan worker ls` shows it", times::once}; }

}  // namespace

std::vector<verb> worker_verbs() {
  return {
      {"worker",
       "",
       "Handles jobs of queues that live on nodes elsewhere.",
       {{"--join", "ADDRESSES",
         "HTTP addresses of nodes, HOST:PORT or https://HOST:PORT, with commas between; one that answers is enough"},
        {"--queue", "NAMES", "The queues, with commas between"},
        {"--handler", "HANDLER", "exec:COMMAND, http://... or https://..., as HANDLER of a queue"},
        {"--concurrency", "N", "Handler calls at once; 1 without it"},
        {"--batch", "N", "Most jobs of one handler call; 1 without it"},
        {"--name", "NAME", "How operators see it; host, process id and a number without it"},
        {"--token", "TOKEN", "A bearer token with the role work; better in CARAVAN_TOKEN"},
        {"--tls-ca", "FILE", "PEM file of those who sign the nodes' certificates; else the system's"},
        {"--lease", "DURATION", "Others get its jobs when nothing is heard of it for so long; 30s without it"},
        {"--shutdown-timeout", "DURATION", "How long the first signal waits for handlers; 2s without it"}},
       "caravan worker --join mars:7171,venus:7171 --queue mail --concurrency 8 --handler exec:./send",
       run_worker,
       talks_to::nobody,
       "Claims as many jobs as it has room for, extends the leases while handlers run, and goes on with another node "
       "when "
       "one does not answer. The first signal stops it: no more claims, handlers may end within the shutdown timeout, "
       "the "
       "rest is handed back. A second signal ends it at once. All about it: docs/workers.md."},
      {"worker",
       "ls",
       "Lists the workers of all nodes.",
       {},
       "caravan worker ls",
       run_ls,
       talks_to::node,
       "`pool`: of a node itself; `worker`: a `caravan worker` or a program that tells of itself; `claim`: whoever "
       "else claims."},
      {"worker",
       "quiet",
       "Lets a worker finish what it has and claim nothing more.",
       {worker_operand()},
       "caravan worker quiet mars-4711-1",
       run_quiet,
       talks_to::node},
      {"worker",
       "run",
       "Lets a quiet worker claim again.",
       {worker_operand()},
       "caravan worker run mars-4711-1",
       run_run,
       talks_to::node},
      {"worker",
       "stop",
       "Lets a worker finish what it has and end.",
       {worker_operand()},
       "caravan worker stop mars-4711-1",
       run_stop,
       talks_to::node},
      {"worker",
       "scale",
       "Changes how many handlers a worker runs at once, until it starts anew.",
       {worker_operand(), {"CONCURRENCY", "", "Handler calls at once", times::once}},
       "caravan worker scale mars-4711-1 16",
       run_scale,
       talks_to::node}};
}

}  // namespace caravan::cli
