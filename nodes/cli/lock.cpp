#include "nodes/cli/client.hpp"
#include "nodes/cli/lock_run.hpp"
#include "nodes/cli/table.hpp"
#include "nodes/cli/verbs.hpp"

#include "config/values.hpp"

#include <unistd.h>

#include <array>
#include <cstdio>

namespace caravan::cli {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

namespace {

using json = nlohmann::ordered_json;

constexpr milliseconds most_wait = std::chrono::hours{24};
/// For the answer, beyond what the node itself waits.
constexpr auto moment = 15s;

std::string text(const json& j, const char* name) {
  return j.contains(name) && j[name].is_string() ? j[name].get<std::string>() : std::string{};
}

std::string path_of(const std::string& key, const std::string& verb = {}) {
  return "/v1/locks/" + path_segment(key) + (verb.empty() ? "" : "/" + verb);
}

milliseconds duration(const arguments& given, const std::string& name, milliseconds fallback, milliseconds least,
                      milliseconds most) {
  const auto word = given.find(name);
  if (!word) return fallback;
  const auto d = config::parse_duration(*word);
  if (!d || *d < least || *d > most)
    throw stop(exit_usage, name + " " + *word + ": write a duration from " + config::format_duration(least) + " to " +
                               config::format_duration(most) + ", for example 30s");
  return std::chrono::duration_cast<milliseconds>(*d);
}

std::string owner() {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  const auto* user = std::getenv("USER");
  return std::string(user ? user : "?") + "@" + host.data() + ":" + std::to_string(::getpid());
}

std::string who(const json& user) {
  const auto name = text(user, "owner");
  return name.empty() ? "-" : shortened(clean(name), 40);
}

exit_code run_ls(const arguments& given) {
  client node(given);
  const auto answer = node.ask({"GET", "/v1/locks?limit=10000"});
  if (given.has("--json")) {
    print_json(answer);
    return exit_done;
  }
  table t({{"KEY"},
           {"HOLDER"},
           {"NODE"},
           {"TOKEN", side::right},
           {"HELD FOR", side::right},
           {"ENDS IN", side::right},
           {"WAITING", side::right}});
  for (const auto& l : answer["locks"]) {
    const auto& holder = l["holder"];
    t.add({shortened(clean(text(l, "key")), 60), who(holder), clean(text(holder, "node")),
           std::to_string(l.value("token", std::uint64_t{0})), age_of(text(holder, "since")),
           l["remaining"].is_null() ? "-" : text(l, "remaining"), std::to_string(l.value("waiting", 0))});
  }
  t.print();
  return exit_done;
}

exit_code run_show(const arguments& given) {
  client node(given);
  const auto l = node.ask({"GET", path_of(given.get("KEY"))});
  if (given.has("--json")) {
    print_json(l);
    return exit_done;
  }
  const auto& holder = l["holder"];
  std::printf(
      "key        %s\nholder     %s\nnode       %s\nheld for   %s\ntoken      %llu\nends in    %s\nwaiting    %d\n",
      clean(text(l, "key")).c_str(), who(holder).c_str(), clean(text(holder, "node")).c_str(),
      age_of(text(holder, "since")).c_str(), static_cast<unsigned long long>(l.value("token", std::uint64_t{0})),
      l["remaining"].is_null() ? "when it is released" : text(l, "remaining").c_str(), l.value("waiting", 0));
  int place = 0;
  for (const auto& w : l["waiters"])
    std::printf("  %-3d      %s on %s, for %s\n", ++place, who(w).c_str(), clean(text(w, "node")).c_str(),
                age_of(text(w, "since")).c_str());
  return exit_done;
}

exit_code run_release(const arguments& given) {
  if (!given.has("--force"))
    throw stop(exit_usage, "what others hold is only released with --force; its holder may still be at work");
  client node(given);
  const auto answer = node.ask({"POST", path_of(given.get("KEY"), "release"), json{{"force", true}}.dump()});
  if (given.has("--json"))
    print_json(answer);
  else
    std::printf("%s: released\n", clean(given.get("KEY")).c_str());
  return exit_done;
}

exit_code run_wait(const arguments& given) {
  const auto wait = duration(given, "--timeout", most_wait, 0ms, most_wait);
  client node(given);
  const json wish{{"wait", config::format_duration(wait)}, {"ttl", "10s"}, {"owner", owner()}};
  const auto got =
      node.ask({"POST", path_of(given.get("KEY"), "acquire"), wish.dump(), "application/json", {}, wait + moment});
  (void)node.send({"POST", path_of(given.get("KEY"), "release"), json{{"value", text(got, "value")}}.dump()});
  if (given.has("--json")) print_json({{"key", given.get("KEY")}, {"free", true}});
  return exit_done;
}

/// The lock as the command's run sees it.
class held_lock final : public run_guard {
public:
  held_lock(client& node, std::string key, milliseconds ttl, const json& got)
      : node_(node), key_(std::move(key)), ttl_(ttl), value_(text(got, "value")), until_(clock::now() + ttl) {}
  ~held_lock() override {
    if (lost_) return;
    try {
      (void)node_.send({"POST", path_of(key_, "release"), json{{"value", value_}}.dump(), "application/json", {}, 5s});
    } catch (const std::exception&) {  // it ends by itself
    }
  }

  [[nodiscard]] milliseconds every() const override { return retrying_ ? std::max(ttl_ / 20, 50ms) : ttl_ / 3; }

  std::string renew() override {
    const auto sent = clock::now();
    try {
      const auto left = std::chrono::duration_cast<milliseconds>(until_ - sent);
      if (left <= 0ms) return lose("it could not be renewed in time");
      const auto answer =
          node_.send({"POST", path_of(key_, "extend"), json{{"value", value_}}.dump(), "application/json", {}, left});
      if (answer.status == 200) {
        until_ = sent + ttl_ - margin();
        retrying_ = false;
        return {};
      }
      if (answer.status < 500) return lose(words_of(answer));
    } catch (const stop&) {  // no node answers: it may again
    }
    retrying_ = true;
    return clock::now() >= until_ ? lose("it could not be renewed in time") : std::string();
  }

private:
  [[nodiscard]] milliseconds margin() const { return std::min<milliseconds>(ttl_ / 10, 1s); }
  std::string lose(std::string why) {
    lost_ = true;
    return why;
  }

  client& node_;
  const std::string key_;
  const milliseconds ttl_;
  const std::string value_;
  clock::time_point until_;
  bool retrying_ = false;
  bool lost_ = false;
};

exit_code run_hold(const arguments& given) {
  const auto key = given.get("KEY");
  const auto command = given.all("COMMAND");
  if (command.empty()) throw stop(exit_usage, "there is no command to run; write it behind --");
  const auto wait = duration(given, "--timeout", most_wait, 0ms, most_wait);
  const auto ttl = duration(given, "--ttl", 30s, 1s, std::chrono::hours{24});
  const auto grace = duration(given, "--grace", 10s, 0ms, std::chrono::hours{24});
  client node(given);
  const json wish{{"wait", config::format_duration(wait)},
                  {"ttl", config::format_duration(ttl)},
                  {"owner", given.get("--owner", owner())}};
  const auto got = node.ask({"POST", path_of(key, "acquire"), wish.dump(), "application/json", {}, wait + moment});
  held_lock held(node, key, ttl, got);
  // When it was granted is not known, only that it was during the call: the first renewal tells from when it counts.
  if (const auto why = held.renew(); !why.empty()) throw stop(exit_refused, "lock \"" + key + "\" is lost: " + why);
  return static_cast<exit_code>(run_under(
      held, command,
      {"CARAVAN_LOCK_KEY=" + key, "CARAVAN_LOCK_TOKEN=" + std::to_string(got.value("token", std::uint64_t{0}))},
      "lock \"" + key + "\"", grace));
}

option key_operand() { return {"KEY", "", "The lock's name", times::once}; }

}  // namespace

std::vector<verb> lock_verbs() {
  return {
      {"lock", "ls", "Lists who holds what and how many wait.", {}, "caravan lock ls", run_ls, talks_to::node},
      {"lock",
       "show",
       "Shows one lock: its holder and who waits.",
       {key_operand()},
       "caravan lock show nightly",
       run_show,
       talks_to::node},
      {"lock",
       "hold",
       "Runs a command under a lock.",
       {key_operand(),
        {"COMMAND", "", "The command and its arguments, behind --", times::any},
        {"--timeout", "DURATION", "Waits at most so long for the lock; 24h without it, 0s: not at all"},
        {"--ttl", "DURATION", "The lock is free so long after this program was killed; 30s without it"},
        {"--grace", "DURATION", "How long the command may take to end when the lock is lost; 10s without it"},
        {"--owner", "NAME", "Who, for lists; USER@HOST:PID without it"}},
       "caravan lock hold nightly --timeout 0s -- ./backup.sh",
       run_hold,
       talks_to::node,
       "The command finds the key in CARAVAN_LOCK_KEY and the fencing token in CARAVAN_LOCK_TOKEN: the token only "
       "grows "
       "from holder to holder, so what the command writes to can refuse an outdated one. The lock is renewed as long "
       "as "
       "the command runs. When it is lost the command gets SIGTERM, and SIGKILL after the grace, with everything that "
       "it "
       "started. The exit code is that of the command, 128 and the signal when it was killed by one; 1 when the lock "
       "stayed taken or was lost, 3 when no node answered. SIGINT and SIGTERM go to the command."},
      {"lock",
       "release",
       "Takes a lock from whoever holds it; the next in line gets it.",
       {key_operand(), {"--force", "", "Yes, although its holder may still be at work"}},
       "caravan lock release nightly --force",
       run_release,
       talks_to::node},
      {"lock",
       "wait",
       "Waits until a lock is free: stands in line, and leaves at once.",
       {key_operand(), {"--timeout", "DURATION", "At most so long; 24h without it"}},
       "caravan lock wait nightly --timeout 1h",
       run_wait,
       talks_to::node}};
}

}  // namespace caravan::cli
