#pragma once

/// A service that fails is not helped by more requests, and its callers wait for nothing. `breaker` watches how many
/// calls succeed and refuses a growing share of them while too few do; a trickle always passes, so that it notices when
/// the service is back. There is no open or closed: the share follows the last ten seconds.
///
///   toolbox::breaker database;
///   auto user = database.run([&] { return load(7); });             // outcome<...>: rejected, or what load returned
///   if (auto pass = database.allow()) pass->accept(call_it());      // by hand: accept(true) or accept(false)
///   auto shown = database.run_or(load, [](const toolbox::failure&) { return nobody; });   // if it was refused
///
/// The share refused is max(0, (calls - 5 - k * successes) / (calls + 1)), where k is 1.5 and sinks towards 1.1 with
/// the share of intervals in which everything failed. After a second without any passing call one is let through.
///
/// Threads: safe. Errors: run answers rejected if it refused; a call that throws counts as failed and the exception
/// passes on. A function that returns a testable (bool, optional, an expected) counts as failed when that is false;
/// `acceptable` may say that an error is the caller's own affair and no sign of trouble ("not found").
/// A ticket that is destroyed without an answer counts as failed.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <random>
#include <type_traits>
#include <utility>

#include "toolbox/clock.hpp"
#include "toolbox/outcome.hpp"
#include "toolbox/rolling_window.hpp"

namespace caravan::toolbox {

struct breaker_options {
  std::chrono::nanoseconds window = std::chrono::seconds{10};
  std::size_t buckets = 40;
  double k = 1.5;                ///< how many calls one success pays for
  double least_k = 1.1;          ///< the same when every interval failed
  std::uint64_t protection = 5;  ///< so many calls never lead to a refusal
  std::chrono::nanoseconds force_pass_after = std::chrono::seconds{1};
  std::uint64_t seed = 0;  ///< of the draw; 0: a random one
};

/// What the window holds.
struct breaker_history {
  std::uint64_t accepted = 0;         ///< calls that went well
  std::uint64_t total = 0;            ///< all calls, those refused included
  std::uint64_t failing_buckets = 0;  ///< intervals since the last one with a success
  std::uint64_t working_buckets = 0;  ///< intervals since the last one with a failure
};

class breaker {
public:
  /// The right to make one call. Tell it how the call went.
  class ticket {
  public:
    ticket(ticket&& other) noexcept : from_(std::exchange(other.from_, nullptr)) {}
    ticket& operator=(ticket&&) = delete;
    ~ticket() { accept(false); }
    /// How the call went; only the first answer counts.
    void accept(bool good) {
      if (auto* from = std::exchange(from_, nullptr)) from->mark(good);
    }

  private:
    friend class breaker;
    explicit ticket(breaker& from) : from_(&from) {}
    breaker* from_;
  };

  explicit breaker(breaker_options options = {}, const clock& time = real_clock::shared())
      : options_(options),
        time_(time),
        window_(options.buckets, options.window / static_cast<std::int64_t>(std::max<std::size_t>(options.buckets, 1)),
                current_bucket::use, time),
        random_(options.seed != 0 ? options.seed : std::random_device{}()) {}
  breaker(const breaker&) = delete;
  breaker& operator=(const breaker&) = delete;

  /// rejected, or the right to call.
  [[nodiscard]] outcome<ticket> allow() {
    if (!admit()) {
      window_.add(verdict::refused);  // demand all the same: without it the share would sink while the service is down
      return failure{fault::rejected, "the breaker is open: too many of the last calls failed"};
    }
    return ticket{*this};
  }

  /// Runs `work` if allowed. acceptable(result) is asked for results that test false: true counts as a success.
  template <class Work, class Acceptable>
  auto run(Work&& work, Acceptable acceptable) -> outcome<std::invoke_result_t<Work&>> {
    auto pass = allow();
    if (!pass) return pass.error();
    return finish(*pass, work, acceptable);
  }
  template <class Work>
  auto run(Work&& work) {
    return run(std::forward<Work>(work), never);
  }
  /// fallback(failure) stands in for a call that was refused; both return the same type.
  template <class Work, class Fallback, class Acceptable>
  auto run_or(Work&& work, Fallback&& fallback, Acceptable acceptable) -> std::invoke_result_t<Work&> {
    auto pass = allow();
    if (!pass) return fallback(pass.error());
    if constexpr (std::is_void_v<std::invoke_result_t<Work&>>)
      (void)finish(*pass, work, acceptable);
    else
      return *finish(*pass, work, acceptable);
  }
  template <class Work, class Fallback>
  auto run_or(Work&& work, Fallback&& fallback) {
    return run_or(std::forward<Work>(work), std::forward<Fallback>(fallback), never);
  }

  /// Counts a call that was made without asking.
  void mark(bool good) { window_.add(good ? verdict::good : verdict::bad); }

  [[nodiscard]] breaker_history history() const {
    breaker_history h;
    window_.reduce([&](const calls& b) {
      h.accepted += b.good;
      h.total += b.good + b.bad + b.refused;
      if (b.good > 0)
        h.failing_buckets = 0;
      else if (b.bad + b.refused > 0)
        ++h.failing_buckets;
      if (b.bad > 0)
        h.working_buckets = 0;
      else if (b.good > 0)
        ++h.working_buckets;
    });
    return h;
  }
  /// The share of calls that would be refused now, 0 to 1.
  [[nodiscard]] double refused_share() const {
    const auto h = history();
    const auto buckets = static_cast<double>(options_.buckets);
    const auto k = std::max(options_.least_k, options_.k - (options_.k - options_.least_k) *
                                                               static_cast<double>(h.failing_buckets) / buckets);
    const auto surplus =
        static_cast<double>(h.total) - static_cast<double>(options_.protection) - k * static_cast<double>(h.accepted);
    if (surplus <= 0) return 0;
    // Intervals without any failure at the end say that it is over.
    return surplus / static_cast<double>(h.total + 1) * (1 - static_cast<double>(h.working_buckets) / buckets);
  }

private:
  enum class verdict : std::uint8_t { good, bad, refused };
  struct calls {
    std::uint64_t good = 0;
    std::uint64_t bad = 0;
    std::uint64_t refused = 0;
    void add(verdict v) { ++(v == verdict::good ? good : v == verdict::bad ? bad : refused); }
    void reset() { *this = {}; }
  };

  static constexpr auto never = [](const auto&) { return false; };

  bool admit() {
    const auto share = refused_share();
    const std::lock_guard guard{mutex_};
    const auto now = time_.now();
    const bool forced = passed_before_ && now - last_pass_ > options_.force_pass_after;
    if (share > 0 && !forced && std::uniform_real_distribution<double>{0, 1}(random_) < share) return false;
    passed_before_ = true;
    last_pass_ = now;
    return true;
  }

  template <class Work, class Acceptable>
  auto finish(ticket& pass, Work& work, Acceptable& acceptable) -> outcome<std::invoke_result_t<Work&>> {
    using result = std::invoke_result_t<Work&>;
    if constexpr (std::is_void_v<result>) {
      work();  // a throw leaves the ticket without an answer, which is a failure
      pass.accept(true);
      return {};
    } else {
      auto done = work();
      if constexpr (testable<result>)
        pass.accept(static_cast<bool>(done) || acceptable(done));
      else
        pass.accept(true);
      return done;
    }
  }

  const breaker_options options_;
  const clock& time_;
  rolling_window<calls> window_;
  std::mutex mutex_;
  std::minstd_rand random_;
  steady_time last_pass_{};
  bool passed_before_ = false;
};

}  // namespace caravan::toolbox
