#include "integration/redis/redis_quorum_locks.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <thread>

namespace caravan {

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

namespace {

/// How long a key is kept for one of this node's that waits, until the node renews it.
constexpr auto claim = 5s;

milliseconds time_left(milliseconds expiry, steady_clock::time_point since) {
  const auto elapsed = std::chrono::ceil<milliseconds>(steady_clock::now() - since);
  return expiry - elapsed - (expiry / 100 + 2ms);  // clocks drift apart
}

}  // namespace

redis_quorum_locks::redis_quorum_locks(redis_quorum_options options)
    : options_(std::move(options)), node_(redis_locks::new_name(options_.node)), random_(std::random_device{}()) {
  for (const auto& address : options_.servers) {
    redis_lock_options o;
    o.redis.address = address;
    o.redis.client_name = "caravan-locks";
    o.redis.connect_timeout = o.redis.command_timeout = options_.patience;
    // One try: the other servers are there instead of a second one. It waits that long for a free connection.
    o.redis.give_up_after = 20ms;
    o.node = node_;
    o.unique = true;
    o.expiry = options_.expiry;
    servers_.push_back(redis_locks::unchecked(std::move(o)));
  }
}

redis_quorum_locks::~redis_quorum_locks() { close(); }

expected<std::unique_ptr<redis_quorum_locks>> redis_quorum_locks::open(redis_quorum_options options,
                                                                       std::vector<std::string>* warnings,
                                                                       int attempts) {
  std::unique_ptr<redis_quorum_locks> made(new redis_quorum_locks(std::move(options)));
  for (int attempt = 1;; ++attempt) {
    const auto checks = made->ask<std::vector<std::string>>([](redis_locks& s) { return s.check(); });
    std::size_t up = 0;
    std::vector<std::string> said;
    for (const auto& c : checks) {
      if (c) {
        ++up;
        said.insert(said.end(), c->begin(), c->end());
      } else if (c.failure().code != errc::backend_failed) {
        return c.failure();
      } else {
        said.push_back(c.failure().text + "; the locks go on without it as long as a majority answers");
      }
    }
    if (up >= made->majority()) {
      if (warnings) *warnings = std::move(said);
      return made;
    }
    if (attempt >= attempts) return made->no_majority(checks);
    std::this_thread::sleep_for(1s);
  }
}

void redis_quorum_locks::close() {
  for (const auto& s : servers_) s->close();
}

template <class T>
std::vector<expected<T>> redis_quorum_locks::ask(const std::function<expected<T>(redis_locks&)>& what) {
  std::vector<expected<T>> answers(servers_.size(), expected<T>(errc::backend_failed, "not asked"));
  const auto one = [&](std::size_t n) {
    try {
      answers[n] = what(*servers_[n]);
    } catch (const std::exception& e) {
      answers[n] = error{errc::backend_failed, e.what()};
    }
  };
  {
    std::vector<std::jthread> threads;
    threads.reserve(servers_.size());
    for (std::size_t n = 1; n < servers_.size(); ++n) threads.emplace_back(one, n);
    one(0);
  }
  return answers;
}

template <class T>
error redis_quorum_locks::no_majority(const std::vector<expected<T>>& answers) const {
  std::size_t up = 0;
  error last{errc::backend_failed, ""};
  for (const auto& a : answers) {
    if (a)
      ++up;
    else
      last = a.failure();
  }
  return {last.code, "only " + std::to_string(up) + " of " + std::to_string(answers.size()) +
                         " Redis of the locks answer, a majority is needed: " + last.text};
}

milliseconds redis_quorum_locks::next_pause() {
  const std::lock_guard lock(mutex_);
  const auto half = options_.pause.count() / 2;
  return milliseconds{std::uniform_int_distribution<milliseconds::rep>(half, half + options_.pause.count())(random_)};
}

void redis_quorum_locks::give_back(const std::vector<lock_ref>& held) {
  if (held.empty()) return;
  (void)ask<bool>([&](redis_locks& s) -> expected<bool> {
    const auto since = steady_clock::now();
    for (const auto& h : held)
      if (!s.release(h) && steady_clock::now() - since >= options_.patience) break;  // it hangs
    return true;
  });
}

std::vector<expected<std::uint64_t>> redis_quorum_locks::acquire(const std::vector<lock_take>& wishes) {
  using votes = std::vector<expected<lock_taken>>;
  const auto since = steady_clock::now();
  const auto asked = ask<votes>([&](redis_locks& s) -> expected<votes> {
    votes mine;
    for (const auto& w : wishes) {
      mine.push_back(s.take(w));
      // A server that hangs does so once, not once for each.
      if (!mine.back() && steady_clock::now() - since >= options_.patience)
        mine.resize(wishes.size(), mine.back().failure());
      if (mine.size() == wishes.size()) break;
    }
    return mine;
  });

  std::vector<expected<std::uint64_t>> answer;
  std::vector<lock_renewal> granted;
  std::vector<std::size_t> index;
  std::vector<bool> touched;  ///< a server may have it
  for (std::size_t w = 0; w < wishes.size(); ++w) {
    std::vector<expected<lock_taken>> of_all;
    std::size_t yes = 0, silent = 0;
    std::uint64_t token = 0;
    for (const auto& a : asked) {
      of_all.push_back(a ? (*a)[w] : expected<lock_taken>(a.failure()));
      const auto& vote = of_all.back();
      if (!vote)
        ++silent;
      else if (vote->what == lock_taken::kind::granted) {
        ++yes;
        token = std::max(token, vote->token);
      }
    }
    touched.push_back(yes + silent > 0);
    if (yes >= majority()) {
      granted.push_back({wishes[w].key, wishes[w].id, wishes[w].expiry, token});
      index.push_back(w);
    }
    if (servers_.size() - silent < majority())
      answer.emplace_back(no_majority(of_all));
    else
      answer.emplace_back(std::uint64_t{0});
  }

  if (!granted.empty()) {
    const auto raised =
        ask<std::vector<bool>>([&](redis_locks& s) { return s.hold(granted, redis_locks::hold_mode::raise); });
    for (std::size_t g = 0; g < granted.size(); ++g) {
      std::size_t yes = 0, silent = 0;
      for (const auto& r : raised) {
        if (!r)
          ++silent;
        else if ((*r)[g])
          ++yes;
      }
      if (yes >= majority() && time_left(granted[g].expiry, since) > 0ms)
        answer[index[g]] = granted[g].token;
      else if (servers_.size() - silent < majority())
        answer[index[g]] = no_majority(raised);
    }
  }
  std::vector<lock_ref> not_had;
  for (std::size_t w = 0; w < wishes.size(); ++w)
    if (touched[w] && (!answer[w] || *answer[w] == 0)) not_had.push_back({wishes[w].key, wishes[w].id});
  give_back(not_had);
  return answer;
}

expected<lock_taken> redis_quorum_locks::take(const lock_take& wish) {
  const auto got = acquire({{wish.key, wish.id, wish.expiry, false}}).front();
  if (!got) return got.failure();
  if (*got != 0) return lock_taken{lock_taken::kind::granted, *got, 0, 0ms};
  if (!wish.wait) return lock_taken{};
  return lock_taken{lock_taken::kind::queued, 0, ++places_, next_pause()};
}

expected<std::vector<lock_seen>> redis_quorum_locks::beat(std::span<const lock_ticket> waiting) {
  std::vector<lock_seen> answer;
  std::map<std::string_view, std::size_t> first;
  for (std::size_t n = 0; n < waiting.size(); ++n) {
    answer.push_back({waiting[n].id, 0, next_pause()});
    const auto [at, is_new] = first.emplace(waiting[n].key, n);
    if (!is_new && waiting[n].place < waiting[at->second].place) at->second = n;
  }
  std::vector<lock_take> wishes;
  const auto kept = std::min<milliseconds>(claim, options_.expiry);
  for (const auto& [key, n] : first) wishes.push_back({std::string(key), waiting[n].id, kept, false});
  const auto got = acquire(wishes);
  std::size_t w = 0;
  bool any = wishes.empty();
  for (const auto& [key, n] : first) {
    if (got[w]) {
      any = true;
      answer[n].token = *got[w];
    }
    ++w;
  }
  if (!any) return got.front().failure();
  return answer;
}

expected<std::vector<std::uint64_t>> redis_quorum_locks::renew(std::span<const lock_renewal> held) {
  using mode = redis_locks::hold_mode;
  const auto kept = ask<std::vector<bool>>([&](redis_locks& s) { return s.hold(held, mode::keep); });
  std::size_t up = 0;
  for (const auto& k : kept) up += k.has_value() ? 1 : 0;
  if (up < majority()) return no_majority(kept);
  std::vector<std::uint64_t> answer;
  std::vector<lock_renewal> missing;
  bool unknown = false;
  for (std::size_t n = 0; n < held.size(); ++n) {
    std::size_t yes = 0;
    for (const auto& k : kept) yes += k && (*k)[n] ? 1 : 0;
    answer.push_back(yes >= majority() ? held[n].token : 0);
    if (yes >= majority() && yes < up) missing.push_back(held[n]);
    unknown = unknown || (yes < majority() && yes + servers_.size() - up >= majority());
  }
  // Alone it may be asked again; among others it must not keep those from being renewed.
  if (unknown && held.size() == 1) return no_majority(kept);
  // A server that was away or empty takes part again, so that one after the other may be restarted under a lock. Not in
  // the first round: a renewal that comes after the release would lock a majority again.
  if (!missing.empty()) (void)ask<std::vector<bool>>([&](redis_locks& s) { return s.hold(missing, mode::put); });
  return answer;
}

expected<bool> redis_quorum_locks::release(const lock_ref& held) {
  const auto all = ask<bool>([&](redis_locks& s) { return s.release(held); });
  std::size_t yes = 0, silent = 0;
  for (const auto& a : all) {
    if (!a)
      ++silent;
    else if (*a)
      ++yes;
  }
  if (servers_.size() - silent < majority()) return no_majority(all);
  return yes > 0 && yes + silent >= majority();
}

expected<bool> redis_quorum_locks::force(std::string_view key) {
  const auto all = ask<bool>([&](redis_locks& s) { return s.force(key); });
  std::size_t up = 0;
  bool any = false;
  for (const auto& a : all) {
    up += a ? 1 : 0;
    any = any || (a && *a);
  }
  if (up < majority()) return no_majority(all);
  return any;
}

std::optional<lock_view> redis_quorum_locks::agreed(const std::vector<lock_view>& seen, std::size_t silent) const {
  std::map<std::pair<std::string, lock_id>, std::vector<const lock_view*>> of_holder;
  for (const auto& v : seen)
    if (v.remaining || v.holder.id != 0 || v.waiting == 0) of_holder[{v.holder.node, v.holder.id}].push_back(&v);
  for (auto& [holder, views] : of_holder) {
    if (views.size() + silent < majority()) continue;
    // It ends when the majority does.
    std::sort(views.begin(), views.end(), [](const lock_view* a, const lock_view* b) {
      return a->remaining.value_or(milliseconds::max()) > b->remaining.value_or(milliseconds::max());
    });
    lock_view v = *views[std::min(views.size(), majority()) - 1];
    v.waiters.clear();  // of a node that uses this server alone
    v.waiting = 0;
    // A server that was slow to grant may have a higher token than the one that was told.
    std::map<std::uint64_t, std::size_t> votes;
    for (const auto* one : views) ++votes[one->token];
    v.token = std::max_element(votes.begin(), votes.end(), [](const auto& a, const auto& b) {
                return a.second < b.second;
              })->first;
    return v;
  }
  return std::nullopt;
}

expected<std::optional<lock_view>> redis_quorum_locks::show(std::string_view key) {
  const auto all = ask<std::optional<lock_view>>([&](redis_locks& s) { return s.show(key); });
  std::vector<lock_view> seen;
  std::size_t silent = 0;
  for (const auto& a : all) {
    if (!a)
      ++silent;
    else if (*a)
      seen.push_back(**a);
  }
  if (servers_.size() - silent < majority()) return no_majority(all);
  return agreed(seen, silent);
}

expected<std::vector<lock_view>> redis_quorum_locks::list(std::size_t most) {
  const auto all = ask<std::vector<lock_view>>([&](redis_locks& s) { return s.list(most); });
  std::map<std::string, std::vector<lock_view>> seen;
  std::size_t silent = 0;
  std::optional<std::string> end;  // beyond it not every server has said all
  for (const auto& a : all) {
    if (!a) {
      ++silent;
      continue;
    }
    for (const auto& v : *a) seen[v.key].push_back(v);
    if (!a->empty() && a->size() >= most && (!end || a->back().key < *end)) end = a->back().key;
  }
  if (servers_.size() - silent < majority()) return no_majority(all);
  std::vector<lock_view> answer;
  for (const auto& [key, views] : seen) {
    if (answer.size() >= most || (end && key > *end)) break;
    if (auto v = agreed(views, silent)) answer.push_back(std::move(*v));
  }
  return answer;
}

}  // namespace caravan
