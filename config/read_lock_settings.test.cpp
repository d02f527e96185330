#define CAF_SUITE config_lock_settings
#include "config/read_settings.hpp"
#include "config/redis_address.hpp"

#include "caf/test/unit_test.hpp"

using namespace caravan::config;
using namespace std::chrono_literals;

namespace {

lock_settings read(const std::string& text) {
  problems found;
  auto out = read_lock_settings(parse_ini(text, "f.ini").content, found);
  CAF_CHECK_EQUAL(to_string(found), "");
  return out;
}
std::string refused(const std::string& text) {
  problems found;
  (void)read_lock_settings(parse_ini(text, "f.ini").content, found);
  return to_string(found);
}

}  // namespace

CAF_TEST(without settings locks are of the node alone) {
  const auto s = read("");
  CAF_CHECK(s.service == lock_service::memory && s.expiry == 30s && s.conn_str.empty());
}

CAF_TEST(the redis of the locks is their own or the common one or the local one) {
  const std::string redis = "[global_lock]\nSERVICE_TYPE = redis\n";
  CAF_CHECK_EQUAL(read(redis + "LOCK_EXPIRY = 5s\n").conn_str, "redis://127.0.0.1:6379/0");
  CAF_CHECK_EQUAL(read(redis + "[redis]\nCONN_STR = redis://common\n").conn_str, "redis://common");
  CAF_CHECK_EQUAL(read(redis + "SERVICE_CONN_STR = redis://own\n[redis]\nCONN_STR = redis://common\n").conn_str,
                  "redis://own");
  CAF_CHECK(read(redis + "LOCK_EXPIRY = 5s\n").expiry == 5s);
}

CAF_TEST(several addresses are a majority of servers) {
  using caravan::config::parse_redis_addresses;
  CAF_CHECK_EQUAL(parse_redis_addresses("redis://a redis://b, redis://:p@c:1,redis://d").value().size(), 4u);
  CAF_CHECK_EQUAL(parse_redis_addresses("redis-sentinel://a,b/m/0 redis://c").value()[0].hosts.size(), 2u);
  CAF_CHECK_EQUAL(parse_redis_addresses("addrs=a:1,b:2 db=0").value().size(), 1u);
  CAF_CHECK_EQUAL(parse_redis_addresses(" redis://a , ").value().size(), 1u);
  CAF_CHECK_EQUAL(
      read("[global_lock]\nSERVICE_TYPE = redis\nSERVICE_CONN_STR = redis://a redis://b redis://c\n").conn_str,
      "redis://a redis://b redis://c");
  for (const std::string text : {"redis://a redis://localhost redis://127.0.0.1", "redis://a redis://b/x",
                                 "redis://a b redis://c", "redis://a http://b"}) {
    const auto wrong = refused("[global_lock]\nSERVICE_TYPE = redis\nSERVICE_CONN_STR = " + text + "\n");
    CAF_CHECK(wrong.find("SERVICE_CONN_STR") != std::string::npos);
  }
}

CAF_TEST(mistakes are named with their remedy and without passwords) {
  CAF_CHECK(refused("[global_lock]\nSERVICE_TYPE = zookeeper\n").find("SERVICE_TYPE") != std::string::npos);
  CAF_CHECK(refused("[global_lock]\nLOCK_EXPIRY = 1ms\n").find("LOCK_EXPIRY") != std::string::npos);
  const auto wrong = refused("[global_lock]\nSERVICE_TYPE = redis\nSERVICE_CONN_STR = http://:secret@h\n");
  CAF_CHECK(wrong.find("SERVICE_CONN_STR") != std::string::npos);
  CAF_CHECK(wrong.find("secret") == std::string::npos);
}
