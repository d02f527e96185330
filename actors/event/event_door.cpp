#include "actors/event/event_door.hpp"

#include "actors/event/event_pattern.hpp"

#include <algorithm>

namespace caravan {

namespace {

constexpr std::uint64_t bit_of(std::size_t topic) { return std::uint64_t{1} << topic; }

constexpr std::uint64_t seldom = [] {
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < event_topics.size(); ++i)
    if (!event_topics[i].often) bits |= bit_of(i);
  return bits;
}();

}  // namespace

event_door::event_door(const toolbox::clock& clock, std::size_t most_waiting)
    : clock_(clock), most_waiting_(most_waiting), wanted_(seldom) {}

void event_door::tell(event_topic t, std::string subject, std::string body) noexcept {
  try {
    if (!wants(t)) return;
    (void)publish({std::string(facts_of(t).name), std::move(subject), {}, {}, std::move(body)}, false);
  } catch (...) {
    ++refused_;  // no memory: news is what can be done without
  }
}

expected<void> event_door::publish(event e, bool draft) {
  e.at = clock_.wall();
  std::unique_lock lock(mutex_);
  if (closed_) return {errc::queue_closed, "event \"" + e.topic + "\": the node has stopped"};
  if (events_waiting_ >= most_waiting_) {
    ++refused_;
    return {errc::queue_full, "event \"" + e.topic + "\": " + std::to_string(most_waiting_) +
                                  " events wait to be told already; publish fewer of them"};
  }
  ++events_waiting_;
  event_order order;
  order.news = std::move(e);
  order.draft = draft;
  put(std::move(order), lock);
  return {};
}

void event_door::publish_remote(std::vector<event> events) {
  for (auto& e : events) {
    std::unique_lock lock(mutex_);
    if (closed_) return;
    if (events_waiting_ >= most_waiting_) {
      ++refused_;
      continue;
    }
    ++events_waiting_;
    event_order order;
    order.what = event_order::kind::remote;
    order.news = std::move(e);
    put(std::move(order), lock);
  }
}

event_subscriber_id event_door::subscribe(event_wish wish, std::shared_ptr<event_receiver> to) {
  event_order order;
  order.what = event_order::kind::subscribe;
  order.receiver = std::move(to);
  std::unique_lock lock(mutex_);
  const auto id = order.id = next_id_++;
  if (closed_) return id;
  const bool other_node = wish.is_node;
  wishes_[id] = {wish.filters, wish.is_node, wish.buffer, {}};
  order.wish = std::move(wish);
  reckon();
  put(std::move(order), lock);
  if (other_node) return id;
  const std::lock_guard one_at_a_time(calling_);
  if (changed_) changed_();
  return id;
}

void event_door::replace(event_subscriber_id id, event_wish wish) {
  event_order order;
  order.what = event_order::kind::subscribe;
  order.id = id;
  std::unique_lock lock(mutex_);
  if (closed_ || !wishes_.contains(id)) return;
  wishes_[id] = wish;
  order.wish = std::move(wish);
  reckon();
  put(std::move(order), lock);
}

void event_door::unsubscribe(event_subscriber_id id) {
  event_order order;
  order.what = event_order::kind::unsubscribe;
  order.id = id;
  std::unique_lock lock(mutex_);
  const auto at = wishes_.find(id);
  if (at == wishes_.end()) return;
  const bool other_node = at->second.is_node;
  wishes_.erase(at);
  reckon();
  if (closed_) return;
  put(std::move(order), lock);
  if (other_node) return;
  const std::lock_guard one_at_a_time(calling_);
  if (changed_) changed_();
}

void event_door::ready(event_subscriber_id id) {
  event_order order;
  order.what = event_order::kind::ready;
  order.id = id;
  std::unique_lock lock(mutex_);
  if (!closed_) put(std::move(order), lock);
}

void event_door::gate(std::function<bool(const event&)> may_go_out) {
  event_order order;
  order.what = event_order::kind::gate;
  order.gate = std::move(may_go_out);
  std::unique_lock lock(mutex_);
  if (!closed_) put(std::move(order), lock);
}

std::vector<event_filter> event_door::wishes() const {
  std::vector<event_filter> all;
  const std::lock_guard lock(mutex_);
  for (const auto& [id, w] : wishes_) {
    if (w.is_node) continue;
    for (const auto& f : w.filters)
      if (std::none_of(all.begin(), all.end(),
                       [&](const auto& x) { return x.topic == f.topic && x.subject == f.subject; }))
        all.push_back(f);
  }
  return all;
}

void event_door::connect(std::function<void()> wake, std::function<void()> changed) {
  {
    const std::lock_guard one_at_a_time(calling_);
    wake_ = std::move(wake);
    changed_ = std::move(changed);
  }
  std::unique_lock lock(mutex_);
  if (waiting_.empty()) return;
  lock.unlock();
  const std::lock_guard one_at_a_time(calling_);
  if (wake_) wake_();
}

void event_door::take(std::vector<event_order>& into) {
  into.clear();
  const std::lock_guard lock(mutex_);
  into.swap(waiting_);
  events_waiting_ = 0;
}

void event_door::close() {
  std::vector<event_order> forgotten;  // destroyed last: a receiver may come back here as it ends
  const std::lock_guard lock(mutex_);
  closed_ = true;
  wanted_ = 0;
  forgotten.swap(waiting_);
  wishes_.clear();
}

// Gives the mutex back.
void event_door::put(event_order&& order, std::unique_lock<std::mutex>& lock) {
  const bool first = waiting_.empty();
  waiting_.push_back(std::move(order));
  lock.unlock();
  if (!first) return;
  const std::lock_guard one_at_a_time(calling_);
  if (wake_) wake_();
}

// Under mutex_.
void event_door::reckon() {
  auto bits = seldom;
  for (const auto& [id, w] : wishes_)
    for (std::size_t i = 0; i < event_topics.size(); ++i)
      if (std::any_of(w.filters.begin(), w.filters.end(),
                      [&](const auto& f) { return matches(f.topic, event_topics[i].name); }))
        bits |= bit_of(i);
  wanted_ = closed_ ? 0 : bits;
}

}  // namespace caravan
