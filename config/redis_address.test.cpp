#define CAF_SUITE config_redis_address
#include "config/redis_address.hpp"

#include "caf/test/unit_test.hpp"

using namespace caravan::config;

namespace {

/// What matters of an address in one line; "!" and the reason for none.
std::string read(std::string_view text) {
  const auto a = parse_redis_address(text);
  if (!a) return "!" + a.failure().text;
  const char* kinds[] = {"single", "unix", "sentinel", "cluster"};
  std::string out = kinds[static_cast<int>(a->kind)];
  if (a->tls) out += " tls";
  for (const auto& [host, port] : a->hosts) out += " " + host + ":" + std::to_string(port);
  if (!a->socket_path.empty()) out += " " + a->socket_path;
  if (!a->username.empty()) out += " user=" + a->username;
  if (!a->password.empty()) out += " password=" + a->password;
  if (!a->master_name.empty()) out += " master=" + a->master_name;
  out += " db=" + std::to_string(a->db);
  for (const auto& [name, value] : a->options) out += " " + name + "=" + value;
  return out;
}

std::string reason(std::string_view text) {
  const auto out = read(text);
  const auto from = out.find("\": ");
  const auto to = out.rfind("; write for example redis://127.0.0.1:6379/0");
  return out[0] == '!' && from != std::string::npos && to != std::string::npos ? out.substr(from + 3, to - from - 3)
                                                                               : out;
}

}  // namespace

CAF_TEST(one server) {
  CAF_CHECK_EQUAL(read("redis://127.0.0.1:6379/0"), "single 127.0.0.1:6379 db=0");
  CAF_CHECK_EQUAL(read("redis://10.0.0.1:6380/15"), "single 10.0.0.1:6380 db=15");
  CAF_CHECK_EQUAL(read("redis://example.org"), "single example.org:6379 db=0");
  CAF_CHECK_EQUAL(read("redis://"), "single 127.0.0.1:6379 db=0");
  CAF_CHECK_EQUAL(read("redis://:7000/"), "single 127.0.0.1:7000 db=0");
  CAF_CHECK_EQUAL(read("REDIS://h/3"), "single h:6379 db=3");
  CAF_CHECK_EQUAL(read("rediss://h"), "single tls h:6379 db=0");
  CAF_CHECK_EQUAL(read("redis://[::1]:6380/1"), "single ::1:6380 db=1");
  CAF_CHECK_EQUAL(read("redis://[::1]"), "single ::1:6379 db=0");
  CAF_CHECK_EQUAL(read(" redis://h "), "single h:6379 db=0");
}

CAF_TEST(credentials and options) {
  CAF_CHECK_EQUAL(read("redis://:pw@h/1"), "single h:6379 password=pw db=1");
  CAF_CHECK_EQUAL(read("redis://u:p@h"), "single h:6379 user=u password=p db=0");
  CAF_CHECK_EQUAL(read("redis://u:p%23%40%2F@h"), "single h:6379 user=u password=p#@/ db=0");
  CAF_CHECK_EQUAL(read("redis://u:p@x@h"), "single h:6379 user=u password=p@x db=0");
  CAF_CHECK_EQUAL(read("redis://h?db=4&pool_size=100&Timeout=5s"), "single h:6379 db=4 pool_size=100 timeout=5s");
  CAF_CHECK_EQUAL(read("redis://h/?password=p%20q"), "single h:6379 password=p q db=0");
}

CAF_TEST(sockets sentinels and clusters) {
  CAF_CHECK_EQUAL(read("unix:///run/redis.sock?db=2"), "unix /run/redis.sock db=2");
  CAF_CHECK_EQUAL(read("unix://:pw@/run/redis.sock"), "unix /run/redis.sock password=pw db=0");
  CAF_CHECK_EQUAL(read("redis+socket:///run/r.sock"), "unix /run/r.sock db=0");
  CAF_CHECK_EQUAL(read("redis-sentinel://h1,h2:5/0?master_name=m"), "sentinel h1:26379 h2:5 master=m db=0");
  CAF_CHECK_EQUAL(read("redis+sentinel://u:p@h1/mine/3"), "sentinel h1:26379 user=u password=p master=mine db=3");
  CAF_CHECK_EQUAL(read("redis+sentinel://h1/mine"), "sentinel h1:26379 master=mine db=0");
  CAF_CHECK_EQUAL(read("rediss-sentinel://h1/m"), "sentinel tls h1:26379 master=m db=0");
  CAF_CHECK_EQUAL(read("redis-cluster://h1:1,h2:2"), "cluster h1:1 h2:2 db=0");
  CAF_CHECK_EQUAL(read("redis+cluster://h1/"), "cluster h1:6379 db=0");
  CAF_CHECK_EQUAL(read("redis://h1,h2"), "cluster h1:6379 h2:6379 db=0");
}

CAF_TEST(words with blanks between them) {
  CAF_CHECK_EQUAL(read("addrs=127.0.0.1:6379 db=0"), "single 127.0.0.1:6379 db=0");
  CAF_CHECK_EQUAL(read("network=tcp addrs=h:1  db=3 password=pw pool_size=100 idle_timeout=180"),
                  "single h:1 password=pw db=3 pool_size=100 idle_timeout=180");
  CAF_CHECK_EQUAL(read("addrs=h1,h2"), "cluster h1:6379 h2:6379 db=0");
  CAF_CHECK_EQUAL(read("addrs=h1,h2 master_name=m"), "sentinel h1:26379 h2:26379 master=m db=0");
  CAF_CHECK_EQUAL(read("network=unix addrs=/run/r.sock db=1"), "unix /run/r.sock db=1");
  CAF_CHECK_EQUAL(read("addrs=h password=a://b"), "single h:6379 password=a://b db=0");
}

CAF_TEST(nonsense is refused with its reason) {
  CAF_CHECK_EQUAL(read("not a redis url"),
                  "!invalid connection string \"not a redis url\": neither an address with :// nor words like db=0; "
                  "write for example "
                  "redis://127.0.0.1:6379/0");
  CAF_CHECK_EQUAL(reason(""), "it is empty");
  CAF_CHECK_EQUAL(reason("127.0.0.1:6379"), "neither an address with :// nor words like db=0");
  CAF_CHECK_EQUAL(reason("http://h"), "unknown scheme; it is redis, rediss, unix, redis-sentinel or redis-cluster");
  CAF_CHECK_EQUAL(reason("redis://h:0"), "a port is a number from 1 to 65535");
  CAF_CHECK_EQUAL(reason("redis://h:65536"), "a port is a number from 1 to 65535");
  CAF_CHECK_EQUAL(reason("redis://h:x"), "a port is a number from 1 to 65535 (a # or ; begins a comment: a value that holds one stands in backquotes)");
  CAF_CHECK_EQUAL(reason("redis://h:"), "no port behind the \":\"");
  CAF_CHECK_EQUAL(reason("redis://::1"), "an IPv6 address needs brackets: [::1]:6379");
  CAF_CHECK_EQUAL(reason("redis://[::1"), "a host without its \"]\"");
  CAF_CHECK_EQUAL(reason("redis://[::1]x"), "text behind the \"]\" of a host");
  CAF_CHECK_EQUAL(reason("redis://h$t"), "a host name holds letters, digits, - . and _");
  CAF_CHECK_EQUAL(reason("redis://h/x"), "the database is a number from 0 to 65535");
  CAF_CHECK_EQUAL(reason("redis://h/-1"), "the database is a number from 0 to 65535");
  CAF_CHECK_EQUAL(reason("redis://h/1/2"), "the database is a number from 0 to 65535");
  CAF_CHECK_EQUAL(reason("redis://h?db=x"), "the database is a number from 0 to 65535");
  CAF_CHECK_EQUAL(reason("redis://h?pol_size=1"), "unknown option \"pol_size\", did you mean pool_size?");
  CAF_CHECK_EQUAL(reason("redis://h?colour=1"), "an unknown option");
  CAF_CHECK_EQUAL(reason("redis://h /1"), "a blank in it; write it as %20");
  CAF_CHECK_EQUAL(reason("redis://h#1"), "a # in it; write it as %23");
  CAF_CHECK_EQUAL(reason("redis://pw@h"), "write :PASSWORD@ or USER:PASSWORD@");
  CAF_CHECK_EQUAL(reason("redis://u:%zz@h"), "a % without two hex digits; write % itself as %25");
  CAF_CHECK_EQUAL(reason("redis://h?timeout=%"), "a % without two hex digits; write % itself as %25");
  CAF_CHECK_EQUAL(reason("redis://h\n"), read("redis://h"));
  CAF_CHECK_EQUAL(reason("redis://h\nx"), "a control character in it");
  CAF_CHECK_EQUAL(reason("unix://run/r.sock"), "the path of the socket starts with /: unix:///run/redis.sock");
  CAF_CHECK_EQUAL(reason("unix:///"), "the path of the socket starts with /: unix:///run/redis.sock");
  CAF_CHECK_EQUAL(reason("redis-sentinel://h1,h2"), "no name of the master; add ?master_name=NAME");
  CAF_CHECK_EQUAL(reason("redis-cluster://h/3"), "a cluster has only database 0");
  CAF_CHECK_EQUAL(reason("db=0"), "no addrs=HOST:PORT in it");
  CAF_CHECK_EQUAL(reason("addrs=h network=udp"), "network is tcp or unix");
  CAF_CHECK_EQUAL(reason("addrs=r.sock network=unix"), "the path of the socket starts with /");
  CAF_CHECK_EQUAL(reason("addrs=h bd=0"), "unknown option \"bd\", did you mean db?");
}

CAF_TEST(no text shows a password) {
  for (const auto* text :
       {"redis://:hunter2@h:x", "redis://hunter2@h", "redis://u:%zzhunter2@h", "redis://h:0?password=hunter2",
        "addrs=h:0 password=hunter2", "addrs=h PASSWORD=hunter2 nonsense", "redis://u:a@hunter2@h:x",
        "redis://h?db=x&password=hunter2", "http://u:hunter2@h"}) {
    const auto out = read(text);
    CAF_CHECK_EQUAL(out[0], '!');
    CAF_CHECK(out.find("hunter2") == std::string::npos);
    CAF_CHECK(out.find("***") != std::string::npos);
  }
}

CAF_TEST(what cannot be read never shows a password) {
  for (const auto* text : {"redis://:LongSecret", "redis://user:LongSecret", "redis://:Long Secret@Hid@h:2137x/0", "rediz:u:LongSecret@h:1/0",
                           "redis://u:LongSecret@h:x", "redis:u:LongSecret", "LongSecret@h:1"}) {
    const auto no = parse_redis_address(text);
    CAF_REQUIRE(!no);
    CAF_CHECK_EQUAL(no.failure().text.find("Secret") == std::string::npos ? "" : no.failure().text, "");
  }
  CAF_CHECK_EQUAL(mask_secrets("CONN_STR = redis://:LongSecret"), "CONN_STR = redis://:***");
}

CAF_TEST(secrets in any text are masked) {
  CAF_CHECK_EQUAL(mask_secrets("redis://u:p@h:1/0"), "redis://u:***@h:1/0");
  CAF_CHECK_EQUAL(mask_secrets("redis://:p@h"), "redis://:***@h");
  CAF_CHECK_EQUAL(mask_secrets("redis://p@h"), "redis://***@h");
  CAF_CHECK_EQUAL(mask_secrets("https://h/a?token=abc&x=1"), "https://h/a?token=***&x=1");
  CAF_CHECK_EQUAL(mask_secrets("addrs=h password=p db=0"), "addrs=h password=*** db=0");
  CAF_CHECK_EQUAL(mask_secrets("exec:curl http://a:b@c http://d:e@f"), "exec:curl http://a:***@c http://d:***@f");
  CAF_CHECK_EQUAL(mask_secrets("redis://h:1/0"), "redis://h:1/0");
  CAF_CHECK_EQUAL(mask_secrets("plain text"), "plain text");
  CAF_CHECK_EQUAL(mask_secrets("://@"), "://@");
  CAF_CHECK_EQUAL(mask_secrets("://"), "://");
  CAF_CHECK_EQUAL(mask_secrets("password="), "password=***");
}

CAF_TEST(two ways to write one place are one storage) {
  const auto key = [](std::string_view text) { return storage_key(*parse_redis_address(text)); };
  CAF_CHECK_EQUAL(key("redis://127.0.0.1:6379/0"), key("redis://u:p@localhost?timeout=1s"));
  CAF_CHECK_EQUAL(key("redis://h/1"), key("addrs=H:6379 db=1"));
  CAF_CHECK_EQUAL(key("redis-cluster://a,b"), key("redis-cluster://b,a"));
  CAF_CHECK(key("redis://h/1") != key("redis://h/2"));
  CAF_CHECK(key("redis://h:1") != key("redis://h:2"));
  CAF_CHECK(key("redis-sentinel://h/m") != key("redis-sentinel://h/n"));
  CAF_CHECK(key("unix:///a") != key("unix:///b"));
}
