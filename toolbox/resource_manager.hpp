#pragma once

/// Four holders for things that are made once and shared.
///
/// `resource_manager`: one per key, made by the first who asks, closed together.
///
///   toolbox::resource_manager<std::string, connection> connections;
///   auto c = connections.get("db:5432", [] { return std::make_shared<connection>("db:5432"); });
///   auto closed = connections.close([](connection& c) { c.close(); });    // one failure with the texts of all
///
/// `immutable_resource`: fetched on first use and kept for ever; a failure is remembered for a second (or what you
/// say), so that a thing that is down is not asked by everyone all the time.
///
///   toolbox::immutable_resource<settings> remote{[] { return load_settings(); }};
///   const settings& s = remote.get();
///
/// `managed_resource`: kept until somebody marks it broken; marking one that was replaced already does nothing.
///
///   toolbox::managed_resource<connection> shared{[] { return std::make_shared<connection>(); }};
///   auto c = shared.take();
///   if (!c->ping()) shared.mark_broken(c);
///
/// `ref_resource`: counts users; the last one who leaves runs the clean-up, after which nobody may enter.
///
///   toolbox::ref_resource file{[] { remove_temporary_file(); }};
///   if (file.use()) { read(); file.clean(); }
///
/// Standard: std::call_once and std::shared_ptr are what these are made of, where nothing has to be remembered.
/// Threads: safe. Makers run once at a time, per key in resource_manager; others wait for them.
/// Errors: what a maker throws reaches all who waited for it, and nothing is stored (immutable_resource remembers it
/// for its pause). After close() a resource_manager is empty and may be used again.

#include <chrono>
#include <concepts>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <utility>

#include "toolbox/clock.hpp"
#include "toolbox/outcome.hpp"
#include "toolbox/run_safe.hpp"
#include "toolbox/single_flight.hpp"

namespace caravan::toolbox {

template <class Key, class Resource, class Hash = std::hash<Key>>
class resource_manager {
public:
  using pointer = std::shared_ptr<Resource>;

  /// `make` returns a std::shared_ptr; an empty one is an error as well, and is not stored.
  template <class Make>
  pointer get(const Key& key, Make&& make) {
    if (auto found = look(key)) return found;
    return flight_.call(key, [&]() -> pointer {
      if (auto found = look(key)) return found;
      pointer made = make();
      if (made) inject(key, made);
      return made;
    });
  }
  /// Puts one there that was made elsewhere.
  void inject(const Key& key, pointer resource) {
    const std::lock_guard guard{mutex_};
    resources_[key] = std::move(resource);
  }

  /// Empties the map and calls `shut` for each; one that throws, or returns something that tests false, is an error
  /// and stops no other.
  template <class Shut>
  outcome<void> close(Shut shut) {
    std::unordered_map<Key, pointer, Hash> all;
    {
      const std::lock_guard guard{mutex_};
      all.swap(resources_);
    }
    std::string texts;
    const auto note = [&](const std::string& text) { texts += (texts.empty() ? "" : "; ") + text; };
    for (auto& [key, resource] : all) {
      try {
        if constexpr (std::is_void_v<std::invoke_result_t<Shut&, Resource&>>) {
          shut(*resource);
        } else if (const auto done = shut(*resource); !done) {
          if constexpr (requires {
                          { done.error().text } -> std::convertible_to<std::string>;
                        })
            note(done.error().text);
          else
            note("a resource could not be closed");
        }
      } catch (...) {
        note(text_of(std::current_exception()));
      }
    }
    if (texts.empty()) return {};
    return failure{fault::failed, texts};
  }
  [[nodiscard]] std::size_t size() const {
    const std::lock_guard guard{mutex_};
    return resources_.size();
  }

private:
  pointer look(const Key& key) const {
    const std::lock_guard guard{mutex_};
    const auto found = resources_.find(key);
    return found == resources_.end() ? nullptr : found->second;
  }

  mutable std::mutex mutex_;
  std::unordered_map<Key, pointer, Hash> resources_;
  single_flight<Key, pointer, Hash> flight_;
};

template <class Resource>
class immutable_resource {
public:
  explicit immutable_resource(std::function<Resource()> fetch,
                              std::chrono::nanoseconds refresh_after_error = std::chrono::seconds{1},
                              const clock& time = real_clock::shared())
      : fetch_(std::move(fetch)), pause_(refresh_after_error), time_(time) {}

  /// Throws what the fetch threw, now or within the pause before. The reference is good as long as this object is.
  const Resource& get() {
    // One at a time: those who come during the first fetch wait here and find its result.
    const std::lock_guard guard{mutex_};
    if (resource_) return *resource_;
    if (error_ && time_.now() - failed_at_ < pause_) std::rethrow_exception(error_);
    try {
      resource_.emplace(fetch_());
      error_ = nullptr;
    } catch (...) {
      error_ = std::current_exception();
      failed_at_ = time_.now();
      throw;
    }
    return *resource_;
  }
  /// How long a failure is remembered.
  void set_refresh_after_error(std::chrono::nanoseconds pause) {
    const std::lock_guard guard{mutex_};
    pause_ = pause;
  }

private:
  const std::function<Resource()> fetch_;
  std::mutex mutex_;
  std::chrono::nanoseconds pause_;
  const clock& time_;
  std::optional<Resource> resource_;
  std::exception_ptr error_;
  steady_time failed_at_{};
};

template <class Resource>
class managed_resource {
public:
  explicit managed_resource(std::function<std::shared_ptr<Resource>()> make) : make_(std::move(make)) {}

  std::shared_ptr<Resource> take() {
    const std::lock_guard guard{mutex_};
    if (!resource_) resource_ = make_();
    return resource_;
  }
  /// The next take makes another. Those who hold the old one keep it.
  void mark_broken(const std::shared_ptr<Resource>& broken) {
    const std::lock_guard guard{mutex_};
    if (broken == resource_) resource_.reset();
  }

private:
  const std::function<std::shared_ptr<Resource>()> make_;
  std::mutex mutex_;
  std::shared_ptr<Resource> resource_;
};

class ref_resource {
public:
  explicit ref_resource(std::function<void()> clean) : clean_(std::move(clean)) {}

  /// closed once the clean-up has begun.
  outcome<void> use() {
    const std::lock_guard guard{mutex_};
    if (cleaned_) return failure{fault::closed, "the resource was cleaned up"};
    ++users_;
    return {};
  }
  /// One user less; the last one cleans up, on its own thread. Later calls do nothing.
  void clean() {
    {
      const std::lock_guard guard{mutex_};
      if (cleaned_ || users_ == 0) return;
      if (--users_ > 0) return;
      cleaned_ = true;
    }
    clean_();
  }

private:
  const std::function<void()> clean_;
  std::mutex mutex_;
  std::size_t users_ = 0;
  bool cleaned_ = false;
};

}  // namespace caravan::toolbox
