#define CAF_SUITE http_overload
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <deque>
#include <queue>
#include <random>
#include <unordered_map>
#include <vector>

#include "caf/test/unit_test.hpp"
#include "toolbox/codel.hpp"

// Five times the load that can be done, in virtual time: the same requests with and without the door.

using namespace caravan;
using namespace std::chrono_literals;
using toolbox::admission;
using toolbox::codel_core;
using toolbox::priority;
using toolbox::steady_time;

namespace {

constexpr std::size_t workers = 8;
constexpr auto service = 10ms;  // so 800 a second can be done
constexpr auto patience = 1s;   // an answer that comes later is of use to nobody
constexpr auto length = 30s;
constexpr auto target = 250ms;
constexpr double capacity = 800;
// By priority, low first: pushes 3.5 times the capacity, changes once, reads half of it.
constexpr std::array<double, 3> offered{3.5 * capacity, 1.0 * capacity, 0.5 * capacity};

struct figures {
  std::array<std::size_t, 3> asked{}, in_time{}, late{}, refused{};
  std::array<std::vector<std::chrono::nanoseconds>, 3> waits;  // of those that were answered

  [[nodiscard]] double goodput() const {
    return static_cast<double>(in_time[0] + in_time[1] + in_time[2]) / std::chrono::duration<double>(length).count();
  }
  [[nodiscard]] std::chrono::nanoseconds wait(std::size_t level, double part) {
    auto& w = waits[level];
    if (w.empty()) return 0ns;
    std::sort(w.begin(), w.end());
    return w[std::min(w.size() - 1, static_cast<std::size_t>(part * static_cast<double>(w.size())))];
  }
  void print(const char* title) {
    std::printf("%s: %.0f a second in time, %.1f %% of the capacity\n", title, goodput(), 100 * goodput() / capacity);
    for (std::size_t level = 3; level-- > 0;)
      std::printf(
          "  %-8s asked %6zu, in time %5.1f %%, late %5.1f %%, refused %5.1f %%, wait p50 %6.1f ms, p99 %6.1f ms\n",
          std::array{"pushes", "changes", "reads"}[level], asked[level], share(in_time[level], level),
          share(late[level], level), share(refused[level], level),
          std::chrono::duration<double, std::milli>(wait(level, 0.5)).count(),
          std::chrono::duration<double, std::milli>(wait(level, 0.99)).count());
  }
  [[nodiscard]] double share(std::size_t n, std::size_t level) const {
    return 100 * static_cast<double>(n) / static_cast<double>(std::max<std::size_t>(1, asked[level]));
  }
};

struct arrival {
  steady_time at;
  std::size_t level;
};

std::vector<arrival> arrivals() {
  std::mt19937_64 random{20261201};
  std::vector<arrival> all;
  for (std::size_t level = 0; level < 3; ++level)
    for (double t = 0;;) {
      const auto u = static_cast<double>((random() >> 11) + 1) / 9007199254740993.0;
      t += -std::log(u) / offered[level];
      const auto at = std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(t));
      if (at >= length) break;
      all.push_back({steady_time{} + 1h + at, level});
    }
  std::sort(all.begin(), all.end(), [](const arrival& a, const arrival& b) { return a.at < b.at; });
  return all;
}

/// The work itself has no order of its own: workers take what was let in, first come first served.
class backend {
public:
  explicit backend(figures& f) : figures_(f) {}
  void begin(const arrival& a, steady_time now) {
    line_.push_back(a);
    work(now);
  }
  [[nodiscard]] steady_time next_end() const { return ends_.empty() ? steady_time::max() : ends_.top(); }
  void end(steady_time now) {
    ends_.pop();
    work(now);
  }

private:
  void work(steady_time now) {
    while (ends_.size() < workers && !line_.empty()) {
      const auto a = line_.front();
      line_.pop_front();
      figures_.waits[a.level].push_back(now - a.at);
      ++(now + service - a.at <= patience ? figures_.in_time : figures_.late)[a.level];
      ends_.push(now + service);
    }
  }
  figures& figures_;
  std::deque<arrival> line_;
  std::priority_queue<steady_time, std::vector<steady_time>, std::greater<>> ends_;
};

figures run(bool with_door) {
  figures f;
  backend work{f};
  codel_core core{{.max_in_flight = workers, .max_waiting = 100, .target = target}};
  std::unordered_map<codel_core::ticket, arrival> waiting;
  const auto tell = [&](const std::vector<codel_core::verdict>& all, steady_time now) {
    for (const auto& v : all) {
      if (v.what == admission::wait) continue;
      const auto a = waiting.at(v.who);
      waiting.erase(v.who);
      if (v.what == admission::go)
        work.begin(a, now);
      else
        ++f.refused[a.level];
    }
  };
  const auto all = arrivals();
  for (std::size_t next = 0; next < all.size();) {
    const auto tick = with_door ? core.next_tick().value_or(steady_time::max()) : steady_time::max();
    const auto now = std::min({all[next].at, work.next_end(), tick});
    if (work.next_end() == now) {
      work.end(now);
      if (with_door) tell(core.leave(now), now);
    } else if (tick == now) {
      tell(core.tick(now), now);
    } else {
      const auto a = all[next++];
      ++f.asked[a.level];
      if (!with_door) {
        work.begin(a, now);
        continue;
      }
      const auto verdicts = core.arrive(static_cast<priority>(a.level), now);
      waiting.emplace(verdicts.front().who, a);
      tell(verdicts, now);
    }
  }
  return f;
}

}  // namespace

CAF_TEST(with the door the capacity is used reads are quick and pushes are shed first) {
  auto f = run(true);
  f.print("with");
  CAF_CHECK(f.goodput() > 0.9 * capacity);
  CAF_CHECK_EQUAL(f.refused[2], 0u);
  CAF_CHECK(f.wait(2, 0.99) < target);
  CAF_CHECK(f.share(f.refused[1], 1) < f.share(f.refused[0], 0));
  CAF_CHECK(f.share(f.in_time[1], 1) > 35);
  CAF_CHECK_EQUAL(f.late[0] + f.late[1] + f.late[2], 0u);
}

CAF_TEST(without it nearly everything comes too late) {
  auto f = run(false);
  f.print("without");
  CAF_CHECK(f.goodput() < 0.1 * capacity);
  CAF_CHECK(f.wait(2, 0.5) > patience);
}
