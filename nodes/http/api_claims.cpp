#include "nodes/http/api_json.hpp"
#include "nodes/http/api_parts.hpp"
#include "nodes/http/claim_ask.hpp"
#include "nodes/node_runtime.hpp"

#include "config/values.hpp"

#include <array>
#include <atomic>

namespace caravan::http {

using namespace std::chrono_literals;

namespace {

using queue_ptr = std::shared_ptr<hosted_queue>;

constexpr auto most_wait = std::chrono::hours{1};
constexpr auto least_lease = 1s;
constexpr auto most_lease = std::chrono::hours{24};
constexpr std::int64_t most_jobs = 1000;

constexpr std::array<std::pair<std::string_view, job_outcome>, 5> outcomes{{{"handled", job_outcome::handled},
                                                                            {"unhandled", job_outcome::unhandled},
                                                                            {"failed", job_outcome::failed},
                                                                            {"rejected", job_outcome::rejected},
                                                                            {"later", job_outcome::later}}};

std::string_view word_of(job_outcome o) {
  for (const auto& [word, value] : outcomes)
    if (value == o) return word;
  return "unknown";
}

std::uint64_t new_request() {
  static std::atomic<std::uint64_t> next{0};
  return ++next;
}

ordered_json to_json(const std::string& queue, const claimed_job& j) {
  const auto& r = j.item;
  ordered_json out{{"id", to_string(job_id{queue, r.id})}};
  put_payload(out, r.payload);
  out["attempt"] = r.attempts + 1;
  out["token"] = std::to_string(j.token);  // beyond 2^53 a number is not exact everywhere
  out["key"] = r.key;
  out["pushed_at"] = instant_or_null(std::chrono::system_clock::time_point{r.pushed_at.time_since_epoch()});
  out["deadline"] = instant_or_null(std::chrono::system_clock::time_point{j.deadline.time_since_epoch()});
  auto headers = ordered_json::object();
  for (const auto& [name, value] : r.headers) headers[name] = value;
  out["headers"] = std::move(headers);
  return out;
}

response throttled(const std::string& queue, std::chrono::milliseconds pause) {
  auto refused = problem(429, "throttled",
                         "queue \"" + queue +
                             "\": claims come faster than CLAIM_RATE permits, or find nothing again and "
                             "again; ask again after " +
                             config::format_duration(pause) + ", and let the claim wait");
  auto body = ordered_json::parse(refused.body);
  body["retry_after"] = config::format_duration(pause);
  refused.body = dump(body);
  refused.headers.push_back({"Retry-After", std::to_string(std::chrono::ceil<std::chrono::seconds>(pause).count())});
  return refused;
}

response granted(const api& a, const std::string& queue, const std::string& worker, const claim_granted& g) {
  if (g.retry_after > 0ms) return throttled(queue, g.retry_after);
  ordered_json out{{"lease", nullptr}, {"remaining", nullptr}, {"lease_end", nullptr}};
  if (!g.jobs.empty()) {
    out["lease"] = g.lease;
    out["remaining"] = config::format_duration(g.remaining);
    out["lease_end"] = format_instant(a.node.clock().wall() + g.remaining);
  }
  auto jobs = ordered_json::array();
  for (const auto& j : g.jobs) jobs.push_back(to_json(queue, j));
  out["jobs"] = std::move(jobs);
  if (!worker.empty())
    if (const auto wanted = a.node.claims().workers().orders_for(worker))
      out["orders"] = {{"state", to_string(wanted->state)}, {"concurrency", wanted->concurrency}};
  return json_response(dump(out));
}

void claim(const api& a, const queue_ptr& q, const request& r, const responder& answer) {
  if (!q->actor()) {
    answer.reply(error{errc::not_supported, "queue \"" + q->name() +
                                                "\": is of TYPE = dummy, which keeps nothing, so there is nothing to "
                                                "claim"});
    return;
  }
  const auto body = read_body(r.body);
  if (!body) return void(answer.reply(body.failure()));
  object_reader in(*body, "the claim");
  open_claim c;
  c.request = new_request();
  c.most = static_cast<std::size_t>(in.whole_number("max", 1, most_jobs).value_or(1));
  c.wait = in.duration("wait").value_or(0ms);
  const auto lease = in.duration("lease");
  c.lease = lease.value_or(0ms);
  c.worker = in.text("worker", 128).value_or("");
  c.from = r.remote.substr(0, r.remote.rfind(':'));
  if (c.wait > most_wait) in.complain("\"wait\" must be at most 1h");
  if (lease && (c.lease < least_lease || c.lease > most_lease)) in.complain("\"lease\" must be from 1s to 24h");
  constexpr std::array<std::string_view, 4> known{"max", "wait", "lease", "worker"};
  if (const auto ok = in.done(known); !ok) return void(answer.reply(ok.failure()));
  if (!c.worker.empty())
    if (const auto wanted = a.node.claims().workers().orders_for(c.worker);
        wanted && wanted->state != worker_order::run)
      return void(answer.reply(granted(a, q->name(), c.worker, {})));  // it may not have heard of it yet
  const auto pool = a.node.claims().pool_of(q);
  if (!pool) {
    answer.reply(error{errc::queue_closed, "queue \"" + q->name() + "\": the node stops; ask another one"});
    return;
  }
  if (c.wait > 0ms) answer.step_aside();  // who stands in line for a job is no load
  const auto worker = c.worker;
  ask_while(
      a.node.system(), pool, std::move(c), [answer] { return answer.client_left(); },
      [a, q, worker, answer](expected<claim_granted> got) {
        if (got)
          answer.reply(granted(a, q->name(), worker, *got));
        else
          answer.reply(got.failure());
      });
}

/// The pool that gave the lease which the path names; answers by itself when there is none.
claim_pool_actor pool_of(const api& a, const std::string& lease, const responder& answer) {
  const auto dot = lease.rfind('.');
  if (dot == std::string::npos || lease.size() - dot != 33) {
    answer.reply(error{errc::invalid_argument,
                       "\"" + lease.substr(0, 200) + "\" is no lease; give the \"lease\" that a claim answered"});
    return {};
  }
  const auto queue = lease.substr(0, dot);
  if (!a.node.find(queue)) {
    answer.reply(no_such_queue(a.node, queue));
    return {};
  }
  auto pool = a.node.claims().find(queue);
  if (!pool)
    answer.reply(error{errc::fenced, "queue \"" + queue + "\": the lease " + lease +
                                         " is not known here: another node gave it, or this one has started anew; stop "
                                         "what is done under it, its jobs go to others"});
  return pool;
}

response acked(const std::string& lease, const claim_acked& done) {
  const auto queue = lease.substr(0, lease.rfind('.'));
  auto jobs = ordered_json::array();
  for (const auto& j : done.jobs)
    jobs.push_back({{"id", to_string(job_id{queue, j.id})}, {"outcome", word_of(j.what)}, {"counted", j.counted}});
  return json_response(dump({{"lease", lease}, {"left", done.left}, {"jobs", std::move(jobs)}}));
}

on_answer<claim_acked> then_acked(const std::string& lease, const responder& answer) {
  return [lease, answer](expected<claim_acked> done) {
    if (done)
      answer.reply(acked(lease, *done));
    else
      answer.reply(done.failure());
  };
}

expected<job_report> read_report(const json& from, const std::string& what, const std::string& queue) {
  if (!from.is_object()) return {errc::invalid_argument, what + " must be an object with \"id\" and \"outcome\""};
  object_reader in(from, what);
  job_report out;
  const auto id = parse_job_id(in.text("id").value_or(""));
  if (!id || id->queue != queue)
    in.complain("needs \"id\", a job's of this claim");
  else
    out.id = id->item;
  const auto word = in.text("outcome").value_or("handled");
  const auto at = std::find_if(outcomes.begin(), outcomes.end(), [&](const auto& o) { return o.first == word; });
  if (at == outcomes.end())
    in.complain("\"outcome\" must be handled, unhandled, failed, rejected or later");
  else
    out.what = at->second;
  out.text = in.text("error", 64u << 10).value_or("");
  const auto delay = in.duration("delay");
  if (delay && out.what != job_outcome::later && out.what != job_outcome::failed)
    in.complain("\"delay\" goes with the outcomes later and failed only");
  out.delay = delay.value_or(0ms);
  constexpr std::array<std::string_view, 4> known{"id", "outcome", "error", "delay"};
  if (const auto ok = in.done(known); !ok) return ok.failure();
  return out;
}

void ack(const api& a, const request& r, const responder& answer) {
  const std::string lease(r.param("lease"));
  const auto pool = pool_of(a, lease, answer);
  if (!pool) return;
  const auto body = read_body(r.body);
  if (!body) return void(answer.reply(body.failure()));
  object_reader in(*body, "the acknowledgement");
  ack_claim what;
  what.lease = lease;
  const auto* jobs = in.any("jobs");
  what.rest = jobs == nullptr;  // an empty body: all of them were handled
  if (const auto* rest = in.any("rest")) {
    if (!rest->is_boolean())
      in.complain("\"rest\" must be true or false");
    else
      what.rest = rest->get<bool>();
  }
  if (jobs && !jobs->is_array()) in.complain("\"jobs\" must be an array");
  constexpr std::array<std::string_view, 2> known{"jobs", "rest"};
  if (const auto ok = in.done(known); !ok) return void(answer.reply(ok.failure()));
  const auto queue = lease.substr(0, lease.rfind('.'));
  if (jobs) {
    for (std::size_t i = 0; i < jobs->size(); ++i) {
      auto one = read_report((*jobs)[i], "job " + std::to_string(i), queue);
      if (!one) return void(answer.reply(one.failure()));
      what.jobs.push_back(std::move(*one));
    }
  }
  ask(a.node.system(), pool, std::move(what), ask_patience, then_acked(lease, answer));
}

void release(const api& a, const request& r, const responder& answer) {
  const std::string lease(r.param("lease"));
  if (const auto pool = pool_of(a, lease, answer))
    ask(a.node.system(), pool, release_claim{lease}, ask_patience, then_acked(lease, answer));
}

void extend(const api& a, const request& r, const responder& answer) {
  const std::string lease(r.param("lease"));
  const auto pool = pool_of(a, lease, answer);
  if (!pool) return;
  ask(a.node.system(), pool, extend_claim{lease}, ask_patience, [a, lease, answer](expected<claim_extended> done) {
    if (!done) return void(answer.reply(done.failure()));
    const auto queue = lease.substr(0, lease.rfind('.'));
    const auto names = [&](const std::vector<item_id>& ids) {
      auto list = ordered_json::array();
      for (const auto id : ids) list.push_back(to_string(job_id{queue, id}));
      return list;
    };
    answer.reply(json_response(dump({{"lease", lease},
                                     {"remaining", config::format_duration(done->remaining)},
                                     {"lease_end", format_instant(a.node.clock().wall() + done->remaining)},
                                     {"jobs", names(done->jobs)},
                                     {"lost", names(done->lost)}})));
  });
}

}  // namespace

void add_claim_routes(api a) {
  change_route(
      a, "POST", "/v1/queues/{queue}/claim", role::work,
      on_queue(a, [a](const queue_ptr& q, const request& r, const responder& answer) { claim(a, q, r, answer); }));
  const auto add = [a](std::string_view verb, void (*act)(const api&, const request&, const responder&)) {
    change_route(a, "POST", "/v1/leases/{lease}/" + std::string(verb), role::work,
                 [a, act](const request& r, const responder& answer) { act(a, r, answer); });
  };
  add("ack", ack);
  add("extend", extend);
  add("release", release);
}

}  // namespace caravan::http
