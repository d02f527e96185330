#include "config/values.hpp"
#include "nodes/http/api_json.hpp"
#include "nodes/http/api_parts.hpp"
#include "nodes/http/lock_ask.hpp"
#include "nodes/node_runtime.hpp"

#include <array>
#include <atomic>
#include <charconv>
#include <random>

namespace caravan::http {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

namespace {

constexpr auto most_wait = std::chrono::hours{24};
constexpr auto least_ttl = 100ms;
constexpr auto most_ttl = std::chrono::hours{24};

std::uint64_t new_request() {
  static const std::uint64_t start = std::random_device{}();
  static std::atomic<std::uint64_t> next{0};
  return (start << 32) + ++next;
}

// A JSON number of 64 bits would be changed by many readers.
std::string value_text(std::uint64_t value) {
  std::array<char, 16> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value, 16).ptr;
  return {digits.data(), end};
}
std::optional<std::uint64_t> parse_value(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (wrong != std::errc() || end != text.data() + text.size() || value == 0) return std::nullopt;
  return value;
}

ordered_json duration_or_null(milliseconds d) {
  if (d < 0ms) return nullptr;
  return config::format_duration(d);
}

ordered_json to_json(const lock_user_status& u) {
  return {{"node", u.node},
          {"owner", u.owner},
          {"since", instant_or_null(std::chrono::system_clock::time_point{u.since.time_since_epoch()})}};
}

ordered_json to_json(const lock_status& s) {
  auto waiters = ordered_json::array();
  for (const auto& w : s.waiters) waiters.push_back(to_json(w));
  return {{"key", s.key},
          {"holder", to_json(s.holder)},
          {"token", s.token},
          {"remaining", duration_or_null(s.remaining)},
          {"ttl", s.lease > 0ms ? duration_or_null(s.lease) : ordered_json(nullptr)},
          {"waiting", s.waiting},
          {"waiters", std::move(waiters)}};
}

response granted(const std::string& key, const lock_granted& g) {
  return json_response(dump({{"key", key},
                             {"value", value_text(g.value)},
                             {"token", g.token},
                             {"remaining", duration_or_null(g.remaining)}}));
}

template <class T>
on_answer<T> then_reply(const responder& answer, std::function<response(const T&)> good) {
  return [answer, good = std::move(good)](expected<T> got) {
    if (got)
      answer.reply(good(*got));
    else
      answer.reply(got.failure());
  };
}

expected<json> body_of(const request& r) {
  if (r.body.find_first_not_of(" \t\r\n") == std::string::npos) return json::object();
  auto body = parse_json(r.body);
  if (!body) return error{body.failure().code, "the body: " + body.failure().text};
  return body;
}

void list(const api& a, const request& r, const responder& answer) {
  const auto limit = config::parse_integer(r.query_value("limit").value_or("1000"));
  if (!limit || *limit < 1 || *limit > 10'000) {
    answer.reply(error{errc::invalid_argument, "?limit= must be a whole number from 1 to 10000"});
    return;
  }
  ask(a.node.system(), a.node.locks().actor(), get_locks{{}, static_cast<std::uint32_t>(*limit)}, ask_patience,
      then_reply<lock_list>(answer, [](const lock_list& all) {
        auto locks = ordered_json::array();
        for (const auto& l : all.locks) locks.push_back(to_json(l));
        return json_response(dump({{"locks", std::move(locks)}}));
      }));
}

void show(const api& a, const request& r, const responder& answer) {
  const std::string key(r.param("key"));
  ask(a.node.system(), a.node.locks().actor(), get_locks{key, 1}, ask_patience,
      then_reply<lock_list>(answer, [key](const lock_list& all) {
        if (all.locks.empty()) return problem(error{errc::not_found, "lock \"" + key + "\": nobody holds it"});
        return json_response(dump(to_json(all.locks.front())));
      }));
}

void acquire(const api& a, const request& r, const responder& answer) {
  const auto body = body_of(r);
  if (!body) return void(answer.reply(body.failure()));
  object_reader in(*body, "the wish");
  acquire_lock wish;
  wish.request = new_request();
  wish.key = r.param("key");
  wish.wait = in.duration("wait").value_or(0ms);
  wish.lease = in.duration("ttl").value_or(std::min<milliseconds>(a.node.locks().settings().expiry, most_ttl));
  wish.label = in.text("owner", 256).value_or(r.remote);
  if (wish.wait > most_wait) in.complain("\"wait\" must be at most 24h");
  if (wish.lease < least_ttl || wish.lease > most_ttl) in.complain("\"ttl\" must be from 100ms to 24h");
  constexpr std::array<std::string_view, 3> known{"wait", "ttl", "owner"};
  if (const auto ok = in.done(known); !ok) return void(answer.reply(ok.failure()));
  const auto key = wish.key;
  if (wish.wait > 0ms) answer.step_aside();  // who stands in line for a lock is no load
  ask_while(
      a.node.system(), a.node.locks().actor(), std::move(wish), [answer] { return answer.client_left(); },
      then_reply<lock_granted>(answer, [key](const lock_granted& g) { return granted(key, g); }));
}

void extend(const api& a, const request& r, const responder& answer) {
  const auto body = body_of(r);
  if (!body) return void(answer.reply(body.failure()));
  object_reader in(*body, "the extension");
  const auto value = parse_value(in.text("value").value_or(""));
  if (!value) in.complain("needs \"value\" as acquire answered it");
  constexpr std::array<std::string_view, 1> known{"value"};
  if (const auto ok = in.done(known); !ok) return void(answer.reply(ok.failure()));
  const std::string key(r.param("key"));
  ask(a.node.system(), a.node.locks().actor(), extend_lock{key, *value}, ask_patience,
      then_reply<lock_granted>(answer, [key](const lock_granted& g) { return granted(key, g); }));
}

void release(const api& a, const request& r, const responder& answer) {
  const auto body = body_of(r);
  if (!body) return void(answer.reply(body.failure()));
  object_reader in(*body, "the release");
  release_lock what;
  what.key = r.param("key");
  const auto value = in.text("value");
  if (const auto* force = in.any("force")) {
    if (!force->is_boolean()) in.complain("\"force\" must be true or false");
    what.force = force->is_boolean() && force->get<bool>();
  }
  const auto number = parse_value(value.value_or(""));
  if (!what.force && !number) in.complain("needs \"value\" as acquire answered it, or \"force\": true");
  if (what.force && value) in.complain("has both \"value\" and \"force\"; give one");
  constexpr std::array<std::string_view, 2> known{"value", "force"};
  if (const auto ok = in.done(known); !ok) return void(answer.reply(ok.failure()));
  if (what.force && !r.granted.allows(role::admin)) {
    answer.reply(error{errc::forbidden, "to release what others hold needs a token with the role admin"});
    return;
  }
  what.value = number.value_or(0);
  ask(a.node.system(), a.node.locks().actor(), what, ask_patience,
      then_reply<ack>(answer, [key = what.key](const ack&) {
        return json_response(dump({{"key", key}, {"released", true}}));
      }));
}

}  // namespace

void add_lock_routes(api a) {
  a.web.route("GET", "/v1/locks", role::read, [a](const request& r, const responder& answer) { list(a, r, answer); });
  a.web.route("GET", "/v1/locks/{key}", role::read,
              [a](const request& r, const responder& answer) { show(a, r, answer); });
  const auto add = [a](std::string_view verb, void (*act)(const api&, const request&, const responder&)) {
    change_route(a, "POST", "/v1/locks/{key}/" + std::string(verb), role::work,
                 [a, act](const request& r, const responder& answer) { act(a, r, answer); });
  };
  add("acquire", acquire);
  add("extend", extend);
  add("release", release);
}

}  // namespace caravan::http
