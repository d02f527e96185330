#pragma once

/// A server that works on everything at once finishes nothing, and one that lets everybody wait answers everybody too
/// late. `codel_core` lets so many requests in at once, lets further ones wait in a line, and watches how long the
/// oldest has waited: a line that empties again soon is a burst and harms nobody; one whose oldest request waits longer
/// than `target` for a whole `interval` is overload. Then it refuses waiting requests, slowly at first and faster the
/// longer that lasts (controlled delay, RFC 8289), until the wait is short again.
///
/// Requests have a priority. The highest is let in first, the lowest is refused first, and one that finds the line full
/// takes the place of a lower one. priority_of is the usual rule for web requests.
///
///   toolbox::codel_core core{{.max_in_flight = 50, .max_waiting = 100, .target = 250ms}};
///   auto [ticket, answer] = core.arrive(priority_of(signed_in, expensive), now);
///   if (answer == admission::wait) park(ticket);
///   for (auto [ticket, answer] : core.leave(now)) ...    // someone finished: who is let in or refused instead
///   for (auto [ticket, answer] : core.tick(now)) ...     // at next_tick() at the latest: who is refused
///
/// For threads that may block, `codel` is the same with a lock and a wait:
///
///   auto pass = door.enter(priority::normal);            // waits; a failure is to be answered with 503, Retry-After
///   if (!pass) return unavailable();
///   pass->leave();                                       // or by its destructor; a long poll leaves while it idles
///
/// Threads: codel_core is not thread safe; codel is. Units: std::chrono. Errors: the constructors throw
/// std::invalid_argument for max_in_flight 0 and for a target or interval that is not above zero. enter answers
/// rejected (overload) or cancelled (its stop token).

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <list>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <unordered_map>
#include <utility>
#include <vector>

#include "toolbox/clock.hpp"
#include "toolbox/outcome.hpp"
#include "toolbox/waiting.hpp"

namespace caravan::toolbox {

enum class priority : std::uint8_t { low, normal, high };

/// Callers that are known come first; what is expensive for the unknown comes last; the rest lies between.
[[nodiscard]] constexpr priority priority_of(bool caller_is_known, bool expensive) noexcept {
  if (caller_is_known) return priority::high;
  return expensive ? priority::low : priority::normal;
}

struct codel_options {
  std::size_t max_in_flight = 1;
  std::size_t max_waiting = 0;                                         ///< 0: nobody waits
  std::chrono::nanoseconds target = std::chrono::milliseconds{250};    ///< a wait that is still good
  std::chrono::nanoseconds interval = std::chrono::milliseconds{100};  ///< how long it must be exceeded to count
};

enum class admission : std::uint8_t { go, wait, refused };

/// Since construction, but for the first two.
struct codel_statistics {
  std::size_t in_flight = 0;
  std::size_t waiting = 0;
  std::uint64_t admitted = 0;
  std::uint64_t refused_full = 0;  ///< no room in the line, or put out of it by a higher one
  std::uint64_t refused_late = 0;  ///< by controlled delay
};

class codel_core {
public:
  using ticket = std::uint64_t;
  struct verdict {
    ticket who;
    admission what;
    friend bool operator==(const verdict&, const verdict&) = default;
  };

  explicit codel_core(codel_options options) : options_(options) {
    if (options.max_in_flight == 0) throw std::invalid_argument("codel: max_in_flight must be above zero");
    if (options.target <= options.target.zero() || options.interval <= options.interval.zero())
      throw std::invalid_argument("codel: target and interval must be above zero");
  }

  /// The first verdict is the newcomer's. A second one is `refused` for a request that waited and gave way to it.
  std::vector<verdict> arrive(priority level, steady_time now) {
    const auto mine = ++last_;
    if (in_flight_ < options_.max_in_flight && waiting_.empty()) {
      admit();
      return {{mine, admission::go}};
    }
    std::vector<verdict> out{{mine, admission::wait}};
    if (waiting_.size() >= options_.max_waiting) {
      const auto lowest = lowest_line();
      ++refused_full_;
      if (!lowest || *lowest >= index_of(level)) return {{mine, admission::refused}};
      const auto gives_way = lines_[*lowest].back().who;  // the one that has waited least
      forget(gives_way);
      out.push_back({gives_way, admission::refused});
    }
    auto& line = lines_[index_of(level)];
    line.push_back({mine, now});
    waiting_.emplace(mine, place{index_of(level), std::prev(line.end())});
    watch(now);
    return out;
  }

  /// One that was let in is done, or idles and gives its place back.
  std::vector<verdict> leave(steady_time now) {
    if (in_flight_ > 0) --in_flight_;
    std::vector<verdict> out;
    refuse_late(now, out);
    while (in_flight_ < options_.max_in_flight && !waiting_.empty()) {
      std::size_t highest = lines_.size() - 1;
      while (lines_[highest].empty()) --highest;
      const auto next = lines_[highest].front().who;
      forget(next);
      admit();
      out.push_back({next, admission::go});
    }
    watch(now);
    return out;
  }

  /// One that waits goes away by itself. False if it does not wait any more: its verdict has been given.
  bool give_up(ticket who, steady_time now) {
    if (!waiting_.contains(who)) return false;
    forget(who);
    watch(now);
    return true;
  }

  std::vector<verdict> tick(steady_time now) {
    std::vector<verdict> out;
    refuse_late(now, out);
    return out;
  }
  /// When tick has something to do at the earliest, if nothing else happens before.
  [[nodiscard]] std::optional<steady_time> next_tick() const {
    if (waiting_.empty()) return std::nullopt;
    if (dropping_) return next_drop_;
    if (above_since_) return later(*above_since_, options_.interval);
    return later(oldest(), options_.target);
  }

  [[nodiscard]] bool overloaded() const noexcept { return dropping_; }
  [[nodiscard]] codel_statistics statistics() const {
    return {in_flight_, waiting_.size(), admitted_, refused_full_, refused_late_};
  }

private:
  struct waiter {
    ticket who;
    steady_time since;
  };
  struct place {
    std::size_t line;
    std::list<waiter>::iterator at;
  };

  static std::size_t index_of(priority level) noexcept { return static_cast<std::size_t>(level); }
  void admit() {
    ++in_flight_;
    ++admitted_;
  }
  void forget(ticket who) {
    const auto found = waiting_.find(who);
    lines_[found->second.line].erase(found->second.at);
    waiting_.erase(found);
  }
  [[nodiscard]] std::optional<std::size_t> lowest_line() const {
    for (std::size_t i = 0; i < lines_.size(); ++i)
      if (!lines_[i].empty()) return i;
    return std::nullopt;
  }
  [[nodiscard]] steady_time oldest() const {
    auto first = steady_time::max();
    for (const auto& line : lines_)
      if (!line.empty()) first = std::min(first, line.front().since);
    return first;
  }

  // Whether the wait is too long, and since when.
  void watch(steady_time now) {
    if (waiting_.empty() || now - oldest() < options_.target) {
      above_since_.reset();
      dropping_ = false;
    } else if (!above_since_) {
      above_since_ = later(oldest(), options_.target);  // which may have passed unseen
    }
  }

  void refuse_late(steady_time now, std::vector<verdict>& out) {
    watch(now);
    if (!dropping_) {
      if (!above_since_ || now < later(*above_since_, options_.interval)) return;
      dropping_ = true;
      // Overload that is back soon goes on near the rate that worked the last time.
      const bool soon = drops_ > 2 && now - next_drop_ < 16 * options_.interval;
      drops_ = soon ? drops_ - 2 : 0;
      next_drop_ = now;
    }
    while (dropping_ && now >= next_drop_) {
      const auto late = lines_[*lowest_line()].front().who;
      forget(late);
      ++refused_late_;
      ++drops_;
      out.push_back({late, admission::refused});
      next_drop_ = later(next_drop_, pause());
      watch(now);
    }
  }
  [[nodiscard]] std::chrono::nanoseconds pause() const {
    const auto full = static_cast<double>(options_.interval.count());
    return std::chrono::nanoseconds{
        std::max<std::int64_t>(1, static_cast<std::int64_t>(full / std::sqrt(static_cast<double>(drops_))))};
  }

  const codel_options options_;
  std::array<std::list<waiter>, 3> lines_;  // by priority; who came first is in front
  std::unordered_map<ticket, place> waiting_;
  ticket last_ = 0;
  std::size_t in_flight_ = 0;
  std::uint64_t admitted_ = 0;
  std::uint64_t refused_full_ = 0;
  std::uint64_t refused_late_ = 0;
  std::optional<steady_time> above_since_;
  bool dropping_ = false;
  std::uint64_t drops_ = 0;  // in this stretch of overload
  steady_time next_drop_{};
};

class codel {
public:
  /// One request that was let in. Must not outlive the codel.
  class pass {
  public:
    pass(pass&& other) noexcept : from_(std::exchange(other.from_, nullptr)) {}
    pass& operator=(pass&&) = delete;
    ~pass() { leave(); }
    /// Once; further calls do nothing.
    void leave() {
      if (auto* from = std::exchange(from_, nullptr)) from->finish();
    }

  private:
    friend class codel;
    explicit pass(codel& from) : from_(&from) {}
    codel* from_;
  };

  explicit codel(codel_options options, const clock& time = real_clock::shared()) : time_(time), core_(options) {}
  codel(const codel&) = delete;
  codel& operator=(const codel&) = delete;

  [[nodiscard]] outcome<pass> enter(priority level, std::stop_token stop = {}) {
    const std::stop_callback wake{stop, [this] {
                                    const std::lock_guard guard{mutex_};
                                    changed_.notify_all();
                                  }};
    std::unique_lock lock{mutex_};
    const auto first = core_.arrive(level, time_.now());
    const auto mine = first.front().who;
    auto mine_is = first.front().what;
    tell(first, mine);
    while (mine_is == admission::wait) {
      // Everybody who waits keeps the time: there is no thread of its own.
      const auto due = core_.next_tick().value_or(steady_time::max());
      wait_until(changed_, lock, time_, due, [&] { return verdicts_.contains(mine) || stop.stop_requested(); });
      if (!verdicts_.contains(mine)) tell(core_.tick(time_.now()), 0);
      if (const auto said = verdicts_.extract(mine))
        mine_is = said.mapped();
      else if (stop.stop_requested() && core_.give_up(mine, time_.now()))
        return failure{fault::cancelled, "the caller stopped waiting to be let in"};
    }
    if (mine_is == admission::go) return pass{*this};
    return failure{fault::rejected, "overloaded: requests wait longer than they should; try again later"};
  }

  [[nodiscard]] codel_statistics statistics() const {
    const std::lock_guard guard{mutex_};
    return core_.statistics();
  }

private:
  void finish() {
    const std::lock_guard guard{mutex_};
    tell(core_.leave(time_.now()), 0);
  }
  void tell(const std::vector<codel_core::verdict>& all, codel_core::ticket except) {
    bool somebody = false;
    for (const auto& one : all)
      if (one.who != except && one.what != admission::wait) {
        verdicts_.emplace(one.who, one.what);
        somebody = true;
      }
    if (somebody) changed_.notify_all();
  }

  const clock& time_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  codel_core core_;
  std::unordered_map<codel_core::ticket, admission> verdicts_;  // of those who wait and have not looked yet
};

}  // namespace caravan::toolbox
