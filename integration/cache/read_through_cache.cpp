#include "integration/cache/read_through_cache.hpp"

#include "integration/cache/run_loader.hpp"
#include "toolbox/waiting.hpp"

#include <random>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <utility>

namespace caravan {

/// Notes that a key is being loaded, from before the loader starts until its value is kept.
class read_through_cache::caller {
public:
  caller(shard& in, std::string_view key) : in_(in) {
    const std::lock_guard guard{in.mutex};
    at_ = in.loading.try_emplace(std::string{key}).first;
    ++at_->second.callers;
    generation_ = at_->second.generation;
  }
  caller(const caller&) = delete;
  caller& operator=(const caller&) = delete;
  ~caller() {
    const std::lock_guard guard{in_.mutex};
    if (--at_->second.callers == 0) in_.loading.erase(at_);
  }
  [[nodiscard]] std::uint64_t generation() const { return generation_; }

private:
  shard& in_;
  std::unordered_map<std::string, interest>::iterator at_;
  std::uint64_t generation_ = 0;
};

read_through_cache::read_through_cache(std::unique_ptr<cache_adapter> adapter, read_through_options options)
    : adapter_(std::move(adapter)), options_(options) {}

read_through_cache::shard& read_through_cache::shard_of(std::string_view key) {
  return shards_[(std::hash<std::string_view>{}(key)*0x9E3779B97F4A7C15ull) >> 58];
}

/// Under the shard's lock, as the keeping of a loaded value is: it comes wholly before the change, which then undoes
/// it, or sees the generation grown and stays away.
template <class Change>
auto read_through_cache::change(std::string_view key, Change act) {
  auto& s = shard_of(key);
  const std::lock_guard guard{s.mutex};
  if (const auto found = s.loading.find(std::string{key}); found != s.loading.end()) ++found->second.generation;
  return counted(act());
}

template <class T>
expected<T> read_through_cache::counted(expected<T> answer) {
  if (answer) {
    // Looked at first: mostly nothing changes, and all threads read this.
    if (rests_until_.load() != toolbox::steady_time::min()) rests_until_ = toolbox::steady_time::min();
    return answer;
  }
  ++counts_.failures;
  if (options_.rest > options_.rest.zero() && answer.failure().code == errc::backend_failed)
    rests_until_ = toolbox::later(*options_.time, options_.rest);
  return answer;
}

bool read_through_cache::may_ask() {
  auto until = rests_until_.load();
  if (until == toolbox::steady_time::min()) return true;
  const auto now = options_.time->now();
  return now >= until && rests_until_.compare_exchange_strong(until, toolbox::later(now, options_.rest));
}

expected<void> read_through_cache::ping() { return counted(adapter_->ping()); }

expected<std::optional<std::string>> read_through_cache::get(std::string_view key) {
  auto answer = counted(adapter_->get(key));
  if (answer) ++(*answer ? counts_.hits : counts_.misses);
  return answer;
}

expected<void> read_through_cache::put(std::string_view key, std::string_view value, milliseconds ttl) {
  return change(key, [&] { return adapter_->put(key, value, ttl); });
}

expected<bool> read_through_cache::remove(std::string_view key) {
  return change(key, [&] { return adapter_->remove(key); });
}

expected<std::optional<std::string>> read_through_cache::take(std::string_view key) {
  auto answer = change(key, [&] { return adapter_->take(key); });
  if (answer) ++(*answer ? counts_.hits : counts_.misses);
  return answer;
}

expected<bool> read_through_cache::exists(std::string_view key) { return counted(adapter_->exists(key)); }

expected<void> read_through_cache::clear() {
  // No lock is held while the engine clears: a load that began before stays away from here on, whenever it ends.
  for (auto& s : shards_) {
    const std::lock_guard guard{s.mutex};
    for (auto& [key, state] : s.loading) ++state.generation;
  }
  return counted(adapter_->clear());
}

expected<cache_statistics> read_through_cache::statistics() {
  const auto usage = counted(adapter_->usage());
  if (!usage) return usage.failure();
  return cache_statistics{adapter_->name(),       usage->entries,  usage->bytes,          counts_.hits,
                          counts_.misses,         counts_.loads,   counts_.load_failures, counts_.shared_loads,
                          counts_.outdated_loads, counts_.failures};
}

expected<cache_test_result> read_through_cache::self_test() {
  // Its own key each time: several nodes may test the same engine at once.
  std::random_device random;
  const auto key = "caravan.self_test." + std::to_string(random()) + std::to_string(random());
  const auto value = std::string(1000, 'x') + key;
  const auto begin = options_.time->now();
  if (const auto done = remove(key); !done) return done.failure();
  if (const auto done = put(key, value, std::chrono::seconds{10}); !done) return done.failure();
  const auto found = counted(adapter_->get(key));
  const auto took = options_.time->now() - begin;
  if (!found) return found.failure();
  (void)remove(key);
  const auto wrong = [&](std::string_view what) {
    return error{errc::backend_failed, "cache " + adapter_->name() + ": " + std::string(what) +
                                           "; look whether it is full, or others write to the same place"};
  };
  if (!*found) return wrong("a value that was just put is not there");
  if (**found != value) return wrong("another value came back than was put");
  return cache_test_result{took, took > slow_cache_threshold};
}

expected<std::string> read_through_cache::run(std::string_view key, const loader& load) {
  ++counts_.loads;
  auto loaded = run_loader(key, load);
  if (!loaded) ++counts_.load_failures;
  return loaded;
}

expected<std::string> read_through_cache::load_and_keep(const flight_key& flight, const loader& load,
                                                        bool (*usable)(std::string_view)) {
  // What another caller loaded between our look and our start.
  if (auto found = adapter_->get(flight.key); found && *found && usable(**found)) return std::move(**found);
  auto loaded = run(flight.key, load);
  if (!loaded) return loaded;
  auto& s = shard_of(flight.key);
  const std::lock_guard guard{s.mutex};
  // The key is there: its caller has not left.
  if (s.loading.find(flight.key)->second.generation != flight.generation)
    ++counts_.outdated_loads;
  else
    (void)counted(adapter_->put(flight.key, *loaded, options_.item_ttl));
  return loaded;
}

expected<std::string> read_through_cache::load(std::string_view key, const loader& load,
                                               bool (*usable)(std::string_view)) {
  if (options_.item_ttl <= options_.item_ttl.zero()) return run(key, load);
  bool engine_answers = may_ask();
  if (engine_answers) {
    auto found = counted(adapter_->get(key));
    if (found && *found && usable(**found)) {
      ++counts_.hits;
      return std::move(**found);
    }
    engine_answers = found.has_value();
  } else {
    ++counts_.failures;
  }
  ++counts_.misses;
  const caller me{shard_of(key), key};
  try {
    const flight_key flight{std::string{key}, me.generation()};
    auto answer = flights_.call_ex(flight, [&] {
      // An engine that has just failed is not asked twice more.
      return engine_answers ? load_and_keep(flight, load, usable) : run(key, load);
    });
    if (!answer.fresh) ++counts_.shared_loads;
    return std::move(answer.value);
  } catch (const std::system_error& e) {
    if (e.code() != std::errc::resource_deadlock_would_occur) throw;
    return {errc::conflict, "the loader of cache key " + shown_cache_key(key) +
                                " asks for its own key, which would wait for ever; load it without the cache"};
  }
}

expected<void> wait_for_engine(cache_adapter& adapter, int attempts,
                               const std::function<bool(std::chrono::milliseconds)>& sleep) {
  constexpr std::chrono::milliseconds pause{1000};
  expected<void> last;
  for (int tried = 1;; ++tried) {
    last = adapter.ping();
    if (last) return last;
    const bool go_on = tried < attempts && (sleep ? sleep(pause) : (std::this_thread::sleep_for(pause), true));
    if (!go_on)
      return {last.failure().code, last.failure().text + " (tried " + std::to_string(tried) +
                                       (tried == 1 ? " time" : " times, a second apart") + ")"};
  }
}

}  // namespace caravan
