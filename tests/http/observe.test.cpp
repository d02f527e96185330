#define CAF_SUITE http_observe
// What operators look at: metrics, history, audit, the store, the files of the dashboard.
#include "tests/support/http_node.hpp"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <sstream>

#include "caf/test/unit_test.hpp"

using namespace caravan;
using namespace caravan::testing_support;

namespace {

std::string read_all(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

constexpr auto with_all =
    "[queue.fails]\nHANDLER = exec:false\nMAX_ATTEMPTS = 1\n[queue.works]\nHANDLER = exec:true\n"
    "[limit.api]\nRATE = 5\n[cron.tick]\nSCHEDULE = @every 1h\nPUSH = works {\"n\": 1}\n[qos]\nENABLED = true\n";

/// The value of one series; -1: it is not there.
double value_of(const std::string& text, const std::string& series) {
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(series + " ")) return std::stod(line.substr(series.size() + 1));
  return -1;
}

}  // namespace

CAF_TEST(metrics count what happened) {
  http_node node(with_all);
  node.push("works", "[{\"payload\":1},{\"payload\":2},{\"payload\":3}]");
  node.push("fails", "{\"payload\":1}");
  const bool done = eventually([&] { return node.count("works", "handled") == 3 && node.count("fails", "dead") == 1; });
  CAF_REQUIRE(done);
  std::string text;
  // A snapshot may be a second old.
  const bool seen = eventually([&] {
    const auto a = node.get("/metrics");
    CAF_REQUIRE_EQUAL(a.status, 200);
    CAF_REQUIRE(holds(a.headers, "text/plain; version=0.0.4"));
    text = a.text;
    return value_of(text, "caravan_jobs_done_total{queue=\"works\",result=\"handled\"}") == 3 &&
           value_of(text, "caravan_jobs_state{queue=\"fails\",state=\"dead\"}") == 1;
  });
  CAF_CHECK(seen);
  CAF_CHECK_EQUAL(value_of(text, "caravan_jobs_pushed_total{queue=\"works\"}"), 3.0);
  CAF_CHECK_EQUAL(value_of(text, "caravan_dead_total{queue=\"fails\",reason=\"attempts\"}"), 1.0);
  CAF_CHECK_EQUAL(value_of(text, "caravan_dead_total{queue=\"fails\",reason=\"rejected\"}"), 0.0);
  CAF_CHECK_EQUAL(value_of(text, "caravan_job_wait_seconds_count{queue=\"works\"}"), 3.0);
  CAF_CHECK_EQUAL(value_of(text, "caravan_job_run_seconds_count{queue=\"works\"}"), 3.0);
  CAF_CHECK(value_of(text, "caravan_job_run_seconds_sum{queue=\"works\"}") > 0);
  CAF_CHECK_EQUAL(value_of(text, "caravan_queue_owner{queue=\"works\",node=\"tester\"}"), 1.0);
  CAF_CHECK_EQUAL(value_of(text, "caravan_cron_late_seconds{task=\"tick\"}"), 0.0);
  CAF_CHECK_EQUAL(value_of(text, "caravan_node_ready"), 1.0);
  CAF_CHECK_EQUAL(value_of(text, "caravan_metrics_left_out"), 0.0);
}

// Each line is what a scraper can read: a comment, or NAME{LABELS} NUMBER; no series comes twice; each has its TYPE.
CAF_TEST(metrics are well formed) {
  http_node node(with_all);
  const auto text = node.get("/metrics").text;
  const std::regex sample(R"(([a-z_]+)(\{[a-z_]+="(\\.|[^"\\])*"(,[a-z_]+="(\\.|[^"\\])*")*\})? (\S+))");
  std::set<std::string> types, series;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("# TYPE ")) {
      const auto name = line.substr(7, line.find(' ', 7) - 7);
      CAF_CHECK(types.insert(name).second);
      continue;
    }
    if (line.starts_with("#")) continue;
    std::smatch m;
    const bool fits = std::regex_match(line, m, sample);
    if (!fits) CAF_FAIL("no sample: " << line);
    CAF_CHECK(series.insert(line.substr(0, line.rfind(' '))).second);
    auto family = m[1].str();
    for (const std::string end : {"_bucket", "_sum", "_count"})
      if (!types.contains(family) && family.ends_with(end)) family.resize(family.size() - end.size());
    if (!types.contains(family)) CAF_FAIL("no TYPE: " << line);
  }
  CAF_CHECK(types.size() > 30u);
}

CAF_TEST(every metric that the rules and the board name is served or documented as conditional) {
  http_node node(with_all);
  const auto text = node.get("/metrics").text;
  // Told only where nodes share a store; docs/metrics.md says so.
  const std::set<std::string> shared{"caravan_node_alive", "caravan_store_rtt_seconds", "caravan_store_errors_total"};
  const std::string root = CARAVAN_SOURCE_DIR;
  const auto page = read_all(root + "/docs/metrics.md");
  const std::regex name("caravan_[a-z_]+");
  std::size_t named = 0;
  for (const auto* file : {"/packaging/prometheus/caravan.rules.yml", "/packaging/grafana/caravan.json"}) {
    const auto content = read_all(root + file);
    CAF_REQUIRE(!content.empty());
    for (std::sregex_iterator it(content.begin(), content.end(), name), end; it != end; ++it) {
      auto family = it->str();
      if (family.ends_with("_bucket")) family.resize(family.size() - 7);
      ++named;
      if (!holds(page, "`" + family)) CAF_FAIL(family << " is not in docs/metrics.md");
      if (!shared.contains(family) && !holds(text, "# TYPE " + family + " ")) CAF_FAIL(family << " is not served");
    }
  }
  CAF_CHECK(named > 40u);
  // And the other way round.
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("# TYPE ")) {
      const auto family = line.substr(7, line.find(' ', 7) - 7);
      if (!holds(page, "`" + family)) CAF_FAIL(family << " is not in docs/metrics.md");
    }
}

CAF_TEST(history has a column for each number and knows its queues) {
  http_node node(with_all);
  node.push("works", "{\"payload\":1}");
  const auto a = node.get("/v1/history?queue=works");
  CAF_REQUIRE_EQUAL(a.status, 200);
  const auto n = a.body["at"].size();
  CAF_CHECK(n >= 1u);
  for (const char* column : {"pushed", "handled", "failed", "oldest", "waiting", "running", "delayed", "dead"}) {
    const auto length = a.body[column].size();
    CAF_CHECK_EQUAL(length, n);
  }
  CAF_CHECK_EQUAL(node.get("/v1/history").status, 200);
  CAF_CHECK_EQUAL(node.get("/v1/history?queue=wroks").status, 404);
  CAF_CHECK_EQUAL(node.get("/v1/history?span=9d").status, 400);
  const auto day = node.get("/v1/history?span=24h");
  CAF_CHECK_EQUAL(day.status, 200);
}

CAF_TEST(history survives a restart and what is damaged of it is passed over) {
  const auto now = std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  http_node node("[queue.mail]\n", [&](const std::filesystem::path& data) {
    std::ofstream out(data / "history.jsonl");
    out << "[\"mail\"," << now - 180 << ",1.5,2.5,0.5,3,4,5,6,7]\n";
    out << "[\"mail\",\"soon\",1,1,1,1,1,1,1,1]\n{}\n[\"mail\"]\n";
    out << "[\"mail\"," << now - 120 << ",2,2,2,2,2,2,2,2]\n[\"mail\"," << now - 60 << ",3,3";  // cut off
  });
  const auto a = node.get("/v1/history?queue=mail&span=24h");
  CAF_REQUIRE_EQUAL(a.status, 200);
  const json at = a.at("at"), pushed = a.at("pushed"), dead = a.at("dead");
  const json times = json::array({now - 180, now - 120});
  CAF_CHECK_EQUAL(at, times);
  const json rates = json::array({1.5, 2.0});
  CAF_CHECK_EQUAL(pushed, rates);
  const json buried = json::array({7, 2});
  CAF_CHECK_EQUAL(dead, buried);
}

CAF_TEST(the audit has changes and refusals but no pushes) {
  http_node node("[http]\nREAD_TOKEN = look\nPUSH_TOKEN = push\nWORK_TOKEN = work\nADMIN_TOKEN = root\n");
  const std::vector<std::string> root{"Authorization: Bearer root"}, look{"Authorization: Bearer look"};
  node.push("mail", "{\"payload\":1}", {"Authorization: Bearer push"});
  CAF_CHECK_EQUAL(node.post("/v1/queues/mail/pause", "{}", root).status, 200);
  CAF_CHECK_EQUAL(node.post("/v1/queues/mail/resume", "{}", look).status, 403);
  CAF_CHECK_EQUAL(node.post("/v1/queues/mail/resume", "{}").status, 401);
  CAF_CHECK_EQUAL(node.get("/v1/audit", look).status, 403);
  json lines;
  // A line is written when its answer has left.
  const bool there = eventually([&] {
    lines = node.get("/v1/audit?limit=10", root).at("audit");
    return lines.size() >= 2;
  });
  CAF_REQUIRE(there);
  CAF_REQUIRE_EQUAL(lines.size(), 2u);
  CAF_CHECK_EQUAL(lines[0].value("action", ""), "POST /v1/queues/mail/resume");
  CAF_CHECK_EQUAL(lines[0].value("status", 0), 403);
  CAF_CHECK_EQUAL(lines[0].value("roles", ""), "read");
  CAF_CHECK_EQUAL(lines[1].value("action", ""), "POST /v1/queues/mail/pause");
  CAF_CHECK_EQUAL(lines[1].value("roles", ""), "read push work admin");
  CAF_CHECK_EQUAL(node.get("/v1/audit?limit=x", root).status, 400);
  CAF_CHECK(holds(read_all(node.folder() + "/data/audit.jsonl"), "/v1/queues/mail/pause"));
}

CAF_TEST(the dashboard is served with its policy and known by its tag) {
  http_node node;
  const auto page = node.get("/ui/");
  CAF_REQUIRE_EQUAL(page.status, 200);
  CAF_CHECK(holds(page.headers, "text/html"));
  CAF_CHECK(holds(page.headers, "Content-Security-Policy: default-src 'none'"));
  CAF_CHECK(holds(page.text, "app.js"));
  const auto tag_at = page.headers.find("ETag: ");
  CAF_REQUIRE(tag_at != std::string::npos);
  const auto tag = page.headers.substr(tag_at + 6, page.headers.find('\r', tag_at) - tag_at - 6);
  CAF_CHECK_EQUAL(node.get("/ui/", {"If-None-Match: " + tag}).status, 304);
  CAF_CHECK_EQUAL(node.get("/ui/vendor/preact.js").status, 200);
  CAF_CHECK_EQUAL(node.get("/ui/../main.cpp").status, 404);
  CAF_CHECK_EQUAL(node.get("/ui/nothing.js").status, 404);
  const auto moved = node.get("/ui");
  CAF_CHECK_EQUAL(moved.status, 308);
  CAF_CHECK(holds(moved.headers, "Location: ui/"));
  // A browser is taken to it, curl is told what there is.
  CAF_CHECK_EQUAL(node.get("/", {"Accept: text/html,*/*"}).status, 302);
  CAF_CHECK_EQUAL(node.get("/").status, 200);
}

// Nothing is asked of another host, and no file names one outside of comments and licences.
CAF_TEST(the dashboard asks nobody else) {
  http_node node;
  for (const auto* file :
       {"index.html", "app.js", "theme.js", "style.css", "lib/api.js", "lib/live.js", "lib/chart.js"}) {
    const auto text = node.get(std::string("/ui/") + file).text;
    CAF_REQUIRE(!text.empty());
    if (holds(text, "http://") || holds(text, "https://")) CAF_FAIL(file << " names another host");
  }
}

CAF_TEST(a caller learns what he may do) {
  http_node open;
  const auto all = open.get("/v1/me");
  CAF_CHECK_EQUAL(all.at("login"), json(false));
  CAF_CHECK_EQUAL(all.at("roles"), json::array({"read", "push", "work", "admin"}));
  http_node closed("[http]\nREAD_TOKEN = look\nPUSH_TOKEN = push\nWORK_TOKEN = work\nADMIN_TOKEN = root\n");
  const auto nobody = closed.get("/v1/me");
  CAF_CHECK_EQUAL(nobody.status, 200);
  CAF_CHECK_EQUAL(nobody.at("login"), json(true));
  CAF_CHECK_EQUAL(nobody.at("roles"), json::array());
  const auto reader = closed.get("/v1/me", {"Authorization: Bearer look"});
  CAF_CHECK_EQUAL(reader.at("roles"), json::array({"read"}));
}

CAF_TEST(lists have tags) {
  http_node node("[queue.mail]\n");
  const auto a = node.get("/v1/queues");
  const auto at = a.headers.find("ETag: ");
  CAF_REQUIRE(at != std::string::npos);
  const auto tag = a.headers.substr(at + 6, a.headers.find('\r', at) - at - 6);
  CAF_CHECK_EQUAL(node.get("/v1/queues", {"If-None-Match: " + tag}).status, 304);
  node.push("mail", "{\"payload\":1}");
  CAF_CHECK_EQUAL(node.get("/v1/queues", {"If-None-Match: " + tag}).status, 200);
}

CAF_TEST(the store page says where things live) {
  http_node node("[queue.mail]\n[queue.quick]\nTYPE = channel\n");
  const auto a = node.get("/v1/store");
  CAF_REQUIRE_EQUAL(a.status, 200);
  CAF_CHECK_EQUAL(a.at("queues").size(), 2u);
  const auto first = a.body["queues"][0]["durable"], second = a.body["queues"][1]["durable"];
  CAF_CHECK_EQUAL(first, json(true));
  CAF_CHECK_EQUAL(second, json(false));
}
