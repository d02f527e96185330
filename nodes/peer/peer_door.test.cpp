#define CAF_SUITE peer_door
#include "nodes/peer/peer_door.hpp"

#include "caf/test/unit_test.hpp"
#include "tests/support/certificates.hpp"
#include "tests/support/eventually.hpp"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

using namespace caravan;
using testing_support::certificates;
using namespace std::chrono_literals;

namespace {

/// A door, with what it let in and whom it turned away.
struct guarded {
  explicit guarded(const std::string& name, const peer_tls& tls = {}, const std::vector<std::string>& nodes = {},
                   std::chrono::milliseconds deadline = 20s, std::uint32_t protocol = 1,
                   std::size_t most_strangers = 256)
      : door({"127.0.0.1",
              0,
              {name, name + "-1", protocol},
              nodes,
              tls,
              deadline,
              most_strangers,
              [this](int fd, const peer_greeting& who) {
                const std::lock_guard lock(mutex);
                passed.push_back({fd, who});
                changed.notify_all();
              },
              [this](const std::string& text) {
                const std::lock_guard lock(mutex);
                refused += text + "\n";
                changed.notify_all();
              }}) {}
  ~guarded() {
    const std::lock_guard lock(mutex);
    for (const auto& p : passed) ::close(p.fd);
  }
  /// The next one that passed.
  peer_door::passage next() {
    std::unique_lock lock(mutex);
    if (!changed.wait_for(lock, 20s, [this] { return !passed.empty(); })) CAF_FAIL("nobody passed");
    auto p = passed.front();
    passed.pop_front();
    return p;
  }
  std::string complaint() {
    std::unique_lock lock(mutex);
    if (!changed.wait_for(lock, 20s, [this] { return !refused.empty(); })) CAF_FAIL("nobody was turned away");
    return refused;
  }
  std::size_t in() {
    const std::lock_guard lock(mutex);
    return passed.size();
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<peer_door::passage> passed;
  std::string refused;
  peer_door door;
};

int plain_connect(std::uint16_t port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(port);
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd, reinterpret_cast<sockaddr*>(&at), sizeof at) != 0) CAF_FAIL("cannot connect");
  return fd;
}
/// What comes until the other side ends.
std::string read_all(int fd) {
  std::string got;
  char part[4096];
  for (;;) {
    pollfd p{fd, POLLIN, 0};
    if (::poll(&p, 1, 20'000) != 1) return got + " (nothing more came)";
    const auto n = ::recv(fd, part, sizeof part, 0);
    if (n <= 0) return got;
    got.append(part, static_cast<std::size_t>(n));
  }
}
void send_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    pollfd p{fd, POLLOUT, 0};
    ::poll(&p, 1, 20'000);
    const auto n = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n <= 0 && errno != EAGAIN) return;
    if (n > 0) bytes.remove_prefix(static_cast<std::size_t>(n));
  }
}
std::string receive(int fd, std::size_t size) {
  std::string got;
  char part[65536];
  while (got.size() < size) {
    pollfd p{fd, POLLIN, 0};
    if (::poll(&p, 1, 20'000) != 1) break;
    const auto n = ::recv(fd, part, std::min(sizeof part, size - got.size()), 0);
    if (n == 0) break;
    if (n > 0) got.append(part, static_cast<std::size_t>(n));
  }
  return got;
}
std::string pattern(std::size_t size) {
  std::string s(size, '\0');
  for (std::size_t i = 0; i < size; ++i) s[i] = static_cast<char>((i * 2654435761u) >> 13);
  return s;
}

/// Both directions at once, more than any buffer holds.
void check_bytes_pass(int a, int b) {
  const auto there = pattern(3u << 20);
  const auto back = pattern((3u << 20) + 1).substr(1);
  std::thread one([&] { send_all(a, there); });
  std::thread two([&] { send_all(b, back); });
  std::string at_a;
  std::thread three([&] { at_a = receive(a, back.size()); });
  const auto at_b = receive(b, there.size());
  one.join();
  two.join();
  three.join();
  CAF_CHECK(at_b == there);
  CAF_CHECK(at_a == back);
}

}  // namespace

CAF_TEST(a node gets in and the bytes are its own) {
  guarded earth("earth");
  guarded mars("mars");
  const auto out = mars.door.dial("127.0.0.1", earth.door.port(), 20s);
  CAF_REQUIRE(out);
  CAF_CHECK_EQUAL(out->who.name, "earth");
  CAF_CHECK_EQUAL(out->who.incarnation, "earth-1");
  const auto in = earth.next();
  CAF_CHECK_EQUAL(in.who.name, "mars");
  check_bytes_pass(out->fd, in.fd);
  ::close(out->fd);
  CAF_CHECK_EQUAL(read_all(in.fd), "");
  ::close(in.fd);
}

CAF_TEST(with certificates the bytes pass too and an end reaches the other side) {
  const certificates made("earth mars");
  guarded earth("earth", made.of("earth"));
  guarded mars("mars", made.of("mars"));
  const auto out = mars.door.dial("localhost", earth.door.port(), 20s);
  if (!out) CAF_FAIL(out.failure().text);
  const auto in = earth.next();
  CAF_CHECK_EQUAL(in.who.name, "mars");
  check_bytes_pass(out->fd, in.fd);
  ::close(in.fd);
  CAF_CHECK_EQUAL(read_all(out->fd), "");
  ::close(out->fd);
}

CAF_TEST(a certificate of another name or another CA does not get in and harms no link) {
  const certificates ours("earth mars");
  const certificates others("mars");
  guarded earth("earth", ours.of("earth"));
  guarded mars("mars", ours.of("mars"));
  const auto out = mars.door.dial("127.0.0.1", earth.door.port(), 20s);
  CAF_REQUIRE(out);
  const auto in = earth.next();

  guarded liar("venus", ours.of("mars"));
  const auto as_liar = liar.door.dial("127.0.0.1", earth.door.port(), 20s);
  CAF_REQUIRE(!as_liar);
  CAF_MESSAGE(as_liar.failure().text);
  CAF_CHECK_EQUAL(as_liar.failure().code, errc::forbidden);
  CAF_CHECK(as_liar.failure().text.find("venus") != std::string::npos);
  CAF_CHECK(as_liar.failure().text.find("mars") != std::string::npos);

  guarded stranger("mars", others.of("mars"));
  const auto as_stranger = stranger.door.dial("127.0.0.1", earth.door.port(), 20s);
  CAF_REQUIRE(!as_stranger);
  CAF_MESSAGE(as_stranger.failure().text);
  guarded bare("mars");
  const auto as_bare = bare.door.dial("127.0.0.1", earth.door.port(), 20s);
  CAF_CHECK(!as_bare);
  // The other way round: a node does not talk to a door that another CA speaks for.
  const auto to_stranger = mars.door.dial("127.0.0.1", stranger.door.port(), 20s);
  CAF_CHECK(!to_stranger);

  const auto complaint = earth.complaint();
  CAF_CHECK(complaint.find("turned away: 127.0.0.1:") != std::string::npos);
  check_bytes_pass(out->fd, in.fd);
  CAF_CHECK_EQUAL(earth.in(), 0u);
  ::close(out->fd);
  ::close(in.fd);
}

CAF_TEST(who is not on the list is told so) {
  guarded earth("earth", {}, {"earth", "mars"});
  guarded venus("venus");
  const auto no = venus.door.dial("127.0.0.1", earth.door.port(), 20s);
  CAF_REQUIRE(!no);
  CAF_CHECK_EQUAL(no.failure().code, errc::forbidden);
  CAF_CHECK(no.failure().text.find("[cluster] NODES") != std::string::npos);
  guarded mars("mars");
  const auto yes = mars.door.dial("127.0.0.1", earth.door.port(), 20s);
  CAF_REQUIRE(yes);
  ::close(yes->fd);
  // A node looks at whom it calls, too.
  guarded picky("mars", {}, {"mars", "earth"});
  const auto other = picky.door.dial("127.0.0.1", venus.door.port(), 20s);
  CAF_REQUIRE(!other);
  CAF_CHECK_EQUAL(other.failure().code, errc::forbidden);
}

CAF_TEST(another protocol is refused by name) {
  guarded old_one("earth");
  guarded new_one("mars", {}, {}, 20s, 2);
  const auto got = new_one.door.dial("127.0.0.1", old_one.door.port(), 20s);
  CAF_REQUIRE(!got);
  CAF_CHECK(got.failure().text.find("protocol 2") != std::string::npos);
}

CAF_TEST(garbage and HTTP and forged headers get no word and no place) {
  const certificates made("earth");
  for (const auto& tls : {peer_tls{}, made.of("earth")}) {
    guarded earth("earth", tls);
    std::string basp(32, '\0');
    basp[8] = '\x7f';
    for (const auto& bytes :
         {std::string("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), std::string(100'000, 'x'), basp, pattern(5000)}) {
      const int fd = plain_connect(earth.door.port());
      send_all(fd, bytes);
      const auto answer = read_all(fd);
      CAF_CHECK(answer.find("caravan") == std::string::npos);
      CAF_CHECK(answer.find("nothing more came") == std::string::npos);
      ::close(fd);
    }
    CAF_CHECK(testing_support::eventually([&] { return earth.door.strangers() == 0; }));
    CAF_CHECK_EQUAL(earth.in(), 0u);
  }
}

CAF_TEST(who says nothing is sent away at the deadline and one who only looked is no matter) {
  guarded earth("earth", {}, {}, 50ms);
  const int silent = plain_connect(earth.door.port());
  const int half = plain_connect(earth.door.port());
  send_all(half, "caravan-node 1 ear");
  CAF_CHECK_EQUAL(read_all(silent), "");
  CAF_CHECK_EQUAL(read_all(half), "");
  ::close(silent);
  ::close(half);
  const auto complaint = earth.complaint();
  CAF_CHECK(complaint.find("no greeting within 50 ms") != std::string::npos);
  CAF_CHECK_EQUAL(earth.door.strangers(), 0u);

  const certificates made("earth");
  for (const auto& tls : {peer_tls{}, made.of("earth")}) {
    guarded quiet("earth", tls);
    for (int i = 0; i < 20; ++i) ::close(plain_connect(quiet.door.port()));
    const int loud = plain_connect(quiet.door.port());
    send_all(loud, "GET / HTTP/1.1\r\n\r\n");
    CAF_CHECK(read_all(loud).find("caravan") == std::string::npos);
    ::close(loud);
    const auto text = quiet.complaint();
    CAF_CHECK_EQUAL(std::count(text.begin(), text.end(), '\n'), 1);
    CAF_CHECK(text.find("before)") == std::string::npos);
  }
}

CAF_TEST(many strangers do not keep a node out) {
  guarded earth("earth", {}, {}, 60s, 1, 8);
  std::vector<int> strangers;
  for (int i = 0; i < 50; ++i) strangers.push_back(plain_connect(earth.door.port()));
  CAF_CHECK(testing_support::eventually([&] { return earth.door.strangers() <= 8; }));
  guarded mars("mars");
  const auto in = mars.door.dial("127.0.0.1", earth.door.port(), 20s);
  CAF_REQUIRE(in);
  ::close(in->fd);
  for (const int fd : strangers) ::close(fd);
}

CAF_TEST(a place where nobody or somebody else listens) {
  guarded mars("mars");
  std::uint16_t gone = 0;
  {
    guarded earth("earth");
    gone = earth.door.port();
  }
  const auto none = mars.door.dial("127.0.0.1", gone, 20s);
  CAF_REQUIRE(!none);
  CAF_CHECK_EQUAL(none.failure().code, errc::backend_failed);
  const auto nowhere = mars.door.dial("no.such.host.invalid", 1, 20s);
  CAF_CHECK(!nowhere);
  // It accepts and says nothing.
  const int mute = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof at;
  ::bind(mute, reinterpret_cast<sockaddr*>(&at), sizeof at);
  ::listen(mute, 8);
  ::getsockname(mute, reinterpret_cast<sockaddr*>(&at), &size);
  const auto silent = mars.door.dial("127.0.0.1", ntohs(at.sin_port), 50ms);
  CAF_REQUIRE(!silent);
  CAF_CHECK(!silent.failure().text.empty());
  ::close(mute);
}

CAF_TEST(a door that goes takes its links and dials along) {
  const certificates made("earth mars");
  guarded mars("mars", made.of("mars"));
  peer_door::passage in;
  {
    guarded earth("earth", made.of("earth"));
    const auto out = mars.door.dial("127.0.0.1", earth.door.port(), 20s);
    CAF_REQUIRE(out);
    in = *out;
    const auto there = earth.next();
    ::close(plain_connect(earth.door.port()));
    ::close(there.fd);
  }
  CAF_CHECK_EQUAL(read_all(in.fd), "");
  ::close(in.fd);
}

CAF_TEST(mistakes in the options are told at the start) {
  const certificates made("earth");
  const auto refused = [](const peer_door::options& o) -> std::string {
    try {
      const peer_door door(o);
    } catch (const exception& e) {
      return e.what();
    }
    return "";
  };
  peer_door::options o;
  o.me = {"earth", "i", 1};
  o.host = "0.0.0.0";
  CAF_CHECK(refused(o).find("TLS_CERT") != std::string::npos);
  o.tls = made.of("earth");
  o.tls.key = "/nowhere.key";
  CAF_CHECK(refused(o).find("TLS_KEY = /nowhere.key") != std::string::npos);
  o.tls = made.of("earth");
  o.tls.ca = CARAVAN_SOURCE_DIR "/README.md";
  CAF_CHECK(refused(o).find("TLS_CA") != std::string::npos);
  o.tls = made.of("earth");
  o.host = "127.0.0.1";
  const guarded other("earth");
  o.port = other.door.port();
  CAF_CHECK(refused(o).find("cannot listen") != std::string::npos);
  o.port = 0;
  o.host = "203.0.113.7";
  CAF_CHECK(refused(o).find("cannot listen") != std::string::npos);
}
