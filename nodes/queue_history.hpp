#pragma once

/// What queues did lately: rates and depths over time, for charts. Plain: no CAF, no clock, no file.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace caravan {

/// A queue as it is at a moment: what it holds, and what it has done since some start.
struct queue_counters {
  std::uint64_t waiting = 0, running = 0, delayed = 0, dead = 0;
  std::uint64_t pushed = 0, handled = 0, failed = 0;
  double oldest = 0;  ///< seconds that the next in line has waited
};

struct history_point {
  std::int64_t at = 0;                        ///< seconds since 1970: the end of its span
  float pushed = 0, handled = 0, failed = 0;  ///< a second, over its span
  float oldest = 0;
  std::uint64_t waiting = 0, running = 0, delayed = 0, dead = 0;

  [[nodiscard]] bool same_values(const history_point& other) const noexcept;
};

/// Points in the order of time, those older than `keep` seconds are forgotten. A flat line takes two points.
class history_ring {
public:
  history_ring(std::int64_t keep, std::size_t most) : keep_(keep), most_(most) {}
  void add(const history_point& p);
  [[nodiscard]] const std::deque<history_point>& points() const noexcept { return points_; }

private:
  std::int64_t keep_;
  std::size_t most_;
  std::deque<history_point> points_;
};

/// Two rings for each queue: every sample for 15 minutes, every minute for 24 hours. At most `most_queues` queues;
/// later ones have no history. Not thread safe.
class queue_history {
public:
  static constexpr std::size_t most_queues = 200;

  struct record_line {
    std::string queue;
    history_point minute;
  };

  /// Samples of one moment, by queue; `at` in seconds since 1970 (fractions count for rates). Also notes their sum, as
  /// the queue "". Counters that fell began anew. Returns true when any rate is not 0 or anything has changed.
  bool note(double at, const std::map<std::string, queue_counters, std::less<>>& now);
  /// Minutes that ended with the last note(), to be kept somewhere.
  [[nodiscard]] std::vector<record_line> take_ended_minutes();
  /// A minute that was kept before; older ones first.
  void restore(const record_line& line);

  /// Null: nothing is known of it. "" is the sum of all.
  [[nodiscard]] const history_ring* fine(std::string_view queue) const;
  [[nodiscard]] const history_ring* minutes(std::string_view queue) const;
  /// All minutes, each queue's in the order of time.
  [[nodiscard]] std::vector<record_line> all_minutes() const;

private:
  struct series {
    history_ring fine{15 * 60, 1'000};
    history_ring minutes{24 * 3600, 1'500};
    bool seen = false;
    double at = 0;  ///< of the last sample
    queue_counters last;
    double minute_from = 0;
    double pushed = 0, handled = 0, failed = 0;  ///< in this minute so far
  };
  bool note_one(const std::string& queue, double at, const queue_counters& now);

  std::map<std::string, series, std::less<>> by_queue_;
  std::vector<record_line> ended_;
};

}  // namespace caravan
