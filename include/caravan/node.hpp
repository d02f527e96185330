#pragma once

/// Start here. A node owns queues and runs their handlers in this process:
///
///   caravan::node node({.data_dir = "data"});
///   auto mails = node.create_unique_queue<mail>("mail", [](std::vector<mail>& batch) { for (auto& m : batch) send(m); });
///   mails.push({"ann@example.org", "hello"});

#include <caravan/cache.hpp>
#include <caravan/cron.hpp>
#include <caravan/error.hpp>
#include <caravan/events.hpp>
#include <caravan/limit.hpp>
#include <caravan/locks.hpp>
#include <caravan/queue.hpp>

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace caravan {

struct node_options {
  std::filesystem::path config_file{};  ///< INI; empty: only `config_text` and the defaults
  std::string config_text{};            ///< INI text, used when config_file is empty
  std::filesystem::path data_dir{};     ///< wins over [node] DATA_DIR when not empty
  bool use_environment = true;        ///< CARAVAN__SECTION__KEY overrides
  bool serve_http = false;            ///< answer on [http] ADDR
  bool quiet = false;                 ///< no log but errors
};

class node_runtime;

/// Thread safe. Construct one per process and data folder; the destructor stops it as stop() does.
class node {
public:
  /// Throws caravan::exception when the configuration or the data folder does not permit a start.
  explicit node(node_options options = {});
  static expected<std::unique_ptr<node>> start(node_options options);
  ~node();
  node(const node&) = delete;
  node& operator=(const node&) = delete;

  /// A queue whose equal items may wait side by side. Settings: [queue.NAME] over [queue], except UNIQUE.
  /// `handler(items)` or `handler(items, context)`, with `std::vector<T>& items`; returns nothing (all handled) or
  /// caravan::unhandled. It is called by up to MAX_WORKERS threads at once. What it throws fails the attempt.
  /// Throws caravan::exception: conflict (the name is taken), invalid_argument (bad settings), backend_failed.
  template <class T, class Handler>
  queue<T> create_simple_queue(const std::string& name, Handler handler) {
    return create<T>(name, uniqueness::simple, std::move(handler));
  }
  /// A queue that refuses an item that waits already.
  template <class T, class Handler>
  queue<T> create_unique_queue(const std::string& name, Handler handler) {
    return create<T>(name, uniqueness::unique, std::move(handler));
  }
  /// As UNIQUE in its settings says.
  template <class T, class Handler>
  queue<T> create_queue(const std::string& name, Handler handler) {
    return create<T>(name, uniqueness::as_configured, std::move(handler));
  }
  /// For pushing only, or for a queue whose HANDLER is set in the configuration.
  template <class T>
  queue<T> open_queue(const std::string& name) {
    return queue<T>(create_raw(name, uniqueness::as_configured, {}, typeid(T)));
  }

  /// All queues of this node, in the order of their ids.
  [[nodiscard]] std::vector<queue_info> queues() const;
  [[nodiscard]] std::shared_ptr<queue_port> find_queue(std::string_view name) const;
  [[nodiscard]] std::shared_ptr<queue_port> find_queue(std::uint64_t id) const;
  /// Flushes every queue; the first failure is the answer, but all are tried.
  expected<void> flush_all(std::chrono::milliseconds timeout);

  /// The tasks that run at set times; those of [cron.NAME] have begun already.
  [[nodiscard]] caravan::cron cron() const;

  /// The cache of [cache.NAME] over [cache]; without a name that of [cache]. Handles of one name mean the same cache.
  /// What a section names was opened at the start. Anything else is opened by its first call, which waits up to 10 s for
  /// an engine that does not answer, and then gives the handle all the same. Throws caravan::exception
  /// (invalid_argument) for wrong settings and for an engine without an address.
  [[nodiscard]] string_cache cache(const std::string& name = {});

  /// [limit.NAME] over [limit]. Throws caravan::exception (not_found) for a limit that no section names.
  [[nodiscard]] caravan::limit limit(const std::string& name);

  /// As [global_lock] says: of this node, or of all that share its Redis.
  [[nodiscard]] caravan::locks locks();

  /// What happens in this node and in its cluster; and what the application publishes.
  [[nodiscard]] caravan::events events() const;

  /// Stops claiming, waits SHUTDOWN_TIMEOUT for handlers, closes the storages. Returns how many handlers still run.
  std::size_t stop();

  /// The port of the HTTP API; 0: not served.
  [[nodiscard]] std::uint16_t http_port() const;
  [[nodiscard]] node_runtime& runtime() { return *runtime_; }

private:
  enum class uniqueness : std::uint8_t { simple, unique, as_configured };

  template <class T, class Handler>
  queue<T> create(const std::string& name, uniqueness unique, Handler handler) {
    return queue<T>(create_raw(name, unique, detail::wrap_handler<T>(std::move(handler)), typeid(T)));
  }
  std::shared_ptr<queue_port> create_raw(const std::string& name, uniqueness unique, raw_handler handler,
                                         const std::type_info& type);

  std::unique_ptr<node_runtime> runtime_;
};

}  // namespace caravan
