/// Real processes on a real Redis: a node that is killed, and a holder that is frozen. A program of its own: it prints
/// figures, and ends with 1 at the first thing that does not hold.
///
///   lock_processes CARAVAN               the test
///   lock_processes hold URL EXPIRY FILE  a process that locks and writes lines into a guarded file

#include "examples/locks/guarded_file.hpp"
#include "tests/crash/real_node.hpp"
#include "tests/support/redis_server.hpp"

#include <caravan/caravan.hpp>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <sstream>
#include <thread>

using namespace std::chrono_literals;
using namespace caravan;
using caravan::crash::require;
using testing_support::child_server;
using testing_support::eventually;
using testing_support::redis_server;
using testing_support::temp_folder;
using steady = std::chrono::steady_clock;

namespace {

std::string settings(const std::string& url, const std::string& expiry) {
  return "[global_lock]\nSERVICE_TYPE = redis\nSERVICE_CONN_STR = " + url + "\nLOCK_EXPIRY = " + expiry + "\n";
}

std::unique_ptr<node> open_node(const std::string& url, const std::string& expiry, const std::string& folder) {
  node_options o;
  o.config_text = settings(url, expiry);
  o.use_environment = false;
  o.quiet = true;
  o.data_dir = folder;
  return std::move(node::start(o).value());
}

/// Writes as long as it holds, looking before each line, and once more when it knows that it lost.
int hold(const std::string& url, const std::string& expiry, const std::string& path) {
  const auto here = open_node(url, expiry, path + ".data");
  guarded_file file(path);
  auto held = here->locks().lock("guarded").value();
  for (int n = 0; held.valid(); ++n) {
    // Between the look and the write a process may be frozen too; then the guard is all there is.
    if (!file.append(held.token(), "first")) {
      std::puts("refused in time");
      return 0;
    }
    if (n == 0) std::puts("holds"), std::fflush(stdout);
    std::this_thread::sleep_for(1ms);
  }
  std::printf("lost, stop token %s\n", eventually([&] { return held.lost().stop_requested(); }) ? "tripped" : "silent");
  std::puts(file.append(held.token(), "too late") ? "written" : "refused");
  std::fflush(stdout);
  return 0;
}

std::string text_of(const std::filesystem::path& p) {
  std::ifstream in(p);
  std::ostringstream text;
  text << in.rdbuf();
  return std::move(text).str();
}

void frozen_holder(const std::string& self, redis_server& server, const std::filesystem::path& folder) {
  constexpr auto expiry = 1s;
  const auto file = (folder / "guarded.txt").string(), said = (folder / "holder.out").string();
  child_server holder;
  holder.start({self, "hold", server.url(), "1s", file}, said);
  require(eventually([&] { return text_of(said).find("holds") != std::string::npos; }),
          "the holder does not start: " + text_of(said));
  holder.freeze();
  const auto frozen = steady::now();
  const auto here = open_node(server.url(), "1s", (folder / "data").string());
  auto mine = here->locks().lock("guarded").value();
  const auto took = steady::now() - frozen;
  require(took < expiry + 500ms, "the lock of a frozen holder was not free in time");
  require(guarded_file(file).append(mine.token(), "second"), "the new holder was refused");
  std::this_thread::sleep_until(frozen + 2 * expiry);  // what the holder must sleep through
  holder.thaw();
  require(eventually([&] { return !holder.runs(); }), "the holder does not end");
  const auto lines = text_of(file);
  require(lines.ends_with("second\n"), "the frozen one wrote after the new one: " + lines);
  const auto words = text_of(said);
  require(words.find("refused") != std::string::npos && words.find("written") == std::string::npos, words);
  std::printf("frozen holder: its lock was free after %lld ms; awake it said: %s",
              static_cast<long long>(std::chrono::duration_cast<std::chrono::milliseconds>(took).count()),
              words.substr(words.find('\n') + 1).c_str());
}

void killed_node(const std::string& program, redis_server& server, const std::filesystem::path& folder) {
  crash::real_node killed(program, folder / "a"), lives(program, folder / "b");
  for (const auto* name : {"a", "b"})
    crash::write_file(folder / name / "node.ini", "[node]\nDATA_DIR = " + (folder / name / "d").string() +
                                                      "\n[http]\nADDR = 127.0.0.1:0\n" + settings(server.url(), "2s"));
  killed.start();
  lives.start();
  killed.wait_until_up();
  lives.wait_until_up();
  crash::http_client http, waiting;
  const auto acquire = [&](crash::http_client& by, const crash::real_node& n, const std::string& key, const char* wait,
                           const char* ttl) {
    return by.post(n.port(), "/v1/locks/" + key + "/acquire", {{"wait", wait}, {"ttl", ttl}});
  };
  for (int n = 0; n < 10; ++n)
    require(acquire(http, killed, "k" + std::to_string(n), "0s", "2s").status == 200, "a node does not lock");
  require(acquire(http, lives, "k0", "0s", "2s").status == 409, "two nodes do not see the same locks");
  const auto mine = acquire(http, lives, "other", "0s", "60s");
  std::jthread dead_waiter([&] { acquire(waiting, killed, "other", "30s", "2s"); });
  require(eventually([&] { return http.get(lives.port(), "/v1/locks/other").body.value("waiting", 0) == 1; }),
          "nobody waits");
  killed.kill9();
  const auto start = steady::now();
  for (int n = 0; n < 10; ++n)
    require(acquire(http, lives, "k" + std::to_string(n), "5s", "2s").status == 200, "a lock is not free");
  const auto took = steady::now() - start;
  require(took < 2'500ms, "a killed node's locks were not free within the expiry");
  require(http.post(lives.port(), "/v1/locks/other/release", {{"value", mine.body.value("value", "")}}).status == 200,
          "no release");
  require(acquire(http, lives, "other", "5s", "2s").status == 200, "a dead waiter blocks the line");
  require(steady::now() - start < 5s, "a dead waiter blocked the line for long");
  std::printf("killed node: its 10 locks were free after %lld ms\n",
              static_cast<long long>(std::chrono::duration_cast<std::chrono::milliseconds>(took).count()));
  require(lives.stop() == 0, "the other node does not stop well: " + lives.log());
}

void killed_command_line(const std::string& program, redis_server& server, const std::filesystem::path& folder) {
  crash::real_node n(program, folder / "c");
  crash::write_file(folder / "c" / "node.ini", "[node]\nDATA_DIR = " + (folder / "c" / "d").string() +
                                                   "\n[http]\nADDR = 127.0.0.1:0\n" + settings(server.url(), "2s"));
  n.start();
  n.wait_until_up();
  const auto url = "http://127.0.0.1:" + std::to_string(n.port());
  const auto out = (folder / "hold.out").string();
  crash::http_client http;
  child_server hold;
  hold.start({program, "lock", "hold", "job", "--node", url, "--ttl", "1s", "--", "sh", "-c",
              "echo token $CARAVAN_LOCK_TOKEN; exec sleep 60"},
             out);
  require(eventually([&] { return text_of(out).find("token 1") != std::string::npos; }),
          "hold does not start: " + text_of(out));
  std::this_thread::sleep_for(1'500ms);  // longer than its TTL: it is renewed
  require(http.get(n.port(), "/v1/locks/job").status == 200, "hold does not renew");
  hold.kill9();
  require(eventually([&] { return http.get(n.port(), "/v1/locks/job").status == 404; }, 2s),
          "a killed hold keeps its lock");

  // An operator takes it away: the command is ended.
  child_server lost;
  lost.start({program, "lock", "hold", "job", "--node", url, "--ttl", "1s", "--", "sleep", "60"}, out);
  require(eventually([&] { return http.get(n.port(), "/v1/locks/job").status == 200; }), "hold does not start");
  require(http.post(n.port(), "/v1/locks/job/release", {{"force", true}}).status == 200, "it cannot be forced");
  require(eventually([&] { return !lost.runs(); }, 5s), "a command without its lock runs on");
  require(text_of(out).find("is lost") != std::string::npos, text_of(out));
  std::printf("command line: killed, its lock was free; robbed, its command ended\n");
  require(n.stop() == 0, "the node does not stop well: " + n.log());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 5 && std::strcmp(argv[1], "hold") == 0) return hold(argv[2], argv[3], argv[4]);
  if (argc != 2) crash::fail("usage: lock_processes CARAVAN");
  redis_server server;
  const temp_folder folder;
  frozen_holder("/proc/self/exe", server, folder.path());
  killed_node(argv[1], server, folder.path());
  killed_command_line(argv[1], server, folder.path());
  std::puts("done");
}
