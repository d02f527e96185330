#include "integration/cache/memory_cache.hpp"

#include "toolbox/waiting.hpp"

#include <functional>
#include <system_error>

namespace caravan {

namespace {

constexpr auto never = ~std::uint64_t{0};
// As many expired values a call frees at most, but for those of one millisecond: more than it can add, so that the
// sweep keeps up with any stream of puts, and few enough that nobody waits for a million of them.
constexpr std::size_t swept_at_once = 64;

}  // namespace

memory_cache::memory_cache(memory_cache_options options) : options_(options), start_(options.time->now()) {}

memory_cache::~memory_cache() {
  {
    const std::lock_guard guard{sweeper_mutex_};
    stopped_ = true;
  }
  stopping_.notify_all();
  sweeper_.join();
}

memory_cache::tick memory_cache::now() const {
  const auto passed = std::chrono::floor<std::chrono::milliseconds>(options_.time->now() - start_).count();
  return passed > 0 ? static_cast<tick>(passed) : 0;
}

memory_cache::shard& memory_cache::shard_of(std::string_view key) {
  return shards_[(std::hash<std::string_view>{}(key)*0x9E3779B97F4A7C15ull) >> 60];
}

void memory_cache::forget(shard& s, const std::string& key, const entry& gone) {
  s.bytes -= key.size() + gone.value.size();
  if (gone.due != never) --s.mortal;
}

/// False if more has expired.
bool memory_cache::sweep(shard& s, tick now) {
  std::size_t swept = 0;
  for (auto next = s.entries.next(); next && *next <= now; next = s.entries.next()) {
    if (swept >= swept_at_once) return false;
    swept += s.entries.advance(*next, [&s](std::string&& key, entry&& gone) { forget(s, key, gone); });
  }
  return true;
}

expected<std::optional<std::string>> memory_cache::get(std::string_view key) {
  const auto at = now();
  auto& s = shard_of(key);
  const std::lock_guard guard{s.mutex};
  sweep(s, at);
  const auto* found = s.entries.find(std::string{key});
  if (found == nullptr || found->due <= at) return std::optional<std::string>{};
  return std::optional{found->value};
}

expected<bool> memory_cache::exists(std::string_view key) {
  const auto at = now();
  auto& s = shard_of(key);
  const std::lock_guard guard{s.mutex};
  const auto* found = s.entries.find(std::string{key});
  return found != nullptr && found->due > at;
}

expected<void> memory_cache::put(std::string_view key, std::string_view value, std::chrono::milliseconds ttl) {
  const auto at = now();
  auto& s = shard_of(key);
  std::string name{key};
  {
    const std::lock_guard guard{s.mutex};
    sweep(s, at);
    if (ttl < ttl.zero()) {
      remove(s, name, at);
      return {};
    }
    entry fresh{std::string{value}, ttl == ttl.zero() ? never : at + static_cast<tick>(ttl.count())};
    const auto due = fresh.due;
    const auto size = name.size() + value.size();
    if (const auto* old = s.entries.find(name)) forget(s, name, *old);
    s.entries.set(std::move(name), std::move(fresh), due);
    s.bytes += size;
    if (due != never) ++s.mortal;
  }
  if (ttl > ttl.zero()) ensure_sweeper();
  return {};
}

std::optional<std::string> memory_cache::remove(shard& s, const std::string& key, tick now) {
  auto gone = s.entries.remove(key);
  if (!gone) return std::nullopt;
  forget(s, key, *gone);
  if (gone->due <= now) return std::nullopt;
  return std::move(gone->value);
}

expected<bool> memory_cache::remove(std::string_view key) {
  const auto gone = take(key);
  return gone->has_value();
}

expected<std::optional<std::string>> memory_cache::take(std::string_view key) {
  const auto at = now();
  auto& s = shard_of(key);
  const std::lock_guard guard{s.mutex};
  sweep(s, at);
  return remove(s, std::string{key}, at);
}

expected<void> memory_cache::clear() {
  for (auto& s : shards_) {
    // Freed outside the lock: it may be much.
    toolbox::timer_ring<std::string, entry> old;
    const std::lock_guard guard{s.mutex};
    std::swap(old, s.entries);
    s.mortal = 0;
    s.bytes = 0;
  }
  return {};
}

expected<cache_usage> memory_cache::usage() {
  std::uint64_t entries = 0;
  std::uint64_t bytes = 0;
  for (auto& s : shards_) {
    const std::lock_guard guard{s.mutex};
    entries += s.entries.size();
    bytes += s.bytes;
  }
  return cache_usage{entries, bytes};
}

void memory_cache::ensure_sweeper() {
  if (sweeping_.load()) return;
  const std::lock_guard guard{sweeper_mutex_};
  if (stopped_) return;
  try {
    sweeper_.ensure([this] { sweep_for_ever(); });
    sweeping_.store(true);
  } catch (const std::system_error&) {
    // No thread to be had: calls sweep all the same, and the next put tries again.
  }
}

bool memory_cache::anything_mortal() {
  for (auto& s : shards_) {
    const std::lock_guard guard{s.mutex};
    if (s.mortal > 0) return true;
  }
  return false;
}

void memory_cache::sweep_for_ever() {
  std::unique_lock lock{sweeper_mutex_};
  for (;;) {
    const auto due = toolbox::later(*options_.time, options_.sweep_interval);
    if (toolbox::wait_until(stopping_, lock, *options_.time, due, [this] { return stopped_; })) break;
    lock.unlock();
    const auto at = now();
    for (auto& s : shards_)
      for (bool done = false; !done;) {
        const std::lock_guard guard{s.mutex};
        done = sweep(s, at);
        // A ring keeps the room of its busiest time.
        if (s.entries.empty()) s.entries = decltype(s.entries){};
      }
    lock.lock();
    // Said before it is looked at: a put that comes to a shard after our look sees that nobody sweeps.
    sweeping_.store(false);
    if (!anything_mortal()) break;
    sweeping_.store(true);
  }
  sweeper_.leave();
}

}  // namespace caravan
