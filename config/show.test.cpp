#define CAF_SUITE config_show
#include "config/show.hpp"

#include "config/environment.hpp"
#include "config/read_settings.hpp"
#include "config/registry.hpp"

#include "caf/test/unit_test.hpp"

#include <fstream>
#include <sstream>

using namespace caravan;
using namespace caravan::config;

namespace {

/// "value (origin)" of one setting in show.
std::string shown(const ini& in, std::string_view section, std::string_view key) {
  for (const auto& line : show(in))
    if (line.section == section && line.key == key) return line.value + " (" + to_string(line.where) + ")";
  return "not shown";
}

}  // namespace

CAF_TEST(every setting is shown with where it comes from) {
  auto in = parse_ini("[queue]\nLENGTH = 5\n[queue.a]\nBATCH_LENGTH = 6\nMAX_WORKERS = 3\n", "f.ini").content;
  const std::vector<std::string> env = {"CARAVAN__QUEUE_0x2E_A__MAX_WORKERS=4"};
  apply_environment(in, env);
  CAF_CHECK_EQUAL(shown(in, "queue", "LENGTH"), "5 (f.ini:2)");
  CAF_CHECK_EQUAL(shown(in, "queue.a", "LENGTH"), "5 (f.ini:2)");
  CAF_CHECK_EQUAL(shown(in, "queue.a", "BATCH_LENGTH"), "6 (f.ini:4)");
  CAF_CHECK_EQUAL(shown(in, "queue", "BATCH_LENGTH"), "20 (default)");
  CAF_CHECK_EQUAL(shown(in, "queue.a", "MAX_WORKERS"), "4 (environment variable CARAVAN__QUEUE_0x2E_A__MAX_WORKERS)");
  CAF_CHECK_EQUAL(shown(in, "http", "ADDR"), "127.0.0.1:7171 (default)");
  CAF_CHECK_EQUAL(shown(in, "node", "NAME"), read_settings(in)->node.name + " (default)");
  std::size_t supported = 0, of_queue = 0;
  for (const auto& k : all_keys()) {
    supported += find_section_spec(k.section)->supported;
    of_queue += k.section == "queue";
  }
  CAF_CHECK_EQUAL(show(in).size(), supported + of_queue);
}

CAF_TEST(keys of a task of its own are shown as they are written) {
  const auto in = parse_ini("[cron.x]\nSCHEDULE = @daily\nOLDER_THAN = 24h\n[cron.x.y]\nZ = 1\nENABLED = maybe\n", "f.ini").content;
  CAF_CHECK_EQUAL(shown(in, "cron.x", "SCHEDULE"), "@daily (f.ini:2)");
  CAF_CHECK_EQUAL(shown(in, "cron.x", "OLDER_THAN"), "24h (f.ini:3)");
  CAF_CHECK_EQUAL(shown(in, "cron.x.y", "Z"), "1 (f.ini:5)");
  CAF_CHECK_EQUAL(shown(in, "cron.x.y", "ENABLED"), "maybe (f.ini:6)");
}

CAF_TEST(the connection of a Redis queue is shown as it is found) {
  const auto in = parse_ini(
                      "[redis]\nCONN_STR = redis://:pw@r\n[queue.a]\nTYPE = redis\n[queue.b]\nTYPE = redis\nCONN_STR = "
                      "redis://b\n[queue.c]\n",
                      "f")
                      .content;
  CAF_CHECK_EQUAL(shown(in, "queue.a", "CONN_STR"), "redis://:***@r (f:2)");
  CAF_CHECK_EQUAL(shown(in, "queue.b", "CONN_STR"), "redis://b (f:7)");
  CAF_CHECK_EQUAL(shown(in, "queue.c", "CONN_STR"), " (default)");
  CAF_CHECK_EQUAL(shown(parse_ini("[queue.a]\nTYPE = redis\n", "f").content, "queue.a", "CONN_STR"),
                  "redis://127.0.0.1:6379/0 (default)");
}

CAF_TEST(no secret is ever shown) {
  const auto in = parse_ini(
                      "[http]\nADMIN_TOKEN = hunter2hunter2hunter2\n[redis]\nCONN_STR = "
                      "redis://u:hunter2@h\n[queue]\nHANDLER = http://u:hunter2@h\n"
                      "CONN_STR = addrs=h password=hunter2\n[queue.a]\n[cron.x]\nHTTP = "
                      "http://h?token=hunter2\nMY_PASSWORD = hunter2\n"
                      "[cluster]\nsecret_key = hunter2\n",
                      "f")
                      .content;
  const auto out = to_text(show(in));
  CAF_CHECK(out.find("hunter2") == std::string::npos);
  CAF_CHECK(out.find("ADMIN_TOKEN = ***\n") != std::string::npos);
  CAF_CHECK(out.find("READ_TOKEN =\n") != std::string::npos);
  CAF_CHECK(out.find("MY_PASSWORD = ***\n") != std::string::npos);
}

CAF_TEST(what is shown is a file that means the same) {
  const auto in =
      parse_ini("[queue.a]\nLENGTH = 7\nHANDLER = `exec:grep '#'`\n[log]\nLEVEL = debug\n[cron.x]\nX = 1\n", "f").content;
  const auto text = to_text(show(in));
  CAF_CHECK(text.find("[queue.a]\n") != std::string::npos);
  CAF_CHECK(text.find("; f:2\nLENGTH = 7\n") != std::string::npos);
  CAF_CHECK(text.find("; default\nBATCH_LENGTH = 20\n") != std::string::npos);
  const auto back = parse_ini(text, "shown");
  CAF_CHECK_EQUAL(to_string(back.found), "");
  CAF_CHECK_EQUAL(to_text(show(back.content)).size() > 0, true);
  CAF_CHECK_EQUAL(back.content.get("queue.a", "HANDLER"), "exec:grep '#'");
  CAF_CHECK_EQUAL(back.content.get("cron.x", "X"), "1");
  const auto settings = read_settings(back.content);
  CAF_REQUIRE(settings);
  CAF_CHECK_EQUAL(settings->queues.at(0).length, 7u);
}

CAF_TEST(explain) {
  const auto length = explain("LENGTH");
  CAF_REQUIRE(length);
  CAF_CHECK_EQUAL(*length,
                  "LENGTH in [queue] and [queue.NAME]\n"
                  "  Most items that wait before a push answers queue_full.\n"
                  "  Type:     whole number\n"
                  "  Default:  100000\n"
                  "  Values:   1..1000000000\n"
                  "            0 or less: the default\n"
                  "  Variable: CARAVAN__QUEUE__LENGTH\n");
  for (const auto* name :
       {"queue.LENGTH", "[queue] LENGTH", "[queue.mail] LENGTH", "queue.mail.LENGTH", " LENGTH ", "[queue]LENGTH"}) {
    const auto same = explain(name);
    CAF_REQUIRE(same);
    CAF_CHECK_EQUAL(*same, *length);
  }
  CAF_CHECK(explain("CONN_STR")->find("[redis]") != std::string::npos);
  CAF_CHECK(explain("CONN_STR")->find("[queue]") != std::string::npos);
  CAF_CHECK(explain("redis.CONN_STR")->find("[queue]") == std::string::npos);
  CAF_CHECK(explain("queue")->find("  BATCH_LENGTH        Most items of one handler call\n") != std::string::npos);
  CAF_CHECK(explain("[queue.mail]")->find("LENGTH") != std::string::npos);
  CAF_CHECK(explain("MAX_WORKERS")->find("Default:  half the cores, at least 1, at most 10\n") != std::string::npos);
  CAF_CHECK(explain("ADMIN_TOKEN")->find("Default:  empty\n") != std::string::npos);
}

CAF_TEST(explain names the nearest) {
  const auto why = [](std::string_view name) {
    const auto out = explain(name);
    return out ? "found" : out.failure().code == errc::not_found ? out.failure().text : "another code";
  };
  CAF_CHECK_EQUAL(why("LENGHT"), "there is no setting \"LENGHT\"; did you mean LENGTH?");
  CAF_CHECK_EQUAL(why("[http] LENGTH"), "there is no setting \"LENGTH\" in [http]");
  CAF_CHECK_EQUAL(why("htpp"), "there is no setting \"htpp\"; did you mean http?");
  CAF_CHECK_EQUAL(why("htpp.ADDR"), "there is no section [htpp]; did you mean [http]?");
  CAF_CHECK_EQUAL(why("xyzzy"), "there is no setting \"xyzzy\"");
  for (const auto* odd : {"", ".", "[", "[]", "]", "[x", "a.", ".a", "[queue"}) CAF_CHECK(!why(odd).empty());
}

CAF_TEST(the page in docs is the one of this table) {
  const auto path = CARAVAN_SOURCE_DIR "/docs/configuration.md";
  if (std::getenv("CARAVAN_WRITE_DOCS")) std::ofstream(path) << configuration_page();
  std::ifstream file(path);
  std::stringstream there;
  there << file.rdbuf();
  if (there.str() != configuration_page())
    CAF_ERROR("docs/configuration.md is out of date; write it with: CARAVAN_WRITE_DOCS=1 ctest -R config_show");
  CAF_CHECK(there.str() == configuration_page());
}
