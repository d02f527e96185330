#include "nodes/claim_host.hpp"

#include "actors/claim/claim_shell.hpp"
#include "nodes/foreign_thread.hpp"
#include "nodes/queue_host.hpp"

#include <caf/all.hpp>

#include <algorithm>
#include <random>

namespace caravan {

using namespace std::chrono_literals;

namespace {

constexpr auto least_patience = 2s;  ///< where SHUTDOWN_TIMEOUT is 0

std::uint64_t random_number() {
  static thread_local std::random_device device;
  return static_cast<std::uint64_t>(device()) << 32 | device();
}

}  // namespace

claim_pool_actor claim_host::pool_of(const std::shared_ptr<hosted_queue>& queue) {
  const std::lock_guard lock(mutex_);
  if (closed_) return {};
  auto& p = pools_[queue->name()];
  if (p.actor) return p.actor;
  const auto& s = queue->settings();
  p.queue = queue;
  p.patience = s.shutdown_timeout > 0ms ? s.shutdown_timeout : least_patience;
  claim_parts parts;
  parts.id = random_number() | 1;
  parts.limits.queue = s.name;
  parts.limits.lease = s.lease;
  parts.limits.timeout = s.timeout;
  parts.limits.claim_rate = s.claim_rate;
  parts.limits.claim_burst = s.claim_burst;
  parts.random = random_number;
  parts.clock = &clock_;
  parts.find_queue = [weak = p.queue]() -> std::pair<queue_actor, pool_kind> {
    const auto q = weak.lock();
    if (!q) return {queue_actor(), pool_kind::local};
    if (auto here = q->owned_actor()) return {std::move(here), pool_kind::local};
    return {q->actor(), pool_kind::remote};
  };
  const foreign_thread here;
  p.actor = system_.spawn(claim_pool_behavior, std::move(parts));
  return p.actor;
}

claim_pool_actor claim_host::find(std::string_view queue) const {
  const std::lock_guard lock(mutex_);
  const auto at = pools_.find(queue);
  return at == pools_.end() ? claim_pool_actor() : at->second.actor;
}

std::vector<std::pair<std::string, claim_pool_actor>> claim_host::all() const {
  std::vector<std::pair<std::string, claim_pool_actor>> list;
  const std::lock_guard lock(mutex_);
  for (const auto& [name, p] : pools_)
    if (p.actor) list.emplace_back(name, p.actor);
  return list;
}

void claim_host::wake(const std::string& worker) {
  const foreign_thread here;
  for (const auto& [name, actor] : all()) caf::anon_send(actor, wake_worker{worker});
}

std::chrono::milliseconds claim_host::patience() const {
  auto longest = 0ms;
  const std::lock_guard lock(mutex_);
  for (const auto& [name, p] : pools_) longest = std::max(longest, p.patience);
  return longest;
}

std::size_t claim_host::close() {
  std::vector<std::pair<claim_pool_actor, std::chrono::milliseconds>> pools;
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(closed_, true)) return 0;
    for (const auto& [name, p] : pools_)
      if (p.actor) pools.emplace_back(p.actor, p.patience);
  }
  if (pools.empty()) return 0;
  const foreign_thread here;
  caf::scoped_actor self{system_};
  std::size_t handed_back = 0;
  // Each counts its patience from when it was asked, so they are asked side by side.
  using answer = decltype(self->request(pools.front().first, caf::infinite, close_claims{}));
  std::vector<answer> answers;
  for (const auto& [actor, patience] : pools)
    answers.push_back(self->request(actor, patience + 5s, close_claims{patience}));
  for (auto& a : answers) a.receive([&](const claims_closed& c) { handed_back += c.handed_back; }, [](caf::error&) {});
  return handed_back;
}

void claim_host::stop() {
  close();
  std::vector<claim_pool_actor> actors;
  {
    const std::lock_guard lock(mutex_);
    for (auto& [name, p] : pools_)
      if (p.actor) actors.push_back(std::exchange(p.actor, nullptr));
  }
  if (actors.empty()) return;
  const foreign_thread here;
  caf::scoped_actor self{system_};
  for (const auto& a : actors) {
    self->send_exit(a, caf::exit_reason::user_shutdown);
    self->wait_for(a);
  }
}

}  // namespace caravan
