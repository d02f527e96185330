#define CAF_SUITE key_ring
#include "integration/sealed/key_ring.hpp"

#include "caf/test/unit_test.hpp"
#include "tests/support/temp_folder.hpp"

#include <cstdlib>
#include <fstream>
#include <set>

using namespace caravan;

namespace {

const std::string one(64, '1');
const std::string two = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

key_ring ring(const std::string& text) { return key_ring::parse(text, "here").value(); }
std::string complaint(const std::string& text) {
  const auto r = key_ring::parse(text, "here");
  return r ? "" : r.failure().text;
}

}  // namespace

CAF_TEST(what was sealed is opened) {
  const auto keys = ring(one);
  for (const std::string& plain :
       {std::string(), std::string("{}"), std::string(100'000, 'x'), std::string("\0\xff\x01", 3)}) {
    const auto sealed = keys.seal(plain, "mail_queue");
    CAF_CHECK(is_sealed(sealed));
    CAF_CHECK(sealed.size() == plain.size() + key_ring::overhead);
    const auto opened = keys.open(sealed, "mail_queue");
    CAF_REQUIRE(opened);
    CAF_CHECK(*opened == plain);
  }
  const auto text = keys.seal("a secret of some length", "q");
  CAF_CHECK(text.find("secret") == std::string::npos);
}

CAF_TEST(the same text is sealed differently each time) {
  const auto keys = ring(one);
  std::set<std::string> seen;
  for (int i = 0; i < 1000; ++i) seen.insert(keys.seal("x", "q"));
  CAF_CHECK(seen.size() == 1000);
}

CAF_TEST(every changed bit is noticed) {
  const auto keys = ring(one);
  const auto sealed = keys.seal("{\"to\":\"ann\"}", "q");
  for (std::size_t bit = 0; bit < sealed.size() * 8; ++bit) {
    auto changed = sealed;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << bit % 8));
    CAF_REQUIRE(!keys.open(changed, "q"));
  }
  for (std::size_t size = 0; size < sealed.size(); ++size) CAF_REQUIRE(!keys.open(sealed.substr(0, size), "q"));
  CAF_CHECK(!keys.open(sealed + "x", "q"));
  CAF_CHECK(keys.open(sealed, "other").failure().code == errc::backend_failed);
}

CAF_TEST(a key is replaced by a new first one) {
  const auto sealed = ring(one).seal("old", "q");
  const auto both = ring(two + "\n" + one);
  CAF_CHECK(both.open(sealed, "q").value() == "old");
  const auto later = both.seal("new", "q");
  CAF_CHECK(ring(two).open(later, "q").value() == "new");
  const auto unknown = ring(two).open(sealed, "q");
  CAF_REQUIRE(!unknown);
  CAF_CHECK(unknown.failure().code == errc::not_found);
  // 02d449a3 is the start of the SHA-256 of 32 bytes 0x11.
  CAF_CHECK(unknown.failure().text.find("key 02d449a3") != std::string::npos);
}

CAF_TEST(keys are read as people write them) {
  CAF_CHECK(complaint("# the key of 2026\n\n  " + one + "  \r\n" + two + "\n").empty());
  CAF_CHECK(complaint("").find("there is no key") != std::string::npos);
  CAF_CHECK(complaint("# nothing\n").find("openssl rand -base64 32") != std::string::npos);
  CAF_CHECK(complaint(one + "\n" + one).find("line 2: this key stands there already") != std::string::npos);
  for (const std::string& bad :
       {std::string("secret"), one + "1", one.substr(1), one.substr(1) + "g", two.substr(1), two.substr(0, 43) + "A",
        "?" + two.substr(1), std::string("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHg==")}) {
    const auto text = complaint(two + "\n" + bad);
    CAF_CHECK(text.find("here, line 2") != std::string::npos);
    CAF_CHECK(text.find(bad) == std::string::npos);  // it may be nearly a key
  }
}

CAF_TEST(keys come from a file or the environment) {
  const testing_support::temp_folder folder;
  const auto path = (folder.path() / "keys").string();
  std::ofstream(path) << one << "\n";
  CAF_CHECK(load_key_ring("file:" + path));
  CAF_CHECK(load_key_ring("file:" + path + "x").failure().text.find("No such file") != std::string::npos);
  CAF_CHECK(load_key_ring("file:" + folder.path().string()).failure().text.find("cannot be read") != std::string::npos);
  ::setenv("CARAVAN_TEST_KEYS", two.c_str(), 1);
  CAF_CHECK(load_key_ring("env:CARAVAN_TEST_KEYS"));
  ::unsetenv("CARAVAN_TEST_KEYS");
  CAF_CHECK(load_key_ring("env:CARAVAN_TEST_KEYS").failure().text.find("no such environment variable") !=
            std::string::npos);
  CAF_CHECK(load_key_ring(path).failure().text.find("file:PATH or env:NAME") != std::string::npos);
}
