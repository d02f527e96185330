#include "config/check.hpp"
#include "config/environment.hpp"
#include "config/read_settings.hpp"
#include "nodes/cli/process.hpp"
#include "nodes/cli/verbs.hpp"
#include "nodes/node_runtime.hpp"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <thread>

namespace caravan::cli {

using namespace std::chrono_literals;

namespace {

/// Beyond SHUTDOWN_TIMEOUT, which bounds the handlers, for all else that a stop does.
constexpr auto stop_patience = 10s;

sigset_t end_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  return set;
}

[[noreturn]] void leave(int code) {
  std::fflush(stdout);
  std::fflush(stderr);
  std::_Exit(code);
}

/// Everything that is wrong with the settings, before anything is started with them.
config::settings check_settings(const arguments& given) {
  const auto environment = config::process_environment();
  config::parsed_ini parsed;
  if (const auto file = given.find("--config")) {
    auto loaded = config::load_configuration(*file, environment);
    if (!loaded) throw stop(exit_usage, loaded.failure().text);
    parsed = std::move(*loaded);
  } else {
    auto over = config::apply_environment(parsed.content, environment);
    for (auto& p : over.found) config::report(parsed.found, std::move(p));
  }
  auto found = config::check(parsed);
  for (auto& p : check_handlers(parsed.content)) config::report(found, std::move(p));
  for (auto& p : check_tasks(parsed.content)) config::report(found, std::move(p));
  if (config::has_errors(found)) throw stop(exit_usage, "the configuration has mistakes:\n" + config::to_string(found));
  config::problems more;
  auto settings = config::read_settings(parsed.content, more);
  if (config::has_errors(more)) throw stop(exit_usage, "the configuration has mistakes:\n" + config::to_string(more));
  if (const auto dir = given.find("--data-dir")) settings.node.data_dir = std::filesystem::absolute(*dir).string();
  return settings;
}

/// Ends the process: it may be that a handler does not end, or that somebody is out of patience.
[[noreturn]] void stop_node(std::unique_ptr<node_runtime> node, std::chrono::milliseconds handlers, sigset_t signals) {
  notify_service_manager("STOPPING=1");
  // The actor system must end on the thread that made it, so somebody else watches.
  std::thread([signals, end = std::chrono::steady_clock::now() + handlers + stop_patience] {
    while (std::chrono::steady_clock::now() < end) {
      const timespec moment{0, 100'000'000};
      if (::sigtimedwait(&signals, nullptr, &moment) <= 0) continue;
      std::fprintf(stderr, "caravan: second signal, ends at once\n");
      leave(exit_refused);
    }
    std::fprintf(stderr,
                 "caravan: the node does not come to its end, so it is ended; nothing that was acknowledged is lost\n");
    leave(exit_refused);
  }).detach();
  if (const auto left = node->stop(); left > 0) {
    node->log().warn("node", "ends although handlers still run; their items come again at the next start",
                     {{"handlers", std::to_string(left)}});
    leave(exit_done);
  }
  node.reset();
  leave(exit_done);
}

exit_code run_node(const arguments& given) {
  // Before any thread: they inherit it.
  auto signals = end_signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);

  // Read as every other setting is, so that it is checked as one. Nobody else runs yet.
  if (const auto http = given.find("--http"))
    ::setenv(config::encode_variable("http", "ADDR").c_str(), http->c_str(), 1);
  const auto settings = check_settings(given);
  const folder_lock lock(settings.node.data_dir);

  node_options o;
  o.config_file = given.get("--config");
  o.data_dir = given.get("--data-dir");
  o.serve_http = true;
  auto node = std::make_unique<node_runtime>(o);

  for (const auto& name : node->tasks_without_function())
    node->log().warn("cron", "[cron." + name + "] has no PUSH, EXEC or HTTP, and this program has no function of that name: "
                             "it never runs; set one of them or remove the section");

  const auto port = node->http_port();
  auto host = settings.http.host.empty() ? std::string("0.0.0.0") : settings.http.host;
  if (host.find(':') != std::string::npos) host = "[" + host + "]";
  std::printf("caravan %s: node %s serves http://%s:%u\n", CARAVAN_VERSION, settings.node.name.c_str(), host.c_str(),
              unsigned{port});
  std::fflush(stdout);
  if (const auto file = given.find("--port-file"); file && !write_file(*file, std::to_string(port) + "\n"))
    // Whoever asked for the file waits for it: serving on would leave him waiting for ever.
    throw stop(exit_refused, "--port-file " + *file + ": cannot be written; name a file in a folder that this user may write");
  notify_service_manager("READY=1");

  int which = 0;
  while (::sigwait(&signals, &which) != 0) {
  }
  auto longest = 0ms;
  for (const auto& q : node->all()) {
    const auto& s = q->settings();
    longest = std::max(longest, s.shutdown_timeout > 0ms ? s.shutdown_timeout : 60'000ms);  // 0: it works the rest off
  }
  longest += node->tasks_patience() + node->claims().patience();
  stop_node(std::move(node), longest, signals);
}

}  // namespace

std::vector<verb> node_verbs() {
  return {
      {"",
       "node",
       "Runs a node until SIGTERM or SIGINT.",
       {{"--config", "FILE", "The INI file; without one any queue may be used, with data in ./data"},
        {"--data-dir", "DIR", "Wins over [node] DATA_DIR"},
        {"--http", "ADDR", "Wins over [http] ADDR; port 0 is any free one"},
        {"--port-file", "FILE", "Writes the HTTP port there once the node serves"}},
       "caravan node --config caravan.ini --data-dir /var/lib/caravan",
       run_node,
       talks_to::nobody,
       "Prints one line with its URL when it serves, and tells systemd (Type=notify). The first signal stops it within "
       "SHUTDOWN_TIMEOUT with exit code 0, a second one at once. Mistakes in the configuration are all listed, with "
       "exit code 2; what else prevents a start (a port or a data folder in use) ends with 1."}};
}

}  // namespace caravan::cli
