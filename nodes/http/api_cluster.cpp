#include "integration/redis/redis_moves.hpp"
#include "nodes/http/api_json.hpp"
#include "nodes/http/api_parts.hpp"
#include "nodes/http/ask.hpp"
#include "nodes/node_runtime.hpp"
#include "nodes/ownership.hpp"

#include <algorithm>
#include <array>
#include <map>

namespace caravan::http {

using namespace std::chrono_literals;

namespace {

system_time instant_of(std::int64_t ms) { return system_time{std::chrono::milliseconds{ms}}; }

error alone(const node_runtime& node) {
  return {errc::not_supported,
          "node \"" + node.settings().node.name +
              "\" shares no queue with others; set TYPE = redis in [queue.NAME], or JOIN in [cluster]"};
}

bool is_alone(const node_runtime& node) { return node.shared_places().empty() && !node.members(); }

/// Its queue lives on one node at a time and can go to another.
bool can_move(const node_runtime& node, const hosted_queue& q) {
  const auto type = q.settings().type;
  return type == config::queue_type::redis || (node.members() && type != config::queue_type::dummy);
}

/// As far as this node knows.
std::vector<node_entry> members(const node_runtime& node) {
  std::vector<node_entry> all;
  if (!node.members()) return all;
  const auto now = std::chrono::steady_clock::now();
  for (const auto& m : node.members()->members()) {
    const auto silent = m.alive ? 0ms : std::chrono::floor<std::chrono::milliseconds>(now - m.heard);
    all.push_back({m.last.name, m.last.incarnation, m.last.address, m.last.http, m.last.version, m.last.started,
                   m.last.cordoned, m.alive, silent});
  }
  return all;
}

/// The nodes of all Redis that this one uses, and those that joined by address, each once.
expected<std::vector<node_entry>> all_nodes(const node_runtime& node) {
  auto all = members(node);
  for (const auto& place : node.shared_places()) {
    auto some = place->nodes();
    if (!some) return some;
    for (auto& n : *some)
      if (std::none_of(all.begin(), all.end(),
                       [&](const auto& x) { return x.name == n.name && x.incarnation == n.incarnation; }))
        all.push_back(std::move(n));
  }
  return all;
}

/// What blocks on Redis, on a thread that may.
void blocking(const api& a, const responder& answer, std::function<expected<ordered_json>()> work) {
  if (is_alone(a.node)) {
    answer.reply(alone(a.node));
    return;
  }
  a.web.post_blocking(answer, [work = std::move(work)](const responder& later) {
    const auto done = work();
    if (done)
      later.reply(json_response(dump(*done)));
    else
      later.reply(done.failure());
  });
}

/// Queues by who owns them, as far as this node knows.
std::map<std::string, std::vector<std::string>> owners(const node_runtime& node) {
  std::map<std::string, std::vector<std::string>> by;
  for (const auto& q : node.all()) {
    if (!can_move(node, *q)) continue;
    const auto info = q->info();
    by[info ? info->owner : std::string()].push_back(q->name());
  }
  return by;
}

expected<ordered_json> show(const node_runtime& node) {
  const auto nodes = all_nodes(node);
  if (!nodes) return nodes.failure();
  auto by = owners(node);
  ordered_json list = ordered_json::array();
  for (const auto& n : *nodes)
    list.push_back({{"name", n.name},
                    {"alive", n.alive},
                    {"cordoned", n.cordoned},
                    {"address", n.address},
                    {"http", n.http},
                    {"version", n.version},
                    {"started", format_instant(instant_of(n.started))},
                    {"silent_ms", n.silent.count()},
                    {"owns", by[n.name]},
                    {"self", n.name == node.settings().node.name}});
  return ordered_json{{"nodes", list}, {"without_owner", by[""]}};
}

expected<ordered_json> moves(const node_runtime& node) {
  ordered_json list = ordered_json::array();
  for (const auto& place : node.shared_places()) {
    const auto some = list_moves(*place->client(), 1'000);
    if (!some) return some.failure();
    for (const auto& m : *some)
      list.push_back({{"at", format_instant(instant_of(m.at))},
                      {"queue", m.queue},
                      {"from", m.from},
                      {"to", m.to},
                      {"by", m.by},
                      {"moved", true},
                      {"ms", m.ms}});
  }
  for (const auto& m : node.moves())
    list.push_back({{"at", format_instant(instant_of(m.at))},
                    {"queue", m.queue},
                    {"from", m.from},
                    {"to", m.to},
                    {"by", m.by},
                    {"moved", m.moved},
                    {"why", m.why},
                    {"items", m.items},
                    {"ms", m.ms},
                    {"frozen_ms", m.frozen_ms},
                    {"buffered", m.buffered}});
  return ordered_json{{"moves", list}};
}

error no_such_node(const std::string& name, const std::vector<node_entry>& all) {
  std::string names;
  for (const auto& n : all)
    if (n.alive && !n.cordoned) names += (names.empty() ? "" : ", ") + n.name;
  return {errc::not_found, "node \"" + name + "\": is not there, or takes over no queue; those that do: " +
                               (names.empty() ? "none" : names)};
}

void move(const api& a, const std::shared_ptr<hosted_queue>& q, const request& r, const responder& answer) {
  const auto body = read_body(r.body);
  if (!body) return void(answer.reply(body.failure()));
  object_reader in(*body, "the move");
  const auto to = in.text("to").value_or("");
  if (to.empty()) in.complain("needs \"to\", the name of a node");
  constexpr std::array<std::string_view, 1> known{"to"};
  if (const auto ok = in.done(known); !ok) return void(answer.reply(ok.failure()));
  if (!can_move(a.node, *q))
    return void(answer.reply(error{
        errc::not_supported,
        "queue \"" + q->name() + "\": is not shared, so it cannot move; set TYPE = redis, or JOIN in [cluster]"}));
  a.web.post_blocking(answer, [a, q, to, by = who(r)](const responder& later) {
    const auto nodes = all_nodes(a.node);
    if (!nodes) return void(later.reply(nodes.failure()));
    if (std::none_of(nodes->begin(), nodes->end(),
                     [&](const auto& n) { return n.name == to && n.alive && !n.cordoned; }))
      return void(later.reply(no_such_node(to, *nodes)));
    const system_time at = std::chrono::floor<std::chrono::milliseconds>(a.node.clock().wall());
    ask(a.node.system(), q->actor(), move_queue{to, by}, ask_patience, [q, to, at, later](expected<ack> done) {
      if (done)
        later.reply(json_response(dump({{"queue", q->name()}, {"to", to}, {"at", format_instant(at)}}), 202));
      else
        later.reply(done.failure());
    });
  });
}

// Each queue goes to the node that owns fewest.
void drain(const api& a, const request& r, const responder& answer) {
  const auto by = who(r);
  blocking(a, answer, [a, by]() -> expected<ordered_json> {
    for (const auto& place : a.node.shared_places()) place->cordon(true);
    if (a.node.members()) a.node.members()->cordon(true);
    const auto nodes = all_nodes(a.node);
    if (!nodes) return nodes.failure();
    const auto& me = a.node.settings().node.name;
    auto owned = owners(a.node);
    std::map<std::string, std::size_t> load;
    for (const auto& n : *nodes)
      if (n.alive && !n.cordoned && n.name != me) load[n.name] = owned[n.name].size();
    if (load.empty() && !owned[me].empty())
      return error{errc::conflict,
                   "there is no other node that could take over; this one is cordoned now, and keeps its queues"};
    ordered_json moved = ordered_json::array();
    for (const auto& name : owned[me]) {
      const auto q = a.node.find(name);
      if (!q) continue;
      const auto to =
          std::min_element(load.begin(), load.end(), [](const auto& x, const auto& y) { return x.second < y.second; });
      ++to->second;
      ask(a.node.system(), q->actor(), move_queue{to->first, by}, ask_patience, [](const expected<ack>&) {});
      moved.push_back({{"queue", name}, {"to", to->first}});
    }
    a.node.events()->sink().tell(event_topic::cluster_draining, me, dump({{"by", by}, {"moves", moved}}));
    return ordered_json{{"node", me}, {"cordoned", true}, {"moves", moved}};
  });
}

void cordon(const api& a, bool on, const responder& answer) {
  const auto places = a.node.shared_places();
  if (is_alone(a.node)) return void(answer.reply(alone(a.node)));
  for (const auto& place : places) place->cordon(on);
  if (a.node.members()) a.node.members()->cordon(on);
  const auto& name = a.node.settings().node.name;
  a.node.events()->sink().tell(on ? event_topic::cluster_cordoned : event_topic::cluster_uncordoned, name, "{}");
  answer.reply(json_response(dump({{"node", a.node.settings().node.name}, {"cordoned", on}})));
}

}  // namespace

void add_cluster_routes(api a) {
  a.web.route("GET", "/v1/cluster", role::read,
              [a](const request&, const responder& answer) { blocking(a, answer, [a] { return show(a.node); }); });
  a.web.route("GET", "/v1/cluster/moves", role::read,
              [a](const request&, const responder& answer) { blocking(a, answer, [a] { return moves(a.node); }); });
  change_route(a, "POST", "/v1/cluster/drain", role::admin,
               [a](const request& r, const responder& answer) { drain(a, r, answer); });
  change_route(a, "POST", "/v1/cluster/cordon", role::admin,
               [a](const request&, const responder& answer) { cordon(a, true, answer); });
  change_route(a, "POST", "/v1/cluster/uncordon", role::admin,
               [a](const request&, const responder& answer) { cordon(a, false, answer); });
  change_route(a, "POST", "/v1/queues/{queue}/move", role::admin,
               on_queue(a, [a](const std::shared_ptr<hosted_queue>& q, const request& r, const responder& answer) {
                 move(a, q, r, answer);
               }));
}

}  // namespace caravan::http
