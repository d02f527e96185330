#include "nodes/http/api_push.hpp"

#include "nodes/http/api_json.hpp"
#include "nodes/http/server/message.hpp"

#include <algorithm>
#include <array>
#include <limits>

namespace caravan::http {

using namespace std::chrono_literals;

namespace {

constexpr std::array<std::string_view, 15> known_fields{
    "payload",  "delay",    "at",       "key",   "idempotency_key", "max_attempts", "timeout",  "headers",
    "priority", "order_by", "deadline", "retry", "unique_until",    "unique_for",   "retention"};

void read_unique(object_reader& in, push_options& into) {
  into.unique_for = in.duration("unique_for").value_or(0ms);
  const auto text = in.text("unique_until");
  if (!text || text->empty()) return;
  if (*text == "start")
    into.unique_until = unique_until::start;
  else if (*text == "done")
    into.unique_until = unique_until::done;
  else if (*text == "success")
    into.unique_until = unique_until::success;
  else
    in.complain("\"unique_until\" must be \"start\", \"done\" or \"success\"; for a time write \"unique_for\"");
  if (into.unique_for > 0ms) in.complain("has both \"unique_until\" and \"unique_for\"; give one");
}

bool is_lines(std::string_view content_type) {
  const auto type = content_type.substr(0, content_type.find_first_of("; "));
  return std::ranges::any_of(std::array<std::string_view, 4>{"application/x-ndjson", "application/ndjson",
                                                             "application/jsonl", "application/x-jsonlines"},
                             [&](std::string_view t) { return equal_any_case(t, type); });
}

void read_headers(object_reader& in, push_options& into) {
  const auto* h = in.any("headers");
  if (!h || h->is_null()) return;
  if (!h->is_object()) return in.complain("\"headers\" must be an object of strings");
  for (const auto& [name, value] : h->items()) {
    if (!value.is_string()) return in.complain("header \"" + name + "\" must be a string");
    into.headers.emplace_back(name, value.get<std::string>());
  }
}

expected<item_draft> read_item(const json& job, const std::string& what, std::size_t max_item_size, system_time now) {
  object_reader in(job, what);
  item_draft d;
  auto& o = d.options;
  const auto* payload = in.any("payload");
  if (!payload) in.complain("has no \"payload\"; write {\"payload\": ANY JSON VALUE}");
  const auto delay = in.duration("delay");
  const auto at = in.instant("at");
  if (delay && at) in.complain("has both \"delay\" and \"at\"; give one");
  // A moment that is past means at once; the epoch itself would mean "none".
  if (at && *at > now) o.at = *at;
  o.delay = delay.value_or(0ms);
  o.key = in.text("key").value_or("");
  o.idempotency_key = in.text("idempotency_key").value_or("");
  o.max_attempts = static_cast<std::uint32_t>(
      in.whole_number("max_attempts", 0, std::numeric_limits<std::uint32_t>::max()).value_or(0));
  o.timeout = in.duration("timeout").value_or(0ms);
  o.priority = static_cast<std::int32_t>(in.whole_number("priority", -100, 100).value_or(0));
  o.order_by = in.text("order_by").value_or("");
  if (const auto deadline = in.instant("deadline")) o.deadline = *deadline;
  o.retry = in.text("retry").value_or("");
  o.retention = in.duration("retention").value_or(0ms);
  read_unique(in, o);
  read_headers(in, o);
  if (auto ok = in.done(known_fields); !ok) return ok.failure();
  d.payload = payload->dump();
  if (d.payload.size() > max_item_size)
    return {errc::too_large, what + ": a payload of " + std::to_string(d.payload.size()) +
                                 " bytes exceeds MAX_ITEM_SIZE = " + std::to_string(max_item_size) +
                                 "; store the data elsewhere and push a reference, or raise MAX_ITEM_SIZE"};
  return d;
}

error at_place(const std::string& what, const error& e) { return {e.code, what + ": " + e.text}; }

}  // namespace

expected<push_call> read_push(std::string_view body, const push_headers& headers, std::size_t max_item_size,
                              system_time now) {
  push_call call;
  const auto add = [&](const json& job, const std::string& what) -> expected<void> {
    auto d = read_item(job, what, max_item_size, now);
    if (!d) return d.failure();
    call.items.push_back(std::move(*d));
    return {};
  };
  if (is_lines(headers.content_type)) {
    call.form = push_form::lines;
    std::size_t number = 0;
    while (!body.empty()) {
      ++number;
      const auto end = std::min(body.find('\n'), body.size());
      const auto line = body.substr(0, end);
      body.remove_prefix(std::min(end + 1, body.size()));
      if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
      const auto what = "line " + std::to_string(number);
      const auto job = parse_json(line);
      if (!job) return at_place(what, job.failure());
      if (auto ok = add(*job, what); !ok) return ok.failure();
    }
  } else {
    const auto value = parse_json(body);
    if (!value) return at_place("the body", value.failure());
    if (value->is_array()) {
      call.form = push_form::array;
      for (std::size_t i = 0; i < value->size(); ++i)
        if (auto ok = add((*value)[i], "job " + std::to_string(i)); !ok) return ok.failure();
    } else if (auto ok = add(*value, "the job"); !ok) {
      return ok.failure();
    }
  }
  if (headers.idempotency_key.size() > 1024)
    return {errc::invalid_argument, "the header Idempotency-Key has more than 1024 bytes; send a shorter one"};
  for (std::size_t i = 0; i < call.items.size(); ++i) {
    auto& o = call.items[i].options;
    if (!headers.idempotency_key.empty() && o.idempotency_key.empty()) {
      o.idempotency_key = headers.idempotency_key;
      if (call.form != push_form::single) o.idempotency_key += "." + std::to_string(i);
    }
    const bool traced =
        std::ranges::any_of(o.headers, [](const auto& h) { return equal_any_case(h.first, "traceparent"); });
    if (!headers.traceparent.empty() && !traced) o.headers.emplace_back("traceparent", headers.traceparent);
  }
  return call;
}

}  // namespace caravan::http
