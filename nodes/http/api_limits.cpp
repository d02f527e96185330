#include "nodes/http/api_json.hpp"
#include "nodes/http/api_parts.hpp"
#include "nodes/limit_host.hpp"
#include "nodes/node_runtime.hpp"

#include <array>
#include <limits>

namespace caravan::http {

namespace {

using limit_ptr = std::shared_ptr<hosted_limit>;

ordered_json to_json(const hosted_limit& l) {
  const auto& s = l.settings();
  const auto r = l.rule();
  const auto n = l.statistics();
  constexpr std::array<std::string_view, 3> down{"closed", "open", "local"};
  const bool period = r.how == rate_rule::kind::period;
  return {{"name", s.name},
          {"kind", period ? "period" : "tokens"},
          {"rate", r.rate},
          {"per_ms", r.per.count()},
          {"burst", period ? ordered_json(nullptr) : ordered_json(r.burst)},
          {"store", s.store == config::limit_store::redis ? "redis" : "memory"},
          {"when_down", down[static_cast<std::size_t>(s.down)]},
          {"down", n.down},
          {"taken", n.taken},
          {"refused", n.refused},
          {"failures", n.failures}};
}

struct key_and_count {
  std::string key;
  std::uint64_t n = 1;
};

expected<key_and_count> read_take(const request& r, bool with_count) {
  const auto body = parse_json(r.body);
  if (!body) return error{body.failure().code, "the body: " + body.failure().text};
  object_reader in(*body, with_count ? "the take" : "the reset");
  key_and_count out;
  const auto key = in.text("key");
  if (!key) in.complain("needs \"key\", a text");
  if (with_count)
    out.n = static_cast<std::uint64_t>(in.whole_number("n", 1, std::numeric_limits<std::int64_t>::max()).value_or(1));
  constexpr std::array<std::string_view, 2> known{"key", "n"};
  if (const auto ok = in.done(std::span(known).first(with_count ? 2 : 1)); !ok) return ok.failure();
  out.key = *key;
  return out;
}

void take(const limit_ptr& l, const request& r, const responder& answer) {
  const auto asked = read_take(r, true);
  if (!asked) return void(answer.reply(asked.failure()));
  const auto permitted = l->take(asked->key, asked->n);
  if (permitted)
    answer.reply(json_response(dump({{"limit", l->settings().name}, {"permitted", *permitted}})));
  else
    answer.reply(permitted.failure());
}

void reset(const limit_ptr& l, const request& r, const responder& answer) {
  const auto asked = read_take(r, false);
  if (!asked) return void(answer.reply(asked.failure()));
  if (const auto done = l->reset(asked->key); !done) return void(answer.reply(done.failure()));
  answer.reply(json_response(dump({{"limit", l->settings().name}, {"reset", true}})));
}

void set_rate(const limit_ptr& l, const request& r, const responder& answer) {
  const auto body = parse_json(r.body);
  if (!body) return void(answer.reply(error{body.failure().code, "the body: " + body.failure().text}));
  object_reader in(*body, "the rate");
  constexpr std::int64_t most = 1'000'000'000;
  auto rule = l->rule();
  const auto rate = in.whole_number("rate", 0, most);
  const auto burst = in.whole_number("burst", 1, most);
  const auto per = in.duration("per");
  if (!rate) in.complain("needs \"rate\", a whole number");
  if (per && (*per < std::chrono::milliseconds{1} || *per > std::chrono::hours{720}))
    in.complain("\"per\" must be from 1ms to 720h");
  if (burst && rule.how == rate_rule::kind::period) in.complain("has \"burst\", which means nothing for KIND = period");
  constexpr std::array<std::string_view, 3> known{"rate", "burst", "per"};
  if (const auto ok = in.done(known); !ok) return void(answer.reply(ok.failure()));
  rule.rate = static_cast<std::uint64_t>(*rate);
  if (burst) rule.burst = static_cast<std::uint64_t>(*burst);
  if (per) rule.per = *per;
  if (const auto ok = l->set_rule(rule); !ok) return void(answer.reply(ok.failure()));
  answer.reply(json_response(dump(to_json(*l))));
}

using limit_handler = void (*)(const limit_ptr&, const request&, const responder&);

/// A store in a server may take its time, so it is not asked on an I/O thread.
handler on_limit(api a, limit_handler h) {
  return [a, h](request r, const responder& to) {
    const auto l = a.node.limits().find(r.param("limit"));
    if (!l) return void(to.reply(l.failure()));
    if ((*l)->settings().store == config::limit_store::memory) return h(*l, r, to);
    a.web.post_blocking(to, [h, l = *l, r = std::move(r)](const responder& answer) { h(l, r, answer); });
  };
}

}  // namespace

void add_limit_routes(api a) {
  a.web.route("GET", "/v1/limits", role::read, [a](const request&, const responder& answer) {
    auto list = ordered_json::array();
    for (const auto& l : a.node.limits().all()) list.push_back(to_json(*l));
    answer.reply(json_response(dump({{"limits", std::move(list)}})));
  });
  // With the keys, which may say who somebody is.
  a.web.route("GET", "/v1/limits/{limit}", role::admin, [a](const request& r, const responder& answer) {
    const auto l = a.node.limits().find(r.param("limit"));
    if (!l) return void(answer.reply(l.failure()));
    auto out = to_json(**l);
    auto top = ordered_json::array();
    constexpr std::size_t shown = 100;
    for (const auto& u : (*l)->top(shown)) top.push_back({{"key", u.key}, {"taken", u.taken}, {"refused", u.refused}});
    out["top"] = std::move(top);
    answer.reply(json_response(dump(out)));
  });
  change_route(a, "POST", "/v1/limits/{limit}/take", role::work, on_limit(a, take));
  change_route(a, "POST", "/v1/limits/{limit}/reset", role::admin, on_limit(a, reset));
  change_route(a, "PUT", "/v1/limits/{limit}/rate", role::admin, on_limit(a, set_rate));
}

}  // namespace caravan::http
