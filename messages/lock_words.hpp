#pragma once

/// What the lock manager and its users say to each other. Plain: no CAF here.

#include "messages/record.hpp"

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace caravan {

/// Asks for a lock. Answered by lock_granted; conflict: it stayed taken for `wait`.
struct acquire_lock {
  std::uint64_t request = 0;  ///< the asker's own number, random: for cancel_lock
  std::string key;
  std::string label;                   ///< who, for lists
  std::chrono::milliseconds wait{0};   ///< 0: answered at once
  std::chrono::milliseconds lease{0};  ///< above 0: free after this unless extended
};
struct lock_granted {
  std::uint64_t value = 0;  ///< random: who knows it may extend and release
  std::uint64_t token = 0;
  std::chrono::milliseconds remaining{0};
};
/// Its asker waits no more: it leaves the line, or what it got is released.
struct cancel_lock {
  std::uint64_t request = 0;
};
/// Answered by ack; fenced: it does not hold it (any more).
struct release_lock {
  std::string key;
  std::uint64_t value = 0;
  bool force = false;  ///< whoever holds it; not_found: nobody does
};
/// Counts the lease anew. Answered by lock_granted; fenced: lost.
struct extend_lock {
  std::string key;
  std::uint64_t value = 0;
};

/// Answered by lock_list: of one key, or of all when it is empty.
struct get_locks {
  std::string key;
  std::uint32_t most = 1000;
};
struct lock_user_status {
  std::string node;
  std::string owner;
  wall_time since{};
};
struct lock_status {
  std::string key;
  lock_user_status holder;
  std::uint64_t token = 0;
  std::chrono::milliseconds remaining{-1};  ///< -1: until it is released
  std::chrono::milliseconds lease{0};
  std::uint64_t waiting = 0;
  std::vector<lock_user_status> waiters;  ///< the first 100
};
struct lock_list {
  std::vector<lock_status> locks;
};

template <class I>
typename I::result_type inspect(I& f, acquire_lock& x) {
  return f(x.request, x.key, x.label, x.wait, x.lease);
}
template <class I>
typename I::result_type inspect(I& f, lock_granted& x) {
  return f(x.value, x.token, x.remaining);
}
template <class I>
typename I::result_type inspect(I& f, cancel_lock& x) {
  return f(x.request);
}
template <class I>
typename I::result_type inspect(I& f, release_lock& x) {
  return f(x.key, x.value, x.force);
}
template <class I>
typename I::result_type inspect(I& f, extend_lock& x) {
  return f(x.key, x.value);
}
template <class I>
typename I::result_type inspect(I& f, get_locks& x) {
  return f(x.key, x.most);
}
template <class I>
typename I::result_type inspect(I& f, lock_user_status& x) {
  return f(x.node, x.owner, x.since);
}
template <class I>
typename I::result_type inspect(I& f, lock_status& x) {
  return f(x.key, x.holder, x.token, x.remaining, x.lease, x.waiting, x.waiters);
}
template <class I>
typename I::result_type inspect(I& f, lock_list& x) {
  return f(x.locks);
}

}  // namespace caravan
