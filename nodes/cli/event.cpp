#include "nodes/cli/client.hpp"
#include "nodes/cli/table.hpp"
#include "nodes/cli/verbs.hpp"

#include "config/values.hpp"

#include <chrono>
#include <cstdio>
#include <thread>

namespace caravan::cli {

namespace {

using json = nlohmann::ordered_json;

constexpr std::chrono::seconds pause_between_tries{1};

/// What a stream says, in messages: "data:" lines up to an empty one.
class stream_reader {
public:
  struct message {
    std::string id;
    std::string kind;  ///< empty: an event
    std::string data;
  };
  /// False as soon as `each` says so.
  template <class Each>
  bool read(std::string_view part, Each each) {
    text_ += part;
    for (;;) {
      const auto end = text_.find('\n');
      if (end == std::string::npos) return true;
      const auto line = text_.substr(0, end);
      text_.erase(0, end + 1);
      if (line.empty()) {
        auto done = std::exchange(now_, {});
        if (!done.data.empty() && !each(done)) return false;
      } else if (line.starts_with("id: ")) {
        now_.id = line.substr(4);
      } else if (line.starts_with("event: ")) {
        now_.kind = line.substr(7);
      } else if (line.starts_with("data: ")) {
        if (!now_.data.empty()) now_.data += '\n';
        now_.data += line.substr(6);
      }
    }
  }

private:
  std::string text_;
  message now_;
};

void print_line(const stream_reader::message& m, bool as_json) {
  if (as_json) {
    if (m.kind.empty())
      std::printf("%s\n", m.data.c_str());
    else
      std::fprintf(stderr, "%s: %s\n", clean(m.kind).c_str(), m.data.c_str());
  } else {
    const auto e = json::parse(m.data, nullptr, false);
    if (!e.is_object()) return;
    if (m.kind == "dropped") {
      const auto n = e.value("dropped", json());
      std::printf("-- %s events are missing: %s\n", n.is_number() ? n.dump().c_str() : "some",
                  clean(e.value("why", "")).c_str());
    } else {
      const auto body = e.value("body", json::object());
      std::printf("%s  %-12s %-20s %s  %s\n", clean(e.value("at", "")).c_str(), clean(e.value("node", "")).c_str(),
                  clean(e.value("topic", "")).c_str(), clean(e.value("subject", "")).c_str(),
                  clean(body.dump(-1, ' ', false, json::error_handler_t::replace)).c_str());
    }
  }
  std::fflush(stdout);
}

std::string query_of(const arguments& given) {
  std::string out;
  const auto add = [&](const char* name, const std::string& value) {
    out += (out.empty() ? "?" : "&") + std::string(name) + "=" + path_segment(value);
  };
  std::string topics;
  for (const auto& t : given.all("--topic")) topics += (topics.empty() ? "" : ",") + t;
  if (!topics.empty()) add("topic", topics);
  if (const auto s = given.find("--subject")) add("subject", *s);
  return out;
}

exit_code run_tail(const arguments& given) {
  std::int64_t left = -1;
  if (const auto text = given.find("--count")) {
    const auto n = config::parse_integer(*text);
    if (!n || *n < 1) throw stop(exit_usage, "--count: \"" + clean(*text) + "\" is no whole number from 1 on");
    left = *n;
  }
  client node(given);
  auto last = given.get("--after");
  const auto path = "/v1/events" + query_of(given);
  const bool as_json = given.has("--json");
  bool connected = false;
  for (;;) {
    stream_reader reader;
    try {
      const bool enough = node.follow(path, last, [&](std::string_view part) {
        connected = true;
        return reader.read(part, [&](const stream_reader::message& m) {
          if (!m.id.empty()) last = m.id;
          print_line(m, as_json);
          return !m.kind.empty() || left < 0 || --left > 0;
        });
      });
      if (enough) return exit_done;
      std::fprintf(stderr, "the stream ended; trying again\n");
    } catch (const stop& why) {
      // One that was there may come back; one that never was is a mistake.
      if (!connected || why.code() != exit_no_node) throw;
    }
    std::this_thread::sleep_for(pause_between_tries);
  }
}

exit_code run_publish(const arguments& given) {
  const auto text = given.get("JSON", "{}");
  auto body = json::parse(text, nullptr, false);
  if (body.is_discarded()) throw stop(exit_usage, "JSON: \"" + clean(shortened(text, 60)) + "\" is no JSON");
  json call{{"topic", given.get("TOPIC")}, {"body", std::move(body)}};
  if (const auto s = given.find("--subject")) call["subject"] = *s;
  if (given.has("--draft")) call["draft"] = true;
  client node(given);
  const auto answer = node.ask({"POST", "/v1/events", call.dump(-1, ' ', false, json::error_handler_t::replace)});
  if (given.has("--json"))
    print_json(answer);
  else
    std::printf("%s: %s\n", clean(given.get("TOPIC")).c_str(),
                answer.value("draft", false) ? "a draft, so nobody was told" : "published");
  return exit_done;
}

exit_code run_ls(const arguments& given) {
  client node(given);
  const auto answer = node.ask({"GET", "/v1/events/topics"});
  if (given.has("--json")) {
    print_json(answer);
    return exit_done;
  }
  table t({{"TOPIC"}, {"COUNT", side::right}, {""}});
  for (const auto& x : answer["topics"])
    t.add({clean(x.value("topic", "")), std::to_string(x.value("count", std::uint64_t{0})),
           x.value("only_while_listened_to", false) ? "only while somebody listens" : ""});
  t.print();
  const auto number = [&](const char* name) { return std::to_string(answer.value(name, std::uint64_t{0})); };
  std::printf("\n%s subscribers, of them %s nodes; drafts %s, held back %s, dropped %s, refused %s\n",
              number("subscribers").c_str(), number("nodes").c_str(), number("drafts").c_str(),
              number("held_back").c_str(), number("dropped").c_str(), number("refused").c_str());
  return exit_done;
}

option subject_option() { return {"--subject", "NAME", "What it is about: the name of a queue, a task, a lock ..."}; }

}  // namespace

std::vector<verb> event_verbs() {
  return {{"event",
           "tail",
           "Shows events as they happen.",
           {{"--topic", "PATTERN", "queue.*, job.dead, app.#; all without it", times::any},
            subject_option(),
            {"--after", "ID", "First those that came after the event of this id, as far as they are kept"},
            {"--count", "N", "Ends after so many"}},
           "caravan event tail --topic 'job.*' --subject mail",
           run_tail,
           talks_to::node,
           "Runs until it is interrupted. When the node goes away it waits for it, and goes on where it was. With "
           "--json each event is one line. docs/events.md has the topics."},
          {"event",
           "publish",
           "Publishes an event of your own.",
           {{"TOPIC", "", "Begins with app.", times::once},
            {"JSON", "", "What it says", times::at_most_once},
            subject_option(),
            {"--draft", "", "Counts it and tells nobody"}},
           R"(caravan event publish app.deploy '{"version": 7}')",
           run_publish,
           talks_to::node},
          {"event",
           "ls",
           "Lists the topics with how often each was told.",
           {},
           "caravan event ls",
           run_ls,
           talks_to::node}};
}

}  // namespace caravan::cli
