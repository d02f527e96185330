#define CAF_SUITE config_read_cache
#include "config/read_cache.hpp"

#include "config/read_settings.hpp"

#include "caf/test/unit_test.hpp"

using namespace caravan;
using namespace caravan::config;
using namespace std::chrono_literals;

namespace {

ini in(std::string_view text) { return parse_ini(text, "f.ini").content; }

std::string mistakes(std::string_view text, std::string_view name = "") {
  problems found;
  (void)read_cache_settings(in(text), name, found);
  return to_string(found);
}

std::string why_not(std::string_view host) {
  const auto out = parse_two_queue(host);
  return out ? "accepted" : out.failure().text;
}

std::string hosts(std::string_view text) {
  const auto out = parse_memcached_hosts(text);
  if (!out) return out.failure().text;
  std::string all;
  for (const auto& host : *out) all += (all.empty() ? "" : " ") + to_string(host);
  return all;
}

}  // namespace

CAF_TEST(nothing set is the defaults) {
  const auto cache = read_cache_settings(in(""), "").value();
  CAF_CHECK(cache.enabled);
  CAF_CHECK(cache.adapter == cache_adapter_type::memory);
  CAF_CHECK(cache.interval == 60s);
  CAF_CHECK(cache.item_ttl == 16h);
  CAF_CHECK(cache.conn.empty());
  CAF_CHECK_EQUAL(cache.prefix, "caravan:cache");
  const auto all = read_settings(in("")).value();
  CAF_CHECK_EQUAL(all.caches.size(), 1u);
}

CAF_TEST(a named section stands over the common one) {
  const auto text =
      "[cache]\nADAPTER = redis\nHOST = redis://h:1/2\nITEM_TTL = 1h\nINTERVAL = 5\n[cache.last_commit]\n"
      "ITEM_TTL = 8760h\n[cache.other]\nENABLED = false\n";
  CAF_CHECK(cache_names(in(text)) == (std::vector<std::string>{"last_commit", "other"}));
  const auto last = read_cache_settings(in(text), "last_commit").value();
  CAF_CHECK(last.adapter == cache_adapter_type::redis);
  CAF_CHECK_EQUAL(last.conn, "redis://h:1/2");
  CAF_CHECK(last.item_ttl == 8760h);
  CAF_CHECK(last.interval == 5s);
  CAF_CHECK_EQUAL(last.prefix, "caravan:cache.last_commit");
  CAF_CHECK(!read_cache_settings(in(text), "other").value().enabled);
  const auto all = read_settings(in(text)).value().caches;
  CAF_CHECK_EQUAL(all.size(), 3u);
  CAF_CHECK_EQUAL(all[0].name + "," + all[1].name + "," + all[2].name, ",last_commit,other");
}

CAF_TEST(a section with its own adapter does not take the host of another engine) {
  const auto text =
      "[cache]\nADAPTER = redis\nHOST = redis://h:1/2\n[cache.a]\nADAPTER = twoqueue\n[cache.b]\nADAPTER = "
      "twoqueue\nHOST = 7\n[cache.c]\nADAPTER = memcache\nHOST = h\n";
  CAF_CHECK(read_cache_settings(in(text), "a").value().two_queue.size == 50'000u);
  CAF_CHECK(read_cache_settings(in(text), "b").value().two_queue.size == 7u);
  CAF_CHECK(read_cache_settings(in(text), "c").value().hosts == std::vector<memcached_host>({{"h", 11211}}));
}

CAF_TEST(the host that counts is told with its place) {
  const auto text =
      "[redis]\nCONN_STR = redis://h:1/0\n[cache]\nADAPTER = redis\n[cache.a]\nADAPTER = twoqueue\n[cache.b]\nHOST = "
      "redis://i:1/0\n";
  const auto host = [&](std::string_view name) {
    const auto out = cache_host(in(text), name);
    return out.section + " " + out.value + " " + std::to_string(out.where.line);
  };
  CAF_CHECK_EQUAL(host(""), "redis redis://h:1/0 2");
  CAF_CHECK_EQUAL(host("a"), "cache.a  6");
  CAF_CHECK_EQUAL(host("b"), "cache.b redis://i:1/0 8");
  CAF_CHECK_EQUAL(host("c"), "redis redis://h:1/0 2");
}

CAF_TEST(a redis of its own beats the common one and a missing one is told) {
  const std::string common = "[redis]\nCONN_STR = redis://h:1/0\n[cache]\nADAPTER = redis\n";
  CAF_CHECK(read_cache_settings(in(common), "").value().conn == "redis://h:1/0");
  CAF_CHECK(read_cache_settings(in(common + "HOST = redis://i:2/1\n"), "").value().conn == "redis://i:2/1");
  CAF_CHECK_EQUAL(mistakes("[cache]\nADAPTER = redis\n"),
                  "f.ini:2: warning: [cache] HOST: no Redis is named, so the cache cannot be opened; set HOST, or "
                  "CONN_STR in [redis]\n");
  CAF_CHECK_EQUAL(mistakes("[cache]\nENABLED = false\nADAPTER = redis\n"), "");
  CAF_CHECK(mistakes("[cache]\nADAPTER = redis\nHOST = http://x\n").find("f.ini:3: error: [cache] HOST: ") == 0);
  CAF_CHECK(mistakes("[cache]\nADAPTER = redis\nHOST = redis://:geheim@h:x/0\n").find("geheim") == std::string::npos);
}

CAF_TEST("CACHE-029" the host of a two - queue cache) {
  CAF_CHECK(parse_two_queue("").value() == two_queue_settings{});
  CAF_CHECK(parse_two_queue("").value().size == 50'000);
  CAF_CHECK(parse_two_queue("200").value().size == 200);
  CAF_CHECK(parse_two_queue("{\"size\":10,\"recent_ratio\":0.25,\"ghost_ratio\":0.5}").value() ==
            (two_queue_settings{10, 0.25, 0.5}));
  CAF_CHECK(parse_two_queue("{}").value() == two_queue_settings{});
  CAF_CHECK(parse_two_queue("{\"ghost_ratio\":0,\"recent_ratio\":1}").value() == (two_queue_settings{50'000, 1, 0}));
  CAF_CHECK_EQUAL(why_not("abc"), "\"abc\" is neither a size nor a JSON object");
  for (const auto* wrong : {"0", "-1", "{\"size\":0}", "{\"size\":1.5}", "{\"size\":\"x\"}",
                            "{\"size\":18446744073709551615}", "{\"recent_ratio\":-0.1}", "{\"recent_ratio\":1.1}",
                            "{\"ghost_ratio\":\"x\"}", "{\"sise\":1}", "[1]", "{", "1.5", "99999999999999999999"})
    CAF_CHECK(why_not(wrong) != "accepted");
  CAF_CHECK_EQUAL(
      mistakes("[cache]\nADAPTER = twoqueue\nHOST = abc\n"),
      "f.ini:3: error: [cache] HOST: \"abc\" is neither a size nor a JSON object; write for example 50000 or "
      "{\"size\":50000,\"recent_ratio\":0.25,\"ghost_ratio\":0.5}\n");
  CAF_CHECK(
      read_cache_settings(in("[cache]\nADAPTER = twoqueue\nHOST = `{\"size\":10}`\n"), "").value().two_queue.size ==
      10u);
}

CAF_TEST(the hosts of memcached) {
  CAF_CHECK_EQUAL(hosts(""), "");
  CAF_CHECK_EQUAL(hosts("127.0.0.1:11211;127.0.0.2:11211"), "127.0.0.1:11211 127.0.0.2:11211");
  CAF_CHECK_EQUAL(hosts(" a , b:1 ;; [::1] ; [::1]:5; /run/m.sock;"), "a:11211 b:1 [::1]:11211 [::1]:5 /run/m.sock");
  for (const auto* wrong :
       {"a:", "a:0", "a:65536", "a:x", ":1", "::1", "[::1", "[::1]x", "[::1]:", "a b", "a;a", "memcached://a", "[]:1"})
    CAF_CHECK(!parse_memcached_hosts(wrong));
  CAF_CHECK_EQUAL(hosts("a;b:99999"), "\"b:99999\" has a port that is not from 1 to 65535");
  // In a file a ; begins a comment unless the value is quoted.
  CAF_CHECK(read_cache_settings(in("[cache]\nADAPTER = memcache\nHOST = `a;b`\n"), "").value().hosts.size() == 2u);
  CAF_CHECK(mistakes("[cache]\nADAPTER = memcache\n").find("warning: [cache] HOST: no memcached is named") !=
            std::string::npos);
}

CAF_TEST(wrong values are told with their place) {
  CAF_CHECK(mistakes("[cache]\nADAPTER = memcached\n").find("did you mean memcache?") != std::string::npos);
  CAF_CHECK(mistakes("[cache]\nITEM_TTL = soon\n").find("f.ini:2: error: [cache] ITEM_TTL") == 0);
  CAF_CHECK(mistakes("[cache]\nINTERVAL = 0\n").find("less than 1s") != std::string::npos);
  CAF_CHECK(mistakes("[cache]\nHOST = x\n").find("warning: [cache] HOST: a cache in memory has no host") !=
            std::string::npos);
  CAF_CHECK(mistakes("[cache.a b]\n", "a b").find("this is no name for a cache") != std::string::npos);
  CAF_CHECK(read_cache_settings(in("[cache]\nITEM_TTL = -1\n"), "").value().item_ttl < 0s);
  CAF_CHECK(read_cache_settings(in("[cache]\nITEM_TTL = 0\n"), "").value().item_ttl == 0s);
}

CAF_TEST(the name of the cache without a name is taken) {
  CAF_CHECK(mistakes("[cache.default]\nITEM_TTL = 1h\n", "default").find("is how [cache] itself is called") != std::string::npos);
}
