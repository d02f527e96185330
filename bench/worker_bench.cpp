/// How the throughput of a queue grows with the processes that claim from it over HTTP:
///   bench_workers [JOBS [CONCURRENCY]]
/// The handler sleeps 10 ms, so that what is measured is the way of a job and not this machine's work on it.

#include <caravan/node.hpp>
#include <caravan/worker.hpp>

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

using namespace std::chrono_literals;
using steady = std::chrono::steady_clock;

namespace {

constexpr auto work = 10ms;

/// A process that handles until it is killed. Forked before this one has threads; it waits for the port on a pipe.
struct helper {
  pid_t pid = 0;
  int to = -1;
};

helper fork_helper(unsigned concurrency) {
  int ends[2];
  if (::pipe(ends) != 0) std::exit(1);
  const auto pid = ::fork();
  if (pid < 0) std::exit(1);
  if (pid > 0) {
    ::close(ends[0]);
    return {pid, ends[1]};
  }
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::close(ends[1]);
  int port = 0;
  if (::read(ends[0], &port, sizeof port) != sizeof port) std::_Exit(0);
  caravan::worker w({.addresses = "127.0.0.1:" + std::to_string(port), .queue = "bench", .concurrency = concurrency},
                    [](std::vector<int>&) { std::this_thread::sleep_for(work); });
  w.wait();
  std::_Exit(0);
}

}  // namespace

int main(int argc, char** argv) {
  const auto jobs = argc > 1 ? std::atoi(argv[1]) : 4'000;
  const auto concurrency = static_cast<unsigned>(argc > 2 ? std::atoi(argv[2]) : 4);
  std::vector<std::vector<helper>> rounds;
  for (const int processes : {1, 2, 4}) {
    rounds.emplace_back();
    for (int i = 0; i < processes; ++i) rounds.back().push_back(fork_helper(concurrency));
  }
  const auto folder = std::filesystem::temp_directory_path() / ("caravan-bench-" + std::to_string(::getpid()));
  {
    caravan::node node({.config_text = "[http]\nADDR = 127.0.0.1:0\n[queue.bench]\nTYPE = channel\n",
                        .data_dir = folder,
                        .use_environment = false,
                        .serve_http = true,
                        .quiet = true});
    auto queue = node.open_queue<int>("bench");
    const std::vector<int> items(static_cast<std::size_t>(jobs), 7);
    for (const auto& helpers : rounds) {
      const auto before = queue.info().value().handled;
      (void)queue.push_many(items).value();
      const auto begin = steady::now();
      const int port = node.http_port();
      for (const auto& h : helpers)
        if (::write(h.to, &port, sizeof port) != sizeof port) return 1;
      while (queue.info().value().handled < before + static_cast<std::uint64_t>(jobs)) std::this_thread::sleep_for(5ms);
      const auto took = std::chrono::duration<double>(steady::now() - begin).count();
      std::printf("%zu process(es) of %u handlers: %d jobs in %.2f s, %.0f/s; ideal %.0f/s\n", helpers.size(),
                  concurrency, jobs, took, jobs / took,
                  static_cast<double>(helpers.size()) * concurrency / std::chrono::duration<double>(work).count());
      std::fflush(stdout);
      for (const auto& h : helpers) {
        ::kill(h.pid, SIGKILL);
        ::waitpid(h.pid, nullptr, 0);
      }
    }
  }
  std::filesystem::remove_all(folder);
}
