#include "actors/worker_pool/worker_pool_core.hpp"

#include <algorithm>

namespace caravan {

using namespace std::chrono_literals;

namespace {
constexpr std::size_t unlimited_step = 16;    // how many batches a pool without a limit asks for beyond what it has
constexpr std::size_t unlimited_most = 1'024; // threads; beyond that batches wait in the queue
constexpr double reserve_ns = 1e6;
constexpr std::size_t reserve_most = 8;
constexpr double fast_call_ns = 2e6;          // calls shorter than this are worth a batch in reserve
constexpr auto stop_moment = 200ms;           // for handlers that end when they are asked to
}  // namespace

std::string timeout_text(std::chrono::milliseconds timeout) {
  return "timed out: the handler ran longer than TIMEOUT = " + std::to_string(timeout.count()) + " ms";
}

void worker_pool_core::on_attached(time_point, pool_effects& fx) {
  attached_ = true;
  granted_idle_ = granted_prefetch_ = 0;
  ask_for_more(fx.more);
}

void worker_pool_core::on_batch(batch work, time_point, pool_effects& fx) {
  if (granted_idle_ > 0)
    --granted_idle_;
  else if (granted_prefetch_ > 0)
    --granted_prefetch_;
  const auto size = work.items->size();
  if (stop_at_) {
    fx.done.push_back({id_, work.token, whole_batch(size, item_outcome::kind::unhandled, {}), true, 0, 0});
    return;
  }
  auto timeout = limits_.timeout;
  for (const auto& r : *work.items)
    if (r.timeout > 0ms) timeout = timeout > 0ms ? std::min(timeout, r.timeout) : r.timeout;
  if (work.limit > 0ms) timeout = timeout > 0ms ? std::min(timeout, work.limit) : work.limit;
  calls_.emplace(work.token, call{size, timeout, std::nullopt});
  if (!idle_since_.empty()) {
    idle_since_.pop_back();
  } else if (workers_ < limit()) {
    ++workers_;
    ++fx.start;
  }
  fx.run.push_back(std::move(work));
}

void worker_pool_core::on_call_ended(std::uint64_t token, batch_result rest, std::chrono::nanoseconds took, time_point now,
                                     pool_effects& fx) {
  const auto it = calls_.find(token);
  if (it == calls_.end()) {
    // It ended while it was being given up. Its items have failed already, but its thread is not lost: one too many.
    if (abandoned_.erase(token) > 0) ++fx.retire;
    return;
  }
  const auto c = it->second;
  calls_.erase(it);
  usual_ns_ = usual_ns_ == 0 ? static_cast<double>(took.count()) : usual_ns_ * 0.9 + static_cast<double>(took.count()) * 0.1;
  free_worker(now);

  batch_done done{id_, token, std::move(rest), false, 0, 0};
  if (c.asked) {
    // A handler that returns because it was asked to has not finished, whatever it says.
    std::vector<bool> named(c.size, false);
    for (auto& o : done.rest) {
      if (o.index < c.size) named[o.index] = true;
      if (o.what == item_outcome::kind::unhandled) o = {o.index, item_outcome::kind::failed, timeout_text(c.timeout), {}};
    }
    for (std::uint32_t i = 0; i < c.size; ++i)
      if (!named[i]) done.rest.push_back({i, item_outcome::kind::failed, timeout_text(c.timeout), {}});
  } else if (asked_all_) {
    done.handed_back = true;
  }
  demand more;
  ask_for_more(more);
  done.idle = more.idle;
  done.prefetch = more.prefetch;
  fx.done.push_back(std::move(done));
  shrink(now, fx);
  check_stopped(now, fx);
}

void worker_pool_core::on_tick(const std::vector<running_call>& calls, time_point now, pool_effects& fx) {
  for (const auto& r : calls) {
    const auto it = calls_.find(r.token);
    if (it == calls_.end()) continue;
    auto& c = it->second;
    if (c.timeout <= 0ms) continue;
    if (!c.asked && now >= r.started + c.timeout) {
      c.asked = now;
      fx.ask.push_back(r.token);
    }
    if (c.asked && now >= *c.asked + limits_.grace) {
      // The thread cannot be killed; it is left alone, its place is given to a new one.
      fx.abandon.push_back(r.token);
      batch_done done{id_, r.token, whole_batch(c.size, item_outcome::kind::failed,
                                                timeout_text(c.timeout) + " and did not stop when asked"), false, 0, 0};
      calls_.erase(it);
      abandoned_.insert(r.token);
      --workers_;
      demand more;
      ask_for_more(more);
      done.idle = more.idle;
      done.prefetch = more.prefetch;
      fx.done.push_back(std::move(done));
      grow(fx);  // a batch in reserve would otherwise wait for the lost worker
    }
  }
  if (stop_at_ && now >= *stop_at_ && !asked_all_) {
    asked_all_ = true;
    for (const auto& r : calls) fx.ask.push_back(r.token);
  }
  shrink(now, fx);
  check_stopped(now, fx);
}

void worker_pool_core::set_max_workers(std::optional<unsigned> most, time_point now, pool_effects& fx) {
  limits_.max_workers = most;
  // Credits that are out cannot be called back: batches that still come wait for a worker.
  shrink(now, fx);
  grow(fx);
  ask_for_more(fx.more);
}

void worker_pool_core::hand_back_unstarted(const batch& work, pool_effects& fx) {
  if (calls_.erase(work.token) == 0) return;
  fx.done.push_back({id_, work.token, whole_batch(work.items->size(), item_outcome::kind::unhandled, {}), true, 0, 0});
}

void worker_pool_core::stop(const std::vector<running_call>& calls, time_point deadline, time_point now, pool_effects& fx) {
  stop_at_ = deadline;
  on_tick(calls, now, fx);
}

std::optional<worker_pool_core::time_point> worker_pool_core::next_wake(const std::vector<running_call>& calls,
                                                                        time_point now) const {
  std::optional<time_point> wake;
  if (stopped_) return wake;
  const auto at = [&](time_point t) {
    if (!wake || t < *wake) wake = t;
  };
  if (!idle_since_.empty() && workers_ > 1) at(idle_since_.front() + limits_.worker_idle);
  // A worker takes a batch off the shelf without telling: one that is not running yet may be by then.
  if (calls.size() < calls_.size())
    for (const auto& [token, c] : calls_)
      if (c.timeout > 0ms) at(now + c.timeout);
  for (const auto& r : calls) {
    const auto it = calls_.find(r.token);
    if (it == calls_.end() || it->second.timeout <= 0ms) continue;
    at(it->second.asked ? *it->second.asked + limits_.grace : r.started + it->second.timeout);
  }
  if (stop_at_) at(asked_all_ ? *stop_at_ + stop_moment : *stop_at_);
  return wake;
}

std::vector<std::uint64_t> worker_pool_core::in_hand() const {
  std::vector<std::uint64_t> tokens;
  tokens.reserve(calls_.size());
  for (const auto& [token, c] : calls_) tokens.push_back(token);
  return tokens;
}

std::size_t worker_pool_core::limit() const {
  if (!limits_.max_workers) return unlimited_most;
  return std::max(1u, *limits_.max_workers);
}

void worker_pool_core::ask_for_more(demand& d) {
  if (!attached_ || stop_at_) return;
  d.pool = id_;
  const auto held = calls_.size();
  const auto most = limits_.max_workers ? limit() : std::min(unlimited_most, held + unlimited_step);
  const auto idle = most > held ? most - held : 0;
  if (idle > granted_idle_) {
    d.idle += static_cast<std::uint32_t>(idle - granted_idle_);
    granted_idle_ = idle;
  }
  // With a timeout each call's clock starts when it begins, and batches in reserve would only delay others.
  const bool fast = usual_ns_ > 0 && usual_ns_ < fast_call_ns && limits_.timeout <= 0ms;
  // About a millisecond of work for each worker: enough to spare it the way to the queue and back after every batch.
  const auto each = fast ? std::clamp<std::size_t>(static_cast<std::size_t>(reserve_ns / usual_ns_), 1, reserve_most) : 0;
  const auto reserve = std::min<std::size_t>(most, workers_) * each;
  const auto lying = held > most ? held - most : 0;
  if (fast && reserve > lying + granted_prefetch_) {
    const auto n = reserve - lying - granted_prefetch_;
    d.prefetch += static_cast<std::uint32_t>(n);
    granted_prefetch_ += n;
  }
}

void worker_pool_core::free_worker(time_point now) {
  // With a batch in reserve the worker takes that and is not idle.
  if (workers_ > calls_.size() + idle_since_.size()) idle_since_.push_back(now);
}

// Workers for what lies ready, as far as the limit allows.
void worker_pool_core::grow(pool_effects& fx) {
  for (; calls_.size() > workers_ && workers_ < limit(); ++workers_) ++fx.start;
}

void worker_pool_core::shrink(time_point now, pool_effects& fx) {
  const auto retire = [&] {
    idle_since_.pop_front();
    --workers_;
    ++fx.retire;
  };
  while (!idle_since_.empty() && workers_ > limit()) retire();
  while (!idle_since_.empty() && workers_ > 1 && now - idle_since_.front() >= limits_.worker_idle) retire();
}

void worker_pool_core::check_stopped(time_point now, pool_effects& fx) {
  if (!stop_at_) return;
  if (calls_.empty() || (asked_all_ && now >= *stop_at_ + stop_moment)) fx.stopped = stopped_ = true;
}

}  // namespace caravan
