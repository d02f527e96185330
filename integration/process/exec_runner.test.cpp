#define CAF_SUITE exec_runner
#include "integration/process/exec_runner.hpp"

#include "caf/test/unit_test.hpp"

#include <nlohmann/json.hpp>

#include <atomic>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <latch>
#include <set>
#include <sstream>
#include <thread>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace caravan;
using namespace std::chrono_literals;
using kind = item_outcome::kind;
using clock_type = std::chrono::steady_clock;

namespace {

std::string name_of(std::uint64_t number) { return "mail." + to_string(item_id{number}); }

batch make_batch(std::vector<std::string> payloads) {
  std::vector<record> items;
  for (auto& payload : payloads) {
    record r;
    r.id = item_id{100 + items.size()};
    r.payload = std::move(payload);
    items.push_back(std::move(r));
  }
  return {"mail", 42, 30s, std::make_shared<const std::vector<record>>(std::move(items))};
}

std::string quoted(const std::string& script) { return "sh -c '" + script + "'"; }

batch_result run(const std::string& command, const batch& work, const run_context& ctx = {},
                 exec_options options = {}) {
  auto target = make_exec_runner(command, std::move(options));
  return target.value()->run(work, ctx);
}

/// The text that all items got, if all have the same outcome.
std::string shared_text(const batch_result& result, std::size_t size, kind what) {
  if (result.size() != size) return "wrong size " + std::to_string(result.size());
  for (std::size_t i = 0; i < size; ++i)
    if (result[i].index != i || result[i].what != what || result[i].text != result[0].text)
      return "mixed: " + result[i].text;
  return size == 0 ? "" : result[0].text;
}

bool contains(std::string_view text, std::string_view part) {
  const bool yes = text.find(part) != std::string_view::npos;
  if (!yes) CAF_MESSAGE("no \"" << std::string(part) << "\" in: " << std::string(text));
  return yes;
}

template <class Condition>
bool eventually(Condition condition, std::chrono::milliseconds limit = 20s) {
  const auto end = clock_type::now() + limit;
  while (!condition()) {
    if (clock_type::now() > end) return false;
    std::this_thread::sleep_for(2ms);
  }
  return true;
}

struct temp_folder {
  std::filesystem::path path;
  temp_folder() {
    auto name = (std::filesystem::temp_directory_path() / "caravan-exec-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp");
    path = name;
  }
  ~temp_folder() { std::filesystem::remove_all(path); }
  [[nodiscard]] std::string file(const std::string& name) const { return (path / name).string(); }
};

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream all;
  all << in.rdbuf();
  return all.str();
}

/// Nothing but zombies counts as gone: the machine's init may be slow to reap.
bool is_gone(int pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  if (!std::getline(in, text)) return true;
  const auto end = text.rfind(')');
  return end == std::string::npos || text.substr(end + 2, 1) == "Z";
}

/// The pid in a file that a child wrote as one line.
int read_pid(const std::string& path) {
  const auto text = read_file(path);
  return text.ends_with('\n') ? std::stoi(text) : 0;
}

std::size_t open_descriptors() {
  std::size_t n = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++n;
  return n;
}

std::size_t resident_kib() {
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("VmRSS:")) return std::stoul(line.substr(6));
  return 0;
}

}  // namespace

CAF_TEST(exit 0 means handled) {
  CAF_CHECK(run("cat", make_batch({"1", "2"})).empty());
  CAF_CHECK(run("true", make_batch({"1"})).empty());
  CAF_CHECK(run("true", make_batch({})).empty());
  CAF_CHECK(run("true", batch{"mail", 1, 1s, nullptr}).empty());
}

CAF_TEST(items named on standard output are unhandled and other lines are counted) {
  exec_options options;
  options.counters = std::make_shared<exec_counters>();
  const auto script = "cat >/dev/null; echo hello; echo; echo \"  " + name_of(101) + "\r\"; echo " +
                      to_string(item_id{103}) + "; echo " + name_of(999) + "; echo " + name_of(101) + "; printf " +
                      name_of(100);
  const auto result = run(quoted(script), make_batch({"0", "1", "2", "3"}), {}, options);
  CAF_REQUIRE_EQUAL(result.size(), 3u);
  const std::uint32_t expected_items[] = {0, 1, 3};
  for (std::size_t i = 0; i < 3; ++i) {
    CAF_CHECK_EQUAL(result[i].index, expected_items[i]);
    CAF_CHECK(result[i].what == kind::unhandled);
    CAF_CHECK_EQUAL(result[i].text, "");
  }
  CAF_CHECK_EQUAL(options.counters->ignored_lines.load(), 2u);
  CAF_CHECK_EQUAL(options.counters->started.load(), 1u);
  CAF_CHECK_EQUAL(options.counters->killed.load(), 0u);
}

CAF_TEST(exit 75 means later) {
  const auto result = run(quoted("echo busy >&2; exit 75"), make_batch({"1", "2"}));
  CAF_CHECK(contains(shared_text(result, 2, kind::later), "busy"));
  CAF_CHECK(result[0].delay == 0ms);
}

CAF_TEST(any other exit fails with the end of standard error) {
  for (const int code : {1, 2, 3, 64, 65, 74, 76, 126, 127, 255}) {
    const auto text = shared_text(
        run(quoted("echo why it broke >&2; exit " + std::to_string(code)), make_batch({"1", "2"})), 2, kind::failed);
    CAF_CHECK_EQUAL(text, "exec:sh exited with " + std::to_string(code) + "; stderr: why it broke");
  }
  CAF_CHECK_EQUAL(shared_text(run("false", make_batch({"1"})), 1, kind::failed), "exec:false exited with 1");
}

CAF_TEST(what a failing handler printed hands nothing back) {
  CAF_CHECK(
      contains(shared_text(run(quoted("echo " + name_of(100) + "; exit 1"), make_batch({"1", "2"})), 2, kind::failed),
               "exited with 1"));
}

CAF_TEST(death by a signal fails and names it) {
  CAF_CHECK_EQUAL(shared_text(run(quoted("kill -9 $$"), make_batch({"1"})), 1, kind::failed),
                  "exec:sh killed by signal 9 (SIGKILL)");
  CAF_CHECK_EQUAL(shared_text(run(quoted("echo x >&2; kill -TERM $$"), make_batch({"1"})), 1, kind::failed),
                  "exec:sh killed by signal 15 (SIGTERM); stderr: x");
}

CAF_TEST(the end of standard error is bounded and valid text) {
  exec_options options;
  options.stderr_tail = 5;
  // The cut goes through the first euro sign, and a stray byte stands at the end.
  const auto text = shared_text(
      run(quoted("printf \"\\342\\202\\254\\342\\202\\254\\377\" >&2; exit 1"), make_batch({"1"}), {}, options), 1,
      kind::failed);
  CAF_CHECK_EQUAL(text, "exec:sh exited with 1; stderr: \xE2\x82\xAC\xEF\xBF\xBD");
  const auto flood =
      shared_text(run(quoted("head -c 300000 /dev/zero | tr \"\\0\" y >&2; echo end >&2; exit 1"), make_batch({"1"})),
                  1, kind::failed);
  CAF_CHECK(flood.size() > 4000 && flood.size() < 4200);
  CAF_CHECK(flood.ends_with("yyyend"));
}

CAF_TEST(a program that is not there is a failed attempt that names it) {
  CAF_CHECK(contains(shared_text(run("no-such-program-here x", make_batch({"1", "2"})), 2, kind::failed),
                     "\"no-such-program-here\""));
  CAF_CHECK(contains(shared_text(run("/etc/passwd", make_batch({"1"})), 1, kind::failed), "Permission denied"));
  CAF_CHECK(contains(shared_text(run("/no/such/file", make_batch({"1"})), 1, kind::failed), "no such program"));
}

CAF_TEST(a command can be checked before it is run) {
  CAF_CHECK(check_exec_command("sh -c true").has_value());
  CAF_CHECK(check_exec_command("/bin/sh -c true").has_value());
  for (const auto* command : {"no-such-program-here", "/no/such/file", "/etc/passwd", "/etc"}) {
    const auto answer = check_exec_command(command);
    CAF_REQUIRE(!answer);
    CAF_CHECK(answer.failure().code == errc::not_found);
    CAF_CHECK(contains(answer.failure().text, command));
  }
  CAF_CHECK(check_exec_command("a 'b").failure().code == errc::invalid_argument);
  CAF_CHECK(make_exec_runner("").failure().code == errc::invalid_argument);
  CAF_CHECK(make_exec_runner("a 'b").failure().code == errc::invalid_argument);
}

CAF_TEST(the description holds no arguments) {
  CAF_CHECK_EQUAL((*make_exec_runner("curl -u user:secret"))->describe(), "exec:curl");
}

CAF_TEST(standard input carries one item a line) {
  const temp_folder folder;
  std::vector<record> items(2);
  items[0].id = item_id{100};
  items[0].payload = "{\"to\":\n\"a\"}";
  items[0].attempts = 1;
  items[0].key = "k";
  items[0].headers = {{"h", "v"}};
  items[1].id = item_id{101};
  items[1].payload = std::string("\0\xFF", 2);
  const batch work{"mail", 42, 30s, std::make_shared<const std::vector<record>>(items)};
  CAF_CHECK(run(quoted("cat > " + folder.file("in")), work).empty());
  CAF_CHECK_EQUAL(read_file(folder.file("in")),
                  "{\"id\":\"" + name_of(100) +
                      "\",\"payload\":{\"to\": \"a\"},\"attempt\":2,\"key\":\"k\",\"headers\":{\"h\":\"v\"}}\n" +
                      "{\"id\":\"" + name_of(101) +
                      "\",\"payload_base64\":\"AP8=\",\"attempt\":1,\"key\":\"\",\"headers\":{}}\n");
}

CAF_TEST(the environment carries the facts of the call) {
  const temp_folder folder;
  const auto script = quoted("env > " + folder.file("env"));
  ::setenv("CARAVAN_JOB_ID", "stale", 1);
  ::setenv("TRACEPARENT", "stale", 1);
  ::setenv("CARAVAN_TEST_INHERITED", "yes", 1);
  const auto target = make_exec_runner(script);
  ::unsetenv("CARAVAN_JOB_ID");
  ::unsetenv("TRACEPARENT");
  const auto variables = [&] {
    std::istringstream in(read_file(folder.file("env")));
    std::set<std::string> lines;
    for (std::string line; std::getline(in, line);) lines.insert(line);
    return lines;
  };
  record one;
  one.id = item_id{100};
  one.attempts = 4;
  one.headers = {{"traceparent", "00-abc-def-01"}};
  auto two = one;
  two.id = item_id{101};
  two.attempts = 6;
  run_context ctx;
  ctx.node = "node-1";
  CAF_CHECK(target.value()
                ->run({"mail", 42, 30s, std::make_shared<const std::vector<record>>(std::vector{one})}, ctx)
                .empty());
  auto seen = variables();
  for (const auto& line :
       {std::string("CARAVAN_QUEUE=mail"), std::string("CARAVAN_BATCH_SIZE=1"), std::string("CARAVAN_LEASE_TOKEN=42"),
        std::string("CARAVAN_ATTEMPT=5"), std::string("CARAVAN_NODE=node-1"), "CARAVAN_JOB_ID=" + name_of(100),
        std::string("TRACEPARENT=00-abc-def-01"), std::string("CARAVAN_TEST_INHERITED=yes")})
    CAF_CHECK_EQUAL(seen.count(line), 1u);
  for (const auto& line : seen) CAF_CHECK(!line.starts_with("CARAVAN_DEADLINE"));

  ctx.deadline = clock_type::now() + 1min;
  CAF_CHECK(target.value()
                ->run({"mail", 42, 30s, std::make_shared<const std::vector<record>>(std::vector{one, two})}, ctx)
                .empty());
  seen = variables();
  CAF_CHECK_EQUAL(seen.count("CARAVAN_BATCH_SIZE=2"), 1u);
  CAF_CHECK_EQUAL(seen.count("CARAVAN_ATTEMPT=7"), 1u);
  int deadlines = 0;
  for (const auto& line : seen) {
    CAF_CHECK(!line.starts_with("CARAVAN_JOB_ID"));
    CAF_CHECK(!line.starts_with("TRACEPARENT"));
    if (line.starts_with("CARAVAN_DEADLINE=20") && line.ends_with("Z")) ++deadlines;
  }
  CAF_CHECK_EQUAL(deadlines, 1);
}

CAF_TEST(big batches pass whatever the handler does with them) {
  // No JSON: the encoding is quicker than the check of 20 MiB in a build without optimisation.
  const auto binary = make_batch(std::vector<std::string>(20, std::string(1 << 20, 'x')));
  // reads nothing; reads nothing and writes much; writes much first; echoes all; closes its input at once; reads all
  CAF_CHECK(run("true", binary).empty());
  CAF_CHECK(run(quoted("head -c 30000000 /dev/zero"), binary).empty());
  CAF_CHECK(
      run(quoted("head -c 30000000 /dev/zero | tr \"\\0\" x; head -c 3000000 /dev/zero >&2; cat >/dev/null"), binary)
          .empty());
  CAF_CHECK(run("cat", binary).empty());
  CAF_CHECK(run(quoted("exec <&-; head -c 3000000 /dev/zero; echo; echo " + name_of(119)), binary).size() == 1);
  std::vector<std::string> payloads;
  for (int i = 0; i < 20; ++i) payloads.push_back("\"" + std::string(1 << 20, static_cast<char>('a' + i)) + "\"");
  const auto work = make_batch(std::move(payloads));
  const auto text = shared_text(run(quoted("wc -lc >&2; exit 3"), work), 20, kind::failed);
  std::istringstream counts(text.substr(text.find("stderr:") + 7));
  std::size_t lines = 0;
  std::size_t bytes = 0;
  counts >> lines >> bytes;
  CAF_CHECK_EQUAL(lines, 20u);
  CAF_CHECK(bytes > 20u << 20 && bytes < (20u << 20) + 20 * 100);
}

CAF_TEST(a flood of output costs no memory) {
  const auto before = resident_kib();
  const auto text =
      shared_text(run(quoted("head -c 200000000 /dev/zero; yes | head -c 50000000 >&2; exit 1"), make_batch({"1"})), 1,
                  kind::failed);
  CAF_CHECK(text.size() < 4200);
  CAF_CHECK(resident_kib() < before + 20'000);
}

CAF_TEST(a broken pipe neither kills nor stays pending) {
  struct sigaction old {};
  struct sigaction fatal {};
  fatal.sa_handler = SIG_DFL;
  ::sigaction(SIGPIPE, &fatal, &old);
  const auto work = make_batch({"\"" + std::string(1 << 20, 'x') + "\""});
  CAF_CHECK(run(quoted("exec <&-; exit 0"), work).empty());
  sigset_t pending;
  ::sigpending(&pending);
  CAF_CHECK(!sigismember(&pending, SIGPIPE));
  sigset_t mask;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  CAF_CHECK(!sigismember(&mask, SIGPIPE));
  ::sigaction(SIGPIPE, &old, nullptr);
}

CAF_TEST(handlers start with default signals and nothing but their streams open) {
  struct sigaction old {};
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  ::sigaction(SIGUSR1, &ignore, &old);
  const int leaked = ::open("/dev/null", 0);
  sigset_t block;
  sigset_t mask;
  sigfillset(&block);
  ::pthread_sigmask(SIG_BLOCK, &block, &mask);
  const auto result = run(quoted("grep -E \"^Sig(Blk|Ign)\" /proc/self/status >&2; echo null devices: $(ls -l "
                                 "/proc/self/fd | grep -c /dev/null) >&2; exit 1"),
                          make_batch({"1"}));
  ::pthread_sigmask(SIG_SETMASK, &mask, nullptr);
  ::close(leaked);
  ::sigaction(SIGUSR1, &old, nullptr);
  const auto text = shared_text(result, 1, kind::failed);
  CAF_CHECK(contains(text, "SigBlk:\t0000000000000000\n"));
  CAF_CHECK(contains(text, "0000000\nnull devices: 0"));  // glibc leaves its two internal signals above 31 ignored
}

CAF_TEST(past the deadline the whole group is killed) {
  const temp_folder folder;
  // The grandchild ignores SIGTERM, has let go of the streams and waits for its own child: only a SIGKILL to the group
  // gets both.
  const auto script = "sh -c \"trap : TERM; trap \\\"\\\" TERM; echo \\$\\$ > " + folder.file("grandchild") +
                      "; while :; do sleep 100; done\" </dev/null >/dev/null 2>&1 & trap \"\" TERM; echo tired >&2; "
                      "while [ ! -s " +
                      folder.file("grandchild") + " ]; do sleep 0.01; done; echo $$ > " + folder.file("child") +
                      "; while :; do sleep 100; done";
  exec_options options;
  options.grace = 100ms;
  options.counters = std::make_shared<exec_counters>();
  run_context ctx;
  const auto start = clock_type::now();
  ctx.deadline = start + 3s;
  const auto text = shared_text(run(quoted(script), make_batch({"1", "2"}), ctx, options), 2, kind::failed);
  CAF_CHECK(contains(text, "exec:sh timed out after 3"));
  CAF_CHECK(contains(text, "s and was killed; stderr: tired"));
  const auto took = clock_type::now() - start;
  CAF_CHECK(took >= 3100ms && took < 20s);
  const int child = read_pid(folder.file("child"));
  const int grandchild = read_pid(folder.file("grandchild"));
  CAF_REQUIRE(child > 0 && grandchild > 0);
  CAF_CHECK(eventually([&] { return is_gone(child) && is_gone(grandchild); }));
  CAF_CHECK_EQUAL(options.counters->killed.load(), 1u);
}

CAF_TEST(children of a handler that ends when asked get the rest of the grace) {
  const temp_folder folder;
  const auto script = "sh -c \"trap \\\"echo cleaned > " + folder.file("cleaned") + "; exit\\\" TERM; echo \\$\\$ > " +
                      folder.file("up") + "; while :; do sleep 0.02; done\" & wait";
  exec_options options;
  options.grace = 60s;  // never reached: the streams close when the grandchild ends
  std::stop_source stop;
  run_context ctx;
  ctx.stop = stop.get_token();
  std::jthread asker([&] {
    eventually([&] { return read_pid(folder.file("up")) > 0; });
    stop.request_stop();
  });
  const auto start = clock_type::now();
  CAF_CHECK_EQUAL(shared_text(run(quoted(script), make_batch({"1"}), ctx, options), 1, kind::unhandled), "");
  CAF_CHECK(clock_type::now() - start < 30s);
  CAF_CHECK_EQUAL(read_file(folder.file("cleaned")), "cleaned\n");
}

CAF_TEST(a stop hands all items back even if the handler then exits by 0) {
  const temp_folder folder;
  std::stop_source stop;
  run_context ctx;
  ctx.stop = stop.get_token();
  ctx.deadline = clock_type::now() + 1h;
  std::jthread asker([&] {
    eventually([&] { return read_pid(folder.file("up")) > 0; });
    stop.request_stop();
  });
  const auto script = "trap \"exit 0\" TERM; echo $$ > " + folder.file("up") + "; while :; do sleep 0.02; done";
  CAF_CHECK_EQUAL(shared_text(run(quoted(script), make_batch({"1", "2", "3"}), ctx), 3, kind::unhandled), "");
  CAF_CHECK(is_gone(read_pid(folder.file("up"))));
}

CAF_TEST(a stop wakes a call that waits) {
  const temp_folder folder;
  std::stop_source stop;
  exec_options options;
  options.grace = 60s;
  run_context ctx;
  ctx.stop = stop.get_token();
  std::atomic<clock_type::time_point> asked{};
  std::jthread asker([&] {
    eventually([&] { return read_pid(folder.file("up")) > 0; });
    asked = clock_type::now();
    stop.request_stop();
  });
  const auto result =
      run(quoted("echo $$ > " + folder.file("up") + "; exec sleep 1000"), make_batch({"1"}), ctx, options);
  CAF_CHECK_EQUAL(shared_text(result, 1, kind::unhandled), "");
  CAF_CHECK(clock_type::now() - asked.load() < 20s);  // below the grace: the first signal was enough
}

CAF_TEST(a call that comes too late starts nothing) {
  const temp_folder folder;
  const auto command = "touch " + folder.file("ran");
  std::stop_source stop;
  stop.request_stop();
  run_context stopped;
  stopped.stop = stop.get_token();
  CAF_CHECK_EQUAL(shared_text(run(command, make_batch({"1"}), stopped), 1, kind::unhandled), "");
  run_context late;
  late.deadline = clock_type::now() - 1s;
  CAF_CHECK(contains(shared_text(run(command, make_batch({"1"}), late), 1, kind::failed), "time was over"));
  late.stop = stop.get_token();
  CAF_CHECK(contains(shared_text(run(command, make_batch({"1"}), late), 1, kind::failed), "time was over"));
  CAF_CHECK(!std::filesystem::exists(folder.file("ran")));
}

CAF_TEST(a background process that keeps the streams open does not hold up the call) {
  const temp_folder folder;
  const auto script = "cat >/dev/null; setsid sh -c \"echo \\$\\$ > " + folder.file("daemon") +
                      "; exec sleep 1000\" & while [ ! -s " + folder.file("daemon") + " ]; do sleep 0.01; done; echo " +
                      name_of(100);
  const auto start = clock_type::now();
  const auto result = run(quoted(script), make_batch({"1", "2"}));
  CAF_CHECK(clock_type::now() - start < 60s);
  CAF_REQUIRE_EQUAL(result.size(), 1u);
  CAF_CHECK_EQUAL(result[0].index, 0u);
  const int daemon = read_pid(folder.file("daemon"));
  CAF_REQUIRE(daemon > 0);
  CAF_CHECK(!is_gone(daemon));  // a handler may leave something behind on purpose
  ::kill(daemon, SIGKILL);
}

CAF_TEST(eight calls run at once) {
  const temp_folder folder;
  constexpr int callers = 8;
  // Each handler waits until all eight are there: a runner that did them one after another would not come back.
  const auto target = make_exec_runner(
      quoted("touch " + folder.file("$CARAVAN_LEASE_TOKEN") + "; while [ $(ls " + folder.path.string() +
             " | wc -l) -lt 8 ]; do sleep 0.02; done; cat >/dev/null; echo " + name_of(101)));
  std::atomic<int> good{0};
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < callers; ++i)
      threads.emplace_back([&, i] {
        auto work = make_batch({"1", "\"" + std::string(300'000, 'x') + "\""});
        work.token = static_cast<std::uint64_t>(i);
        run_context ctx;
        ctx.deadline = clock_type::now() + 60s;
        const auto result = target.value()->run(work, ctx);
        if (result.size() == 1 && result[0].index == 1 && result[0].what == kind::unhandled) ++good;
      });
  }
  CAF_CHECK_EQUAL(good.load(), callers);
}

CAF_TEST(a thousand calls leave no descriptor and no zombie behind) {
  const auto target = make_exec_runner("true");
  const auto missing = make_exec_runner("no-such-program-here");
  const auto work = make_batch({"1"});
  (void)target.value()->run(work, {});
  const auto before = open_descriptors();
  for (int i = 0; i < 1000; ++i) {
    if (!target.value()->run(work, {}).empty()) CAF_FAIL("call " << i << " failed");
    if (i % 10 == 0) (void)missing.value()->run(work, {});
  }
  CAF_CHECK_EQUAL(open_descriptors(), before);
  CAF_CHECK_EQUAL(::waitpid(-1, nullptr, WNOHANG), -1);
}

CAF_TEST(a machine without descriptors means later) {
  const auto target = make_exec_runner("true");
  std::vector<int> taken;
  rlimit old{};
  ::getrlimit(RLIMIT_NOFILE, &old);
  auto low = old;
  low.rlim_cur = open_descriptors() + 8;
  ::setrlimit(RLIMIT_NOFILE, &low);
  for (int fd; (fd = ::open("/dev/null", O_CLOEXEC)) >= 0;) taken.push_back(fd);
  // With each one given back another call of the start fails, until all of it fits.
  bool has_run = false;
  int laters = 0;
  while (!taken.empty() && !has_run) {
    const auto result = target.value()->run(make_batch({"1"}), {});
    has_run = result.empty();
    if (!has_run) CAF_CHECK(contains(shared_text(result, 1, kind::later), "cannot start \"true\" now"));
    if (!has_run) ++laters;
    ::close(taken.back());
    taken.pop_back();
  }
  for (const int fd : taken) ::close(fd);
  ::setrlimit(RLIMIT_NOFILE, &old);
  CAF_CHECK(has_run);
  CAF_CHECK(laters >= 7);
}
