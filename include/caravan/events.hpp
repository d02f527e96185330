#pragma once

/// What happens in a node and in its cluster, and what the application says itself. Made by a node: node::events().
///
///   const caravan::topic<order> placed{"app.order.placed"};
///   auto sub = node.events().subscribe(placed, [](const order& o) { thank(o); }).value();
///   node.events().publish(placed, order{17});
///   auto dead = node.events().subscribe("job.dead", [](const caravan::event& e) { alert(e.subject); }).value();
///
/// An event is news, not work: it is told at most once, to whoever listens at this moment, and dropped (counted) where
/// a listener does not keep up. What must not get lost belongs in a queue. docs/events.md has the topics.

#include <caravan/error.hpp>
#include <caravan/event_port.hpp>

#include <nlohmann/json.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace caravan {

/// A name and the type of what is told under it, which travels as JSON by nlohmann's hooks.
template <class T>
struct topic {
  std::string name;
};

struct event_options {
  std::string subject{};
  /// Of something that is not public yet: the event is counted and not sent.
  bool draft = false;
};

/// Ends its subscription when it is destroyed: then its function does not run any more, unless it is that function
/// which destroys it. Movable.
class event_subscription {
public:
  event_subscription() = default;
  event_subscription(std::shared_ptr<event_port> port, std::uint64_t id) : port_(std::move(port)), id_(id) {}
  event_subscription(event_subscription&& other) noexcept : port_(std::move(other.port_)), id_(other.id_) {
    other.port_.reset();
  }
  event_subscription& operator=(event_subscription&& other) noexcept {
    if (this != &other) {
      end();
      port_ = std::move(other.port_);
      other.port_.reset();
      id_ = other.id_;
    }
    return *this;
  }
  ~event_subscription() { end(); }

  /// Safe to call twice.
  void end() {
    if (const auto port = std::exchange(port_, nullptr)) port->unsubscribe(id_);
  }
  [[nodiscard]] bool active() const noexcept { return port_ != nullptr; }

private:
  std::shared_ptr<event_port> port_;
  std::uint64_t id_ = 0;
};

/// A handle; copies mean the same. Thread safe.
class events {
public:
  explicit events(std::shared_ptr<event_port> port) : port_(std::move(port)) {}

  /// Never waits. invalid_argument: the topic does not begin with "app." or is no topic, or the value is no JSON;
  /// too_large: more than 64 KiB; queue_full: 10,000 events wait to be told; queue_closed: the node has stopped.
  template <class T>
  expected<void> publish(const topic<T>& about, const T& value, event_options options = {}) {
    event e;
    e.topic = about.name;
    e.subject = std::move(options.subject);
    try {
      e.body = nlohmann::json(value).dump();
    } catch (const std::exception& what) {
      return {errc::invalid_argument,
              "event \"" + about.name + "\": its value cannot be written as JSON: " + what.what()};
    }
    return port_->publish(std::move(e), options.draft);
  }

  /// Each subscription has a thread of its own, so a function may take its time; 1,000 events wait for it, then the
  /// oldest are dropped. What it throws is logged and counted, and the next event comes all the same.
  /// `function(const event&)`. invalid_argument: the pattern is none.
  template <class Function>
  expected<event_subscription> subscribe(event_filter filter, Function function) {
    auto id = port_->subscribe(std::move(filter), std::move(function));
    if (!id) return id.failure();
    return event_subscription(port_, *id);
  }
  template <class Function>
  expected<event_subscription> subscribe(std::string_view pattern, Function function) {
    return subscribe(event_filter{std::string(pattern), {}}, std::move(function));
  }
  /// `function(const T&)` or `function(const T&, const event&)`. A body that is no T counts as a throw of the function.
  template <class T, class Function>
  expected<event_subscription> subscribe(const topic<T>& about, Function function) {
    return subscribe(event_filter{about.name, {}}, [function = std::move(function)](const event& e) mutable {
      const auto value = nlohmann::json::parse(e.body).template get<T>();
      if constexpr (std::is_invocable_v<Function&, const T&, const event&>)
        function(value, e);
      else
        function(value);
    });
  }

  /// Asked for each event of this node before anybody is told, those of the node itself included; false: it stays here.
  /// Runs on the thread of the bus, so it must be quick. When it throws the event stays here. Empty: all but drafts go
  /// out. The last one set counts.
  void gate(std::function<bool(const event&)> may_go_out) { port_->gate(std::move(may_go_out)); }

private:
  std::shared_ptr<event_port> port_;
};

}  // namespace caravan
