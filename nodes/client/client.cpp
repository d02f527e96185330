#include <caravan/client.hpp>

#include "config/values.hpp"
#include "nodes/client/node_caller.hpp"
#include "nodes/http/api_json.hpp"
#include "toolbox/backoff.hpp"

#include <array>
#include <cstdio>
#include <mutex>
#include <random>
#include <thread>

namespace caravan {

using namespace std::chrono_literals;
using http::json;

namespace {

std::string new_key() {
  static thread_local std::random_device random;
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%08x%08x%08x%08x", random(), random(), random(), random());
  return text.data();
}

expected<json> to_json(item_draft&& d) {
  const auto& o = d.options;
  auto value = http::parse_json(d.payload);
  if (!value) return {errc::invalid_argument, "the item is no JSON: " + value.failure().text};
  json out{{"idempotency_key", o.idempotency_key}};
  out["payload"] = std::move(*value);
  if (o.delay > 0ms) out["delay"] = config::format_duration(o.delay);
  if (o.at != std::chrono::system_clock::time_point{}) out["at"] = http::format_instant(o.at);
  if (!o.key.empty()) out["key"] = o.key;
  if (o.max_attempts > 0) out["max_attempts"] = o.max_attempts;
  if (o.timeout > 0ms) out["timeout"] = config::format_duration(o.timeout);
  for (const auto& [name, v] : o.headers) out["headers"][name] = v;
  return out;
}

std::string text_of(const json& from, const char* name) {
  const auto at = from.find(name);
  return at != from.end() && at->is_string() ? at->get<std::string>() : std::string{};
}
template <class T>
T number_of(const json& from, const char* name) {
  const auto at = from.find(name);
  return at != from.end() && at->is_number() ? at->get<T>() : T{};
}
std::chrono::system_clock::time_point instant_of(const json& from, const char* name) {
  return http::parse_instant(text_of(from, name)).value_or(std::chrono::system_clock::time_point{});
}

}  // namespace

struct client::impl {
  explicit impl(client_options o)
      : options(std::move(o)), addresses(node_addresses::parse(options.addresses).value()) {}

  client_options options;
  std::shared_ptr<node_addresses> addresses;
  std::mutex mutex;
  std::vector<std::unique_ptr<node_caller>> idle;  ///< with their connections

  /// Says it until a node has answered for good.
  expected<json> ask(node_call c, std::chrono::milliseconds beyond = {}) {
    const auto end = std::chrono::steady_clock::now() + options.timeout + beyond;
    std::unique_ptr<node_caller> caller;
    {
      const std::lock_guard lock(mutex);
      if (!idle.empty()) {
        caller = std::move(idle.back());
        idle.pop_back();
      }
    }
    if (!caller) caller = std::make_unique<node_caller>(addresses, caller_options{options.token, options.tls_ca});
    toolbox::backoff pause{{.first = 50ms, .most = 1s}};
    expected<json> last = error{errc::timed_out, "no node answered in time"};
    for (;;) {
      const auto left = std::chrono::floor<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
      if (left <= 0ms) break;
      c.timeout = left;
      const auto answer = caller->call(c);
      bool again = false;
      if (!answer) {
        last = answer.failure();
        again = true;
      } else if (answer->status >= 200 && answer->status < 300) {
        last = http::parse_json(answer->body);
      } else {
        last = answer->failure();
        again = answer->status == 503 || answer->status == 504 || answer->status == 429;
      }
      if (!again) break;
      auto wait = pause.next();
      if (answer && answer->retry_after > 0ms) wait = std::max<std::chrono::nanoseconds>(wait, answer->retry_after);
      if (std::chrono::steady_clock::now() + wait >= end) break;
      std::this_thread::sleep_for(wait);
    }
    const std::lock_guard lock(mutex);
    idle.push_back(std::move(caller));
    return last;
  }

  expected<json> post(const std::string& path, const json& body, std::chrono::milliseconds beyond = {}) {
    node_call c;
    c.method = "POST";
    c.path = path;
    c.body = body.dump();
    return ask(std::move(c), beyond);
  }
  expected<json> get(const std::string& path) {
    node_call c;
    c.path = path;
    return ask(std::move(c));
  }
};

client::client(client_options options) : impl_(std::make_unique<impl>(std::move(options))) {}
client::~client() = default;

expected<std::string> client::push_one(const std::string& queue, item_draft draft) {
  if (draft.options.idempotency_key.empty()) draft.options.idempotency_key = new_key();
  const auto job = to_json(std::move(draft));
  if (!job) return job.failure();
  const auto done = impl_->post("/v1/queues/" + path_segment(queue) + "/jobs", *job);
  if (!done) return done.failure();
  return text_of(*done, "id");
}

expected<std::vector<pushed_job>> client::push_drafts(const std::string& queue, std::vector<item_draft> drafts) {
  if (drafts.empty()) return std::vector<pushed_job>{};
  // A key that was given is that of the whole call: each item gets it with its place behind it.
  const auto base = new_key();
  auto jobs = json::array();
  for (std::size_t i = 0; i < drafts.size(); ++i) {
    auto& key = drafts[i].options.idempotency_key;
    key = (key.empty() ? base : key) + "." + std::to_string(i);
    auto job = to_json(std::move(drafts[i]));
    if (!job) return job.failure();
    jobs.push_back(std::move(*job));
  }
  const auto done = impl_->post("/v1/queues/" + path_segment(queue) + "/jobs", jobs);
  if (!done) return done.failure();
  std::vector<pushed_job> list;
  const auto at = done->find("jobs");
  if (at == done->end() || !at->is_array())
    return {errc::backend_failed, "the node answers a push with something that is no list of jobs"};
  for (const auto& j : *at) {
    pushed_job p;
    p.id = text_of(j, "id");
    if (p.id.empty()) p.id = text_of(j, "holder");
    p.stored = j.value("stored", false);
    p.repeated = j.value("repeated", false);
    list.push_back(std::move(p));
  }
  return list;
}

expected<queue_info> client::status(const std::string& queue) {
  const auto got = impl_->get("/v1/queues/" + path_segment(queue));
  if (!got) return got.failure();
  queue_info i;
  i.name = text_of(*got, "name");
  i.type = text_of(*got, "type");
  i.item_type = text_of(*got, "item_type");
  i.phase = text_of(*got, "phase");
  i.owner = text_of(*got, "owner");
  i.trouble = text_of(*got, "trouble");
  i.paused_by = text_of(*got, "paused_by");
  i.handler = text_of(*got, "handler");
  i.paused_until = instant_of(*got, "paused_until");
  i.oldest_waiting = instant_of(*got, "oldest_waiting");
  i.unique = got->value("unique", false);
  i.id = number_of<std::uint64_t>(*got, "id");
  for (const auto& [name, field] : {std::pair<const char*, std::uint64_t*>{"waiting", &i.waiting},
                                    {"running", &i.running},
                                    {"delayed", &i.delayed},
                                    {"dead", &i.dead},
                                    {"pushed", &i.pushed},
                                    {"handled", &i.handled},
                                    {"failed", &i.failed},
                                    {"returned", &i.returned},
                                    {"died", &i.died},
                                    {"removed", &i.removed},
                                    {"redelivered", &i.redelivered},
                                    {"leases_lost", &i.leases_lost},
                                    {"length", &i.length}})
    *field = number_of<std::uint64_t>(*got, name);
  i.workers = number_of<std::uint32_t>(*got, "workers");
  i.active = number_of<std::uint32_t>(*got, "active");
  i.abandoned = number_of<std::uint32_t>(*got, "abandoned");
  i.max_workers = number_of<std::int32_t>(*got, "max_workers");
  return i;
}

expected<job_info> client::find(const std::string& id) {
  const auto parsed = parse_job_id(id);
  if (!parsed) return {errc::invalid_argument, "\"" + id + "\" is no job's id; it looks like mail.01hq3k5v2x8rt"};
  const auto got = impl_->get("/v1/jobs/" + path_segment(id));
  if (!got) return got.failure();
  job_info j;
  j.id = parsed->item;
  j.state = text_of(*got, "state");
  if (const auto at = got->find("payload"); at != got->end()) j.payload = at->dump();
  j.key = text_of(*got, "key");
  j.last_error = text_of(*got, "last_error");
  j.attempts = number_of<std::uint32_t>(*got, "attempts");
  j.pushed_at = instant_of(*got, "pushed_at");
  j.due = instant_of(*got, "due");
  j.finished_at = instant_of(*got, "finished_at");
  if (const auto at = got->find("headers"); at != got->end() && at->is_object())
    for (const auto& [name, v] : at->items())
      if (v.is_string()) j.headers.emplace_back(name, v.get<std::string>());
  return j;
}

namespace {

expected<remote_lock> to_lock(const std::string& key, const expected<json>& got) {
  if (!got) return got.failure();
  remote_lock l;
  l.key = key;
  l.value = text_of(*got, "value");
  l.token = number_of<std::uint64_t>(*got, "token");
  if (const auto left = config::parse_duration(text_of(*got, "remaining")))
    l.remaining = std::chrono::floor<std::chrono::milliseconds>(*left);
  return l;
}

}  // namespace

expected<remote_lock> client::lock(const std::string& key, std::chrono::milliseconds wait,
                                   std::chrono::milliseconds ttl) {
  return to_lock(key,
                 impl_->post("/v1/locks/" + path_segment(key) + "/acquire",
                             {{"wait", config::format_duration(wait)}, {"ttl", config::format_duration(ttl)}}, wait));
}

expected<remote_lock> client::extend(const remote_lock& held) {
  return to_lock(held.key, impl_->post("/v1/locks/" + path_segment(held.key) + "/extend", {{"value", held.value}}));
}

expected<void> client::release(const remote_lock& held) {
  const auto done = impl_->post("/v1/locks/" + path_segment(held.key) + "/release", {{"value", held.value}});
  if (!done) return done.failure();
  return {};
}

}  // namespace caravan
