#include "actors/event/event_pattern.hpp"
#include "nodes/event_host.hpp"
#include "nodes/http/api_json.hpp"
#include "nodes/http/api_parts.hpp"
#include "nodes/http/ask.hpp"
#include "nodes/node_runtime.hpp"

#include <algorithm>
#include <array>
#include <charconv>

namespace caravan::http {

namespace {

using namespace std::chrono_literals;

constexpr auto patience = 10s;
constexpr std::size_t most_chunks = 8;  ///< that wait for a slow client; what comes then stays in its buffer
constexpr std::int64_t most_recent = 1'000;

std::string id_text(const std::string& run, std::uint64_t number) { return run + "-" + std::to_string(number); }

ordered_json to_json(const std::string& run, std::uint64_t number, const event& e) {
  auto body = ordered_json::parse(e.body, nullptr, false);
  if (body.is_discarded()) body = e.body;  // from a node that writes something else
  return {{"id", id_text(run, number)},
          {"topic", e.topic},
          {"subject", e.subject},
          {"node", e.node},
          {"at", format_instant(system_time{e.at})},
          {"body", std::move(body)}};
}

/// One client that listens. Its events wait in the bus's buffer, not here.
class stream_receiver final : public event_receiver {
public:
  explicit stream_receiver(event_stream to) : to_(std::move(to)) {}

  next take(const std::string& run, event_core::handed some) override {
    std::string text;
    if (some.gap)
      text += sse_event(R"({"dropped":null,"why":"what came after the given id is not kept any more"})", "dropped");
    if (some.dropped > 0)
      text += sse_event(dump({{"dropped", some.dropped}, {"why", "they came faster than this client took them"}}),
                        "dropped");
    for (const auto& e : some.events)
      text += sse_event(dump(to_json(run, e->number, e->what)), {}, id_text(run, e->number));
    if (!to_.send(std::move(text))) return next::gone;
    return is_ready() ? next::ready : next::look_again;
  }
  [[nodiscard]] bool is_ready() override { return to_.closed() || to_.waiting() < most_chunks; }

private:
  const event_stream to_;
};

/// topic=queue.*,job.dead and subject=mail; each may be absent.
expected<std::vector<event_filter>> read_filters(const request& r) {
  const std::string subject(r.query_value("subject").value_or(""));
  auto topics = r.query_value("topic").value_or("");
  std::vector<event_filter> filters;
  if (topics.empty()) topics = "#";
  while (!topics.empty()) {
    const auto comma = topics.find(',');
    const auto one = topics.substr(0, comma);
    if (const auto ok = check_pattern(one); !ok) return ok.failure();
    filters.push_back({std::string(one), subject});
    if (filters.size() > 64) return {errc::invalid_argument, "topic: at most 64 patterns at once"};
    topics = comma == std::string_view::npos ? std::string_view{} : topics.substr(comma + 1);
  }
  return filters;
}

expected<std::optional<event_wish::position>> read_position(const request& r) {
  auto text = r.last_event_id();  // a client that comes back knows better than its URL
  if (text.empty()) text = r.query_value("after").value_or("");
  if (text.empty()) return std::optional<event_wish::position>();
  const auto dash = text.rfind('-');
  event_wish::position at;
  if (dash != std::string_view::npos) {
    at.run = text.substr(0, dash);
    const auto* end = text.data() + text.size();
    const auto got = std::from_chars(text.data() + dash + 1, end, at.number);
    if (got.ec == std::errc() && got.ptr == end && !at.run.empty()) return std::optional(at);
  }
  return {errc::invalid_argument, "after, or Last-Event-ID: \"" + std::string(text.substr(0, 64)) +
                                      "\" is no id of an event; take it from an event as it is"};
}

void follow(const api& a, const request& r, const responder& answer) {
  auto filters = read_filters(r);
  if (!filters) return void(answer.reply(filters.failure()));
  const auto after = read_position(r);
  if (!after) return void(answer.reply(after.failure()));
  event_wish wish;
  wish.filters = std::move(*filters);
  wish.after = *after;
  const auto stream = answer.stream();
  const auto door = a.node.events()->door();
  const auto id = door->subscribe(std::move(wish), std::make_shared<stream_receiver>(stream));
  stream.on_close([weak = std::weak_ptr(door), id] {
    if (const auto there = weak.lock()) there->unsubscribe(id);
  });
}

void recent(const api& a, const request& r, const responder& answer) {
  auto filters = read_filters(r);
  if (!filters) return void(answer.reply(filters.failure()));
  std::int64_t most = 100;
  if (const auto text = r.query_value("limit")) {
    const auto* end = text->data() + text->size();
    const auto got = std::from_chars(text->data(), end, most);
    if (got.ec != std::errc() || got.ptr != end || most < 1 || most > most_recent)
      return void(answer.reply(
          error{errc::invalid_argument, "limit: must be a whole number from 1 to " + std::to_string(most_recent)}));
  }
  ask(a.node.system(), a.node.events()->bus(), get_recent_events{std::move(*filters), static_cast<std::uint32_t>(most)},
      patience, [answer](expected<event_list> got) {
        if (!got) return void(answer.reply(got.failure()));
        auto list = ordered_json::array();
        for (const auto& e : got->events) list.push_back(to_json(got->run, e.number, e.what));
        answer.reply(json_response(dump({{"events", std::move(list)}})));
      });
}

void topics(const api& a, const responder& answer) {
  ask(a.node.system(), a.node.events()->bus(), get_event_status{}, patience, [answer](expected<event_status> got) {
    if (!got) return void(answer.reply(got.failure()));
    auto list = ordered_json::array();
    for (const auto& t : event_topics) {
      const auto at =
          std::find_if(got->topics.begin(), got->topics.end(), [&](const auto& x) { return x.topic == t.name; });
      list.push_back(
          {{"topic", t.name}, {"count", at == got->topics.end() ? 0 : at->count}, {"only_while_listened_to", t.often}});
    }
    for (const auto& t : got->topics)
      if (std::none_of(event_topics.begin(), event_topics.end(), [&](const auto& x) { return x.name == t.topic; }))
        list.push_back({{"topic", t.topic}, {"count", t.count}, {"only_while_listened_to", false}});
    answer.reply(json_response(dump({{"topics", std::move(list)},
                                     {"subscribers", got->subscribers},
                                     {"nodes", got->nodes},
                                     {"drafts", got->drafts},
                                     {"held_back", got->held_back},
                                     {"dropped", got->dropped},
                                     {"refused", got->refused}})));
  });
}

void publish(const api& a, const request& r, const responder& answer) {
  const auto body = parse_json(r.body);
  if (!body) return void(answer.reply(error{body.failure().code, "the body: " + body.failure().text}));
  object_reader in(*body, "the event");
  const auto topic = in.text("topic");
  if (!topic) in.complain("needs \"topic\", a text that begins with app.");
  event e;
  e.subject = in.text("subject").value_or("");
  const auto* content = in.any("body");
  const auto* draft = in.any("draft");
  if (draft && !draft->is_boolean()) in.complain("\"draft\" must be true or false");
  constexpr std::array<std::string_view, 4> known{"topic", "subject", "body", "draft"};
  if (const auto ok = in.done(known); !ok) return void(answer.reply(ok.failure()));
  e.topic = *topic;
  e.body = content ? content->dump() : "{}";
  const bool is_draft = draft && draft->get<bool>();
  if (const auto ok = a.node.events()->publish(std::move(e), is_draft); !ok) return void(answer.reply(ok.failure()));
  answer.reply(json_response(dump({{"topic", *topic}, {"draft", is_draft}}), 202));
}

}  // namespace

void add_event_routes(api a) {
  a.web.route("GET", "/v1/events", role::read, [a](const request& r, const responder& to) { follow(a, r, to); });
  a.web.route("GET", "/v1/events/recent", role::read, [a](const request& r, const responder& to) { recent(a, r, to); });
  a.web.route("GET", "/v1/events/topics", role::read, [a](const request&, const responder& to) { topics(a, to); });
  change_route(a, "POST", "/v1/events", role::admin, [a](const request& r, const responder& to) { publish(a, r, to); });
}

}  // namespace caravan::http
