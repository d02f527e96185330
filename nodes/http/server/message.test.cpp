#define CAF_SUITE http_message
#include "nodes/http/server/message.hpp"

#include <nlohmann/json.hpp>

#include "caf/test/unit_test.hpp"
#include "nodes/http/server/gate.hpp"
#include "nodes/http/server/router.hpp"

using namespace caravan;
using namespace caravan::http;

namespace {

void nothing(request, responder) {}

std::string params_of(const route_match& m) {
  std::string all;
  for (const auto& f : m.params.list()) all += f.name + "=" + f.value + ";";
  return all;
}

using verdict = route_match::verdict;

}  // namespace

CAF_TEST(every error code has a status and a problem body) {
  const std::pair<errc, int> expected_status[] = {
      {errc::already_in_queue, 409}, {errc::queue_full, 429},       {errc::queue_closed, 503},
      {errc::too_large, 413},        {errc::backend_failed, 503},   {errc::fenced, 409},
      {errc::not_found, 404},        {errc::invalid_argument, 400}, {errc::timed_out, 504},
      {errc::not_supported, 501},    {errc::conflict, 409},         {errc::unauthorized, 401},
      {errc::forbidden, 403},        {static_cast<errc>(250), 500}};
  for (const auto& [code, status] : expected_status) {
    const auto r = problem({code, "why \xff"});
    CAF_CHECK_EQUAL(r.status, status);
    CAF_CHECK_EQUAL(r.content_type, "application/problem+json");
    const auto body = nlohmann::json::parse(r.body);
    CAF_CHECK_EQUAL(body["status"].get<int>(), status);
    CAF_CHECK_EQUAL(body["code"].get<std::string>(), std::string{caravan::to_string(code)});
    CAF_CHECK_EQUAL(body["title"].get<std::string>(), std::string{reason_of(status)});
    CAF_CHECK(body.contains("type") && body.contains("detail"));
    CAF_CHECK_EQUAL(!r.headers.empty(), status == 429 || status == 503 || status == 401);
  }
  const auto full = problem({errc::queue_full, ""}, std::chrono::seconds{7});
  CAF_CHECK_EQUAL(full.headers.at(0).value, "7");
}

CAF_TEST(roles cover what they should and no more) {
  const role all[] = {role::anyone, role::read, role::push, role::work, role::admin};
  for (const auto has : all)
    for (const auto needed : all) {
      role_set s;
      s.add(has);
      const auto expected = needed == role::anyone || has == needed || has == role::admin ||
                            (needed == role::read && (has == role::push || has == role::work));
      CAF_CHECK_EQUAL(s.allows(needed), expected);
    }
  CAF_CHECK(!role_set{}.allows(role::read));
  CAF_CHECK(role_set{}.allows(role::anyone));
}

CAF_TEST(percent decoding refuses what is broken) {
  CAF_CHECK(percent_decode("a%2Fb%20c+d") == "a/b c+d");
  CAF_CHECK(percent_decode("a+b", true) == "a b");
  for (const auto* bad : {"%", "%2", "%zz", "a%", "%00", "x%0"}) CAF_CHECK(!percent_decode(bad));
}

CAF_TEST(a query may repeat names and lack values) {
  const auto q = parse_query("a=1&b=x%26y&a=2&flag&&=empty&c=a=b").value();
  CAF_CHECK(q.find("a") == "1");
  CAF_CHECK(q.find("b") == "x&y");
  CAF_CHECK(q.find("flag") == "");
  CAF_CHECK(q.find("c") == "a=b");
  CAF_CHECK_EQUAL(q.list().size(), 6u);
  CAF_CHECK(!q.find("d"));
  CAF_CHECK(!parse_query("a=%4"));
}

CAF_TEST(an event keeps its lines apart) {
  CAF_CHECK_EQUAL(sse_event("one\ntwo\r\nthree", "moved", "7"),
                  "id: 7\nevent: moved\ndata: one\ndata: two\ndata: three\n\n");
  CAF_CHECK_EQUAL(sse_event(""), "data: \n\n");
  CAF_CHECK_EQUAL(sse_event("x", "a\ndata: forged"), "event: a\ndata: x\n\n");
}

CAF_TEST(routes find literal segments before names) {
  router r;
  r.add("GET", "/v1/queues", role::read, nothing);
  r.add("GET", "/v1/queues/{queue}", role::read, nothing);
  r.add("GET", "/v1/queues/all", role::admin, nothing);
  r.add("POST", "/v1/queues/{name}/jobs", role::push, nothing);
  r.add("DELETE", "/v1/queues/all/jobs", role::admin, nothing);
  r.add("GET", "/ui/{file...}", role::anyone, nothing);
  CAF_CHECK(r.find("GET", "/v1/queues/all").target->needed == role::admin);
  CAF_CHECK_EQUAL(params_of(r.find("GET", "/v1/queues/a%2Fb")), "queue=a/b;");
  CAF_CHECK_EQUAL(params_of(r.find("POST", "/v1/queues/mail/jobs")), "name=mail;");
  CAF_CHECK_EQUAL(params_of(r.find("GET", "/ui/js/app.js")), "file=js/app.js;");
  CAF_CHECK_EQUAL(params_of(r.find("GET", "/ui/")), "file=;");
  // The literal branch has the path, the named one the method.
  CAF_CHECK_EQUAL(params_of(r.find("POST", "/v1/queues/all/jobs")), "name=all;");
  CAF_CHECK(r.find("HEAD", "/v1/queues").result == verdict::found);
  CAF_CHECK(r.find("GET", "/v1/queues/").result == verdict::no_path);
  CAF_CHECK(r.find("GET", "/v1").result == verdict::no_path);
  CAF_CHECK(r.find("GET", "/v1/queues/%").result == verdict::bad_path);
  CAF_CHECK(r.find("GET", "").result == verdict::bad_path);
  CAF_CHECK_EQUAL(r.find("PUT", "/v1/queues").allow, "GET, HEAD");
  CAF_CHECK_EQUAL(r.find("PUT", "/v1/queues/all/jobs").allow, "DELETE, POST");
}

CAF_TEST(a route that cannot work is refused at once) {
  router r;
  r.add("GET", "/a/{x}", role::read, nothing);
  for (const auto* pattern : {"a", "/{x}/{x}", "/{x...}/y", "/a{x}", "/{...}", "/a/{other}"}) {
    bool thrown = false;
    try {
      r.add("GET", pattern, role::read, nothing);
    } catch (const caravan::exception& e) {
      thrown = e.why().code == errc::invalid_argument;
    }
    CAF_CHECK(thrown);
  }
}

CAF_TEST(tokens grant their roles and cookies only reads) {
  options o;
  o.tokens = {{"alpha", role::push}, {"alpha", role::work}, {"beta", role::read}};
  o.token_cookie = "caravan";
  const gate g{o};
  const auto with = [&g](std::string_view method, std::string name, std::string value) {
    fields f;
    f.add(std::move(name), std::move(value));
    return g.granted(method, f);
  };
  CAF_CHECK(with("POST", "authorization", "bearer alpha").allows(role::push));
  CAF_CHECK(with("POST", "Authorization", "Bearer alpha").allows(role::work));
  CAF_CHECK(!with("POST", "Authorization", "Bearer alpha").allows(role::admin));
  for (const auto* bad : {"Bearer alph", "Bearer alphaa", "Bearer ", "Basic alpha", "", "alpha"})
    CAF_CHECK(with("GET", "Authorization", bad).empty());
  CAF_CHECK(with("GET", "Cookie", "x=1; caravan=beta; y=2").allows(role::read));
  CAF_CHECK(with("POST", "Cookie", "caravan=beta").empty());
  CAF_CHECK(with("GET", "Cookie", "notcaravan=beta").empty());
  CAF_CHECK(gate{options{}}.granted("POST", {}).allows(role::admin));
}

CAF_TEST(foreign pages and foreign host names are refused) {
  options o;
  o.allowed_hosts = {"localhost", "127.0.0.1", "[::1]"};
  const gate g{o};
  const auto status = [&g](std::string_view method, std::string host, std::string site = "", bool token = false) {
    fields f;
    f.add("Host", std::move(host));
    if (!site.empty()) f.add("Sec-Fetch-Site", std::move(site));
    if (token) f.add("Authorization", "Bearer x");
    const auto r = g.refuse_origin(method, f);
    return r ? r->status : 0;
  };
  CAF_CHECK_EQUAL(status("GET", "LocalHost:8080"), 0);
  CAF_CHECK_EQUAL(status("GET", "[::1]:8080"), 0);
  CAF_CHECK_EQUAL(status("GET", "evil.example"), 421);
  CAF_CHECK_EQUAL(status("GET", "[::2"), 421);
  CAF_CHECK_EQUAL(status("GET", ""), 421);
  CAF_CHECK_EQUAL(status("POST", "localhost", "cross-site"), 403);
  CAF_CHECK_EQUAL(status("POST", "localhost", "cross-site", true), 0);
  CAF_CHECK_EQUAL(status("POST", "localhost", "same-origin"), 0);
  CAF_CHECK_EQUAL(status("GET", "localhost", "cross-site"), 0);
}
