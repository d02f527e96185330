#define CAF_SUITE lock_wire
#include "messages/lock_actor.hpp"
#include "messages/type_ids.hpp"

#include <caf/all.hpp>

#include "caf/test/dsl.hpp"

using namespace caravan;
using namespace std::chrono_literals;

namespace {

struct wire_config : caf::actor_system_config {
  wire_config() { register_messages(*this); }
};

struct fixture : test_coordinator_fixture<wire_config> {
  std::vector<char> bytes(const caf::message& m) {
    std::vector<char> buffer;
    caf::binary_serializer out(sys, buffer);
    CAF_REQUIRE(!out(const_cast<caf::message&>(m)));
    return buffer;
  }
  /// Through bytes and back, as a message between nodes.
  template <class T>
  void check(const T& value) {
    const auto sent = caf::make_message(value);
    const auto buffer = bytes(sent);
    caf::message received;
    caf::binary_deserializer in(sys, buffer);
    CAF_REQUIRE(!in(received));
    CAF_REQUIRE(received.match_elements<T>());
    CAF_CHECK(bytes(received) == buffer);
    CAF_CHECK_EQUAL(caf::deep_to_string(received.get_as<T>(0)), caf::deep_to_string(value));
  }
};

lock_status full_status() {
  lock_status s;
  s.key = "k";
  s.holder = {"node.1", "ann", wall_time{1'700'000'000'123ms}};
  s.token = ~0ull;
  s.remaining = -1ms;
  s.lease = 30s;
  s.waiting = 2;
  s.waiters = {{"node.2", "", wall_time{}}, {"", "bob", wall_time{1ms}}};
  return s;
}

}  // namespace

CAF_TEST_FIXTURE_SCOPE(lock_wire_tests, fixture)

CAF_TEST(what is said about locks survives the wire) {
  check(acquire_lock{7, "k", "ann", 1min, 30s});
  check(lock_granted{~0ull, 1'796'111'719'192'579, 29s});
  check(cancel_lock{7});
  check(release_lock{"k", 5, true});
  check(extend_lock{"k", 5});
  check(get_locks{"k", 3});
  check(full_status());
  check(lock_list{{full_status(), lock_status{}}});
}

CAF_TEST_FIXTURE_SCOPE_END()
