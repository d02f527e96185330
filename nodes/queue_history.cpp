#include "nodes/queue_history.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

namespace caravan {

namespace {

double grown(std::uint64_t before, std::uint64_t now) {
  return static_cast<double>(now >= before ? now - before : now);
}

history_point at_rest(std::int64_t at, const queue_counters& c) {
  history_point p;
  p.at = at;
  p.oldest = static_cast<float>(c.oldest);
  p.waiting = c.waiting;
  p.running = c.running;
  p.delayed = c.delayed;
  p.dead = c.dead;
  return p;
}

}  // namespace

bool history_point::same_values(const history_point& o) const noexcept {
  return std::tie(pushed, handled, failed, oldest, waiting, running, delayed, dead) ==
         std::tie(o.pushed, o.handled, o.failed, o.oldest, o.waiting, o.running, o.delayed, o.dead);
}

void history_ring::add(const history_point& p) {
  if (!points_.empty() && p.at <= points_.back().at) return;  // the clock was set back, or two samples in a second
  const auto n = points_.size();
  if (n >= 2 && points_[n - 1].same_values(p) && points_[n - 2].same_values(p))
    points_.back().at = p.at;
  else
    points_.push_back(p);
  while (points_.size() > most_ || (points_.size() > 1 && points_[1].at < p.at - keep_)) points_.pop_front();
}

bool queue_history::note(double at, const std::map<std::string, queue_counters, std::less<>>& now) {
  queue_counters sum;
  bool changed = false;
  for (const auto& [queue, c] : now) {
    sum.waiting += c.waiting;
    sum.running += c.running;
    sum.delayed += c.delayed;
    sum.dead += c.dead;
    sum.pushed += c.pushed;
    sum.handled += c.handled;
    sum.failed += c.failed;
    sum.oldest = std::max(sum.oldest, c.oldest);
    if (note_one(queue, at, c)) changed = true;
  }
  if (note_one({}, at, sum)) changed = true;
  return changed;
}

bool queue_history::note_one(const std::string& queue, double at, const queue_counters& now) {
  auto it = by_queue_.find(queue);
  if (it == by_queue_.end()) {
    if (by_queue_.size() > most_queues) return false;
    it = by_queue_.try_emplace(queue).first;
  }
  auto& s = it->second;
  auto p = at_rest(static_cast<std::int64_t>(at), now);
  if (!s.seen || at <= s.at) {
    s.seen = true;
    s.at = s.minute_from = at;
    s.last = now;
    s.pushed = s.handled = s.failed = 0;
    s.fine.add(p);
    return true;
  }
  const auto span = at - s.at;
  const auto pushed = grown(s.last.pushed, now.pushed);
  const auto handled = grown(s.last.handled, now.handled);
  const auto failed = grown(s.last.failed, now.failed);
  p.pushed = static_cast<float>(pushed / span);
  p.handled = static_cast<float>(handled / span);
  p.failed = static_cast<float>(failed / span);
  s.fine.add(p);
  s.pushed += pushed;
  s.handled += handled;
  s.failed += failed;
  if (std::floor(at / 60) > std::floor(s.minute_from / 60)) {
    const auto length = at - s.minute_from;
    auto minute = at_rest(p.at, now);
    minute.pushed = static_cast<float>(s.pushed / length);
    minute.handled = static_cast<float>(s.handled / length);
    minute.failed = static_cast<float>(s.failed / length);
    s.minutes.add(minute);
    ended_.push_back({queue, minute});
    s.minute_from = at;
    s.pushed = s.handled = s.failed = 0;
  }
  const bool changed = pushed + handled + failed > 0 || now.waiting != s.last.waiting ||
                       now.running != s.last.running || now.delayed != s.last.delayed || now.dead != s.last.dead;
  s.at = at;
  s.last = now;
  return changed;
}

std::vector<queue_history::record_line> queue_history::take_ended_minutes() { return std::exchange(ended_, {}); }

void queue_history::restore(const record_line& line) {
  if (by_queue_.size() > most_queues && !by_queue_.contains(line.queue)) return;
  by_queue_[line.queue].minutes.add(line.minute);
}

const history_ring* queue_history::fine(std::string_view queue) const {
  const auto it = by_queue_.find(queue);
  return it == by_queue_.end() ? nullptr : &it->second.fine;
}

const history_ring* queue_history::minutes(std::string_view queue) const {
  const auto it = by_queue_.find(queue);
  return it == by_queue_.end() ? nullptr : &it->second.minutes;
}

std::vector<queue_history::record_line> queue_history::all_minutes() const {
  std::vector<record_line> all;
  for (const auto& [queue, s] : by_queue_)
    for (const auto& p : s.minutes.points()) all.push_back({queue, p});
  return all;
}

}  // namespace caravan
