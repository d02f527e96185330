#include "actors/event/event_core.hpp"

#include "actors/event/event_pattern.hpp"

#include <algorithm>
#include <iterator>

namespace caravan {

namespace {

const event_topic_facts* known_topic(std::string_view name) {
  const auto at = std::find_if(event_topics.begin(), event_topics.end(), [&](const auto& t) { return t.name == name; });
  return at == event_topics.end() ? nullptr : &*at;
}

bool happens_often(const event& e) {
  const auto* t = known_topic(e.topic);
  return t && t->often;
}

bool wants(const event_wish& wish, const event& e, bool from_here) {
  const auto any = [&] {
    return std::any_of(wish.filters.begin(), wish.filters.end(), [&](const auto& f) { return matches(f, e); });
  };
  if (!wish.is_node) return any();
  const auto* t = known_topic(e.topic);
  return from_here && !(t && t->local) && (!(t && t->often) || any());
}

}  // namespace

event_core::event_core(std::string node, std::string run, limits l)
    : node_(std::move(node)), run_(std::move(run)), limits_(l) {}

event_core::fate event_core::on_event(event e, bool draft, std::vector<event_subscriber_id>& ready) {
  if (draft) {
    ++drafts_;
    return fate::draft;
  }
  e.node = node_;
  bool may = true;
  if (gate_) {
    try {
      may = gate_(e);
    } catch (...) {
      may = false;  // in doubt nothing leaves
    }
  }
  if (!may) {
    ++held_back_;
    return fate::held_back;
  }
  tell(std::move(e), true, ready);
  return fate::told;
}

void event_core::on_remote(event e, std::vector<event_subscriber_id>& ready) {
  if (e.node == node_) return;
  tell(std::move(e), false, ready);
}

void event_core::tell(event&& e, bool from_here, std::vector<event_subscriber_id>& ready) {
  const auto told = std::make_shared<const told_event>(told_event{next_number_++, std::move(e)});
  const auto& what = told->what;
  const bool full = counts_.size() >= limits_.topics && !counts_.contains(what.topic);
  ++counts_[full ? "(others)" : what.topic];

  const bool often = happens_often(what);
  auto& kept = often ? kept_often_ : kept_;
  kept.push_back(told);
  if (kept.size() > (often ? limits_.kept_often : limits_.kept)) {
    forgotten_through_ = std::max(forgotten_through_, kept.front()->number);
    kept.pop_front();
  }
  for (auto& [id, s] : subscribers_) {
    if (!wants(s.wish, what, from_here)) continue;
    put(s, told);
    if (!s.busy) ready.push_back(id);
  }
}

void event_core::put(subscriber& s, const event_ptr& e) {
  s.buffer.push_back(e);
  if (s.buffer.size() <= s.wish.buffer) return;
  s.buffer.pop_front();
  ++s.dropped;
  ++dropped_;
}

void event_core::add(event_subscriber_id id, event_wish wish) {
  const auto [at, is_new] = subscribers_.try_emplace(id);
  auto& s = at->second;
  s.wish = std::move(wish);
  if (!is_new || !s.wish.after) return;
  catch_up(s, *s.wish.after);
}

void event_core::catch_up(subscriber& s, const event_wish::position& after) {
  const bool same_run = after.run == run_;
  // A number of another start, or of another node, says nothing here.
  s.gap = !same_run || after.number < forgotten_through_;
  for (const auto& e : all_kept())
    if ((!same_run || e->number > after.number) && wants(s.wish, e->what, true)) put(s, e);
}

void event_core::remove(event_subscriber_id id) { subscribers_.erase(id); }

event_core::handed event_core::take(event_subscriber_id id, std::size_t most, std::size_t most_bytes) {
  handed out;
  const auto at = subscribers_.find(id);
  if (at == subscribers_.end() || at->second.busy) return out;
  auto& s = at->second;
  out.dropped = std::exchange(s.dropped, 0);
  out.gap = std::exchange(s.gap, false);
  std::size_t bytes = 0;
  while (!s.buffer.empty() && out.events.size() < most && bytes < most_bytes) {
    bytes += s.buffer.front()->what.body.size();
    out.events.push_back(std::move(s.buffer.front()));
    s.buffer.pop_front();
  }
  return out;
}

void event_core::set_busy(event_subscriber_id id, bool busy) {
  if (const auto at = subscribers_.find(id); at != subscribers_.end()) at->second.busy = busy;
}

bool event_core::has_some(event_subscriber_id id) const {
  const auto at = subscribers_.find(id);
  return at != subscribers_.end() && (!at->second.buffer.empty() || at->second.dropped > 0 || at->second.gap);
}

std::vector<event_ptr> event_core::all_kept() const {
  std::vector<event_ptr> all;
  all.reserve(kept_.size() + kept_often_.size());
  std::merge(kept_.begin(), kept_.end(), kept_often_.begin(), kept_often_.end(), std::back_inserter(all),
             [](const auto& a, const auto& b) { return a->number < b->number; });
  return all;
}

event_list event_core::recent(const std::vector<event_filter>& filters, std::size_t most) const {
  event_list list{run_, {}};
  const auto all = all_kept();
  for (auto it = all.rbegin(); it != all.rend() && list.events.size() < most; ++it) {
    const auto& e = (*it)->what;
    if (std::any_of(filters.begin(), filters.end(), [&](const auto& f) { return matches(f, e); }))
      list.events.push_back({(*it)->number, e});
  }
  std::reverse(list.events.begin(), list.events.end());
  return list;
}

event_status event_core::status() const {
  event_status st;
  for (const auto& [topic, n] : counts_) st.topics.push_back({topic, n});
  for (const auto& [id, s] : subscribers_) ++(s.wish.is_node ? st.nodes : st.subscribers);
  st.subscribers += st.nodes;
  st.drafts = drafts_;
  st.held_back = held_back_;
  st.dropped = dropped_;
  return st;
}

}  // namespace caravan
