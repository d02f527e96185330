#pragma once

/// Calls for the same key must not overlap, calls for different keys may, and unlike single_flight every caller's own
/// function has to run: two updates of one account, say. One mutex for all would be too much, one per key for ever
/// would never end. `locked_calls` keeps a lock per key only while somebody uses it.
///
///   toolbox::locked_calls<std::string> calls;
///   auto balance = calls.call("account:7", [&] { return book(-5); });
///
/// Threads: safe; a call waits for those of the same key, in no promised order. The function runs without the tool's
/// own lock. A call for a key from inside that key's function waits for itself for ever: do not.
/// Errors: what the function throws passes to its caller and frees the key.

#include <cstddef>
#include <functional>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace caravan::toolbox {

template <class Key, class Hash = std::hash<Key>>
class locked_calls {
public:
  template <class Work>
  decltype(auto) call(const Key& key, Work&& work) {
    const seat mine{*this, key};
    const std::lock_guard guard{mine.turn()};
    return std::forward<Work>(work)();
  }
  /// Keys in use now.
  [[nodiscard]] std::size_t size() const {
    const std::lock_guard guard{mutex_};
    return seats_.size();
  }

private:
  struct entry {
    std::mutex turn;
    std::size_t users = 0;
  };
  class seat {
  public:
    seat(locked_calls& owner, const Key& key) : owner_(owner) {
      const std::lock_guard guard{owner.mutex_};
      at_ = &*owner.seats_.try_emplace(key).first;  // an element's address survives rehashing
      ++at_->second.users;
    }
    seat(const seat&) = delete;
    seat& operator=(const seat&) = delete;
    ~seat() {
      const std::lock_guard guard{owner_.mutex_};
      // By iterator, as erasing by a key that lives in the element is not safe everywhere.
      if (--at_->second.users == 0) owner_.seats_.erase(owner_.seats_.find(at_->first));
    }
    [[nodiscard]] std::mutex& turn() const { return at_->second.turn; }

  private:
    locked_calls& owner_;
    std::pair<const Key, entry>* at_;
  };

  mutable std::mutex mutex_;
  std::unordered_map<Key, entry, Hash> seats_;
};

}  // namespace caravan::toolbox
