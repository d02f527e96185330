#define CAF_SUITE peer_greeting
#include "nodes/peer/greeting.hpp"

#include "caf/test/unit_test.hpp"

using namespace caravan;

namespace {

std::string text_of(const expected<peer_greeting>& g) {
  return g ? g->name + "/" + g->incarnation + "/" + std::to_string(g->protocol)
           : std::string(to_string(g.failure().code));
}
std::string verdict(const peer_rules& rules, const std::string& name, const std::vector<std::string>& certificate = {},
                    std::uint32_t protocol = 1) {
  const auto fine = check_peer(rules, {name, "i", protocol}, certificate);
  return fine ? "fine" : std::string(to_string(fine.failure().code));
}

}  // namespace

CAF_TEST(a greeting is read as it was written) {
  const auto line = greeting_line({"earth", "a1b2", 7});
  CAF_CHECK_EQUAL(line, "caravan-node 7 earth a1b2\n");
  CAF_CHECK_EQUAL(text_of(parse_greeting(line.substr(0, line.size() - 1))), "earth/a1b2/7");
  CAF_CHECK_EQUAL(text_of(parse_answer(line.substr(0, line.size() - 1))), "earth/a1b2/7");
  const auto odd = greeting_line({"ea rth\n", "", 1});
  CAF_CHECK_EQUAL(text_of(parse_greeting(odd.substr(0, odd.size() - 1))), "ea_rth_/_/1");
}

CAF_TEST(a later version may say more) {
  CAF_CHECK_EQUAL(text_of(parse_greeting("caravan-node 2 earth i zone=b more")), "earth/i/2");
}

CAF_TEST(what is no greeting is refused) {
  const std::string long_name(500, 'x');
  for (const std::string line :
       {"", " ", "caravan-node", "caravan-node ", "caravan-node 1", "caravan-node 1 earth", "caravan-node x earth i",
        "caravan-node 1x earth i", "caravan-node -1 earth i", "caravan-node 99999999999 earth i", "caravan-node 1  i",
        "CARAVAN-NODE 1 earth i", "GET / HTTP/1.1", "caravan-node 1 ea\x01rth i"})
    CAF_CHECK_EQUAL(text_of(parse_greeting(line)), "invalid_argument");
  CAF_CHECK_EQUAL(text_of(parse_greeting("caravan-node 1 " + long_name + " i")), "invalid_argument");
  const std::string zeros(40, '\0');
  CAF_CHECK_EQUAL(text_of(parse_greeting(zeros)), "invalid_argument");
}

CAF_TEST(a refusal tells why in one line) {
  const auto line = refusal_line("not\namong us");
  CAF_CHECK_EQUAL(line, "caravan-refused not among us\n");
  const auto read = parse_answer(line.substr(0, line.size() - 1));
  CAF_REQUIRE(!read);
  CAF_CHECK_EQUAL(read.failure().code, errc::forbidden);
  CAF_CHECK_EQUAL(read.failure().text, "refused: not among us");
  const auto size = refusal_line(std::string(5000, 'x')).size();
  CAF_CHECK_EQUAL(size, greeting_size - 1);
}

CAF_TEST(who may join is a matter of protocol and list and certificate) {
  CAF_CHECK_EQUAL(verdict({1, {}, false}, "mars"), "fine");
  CAF_CHECK_EQUAL(verdict({2, {}, false}, "mars"), "not_supported");
  CAF_CHECK_EQUAL(verdict({1, {"earth", "mars"}, false}, "mars"), "fine");
  CAF_CHECK_EQUAL(verdict({1, {"earth", "mars"}, false}, "venus"), "forbidden");
  CAF_CHECK_EQUAL(verdict({1, {}, true}, "mars", {"host.example", "mars"}), "fine");
  CAF_CHECK_EQUAL(verdict({1, {}, true}, "mars", {"earth"}), "forbidden");
  CAF_CHECK_EQUAL(verdict({1, {}, true}, "mars", {}), "forbidden");
  CAF_CHECK_EQUAL(verdict({1, {}, true}, "mars", {"MARS", "mars2"}), "forbidden");
  CAF_CHECK_EQUAL(verdict({1, {"mars"}, true}, "venus", {"venus"}), "forbidden");
}
