#define CAF_SUITE config_read_limit
#include "config/read_limit.hpp"

#include "config/check.hpp"
#include "config/read_qos.hpp"
#include "config/read_settings.hpp"

#include "caf/test/unit_test.hpp"

using namespace caravan;
using namespace caravan::config;
using namespace std::chrono_literals;

namespace {

ini in(std::string_view text) { return parse_ini(text, "f.ini").content; }

std::string mistakes(std::string_view text) { return to_string(check(in(text))); }

bool holds(const std::string& text, std::string_view part) {
  if (text.find(part) != std::string::npos) return true;
  CAF_ERROR("no \"" + std::string(part) + "\" in: " + text);
  return false;
}

}  // namespace

CAF_TEST(a limit takes over what it does not say) {
  const auto all =
      read_settings(
          in("[redis]\nCONN_STR = redis://h:1\n[limit]\nPER = 1h\n[limit.sms]\nRATE = 5\n[limit.api]\n"
             "RATE = 100\nPER = 500ms\nBURST = 20\nSTORE = redis\nWHEN_DOWN = local\n[limit.old]\nKIND = period\n"))
          .value()
          .limits;
  CAF_REQUIRE(all.size() == 3);
  CAF_CHECK_EQUAL(all[0].name, "sms");
  CAF_CHECK_EQUAL(all[0].rate, 5u);
  CAF_CHECK_EQUAL(all[0].burst, 5u);
  CAF_CHECK(all[0].per == 1h);
  CAF_CHECK(all[0].kind == limit_kind::tokens);
  CAF_CHECK(all[0].store == limit_store::memory);
  CAF_CHECK(all[0].down == when_down::closed);
  CAF_CHECK(all[1].per == 500ms);
  CAF_CHECK_EQUAL(all[1].burst, 20u);
  CAF_CHECK_EQUAL(all[1].conn, "redis://h:1");
  CAF_CHECK(all[1].down == when_down::local);
  CAF_CHECK(all[2].kind == limit_kind::period);
}

CAF_TEST(mistakes of a limit name the place and the remedy) {
  CAF_CHECK_EQUAL(mistakes("[limit.a]\nRATE = 0\nBURST = 5\n"), "");
  CAF_CHECK(holds(mistakes("[limit.a]\nRATE = 0\n"), "f.ini:2"));
  CAF_CHECK(holds(mistakes("[limit.a]\nRATE = 0\n"), "so BURST is needed; set BURST, or RATE to 1 or more"));
  CAF_CHECK(holds(mistakes("[limit.a]\nKIND = period\nRATE = 0\nBURST = 3\n"), "permits nothing is none"));
  CAF_CHECK(holds(mistakes("[limit.a]\nSTORE = redis\n"), "no Redis is named; set CONN_STR in [redis]"));
  CAF_CHECK(holds(mistakes("[limit.a]\nWHEN_DOWN = maybe\n"), "[limit.a] WHEN_DOWN"));
  CAF_CHECK(holds(mistakes("[limit.a]\nPER = 0s\n"), "[limit.a] PER"));
  CAF_CHECK(holds(mistakes("[limit.a]\nRATES = 1\n"), "did you mean RATE?"));
  CAF_CHECK(holds(mistakes("[limit.a b]\n"), "no name for a limit"));
}

CAF_TEST(overload control is off unless it is switched on) {
  problems found;
  const auto none = read_qos_settings(in(""), found);
  CAF_CHECK(!none.enabled);
  CAF_CHECK(none.max_in_flight >= 4);
  CAF_CHECK_EQUAL(none.max_waiting, 100u);
  CAF_CHECK(none.target_wait_time == 250ms);
  const auto q =
      read_qos_settings(in("[qos]\nENABLED = true\nMAX_INFLIGHT = 3\nMAX_WAITING = 0\nTARGET_WAIT_TIME = 1s\n"), found);
  CAF_CHECK(q.enabled);
  CAF_CHECK_EQUAL(q.max_in_flight, 3u);
  CAF_CHECK_EQUAL(q.max_waiting, 0u);
  CAF_CHECK(q.target_wait_time == 1s);
  CAF_CHECK(found.empty());
  CAF_CHECK(holds(mistakes("[qos]\nMAX_INFLIGHT = 0\n"), "[qos] MAX_INFLIGHT"));
  CAF_CHECK(holds(mistakes("[qos]\nTARGET_WAIT_TIME = 0s\n"), "[qos] TARGET_WAIT_TIME"));
  CAF_CHECK(holds(mistakes("[qos]\nANY = 1\n"), "f.ini:2"));
}
