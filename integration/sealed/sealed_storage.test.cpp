#define CAF_SUITE sealed_storage
#include "integration/sealed/sealed_storage.hpp"

#include "integration/leveldb/level_storage.hpp"
#include "integration/memory/memory_storage.hpp"
#include "tests/contract/import_contract.hpp"
#include "tests/contract/storage_contract.hpp"
#include "tests/support/temp_folder.hpp"

#include "caf/test/unit_test.hpp"

#include <filesystem>
#include <fstream>

using namespace caravan;
using namespace std::chrono_literals;

namespace {

const std::string one(64, '1');
const std::string two(64, '2');

key_ring ring(const std::string& text) { return key_ring::parse(text, "here").value(); }

contract::place sealed(const contract::place& real) {
  return {[real](unique_policy unique, std::chrono::milliseconds window) {
            return seal_storage(real.open(unique, window), ring(one),
                                {"mail", "mail_queue", unique.kind != unique_policy::until::none, {}})
                .value();
          },
          real.persistent};
}

contract::place memory_place(const toolbox::clock& clock) {
  return {[&clock](unique_policy unique, std::chrono::milliseconds window) {
            return open_memory_storage({"mail_queue", unique, window, &clock});
          },
          false};
}

std::unique_ptr<storage> open_level(const std::string& folder) {
  level_options o;
  o.datadir = folder;
  o.queue_full_name = "mail_queue";
  o.set_full_name = "mail_queue_unique";
  o.unique = {unique_policy::until::done, {}};
  o.sync = config::sync_mode::never;
  return open_level_storage(std::move(o)).value();
}

bool on_disk(const std::string& folder, const std::string& text) {
  for (const auto& f : std::filesystem::recursive_directory_iterator(folder)) {
    if (!f.is_regular_file()) continue;
    std::ifstream in(f.path(), std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(in), {}};
    if (bytes.find(text) != std::string::npos) return true;
  }
  return false;
}

record secret(const std::string& payload, const std::string& key = {}) {
  record r;
  r.payload = payload;
  r.key = key;
  r.headers = {{"tenant", "header-secret"}};
  return r;
}

wall_time today() { return wall_time{std::chrono::hours{24 * 365 * 55}}; }

struct place {
  testing_support::temp_folder folder;
  std::string reports;
  expected<std::unique_ptr<storage>> open(const std::string& keys) {
    return seal_storage(open_level(folder.path().string() + "/data"), ring(keys),
                        {"mail", "mail_queue", true, [this](const std::string& t) { reports += t + "\n"; }});
  }
  std::unique_ptr<storage> open_plain() { return open_level(folder.path().string() + "/data"); }
};

item_id push(storage& store, const std::string& payload, const std::string& key = {}) {
  auto r = secret(payload, key);
  store.append({&r, 1}, today()).value();
  return r.id;
}
std::vector<std::string> payloads(storage& store, record_state state = record_state::waiting) {
  return contract::payloads(store.read(state, {}, 100).value());
}

}  // namespace

CAF_TEST(a sealed storage keeps the contract in memory) {
  check_storage_contract([](const toolbox::clock& clock) { return sealed(memory_place(clock)); });
}

CAF_TEST(a sealed storage can be moved into) {
  check_import_contract([](const toolbox::clock& clock) { return sealed(memory_place(clock)); });
}

CAF_TEST(a sealed storage keeps the contract on LevelDB) {
  const auto folder = std::make_shared<testing_support::temp_folder>();
  check_storage_contract([folder, next = std::make_shared<int>(0)](const toolbox::clock& clock) {
    const auto datadir = folder->path().string() + "/" + std::to_string(++*next);
    return sealed({[=, &clock](unique_policy unique, std::chrono::milliseconds window) {
                     level_options o;
                     o.datadir = datadir;
                     o.queue_full_name = "mail_queue";
                     o.set_full_name = "mail_queue_unique";
                     o.unique = unique;
                     o.idempotency_window = window;
                     o.sync = config::sync_mode::never;
                     o.clock = &clock;
                     return open_level_storage(std::move(o)).value();
                   },
                   true});
  });
}

CAF_TEST(nothing secret is on the disk) {
  place p;
  auto store = p.open(one).value();
  auto r = secret("\"payload-secret\"", "key-secret");
  r.idempotency_key = "repeat-secret";
  store->append({&r, 1}, today()).value();
  auto failed = *store->find(r.id).value();
  const auto from = ref_of(failed);
  failed.state = record_state::delayed;
  failed.due = today() + 1h;
  failed.last_error = "error-secret";
  const record_move m{from, failed};
  store->update({&m, 1}).value();
  const auto back = *store->find(r.id).value();
  CAF_CHECK(back.last_error == "error-secret");
  CAF_CHECK(back.key == "key-secret");
  CAF_CHECK(back.headers == r.headers || back.headers == header_list({{"tenant", "header-secret"}}));
  CAF_CHECK(store->key_owner(digest_of("key-secret")).value() == r.id);
  store->close().value();
  store.reset();
  for (const std::string what : {"payload-secret", "key-secret", "error-secret", "header-secret", "repeat-secret"})
    CAF_CHECK(!on_disk(p.folder.path().string(), what));
  auto plain = p.open_plain();
  push(*plain, "\"in the clear\"");
  plain->close().value();
  CAF_CHECK(on_disk(p.folder.path().string(), "in the clear"));  // so the search would find it
}

CAF_TEST(what was in the clear before is read and sealed when it is written anew) {
  place p;
  auto plain = p.open_plain();
  const auto id = push(*plain, "\"old\"");
  plain->close().value();
  plain.reset();
  auto store = p.open(one).value();
  push(*store, "\"new\"");
  CAF_CHECK((payloads(*store) == std::vector<std::string>{"\"old\"", "\"new\""}));
  auto r = *store->find(id).value();
  const record_move m{ref_of(r), r};
  store->update({&m, 1}).value();
  store->close().value();
  store.reset();
  plain = p.open_plain();
  for (const auto& x : plain->read(record_state::waiting, {}, 10).value()) CAF_CHECK(is_sealed(x.payload));
}

CAF_TEST(a new key seals and the old one still opens) {
  place p;
  {
    auto store = p.open(one).value();
    push(*store, "1");
    store->close().value();
  }
  {
    auto store = p.open(two + "\n" + one).value();
    push(*store, "2");
    CAF_CHECK((payloads(*store) == std::vector<std::string>{"1", "2"}));
    store->erase(contract::refs(store->read(record_state::waiting, {}, 1).value()), {}).value();
    store->close().value();
  }
  auto store = p.open(two).value();  // the old key is not needed any more
  CAF_CHECK((payloads(*store) == std::vector<std::string>{"2"}));
}

CAF_TEST(a wrong file of keys stops the start) {
  place p;
  {
    auto store = p.open(one).value();
    push(*store, "1");
    store->close().value();
  }
  const auto refused = p.open(two);
  CAF_REQUIRE(!refused);
  CAF_CHECK(refused.failure().code == errc::invalid_argument);
  CAF_CHECK(refused.failure().text.find("queue \"mail\"") != std::string::npos);
  CAF_CHECK(refused.failure().text.find("ENCRYPT") != std::string::npos);
}

CAF_TEST(one that cannot be opened is dead with the reason and the others go on) {
  place p;
  item_id lost;
  {
    auto plain = p.open_plain();
    const auto other = seal_storage(std::move(plain), ring(one), {"mail", "mail_queue", true, {}}).value();
    push(*other, "1");
    other->close().value();
  }
  {
    // Sealed with a key that is gone later, between others.
    auto store = p.open(two + "\n" + one).value();
    lost = push(*store, "2");
    store->close().value();
  }
  {
    auto store = p.open(one).value();
    push(*store, "3");
    CAF_CHECK((payloads(*store) == std::vector<std::string>{"1", "3"}));
    CAF_CHECK(p.reports.find("is dead: it cannot be opened") != std::string::npos);
    const auto dead = store->read(record_state::dead, {}, 10).value();
    CAF_REQUIRE(dead.size() == 1);
    CAF_CHECK(dead[0].id == lost);
    CAF_CHECK(is_sealed(dead[0].payload));
    CAF_CHECK(dead[0].last_error.find("key ") != std::string::npos);
    const auto found = store->find(lost).value();
    CAF_CHECK(found->last_error.find("cannot be opened") != std::string::npos);
    store->close().value();
  }
  // With its key again it can be retried, and nothing of it is lost.
  auto store = p.open(one + "\n" + two).value();
  auto r = *store->find(lost).value();
  CAF_CHECK(r.payload == "2");
  const auto from = ref_of(r);
  r.state = record_state::waiting;
  const record_move m{from, r};
  store->update({&m, 1}).value();
  CAF_CHECK((payloads(*store) == std::vector<std::string>{"1", "2", "3"}));
}

CAF_TEST(a page of items that cannot be opened is not taken for the end) {
  place p;
  {
    auto store = p.open(one).value();
    push(*store, "0");
    store->close().value();
  }
  {
    auto store = p.open(two + "\n" + one).value();
    for (int i = 0; i < 10; ++i) push(*store, std::to_string(i) + "0");
    store->close().value();
  }
  auto store = p.open(one).value();
  push(*store, "1");
  CAF_CHECK((contract::payloads(store->read(record_state::waiting, {}, 3).value()) == std::vector<std::string>{"0"}));
  CAF_CHECK((payloads(*store) == std::vector<std::string>{"0", "1"}));
  CAF_CHECK(store->count().dead == 10);
  store->erase(contract::refs(store->read(record_state::waiting, {}, 1).value()), {}).value();
  CAF_CHECK((contract::payloads(store->read(record_state::waiting, {}, 3).value()) == std::vector<std::string>{"1"}));
}
