#define CAF_SUITE audit_log
#include "nodes/audit_log.hpp"

#include "tests/support/temp_folder.hpp"

#include "caf/test/unit_test.hpp"

using namespace caravan;

namespace {

audit_line line(const std::string& action) {
  audit_line l;
  l.at = std::chrono::system_clock::time_point{std::chrono::milliseconds{1'700'000'000'123}};
  l.remote = "127.0.0.1:4";
  l.roles = "admin";
  l.action = action;
  l.status = 200;
  return l;
}

}  // namespace

CAF_TEST(the newest comes first and a restart remembers) {
  const testing_support::temp_folder folder;
  const auto file = folder.path() / "audit.jsonl";
  {
    audit_log log(file);
    log.add(line("POST /v1/queues/a/pause"));
    log.add(line("POST /v1/queues/a/resume"));
  }
  std::ofstream(file, std::ios::app) << "{\"n\":3,\"at_m";  // a crash cut it off
  audit_log log(file);
  const auto all = log.latest(10);
  CAF_REQUIRE_EQUAL(all.size(), 2u);
  CAF_CHECK_EQUAL(all[0].action, "POST /v1/queues/a/resume");
  CAF_CHECK_EQUAL(all[1].number, 1u);
  CAF_CHECK(all[0].at == line("").at);
  log.add(line("x"));
  const auto newest = log.latest(1).at(0).number;
  CAF_CHECK_EQUAL(newest, 3u);
  const audit_log again(file);
  CAF_CHECK_EQUAL(again.latest(10).size(), 3u);
}

CAF_TEST(the files have a cap) {
  const testing_support::temp_folder folder;
  const auto file = folder.path() / "audit.jsonl";
  audit_log log(file, 2'000);
  for (int i = 0; i < 200; ++i) log.add(line("POST /v1/queues/q" + std::to_string(i) + "/pause"));
  CAF_CHECK(std::filesystem::file_size(file) <= 2'000u);
  CAF_CHECK(std::filesystem::file_size(file.string() + ".1") <= 2'000u);
  const auto newest = log.latest(1).at(0).number;
  CAF_CHECK_EQUAL(newest, 200u);
  CAF_CHECK_EQUAL(log.latest(5000).size(), 200u);
}
