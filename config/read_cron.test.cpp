#define CAF_SUITE config_read_cron
#include "config/read_cron.hpp"

#include "caf/test/unit_test.hpp"

using namespace caravan;
using namespace caravan::config;
using namespace std::chrono;
using namespace std::chrono_literals;

namespace {

constexpr sys_seconds now = sys_days{2026y / 2 / 10};

ini parsed(std::string_view text) { return parse_ini(text, "f.ini").content; }

cron_settings read(std::string_view text, std::string_view name = "x") {
  return read_cron_settings(parsed(text), name, now).value();
}

std::string mistakes(std::string_view text) {
  problems found;
  (void)read_cron(parsed(text), now, found);
  return to_string(found);
}

bool has(const std::string& text, std::string_view part) {
  if (text.find(part) != std::string::npos) return true;
  CAF_MESSAGE("\"" << text << "\" does not hold \"" << part << "\"");
  return false;
}

}  // namespace

CAF_TEST(a task inherits from all tasks) {
  const auto s = read(
      "[cron]\nTIME_ZONE = Europe/Berlin\nNOTICE_ON_SUCCESS = true\nOVERLAP = queue\n"
      "[cron.x]\nSCHEDULE = 30 2 * * *\nPUSH = `mail {\"a\": \"b c\"}`\nJITTER = 90s\nMISSED = once\n");
  CAF_CHECK_EQUAL(s.name, "x");
  CAF_CHECK(s.enabled && !s.run_at_start && s.notice_on_success);
  CAF_CHECK_EQUAL(s.time_zone, "Europe/Berlin");
  CAF_CHECK(s.overlap == overlap_mode::queue && s.missed == missed_mode::once);
  CAF_CHECK(s.jitter == 90s);
  CAF_CHECK(s.action == cron_action::push);
  CAF_CHECK_EQUAL(s.queue, "mail");
  CAF_CHECK_EQUAL(s.payload, "{\"a\": \"b c\"}");
  CAF_CHECK_EQUAL(s.description, "Pushes an item to the queue mail");
}

CAF_TEST(a task without a section has the settings of all) {
  const auto s = read("[cron]\nENABLED = false\n", "cleanup");
  CAF_CHECK(!s.enabled && s.action == cron_action::none && s.schedule.empty());
}

CAF_TEST(tasks are named once and subsections are their own keys) {
  const auto text =
      "[cron.a.b]\nDEEP = 1\n[cron.c]\nENABLED = false\n[cron.a]\nSCHEDULE = @daily\nOLDER_THAN = 24h\nCOUNT = 7\nDRY "
      "= yes\n"
      "BAD = x\n";
  const auto names = cron_names(parsed(text));
  CAF_CHECK(names == std::vector<std::string>({"a", "c"}));
  const auto own = read(text, "a").own;
  CAF_CHECK_EQUAL(own.all().size(), 5u);
  CAF_CHECK(own.duration("OLDER_THAN", 0s).value() == 24h);
  CAF_CHECK_EQUAL(own.integer("COUNT", 0).value(), 7);
  CAF_CHECK(own.boolean("DRY", false).value());
  CAF_CHECK_EQUAL(own.integer("NONE", 3).value(), 3);
  CAF_CHECK_EQUAL(own.nested("b").integer("DEEP", 0).value(), 1);
  CAF_CHECK(has(own.integer("BAD", 0).failure().text, "f.ini:10: error: BAD: \"x\" is no whole number"));
  CAF_CHECK(own.only({"OLDER_THAN", "COUNT", "DRY", "BAD", "b.DEEP"}));
  CAF_CHECK(has(own.only({"OLDER_THEN", "COUNT", "DRY", "BAD", "b.DEEP"}).failure().text, "did you mean OLDER_THEN?"));
}

CAF_TEST(mistakes are told with their place) {
  CAF_CHECK(has(mistakes("[cron.x]\nSCHEDULE = 0 24 * * *\n"),
                "f.ini:2: error: [cron.x] SCHEDULE: schedule \"0 24 * * *\": hour field \"24\": \"24\" is out of "
                "range; write 0 to 23"));
  CAF_CHECK(has(mistakes("[cron.x]\nSCHEDULE = 0 0 31 4 *\n"), "it never fires: there is no such day in April"));
  CAF_CHECK(has(mistakes("[cron.x]\nSCHEDULE = @daily\nTIME_ZONE = Mars/Base\n"), "time zone \"Mars/Base\""));
  CAF_CHECK(has(mistakes("[cron.x]\nSCHEDULE = @daily\nMISSED = twice\n"), "\"twice\" is none of skip | once"));
  CAF_CHECK(has(mistakes("[cron.x]\nPUSH = mail {}\n"), "[cron.x] SCHEDULE: the task is enabled and has none"));
  CAF_CHECK(has(mistakes("[cron.x]\nSCHEDULE = @daily\nPUSH = mail\n"), "there is no item behind the queue's name"));
  CAF_CHECK(has(mistakes("[cron.x]\nSCHEDULE = @daily\nPUSH = a {}\nEXEC = b\n"), "the task has PUSH as well"));
  CAF_CHECK(has(mistakes("[cron.x]\nSCHEDULE = @daily\nHTTP = ftp://h\n"), "is no URL"));
  CAF_CHECK(has(mistakes("[cron]\nOWN = 1\n"), "f.ini:2: error: [cron] OWN"));
  CAF_CHECK(has(mistakes("[cron.a b]\nSCHEDULE = @daily\n"), "this is no name for a task"));
  CAF_CHECK(has(mistakes("[cron.x]\nSCHEDULE = * * * * * *\n"), "f.ini:2: warning: [cron.x] SCHEDULE: schedule"));
  const auto none = mistakes("[cron.x]\nSCHEDULE = @daily\nEXEC = backup --all\nENABLED = no\n");
  CAF_CHECK_EQUAL(none, "");
}

CAF_TEST(the extended dialect is asked for) {
  CAF_CHECK(has(mistakes("[cron.x]\nSCHEDULE = 0 0 L * *\n"), "of the extended dialect"));
  const auto s = read("[cron.x]\nSCHEDULE = H 0 L * *\nDIALECT = extended\n");
  CAF_CHECK(s.dialect == cron_dialect::extended);
}

CAF_TEST(secrets in actions are not shown) {
  const auto text = mistakes("[cron.x]\nSCHEDULE = @daily\nHTTP = ftp://user:hunter2@h\n");
  CAF_CHECK(text.find("hunter2") == std::string::npos);
}
