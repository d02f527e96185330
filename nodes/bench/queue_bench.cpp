#include "nodes/bench/queue_bench.hpp"

#include "config/redis_address.hpp"
#include "integration/redis/redis_client.hpp"

#include <caravan/caravan.hpp>

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

namespace caravan {

using namespace std::chrono_literals;
using steady = std::chrono::steady_clock;

namespace {

constexpr auto patience = 10min;

/// Exactly 100 bytes, different for each number.
raw_json job(std::uint64_t n) {
  std::string text = R"({"n":)" + std::to_string(n) + R"(,"text":")";
  text.append(98 - text.size(), 'x');
  return {text + "\"}"};
}

double seconds_since(steady::time_point begun) { return std::chrono::duration<double>(steady::now() - begun).count(); }

/// Pushes `n` jobs by `producers` threads. `number` maps the running number to that of the job.
template <class Number>
expected<void> push_all(queue<raw_json>& to, std::size_t n, unsigned producers, std::size_t each, Number number) {
  std::mutex mutex;
  expected<void> failed;
  const auto produce = [&](std::size_t from, std::size_t until) {
    std::vector<raw_json> chunk;
    for (auto i = from; i < until;) {
      expected<void> ok;
      if (each == 1) {
        const auto id = to.push(job(number(i++)));
        if (!id && id.failure().code != errc::already_in_queue) ok = id.failure();
      } else {
        chunk.clear();
        for (; i < until && chunk.size() < each; ++i) chunk.push_back(job(number(i)));
        const auto ids = to.push_many(chunk);
        if (!ids) ok = ids.failure();
      }
      if (ok) continue;
      const std::lock_guard lock(mutex);
      failed = ok;
      return;
    }
  };
  std::vector<std::jthread> threads;
  for (unsigned p = 1; p < producers; ++p) threads.emplace_back(produce, n * p / producers, n * (p + 1) / producers);
  produce(0, n / producers);
  threads.clear();
  return failed;
}

class temporary_folder {
public:
  explicit temporary_folder(const std::filesystem::path& parent)
    : path_((parent.empty() ? std::filesystem::temp_directory_path() : std::filesystem::absolute(parent)) /
            ("caravan-bench-" + std::to_string(getpid()))) {}
  ~temporary_folder() {
    std::error_code ec;
    std::filesystem::remove_all(path_, ec);
  }
  temporary_folder(const temporary_folder&) = delete;
  temporary_folder& operator=(const temporary_folder&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

private:
  std::filesystem::path path_;
};

/// Takes away what the queues of this process left in Redis, also when the measure fails.
class redis_sweeper {
public:
  explicit redis_sweeper(std::string url) : url_(std::move(url)) {}
  ~redis_sweeper() {
    const auto address = config::parse_redis_address(url_);
    if (url_.empty() || !address) return;
    redis_options o;
    o.address = *address;
    redis_client c(o);
    const auto keys = c.command({"KEYS", "caravan:{bench_" + std::to_string(getpid()) + "}:*"});
    if (!keys) return;
    for (const auto& k : keys->items) (void)c.command({"UNLINK", k.text});
  }
  redis_sweeper(const redis_sweeper&) = delete;
  redis_sweeper& operator=(const redis_sweeper&) = delete;

private:
  std::string url_;
};

expected<queue_bench_result> measure_latency(node& n, std::size_t count) {
  std::mutex mutex;
  std::vector<double> ms;
  auto q = n.create_simple_queue<std::int64_t>("bench", [&](std::vector<std::int64_t>& sent) {
    const auto now = steady::now().time_since_epoch().count();
    const std::lock_guard lock(mutex);
    for (const auto at : sent) ms.push_back(static_cast<double>(now - at) / 1e6);
  });
  auto next = steady::now();
  for (std::size_t i = 0; i < count; ++i) {
    std::this_thread::sleep_until(next += 5ms);
    if (auto id = q.push(steady::now().time_since_epoch().count()); !id) return id.failure();
  }
  if (auto ok = q.flush(patience); !ok) return ok.failure();
  std::sort(ms.begin(), ms.end());
  if (ms.empty()) return {errc::invalid_argument, "a latency needs at least one job"};
  queue_bench_result r;
  r.n = ms.size();
  r.p50_ms = ms[ms.size() / 2];
  r.p99_ms = ms[ms.size() * 99 / 100];
  r.max_ms = ms.back();
  return r;
}

}  // namespace

expected<queue_bench_result> bench_queue(const queue_bench_options& o) {
  using work = queue_bench_options::work;
  if (o.jobs == 0 || o.producers == 0 || o.workers == 0)
    return {errc::invalid_argument, "jobs, producers and workers must be at least 1"};
  const bool on_redis = o.backend == "redis";
  const temporary_folder folder(o.folder);
  const redis_sweeper sweeper(on_redis ? o.redis : "");
  node_options options;
  options.data_dir = folder.path();
  options.use_environment = false;
  options.quiet = true;
  options.config_text = "[queue]\nTYPE = " + o.backend + "\nSYNC = " + o.sync + "\nLENGTH = " + std::to_string(2 * o.jobs + 1'000) +
                        "\nMAX_WORKERS = " + std::to_string(o.workers) + "\nQUEUE_NAME = _" + std::to_string(getpid()) + "\n";
  if (on_redis) options.config_text += "CONN_STR = `" + o.redis + "`\n";
  auto started = node::start(std::move(options));
  if (!started) return started.failure();
  auto& n = **started;

  const bool single = o.what == work::single || o.what == work::latency;
  queue_bench_result r;
  r.push_batch = o.push_batch > 0 ? o.push_batch : single ? 1 : 100;
  r.n = o.jobs;
  std::atomic<std::size_t> handled{0};
  const auto handler = [&](std::vector<raw_json>& items) { handled += items.size(); };
  const auto same = [](std::size_t i) { return i; };
  const auto half = [](std::size_t i) { return i / 2; };
  expected<void> ok;
  switch (o.what) {
    case work::latency: {
      auto measured = measure_latency(n, o.jobs);
      if (!measured) return measured;
      r = *measured;
      break;
    }
    case work::single:
    case work::bulk: {
      auto q = n.open_queue<raw_json>("bench");
      const auto begun = steady::now();
      ok = push_all(q, o.jobs, o.producers, r.push_batch, same);
      r.jobs_per_s = static_cast<double>(o.jobs) / seconds_since(begun);
      break;
    }
    case work::unique: {
      // Nothing is handled meanwhile, so every second item finds its equal waiting.
      auto q = n.create_unique_queue<raw_json>("bench", handler);
      ok = q.pause();
      const auto begun = steady::now();
      if (ok) ok = push_all(q, o.jobs, o.producers, r.push_batch, half);
      r.jobs_per_s = static_cast<double>(o.jobs) / seconds_since(begun);
      break;
    }
    case work::drain:
    case work::both: {
      auto q = n.create_simple_queue<raw_json>("bench", handler);
      if (o.what == work::drain) {
        ok = q.pause();
        if (ok) ok = push_all(q, o.jobs, o.producers, r.push_batch, same);
      }
      const auto begun = steady::now();
      if (ok) ok = o.what == work::drain ? q.resume() : push_all(q, o.jobs, o.producers, r.push_batch, same);
      if (ok) ok = q.flush(patience);
      if (ok) ok = n.stop() == 0 ? ok : expected<void>(errc::conflict, "handlers still run");  // the last acknowledgements are written
      r.jobs_per_s = static_cast<double>(o.jobs) / seconds_since(begun);
      if (ok && handled != o.jobs)
        return {errc::backend_failed, std::to_string(handled) + " of " + std::to_string(o.jobs) + " jobs were handled"};
      break;
    }
  }
  if (!ok) return ok.failure();
  r.durability = o.backend == "level" ? "level, SYNC = " + o.sync : on_redis ? "as Redis is set" : "none (memory)";
  return r;
}

}  // namespace caravan
