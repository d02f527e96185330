#include "nodes/worker_board.hpp"

#include <algorithm>

namespace caravan {

std::string_view to_string(worker_order o) {
  switch (o) {
    case worker_order::run:
      return "run";
    case worker_order::quiet:
      return "quiet";
    case worker_order::stop:
      return "stop";
  }
  return "unknown";
}

void worker_board::forget_silent(wall_time now) {
  std::erase_if(workers_, [&](const auto& w) { return now - w.second.seen > kept; });
}

worker_orders worker_board::beat(worker_beat b, wall_time now) {
  const std::lock_guard lock(mutex_);
  if (workers_.size() >= most && !workers_.contains(b.name)) {
    forget_silent(now);
    if (workers_.size() >= most)
      workers_.erase(std::min_element(workers_.begin(), workers_.end(),
                                      [](const auto& x, const auto& y) { return x.second.seen < y.second.seen; }));
  }
  auto& w = workers_[b.name];
  if (w.last.started != b.started) w.wanted = {};  // it began anew
  w.last = std::move(b);
  w.seen = now;
  return w.wanted;
}

void worker_board::leave(const std::string& name) {
  const std::lock_guard lock(mutex_);
  workers_.erase(name);
}

std::optional<worker_orders> worker_board::orders_for(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const auto at = workers_.find(name);
  if (at == workers_.end()) return std::nullopt;
  return at->second.wanted;
}

template <class Change>
expected<worker_entry> worker_board::change(const std::string& name, Change what) {
  const std::lock_guard lock(mutex_);
  const auto at = workers_.find(name);
  if (at == workers_.end())
    return {errc::not_found, "worker \"" + name.substr(0, 128) +
                                 "\": told this node nothing of itself; `caravan worker ls` shows those that did"};
  what(at->second.wanted);
  return at->second;
}

expected<worker_entry> worker_board::order(const std::string& name, worker_order o) {
  return change(name, [&](worker_orders& w) { w.state = o; });
}

expected<worker_entry> worker_board::scale(const std::string& name, std::uint32_t concurrency) {
  return change(name, [&](worker_orders& w) { w.concurrency = concurrency; });
}

std::vector<worker_entry> worker_board::list(wall_time now) {
  const std::lock_guard lock(mutex_);
  forget_silent(now);
  std::vector<worker_entry> all;
  for (const auto& [name, w] : workers_) all.push_back(w);
  return all;
}

}  // namespace caravan
