#pragma once

/// queue<T>: push items, have them handled. Made by a node (node.hpp, "start here").
///
/// T travels as JSON by nlohmann's hooks (to_json/from_json, NLOHMANN_DEFINE_TYPE...). raw_json skips that.

#include <caravan/context.hpp>
#include <caravan/error.hpp>
#include <caravan/item_id.hpp>
#include <caravan/queue_port.hpp>

#include <nlohmann/json.hpp>

#include <chrono>
#include <concepts>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

namespace caravan {

/// JSON text as it is, neither parsed nor checked by the queue.
struct raw_json {
  std::string text;
};

/// What a handler may return: the indexes of the items it did not handle. They come again.
using unhandled = std::vector<std::size_t>;

namespace detail {

template <class T>
expected<std::string> to_payload(const T& value) {
  if constexpr (std::is_same_v<T, raw_json>) {
    return value.text;
  } else {
    try {
      return nlohmann::json(value).dump();
    } catch (const std::exception& e) {
      return {errc::invalid_argument, std::string("the item cannot be written as JSON: ") + e.what()};
    }
  }
}

template <class T>
expected<T> from_payload(const std::string& text) {
  if constexpr (std::is_same_v<T, raw_json>) {
    return raw_json{text};
  } else {
    try {
      return nlohmann::json::parse(text).template get<T>();
    } catch (const std::exception& e) {
      return {errc::invalid_argument, std::string("the stored item cannot be read as its type: ") + e.what()};
    }
  }
}

/// Calls a handler in any of its accepted forms.
template <class T, class Handler>
unhandled call_handler(Handler& handler, std::vector<T>& items, context& ctx) {
  if constexpr (std::is_invocable_v<Handler&, std::vector<T>&, context&>) {
    if constexpr (std::is_void_v<std::invoke_result_t<Handler&, std::vector<T>&, context&>>) {
      handler(items, ctx);
      return {};
    } else {
      return handler(items, ctx);
    }
  } else if constexpr (std::is_void_v<std::invoke_result_t<Handler&, std::vector<T>&>>) {
    handler(items);
    return {};
  } else {
    return handler(items);
  }
}

/// The handler as the node keeps it: items in, outcomes in the context out.
template <class T, class Handler>
raw_handler wrap_handler(Handler handler) {
  return [handler = std::move(handler)](std::span<const std::string* const> payloads, context& ctx) mutable {
    std::vector<T> items;
    std::vector<std::size_t> index;  // of each parsed item in the batch
    items.reserve(payloads.size());
    bool all = true;
    for (std::size_t i = 0; i < payloads.size(); ++i) {
      auto item = from_payload<T>(*payloads[i]);
      if (!item) {
        ctx.reject(i, item.failure().text);
        all = false;
        continue;
      }
      items.push_back(std::move(*item));
      index.push_back(i);
    }
    if (items.empty()) return;
    if (!all) ctx.renumber(index);
    const auto count = items.size();
    for (const auto i : call_handler<T>(handler, items, ctx))
      if (i < count) ctx.hand_back(i);
  };
}

}  // namespace detail

/// A handle; copies mean the same queue. Thread safe. Must not outlive its node: calls then answer queue_closed.
template <class T>
class queue {
public:
  queue() = default;
  explicit queue(std::shared_ptr<queue_port> port) : port_(std::move(port)) {}

  /// Once it returns an id, the item is as durable as the queue's TYPE and SYNC promise. Never blocks for ever: waits
  /// up to PUSH_TIMEOUT for room. Errors: already_in_queue (unique queues), queue_full, queue_closed, too_large,
  /// invalid_argument, backend_failed.
  expected<item_id> push(const T& item, push_options options = {}) {
    auto payload = detail::to_payload(item);
    if (!payload) return payload.failure();
    return port_->push_one({std::move(*payload), std::move(options)});
  }

  /// All are stored or none; in a unique queue those that wait already are left out (errc already_in_queue each).
  expected<std::vector<pushed>> push_many(std::span<const T> items, const push_options& options = {}) {
    std::vector<item_draft> drafts;
    drafts.reserve(items.size());
    for (const auto& item : items) {
      auto payload = detail::to_payload(item);
      if (!payload) return payload.failure();
      drafts.push_back({std::move(*payload), options});
    }
    return port_->push(std::move(drafts));
  }

  /// True while an equal item holds the unique key; always false in a simple queue.
  expected<bool> has(const T& item, const std::string& key = {}) {
    auto payload = detail::to_payload(item);
    if (!payload) return payload.failure();
    return port_->has(*payload, key);
  }

  [[nodiscard]] const std::string& name() const { return port_->name(); }
  expected<queue_info> info() { return port_->info(); }
  /// Items waiting.
  expected<std::size_t> size() {
    auto i = port_->info();
    if (!i) return i.failure();
    return static_cast<std::size_t>(i->waiting);
  }

  /// Returns when nothing waits and nothing runs, or timed_out. Items that failed as a whole batch, or that are
  /// delayed, are not waited for. Negative: forgets what waits instead.
  expected<void> flush(std::chrono::milliseconds timeout) { return port_->flush(timeout); }
  expected<void> pause() { return port_->pause({}); }
  expected<void> pause_until(std::chrono::system_clock::time_point until) { return port_->pause(until); }
  expected<void> resume() { return port_->resume(); }
  /// Refuses pushes from now on, handles the rest, then is stopped.
  expected<void> drain() { return port_->drain(); }
  /// Forgets every waiting item; returns how many. Items in a handler finish, but do not come again.
  expected<std::size_t> remove_all() { return port_->purge("waiting"); }
  /// Live. Below 1: no limit.
  expected<void> set_max_workers(int most) { return port_->set_max_workers(most); }
  /// Where a job stands; not_found when nothing is known of it any more.
  expected<job_info> find(item_id id) { return port_->find(id); }
  /// It is not begun any more. Where a handler has it, that is asked to stop, and whatever else than success it answers
  /// ends the job; its state is `cancelled` then. Durable when it returns an answer. not_found: it ended already.
  expected<void> cancel(item_id id) { return port_->cancel(id); }

  [[nodiscard]] const std::shared_ptr<queue_port>& port() const { return port_; }

private:
  std::shared_ptr<queue_port> port_;
};

}  // namespace caravan
