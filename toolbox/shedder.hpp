#pragma once

/// A server that takes on more than it can finish answers nobody in time. `shedder` learns how much it can have in
/// flight (the best throughput of an interval times the shortest response time, Little's law) and refuses what exceeds
/// it, but only while the processor is the bottleneck.
///
///   toolbox::shedder shed{{}, [&] { return cpu.load(); }};        // 0..1000, 1000: all cores busy
///   auto pass = shed.allow();
///   if (!pass) return service_unavailable();
///   handle();
///   pass->succeed();                                               // or fail(): it counts for no average then
///
/// It refuses while the load is at or above the threshold, and for a second after it last was if it has refused then,
/// provided that both the number in flight and its moving average are above what it learnt. Near full load the bound
/// sinks to a tenth.
///
/// Threads: safe. `load` is called on the caller's thread and should only read a number. Units: load in thousandths,
/// times in milliseconds where they are numbers. Errors: allow answers rejected. The constructor throws
/// std::invalid_argument for a threshold outside 0..1000 and as rolling_window does.
/// A pass that is destroyed without an answer counts as failed.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <utility>

#include "toolbox/clock.hpp"
#include "toolbox/outcome.hpp"
#include "toolbox/rolling_window.hpp"

namespace caravan::toolbox {

struct shedder_options {
  std::chrono::nanoseconds window = std::chrono::seconds{5};
  std::size_t buckets = 50;
  int threshold = 900;                                          ///< load from which it may refuse
  std::chrono::nanoseconds cool_off = std::chrono::seconds{1};  ///< goes on refusing so long after the load sank
  std::optional<double> scale;  ///< passes of a bucket times ms of response, to in flight; none: buckets per ms
};

class shedder {
public:
  /// One request under way.
  class pass {
  public:
    pass(pass&& other) noexcept : from_(std::exchange(other.from_, nullptr)), begin_(other.begin_) {}
    pass& operator=(pass&&) = delete;
    ~pass() { fail(); }
    void succeed() {
      if (auto* from = std::exchange(from_, nullptr)) from->finish(begin_, true);
    }
    void fail() {
      if (auto* from = std::exchange(from_, nullptr)) from->finish(begin_, false);
    }

  private:
    friend class shedder;
    pass(shedder& from, steady_time begin) : from_(&from), begin_(begin) {}
    shedder* from_;
    steady_time begin_;
  };

  shedder(shedder_options options, std::function<int()> load, const clock& time = real_clock::shared())
      : options_(options),
        load_(std::move(load)),
        time_(time),
        passes_(options.buckets, bucket_length(options), ignored, time),
        response_ms_(options.buckets, bucket_length(options), ignored, time),
        scale_(options.scale.value_or(1e6 / static_cast<double>(bucket_length(options).count()))) {
    if (options.threshold < 0 || options.threshold > 1000)
      throw std::invalid_argument("shedder: the threshold lies between 0 and 1000");
    if (!load_) throw std::invalid_argument("shedder: a function that tells the load is needed");
  }
  shedder(const shedder&) = delete;
  shedder& operator=(const shedder&) = delete;

  [[nodiscard]] outcome<pass> allow() {
    const auto now = time_.now();
    if (must_drop(now)) {
      const std::lock_guard guard{mutex_};
      dropped_recently_ = true;
      return failure{fault::rejected, "overloaded: more requests are in flight than can be finished in time"};
    }
    in_flight_.fetch_add(1, std::memory_order_relaxed);
    return pass{*this, now};
  }

  /// Counts a finished request that did not come through allow.
  void note(std::int64_t passes, double response_ms) {
    note_passes(passes);
    note_response(response_ms);
  }
  void note_passes(std::int64_t passes) { passes_.add(static_cast<double>(passes)); }
  void note_response(double response_ms) { response_ms_.add(response_ms); }

  /// Most passes of a whole interval in the window; 1 if there were none.
  [[nodiscard]] double most_passes() const {
    double most = 1;
    passes_.reduce([&](const sum_bucket& b) { most = std::max(most, b.sum); });
    return most;
  }
  /// Shortest mean response time of an interval, whole milliseconds; 1000 if there was none.
  [[nodiscard]] double least_response_ms() const {
    double least = 1000;
    response_ms_.reduce([&](const sum_bucket& b) {
      if (b.count > 0) least = std::min(least, std::round(b.sum / static_cast<double>(b.count)));
    });
    return least;
  }
  /// What can be in flight without queueing.
  [[nodiscard]] std::int64_t most_in_flight() const {
    return std::max<std::int64_t>(1, static_cast<std::int64_t>(most_passes() * scale_ * least_response_ms() + 1e-9));
  }
  [[nodiscard]] std::int64_t in_flight() const noexcept { return in_flight_.load(std::memory_order_relaxed); }

private:
  // Sums of an interval that is still filling would look like a loss of throughput.
  static constexpr auto ignored = current_bucket::ignore;
  static std::chrono::nanoseconds bucket_length(const shedder_options& options) {
    return options.window / static_cast<std::int64_t>(std::max<std::size_t>(options.buckets, 1));
  }

  bool must_drop(steady_time now) {
    const int load = load_();
    {
      const std::lock_guard guard{mutex_};
      if (load >= options_.threshold)
        overloaded_at_ = now;
      else if (!dropped_recently_ || !overloaded_at_)
        return false;
      else if (now - *overloaded_at_ >= options_.cool_off) {
        dropped_recently_ = false;
        return false;
      }
    }
    const double room = 1000 - options_.threshold;
    const double share = room > 0 ? std::clamp((1000.0 - load) / room, 0.1, 1.0) : 1.0;
    const double bound = static_cast<double>(most_in_flight()) * share;
    const std::lock_guard guard{mutex_};
    return average_in_flight_ > bound && static_cast<double>(in_flight()) > bound;
  }

  void finish(steady_time begin, bool good) {
    const auto left = in_flight_.fetch_sub(1, std::memory_order_relaxed) - 1;
    {
      // Moved on completion only: a burst of arrivals alone is no sign of a queue.
      const std::lock_guard guard{mutex_};
      average_in_flight_ = 0.9 * average_in_flight_ + 0.1 * static_cast<double>(left);
    }
    if (!good) return;
    note(1, std::ceil(std::chrono::duration<double, std::milli>(time_.now() - begin).count()));
  }

  const shedder_options options_;
  const std::function<int()> load_;
  const clock& time_;
  rolling_window<> passes_;
  rolling_window<> response_ms_;
  const double scale_;
  std::atomic<std::int64_t> in_flight_{0};
  std::mutex mutex_;
  double average_in_flight_ = 0;
  bool dropped_recently_ = false;
  std::optional<steady_time> overloaded_at_;
};

}  // namespace caravan::toolbox
