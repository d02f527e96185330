#define CAF_SUITE config_check
#include "config/check.hpp"

#include "config/environment.hpp"

#include "caf/test/unit_test.hpp"

using namespace caravan::config;

namespace {

std::string checked(std::string_view text) { return to_string(check(parse_ini(text, "f.ini"))); }

}  // namespace

CAF_TEST(an empty file is fine) {
  CAF_CHECK_EQUAL(checked(""), "");
  CAF_CHECK_EQUAL(checked("[node]\n[http]\n[log]\n[redis]\n[queue]\n[queue.a]\n"), "");
}

CAF_TEST(unknown sections) {
  CAF_CHECK_EQUAL(checked("[que.mail]\nLENGTH = 1\n"),
                  "f.ini:1: error: [que.mail]: there is no such section; did you mean [queue.mail]?\n");
  CAF_CHECK_EQUAL(checked("[Queue]\n"), "f.ini:1: error: [Queue]: there is no such section; did you mean [queue]?\n");
  CAF_CHECK_EQUAL(checked("[htttp]\n"), "f.ini:1: error: [htttp]: there is no such section; did you mean [http]?\n");
  const auto plain = "there is no such section; remove it, or see \"caravan config explain\" for what there is\n";
  CAF_CHECK_EQUAL(checked("[picture]\n"), std::string("f.ini:1: error: [picture]: ") + plain);
  CAF_CHECK_EQUAL(checked("[http.x]\n"),
                  "f.ini:1: error: [http.x]: there is no such section; did you mean [http]?\n");
  CAF_CHECK_EQUAL(checked("[queue.]\n"),
                  "f.ini:1: error: [queue.]: there is no such section; did you mean [queue]?\n");
}

CAF_TEST(keys outside any section) {
  CAF_CHECK_EQUAL(
      checked("LENGTH = 1\n[queue]\n"),
      "f.ini:1: error: LENGTH: it stands outside any section and does nothing; put it below a [section]\n");
}

CAF_TEST(unknown and misspelt keys) {
  CAF_CHECK_EQUAL(checked("[queue.mail]\nLENGHT = 1\n"),
                  "f.ini:2: error: [queue.mail] LENGHT: there is no such key; did you mean LENGTH?\n");
  CAF_CHECK_EQUAL(checked("[queue]\nlength = 1\n"),
                  "f.ini:2: error: [queue] length: there is no such key; did you mean LENGTH?\n");
  CAF_CHECK_EQUAL(
      checked("[http]\nLENGTH = 1\n"),
      "f.ini:2: error: [http] LENGTH: this key has no meaning here; put it into [queue] and [queue.NAME]\n");
  CAF_CHECK_EQUAL(
      checked("[log]\nCOLOUR = 1\n"),
      "f.ini:2: error: [log] COLOUR: there is no such key; remove it, or see \"caravan config explain log\"\n");
}

CAF_TEST(values are checked wherever they stand) {
  // No queue reads [queue] here.
  CAF_CHECK_EQUAL(
      checked("[queue]\nLENGTH = x\nUNIQUE = yy\nLEASE = z\n"),
      "f.ini:2: error: [queue] LENGTH: \"x\" is no whole number; write for example 100\n"
      "f.ini:3: error: [queue] UNIQUE: \"yy\" is neither true nor false; write true or false\n"
      "f.ini:4: error: [queue] LEASE: \"z\" is no duration; write for example 90 (seconds), 500ms or 1h30m\n");
  CAF_CHECK_EQUAL(
      checked("[queue]\nSYNC = x\n"),
      "f.ini:2: error: [queue] SYNC: \"x\" is none of always, interval:MS, never; write for example interval:1000\n");
  // Three queues inherit one mistake.
  CAF_CHECK_EQUAL(
      checked("[queue]\nSYNC = x\n[queue.a]\n[queue.b]\n[queue.c]\n"),
      "f.ini:2: error: [queue] SYNC: \"x\" is none of always, interval:MS, never; write for example interval:1000\n");
  // Overridden in the only queue, but waiting for the next one.
  CAF_CHECK_EQUAL(checked("[queue]\nLENGTH = x\n[queue.a]\nLENGTH = 1\n"),
                  "f.ini:2: error: [queue] LENGTH: \"x\" is no whole number; write for example 100\n");
}

CAF_TEST(queues on Redis need an address that can be read) {
  const auto file = "[queue]\nCONN_STR = redis://h\n[queue.a]\nTYPE = redis\n";
  CAF_CHECK_EQUAL(checked(file), "");
  CAF_CHECK(checked("[queue.a]\nTYPE = redis\nCONN_STR = redis://h:x\n").find("a port is a number") != std::string::npos);
  // But a queue that nobody named would be one in files.
  CAF_CHECK(
      checked(std::string(file) + "[node]\nAUTO_CREATE = true\n").find("invalid connection string \"redis://h\"") !=
      std::string::npos);
}

CAF_TEST(tasks are checked with their schedules) {
  const auto good = checked(
      "[cron]\nENABLED = true\n[cron.x]\nSCHEDULE = @daily\nPUSH = `q {\"a\": 1}`\nTASK_KEY = 7\n[cron.x.y]\nZ = 1\n");
  CAF_CHECK_EQUAL(good, "");
  const auto bad = checked("[cron.x]\nSCHEDULE = 0 24 * * *\n");
  CAF_CHECK(bad.find("f.ini:2: error: [cron.x] SCHEDULE: schedule \"0 24 * * *\": hour field") != std::string::npos);
  CAF_CHECK(checked("[cron.x]\nSCHEDUEL = @daily\n")
                .find("[cron.x] SCHEDUEL: there is no such key; did you mean SCHEDULE?") != std::string::npos);
}

CAF_TEST(removed options are errors and not unknown sections too) {
  CAF_CHECK_EQUAL(
      checked("[mailer]\nSEND_BUFFER_LEN = 20\n[repository]\nMIRROR_QUEUE_LENGTH = 20\n"),
      "f.ini:2: error: [mailer].SEND_BUFFER_LEN: this option was removed; set what you need in [queue.mailer] instead\n"
      "f.ini:4: error: [repository].MIRROR_QUEUE_LENGTH: this option was removed; set what you need in [queue.mirror] "
      "instead\n");
  CAF_CHECK_EQUAL(checked("[mailer]\nSEND_BUFFER_LEN = 20\nFROM = x\n"),
                  "f.ini:1: error: [mailer]: there is no such section; remove it, or see \"caravan config explain\" "
                  "for what there is\n"
                  "f.ini:2: error: [mailer].SEND_BUFFER_LEN: this option was removed; set what you need in "
                  "[queue.mailer] instead\n");
}

CAF_TEST(everything is told at once in the order of the file) {
  CAF_CHECK_EQUAL(
      checked("[log]\nLEVEL = loud\nnonsense\n[http]\nADDR = x\nMAX_BODDY = 1\n[queue.a b]\n"),
      "f.ini:2: error: [log] LEVEL: \"loud\" is none of trace | debug | info | warn | error; write one of them\n"
      "f.ini:3: error: no \"=\" in this line; write KEY = value, or put # in front of a comment\n"
      "f.ini:5: error: [http] ADDR: \"x\" has no port; write for example 127.0.0.1:7171 or [::1]:7171\n"
      "f.ini:6: error: [http] MAX_BODDY: there is no such key; did you mean MAX_BODY?\n"
      "f.ini:7: error: queue \"a b\": this is no name for a queue; use up to 128 letters, digits, - _ and .\n");
}

CAF_TEST(the environment is checked like the file) {
  ini in;
  const std::vector<std::string> env = {"CARAVAN__QUEUE__LENGHT=1", "CARAVAN__HTTP__MAX_BODY=x"};
  apply_environment(in, env);
  CAF_CHECK_EQUAL(to_string(check(in)),
                  "environment variable CARAVAN__QUEUE__LENGHT: error: [queue] LENGHT: there is no such key; did you "
                  "mean LENGTH?\n"
                  "environment variable CARAVAN__HTTP__MAX_BODY: error: [http] MAX_BODY: \"x\" is no size; write for "
                  "example 4096, 512KiB or 8MiB\n");
}
