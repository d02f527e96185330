#define CAF_SUITE config_read_settings
#include "config/read_settings.hpp"

#include "caf/test/unit_test.hpp"

#include <unistd.h>

#include <filesystem>
#include <fstream>

using namespace caravan;
using namespace caravan::config;
using namespace std::chrono_literals;

namespace {

namespace fs = std::filesystem;

ini text(std::string_view t) { return parse_ini(t, "f.ini").content; }

queue_settings queue(std::string_view t, std::string_view name = "x") {
  problems found;
  auto out = read_queue_settings(text(t), name, "/app", found);
  CAF_CHECK_EQUAL(to_string(found), "");
  return out;
}

/// What reading queue x of [queue] + t says.
std::string complaint(std::string_view t, std::string_view name = "x") {
  problems found;
  (void)read_queue_settings(text("[queue]\n" + std::string(t)), name, "/app", found);
  return to_string(found);
}

std::string all_complaints(std::string_view t) {
  problems found;
  (void)read_settings(text(t), found);
  return to_string(found);
}

http_settings http(std::string_view t) {
  problems found;
  auto out = read_http_settings(text("[http]\n" + std::string(t)), found);
  CAF_CHECK_EQUAL(to_string(found), "");
  return out;
}

std::string http_complaint(std::string_view t) {
  problems found;
  (void)read_http_settings(text("[http]\n" + std::string(t)), found);
  return to_string(found);
}

}  // namespace

CAF_TEST(the registry and the structs have the same defaults) {
  const auto got = queue("");
  const queue_settings plain;
  CAF_CHECK(got.type == plain.type);
  CAF_CHECK_EQUAL(got.conn_str, plain.conn_str);
  CAF_CHECK_EQUAL(got.length, plain.length);
  CAF_CHECK_EQUAL(got.batch_length, plain.batch_length);
  CAF_CHECK_EQUAL(got.unique, plain.unique);
  CAF_CHECK(got.until == plain.until);
  CAF_CHECK_EQUAL(got.handler, plain.handler);
  CAF_CHECK(got.sync == plain.sync);
  CAF_CHECK(got.sync_interval == plain.sync_interval);
  CAF_CHECK(got.batch_debounce == plain.batch_debounce);
  CAF_CHECK(got.push_timeout == plain.push_timeout);
  CAF_CHECK(got.requeue_delay == plain.requeue_delay);
  CAF_CHECK(got.timeout == plain.timeout);
  CAF_CHECK_EQUAL(got.max_attempts, plain.max_attempts);
  CAF_CHECK(got.worker_idle == plain.worker_idle);
  CAF_CHECK(got.shutdown_timeout == plain.shutdown_timeout);
  CAF_CHECK(got.lease == plain.lease);
  CAF_CHECK(got.idempotency_window == plain.idempotency_window);
  CAF_CHECK_EQUAL(got.claim_rate, plain.claim_rate);
  CAF_CHECK_EQUAL(got.claim_burst, plain.claim_burst);
  CAF_CHECK_EQUAL(got.max_item_size, plain.max_item_size);
  const auto door = http("");
  const http_settings plain_http;
  CAF_CHECK_EQUAL(door.host, plain_http.host);
  CAF_CHECK_EQUAL(door.port, plain_http.port);
  CAF_CHECK_EQUAL(door.max_body, plain_http.max_body);
  CAF_CHECK(door.header_timeout == plain_http.header_timeout);
  CAF_CHECK(door.idle_timeout == plain_http.idle_timeout);
  CAF_CHECK_EQUAL(door.max_connections, plain_http.max_connections);
}

CAF_TEST(every key of a queue arrives) {
  const auto q = queue(R"(
[queue.x]
TYPE = redis
DATADIR = d
CONN_STR = redis://h/2
QUEUE_NAME = -q
SET_NAME = -s
LENGTH = 7
BATCH_LENGTH = 3
MAX_WORKERS = 5
UNIQUE = yes
UNIQUE_UNTIL = 10m
HANDLER = exec:cat
ENCRYPT = env:KEYS
SYNC = always
BATCH_DEBOUNCE = 100ms
PUSH_TIMEOUT = 1
REQUEUE_DELAY = 2s
TIMEOUT = 1h
MAX_ATTEMPTS = 9
WORKER_IDLE = 3s
SHUTDOWN_TIMEOUT = 0
LEASE = 5s
IDEMPOTENCY_WINDOW = 1h
CLAIM_RATE = 11
CLAIM_BURST = 12
MAX_ITEM_SIZE = 2k
)");
  CAF_CHECK(q.type == queue_type::redis);
  CAF_CHECK_EQUAL(q.datadir, "/app/d");
  CAF_CHECK_EQUAL(q.conn_str, "redis://h/2");
  CAF_CHECK_EQUAL(q.queue_full_name, "x-q");
  CAF_CHECK_EQUAL(q.encrypt, "env:KEYS");
  CAF_CHECK_EQUAL(q.set_full_name, "x-q-s");
  CAF_CHECK_EQUAL(q.length, 7u);
  CAF_CHECK_EQUAL(q.batch_length, 3u);
  CAF_CHECK(q.max_workers == 5u);
  CAF_CHECK(q.unique);
  CAF_CHECK(q.until == unique_until::time);
  CAF_CHECK(q.unique_lifetime == 10min);
  CAF_CHECK_EQUAL(q.handler, "exec:cat");
  CAF_CHECK(q.sync == sync_mode::always);
  CAF_CHECK(q.batch_debounce == 100ms);
  CAF_CHECK(q.push_timeout == 1s);
  CAF_CHECK(q.requeue_delay == 2s);
  CAF_CHECK(q.timeout == 1h);
  CAF_CHECK_EQUAL(q.max_attempts, 9u);
  CAF_CHECK(q.worker_idle == 3s);
  CAF_CHECK(q.shutdown_timeout == 0s);
  CAF_CHECK(q.lease == 5s);
  CAF_CHECK(q.idempotency_window == 1h);
  CAF_CHECK_EQUAL(q.claim_rate, 11u);
  CAF_CHECK_EQUAL(q.claim_burst, 12u);
  CAF_CHECK_EQUAL(q.max_item_size, 2048u);
}

CAF_TEST(types have other names and an unknown one is never the default) {
  for (const auto& [name, type] : {std::pair("channel", queue_type::channel),
                                   {"memory", queue_type::channel},
                                   {"level", queue_type::level},
                                   {"leveldb", queue_type::level},
                                   {"levelqueue", queue_type::level},
                                   {"persistable-channel", queue_type::level},
                                   {"redis", queue_type::redis},
                                   {"dummy", queue_type::dummy},
                                   {"immediate", queue_type::dummy},
                                   {"", queue_type::level}})
    CAF_CHECK(queue("[queue]\nTYPE = " + std::string(name)).type == type);
  CAF_CHECK_EQUAL(complaint("TYPE = lavel"),
                  "f.ini:2: error: [queue] TYPE: there is no queue type \"lavel\"; did you mean level?\n");
  CAF_CHECK_EQUAL(complaint("TYPE = Redis"),
                  "f.ini:2: error: [queue] TYPE: there is no queue type \"Redis\"; did you mean redis?\n");
  CAF_CHECK_EQUAL(
      complaint("TYPE = postgres"),
      "f.ini:2: error: [queue] TYPE: there is no queue type \"postgres\"; write channel, level, redis or dummy\n");
  CAF_CHECK_EQUAL(to_string(queue_type::dummy), "dummy");
  CAF_CHECK_EQUAL(to_string(queue_type::channel), "channel");
}

CAF_TEST(zero and less) {
  for (const auto* value : {"0", "-5"}) {
    problems found;
    const auto q = read_queue_settings(
        text("[queue]\nLENGTH = " + std::string(value) + "\nBATCH_LENGTH = " + value + "\nMAX_WORKERS = " + value), "x",
        "/app", found);
    CAF_CHECK_EQUAL(q.length, 100'000u);
    CAF_CHECK_EQUAL(q.batch_length, 20u);
    CAF_CHECK(!q.max_workers);
    CAF_CHECK(!has_errors(found));
    CAF_CHECK_EQUAL(to_string(found), "f.ini:2: warning: [queue] LENGTH: " + std::string(value) +
                                          " means the default, 100000; write what you want, or remove the key\n"
                                          "f.ini:3: warning: [queue] BATCH_LENGTH: " +
                                          value + " means the default, 20; write what you want, or remove the key\n");
  }
}

CAF_TEST(wrong numbers and durations stop with file and line) {
  CAF_CHECK_EQUAL(complaint("LENGTH = abc"),
                  "f.ini:2: error: [queue] LENGTH: \"abc\" is no whole number; write for example 100\n");
  CAF_CHECK_EQUAL(
      complaint("LENGTH = 1000000001"),
      "f.ini:2: error: [queue] LENGTH: \"1000000001\" is more than 1000000000; write a value from 1..1000000000\n");
  CAF_CHECK_EQUAL(complaint("MAX_WORKERS = many"),
                  "f.ini:2: error: [queue] MAX_WORKERS: \"many\" is no whole number; write for example 100\n");
  CAF_CHECK_EQUAL(complaint("MAX_ATTEMPTS = -1"),
                  "f.ini:2: error: [queue] MAX_ATTEMPTS: \"-1\" is less than 0; write a value from 0..1000000\n");
  CAF_CHECK_EQUAL(complaint("PUSH_TIMEOUT = soon"),
                  "f.ini:2: error: [queue] PUSH_TIMEOUT: \"soon\" is no duration; write for example 90 (seconds), "
                  "500ms or 1h30m\n");
  CAF_CHECK_EQUAL(complaint("LEASE = 1ms"),
                  "f.ini:2: error: [queue] LEASE: \"1ms\" is less than 100ms; write a value from 100ms..24h\n");
  CAF_CHECK_EQUAL(
      complaint("LEASE = 2d"),
      "f.ini:2: error: [queue] LEASE: \"2d\" is no duration; write for example 90 (seconds), 500ms or 1h30m\n");
  CAF_CHECK_EQUAL(complaint("TIMEOUT = 1000h"),
                  "f.ini:2: error: [queue] TIMEOUT: \"1000h\" is more than 720h; write a value from 0s..720h\n");
  CAF_CHECK_EQUAL(
      complaint("PUSH_TIMEOUT = 1.5us"),
      "f.ini:2: error: [queue] PUSH_TIMEOUT: \"1.5us\" is finer than a millisecond; write whole milliseconds\n");
  CAF_CHECK_EQUAL(
      complaint("MAX_ITEM_SIZE = big"),
      "f.ini:2: error: [queue] MAX_ITEM_SIZE: \"big\" is no size; write for example 4096, 512KiB or 8MiB\n");
  CAF_CHECK_EQUAL(complaint("MAX_ITEM_SIZE = 2GiB"),
                  "f.ini:2: error: [queue] MAX_ITEM_SIZE: \"2GiB\" is more than 1GiB; write a value from 1..1GiB\n");
  CAF_CHECK_EQUAL(complaint("UNIQUE = maybe"),
                  "f.ini:2: error: [queue] UNIQUE: \"maybe\" is neither true nor false; write true or false\n");
}

CAF_TEST(the long texts of others are cut and cleaned before they are shown) {
  const auto out = complaint("LENGTH = `" + std::string(500, 'x') + "`");
  CAF_CHECK(out.size() < 200);
  CAF_CHECK_EQUAL(complaint("LENGTH = `a\nb\x1b[31m`"),
                  "f.ini:2: error: [queue] LENGTH: \"a b [31m\" is no whole number; write for example 100\n");
}

CAF_TEST(a queue overrides its parents key by key and an empty value does not ) {
  const auto file =
      "[queue]\nLENGTH = 5\nBATCH_LENGTH = 6\nTYPE = channel\n[queue.x]\nLENGTH = 7\nBATCH_LENGTH =\n[queue.x.y]\nTYPE "
      "= dummy\n";
  CAF_CHECK_EQUAL(queue(file).length, 7u);
  CAF_CHECK_EQUAL(queue(file).batch_length, 6u);
  CAF_CHECK_EQUAL(queue(file, "x.y").length, 7u);
  CAF_CHECK(queue(file, "x.y").type == queue_type::dummy);
  CAF_CHECK_EQUAL(queue(file, "other").length, 5u);
  CAF_CHECK_EQUAL(complaint("[queue.x]\nLENGTH = z"),
                  "f.ini:3: error: [queue.x] LENGTH: \"z\" is no whole number; write for example 100\n");
}

CAF_TEST(unique until) {
  CAF_CHECK(queue("[queue]\nUNIQUE_UNTIL = start").until == unique_until::start);
  CAF_CHECK(queue("[queue]\nUNIQUE_UNTIL = done").until == unique_until::done);
  CAF_CHECK(queue("[queue]\nUNIQUE_UNTIL = 90").unique_lifetime == 90s);
  CAF_CHECK_EQUAL(
      complaint("UNIQUE_UNTIL = never"),
      "f.ini:2: error: [queue] UNIQUE_UNTIL: \"never\" is no duration; write start, done, success or for example 10m\n");
  for (const auto* value : {"0", "-1s", "1us"})
    CAF_CHECK_EQUAL(complaint("UNIQUE_UNTIL = " + std::string(value)),
                    "f.ini:2: error: [queue] UNIQUE_UNTIL: \"" + std::string(value) +
                        "\" is no whole number of milliseconds above 0; write start, done, success or for example 10m\n");
}

CAF_TEST(sync) {
  CAF_CHECK(queue("[queue]\nSYNC = never").sync == sync_mode::never);
  CAF_CHECK(queue("[queue]\nSYNC = interval:250").sync_interval == 250ms);
  CAF_CHECK(queue("[queue]\nSYNC = interval:2s").sync_interval == 2s);
  for (const auto* value : {"interval:", "interval:0", "interval:-1", "interval:x", "interval:2h", "interval:1us"})
    CAF_CHECK_EQUAL(complaint("SYNC = " + std::string(value)),
                    "f.ini:2: error: [queue] SYNC: \"" + std::string(value) +
                        "\" has no number of milliseconds from 1 to 3600000; write for example interval:1000\n");
  CAF_CHECK_EQUAL(complaint("SYNC = sometimes"),
                  "f.ini:2: error: [queue] SYNC: \"sometimes\" is none of always, interval:MS, never; write for "
                  "example interval:1000\n");
}

CAF_TEST(handlers) {
  for (const auto* value : {"exec:/bin/cat -n", "http://h/x", "https://h"})
    CAF_CHECK_EQUAL(queue("[queue]\nHANDLER = " + std::string(value)).handler, value);
  for (const auto* value : {"cat", "exec:", "exec: ", "ftp://h", "http://"})
    CAF_CHECK(complaint("HANDLER = `" + std::string(value) + "`")
                  .ends_with("is no handler; write exec:COMMAND, http://... or https://...\n"));
  CAF_CHECK_EQUAL(complaint("HANDLER = ftp://u:secret@h"),
                  "f.ini:2: error: [queue] HANDLER: \"ftp://u:***@h\" is no handler; write exec:COMMAND, http://... or "
                  "https://...\n");
}

CAF_TEST(where the keys are that seal items) {
  CAF_CHECK_EQUAL(queue("[queue]\nENCRYPT = file:/etc/caravan/keys\n").encrypt, "file:/etc/caravan/keys");
  CAF_CHECK(queue("[queue]\nENCRYPT = file:keys\n").encrypt.starts_with("file:/"));
  for (const auto* bad : {"env:", "file:", "secret", "ENV:KEYS", "file"})
    CAF_CHECK_EQUAL(complaint("ENCRYPT = " + std::string(bad)),
                    "f.ini:2: error: [queue] ENCRYPT: \"" + std::string(bad) +
                        "\" says neither which file nor which environment variable holds the keys; write file:PATH or env:NAME\n");
}

CAF_TEST(data directories) {
  CAF_CHECK_EQUAL(queue("").datadir, "/app/queues/common");
  CAF_CHECK_EQUAL(queue("[queue]\nDATADIR = a/../b/./c/").datadir, "/app/b/c");
  CAF_CHECK_EQUAL(queue("[queue]\nDATADIR = /x").datadir, "/x");
  CAF_CHECK_EQUAL(queue("[queue]\nDATADIR = /").datadir, "/");
  CAF_CHECK_EQUAL(queue("[queue]\nCONN_STR = leveldb://d?x=1").datadir, "/app/d");
  CAF_CHECK_EQUAL(queue("[queue]\nCONN_STR = leveldb:///d").datadir, "/d");
  CAF_CHECK_EQUAL(queue("[queue]\nCONN_STR = leveldb:///d").conn_str, "");
  const auto here = read_queue_settings(text(""), "x", "relative");
  CAF_REQUIRE(here);
  CAF_CHECK_EQUAL(here->datadir, (fs::current_path() / "relative/queues/common").string());
}

CAF_TEST(connection strings of a queue) {
  const auto all =
      "[redis]\nCONN_STR = redis://r\n[queue]\nTYPE = redis\nCONN_STR = redis://q\n[queue.a]\nCONN_STR = redis://a\n"
      "[queue.b]\nCONN_STR =\n[queue.c]\nTYPE = channel\nCONN_STR =\n[queue.d]\nLENGTH = 1\n";
  CAF_CHECK_EQUAL(queue(all, "a").conn_str, "redis://a");
  CAF_CHECK_EQUAL(queue(all, "b").conn_str, "redis://r");
  CAF_CHECK_EQUAL(queue(all, "c").conn_str, "");
  CAF_CHECK_EQUAL(queue(all, "d").conn_str, "redis://q");
  CAF_CHECK_EQUAL(queue(all, "none").conn_str, "redis://q");
  CAF_CHECK_EQUAL(queue("[queue]\nTYPE = redis").conn_str, "redis://127.0.0.1:6379/0");
  CAF_CHECK_EQUAL(queue("[redis]\nCONN_STR = redis://r\n[queue]\nTYPE = channel").conn_str, "");
  CAF_CHECK_EQUAL(complaint("TYPE = redis\nCONN_STR = nonsense"),
                  "f.ini:3: error: queue \"x\": [queue] CONN_STR: invalid connection string \"nonsense\": neither an "
                  "address with :// nor "
                  "words like db=0; write for example redis://127.0.0.1:6379/0; or remove it to use [redis]\n");
  for (const auto* value : {"redis://u:secret@h", "leveldb://", "h"}) {
    const auto out = complaint("CONN_STR = " + std::string(value));
    CAF_CHECK(out.find("secret") == std::string::npos);
    CAF_CHECK(out.starts_with("f.ini:2: error: queue \"x\": [queue] CONN_STR: invalid connection string \""));
    CAF_CHECK(out.ends_with(
        " for a queue in files; set TYPE = redis, or write \"CONN_STR =\" in [queue.x] and use DATADIR\n"));
  }
}

CAF_TEST(names of queues and of their rows) {
  for (const auto* name : {"a", "a-b_c.d", "A9"})
    CAF_CHECK_EQUAL(queue("", name).queue_full_name, std::string(name) + "_queue");
  for (const auto& name : {std::string("a b"), std::string("a/b"), std::string(), std::string("{a}"),
                           std::string("\xc3\xa4"), std::string(129, 'a')})
    CAF_CHECK(
        complaint("", name).ends_with(": this is no name for a queue; use up to 128 letters, digits, - _ and .\n"));
  CAF_CHECK_EQUAL(complaint("QUEUE_NAME = a b"),
                  "f.ini:2: error: [queue] QUEUE_NAME: \"a b\" cannot be a part of a name; use up to 128 letters, "
                  "digits, - _ and .\n");
  CAF_CHECK_EQUAL(queue("[queue]\nQUEUE_NAME =\nSET_NAME =").set_full_name, "x_queue_unique");
}

CAF_TEST(two queues never share a name in one storage) {
  const auto both = [](std::string_view more_of_second, std::string_view shared = "") {
    return all_complaints("[queue]\n" + std::string(shared) + "\n[queue.a]\nQUEUE_NAME = _b_queue\n[queue.a_b]\n" +
                          std::string(more_of_second));
  };
  CAF_CHECK_EQUAL(both(""),
                  "f.ini:5: error: queue \"a_b\": its name in the storage, \"a_b_queue\" (QUEUE_NAME), is that of "
                  "queue \"a\" (QUEUE_NAME); "
                  "give one of them another QUEUE_NAME, SET_NAME, DATADIR or CONN_STR\n"
                  "f.ini:5: error: queue \"a_b\": its name in the storage, \"a_b_queue_unique\" (SET_NAME), is that of "
                  "queue \"a\" (SET_NAME); "
                  "give one of them another QUEUE_NAME, SET_NAME, DATADIR or CONN_STR\n");
  CAF_CHECK_EQUAL(both("DATADIR = other"), "");
  CAF_CHECK(!both("DATADIR = queues/x/../common/").empty());
  CAF_CHECK_EQUAL(both("TYPE = channel"), "");
  CAF_CHECK(!both("CONN_STR = redis://u:p@localhost:6379", "TYPE = redis").empty());
  CAF_CHECK_EQUAL(both("CONN_STR = redis://127.0.0.1:6379/1", "TYPE = redis"), "");
  // The set of one queue and the rows of another clash just as well.
  CAF_CHECK(!all_complaints("[queue.a]\n[queue.a_]\nQUEUE_NAME = queue_unique").empty());
}

CAF_TEST(the node) {
  problems found;
  const auto plain = read_node_settings(text(""), found);
  CAF_CHECK_EQUAL(to_string(found), "");
  CAF_CHECK(!plain.name.empty());
  CAF_CHECK_EQUAL(plain.data_dir, (fs::current_path() / "data").string());
  CAF_CHECK(!plain.auto_create);
  const auto set = read_node_settings(text("[node]\nNAME = n1\nDATA_DIR = /d/\nAUTO_CREATE = true"), found);
  CAF_CHECK_EQUAL(set.name, "n1");
  CAF_CHECK_EQUAL(set.data_dir, "/d");
  CAF_CHECK(set.auto_create);
  CAF_CHECK_EQUAL(to_string(found), "");
  (void)read_node_settings(text("[node]\nNAME = a b\nAUTO_CREATE = x"), found);
  CAF_CHECK_EQUAL(
      to_string(found),
      "f.ini:2: error: [node] NAME: \"a b\" is no name for a node; set NAME to up to 128 letters, digits, - _ and .\n"
      "f.ini:3: error: [node] AUTO_CREATE: \"x\" is neither true nor false; write true or false\n");
}

CAF_TEST(where HTTP listens) {
  CAF_CHECK_EQUAL(http("ADDR = [::1]:0").host, "::1");
  CAF_CHECK_EQUAL(http("ADDR = [::1]:0").port, 0u);
  CAF_CHECK_EQUAL(http("ADDR = localhost:65535").port, 65535u);
  for (const auto& [value, cause] : {std::pair("127.0.0.1", " has no port"),
                                     {"127.0.0.1:", " has no port"},
                                     {"h:x", " has no port"},
                                     {"127.0.0.1:65536", " has a port that is not from 0 to 65535"},
                                     {"127.0.0.1:-1", " has a port that is not from 0 to 65535"},
                                     {"::1:80", " holds an IPv6 address without brackets"},
                                     {"a/b:80", " holds no host name"}})
    CAF_CHECK_EQUAL(http_complaint("ADDR = " + std::string(value)),
                    "f.ini:2: error: [http] ADDR: \"" + std::string(value) + "\"" + cause +
                        "; write for example 127.0.0.1:7171 or [::1]:7171\n");
}

CAF_TEST(beyond loopback every role needs its token) {
  const std::string token = "0123456789abcdef";
  CAF_CHECK_EQUAL(http_complaint("ADDR = 0.0.0.0:80\nREAD_TOKEN = " + token),
                  "f.ini:2: error: [http] ADDR: everybody who reaches \"0.0.0.0:80\" could use it, because these are "
                  "not set: PUSH_TOKEN, "
                  "WORK_TOKEN, ADMIN_TOKEN; set them, or listen on 127.0.0.1\n");
  for (const auto* open : {":80", "*:80", "[::]:80", "example.org:80", "127.example.org:80", "10.0.0.1:80"})
    CAF_CHECK(http_complaint("ADDR = " + std::string(open)).find("could use it") != std::string::npos);
  const auto all = "\nREAD_TOKEN = " + token + "\nPUSH_TOKEN = " + token + "p\nWORK_TOKEN = " + token +
                   "w\nADMIN_TOKEN = " + token + "a";
  const auto door = http("ADDR = :80" + all);
  CAF_CHECK_EQUAL(door.host, "");
  CAF_CHECK_EQUAL(http("ADDR = *:80" + all).host, "");
  CAF_CHECK_EQUAL(door.read_token, token);
  CAF_CHECK_EQUAL(door.push_token, token + "p");
  CAF_CHECK_EQUAL(door.work_token, token + "w");
  CAF_CHECK_EQUAL(door.admin_token, token + "a");
  CAF_CHECK_EQUAL(http_complaint("ADMIN_TOKEN = short"),
                  "f.ini:2: warning: [http] ADMIN_TOKEN: a token of fewer than 16 characters can be guessed; use for "
                  "example \"openssl rand "
                  "-hex 32\"\n");
  CAF_CHECK_EQUAL(http_complaint("ADMIN_TOKEN = with a blank in it"),
                  "f.ini:2: error: [http] ADMIN_TOKEN: a token holds a blank or a character beyond ASCII; use letters, "
                  "digits and signs, for "
                  "example of \"openssl rand -hex 32\"\n");
}

CAF_TEST(which nodes may join) {
  problems found;
  const auto read = [&](const std::string& line) {
    found = {};
    return read_cluster_settings(text("[cluster]\n" + line + "\n"), "earth", found).nodes;
  };
  const std::vector<std::string> both{"mars", "earth"};
  CAF_CHECK(read("NODES = mars, earth") == both);
  CAF_CHECK(read("NODES = ,mars earth ,") == both);
  CAF_CHECK(read("NODES =").empty());
  CAF_CHECK(found.empty());
  (void)read("NODES = mars, venus");
  CAF_CHECK_EQUAL(to_string(found),
                  "f.ini:2: error: [cluster] NODES: this node itself, \"earth\", is not among them; add it, or correct [node] NAME\n");
}

CAF_TEST(limits of HTTP) {
  const auto door = http("MAX_BODY = 1MiB\nHEADER_TIMEOUT = 1\nIDLE_TIMEOUT = 500ms\nMAX_CONNECTIONS = 3");
  CAF_CHECK_EQUAL(door.max_body, 1u << 20);
  CAF_CHECK(door.header_timeout == 1s);
  CAF_CHECK(door.idle_timeout == 500ms);
  CAF_CHECK_EQUAL(door.max_connections, 3u);
  CAF_CHECK_EQUAL(http_complaint("MAX_BODY = 0"),
                  "f.ini:2: error: [http] MAX_BODY: \"0\" is less than 1KiB; write a value from 1KiB..1GiB\n");
}

CAF_TEST(the log) {
  problems found;
  const auto plain = read_log_settings(text(""), found);
  CAF_CHECK(plain.level == log_level::info);
  CAF_CHECK(plain.format == log_format::automatic);
  CAF_CHECK_EQUAL(plain.file, "");
  const auto set = read_log_settings(text("[log]\nLEVEL = error\nFORMAT = json\nFILE = l.txt"), found);
  CAF_CHECK(set.level == log_level::error);
  CAF_CHECK(set.format == log_format::json);
  CAF_CHECK_EQUAL(set.file, (fs::current_path() / "l.txt").string());
  CAF_CHECK(read_log_settings(text("[log]\nLEVEL = trace\nFORMAT = text"), found).level == log_level::trace);
  CAF_CHECK_EQUAL(to_string(found), "");
  (void)read_log_settings(text("[log]\nLEVEL = warning\nFORMAT = xml"), found);
  CAF_CHECK_EQUAL(
      to_string(found),
      "f.ini:2: error: [log] LEVEL: \"warning\" is none of trace | debug | info | warn | error; write one of them\n"
      "f.ini:3: error: [log] FORMAT: \"xml\" is none of auto | text | json; write one of them\n");
  found.clear();
  (void)read_log_settings(text("[log]\nLEVEL = INFO"), found);
  CAF_CHECK_EQUAL(
      to_string(found),
      "f.ini:2: error: [log] LEVEL: \"INFO\" is none of trace | debug | info | warn | error; did you mean info?\n");
}

CAF_TEST(a bad Redis address stops even when nothing uses it) {
  CAF_CHECK_EQUAL(all_complaints("[redis]\nCONN_STR = redis://:secret@h:x"),
                  "f.ini:2: error: [redis] CONN_STR: invalid connection string \"redis://:***@h:x\": a port is a "
                  "number from 1 to 65535; write "
                  "for example redis://127.0.0.1:6379/0; or remove it if nothing uses Redis\n");
}

CAF_TEST(removed options are all told before the stop) {
  const auto out = all_complaints(
      "[mailer]\nSEND_BUFFER_LEN = 1\n[indexer]\nISSUE_INDEXER_QUEUE_TYPE = a\nISSUE_INDEXER_QUEUE_DIR = a\n"
      "ISSUE_INDEXER_QUEUE_CONN_STR = a\nISSUE_INDEXER_QUEUE_BATCH_NUMBER = 1\nUPDATE_BUFFER_LEN = 1\n"
      "[repository]\nPULL_REQUEST_QUEUE_LENGTH = 1\nMIRROR_QUEUE_LENGTH = 1\n");
  CAF_CHECK_EQUAL(std::count(out.begin(), out.end(), '\n'), 8);
  CAF_CHECK(out.find("f.ini:2: error: [mailer].SEND_BUFFER_LEN: this option was removed; set what you need in "
                     "[queue.mailer] instead\n") != std::string::npos);
  CAF_CHECK(out.find("f.ini:5: error: [indexer].ISSUE_INDEXER_QUEUE_DIR: ") != std::string::npos);
}

CAF_TEST(all settings at once or all mistakes) {
  const auto good = read_settings(text("[node]\nDATA_DIR = /d\n[queue.b]\n[queue.a]\nLENGTH = 3\nMAX_WORKERS = 0"));
  CAF_REQUIRE(good);
  CAF_CHECK_EQUAL(good->queues.size(), 2u);
  CAF_CHECK_EQUAL(good->queues[0].name, "b");
  CAF_CHECK_EQUAL(good->queues[1].length, 3u);
  CAF_CHECK_EQUAL(good->queues[1].datadir, "/d/queues/common");
  const auto bad =
      read_settings(text("[queue]\nLENGTH = x\nBATCH_LENGTH = 0\n[queue.a]\n[queue.b]\nSYNC = y\n[log]\nLEVEL = z\n"));
  CAF_REQUIRE(!bad);
  CAF_CHECK(bad.failure().code == errc::invalid_argument);
  CAF_CHECK_EQUAL(
      bad.failure().text,
      "f.ini:8: error: [log] LEVEL: \"z\" is none of trace | debug | info | warn | error; write one of them\n"
      "f.ini:2: error: [queue] LENGTH: \"x\" is no whole number; write for example 100\n"
      "f.ini:6: error: [queue.b] SYNC: \"y\" is none of always, interval:MS, never; write for example interval:1000");
  CAF_CHECK(read_settings(ini()));
}

CAF_TEST(a configuration is the file and the environment over it) {
  const auto file = fs::temp_directory_path() / ("caravan_conf_" + std::to_string(::getpid()) + ".ini");
  std::ofstream(file) << "[node]\nNAME = a\nbad line\n";
  const std::vector<std::string> env = {"CARAVAN__NODE__NAME=b c", "CARAVAN__X=1"};
  const auto both = load_configuration(file, env);
  CAF_REQUIRE(both);
  CAF_CHECK_EQUAL(both->content.get("node", "NAME"), "b c");
  CAF_CHECK_EQUAL(both->found.size(), 2u);
  problems found;
  (void)read_node_settings(both->content, found);
  CAF_CHECK_EQUAL(
      to_string(found),
      "environment variable CARAVAN__NODE__NAME: error: [node] NAME: \"b c\" is no name for a node; set NAME to "
      "up to 128 letters, digits, - _ and .\n");
  fs::remove(file);
  CAF_CHECK(!load_configuration(file, env));
  CAF_CHECK(load_configuration({}, env));
}
