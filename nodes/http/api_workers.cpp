#include "nodes/http/api_json.hpp"
#include "nodes/http/api_parts.hpp"
#include "nodes/http/claim_ask.hpp"
#include "nodes/node_runtime.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <set>

namespace caravan::http {

using namespace std::chrono_literals;

namespace {

constexpr auto silent_after = 15s;  ///< it tells of itself every few seconds

std::chrono::system_clock::time_point instant_of(wall_time t) {
  return std::chrono::system_clock::time_point{t.time_since_epoch()};
}

ordered_json to_json(const std::string& node, const worker_entry& w, wall_time now) {
  return {{"kind", "worker"},
          {"name", w.last.name},
          {"node", node},
          {"queues", w.last.queues},
          {"host", w.last.host},
          {"pid", w.last.pid},
          {"version", w.last.version},
          {"started", instant_or_null(instant_of(w.last.started))},
          {"state", now - w.seen > silent_after ? std::string("silent") : w.last.state},
          {"wanted", to_string(w.wanted.state)},
          {"busy", w.last.busy},
          {"size", w.last.concurrency},
          {"jobs", w.last.busy},
          {"last_seen", instant_or_null(instant_of(w.seen))},
          {"from", w.last.from}};
}

/// What several actors answer, until all have.
struct gathering {
  std::map<std::string, pool_status> pools;      ///< by queue
  std::map<std::string, claimer_list> claimers;  ///< likewise
  std::mutex mutex;
  std::size_t missing = 1;
};

ordered_json workers_of(const api& a, const gathering& all) {
  const auto now = a.node.clock().wall();
  const auto& node = a.node.settings().node.name;
  auto list = ordered_json::array();
  for (const auto& [queue, p] : all.pools)
    list.push_back({{"kind", "pool"},
                    {"name", p.handler},
                    {"node", node},
                    {"queues", {queue}},
                    {"host", nullptr},
                    {"pid", ::getpid()},
                    {"version", nullptr},
                    {"started", format_instant(a.node.started_at())},
                    {"state", "run"},
                    {"wanted", "run"},
                    {"busy", p.active},
                    {"size", p.max_workers},
                    {"jobs", nullptr},
                    {"last_seen", nullptr},
                    {"from", nullptr}});
  std::map<std::string, std::size_t> held;  // by worker
  std::set<std::string> told;
  const auto known = a.node.claims().workers().list(now);
  for (const auto& w : known) told.insert(w.last.name);
  for (const auto& [queue, l] : all.claimers) {
    for (const auto& c : l.claimers) {
      if (told.contains(c.worker)) {
        held[c.worker] += c.jobs;
        continue;
      }
      list.push_back({{"kind", "claim"},
                      {"name", c.worker.empty() ? c.from : c.worker},
                      {"node", node},
                      {"queues", {queue}},
                      {"host", nullptr},
                      {"pid", nullptr},
                      {"version", nullptr},
                      {"started", nullptr},
                      {"state", c.waiting > 0 ? "waiting" : "run"},
                      {"wanted", "run"},
                      {"busy", nullptr},
                      {"size", nullptr},
                      {"jobs", c.jobs},
                      {"last_seen", instant_or_null(instant_of(c.last_seen))},
                      {"from", c.from}});
    }
  }
  for (const auto& w : known) {
    list.push_back(to_json(node, w, now));
    list.back()["jobs"] = held[w.last.name];
  }
  return list;
}

void list(const api& a, const responder& answer) {
  const auto all = std::make_shared<gathering>();
  const auto arrived = [a, all, answer](auto&& put) {
    {
      const std::lock_guard lock(all->mutex);
      put(*all);
      if (--all->missing > 0) return;
    }
    answer.reply(json_response(dump({{"workers", workers_of(a, *all)}})));
  };
  const auto expect_one = [all] {
    const std::lock_guard lock(all->mutex);
    ++all->missing;
  };
  for (const auto& q : a.node.all()) {
    const auto pool = q->pool();
    if (!pool) continue;
    expect_one();
    ask(a.node.system(), pool, get_pool_status{}, ask_patience, [arrived, q](expected<pool_status> st) {
      arrived([&](gathering& g) {
        if (st) g.pools[q->name()] = *st;
      });
    });
  }
  for (const auto& [queue, pool] : a.node.claims().all()) {
    expect_one();
    ask(a.node.system(), pool, get_claimers{}, ask_patience, [arrived, name = queue](expected<claimer_list> l) {
      arrived([&](gathering& g) {
        if (l) g.claimers[name] = std::move(*l);
      });
    });
  }
  arrived([](gathering&) {});
}

void beat(const api& a, const request& r, const responder& answer) {
  const auto body = read_body(r.body);
  if (!body) return void(answer.reply(body.failure()));
  object_reader in(*body, "the worker");
  worker_beat b;
  b.name = r.param("worker");
  b.host = in.text("host", 256).value_or("");
  b.pid = static_cast<std::uint64_t>(in.whole_number("pid", 0, std::int64_t{1} << 40).value_or(0));
  b.version = in.text("version", 64).value_or("");
  b.state = in.text("state", 16).value_or("run");
  if (const auto at = in.instant("started")) b.started = std::chrono::floor<std::chrono::milliseconds>(*at);
  b.concurrency = static_cast<std::uint32_t>(in.whole_number("concurrency", 0, 100'000).value_or(0));
  b.busy = static_cast<std::uint32_t>(in.whole_number("busy", 0, 1'000'000).value_or(0));
  b.from = r.remote;
  if (const auto* queues = in.any("queues")) {
    if (!queues->is_array() || queues->size() > 100) in.complain("\"queues\" must be an array of at most 100 names");
    for (const auto& q : *queues) {
      if (!q.is_string() || q.get_ref<const std::string&>().size() > 128)
        in.complain("\"queues\" must hold names of queues");
      else
        b.queues.push_back(q.get<std::string>());
    }
  }
  constexpr std::array<std::string_view, 4> states{"run", "quiet", "stopping", "stopped"};
  if (std::find(states.begin(), states.end(), b.state) == states.end())
    in.complain("\"state\" must be run, quiet, stopping or stopped");
  if (b.name.size() > 128) in.complain("its name has more than 128 bytes");
  constexpr std::array<std::string_view, 8> known{"host",    "pid",    "version",     "state",
                                                  "started", "queues", "concurrency", "busy"};
  if (const auto ok = in.done(known); !ok) return void(answer.reply(ok.failure()));
  auto& board = a.node.claims().workers();
  worker_orders wanted;
  if (b.state != "run") a.node.claims().wake(b.name);  // it wants no more of what it stands in line for
  if (b.state == "stopped")
    board.leave(b.name);
  else
    wanted = board.beat(std::move(b), a.node.clock().wall());
  answer.reply(json_response(dump({{"state", to_string(wanted.state)}, {"concurrency", wanted.concurrency}})));
}

void reply_changed(const api& a, const expected<worker_entry>& changed, const responder& answer) {
  if (!changed) return void(answer.reply(changed.failure()));
  a.node.claims().wake(changed->last.name);  // else it would hear of it when its claim has waited its time
  answer.reply(json_response(dump(to_json(a.node.settings().node.name, *changed, a.node.clock().wall()))));
}

void scale(const api& a, const request& r, const responder& answer) {
  const auto body = read_body(r.body);
  if (!body) return void(answer.reply(body.failure()));
  object_reader in(*body, "the scale");
  const auto n = in.whole_number("concurrency", 1, 10'000);
  if (!n) in.complain("needs \"concurrency\", a whole number from 1 to 10000");
  constexpr std::array<std::string_view, 1> known{"concurrency"};
  if (const auto ok = in.done(known); !ok) return void(answer.reply(ok.failure()));
  reply_changed(a, a.node.claims().workers().scale(std::string(r.param("worker")), static_cast<std::uint32_t>(*n)),
                answer);
}

}  // namespace

void add_worker_routes(api a) {
  a.web.route("GET", "/v1/workers", role::read, [a](const request&, const responder& answer) { list(a, answer); });
  change_route(a, "POST", "/v1/workers/{worker}/beat", role::work,
               [a](const request& r, const responder& answer) { beat(a, r, answer); });
  change_route(a, "POST", "/v1/workers/{worker}/scale", role::admin,
               [a](const request& r, const responder& answer) { scale(a, r, answer); });
  for (const auto o : {worker_order::run, worker_order::quiet, worker_order::stop})
    change_route(a, "POST", "/v1/workers/{worker}/" + std::string(to_string(o)), role::admin,
                 [a, o](const request& r, const responder& answer) {
                   reply_changed(a, a.node.claims().workers().order(std::string(r.param("worker")), o), answer);
                 });
}

}  // namespace caravan::http
