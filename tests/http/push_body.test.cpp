#define CAF_SUITE http_push_body
#include "nodes/http/api_json.hpp"
#include "nodes/http/api_push.hpp"

#include "caf/test/unit_test.hpp"

using namespace caravan;
using namespace caravan::http;
using namespace std::chrono_literals;

namespace {

const system_time now = *parse_instant("2026-05-01T12:00:00Z");

expected<push_call> read(std::string_view body, push_headers headers = {}) {
  return read_push(body, headers, 1000, now);
}

/// By value: CAF's checks keep references.
item_draft first(std::string_view body) {
  auto call = read(body);
  return call && !call->items.empty() ? std::move(call->items[0]) : item_draft{"nothing", {}};
}

std::string wrong(std::string_view body, std::string_view type = {}) {
  const auto call = read(body, {type, {}, {}});
  return call ? "nothing" : std::string(to_string(call.failure().code)) + ": " + call.failure().text;
}

bool holds(const std::string& text, std::string_view part) {
  if (text.find(part) != std::string::npos) return true;
  CAF_ERROR("no \"" + std::string(part) + "\" in: " + text);
  return false;
}

}  // namespace

CAF_TEST(a single job with all its fields) {
  const auto call = read(R"({"payload": {"b": [1, 2.5], "a": "ü"}, "delay": "5s", "key": "k", "idempotency_key": "i",
                             "max_attempts": 3, "timeout": 1.5, "headers": {"x": "y"}})",
                         {"application/json", "other", "00-abc"});
  CAF_REQUIRE(call.has_value());
  CAF_REQUIRE_EQUAL(call->items.size(), 1u);
  const auto& d = call->items[0];
  CAF_CHECK_EQUAL(d.payload, "{\"a\":\"ü\",\"b\":[1,2.5]}");  // keys sorted, as C++ queues write them
  CAF_CHECK(d.options.delay == 5s);
  CAF_CHECK_EQUAL(d.options.key, "k");
  CAF_CHECK_EQUAL(d.options.idempotency_key, "i");  // the job's own wins over the header
  CAF_CHECK_EQUAL(d.options.max_attempts, 3u);
  CAF_CHECK(d.options.timeout == 1500ms);
  CAF_REQUIRE_EQUAL(d.options.headers.size(), 2u);
  CAF_CHECK_EQUAL(d.options.headers[1].second, "00-abc");
}

CAF_TEST(arrays and lines get a key for each place) {
  const auto array = read(R"([{"payload": 1}, {"payload": null}])", {"", "run", ""});
  CAF_REQUIRE(array.has_value());
  CAF_REQUIRE_EQUAL(array->items.size(), 2u);
  CAF_CHECK_EQUAL(array->items[1].payload, "null");
  CAF_CHECK_EQUAL(array->items[1].options.idempotency_key, "run.1");
  const auto lines = read("{\"payload\":1}\r\n\n{\"payload\":[\n", {"application/x-ndjson; charset=utf-8", "", ""});
  CAF_CHECK(!lines.has_value());
  CAF_CHECK(holds(lines.failure().text, "line 3: "));
  const auto good = read("{\"payload\":1}\r\n\n{\"payload\":2}", {"Application/X-NDJSON", "run", ""});
  CAF_REQUIRE(good.has_value());
  CAF_REQUIRE_EQUAL(good->items.size(), 2u);
  CAF_CHECK_EQUAL(good->items[1].options.idempotency_key, "run.1");
  CAF_CHECK(read("[]")->items.empty());
  CAF_CHECK(read("", {"application/x-ndjson", "", ""})->items.empty());
}

CAF_TEST(mistakes are named) {
  CAF_CHECK(holds(wrong(""), "invalid_argument: the body: "));
  CAF_CHECK(holds(wrong("{\"payload\":1,}"), "the body: "));
  CAF_CHECK(holds(wrong("{\"payload\":\"\xff\"}"), "the body: "));
  CAF_CHECK(holds(wrong("{\"payload\":1} x"), "the body: "));
  CAF_CHECK(holds(wrong("5"), "the job: must be a JSON object, not number"));
  CAF_CHECK(holds(wrong("{}"), "the job: has no \"payload\""));
  CAF_CHECK(
      holds(wrong(R"({"payload":1,"dely":"5s"})"), "the job: there is no field \"dely\"; did you mean \"delay\"?"));
  CAF_CHECK(holds(wrong(R"([{"payload":1},{"payload":1,"zzzzzz":1}])"),
                  "job 1: there is no field \"zzzzzz\"; there are payload, delay"));
  CAF_CHECK(holds(wrong(R"({"payload":1,"delay":-1})"), "\"delay\" must be from 0"));
  CAF_CHECK(holds(wrong(R"({"payload":1,"delay":"-5s"})"), "\"delay\" must be from 0"));
  CAF_CHECK(holds(wrong(R"({"payload":1,"delay":1e300})"), "\"delay\" must be a duration"));
  CAF_CHECK(holds(wrong(R"({"payload":1,"delay":"soon"})"), "\"delay\" must be a duration"));
  CAF_CHECK(holds(wrong(R"({"payload":1,"delay":[]})"), "\"delay\" must be a duration"));
  CAF_CHECK(holds(wrong(R"({"payload":1,"at":"tomorrow"})"), "\"at\" must be an instant"));
  CAF_CHECK(holds(wrong(R"({"payload":1,"at":5})"), "\"at\" must be a string"));
  CAF_CHECK(holds(wrong(R"({"payload":1,"delay":1,"at":"2026-05-01T12:00:00Z"})"), "both"));
  CAF_CHECK(holds(wrong(R"({"payload":1,"max_attempts":-1})"), "\"max_attempts\" must be a whole number from 0"));
  CAF_CHECK(holds(wrong(R"({"payload":1,"max_attempts":1.5})"), "\"max_attempts\" must be a whole number"));
  CAF_CHECK(holds(wrong(R"({"payload":1,"max_attempts":18446744073709551615})"), "\"max_attempts\" must be"));
  CAF_CHECK(holds(wrong(R"({"payload":1,"timeout":"-1s"})"), "\"timeout\" must be from 0"));
  CAF_CHECK(holds(wrong(R"({"payload":1,"key":5})"), "\"key\" must be a string"));
  CAF_CHECK(holds(wrong(R"({"payload":1,"headers":{"a":1}})"), "header \"a\" must be a string"));
  CAF_CHECK(holds(wrong(R"({"payload":1,"headers":[]})"), "\"headers\" must be an object"));
  CAF_CHECK(
      holds(wrong("{\"payload\":\"" + std::string(1000, 'x') + "\"}"), "too_large: the job: a payload of 1002 bytes"));
  CAF_CHECK(holds(wrong("{\"payload\":1,\"key\":\"" + std::string(2000, 'x') + "\"}"), "at most 1024"));
}

CAF_TEST(what would change in silence or end the process is refused) {
  CAF_CHECK(holds(wrong(R"({"payload":123456789012345678901234567890})"), "does not fit in 64 bits"));
  CAF_CHECK_EQUAL(std::string(first(R"({"payload":18446744073709551615})").payload), "18446744073709551615");
  CAF_CHECK_EQUAL(std::string(first(R"({"payload":-9223372036854775808})").payload), "-9223372036854775808");
  CAF_CHECK(holds(wrong("{\"payload\":" + std::string(1'000'000, '[')), "levels of nesting"));
  CAF_CHECK(read("{\"payload\":" + std::string(90, '[') + std::string(90, ']') + "}").has_value());
}

CAF_TEST(instants) {
  const auto text = [](std::string_view t) {
    const auto at = parse_instant(t);
    return at ? format_instant(*at) : std::string("none");
  };
  CAF_CHECK_EQUAL(text("2026-05-01T12:00:00Z"), "2026-05-01T12:00:00.000Z");
  CAF_CHECK_EQUAL(text("2026-05-01t12:00:00.1234z"), "2026-05-01T12:00:00.123Z");
  CAF_CHECK_EQUAL(text("2026-05-01 14:00:00.5+02:00"), "2026-05-01T12:00:00.500Z");
  CAF_CHECK_EQUAL(text("2024-02-29T23:30:00-01:00"), "2024-03-01T00:30:00.000Z");
  for (const auto* bad :
       {"", "now", "2026-05-01", "2026-05-01T12:00:00", "2026-13-01T12:00:00Z", "2025-02-29T12:00:00Z",
        "2026-05-01T24:00:00Z", "2026-05-01T12:60:00Z", "2026-05-01T12:00:00.Z", "2026-05-01T12:00:00+0200",
        "1969-12-31T23:59:59Z", "2200-01-01T00:00:00Z", "2026-05-01T12:00:00Zx", "-026-05-01T12:00:00Z"})
    CAF_CHECK_EQUAL(text(bad), "none");
  // A moment that is past means at once.
  CAF_CHECK(first(R"({"payload":1,"at":"2020-01-01T00:00:00Z"})").options.at == system_time{});
  CAF_CHECK(first(R"({"payload":1,"at":"2026-05-01T12:00:01Z"})").options.at == now + 1s);
}

CAF_TEST(base64) {
  CAF_CHECK_EQUAL(base64(""), "");
  CAF_CHECK_EQUAL(base64("f"), "Zg==");
  CAF_CHECK_EQUAL(base64("fo"), "Zm8=");
  CAF_CHECK_EQUAL(base64("foo"), "Zm9v");
  CAF_CHECK_EQUAL(base64("\xff\xfe\xfd\xfc"), "//79/A==");
}
