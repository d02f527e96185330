#include "actors/claim/claim_core.hpp"

#include <algorithm>
#include <array>
#include <unordered_set>

namespace caravan {

using namespace std::chrono_literals;

namespace {

constexpr auto attach_pause = 250ms;
constexpr auto longest_lease = std::chrono::hours{24};

std::string hex(std::uint64_t value) {
  std::string out(16, '0');
  for (auto at = out.rbegin(); value != 0; ++at, value >>= 4) *at = "0123456789abcdef"[value & 15];
  return out;
}

item_outcome to_outcome(const job_report& said) {
  item_outcome o;
  o.text = said.text;
  o.delay = said.delay;
  switch (said.what) {
    case job_outcome::handled:
    case job_outcome::unhandled:
      o.what = item_outcome::kind::unhandled;
      break;
    case job_outcome::failed:
      o.what = item_outcome::kind::failed;
      break;
    case job_outcome::rejected:
      o.what = item_outcome::kind::rejected;
      break;
    case job_outcome::later:
      o.what = item_outcome::kind::later;
      break;
  }
  return o;
}

}  // namespace

claim_core::claim_core(pool_id id, limits l, std::function<std::uint64_t()> random)
    : id_(id), limits_(std::move(l)), random_(std::move(random)), door_(limits_.claim_rate, limits_.claim_burst) {
  to_tell_.pool = id_;
}

error claim_core::lost_lease(const std::string& lease, const std::string& why) const {
  return {errc::fenced, "queue \"" + limits_.queue + "\": the lease " + lease + " " + why +
                            "; stop what is done under it, its jobs go to others"};
}

// ---- the queue ----

void claim_core::attach(claim_effects& fx) {
  if (attached_ || attaching_) return;
  attaching_ = true;
  attach_again_.reset();
  fx.attach = true;
}

void claim_core::on_attached(pool_kind kind, instant now, claim_effects& fx) {
  attached_ = true;
  attaching_ = false;
  trouble_.reset();
  kind_ = kind;
  credits_ = 0;
  demand_anew_ = true;
  renew_at_ = now.steady;  // does the queue still know what is in hand?
  if (kind_ == pool_kind::remote) look_at_ = now.steady + limits_.look;
  looking_ = false;
  want(fx);
  look(fx);
  settle(now, fx);
}

void claim_core::on_attach_failed(const error& why, instant now, claim_effects& fx) {
  attaching_ = false;
  trouble_ = why;
  for (auto& w : line_) w.asked = true;
  if (needs_queue()) attach_again_ = now.steady + attach_pause;
  settle(now, fx);
}

void claim_core::on_detached(instant now, claim_effects& fx) {
  attached_ = attaching_ = false;
  looking_ = false;
  credits_ = 0;
  arrived_.clear();  // what nobody has been given is the queue's again
  look_at_.reset();
  renew_at_.reset();
  if (needs_queue()) attach_again_ = now.steady + attach_pause;
  settle(now, fx);
}

// States the room there is, no more and no less than those in line want.
void claim_core::want(claim_effects& fx) {
  if (!attached_) return;
  std::size_t wanted = 0;
  for (const auto& w : line_) wanted += w.what.most;
  wanted -= std::min(wanted, arrived_.size());
  if (wanted == credits_ && !demand_anew_) return;
  demand d;
  d.pool = id_;
  d.most = 1;  // a batch, and so a lease, for each job: each can end by itself
  d.anew = demand_anew_ || wanted < credits_;
  d.idle = static_cast<std::uint32_t>(d.anew ? wanted : wanted - credits_);
  if (fx.more && !d.anew) {
    fx.more->idle += d.idle;
  } else {
    fx.more = d;
  }
  demand_anew_ = false;
  credits_ = wanted;
}

void claim_core::send_report(under_way&& u, report_batches&& what, claim_effects& fx) {
  u.number = next_report_++;
  what.pool = id_;
  fx.reports.push_back({u.number, std::move(what)});
  reports_.emplace(u.number, std::move(u));
}

// The queue answers behind all jobs that it had for the demand before: then it is known what there is.
void claim_core::look(claim_effects& fx) {
  if (!attached_ || looking_) return;
  looking_ = true;
  send_report({}, std::exchange(to_tell_, {}), fx);
}

void claim_core::hand_back(std::uint64_t token, std::size_t items) {
  batch_done d;
  d.pool = id_;
  d.token = token;
  d.rest = whole_batch(items, item_outcome::kind::unhandled, {});
  d.handed_back = true;
  to_tell_.done.push_back(std::move(d));
}

void claim_core::on_batch(batch work, instant now, claim_effects& fx) {
  if (credits_ > 0) --credits_;
  if (work.lease > 0ms) queue_lease_ = work.lease;
  const auto size = work.items ? work.items->size() : 0;
  if (size != 1 || closing_)
    hand_back(work.token, size);
  else
    arrived_.push_back(std::move(work));
  if (!line_.empty() && !looking_) {
    // More may be right behind it.
    line_.front().asked = false;
    line_.front().before = next_report_;
  }
  settle(now, fx);
}

void claim_core::on_reported(std::uint64_t number, const expected<batches_reported>& answer, instant now,
                             claim_effects& fx) {
  auto node = reports_.extract(number);
  if (node.empty()) return;
  auto& u = node.mapped();
  if (u.what == under_way::kind::look) looking_ = false;
  for (auto& w : line_)
    if (w.before <= number) w.asked = true;
  std::unordered_set<std::uint64_t> refused;
  if (answer)
    refused.insert(answer->refused.begin(), answer->refused.end());
  else
    trouble_ = answer.failure();
  if (answer && answer->attached) trouble_.reset();

  const auto at = claims_.find(u.lease);
  if (at != claims_.end()) {
    for (const auto& [index, before] : u.told) {
      auto& j = at->second.jobs[index];
      if (j.where != stage::told) continue;
      if (answer) {
        j.where = stage::over;
        j.counted = !refused.contains(j.token);
        by_token_.erase(j.token);
        refused.erase(j.token);
      } else {
        j.where = before;  // so that it can be said again
        if (before == stage::lost) by_token_.erase(j.token);
      }
    }
  }
  for (const auto token : refused) {
    const auto name = by_token_.find(token);
    if (name == by_token_.end()) continue;
    const auto c = claims_.find(name->second);
    if (c == claims_.end()) continue;  // forgotten, with a late word under way
    for (auto& j : c->second.jobs)
      if (j.token == token && j.where == stage::held) lose(j, "is lost: the queue gave up waiting for a sign of life");
    plan(*c);
    check_over(*c);
  }
  const auto unknown = [&] {
    return error{errc::timed_out, "queue \"" + limits_.queue + "\": it is not known whether that counted (" +
                                      answer.failure().text + "); say the same again"};
  };
  if (u.what == under_way::kind::ack) {
    if (!answer)
      fx.acks.emplace_back(u.request, unknown());
    else if (at == claims_.end())
      fx.acks.emplace_back(u.request, lost_lease(u.lease, "is forgotten"));
    else
      fx.acks.emplace_back(u.request, answer_of(*at, u.about));
  } else if (u.what == under_way::kind::extend) {
    if (!answer) {
      fx.extensions.emplace_back(u.request, unknown());
    } else {
      claim_extended e;
      std::string why = "is over";
      if (at != claims_.end()) {
        for (const auto& j : at->second.jobs) {
          if (j.where == stage::held || j.where == stage::told) e.jobs.push_back(j.id);
          const bool refused_late = j.where == stage::over && !j.counted;
          if (j.where != stage::lost && !refused_late) continue;
          e.lost.push_back(j.id);
          if (!j.why.empty()) why = j.why;
        }
        e.remaining = std::max(std::chrono::floor<std::chrono::milliseconds>(at->second.ends - now.steady), 0ms);
      }
      if (at == claims_.end() || (e.jobs.empty() && !e.lost.empty()))
        fx.extensions.emplace_back(u.request, lost_lease(u.lease, why));
      else
        fx.extensions.emplace_back(u.request, std::move(e));
    }
  }
  if (at != claims_.end()) {
    plan(*at);
    check_over(*at);
  }
  if (!answer || !answer->attached) {
    // It lost the pool, or the way to it is another one now.
    if (attached_) return on_detached(now, fx);
  }
  settle(now, fx);
}

// ---- claims ----

void claim_core::on_claim(open_claim c, instant now, claim_effects& fx) {
  if (closing_) {
    fx.grants.push_back({c.request, error{errc::queue_closed, "queue \"" + limits_.queue +
                                                                  "\": its node stops and gives out no more jobs; "
                                                                  "ask another node"}});
    return;
  }
  if (const auto pause = door_.ask(key_of(c), now.steady); pause > 0ms) {
    claim_granted throttled;
    throttled.retry_after = pause;
    fx.grants.push_back({c.request, std::move(throttled)});
    return;
  }
  if (c.lease <= 0ms) c.lease = limits_.lease;
  c.lease = std::min<std::chrono::milliseconds>(c.lease, longest_lease);
  c.most = std::max<std::size_t>(c.most, 1);
  waiting_claim w;
  w.since = now.steady;
  w.until = now.steady + std::min<std::chrono::milliseconds>(c.wait, longest_lease);
  w.what = std::move(c);
  attach(fx);
  line_.push_back(std::move(w));
  want(fx);
  line_.back().before = next_report_;
  // One that was sent before says nothing about this one.
  if (attached_) {
    looking_ = false;
    look(fx);
  }
  if (kind_ == pool_kind::remote && attached_ && !look_at_) look_at_ = now.steady + limits_.look;
  settle(now, fx);
}

void claim_core::on_cancel(std::uint64_t request, instant now, claim_effects& fx) {
  const auto at = std::find_if(line_.begin(), line_.end(), [&](const auto& w) { return w.what.request == request; });
  if (at == line_.end()) return;
  line_.erase(at);
  fx.grants.push_back({request, claim_granted{}});
  settle(now, fx);
}

void claim_core::on_wake(const std::string& worker, instant now, claim_effects& fx) {
  std::erase_if(line_, [&](const waiting_claim& w) {
    if (w.what.worker != worker) return false;
    fx.grants.push_back({w.what.request, claim_granted{}});
    return true;
  });
  settle(now, fx);
}

void claim_core::grant(waiting_claim&& w, instant now, claim_effects& fx) {
  door_.got_jobs(key_of(w.what), now.steady);
  claim_granted g;
  g.lease = limits_.queue + "." + hex(random_()) + hex(random_());
  g.remaining = w.what.lease;
  claim c;
  c.worker = w.what.worker;
  c.from = w.what.from;
  c.lease = w.what.lease;
  c.ends = now.steady + c.lease;
  c.last_seen = now.wall;
  while (!arrived_.empty() && g.jobs.size() < w.what.most) {
    const auto work = std::move(arrived_.front());
    arrived_.pop_front();
    claimed_job out;
    out.item = work.items->front();
    out.token = work.token;
    job j;
    j.id = out.item.id;
    j.token = work.token;
    j.timeout = out.item.timeout > 0ms ? out.item.timeout : limits_.timeout;
    if (j.timeout > 0ms) {
      j.deadline = now.steady + j.timeout;
      out.deadline = now.wall + j.timeout;
    }
    by_token_.emplace(j.token, g.lease);
    c.jobs.push_back(std::move(j));
    g.jobs.push_back(std::move(out));
  }
  const auto [at, added] = claims_.emplace(g.lease, std::move(c));
  plan(*at);
  if (kind_ == pool_kind::remote && !renew_at_) renew_at_ = now.steady + queue_lease_ / 3;
  fx.grants.push_back({w.what.request, std::move(g)});
}

// The first in line is served first, and gets as much as it wants. It gets less once the queue has said that there is
// no more at this moment.
void claim_core::serve(instant now, claim_effects& fx) {
  while (!line_.empty() && !arrived_.empty()) {
    auto& first = line_.front();
    if (arrived_.size() < first.what.most && looking_) return;
    if (arrived_.size() < first.what.most && !first.asked) return look(fx);
    auto w = std::move(first);
    line_.pop_front();
    grant(std::move(w), now, fx);
  }
  for (const auto& work : arrived_) hand_back(work.token, 1);
  arrived_.clear();
}

void claim_core::answer_waiting(instant now, claim_effects& fx) {
  std::erase_if(line_, [&](const waiting_claim& w) {
    // One that does not wait is answered when the queue has been asked.
    if (now.steady < w.until || (!w.asked && w.what.wait <= 0ms)) return false;
    if (trouble_) {
      fx.grants.push_back({w.what.request, *trouble_});
    } else {
      door_.came_out_empty(key_of(w.what), now.steady - w.since, now.steady);
      fx.grants.push_back({w.what.request, claim_granted{}});
    }
    return true;
  });
}

// ---- leases ----

void claim_core::lose(job& j, std::string why) {
  by_token_.erase(j.token);
  j.where = stage::lost;
  j.why = std::move(why);
}

void claim_core::plan(claims::value_type& c) {
  if (c.second.wakes) wakes_.erase({*c.second.wakes, c.first});
  c.second.wakes.reset();
  for (const auto& j : c.second.jobs) {
    if (j.where != stage::held) continue;
    auto at = c.second.ends;
    if (j.deadline) at = std::min(at, *j.deadline);
    if (!c.second.wakes || at < *c.second.wakes) c.second.wakes = at;
  }
  if (c.second.wakes) wakes_.emplace(*c.second.wakes, c.first);
}

void claim_core::check_over(claims::value_type& c) {
  if (c.second.over) return;
  for (const auto& j : c.second.jobs)
    if (j.where == stage::held || j.where == stage::told) return;
  c.second.over = true;
  over_.push_back(c.first);
  if (over_.size() <= limits_.remembered) return;
  claims_.erase(over_.front());
  over_.pop_front();
}

void claim_core::on_stop(std::uint64_t token, instant now, claim_effects& fx) {
  const auto name = by_token_.find(token);
  if (name == by_token_.end()) return;
  auto& c = *claims_.find(name->second);
  for (auto& j : c.second.jobs) {
    if (j.token != token || j.where != stage::held) continue;
    to_tell_.lost.push_back(token);
    lose(j, "is lost: its job was cancelled");
  }
  plan(c);
  check_over(c);
  settle(now, fx);
}

void claim_core::end_leases(instant now) {
  while (!wakes_.empty() && wakes_.begin()->first <= now.steady) {
    auto& c = *claims_.find(wakes_.begin()->second);
    for (auto& j : c.second.jobs) {
      if (j.where != stage::held) continue;
      if (j.deadline && *j.deadline <= now.steady) {
        const auto text = "ran past TIMEOUT = " + std::to_string(j.timeout.count()) + " ms";
        batch_done d;
        d.pool = id_;
        d.token = j.token;
        d.rest = whole_batch(1, item_outcome::kind::failed, text);
        to_tell_.done.push_back(std::move(d));
        lose(j, "is lost for a job that " + text);
      } else if (c.second.ends <= now.steady) {
        to_tell_.lost.push_back(j.token);
        lose(j, "ran out: it was not extended in time");
      }
    }
    plan(c);
    check_over(c);
  }
}

void claim_core::on_extend(std::uint64_t request, const extend_claim& e, instant now, claim_effects& fx) {
  end_leases(now);
  const auto at = claims_.find(e.lease);
  if (at == claims_.end()) {
    fx.extensions.emplace_back(request, lost_lease(e.lease, "is not known here: it is over, or another node gave it"));
    return settle(now, fx);
  }
  auto& c = at->second;
  c.last_seen = now.wall;
  report_batches what;
  for (const auto& j : c.jobs)
    if (j.where == stage::held) what.keep.push_back(j.token);
  if (!what.keep.empty()) c.ends = now.steady + c.lease;
  plan(*at);
  under_way u;
  u.what = under_way::kind::extend;
  u.request = request;
  u.lease = e.lease;
  send_report(std::move(u), std::move(what), fx);
  settle(now, fx);
}

expected<claim_acked> claim_core::answer_of(const claims::value_type& c, const std::vector<item_id>& about) const {
  claim_acked a;
  bool any = about.empty();
  std::string why = "is lost: others had the jobs meanwhile";
  for (const auto id : about) {
    for (const auto& j : c.second.jobs) {
      if (j.id != id) continue;
      a.jobs.push_back({id, j.said.what, j.where == stage::over && j.counted});
      any = any || a.jobs.back().counted;
      if (!j.why.empty()) why = j.why;
    }
  }
  for (const auto& j : c.second.jobs)
    if (j.where == stage::held) ++a.left;
  if (!any) return lost_lease(c.first, why);
  return a;
}

void claim_core::tell(std::uint64_t request, claims::value_type& c, const std::vector<job_report>& said,
                      bool handed_back, instant now, claim_effects& fx) {
  c.second.last_seen = now.wall;
  under_way u;
  u.what = under_way::kind::ack;
  u.request = request;
  u.lease = c.first;
  report_batches what;
  bool on_its_way = false;
  for (const auto& s : said) {
    auto& jobs = c.second.jobs;
    const auto at = std::find_if(jobs.begin(), jobs.end(), [&](const job& j) { return j.id == s.id; });
    u.about.push_back(s.id);
    if (at->where == stage::over) continue;  // as it was said first
    if (at->where == stage::told) {
      on_its_way = true;
      continue;
    }
    u.told.push_back({static_cast<std::size_t>(at - jobs.begin()), at->where});
    at->where = stage::told;
    at->said = s;
    by_token_.emplace(at->token, c.first);
    batch_done d;
    d.pool = id_;
    d.token = at->token;
    if (s.what != job_outcome::handled) d.rest.push_back(to_outcome(s));
    d.handed_back = handed_back;
    what.done.push_back(std::move(d));
  }
  if (u.told.empty() && !on_its_way) {
    fx.acks.emplace_back(request, answer_of(c, u.about));
    return;
  }
  plan(c);
  send_report(std::move(u), std::move(what), fx);
}

void claim_core::on_ack(std::uint64_t request, const ack_claim& a, instant now, claim_effects& fx) {
  end_leases(now);
  const auto at = claims_.find(a.lease);
  const auto refuse = [&](error why) {
    fx.acks.emplace_back(request, std::move(why));
    settle(now, fx);
  };
  if (at == claims_.end()) return refuse(lost_lease(a.lease, "is not known here: it is over, or another node gave it"));
  const auto& jobs = at->second.jobs;
  std::unordered_set<item_id> named;
  for (const auto& s : a.jobs) {
    const auto id = to_string(job_id{limits_.queue, s.id});
    if (std::none_of(jobs.begin(), jobs.end(), [&](const job& j) { return j.id == s.id; }))
      return refuse({errc::invalid_argument, "job " + id + ": is none of the claim's; name only those it gave"});
    if (!named.insert(s.id).second)
      return refuse({errc::invalid_argument, "job " + id + ": is named twice; say once what became of it"});
  }
  auto said = a.jobs;
  if (a.rest)
    for (const auto& j : jobs)
      if (!named.contains(j.id)) said.push_back({j.id, job_outcome::handled, {}, {}});
  tell(request, *at, said, false, now, fx);
  settle(now, fx);
}

void claim_core::on_release(std::uint64_t request, const release_claim& r, instant now, claim_effects& fx) {
  end_leases(now);
  const auto at = claims_.find(r.lease);
  if (at == claims_.end()) {
    fx.acks.emplace_back(request, lost_lease(r.lease, "is not known here: it is over, or another node gave it"));
    return settle(now, fx);
  }
  std::vector<job_report> said;
  for (const auto& j : at->second.jobs)
    if (j.where == stage::held) said.push_back({j.id, job_outcome::unhandled, {}, {}});
  tell(request, *at, said, true, now, fx);
  settle(now, fx);
}

// ---- time ----

void claim_core::on_close(time_point deadline, instant now, claim_effects& fx) {
  closing_ = true;
  if (closed_) fx.closed.emplace();
  close_at_ = deadline;
  for (const auto& w : std::exchange(line_, {}))
    fx.grants.push_back({w.what.request, error{errc::queue_closed, "queue \"" + limits_.queue +
                                                                       "\": its node stops and gives out no more "
                                                                       "jobs; ask another node"}});
  settle(now, fx);
}

void claim_core::close_now(claim_effects& fx) {
  claims_closed done;
  for (auto& c : claims_) {
    for (auto& j : c.second.jobs) {
      if (j.where != stage::held) continue;
      hand_back(j.token, 1);
      lose(j, "ended with its node");
      ++done.handed_back;
    }
    plan(c);
  }
  closed_ = true;
  close_at_.reset();
  fx.closed = done;
}

void claim_core::on_tick(instant now, claim_effects& fx) {
  if (attach_again_ && now.steady >= *attach_again_) {
    attach_again_.reset();
    if (needs_queue()) attach(fx);
  }
  if (look_at_ && now.steady >= *look_at_) {
    look_at_.reset();
    if (needs_queue() && attached_) {
      look_at_ = now.steady + limits_.look;
      looking_ = false;
      look(fx);
    }
  }
  settle(now, fx);
}

void claim_core::settle(instant now, claim_effects& fx) {
  end_leases(now);
  serve(now, fx);
  answer_waiting(now, fx);
  want(fx);
  if (closing_ && !closed_ && (by_token_.empty() || now.steady >= *close_at_)) close_now(fx);
  if (renew_at_ && now.steady >= *renew_at_) {
    renew_at_.reset();
    for (const auto& [token, name] : by_token_) to_tell_.keep.push_back(token);
    if (kind_ == pool_kind::remote && !by_token_.empty()) renew_at_ = now.steady + queue_lease_ / 3;
  }
  if (attached_ && (!to_tell_.done.empty() || !to_tell_.lost.empty() || !to_tell_.keep.empty()))
    send_report({}, std::exchange(to_tell_, {}), fx);
}

std::optional<claim_core::time_point> claim_core::next_wake() const {
  std::optional<time_point> next;
  const auto at = [&](const std::optional<time_point>& t) {
    if (t && (!next || *t < *next)) next = t;
  };
  if (!wakes_.empty()) at(wakes_.begin()->first);
  for (const auto& w : line_)
    if (w.what.wait > 0ms) at(w.until);
  at(attach_again_);
  if (needs_queue()) at(look_at_);
  if (!by_token_.empty()) at(renew_at_);
  if (!closed_) at(close_at_);
  return next;
}

std::vector<claimer_status> claim_core::claimers() const {
  std::map<std::string, claimer_status> all;
  const auto entry = [&](const std::string& worker, const std::string& from) -> claimer_status& {
    auto& s = all[worker.empty() ? from : worker];
    s.worker = worker;
    s.from = from;
    return s;
  };
  for (const auto& [name, c] : claims_) {
    const auto held = std::count_if(c.jobs.begin(), c.jobs.end(), [](const job& j) { return j.where == stage::held; });
    if (held == 0) continue;
    auto& s = entry(c.worker, c.from);
    s.jobs += static_cast<std::size_t>(held);
    s.last_seen = std::max(s.last_seen, c.last_seen);
  }
  for (const auto& w : line_) ++entry(w.what.worker, w.what.from).waiting;
  std::vector<claimer_status> list;
  for (auto& [key, s] : all) list.push_back(std::move(s));
  return list;
}

}  // namespace caravan
