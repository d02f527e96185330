#include "nodes/event_host.hpp"

#include "actors/event/event_pattern.hpp"
#include "nodes/foreign_thread.hpp"

#include <caf/all.hpp>

#include <nlohmann/json.hpp>

namespace caravan {

namespace {
constexpr std::size_t most_body = 64u << 10;
}  // namespace

event_host::event_host(parts p) : parts_(std::move(p)), door_(std::make_shared<event_door>(*parts_.clock)) {}

event_host::~event_host() { stop(); }

void event_host::begin(caf::actor_system& system) {
  const foreign_thread here;
  system_ = &system;
  auto bus = system.spawn<caf::detached>(
      event_bus_behavior, event_bus_parts{parts_.node, parts_.run, door_,
                                          [log = parts_.log](const std::string& text) { log->warn("event", text); }});
  door_->connect(
      [to = caf::actor_addr(bus.address())] {
        if (const auto strong = caf::actor_cast<caf::strong_actor_ptr>(to)) {
          const foreign_thread publisher;
          caf::anon_send(caf::actor_cast<local_event_bus>(strong), events_waiting{});
        }
      },
      [this] {
        const std::lock_guard lock(mutex_);
        changed_ = true;
        wake_.notify_all();
      });
  const std::lock_guard lock(mutex_);
  bus_ = std::move(bus);
}

local_event_bus event_host::bus() const {
  const std::lock_guard lock(mutex_);
  return bus_;
}

expected<void> event_host::publish(event e, bool draft) {
  if (const auto ok = check_topic(e.topic); !ok) return ok.failure();
  if (!e.topic.starts_with("app."))
    return {errc::invalid_argument,
            "event \"" + e.topic + "\": what is published begins with \"app.\", as other topics are the node's own"};
  if (e.body.size() > most_body || e.subject.size() > most_body)
    return {errc::too_large, "event \"" + e.topic + "\": more than 64 KiB; publish where the content is to be found"};
  return door_->publish(std::move(e), draft);
}

expected<std::uint64_t> event_host::subscribe(event_filter filter, std::function<void(const event&)> function) {
  if (const auto ok = check_pattern(filter.topic); !ok) return ok.failure();
  const auto receiver = std::make_shared<event_function>(
      door_, std::move(function), [log = parts_.log](const std::string& text) { log->warn("event", text); });
  event_wish wish;
  wish.filters.push_back(std::move(filter));
  // The door's callback takes the mutex too.
  const auto id = door_->subscribe(std::move(wish), receiver);
  const std::lock_guard lock(mutex_);
  if (stopped_) {
    receiver->close();
    return error{errc::queue_closed, "events: the node has stopped"};
  }
  functions_[id] = receiver;
  return id;
}

void event_host::unsubscribe(std::uint64_t id) {
  door_->unsubscribe(id);
  std::shared_ptr<event_function> function;
  {
    const std::lock_guard lock(mutex_);
    const auto node = functions_.extract(id);
    if (node.empty()) return;
    function = node.mapped();
  }
  function->close();
}

void event_host::gate(std::function<bool(const event&)> may_go_out) { door_->gate(std::move(may_go_out)); }

void event_host::join(cluster c) {
  const std::lock_guard lock(mutex_);
  if (stopped_ || thread_.joinable()) return;
  cluster_ = std::move(c);
  thread_ = std::jthread([this](const std::stop_token& stop) { watch(stop); });
}

void event_host::watch(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    // A Redis that does not answer says nothing about who is alive.
    if (const auto all = cluster_.nodes()) see(*all);
    const auto next = std::chrono::steady_clock::now() + cluster_.every;
    for (bool again = true; again && !stop.stop_requested();) {
      speak();
      std::unique_lock lock(mutex_);
      again = wake_.wait_until(lock, stop, next, [this] { return changed_; });
      changed_ = false;
    }
  }
}

void event_host::see(const std::vector<node_entry>& all) {
  std::map<std::string, node_entry> alive;
  for (const auto& n : all)
    if (n.alive && n.name != parts_.node) alive.emplace(n.name, n);
  std::vector<std::pair<event_topic, node_entry>> news;
  {
    const std::lock_guard lock(mutex_);
    for (auto it = peers_.begin(); it != peers_.end();) {
      const auto at = alive.find(it->first);
      if (at != alive.end() && at->second.incarnation == it->second.incarnation) {
        ++it;
        continue;
      }
      node_entry gone;
      gone.name = it->first;
      gone.address = it->second.address;
      news.emplace_back(event_topic::cluster_node_down, std::move(gone));
      it = peers_.erase(it);
    }
    for (const auto& [name, n] : alive) {
      if (!peers_.try_emplace(name, peer{n.incarnation, n.address, nullptr, false, false}).second) continue;
      if (saw_any_) news.emplace_back(event_topic::cluster_node_up, n);
    }
    saw_any_ = true;
  }
  for (const auto& [topic, n] : news) door_->tell(topic, n.name, nlohmann::json{{"address", n.address}}.dump());
}

// Says to each node what is wanted here, and looks for those to which there is no way.
void event_host::speak() {
  std::vector<std::pair<std::string, peer>> some;
  local_event_bus bus;
  {
    const std::lock_guard lock(mutex_);
    bus = bus_;
    for (auto& [name, p] : peers_) {
      p.again = p.under_way;
      if (!std::exchange(p.under_way, true)) some.emplace_back(name, p);
    }
  }
  if (!bus) return;
  const foreign_thread here;
  for (const auto& [name, p] : some) {
    const auto who = name;
    const auto run = p.incarnation;
    if (p.bus)
      caf::anon_send(bus, wish_at_node{p.bus, [self = weak_from_this(), who, run](bool ok) {
                                         if (const auto s = self.lock()) s->answered(who, run, ok);
                                       }});
    else
      cluster_.others->find_events({who, run, p.address},
                                   [self = weak_from_this(), who, run](expected<caf::strong_actor_ptr> bus_there) {
                                     if (const auto s = self.lock()) s->found(who, run, std::move(bus_there));
                                   });
  }
}

void event_host::found(const std::string& name, const std::string& incarnation, expected<caf::strong_actor_ptr> bus) {
  const std::lock_guard lock(mutex_);
  const auto at = peers_.find(name);
  if (stopped_ || at == peers_.end() || at->second.incarnation != incarnation) return;
  at->second.under_way = false;
  if (!bus || !*bus) return;  // looked for again with the next round
  at->second.bus = std::move(*bus);
  changed_ = true;
  wake_.notify_all();
}

void event_host::answered(const std::string& name, const std::string& incarnation, bool ok) {
  const std::lock_guard lock(mutex_);
  const auto at = peers_.find(name);
  if (at == peers_.end() || at->second.incarnation != incarnation) return;
  at->second.under_way = false;
  if (!ok) at->second.bus = nullptr;
  if (!std::exchange(at->second.again, false)) return;
  changed_ = true;
  wake_.notify_all();
}

void event_host::stop() {
  std::jthread thread;
  local_event_bus bus;
  std::map<std::uint64_t, std::shared_ptr<event_function>> functions;
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(stopped_, true)) return;
    thread.swap(thread_);
    std::swap(bus, bus_);
    functions.swap(functions_);
  }
  thread.request_stop();
  wake_.notify_all();
  if (thread.joinable()) thread.join();
  {
    const std::lock_guard lock(mutex_);
    peers_.clear();
  }
  door_->close();
  door_->connect({}, {});
  if (bus) {
    const foreign_thread here;
    caf::scoped_actor self{*system_};
    self->send_exit(bus, caf::exit_reason::user_shutdown);
    self->wait_for(bus);
  }
  for (const auto& [id, f] : functions) f->close();
}

}  // namespace caravan
