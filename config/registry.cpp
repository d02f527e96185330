#include "config/registry.hpp"

#include "config/values.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <thread>

namespace caravan::config {

namespace {

using enum value_type;

// clang-format off: a key is a line
constexpr section_spec sections[] = {
    // name, what a child is, supported, open, text
    {"node", "", true, false, "The node itself"},
    {"http", "", true, false, "HTTP: the API, the dashboard, /metrics"},
    {"log", "", true, false, "Where the log goes and how it looks"},
    {"redis", "", true, false, "The Redis that everything uses which names none of its own"},
    {"queue", "NAME", true, false, "Settings for all queues, and over them those of the queue NAME"},
    {"cron", "NAME", true, true, "Settings for all tasks, and over them those of the task NAME"},
    {"global_lock", "", true, false, "Locks that all nodes share"},
    {"cache", "NAME", true, false, "The cache, and under a name further ones; what those do not say is as in [cache]"},
    {"qos", "", true, false, "Overload control at the HTTP door"},
    {"limit", "NAME", true, false, "What all limits inherit, and over it the limit NAME"},
    {"cluster", "", true, false, "Nodes that share queues"},
};

constexpr key_spec keys[] = {
    // section, key, type, default, bounds, text, what a number below the bounds means
    {"node", "NAME", text, "<host name>", "letters, digits, - _ .", "How this node is called in logs and lists"},
    {"node", "DATA_DIR", path, "data", "",
     "Where this node keeps what it must not lose; relative to the working directory"},
    {"node", "AUTO_CREATE", boolean, "false", "",
     "Take pushes to queues that no [queue.NAME] names, with the settings of [queue]"},

    {"http", "ADDR", address, "127.0.0.1:7171", "HOST:PORT",
     "Where to listen; port 0 takes any free one. Beyond loopback all four tokens must be set"},
    {"http", "READ_TOKEN", secret, "", "", "Bearer token for looking only; empty: none needed"},
    {"http", "PUSH_TOKEN", secret, "", "", "Bearer token for pushing; empty: none needed"},
    {"http", "WORK_TOKEN", secret, "", "", "Bearer token for claiming and acknowledging jobs; empty: none needed"},
    {"http", "ADMIN_TOKEN", secret, "", "", "Bearer token for everything else; empty: none needed"},
    {"http", "MAX_BODY", bytes, "8MiB", "1KiB..1GiB", "Largest request body"},
    {"http", "HEADER_TIMEOUT", duration, "10s", "100ms..10m", "How long a client may take to send its header"},
    {"http", "IDLE_TIMEOUT", duration, "60s", "100ms..24h", "A connection without a request for this long is closed"},
    {"http", "MAX_CONNECTIONS", integer, "10000", "1..1000000",
     "Most connections at once; further ones wait to be accepted"},

    {"log", "LEVEL", choice, "info", "trace | debug | info | warn | error",
     "The least important lines that are written"},
    {"log", "FORMAT", choice, "auto", "auto | text | json", "auto: text on a terminal, else JSON"},
    {"log", "FILE", path, "", "", "The file to append to, relative to the working directory; empty: standard error"},

    {"redis", "CONN_STR", connection, "", "",
     "For example redis://:PASSWORD@127.0.0.1:6379/0; also rediss, unix, redis-sentinel, redis-cluster"},

    {"queue", "TYPE", choice, "level", "channel | level | redis | dummy",
     "Where items live. Also known as: memory; leveldb, levelqueue, persistable-channel; immediate"},
    {"queue", "DATADIR", path, "queues/common", "",
     "TYPE = level: the database, relative to [node] DATA_DIR. Queues may share one"},
    {"queue", "CONN_STR", connection, "", "",
     "TYPE = redis: which one. Empty: that of [redis], else redis://127.0.0.1:6379/0"},
    {"queue", "QUEUE_NAME", text, "_queue", "letters, digits, - _ .",
     "Behind the queue's name: what its rows are called in the storage"},
    {"queue", "SET_NAME", text, "_unique", "letters, digits, - _ .",
     "Behind both: what the set of its unique keys is called"},
    {"queue", "LENGTH", integer, "100000", "1..1000000000", "Most items that wait before a push answers queue_full",
     too_small::means_default},
    {"queue", "BATCH_LENGTH", integer, "20", "1..100000", "Most items of one handler call", too_small::means_default},
    {"queue", "MAX_WORKERS", integer, "<half the cores, at least 1, at most 10>", "1..100000",
     "Most handler calls at once on one node", too_small::means_no_limit},
    {"queue", "UNIQUE", boolean, "false", "", "Refuse an item while an equal one is there"},
    {"queue", "UNIQUE_UNTIL", text, "start", "start | done | success | a duration",
     "How long an item keeps equal ones out: till a worker takes it, till it ended in any way, till it succeeded or was removed, or this long"},
    {"queue", "HANDLER", connection, "", "exec:COMMAND, http://... or https://...",
     "Who handles the items; empty: a program does, or nobody here"},
    {"queue", "BREAKER", boolean, "false", "",
     "HANDLER = http...: call less often while most calls fail; what is not sent comes later"},
    {"queue", "SHEDDER", boolean, "false", "",
     "HANDLER = http...: call less while this machine has more to do than it can"},
    {"queue", "ENCRYPT", text, "", "file:PATH | env:NAME",
     "Where the keys are that seal the items of TYPE = level and redis, one a line, the first for new items; empty: they are stored as they are"},
    {"queue", "SYNC", text, "interval:1000", "always | interval:MS | never",
     "TYPE = level: when pushes reach the disk for sure"},
    {"queue", "BATCH_DEBOUNCE", duration, "0s", "0s..1m", "How long an idle worker waits for more items; 0: adaptive"},
    {"queue", "PUSH_TIMEOUT", duration, "5s", "0s..24h", "How long a push waits for room; 0: not at all"},
    {"queue", "REQUEUE_DELAY", duration, "1s", "0s..24h", "When a batch of which nothing was handled comes again"},
    {"queue", "TIMEOUT", duration, "0s", "0s..720h", "Longest handler call; 0: no limit"},
    {"queue", "MAX_ATTEMPTS", integer, "0", "0..1000000", "How often an item is tried before it is dead; 0: no limit"},
    {"queue", "RETRY", text, "exponential 1s..1h", "exponential A..B | linear A | list A,B,C",
     "How long a failed item waits before it is tried again"},
    {"queue", "RETRY_JITTER", integer, "50", "0..100", "Per cent of that pause that are random: what failed together does not come back so"},
    {"queue", "MAX_RUNNING", integer, "0", "0..1000000", "Most items in handlers at once, on all nodes together; 0: no limit"},
    {"queue", "RATE", text, "", "COUNT/TIME, perhaps burst N", "How many items may start, on all nodes together: 100/s, 1/10s burst 5; empty: no limit"},
    {"queue", "KEY_CONCURRENCY", integer, "1", "1..1000000", "Most items with one order key in handlers at once. 1: one after another, in order"},
    {"queue", "KEY_RATE", text, "", "COUNT/TIME, perhaps burst N", "RATE for each order key by itself"},
    {"queue", "RETENTION", duration, "0s", "0s..8760h", "How long a finished item can be seen, with its result; 0: not at all"},
    {"queue", "RETAIN_COUNT", integer, "100000", "0..10000000", "Most finished items that are kept; the nearest to their end go first"},
    {"queue", "WORKER_IDLE", duration, "1s", "0s..24h", "An idle worker beyond the first ends after this"},
    {"queue", "SHUTDOWN_TIMEOUT", duration, "2s", "0s..24h",
     "How long a stop waits for workers; 0: run what waits once instead"},
    {"queue", "LEASE", duration, "30s", "100ms..24h",
     "A batch goes to another pool when its own gave no sign of life for this long"},
    {"queue", "IDEMPOTENCY_WINDOW", duration, "30m", "0s..720h", "How long the idempotency key of a push is known"},
    {"queue", "CLAIM_RATE", integer, "0", "0..1000000",
     "Most claims a second of one worker outside; it is told to wait beyond; 0: no limit"},
    {"queue", "CLAIM_BURST", integer, "20", "1..1000000", "So many claims of one worker may come at once above CLAIM_RATE"},
    {"queue", "MAX_ITEM_SIZE", bytes, "1MiB", "1..1GiB", "Largest item"},

    {"cron", "ENABLED", boolean, "true", "", "Run the task when its time comes"},
    {"cron", "RUN_AT_START", boolean, "false", "", "Run it also when the node starts"},
    {"cron", "SCHEDULE", text, "", "", "When: five or six fields, @daily, @every 10m"},
    {"cron", "DIALECT", choice, "standard", "standard | extended",
     "extended: SCHEDULE may also have L, W, #, H, weekday 7, ranges over the end, years"},
    {"cron", "DESCRIPTION", text, "", "", "One line that says what the task does; empty: what its action says"},
    {"cron", "NOTICE_ON_SUCCESS", boolean, "false", "", "Say so when it went well"},
    {"cron", "TIME_ZONE", text, "", "", "The zone of SCHEDULE; empty: the machine's"},
    {"cron", "JITTER", duration, "0s", "0s..24h", "Start up to this much later, by chance"},
    {"cron", "MISSED", choice, "skip", "skip | once", "What to do about times when no node ran"},
    {"cron", "OVERLAP", choice, "skip", "skip | queue", "What to do when the last run is not over"},
    {"cron", "TIMEOUT", duration, "0s", "0s..8760h", "A run is asked to stop after this and has failed; 0: no limit"},
    {"cron", "STORE", choice, "auto", "auto | level | redis | memory",
     "In [cron] only: where it is kept which times have run. auto: redis where [redis] or a queue names one, else level"},
    {"cron", "PUSH", text, "", "QUEUE {JSON}", "Push this item"},
    {"cron", "EXEC", connection, "", "", "Run this command"},
    {"cron", "HTTP", connection, "", "", "Call this URL"},

    {"global_lock", "SERVICE_TYPE", choice, "memory", "memory | redis", "Who keeps the locks"},
    {"global_lock", "SERVICE_CONN_STR", connection, "", "",
     "SERVICE_TYPE = redis: which one. Several addresses, with blanks between: a majority of independent servers "
     "keeps the locks. Empty: that of [redis], else redis://127.0.0.1:6379/0"},
    {"global_lock", "LOCK_EXPIRY", duration, "30s", "500ms..24h",
     "SERVICE_TYPE = redis: what a node holds that died is free after this; what is held is renewed at half of it"},

    {"cluster", "ADDR", address, "127.0.0.1:0", "HOST:PORT",
     "Where other nodes reach this one; port 0 takes any free one. Beyond loopback only with TLS"},
    {"cluster", "JOIN", text, "", "HOST:PORT[,HOST:PORT...] | self",
     "Without Redis: addresses (ADDR) of other nodes, of which one must live for this node to find all. self: it waits for "
     "others to join it. Queues of TYPE = level and channel then have one home, and every node answers for them"},
    {"cluster", "NODES", text, "", "NAME, NAME...",
     "The nodes that may join, by NAME; with TLS the name must also be in the certificate. Empty: every name"},
    {"cluster", "TLS_CERT", path, "", "",
     "This node's certificate, for connections between nodes; PEM. Made out to its NAME (common name or DNS name). All three, or none"},
    {"cluster", "TLS_KEY", path, "", "", "Its private key; PEM"},
    {"cluster", "TLS_CA", path, "", "", "The CA that signs the certificates of all nodes, and of nobody else; PEM"},
    {"cluster", "OWNER_LEASE", duration, "10s", "500ms..10m",
     "TYPE = redis: another node takes a queue over when its owner gave no sign of life for this long"},

    {"cache", "ENABLED", boolean, "true", "", "Use the cache; without it loaders run each time"},
    {"cache", "ADAPTER", choice, "memory", "memory | redis | memcache | twoqueue", "What keeps the values"},
    {"cache", "INTERVAL", duration, "60s", "1s..24h",
     "ADAPTER = memory: how often expired values are swept out while nobody asks"},
    {"cache", "HOST", connection, "", "",
     "redis: its address, empty: that of [redis]; memcache: `HOST:PORT;HOST:PORT`; twoqueue: most values, or "
     "{\"size\":50000,\"recent_ratio\":0.25,\"ghost_ratio\":0.5}. Not inherited by a section with its own ADAPTER"},
    {"cache", "ITEM_TTL", duration, "16h", "",
     "How long a value that was read through the cache is good; 0 or less: the cache is not asked"},

    {"qos", "ENABLED", boolean, "false", "", "Turn requests away while more come in than can be answered"},
    {"qos", "MAX_INFLIGHT", integer, "<4 times the cores>", "1..1000000", "Most requests that are worked on at once"},
    {"qos", "MAX_WAITING", integer, "100", "0..1000000",
     "Most requests that wait for that; beyond it the least important one is answered with 503 at once"},
    {"qos", "TARGET_WAIT_TIME", duration, "250ms", "1ms..1m",
     "A wait that is still good; while waits are longer, requests are answered with 503, the least important ones first"},

    {"limit", "KIND", choice, "tokens", "tokens | period",
     "tokens: a bucket that fills evenly; period: so many, and then none until PER is over"},
    {"limit", "RATE", integer, "100", "0..1000000000", "How much a key may take each PER; 0: BURST once and never more"},
    {"limit", "PER", duration, "1s", "1ms..720h", "The time that RATE is for"},
    {"limit", "BURST", integer, "0", "0..1000000000", "KIND = tokens: most at once after a quiet time; 0: as RATE"},
    {"limit", "STORE", choice, "memory", "memory | redis",
     "Who counts: this node for itself, or the Redis of [redis] for all nodes"},
    {"limit", "WHEN_DOWN", choice, "closed", "closed | open | local",
     "STORE = redis: while it does not answer, permit nothing, everything, or what this node alone would permit"},
};
// clang-format on

constexpr removed_key removed[] = {
    {"indexer", "ISSUE_INDEXER_QUEUE_TYPE", "queue.issue_indexer"},
    {"indexer", "ISSUE_INDEXER_QUEUE_DIR", "queue.issue_indexer"},
    {"indexer", "ISSUE_INDEXER_QUEUE_CONN_STR", "queue.issue_indexer"},
    {"indexer", "ISSUE_INDEXER_QUEUE_BATCH_NUMBER", "queue.issue_indexer"},
    {"indexer", "UPDATE_BUFFER_LEN", "queue.issue_indexer"},
    {"mailer", "SEND_BUFFER_LEN", "queue.mailer"},
    {"repository", "PULL_REQUEST_QUEUE_LENGTH", "queue.pr_patch_checker"},
    {"repository", "MIRROR_QUEUE_LENGTH", "queue.mirror"},
};

std::string host_name() {
  char name[256] = "";
  if (gethostname(name, sizeof name - 1) != 0 || name[0] == '\0') return "node";
  return name;
}

std::optional<std::int64_t> number(value_type type, std::string_view text) {
  if (type == integer) return parse_integer(text);
  if (type == bytes) return parse_bytes(text);
  if (type != duration) return std::nullopt;
  const auto value = parse_duration(text);
  return value ? std::optional<std::int64_t>(value->count()) : std::nullopt;
}

}  // namespace

std::span<const section_spec> all_sections() noexcept { return sections; }
std::span<const key_spec> all_keys() noexcept { return keys; }
std::span<const removed_key> removed_keys() noexcept { return removed; }

const section_spec* find_section_spec(std::string_view name) noexcept {
  for (const auto& s : sections) {
    if (name == s.name) return &s;
    if (!s.child.empty() && name.size() > s.name.size() + 1 && name.starts_with(s.name) && name[s.name.size()] == '.')
      return &s;
  }
  return nullptr;
}

const key_spec* find_key_spec(std::string_view section, std::string_view key) noexcept {
  const auto* in = find_section_spec(section);
  if (!in) return nullptr;
  for (const auto& k : keys)
    if (k.section == in->name && k.key == key) return &k;
  return nullptr;
}

std::string default_value(const key_spec& spec) {
  if (!spec.fallback.starts_with('<')) return std::string(spec.fallback);
  if (spec.key == "NAME") return host_name();
  if (spec.key == "MAX_INFLIGHT") return std::to_string(4 * std::max(1u, std::thread::hardware_concurrency()));
  return std::to_string(std::clamp(std::thread::hardware_concurrency() / 2, 1u, 10u));
}

std::string places(const section_spec& spec) {
  auto out = "[" + std::string(spec.name) + "]";
  if (!spec.child.empty()) out += " and [" + std::string(spec.name) + "." + std::string(spec.child) + "]";
  return out;
}

std::vector<std::string_view> choices(const key_spec& spec) {
  std::vector<std::string_view> out;
  for (auto rest = spec.bounds; !rest.empty();) {
    const auto bar = std::min(rest.find('|'), rest.size());
    out.push_back(trim(rest.substr(0, bar)));
    rest.remove_prefix(std::min(bar + 1, rest.size()));
  }
  return out;
}

std::optional<value_range> range(const key_spec& spec) {
  const auto dots = spec.bounds.find("..");
  if (dots == std::string_view::npos) return std::nullopt;
  const auto least = number(spec.type, spec.bounds.substr(0, dots));
  const auto most = number(spec.type, spec.bounds.substr(dots + 2));
  if (!least || !most) return std::nullopt;
  return value_range{*least, *most};
}

}  // namespace caravan::config
