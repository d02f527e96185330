#include "actors/cluster/member_table.hpp"

#include <algorithm>
#include <tuple>

namespace caravan {

using namespace std::chrono_literals;

namespace {
constexpr auto first_pause = 200ms;
constexpr unsigned most_doublings = 5;  // 6.4 s
constexpr std::size_t contacts_most = 1'000;
}  // namespace

member_table::member_table(member_report me, std::vector<std::string> seeds, std::chrono::milliseconds silence)
    : me_(std::move(me)), silence_(silence) {
  for (const auto& s : seeds) meet(s);
}

void member_table::meet(const std::string& address) {
  if (address.empty() || address == me_.address || contacts_.size() >= contacts_most) return;
  contacts_.try_emplace(address);
}

member_report member_table::report() const {
  auto r = me_;
  for (const auto& [name, m] : members_)
    if (m.alive) r.known.push_back(m.last.address);
  return r;
}

expected<void> member_table::on_report(const member_report& r, time now) {
  if (r.protocol != me_.protocol)
    return {errc::not_supported, "node \"" + r.name + "\" at " + r.address + ": speaks protocol " +
                                     std::to_string(r.protocol) + ", node \"" + me_.name + "\" " +
                                     std::to_string(me_.protocol) + "; give all nodes the same version"};
  if (r.name == me_.name) {
    if (r.incarnation == me_.incarnation) return {};  // an address that leads back here
    return {errc::conflict, "[node] NAME = " + r.name + ": a node of that name runs already, at " + me_.address +
                                "; give each node a name of its own"};
  }
  const auto it = members_.find(r.name);
  // A new start takes the place of one that is gone, or that had its address; an older one is a late message.
  if (it != members_.end() && it->second.last.incarnation != r.incarnation) {
    const auto& known = it->second;
    if (r.started < known.last.started && known.alive)
      return {errc::conflict,
              "node \"" + r.name + "\" at " + r.address + ": a later start of that name runs at " + known.last.address};
    if (known.alive && known.last.address != r.address)
      return {errc::conflict, "[node] NAME = " + r.name + ": a node of that name runs already, at " +
                                  known.last.address + "; give each node a name of its own"};
  }
  auto& m = members_[r.name];
  if (!m.alive) on_answer(r.address);  // it is there: no pause before it is asked
  m.last = r;
  m.heard = now;
  m.alive = true;
  meet(r.address);
  for (const auto& a : r.known) meet(a);
  return {};
}

void member_table::on_gone(const std::string& name, const std::string& incarnation) {
  const auto it = members_.find(name);
  if (it == members_.end() || it->second.last.incarnation != incarnation) return;
  it->second.alive = false;
}

bool member_table::on_tick(time now) {
  bool any = false;
  for (auto& [name, m] : members_) {
    if (!m.alive || now - m.heard < silence_) continue;
    m.alive = false;
    any = true;
  }
  return any;
}

std::vector<std::string> member_table::due(time now) const {
  std::vector<std::string> addresses;
  for (const auto& [address, c] : contacts_)
    if (now >= c.next) addresses.push_back(address);
  return addresses;
}

void member_table::on_answer(const std::string& address) {
  if (const auto it = contacts_.find(address); it != contacts_.end()) it->second = {};
}

void member_table::on_failure(const std::string& address, time now) {
  const auto it = contacts_.find(address);
  if (it == contacts_.end()) return;
  auto& c = it->second;
  c.next = now + first_pause * (1u << std::min(c.failures, most_doublings));
  ++c.failures;
}

std::vector<std::string> member_table::alive() const {
  std::vector<std::string> names{me_.name};
  for (const auto& [name, m] : members_)
    if (m.alive) names.push_back(name);
  std::sort(names.begin(), names.end());
  return names;
}

member_table::home member_table::home_of(const std::string& queue) const {
  struct candidate {
    const member_report* of;
    const home_claim* claim;
    bool alive;
  };
  std::vector<candidate> all;
  const auto look = [&](const member_report& r, bool alive) {
    for (const auto& c : r.homes)
      // What was only in the memory of a node that is gone is gone with it.
      if (c.queue == queue && c.epoch > 0 && (alive || c.type != "channel")) all.push_back({&r, &c, alive});
  };
  look(me_, true);
  for (const auto& [name, m] : members_) look(m.last, m.alive);
  if (all.empty()) return {};
  std::sort(all.begin(), all.end(), [](const candidate& a, const candidate& b) {
    const auto rank = [](const candidate& c) {
      return std::tuple(~c.claim->epoch, c.claim->items == 0, c.of->started, std::string_view(c.of->name));
    };
    return rank(a) < rank(b);
  });
  const auto& best = all.front();
  home h{best.of->name, best.claim->epoch, best.alive, {}};
  // An older epoch is what a node has not heard yet; the same one is a second home.
  for (std::size_t i = 1; i < all.size(); ++i)
    if (all[i].claim->epoch == best.claim->epoch && all[i].claim->items > 0 && h.rival.empty())
      h.rival = all[i].of->name;
  return h;
}

bool member_table::first_candidate(const std::string& queue) const {
  const auto would = [&](const member_report& r) {
    return !r.cordoned && std::any_of(r.homes.begin(), r.homes.end(), [&](const auto& c) { return c.queue == queue; });
  };
  for (const auto& [name, m] : members_)
    if (m.alive && would(m.last) && std::pair(m.last.started, name) < std::pair(me_.started, me_.name)) return false;
  return !me_.cordoned;
}

}  // namespace caravan
