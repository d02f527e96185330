#include "config/values.hpp"
#include "nodes/cli/client.hpp"
#include "nodes/cli/table.hpp"
#include "nodes/cli/verbs.hpp"

#include <chrono>
#include <cstdio>
#include <map>
#include <thread>

namespace caravan::cli {

using namespace std::chrono_literals;

namespace {

using json = nlohmann::ordered_json;

std::string joined(const json& names) {
  std::string out;
  for (const auto& n : names) out += (out.empty() ? "" : ", ") + clean(n.get<std::string>());
  return out.empty() ? "-" : out;
}

exit_code run_ls(const arguments& given) {
  client node(given);
  const auto answer = node.ask({.path = "/v1/cluster"});
  if (given.has("--json")) {
    print_json(answer);
    return exit_done;
  }
  table t({{"NODE"}, {"STATE"}, {"HTTP"}, {"NODES"}, {"VERSION"}, {"UP"}, {"OWNS"}});
  for (const auto& n : answer["nodes"]) {
    const bool alive = n["alive"].get<bool>();
    const bool cordoned = n["cordoned"].get<bool>();
    cell state =
        alive ? cordoned ? cell{"cordoned", colour::yellow} : cell{"alive", colour::green} : cell{"gone", colour::red};
    t.add({clean(n["name"].get<std::string>()) + (n["self"].get<bool>() ? " *" : ""), state,
           clean(n["http"].get<std::string>()), clean(n["address"].get<std::string>()),
           clean(n["version"].get<std::string>()), age_of(n["started"].get<std::string>()), joined(n["owns"])});
  }
  t.print();
  if (!answer["without_owner"].empty()) std::printf("without an owner: %s\n", joined(answer["without_owner"]).c_str());
  return exit_done;
}

exit_code run_health(const arguments& given) {
  client node(given);
  const auto answer = node.ask({.path = "/v1/cluster"});
  std::vector<std::string> wrong;
  std::map<std::string, std::vector<std::string>> owners;
  std::size_t alive = 0;
  for (const auto& n : answer["nodes"]) {
    if (n["alive"].get<bool>()) {
      ++alive;
      for (const auto& q : n["owns"]) owners[q.get<std::string>()].push_back(n["name"].get<std::string>());
    } else if (!n["owns"].empty()) {  // one that handed everything over before it went is missed by nobody
      wrong.push_back("node " + clean(n["name"].get<std::string>()) + " at " + clean(n["address"].get<std::string>()) +
                      " is gone, and was the home of: " + joined(n["owns"]));
    }
  }
  for (const auto& [queue, names] : owners)
    if (names.size() > 1) wrong.push_back("queue " + clean(queue) + " has more than one owner: " + clean(names[0]) + ", " + clean(names[1]));
  for (const auto& q : answer["without_owner"])
    wrong.push_back("queue " + clean(q.get<std::string>()) + " has no owner");
  if (given.has("--json")) {
    print_json({{"healthy", wrong.empty()}, {"alive", alive}, {"wrong", wrong}});
  } else {
    for (const auto& w : wrong) std::printf("%s\n", w.c_str());
    if (wrong.empty()) std::printf("%zu nodes are alive, and every queue has an owner\n", alive);
  }
  return wrong.empty() ? exit_done : exit_refused;
}

exit_code run_moves(const arguments& given) {
  client node(given);
  const auto answer = node.ask({.path = "/v1/cluster/moves"});
  if (given.has("--json")) {
    print_json(answer);
    return exit_done;
  }
  table t({{"AT"},
           {"QUEUE"},
           {"FROM"},
           {"TO"},
           {"RESULT"},
           {"ITEMS", side::right},
           {"MS", side::right},
           {"STOOD", side::right},
           {"BY"}});
  const auto number = [](const json& m, const char* name) { return m.contains(name) ? m[name].dump() : "-"; };
  for (const auto& m : answer["moves"])
    t.add(
        {clean(m["at"].get<std::string>()), clean(m["queue"].get<std::string>()), clean(m["from"].get<std::string>()),
         clean(m["to"].get<std::string>()),
         m["moved"].get<bool>() ? cell{"moved", colour::green} : cell{clean(m["why"].get<std::string>()), colour::red},
         number(m, "items"), m["ms"].dump(), number(m, "frozen_ms"), clean(m["by"].get<std::string>())});
  t.print();
  return exit_done;
}

exit_code run_who_owns(const arguments& given) {
  client node(given);
  const auto answer = node.ask({.path = "/v1/queues/" + path_segment(given.get("QUEUE"))});
  if (given.has("--json"))
    print_json({{"queue", answer["name"]}, {"owner", answer["owner"]}});
  else
    std::printf("%s\n", answer["owner"].get<std::string>().empty() ? "nobody"
                                                                   : clean(answer["owner"].get<std::string>()).c_str());
  return exit_done;
}

exit_code post(const arguments& given, const std::string& what) {
  client node(given);
  const auto answer = node.ask({.method = "POST", .path = "/v1/cluster/" + what});
  if (given.has("--json")) {
    print_json(answer);
    return exit_done;
  }
  std::printf("node %s: %s\n", clean(answer["node"].get<std::string>()).c_str(),
              answer["cordoned"].get<bool>() ? "cordoned" : "takes over queues again");
  if (answer.contains("moves"))
    for (const auto& m : answer["moves"])
      std::printf("  %s goes to %s\n", clean(m["queue"].get<std::string>()).c_str(),
                  clean(m["to"].get<std::string>()).c_str());
  return exit_done;
}
exit_code run_drain(const arguments& given) { return post(given, "drain"); }
exit_code run_cordon(const arguments& given) { return post(given, "cordon"); }
exit_code run_uncordon(const arguments& given) { return post(given, "uncordon"); }

exit_code run_move(const arguments& given) {
  client node(given);
  const auto path = "/v1/queues/" + path_segment(given.get("QUEUE"));
  const auto to = given.get("--to");
  const http_call move{.method = "POST",
                       .path = path + "/move",
                       .body = json{{"to", to}}.dump(-1, ' ', false, json::error_handler_t::replace)};
  const auto text = given.get("--timeout", "1m");
  const auto patience = config::parse_duration(text);
  if (!patience || *patience <= 0ns || *patience > 24h)
    throw stop(exit_usage, "--timeout " + text + ": write a duration up to 24h like 30s or 5m");
  const auto end = std::chrono::steady_clock::now() + *patience;
  std::string begun_at;
  // While a queue changes hands nobody can answer for it: that passes.
  const auto passes = [&](const http_answer& a) {
    return (a.status == 503 || a.body.find("\"fenced\"") != std::string::npos) &&
           std::chrono::steady_clock::now() < end;
  };
  for (auto begun = node.send(move);; begun = node.send(move)) {
    if (begun.status == 202 || begun.body.find("already") != std::string::npos) {
      const auto said = json::parse(begun.body, nullptr, false);
      begun_at = said.is_object() ? said.value("at", "") : "";
      break;
    }
    if (!passes(begun)) throw stop(exit_refused, words_of(begun));
    std::this_thread::sleep_for(100ms);
  }
  const auto failed = [&]() -> std::string {
    if (begun_at.empty()) return {};
    const auto all = node.send({.path = "/v1/cluster/moves"});
    const auto list = all.status == 200 ? json::parse(all.body, nullptr, false) : json();
    if (!list.is_object()) return {};
    // The latest first; of earlier ones the node may have told before.
    for (const auto& m : list["moves"])
      if (m["queue"] == given.get("QUEUE") && m["to"] == to && m["at"].get<std::string>() >= begun_at)
        return m["moved"].get<bool>() ? "" : m["why"].get<std::string>();
    return {};
  };
  // It has begun; it is done when the other node says that it owns it.
  for (;;) {
    const auto answer = node.send({.path = path});
    const auto q = answer.status == 200 ? json::parse(answer.body, nullptr, false) : json();
    if (q.is_object() && q["owner"] == to && q["phase"] != "standby") {
      if (given.has("--json"))
        print_json({{"queue", q["name"]}, {"owner", q["owner"]}});
      else
        std::printf("%s: node %s owns it now\n", clean(q["name"].get<std::string>()).c_str(), clean(to).c_str());
      return exit_done;
    }
    if (const auto why = failed(); !why.empty())
      throw stop(exit_refused, "queue \"" + given.get("QUEUE") + "\": did not move to node \"" + to + "\": " + why);
    if (std::chrono::steady_clock::now() > end)
      throw stop(exit_refused,
                 "queue \"" + given.get("QUEUE") + "\": node \"" + to +
                     "\" does not own it after " + text + "; the move may still go on: \"caravan queue inspect\" tells the owner, "
                     "\"caravan cluster moves\" of the node that owned it before tells how it ended");
    std::this_thread::sleep_for(100ms);
  }
}

}  // namespace

std::vector<verb> cluster_verbs() {
  return {
      {"cluster",
       "ls",
       "Lists the nodes that share queues, and what each owns.",
       {},
       "caravan cluster ls",
       run_ls,
       talks_to::node},
      {"cluster",
       "health",
       "Says whether all nodes live and every queue has an owner; exit code 1: no.",
       {},
       "caravan cluster health",
       run_health,
       talks_to::node},
      {"cluster",
       "who-owns",
       "Names the node that owns a queue.",
       {{"QUEUE", "", "The queue", times::once}},
       "caravan cluster who-owns mail",
       run_who_owns,
       talks_to::node},
      {"cluster",
       "moves",
       "Lists the last moves of queues between nodes.",
       {},
       "caravan cluster moves",
       run_moves,
       talks_to::node,
       "Nodes that joined by address list the moves away from the asked node. STOOD is how many milliseconds producers "
       "and workers waited."},
      {"cluster",
       "drain",
       "Hands all queues that the asked node owns over to others, and cordons it.",
       {},
       "caravan cluster drain --node http://127.0.0.1:7181",
       run_drain,
       talks_to::node,
       "Its workers go on serving the queues of others. To take the machine away, stop the node afterwards."},
      {"cluster",
       "cordon",
       "The asked node takes over no more queues.",
       {},
       "caravan cluster cordon",
       run_cordon,
       talks_to::node},
      {"cluster",
       "uncordon",
       "The asked node takes over queues again.",
       {},
       "caravan cluster uncordon",
       run_uncordon,
       talks_to::node},
      {"queue",
       "move",
       "Moves a queue to another node while it works, and waits until that owns it.",
       {{"QUEUE", "", "The queue", times::once}, {"--to", "NODE", "The name of the node", times::once},
        {"--timeout", "DURATION", "Gives up waiting after this; 1m without it"}},
       "caravan queue move mail --to mars",
       run_move,
       talks_to::node,
       "TYPE = redis: what runs may end within SHUTDOWN_TIMEOUT; what is left then is handled again by the new owner. "
       "The queue stays on that node as long as it lives; when it dies any other may take over. "
       "Nodes that joined by address: the items are copied while the queue works, and what runs goes on under its "
       "lease. "
       "Pushes are taken all the time."},
  };
}

}  // namespace caravan::cli
