#define CAF_SUITE handler_json
#include "integration/process/handler_json.hpp"

#include "caf/test/unit_test.hpp"

#include <nlohmann/json.hpp>

using namespace caravan;
using namespace caravan::handlers;
using namespace std::chrono_literals;

namespace {

record item(std::string payload) {
  record r;
  r.id = item_id{77};
  r.payload = std::move(payload);
  return r;
}

std::string text_of(const record& r) {
  std::string out;
  append_item_json(out, "mail", r);
  return out;
}

batch batch_of(std::vector<record> items) {
  return {"mail", 7, 30s, std::make_shared<const std::vector<record>>(std::move(items))};
}

}  // namespace

CAF_TEST(an item is one line and its payload stays as it is) {
  auto r = item("{\"b\" : 1.50,\r\n \"a\":[1,2],\"a\":\"\xC3\xA4\\n\"}");
  r.attempts = 2;
  r.key = "k\"1";
  r.headers = {{"traceparent", "00-ab"}, {"x", "1"}, {"x", "2"}};
  CAF_CHECK_EQUAL(text_of(r),
                  "{\"id\":\"mail.000000000002d\",\"payload\":{\"b\" : 1.50,   \"a\":[1,2],\"a\":\"\xC3\xA4\\n\"},"
                  "\"attempt\":3,\"key\":\"k\\\"1\",\"headers\":{\"traceparent\":\"00-ab\",\"x\":\"1, 2\"}}");
}

CAF_TEST(an own limit of attempts is told) {
  auto r = item("1");
  r.max_attempts = 5;
  CAF_CHECK_EQUAL(nlohmann::json::parse(text_of(r)).at("max_attempts").get<int>(), 5);
  CAF_CHECK(!nlohmann::json::parse(text_of(item("1"))).contains("max_attempts"));
}

CAF_TEST(a payload that is not text JSON comes as base64) {
  const std::pair<std::string, std::string> cases[] = {
      {"", ""},
      {"f", "Zg=="},
      {"fo", "Zm8="},
      {"foo", "Zm9v"},
      {"foob", "Zm9vYg=="},
      {std::string("1\0x", 3), "MQB4"},
      {"\xEF\xBB\xBF"
       "1",
       "77u/MQ=="},
      {"\"\xFF\"", "Iv8i"},
      {"\"a\nb\"", "ImEKYiI="},
      {"{} {}", "e30ge30="},
  };
  for (const auto& [payload, encoded] : cases) {
    const auto line = text_of(item(payload));
    CAF_CHECK_EQUAL(line.find('\n'), std::string::npos);
    const auto json = nlohmann::json::parse(line, nullptr, false);
    CAF_REQUIRE(!json.is_discarded());
    CAF_CHECK(!json.contains("payload"));
    CAF_CHECK_EQUAL(json.at("payload_base64"), encoded);
  }
}

CAF_TEST(deep payloads do not overflow the stack) {
  const auto deep = std::string(200'000, '[') + std::string(200'000, ']');
  CAF_CHECK(text_of(item(deep)).find("\"payload\":[[[") != std::string::npos);
}

CAF_TEST(keys and headers with stray bytes are repaired) {
  auto r = item("1");
  r.key = "\xFF";
  r.headers = {{"n\xFE", "v\xFD"}};
  const auto json = nlohmann::json::parse(text_of(r), nullptr, false);
  CAF_REQUIRE(!json.is_discarded());
  CAF_CHECK_EQUAL(json.at("key"), "\xEF\xBF\xBD");
}

CAF_TEST(instants and durations have one form) {
  CAF_CHECK_EQUAL(to_rfc3339(wall_time{0ms}), "1970-01-01T00:00:00.000Z");
  CAF_CHECK_EQUAL(to_rfc3339(wall_time{1'769'860'800'042ms}), "2026-01-31T12:00:00.042Z");
  CAF_CHECK_EQUAL(to_text(250ms), "250 ms");
  CAF_CHECK_EQUAL(to_text(1500ms), "1.5 s");
  CAF_CHECK_EQUAL(to_text(2000ms), "2 s");
  CAF_CHECK_EQUAL(to_text(90'400ms), "90 s");
  CAF_CHECK_EQUAL(deadline_text({}), "");
  run_context soon;
  soon.deadline = std::chrono::steady_clock::now() + 1min;
  CAF_CHECK_EQUAL(deadline_text(soon).size(), 24u);
}

CAF_TEST(only a single item passes on its trace and only a harmless one) {
  auto r = item("1");
  r.headers = {{"TraceParent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}};
  CAF_CHECK_EQUAL(trace_parent(batch_of({r})), r.headers[0].second);
  CAF_CHECK_EQUAL(trace_parent(batch_of({r, r})), "");
  CAF_CHECK_EQUAL(trace_parent(batch_of({item("1")})), "");
  for (const auto* value : {"a\r\nX-Evil: 1", "a b", "\xC3\xA4"}) {
    r.headers = {{"traceparent", value}};
    CAF_CHECK_EQUAL(trace_parent(batch_of({r})), "");
  }
}

CAF_TEST(foreign output becomes readable) {
  CAF_CHECK_EQUAL(readable(" \n a\tb\r\nc \n"), "a\tb\nc");
  CAF_CHECK_EQUAL(readable("\x1B[31m"), "\xEF\xBF\xBD[31m");
  CAF_CHECK_EQUAL(readable(std::string_view("a\0b", 3)),
                  "a\xEF\xBF\xBD"
                  "b");
  CAF_CHECK_EQUAL(readable("\xE2\x82\xAC \xF0\x9F\x9A\x80"), "\xE2\x82\xAC \xF0\x9F\x9A\x80");
  // overlong, surrogate, above U+10FFFF, cut
  for (const auto* bad : {"\xC0\xAF", "\xE0\x80\xAF", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xF0\x80\x80\x80",
                          "\xE2\x82", "\xF0\x9F\x9A"}) {
    const auto text = readable(bad);
    CAF_CHECK(!text.empty());
    CAF_CHECK(nlohmann::json::accept("\"" + text + "\""));
  }
  CAF_CHECK_EQUAL(readable(" \n"), "");
}

CAF_TEST(items are found by both their names) {
  auto a = item("1");
  auto b = item("2");
  b.id = item_id{78};
  const auto work = batch_of({a, b});
  const item_names names(work);
  CAF_CHECK(names.find("mail.000000000002e") == 1u);
  CAF_CHECK(names.find("000000000002d") == 0u);
  CAF_CHECK(names.find("000000000002D") == 0u);
  CAF_CHECK(!names.find("letters.000000000002d"));
  CAF_CHECK(!names.find("000000000002f"));
  CAF_CHECK(!names.find(""));
  CAF_CHECK(!names.find("mail."));
}

CAF_TEST(a stop a moment before the deadline counts as the deadline) {
  const auto now = std::chrono::steady_clock::now();
  run_context ctx;
  CAF_CHECK(!is_past_deadline(ctx, now));
  ctx.deadline = now + 5ms;
  CAF_CHECK(is_past_deadline(ctx, now));
  ctx.deadline = now + 1s;
  CAF_CHECK(!is_past_deadline(ctx, now));
}
