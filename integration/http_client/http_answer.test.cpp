#define CAF_SUITE http_answer
#include "integration/http_client/http_answer.hpp"

#include "caf/test/unit_test.hpp"

using namespace caravan;
using namespace caravan::http_client;
using namespace std::chrono_literals;
using kind = item_outcome::kind;
using std::chrono::milliseconds;

namespace {

// 2026-01-31 12:00:00.250 UTC, a Saturday
constexpr wall_time now{1'769'860'800'250ms};

batch two_items() {
  std::vector<record> items(2);
  items[0].id = item_id{77};
  items[0].payload = "1";
  items[1].id = item_id{78};
  items[1].payload = "{\"a\":2}";
  return {"mail", 42, 30s, std::make_shared<const std::vector<record>>(std::move(items))};
}

batch_result outcome(int status, std::string body = {}, std::string retry_after = {}) {
  return to_result(two_items(), {status, std::move(body), false, std::move(retry_after), {}}, "POST http://h/p", now,
                   24h);
}

bool all(const batch_result& result, kind what) {
  return result.size() == 2 && result[0].index == 0 && result[1].index == 1 && result[0].what == what &&
         result[1].what == what;
}

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

}  // namespace

CAF_TEST(every status has its outcome) {
  for (int status = 200; status < 300; ++status)
    if (status != 207) CAF_CHECK(outcome(status, "whatever").empty());
  for (const int status : {409, 410}) CAF_CHECK(all(outcome(status), kind::rejected));
  for (const int status : {429, 503}) CAF_CHECK(all(outcome(status), kind::later));
  for (int status = 300; status < 600; ++status)
    if (status != 409 && status != 410 && status != 429 && status != 503) CAF_CHECK(all(outcome(status), kind::failed));
}

CAF_TEST(a text names the caller and the status and the head of the body) {
  const auto broken = outcome(500, "no\r\nmemory\x01 ");
  CAF_CHECK_EQUAL(broken[0].text, "POST http://h/p answered 500: no\nmemory\xEF\xBF\xBD");
  const auto gone = outcome(410);
  CAF_CHECK_EQUAL(gone[1].text, "POST http://h/p answered 410");
  CAF_CHECK(outcome(500, std::string(100'000, 'x'))[0].text.size() < 600);
  const auto moved = to_result(two_items(), {302, "", false, "", "http://secret/"}, "POST http://h/p", now, 24h);
  CAF_CHECK(contains(moved[0].text, "not followed"));
  CAF_CHECK(!contains(moved[0].text, "secret"));
}

CAF_TEST(207 hands back the items it names) {
  const auto result = outcome(207, "{\"unhandled\":[\"mail.000000000002e\",\"000000000002e\"],\"more\":1}");
  CAF_REQUIRE_EQUAL(result.size(), 1u);
  CAF_CHECK_EQUAL(result[0].index, 1u);
  CAF_CHECK(result[0].what == kind::unhandled);
  CAF_CHECK(outcome(207, "{\"unhandled\":[]}").empty());
}

CAF_TEST(207 that cannot be read fails the batch) {
  for (const auto* body :
       {"", "x", "[]", "3", "null", "{}", "{\"unhandled\":\"mail.000000000002e\"}", "{\"unhandled\":[1]}",
        "{\"unhandled\":[\"other.000000000002e\"]}", "{\"unhandled\":[\"\xFF\"]}"}) {
    const auto result = outcome(207, body);
    CAF_CHECK(all(result, kind::failed));
    CAF_CHECK(contains(result[0].text, "answered 207, but"));
  }
  const auto cut = to_result(two_items(), {207, "{\"unhandled\":[]}", true, "", ""}, "POST http://h/p", now, 24h);
  CAF_CHECK(all(cut, kind::failed) && contains(cut[0].text, "longer than the limit"));
}

CAF_TEST(a retry delay is seconds or a date) {
  const auto parsed = [](std::string_view value) { return parse_retry_after(value, now, 24h); };
  CAF_CHECK(parsed("0") == 0ms);
  CAF_CHECK(parsed("7") == 7s);
  CAF_CHECK(parsed(" 120 ") == 120s);
  CAF_CHECK(parsed("86400") == milliseconds(24h));
  CAF_CHECK(parsed("99999999999999999999999999") == milliseconds(24h));
  CAF_CHECK(parsed("Sat, 31 Jan 2026 12:00:10 GMT") == 9750ms);
  CAF_CHECK(parsed("Saturday, 31-Jan-26 12:00:10 GMT") == 9750ms);
  CAF_CHECK(parsed("Sat Jan 31 12:00:10 2026") == 9750ms);
  CAF_CHECK(parsed("Sat, 31 Jan 2026 11:00:00 GMT") == 0ms);
  CAF_CHECK(parsed("Fri, 31 Dec 9999 23:59:59 GMT") == milliseconds(24h));
  for (const auto* bad : {"", " ", "-5", "1.5", "soon", "12 apples", "Monday", "a:b"}) CAF_CHECK(!parsed(bad));
}

CAF_TEST(a retry delay postpones what comes again) {
  CAF_CHECK(outcome(503, "", "7")[1].delay == 7s);
  CAF_CHECK(outcome(429, "", "7")[0].delay == 7s);
  CAF_CHECK(outcome(500, "", "7")[0].delay == 7s);
  CAF_CHECK(outcome(429)[0].delay == 0ms);
  CAF_CHECK(outcome(429, "", "soon")[0].delay == 0ms);
}

CAF_TEST(a request carries the facts of the call) {
  run_context ctx;
  ctx.node = "n1";
  CAF_CHECK_EQUAL(request_body(two_items(), ctx),
                  "{\"queue\":\"mail\",\"token\":\"42\",\"node\":\"n1\",\"items\":["
                  "{\"id\":\"mail.000000000002d\",\"payload\":1,\"attempt\":1,\"key\":\"\",\"headers\":{}},"
                  "{\"id\":\"mail.000000000002e\",\"payload\":{\"a\":2},\"attempt\":1,\"key\":\"\",\"headers\":{}}]}");
  ctx.deadline = std::chrono::steady_clock::now() + 1min;
  CAF_CHECK(contains(request_body(two_items(), ctx), ",\"deadline\":\"20"));
}

CAF_TEST(a signature can be checked by others) {
  // printf '1769860800.{"a":1}' | openssl dgst -sha256 -hmac s3cret
  CAF_CHECK_EQUAL(signature("s3cret", 1'769'860'800, "{\"a\":1}"),
                  "t=1769860800,v1=0082556cb29abe3c4112a2dab192ad6a26d24674e6be647d3092d74c19fc86d4");
}

CAF_TEST(a header cannot be forged) {
  CAF_CHECK_EQUAL(header_value("mail.in-1"), "mail.in-1");
  CAF_CHECK_EQUAL(header_value("a\r\nB: c%\xC3\xA4"), "a%0D%0AB:%20c%25%C3%A4");
}
