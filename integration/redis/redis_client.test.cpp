#define CAF_SUITE redis_client
#include "integration/redis/redis_client.hpp"

#include "integration/redis/redis_connection.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/redis_proxy.hpp"
#include "tests/support/redis_server.hpp"

#include <caf/test/unit_test.hpp>

#include <atomic>
#include <fstream>
#include <thread>

using namespace caravan;
using namespace caravan::testing_support;
using namespace std::chrono_literals;

namespace {

redis_options through(std::uint16_t port) {
  redis_options o;
  o.address = config::parse_redis_address("redis://127.0.0.1:" + std::to_string(port) + "/0").value();
  return o;
}

const redis_script count_up("count_up", "return redis.call('INCRBY', KEYS[1], ARGV[1])");

expected<redis_value> run(redis_client& c, const redis_script& s, const std::string& key, std::string_view arg) {
  const std::string keys[] = {key};
  const std::string_view args[] = {arg};
  return c.eval(s, keys, args);
}

}  // namespace

CAF_TEST(replies of every kind arrive as they are) {
  redis_server server;
  redis_client c(server.options());
  const redis_script all("all",
                         "return {1, 'two\\0\\r\\n', {}, {false, redis.status_reply('fine')}, -9007199254740991}");
  const auto v = c.eval(all, {}, {});
  CAF_REQUIRE(v);
  CAF_REQUIRE(v->has(5));
  const std::string two("two\0\r\n", 6);
  CAF_CHECK_EQUAL(v->items[0].number, 1);
  CAF_CHECK(v->items[1].text == two);
  CAF_CHECK(v->items[2].is_array());
  CAF_CHECK(v->items[2].items.empty());
  CAF_CHECK(v->items[3].items[0].is_nil());
  CAF_CHECK(v->items[3].items[1].is_text());
  CAF_CHECK_EQUAL(v->items[4].number, -9007199254740991);
  const auto big = std::string(3'000'000, 'x');
  CAF_REQUIRE(c.command({"SET", "big", big}));
  const auto got = c.command({"GET", "big"});
  CAF_REQUIRE(got);
  CAF_CHECK(got->text == big);
}

CAF_TEST(an error reply is a failure that names server and script) {
  redis_server server;
  redis_client c(server.options());
  const auto wrong = c.command({"INCRBY", "n", "word"});
  CAF_REQUIRE(!wrong);
  CAF_CHECK(wrong.failure().code == errc::backend_failed);
  CAF_CHECK(wrong.failure().text.find(std::to_string(server.port())) != std::string::npos);
  const redis_script broken("broken", "return redis.call('NOSUCH')");
  const auto bad = c.eval(broken, {}, {});
  CAF_REQUIRE(!bad);
  CAF_CHECK(bad.failure().text.find("script broken") != std::string::npos);
}

CAF_TEST(scripts that the server forgot are sent again) {
  redis_server server;
  redis_client c(server.options());
  for (int i = 1; i <= 3; ++i) {
    const auto n = run(c, count_up, "n", "1");
    CAF_REQUIRE(n);
    CAF_CHECK_EQUAL(n->number, i);
    CAF_REQUIRE(c.command({"SCRIPT", "FLUSH"}));
  }
}

CAF_TEST(a restart of the server is survived by idle connections) {
  redis_server server;
  redis_client c(server.options());
  CAF_REQUIRE(run(c, count_up, "n", "5"));
  server.stop();
  auto impatient = server.options();
  impatient.give_up_after = 100ms;
  redis_client down(impatient);
  const auto refused = down.command({"PING"});
  CAF_REQUIRE(!refused);
  CAF_CHECK(refused.failure().code == errc::backend_failed);
  CAF_CHECK(refused.failure().text.find("cannot connect") != std::string::npos);
  server.start();
  const auto n = run(c, count_up, "n", "1");
  CAF_REQUIRE(n);
  CAF_CHECK_EQUAL(n->number, 6);
}

CAF_TEST(a black hole ends in an error and flow comes back) {
  redis_server server;
  redis_proxy proxy(server.port());
  auto o = through(proxy.port());
  o.command_timeout = 100ms;
  o.connect_timeout = 100ms;
  o.give_up_after = 300ms;
  redis_client c(o);
  CAF_REQUIRE(c.command({"PING"}));
  proxy.set(redis_proxy::mode::black_hole);
  const auto lost = c.command({"PING"});
  CAF_REQUIRE(!lost);
  CAF_CHECK(lost.failure().code == errc::backend_failed);
  proxy.set(redis_proxy::mode::pass);
  CAF_CHECK(eventually([&] { return c.command({"PING"}).has_value(); }, 5s));
}

CAF_TEST(a lost reply leads to a repeat) {
  redis_server server;
  redis_proxy proxy(server.port());
  redis_client c(through(proxy.port()));
  proxy.set(redis_proxy::mode::lose_replies, 0.1);
  for (int i = 0; i < 50; ++i) CAF_CHECK(c.command({"SET", "x", std::to_string(i)}).has_value());
  proxy.set(redis_proxy::mode::pass);
  const auto x = c.command({"GET", "x"});
  CAF_REQUIRE(x);
  CAF_CHECK_EQUAL(x->text, "49");
  CAF_CHECK(proxy.injected() > 0);
}

CAF_TEST(passwords are used and never told) {
  redis_server server({"--requirepass", "s3cret"});
  const auto at = "@127.0.0.1:" + std::to_string(server.port()) + "/2";
  const auto open = [&](const std::string& url) {
    redis_options o;
    o.address = config::parse_redis_address(url).value();
    o.give_up_after = 100ms;
    return o;
  };
  redis_client good(open("redis://:s3cret" + at));
  CAF_CHECK(good.command({"SET", "a", "b"}).has_value());
  redis_client wrong(open("redis://:wr0ng" + at));
  const auto no = wrong.check(10);  // does not try ten times
  CAF_REQUIRE(!no);
  CAF_CHECK(no.failure().text.find("WRONGPASS") != std::string::npos);
  CAF_CHECK(no.failure().text.find("wr0ng") == std::string::npos);
  redis_client none(open("redis://127.0.0.1:" + std::to_string(server.port())));
  const auto needs = none.check(10);
  CAF_REQUIRE(!needs);
  CAF_CHECK(needs.failure().text.find("wants a password") != std::string::npos);
  CAF_REQUIRE(good.command({"ACL", "SETUSER", "worker", "on", ">pw", "~*", "+@all"}));
  redis_client user(open("redis://worker:pw" + at));
  const auto b = user.command({"GET", "a"});
  CAF_REQUIRE(b);
  CAF_CHECK_EQUAL(b->text, "b");
}

CAF_TEST(unix sockets and databases) {
  redis_server server;
  redis_options o;
  o.address = config::parse_redis_address("unix://" + server.socket_path() + "?db=3").value();
  redis_client c(o);
  CAF_REQUIRE(c.command({"SET", "where", "three"}));
  redis_client tcp(server.options(3));
  const auto got = tcp.command({"GET", "where"});
  CAF_REQUIRE(got);
  CAF_CHECK_EQUAL(got->text, "three");
  redis_client other(server.options(0));
  CAF_CHECK(other.command({"GET", "where"})->is_nil());
}

CAF_TEST(the check warns of eviction and of missing persistence) {
  redis_server server({"--maxmemory-policy", "allkeys-lru", "--appendonly", "no"});
  redis_client c(server.options());
  const auto warnings = c.check(1);
  CAF_REQUIRE(warnings);
  CAF_REQUIRE_EQUAL(warnings->size(), 2u);
  CAF_CHECK((*warnings)[0].find("allkeys-lru") != std::string::npos);
  redis_server sound;
  redis_client quiet(sound.options());
  const auto nothing = quiet.check(1);
  CAF_REQUIRE(nothing);
  CAF_CHECK(nothing->empty());
}

CAF_TEST(a replica is refused and a sentinel leads to the master) {
  redis_server master;
  redis_server replica({"--replicaof", "127.0.0.1 " + std::to_string(master.port())});
  auto o = replica.options();
  o.give_up_after = 100ms;
  redis_client wrong(o);
  const auto no = wrong.command({"PING"});
  CAF_REQUIRE(!no);
  CAF_CHECK(no.failure().text.find("replica") != std::string::npos);

  temp_folder folder;
  const auto file = (folder.path() / "sentinel.conf").string();
  std::ofstream(file) << "sentinel monitor main 127.0.0.1 " << master.port()
                      << " 1\nsentinel down-after-milliseconds main 300\nsentinel failover-timeout main 2000\n";
  const auto port = spare_port();
  child_server sentinel;
  sentinel.start({"redis-server", file, "--sentinel", "--port", std::to_string(port), "--bind", "127.0.0.1"},
                 (folder.path() / "sentinel.log").string());
  redis_options s;
  // The first sentinel is not there: the next one is asked.
  s.address = config::parse_redis_address("redis-sentinel://127.0.0.1:1,127.0.0.1:" + std::to_string(port) +
                                          "/0?master_name=main")
                  .value();
  redis_client c(s);
  CAF_REQUIRE(eventually([&] { return c.command({"SET", "k", "1"}).has_value(); }));
  redis_options unknown = s;
  unknown.address.master_name = "nobody";
  unknown.give_up_after = 10ms;
  redis_client lost(unknown);
  const auto who = lost.command({"PING"});
  CAF_REQUIRE(!who);
  CAF_CHECK(who.failure().text.find("nobody") != std::string::npos);

  redis_client direct(master.options());
  CAF_REQUIRE(eventually([&] {  // the sentinel knows the replica, and the replica has what was written
    const auto n = direct.command({"WAIT", "1", "100"});
    redis_options so;
    so.address = config::parse_redis_address("redis://127.0.0.1:" + std::to_string(port)).value();
    auto link = redis_connection::open(so);
    if (!link) return n && n->number == 1;
    const auto known = (*link)->ask({"SENTINEL", "replicas", "main"}, std::chrono::steady_clock::now() + 1s);
    return n && n->number == 1 && known && !known->items.empty();
  }));
  master.kill9();
  CAF_CHECK(eventually([&] { return c.command({"SET", "k", "2"}).has_value(); }));
}

CAF_TEST(tls is verified) {
  temp_folder folder;
  const auto at = [&](const char* name) { return (folder.path() / name).string(); };
  const auto shell = [&](const std::string& line) { return std::system((line + " >/dev/null 2>&1").c_str()); };
  CAF_REQUIRE_EQUAL(shell("openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=ca -keyout " + at("ca.key") +
                          " -out " + at("ca.pem")),
                    0);
  CAF_REQUIRE_EQUAL(
      shell("openssl req -newkey rsa:2048 -nodes -subj /CN=r -keyout " + at("r.key") + " -out " + at("r.csr")), 0);
  std::ofstream(at("ext")) << "subjectAltName=IP:127.0.0.1,DNS:localhost\n";
  CAF_REQUIRE_EQUAL(shell("openssl x509 -req -in " + at("r.csr") + " -CA " + at("ca.pem") + " -CAkey " + at("ca.key") +
                          " -CAcreateserial -days 2 -extfile " + at("ext") + " -out " + at("r.pem")),
                    0);
  const auto port = spare_port();
  redis_server server({"--tls-port", std::to_string(port), "--tls-cert-file", at("r.pem"), "--tls-key-file",
                       at("r.key"), "--tls-ca-cert-file", at("ca.pem"), "--tls-auth-clients", "no"});
  const auto with = [&](const std::string& options) {
    redis_options o;
    o.address = config::parse_redis_address("rediss://127.0.0.1:" + std::to_string(port) + "/0" + options).value();
    o.give_up_after = 100ms;
    return o;
  };
  redis_client good(with("?tls_ca_file=" + at("ca.pem")));
  const auto big = std::string(1'000'000, 'y');
  CAF_REQUIRE(good.command({"SET", "big", big}));
  const auto got = good.command({"GET", "big"});
  CAF_REQUIRE(got);
  CAF_CHECK(got->text == big);
  redis_client stranger(with(""));
  const auto no = stranger.command({"PING"});
  CAF_REQUIRE(!no);
  CAF_CHECK(no.failure().text.find("certificate") != std::string::npos);
  redis_client careless(with("?skip_verify=true"));
  CAF_CHECK(careless.command({"PING"}).has_value());
}

CAF_TEST(a closed client refuses at once) {
  redis_server server;
  redis_client c(server.options());
  CAF_REQUIRE(c.command({"PING"}));
  c.close();
  c.close();
  const auto no = c.command({"PING"});
  CAF_REQUIRE(!no);
  CAF_CHECK(no.failure().code == errc::queue_closed);
}

CAF_TEST(eight threads share two connections) {
  redis_server server;
  auto o = server.options();
  o.max_connections = 2;
  redis_client c(o);
  std::atomic<int> failed{0};
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 8; ++t)
      threads.emplace_back([&] {
        for (int i = 0; i < 200; ++i)
          if (!run(c, count_up, "n", "1")) ++failed;
      });
  }
  CAF_CHECK_EQUAL(failed.load(), 0);
  const auto n = c.command({"GET", "n"});
  CAF_REQUIRE(n);
  CAF_CHECK_EQUAL(n->text, "1600");
}

CAF_TEST(a subscriber hears and says when it may have missed something) {
  redis_server server;
  redis_proxy proxy(server.port());
  std::atomic<int> heard{0}, listening{0}, lost{0};
  redis_subscriber::events on;
  on.message = [&](const std::string& channel, std::string&& text) {
    if ((channel == "news" || channel == "more") && text == "hello") ++heard;
  };
  on.listening = [&] { ++listening; };
  on.lost = [&](const error&) { ++lost; };
  redis_subscriber s(through(proxy.port()), {"news"}, on);
  CAF_REQUIRE(eventually([&] { return listening == 1; }));
  redis_client c(server.options());
  CAF_REQUIRE(c.command({"PUBLISH", "news", "hello"}));
  CAF_REQUIRE(eventually([&] { return heard == 1; }));
  s.add("more");
  CAF_REQUIRE(eventually([&] { return c.command({"PUBLISH", "more", "hello"})->number == 1; }));
  CAF_REQUIRE(eventually([&] { return heard == 2; }));
  s.remove("more");
  CAF_REQUIRE(eventually([&] { return c.command({"PUBLISH", "more", "hello"})->number == 0; }));
  const int before = listening;
  proxy.set(redis_proxy::mode::refuse);
  CAF_REQUIRE(eventually([&] { return lost == 1; }));
  proxy.set(redis_proxy::mode::pass);
  CAF_REQUIRE(eventually([&] { return listening > before; }));
  CAF_REQUIRE(c.command({"PUBLISH", "news", "hello"}));
  CAF_CHECK(eventually([&] { return heard >= 3; }));
}
