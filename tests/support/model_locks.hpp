#pragma once

/// The locks of a Redis as its scripts change them, without Redis: state and time are plain values. For the simulation.

#include "integration/lock_store.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace caravan::test {

struct lock_model {
  using us = std::chrono::microseconds;
  using user = std::pair<int, lock_id>;  ///< node and wish

  struct held_lock {
    user holder;
    std::uint64_t token = 0;
    us until{0};
  };

  std::map<std::string, held_lock> locks;
  struct waiting_line : std::map<std::uint64_t, user> {
    us until{0};  ///< nobody in it has given a sign of life since
  };
  std::map<std::string, waiting_line> lines;
  std::map<int, us> alive;
  std::uint64_t counter = 0;
  us claim{5'000'000};
  us node_life{10'000'000};
  us line_life{60'000'000};

  /// A turn that is told to its node.
  struct turn {
    user whom;
    std::string key;
    std::uint64_t token = 0;
  };
  /// Of the last call: what was granted at once or as a turn, in order.
  std::vector<turn> turns, grants;

  const held_lock* holder(const std::string& key, us now) {
    const auto at = locks.find(key);
    if (at == locks.end()) return nullptr;
    if (at->second.until > now) return &at->second;
    locks.erase(at);
    return nullptr;
  }

  lock_taken take(int node, const lock_take& w, us now) {
    const user me{node, w.id};
    const auto* held = holder(w.key, now);
    if (held && held->holder == me) {
      locks[w.key].until = now + w.expiry;
      return {lock_taken::kind::granted, held->token, 0, {}};
    }
    if (!held && !line_of(w.key, now).empty()) {
      hand_on(w.key, now);
      held = holder(w.key, now);
    }
    if (!held) {
      const auto token = next_token(now);
      locks[w.key] = {me, token, now + w.expiry};
      grants.push_back({me, w.key, token});
      return {lock_taken::kind::granted, token, 0, {}};
    }
    if (held->holder == me) return {lock_taken::kind::granted, held->token, 0, {}};
    if (!w.wait) return {};
    alive[node] = now + node_life;
    auto& line = line_of(w.key, now);
    auto place = place_of(line, me);
    if (!place) {
      place = std::max(static_cast<std::uint64_t>(now.count()), line.empty() ? 0 : line.rbegin()->first + 1);
      line[*place] = me;
    }
    line.until = now + line_life;
    return {lock_taken::kind::queued, 0, *place, rest(held->until - now)};
  }

  std::vector<std::uint64_t> renew(int node, const std::vector<lock_renewal>& all, us now) {
    std::vector<std::uint64_t> answer;
    for (const auto& r : all) {
      const auto* held = holder(r.key, now);
      const bool ours = held && held->holder == user{node, r.id};
      answer.push_back(ours ? held->token : 0);
      if (ours) locks[r.key].until = now + r.expiry;
    }
    return answer;
  }

  bool release(int node, const lock_ref& r, us now) {
    const user me{node, r.id};
    if (const auto place = place_of(line_of(r.key, now), me)) line_of(r.key, now).erase(*place);
    const auto* held = holder(r.key, now);
    if (!held || held->holder != me) return false;
    if (!hand_on(r.key, now)) locks.erase(r.key);
    return true;
  }

  std::vector<lock_seen> beat(int node, const std::vector<lock_ticket>& all, us now) {
    alive[node] = now + node_life;
    for (const auto& t : all) {
      const user me{node, t.id};
      const auto* held = holder(t.key, now);
      if (held && held->holder == me) continue;
      auto& line = line_of(t.key, now);
      if (!place_of(line, me)) line.emplace(t.place, me);
      line.until = now + line_life;
    }
    std::vector<lock_seen> answer;
    for (const auto& t : all) {
      if (!holder(t.key, now)) hand_on(t.key, now);
      const auto* held = holder(t.key, now);
      if (held && held->holder == user{node, t.id})
        answer.push_back({t.id, held->token, {}});
      else
        answer.push_back({t.id, 0, held ? rest(held->until - now) : std::chrono::milliseconds{1}});
    }
    return answer;
  }

private:
  static std::chrono::milliseconds rest(us left) {
    return std::max(std::chrono::ceil<std::chrono::milliseconds>(left), std::chrono::milliseconds{1});
  }
  waiting_line& line_of(const std::string& key, us now) {
    auto& line = lines[key];
    if (line.until <= now) line.clear();
    return line;
  }
  static std::optional<std::uint64_t> place_of(const std::map<std::uint64_t, user>& line, user who) {
    for (const auto& [place, u] : line)
      if (u == who) return place;
    return std::nullopt;
  }
  std::uint64_t next_token(us now) { return counter = std::max(counter + 1, static_cast<std::uint64_t>(now.count())); }
  bool hand_on(const std::string& key, us now) {
    auto& line = line_of(key, now);
    while (!line.empty()) {
      const auto first = line.begin()->second;
      line.erase(line.begin());
      if (alive[first.first] <= now) continue;
      const auto token = next_token(now);
      locks[key] = {first, token, now + claim};
      turns.push_back({first, key, token});
      grants.push_back({first, key, token});
      return true;
    }
    return false;
  }
};

}  // namespace caravan::test
