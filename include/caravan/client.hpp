#pragma once

/// A program without a node of its own: pushes to queues, looks at jobs, takes locks, on nodes that it reaches over
/// HTTP.
///
///   caravan::client nodes({.addresses = "mars:7171,venus:7171", .token = secret});
///   auto id = nodes.push("mail", mail{"ann@example.org"});

#include <caravan/error.hpp>
#include <caravan/queue.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace caravan {

struct client_options {
  std::string addresses;  ///< "HOST:PORT", "https://HOST:PORT"; several with commas between: one that answers is enough
  std::string token{};    ///< bearer token; empty: none
  std::string tls_ca{};   ///< PEM file of those who sign the nodes' certificates; empty: the system's
  std::chrono::milliseconds timeout{15'000};  ///< of a call, all tries together
};

/// What became of one pushed item.
struct pushed_job {
  std::string id;         ///< "mail.0sd32qsd40000": its own, or that of the equal item that was there before
  bool stored = false;    ///< false: an equal item waits, or a repeat
  bool repeated = false;  ///< its idempotency key was seen before: as good as stored
};

/// A lock that is held until its time is over, unless it is extended.
struct remote_lock {
  std::string key;
  std::string value;        ///< what extends and releases it
  std::uint64_t token = 0;  ///< only grows from holder to holder: hand it to what must refuse an outdated one
  std::chrono::milliseconds remaining{0};
};

/// Thread safe; threads call side by side. A call that no node answered, or whose answer was lost, is said again to the
/// next node until `timeout` is over. Every push carries an idempotency key (one of its own unless the caller gives
/// one), so a repeat never stores an item twice within the queue's IDEMPOTENCY_WINDOW.
///
/// Errors: those of the node; timed_out: no node answered in time, and whether it was done is unknown.
class client {
public:
  /// Connects to nobody yet. Throws caravan::exception (invalid_argument) for addresses that are none.
  explicit client(client_options options);
  ~client();
  client(const client&) = delete;
  client& operator=(const client&) = delete;

  /// already_in_queue is an error here: the text names the job that waits.
  template <class T>
  expected<std::string> push(const std::string& queue, const T& item, push_options options = {}) {
    auto payload = detail::to_payload(item);
    if (!payload) return payload.failure();
    return push_one(queue, {std::move(*payload), std::move(options)});
  }
  /// All are stored or none; in a unique queue those that wait already are left out.
  template <class T>
  expected<std::vector<pushed_job>> push_many(const std::string& queue, std::span<const T> items,
                                              const push_options& options = {}) {
    std::vector<item_draft> drafts;
    drafts.reserve(items.size());
    for (const auto& item : items) {
      auto payload = detail::to_payload(item);
      if (!payload) return payload.failure();
      drafts.push_back({std::move(*payload), options});
    }
    return push_drafts(queue, std::move(drafts));
  }

  /// The queue as the node that answers sees it.
  expected<queue_info> status(const std::string& queue);
  /// not_found: it was handled or removed a while ago.
  expected<job_info> find(const std::string& job_id);

  /// conflict: it stayed taken for `wait`. A client that got no answer may hold it all the same, until `ttl` is over.
  expected<remote_lock> lock(const std::string& key, std::chrono::milliseconds wait = {},
                             std::chrono::milliseconds ttl = std::chrono::seconds{30});
  /// Its time counts anew. fenced: it is lost; stop what is done under it.
  expected<remote_lock> extend(const remote_lock& held);
  expected<void> release(const remote_lock& held);

private:
  expected<std::string> push_one(const std::string& queue, item_draft draft);
  expected<std::vector<pushed_job>> push_drafts(const std::string& queue, std::vector<item_draft> drafts);

  struct impl;
  std::unique_ptr<impl> impl_;
};

}  // namespace caravan
