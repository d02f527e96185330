#pragma once

/// What a handler gets and what it answers. Plain: no CAF here.

#include "messages/record.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace caravan {

/// Items on their way to one handler call, under a lease.
struct batch {
  std::string queue;
  std::uint64_t token = 0;           ///< the lease token; only grows within one queue
  std::chrono::milliseconds lease{0};  ///< how long the lease lasts without renewal
  /// Shared with the queue's in-flight table; nobody changes it. Never null in a batch that was sent.
  std::shared_ptr<const std::vector<record>> items;
  std::chrono::milliseconds limit{0};  ///< until the first deadline among its items; 0: none has one
};

/// What became of one item that a handler did not handle. Items that are not named were handled.
struct item_outcome {
  enum class kind : std::uint8_t {
    unhandled,  ///< handed back; comes again
    failed,     ///< the attempt failed; backoff, then dead after max_attempts
    rejected,   ///< never again: goes to dead at once
    later,      ///< not now: comes again after `delay`, no attempt is counted
    handled,    ///< as if it were not named, and `text` is its result (JSON)
  };
  std::uint32_t index = 0;  ///< into batch::items
  kind what = kind::unhandled;
  std::string text;         ///< why, for people; empty for unhandled
  std::chrono::milliseconds delay{0};  ///< `later`, and `failed` where the target asked for it (Retry-After); 0: the queue decides
};

template <class I>
typename I::result_type inspect(I& f, batch& x) {
  if constexpr (I::writes_state) {
    auto items = std::make_shared<std::vector<record>>();
    auto result = f(x.queue, x.token, x.lease, *items, x.limit);
    x.items = std::move(items);
    return result;
  } else {
    static const std::vector<record> none;
    return f(x.queue, x.token, x.lease, const_cast<std::vector<record>&>(x.items ? *x.items : none), x.limit);
  }
}
template <class I>
typename I::result_type inspect(I& f, item_outcome& x) {
  return f(x.index, x.what, x.text, x.delay);
}

using batch_result = std::vector<item_outcome>;

/// One outcome for every item of a batch of `size`.
inline batch_result whole_batch(std::size_t size, item_outcome::kind what, const std::string& text,
                                std::chrono::milliseconds delay = {}) {
  batch_result result;
  result.reserve(size);
  for (std::size_t i = 0; i < size; ++i) result.push_back({static_cast<std::uint32_t>(i), what, text, delay});
  return result;
}

}  // namespace caravan
