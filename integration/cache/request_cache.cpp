#include <caravan/cache.hpp>

#include <map>
#include <mutex>

namespace caravan {

struct request_cache::state {
  using name = std::pair<std::string, std::string>;  // kind, key

  explicit state(request_cache_options with) : options(std::move(with)) {
    if (!options.now) options.now = [] { return std::chrono::steady_clock::now(); };
    begin = options.now();
  }

  /// True if it must not be used any more. The first to see that warns.
  bool is_too_old(std::string_view kind, std::string_view key) {
    if (options.now() - begin <= options.lifetime) return false;
    {
      const std::lock_guard guard{mutex};
      values.clear();
      if (std::exchange(warned, true)) return true;
    }
    if (options.warn)
      options.warn("a request cache has outlived its " +
                   std::to_string(std::chrono::duration_cast<std::chrono::seconds>(options.lifetime).count()) +
                   " s and keeps nothing from now on (asked for " + std::string(kind) + " \"" + std::string(key) +
                   "\"); begin one for each request, not for long work");
    return true;
  }

  request_cache_options options;
  std::chrono::steady_clock::time_point begin;
  std::mutex mutex;
  bool warned = false;
  std::map<name, std::any> values;
};

request_cache request_cache::begin(request_cache_options options) {
  request_cache out;
  out.state_ = std::make_shared<state>(std::move(options));
  return out;
}

void request_cache::put_any(std::string_view kind, std::string_view key, std::any value) const {
  if (!state_ || state_->is_too_old(kind, key)) return;
  const std::lock_guard guard{state_->mutex};
  state_->values.insert_or_assign({std::string(kind), std::string(key)}, std::move(value));
}

std::any request_cache::get_any(std::string_view kind, std::string_view key) const {
  if (!state_ || state_->is_too_old(kind, key)) return {};
  const std::lock_guard guard{state_->mutex};
  const auto found = state_->values.find({std::string(kind), std::string(key)});
  return found == state_->values.end() ? std::any{} : found->second;
}

void request_cache::remove(std::string_view kind, std::string_view key) {
  if (!state_) return;
  const std::lock_guard guard{state_->mutex};
  state_->values.erase({std::string(kind), std::string(key)});
}

}  // namespace caravan
