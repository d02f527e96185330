#include "integration/cache/two_queue_cache.hpp"

namespace caravan {

two_queue_cache::two_queue_cache(toolbox::two_queue_options options, const toolbox::clock& time)
    : time_(time), start_(time.now()), entries_(options) {}

std::uint64_t two_queue_cache::sweep() {
  const auto passed = std::chrono::floor<std::chrono::milliseconds>(time_.now() - start_).count();
  const auto now = passed > 0 ? static_cast<std::uint64_t>(passed) : 0;
  entries_.advance(now);
  return now;
}

expected<std::optional<std::string>> two_queue_cache::get(std::string_view key) {
  const std::lock_guard guard{mutex_};
  sweep();
  const auto* found = entries_.find(std::string{key});
  return found == nullptr ? std::optional<std::string>{} : std::optional{*found};
}

expected<void> two_queue_cache::put(std::string_view key, std::string_view value, std::chrono::milliseconds ttl) {
  const std::lock_guard guard{mutex_};
  const auto now = sweep();
  if (ttl < ttl.zero())
    entries_.remove(std::string{key});
  else
    entries_.set(std::string{key}, std::string{value},
                 ttl == ttl.zero() ? entries::never : now + static_cast<std::uint64_t>(ttl.count()));
  return {};
}

expected<bool> two_queue_cache::remove(std::string_view key) {
  const std::lock_guard guard{mutex_};
  sweep();
  return entries_.remove(std::string{key}).has_value();
}

expected<std::optional<std::string>> two_queue_cache::take(std::string_view key) {
  const std::lock_guard guard{mutex_};
  sweep();
  return entries_.remove(std::string{key});
}

expected<bool> two_queue_cache::exists(std::string_view key) {
  const std::lock_guard guard{mutex_};
  sweep();
  return entries_.peek(std::string{key}) != nullptr;
}

expected<void> two_queue_cache::clear() {
  const std::lock_guard guard{mutex_};
  entries_.clear();
  return {};
}

expected<cache_usage> two_queue_cache::usage() {
  const std::lock_guard guard{mutex_};
  sweep();
  return cache_usage{entries_.size(), std::nullopt};
}

}  // namespace caravan
