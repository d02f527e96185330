// Every kind of damage: what is reported, what survives, and that nobody else is harmed.
#define CAF_SUITE level_damage
#include "integration/leveldb/level_db.hpp"
#include "integration/leveldb/level_fixture.hpp"
#include "integration/leveldb/level_rows.hpp"
#include "integration/leveldb/slices.hpp"

#include "caf/test/unit_test.hpp"

#include <fcntl.h>
#include <leveldb/db.h>
#include <sys/fsuid.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

using namespace caravan;
using namespace caravan::level_tests;
using level::row_key;
using level::row_kind;

namespace {

struct damage_fixture : level_fixture {
  /// `mail` first in the folder's files, `news` behind it; both closed.
  void two_queues(std::size_t mail, std::size_t news) {
    auto a = open("mail");
    auto b = open("news");
    push_many(*a, mail);
    push_many(*b, news);
  }
  /// What is in the log goes to a table file.
  void into_tables() {
    auto store = open("mail");
    store->compact();
  }
  void check_works(level_storage& store) {
    const auto before = store.count().waiting;
    const auto id = push(store, item("after the repair"));
    CAF_REQUIRE(id);
    CAF_CHECK_EQUAL(store.count().waiting, before + 1);
    CAF_CHECK_EQUAL(all(store).size(), before + 1);
    CAF_CHECK(store.find(id).value());
  }
  /// The rows as LevelDB has them, for a hand that damages them.
  template <class Change>
  void with_engine(Change change) {
    leveldb::DB* raw = nullptr;
    leveldb::Options o;
    CAF_REQUIRE(leveldb::DB::Open(o, datadir, &raw).ok());
    const std::unique_ptr<leveldb::DB> db{raw};
    change(*db);
  }
  std::vector<std::string> rows(row_kind kind, const std::string& queue = "mail_queue") {
    std::vector<std::string> keys;
    row_key key{queue};
    with_engine([&](leveldb::DB& db) {
      const std::unique_ptr<leveldb::Iterator> it{db.NewIterator({})};
      for (it->Seek(level::slice(key.start(kind))); it->Valid() && key.rest(kind, level::view(it->key())); it->Next())
        keys.push_back(it->key().ToString());
    });
    return keys;
  }
  [[nodiscard]] error refused(level_options o) {
    auto opened = open_level_storage(std::move(o));
    CAF_REQUIRE(!opened);
    CAF_MESSAGE(opened.failure().text);
    return opened.failure();
  }
};

/// A process of its own that holds the folder's lock until this object goes.
class other_process {
public:
  explicit other_process(const std::string& datadir) {
    const auto lock_file = datadir + "/LOCK";
    int ready[2];
    CAF_REQUIRE(::pipe(ready) == 0);
    child_ = ::fork();
    if (child_ == 0) {
      const int fd = ::open(lock_file.c_str(), O_RDWR | O_CREAT, 0644);
      struct flock lock {};
      lock.l_type = F_WRLCK;
      lock.l_whence = SEEK_SET;
      const bool held = ::fcntl(fd, F_SETLK, &lock) == 0;
      const char answer = held ? 'y' : 'n';
      (void)!::write(ready[1], &answer, 1);
      for (;;) ::pause();
    }
    char answer = 'n';
    (void)!::read(ready[0], &answer, 1);
    ::close(ready[0]);
    ::close(ready[1]);
    CAF_REQUIRE(answer == 'y');
  }
  void end() {
    if (child_ <= 0) return;
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
    child_ = 0;
  }
  ~other_process() { end(); }

private:
  ::pid_t child_ = 0;
};

}  // namespace

CAF_TEST_FIXTURE_SCOPE(level_damage_tests, damage_fixture)

// -- folders that cannot be used --------------------------------------------------------------------------------------

CAF_TEST(a relative data dir is refused - QUEUE - 017) {
  auto o = options();
  o.datadir = "relative";
  const auto e = refused(o);
  CAF_CHECK(e.code == errc::invalid_argument);
  CAF_CHECK(e.text.find("invalid data dir") != std::string::npos);
}

CAF_TEST(a data dir that is a file is refused) {
  std::ofstream{datadir} << "hello";
  const auto e = refused(options());
  CAF_CHECK(e.code == errc::invalid_argument);
  CAF_CHECK(e.text.find("is a file") != std::string::npos);
}

CAF_TEST(a folder without write permission is refused with the remedy) {
  fs::create_directories(datadir);
  fs::permissions(datadir,
                  fs::perms::owner_read | fs::perms::owner_exec | fs::perms::others_read | fs::perms::others_exec);
  const bool root = ::geteuid() == 0;
  if (root) ::setfsuid(65534);  // of this thread, for files alone: root may write everywhere
  auto o = options();
  auto opened = open_level_storage(o);
  if (root) ::setfsuid(0);
  fs::permissions(datadir, fs::perms::owner_all);
  CAF_REQUIRE(!opened);
  CAF_MESSAGE(opened.failure().text);
  CAF_CHECK(opened.failure().code == errc::backend_failed);
  CAF_CHECK(opened.failure().text.find("ermission denied") != std::string::npos);
  CAF_CHECK(opened.failure().text.find("let this user write there") != std::string::npos);
  CAF_CHECK_EQUAL(slept.count(), 0);
  check_works(*open());
}

CAF_TEST(a folder that another process holds is waited for and then named) {
  two_queues(10, 0);
  other_process other{datadir};
  const auto e = refused(options());
  CAF_CHECK(e.code == errc::conflict);
  CAF_CHECK(e.text.find("another process uses it") != std::string::npos);
  CAF_CHECK(slept == 9s);
  // It ends while this one waits.
  auto o = options();
  int waits = 0;
  o.sleep = [&](std::chrono::milliseconds) {
    if (++waits == 3) other.end();
  };
  const auto store = open(o);
  CAF_CHECK_EQUAL(waits, 3);
  CAF_CHECK_EQUAL(store->count().waiting, 10u);
  CAF_CHECK(reports.empty());
}

CAF_TEST(one queue is open once in a folder and many queues share it) {
  auto mail = open("mail");
  const auto e = refused(options("mail"));
  CAF_CHECK(e.code == errc::conflict);
  // A name that begins with the other's name, and one folder written in two ways.
  auto o = options("mail_queue");
  o.datadir += "/../data/";
  o.queue_full_name = "mail_queue_unique";
  auto other = open(o);
  push(*mail, item("mail"));
  push(*other, item("other"));
  CAF_CHECK_EQUAL(mail->count().waiting, 1u);
  CAF_CHECK(other->clear(record_state::waiting, no_item_limit).value() == 1u);
  CAF_CHECK_EQUAL(all(*mail).size(), 1u);
  mail->close().value();
  mail = open("mail");
  CAF_CHECK_EQUAL(mail->count().waiting, 1u);
}

CAF_TEST(a folder of a later version is refused) {
  two_queues(1, 1);
  with_engine([](leveldb::DB& db) {
    row_key key{"mail_queue"};
    CAF_REQUIRE(db.Put({}, level::slice(key.named(row_kind::meta, level::format_row_name)), std::string(1, 99)).ok());
  });
  const auto e = refused(options());
  CAF_CHECK(e.code == errc::not_supported);
  CAF_CHECK(e.text.find("later version") != std::string::npos);
  CAF_CHECK_EQUAL(open("news")->count().waiting, 1u);
}

// -- damaged files ----------------------------------------------------------------------------------------------------

CAF_TEST(without CURRENT the data are found again) {
  two_queues(300, 200);
  into_tables();
  fs::remove(datadir + "/CURRENT");
  auto mail = open("mail");
  auto news = open("news");
  CAF_CHECK(reported("", "CURRENT is missing"));
  CAF_CHECK_EQUAL(mail->count().waiting, 300u);
  CAF_CHECK_EQUAL(news->count().waiting, 200u);
  CAF_CHECK_EQUAL(lost("mail_queue") + lost("news_queue"), 0u);
  CAF_REQUIRE_EQUAL(reports.size(), 1u);
  CAF_CHECK_EQUAL(reports[0].saved_to, datadir + ".damaged-1");
  CAF_CHECK(fs::exists(reports[0].saved_to));
  CAF_CHECK(!fs::exists(reports[0].saved_to + "/CURRENT"));
  check_works(*mail);
  mail.reset();
  news.reset();
  mail = open("mail");
  CAF_CHECK_EQUAL(reports.size(), 1u);
  CAF_CHECK_EQUAL(mail->count().waiting, 301u);
}

CAF_TEST(a MANIFEST cut anywhere is repaired) {
  for (const double part : {0.0, 0.3, 0.6, 0.95}) {
    fs::remove_all(datadir);
    fs::remove_all(datadir + ".damaged-1");
    reports.clear();
    two_queues(300, 200);
    into_tables();
    const auto manifest = files("MANIFEST-").back();
    fs::resize_file(manifest, static_cast<std::uintmax_t>(static_cast<double>(fs::file_size(manifest)) * part));
    auto mail = open("mail");
    auto news = open("news");
    CAF_REQUIRE(!reports.empty());
    CAF_CHECK(reports[0].queue.empty());
    CAF_CHECK_EQUAL(reports[0].saved_to, datadir + ".damaged-1");
    CAF_CHECK_EQUAL(mail->count().waiting, 300u);
    CAF_CHECK_EQUAL(news->count().waiting, 200u);
    check_works(*mail);
    check_works(*news);
  }
}

CAF_TEST(a CURRENT that names nothing is repaired) {
  for (const auto* content : {"", "MANIFEST-999999\n", "rubbish"}) {
    fs::remove_all(datadir);
    reports.clear();
    two_queues(100, 50);
    std::ofstream{datadir + "/CURRENT", std::ios::trunc} << content;
    auto mail = open("mail");
    CAF_CHECK(!reports.empty());
    CAF_CHECK_EQUAL(mail->count().waiting, 100u);
    CAF_CHECK_EQUAL(open("news")->count().waiting, 50u);
    check_works(*mail);
  }
}

CAF_TEST(a corrupt block costs its rows and they are counted) {
  two_queues(1000, 200);
  into_tables();
  flip(files(".ldb").front(), 0.4);
  auto mail = open("mail");
  auto news = open("news");
  const auto left = mail->count().waiting;
  CAF_MESSAGE(left << " of 1000 left");
  CAF_CHECK(left < 1000 && left > 900);
  CAF_CHECK_EQUAL(lost("mail_queue"), 1000 - left);
  CAF_CHECK(reported("", "Corruption"));
  CAF_CHECK(reported("mail_queue", "said 1000"));
  CAF_CHECK_EQUAL(news->count().waiting, 200u);
  CAF_CHECK_EQUAL(lost("news_queue"), 0u);
  for (const auto& r : reports) CAF_CHECK_EQUAL(r.saved_to, datadir + ".damaged-1");
  CAF_CHECK_EQUAL(all(*mail).size(), left);
  check_works(*mail);
  check_works(*news);
  mail.reset();
  news.reset();
  const auto before = reports.size();
  CAF_CHECK_EQUAL(open("mail")->count().waiting, left + 1);
  CAF_CHECK_EQUAL(reports.size(), before);
}

CAF_TEST(a block that rots while the queues run is repaired under them) {
  for (const bool by_find : {false, true}) {
    fs::remove_all(datadir);
    reports.clear();
    two_queues(1000, 200);
    into_tables();
    auto o = options("mail");
    o.unique.kind = until::done;
    auto mail = open(o);
    auto news = open("news");
    const auto id = push(*mail, item("unique"));
    flip(files(".ldb").front(), 0.4);
    const auto records = mail->read(record_state::waiting, {}, 2000).value();
    if (by_find)
      for (const auto& r : records) CAF_CHECK(mail->find(r.id).value());
    CAF_CHECK(records.size() < 1001 && records.size() > 900);
    CAF_CHECK_EQUAL(mail->count().waiting, records.size());
    CAF_CHECK_EQUAL(lost("mail_queue"), 1001 - records.size());
    CAF_CHECK(reported("", "Corruption"));
    CAF_CHECK(mail->key_owner(digest_of("unique")).value() == id);
    CAF_CHECK_EQUAL(all(*news).size(), 200u);
    CAF_CHECK_EQUAL(lost("news_queue"), 0u);
    check_works(*mail);
    check_works(*news);
    mail->erase(refs(records), {}).value();
    CAF_CHECK_EQUAL(mail->count().waiting, 1u);
  }
}

CAF_TEST(a half - written log costs what was being written) {
  {
    auto store = open("mail");
    push_many(*store, 100);
    auto o = options("news");
    push(*open(o), item("news"));
    std::error_code ignored;
    // As the machine stopped: nothing that a close would add.
    fs::copy(datadir, datadir + "2");
  }
  fs::remove_all(datadir);
  fs::rename(datadir + "2", datadir);
  fs::remove(datadir + "/LOCK");
  const auto log = files(".log").back();
  fs::resize_file(log, fs::file_size(log) - 10);
  auto mail = open("mail");
  CAF_CHECK(reported("", "ends in the middle of a write"));
  CAF_CHECK(reports[0].saved_to.empty());
  CAF_CHECK_EQUAL(mail->count().waiting, 100u);
  check_works(*mail);
}

CAF_TEST(a log cut anywhere leaves the queue as it was before) {
  push_many(*open("mail"), 100, 50);
  const auto whole = datadir + "-whole";
  fs::copy(datadir, whole);
  const auto size = fs::file_size(files(".log").back());
  for (std::uintmax_t cut = 0; cut < size; cut += 397) {
    fs::remove_all(datadir);
    fs::copy(whole, datadir);
    const auto log = files(".log").back();
    fs::resize_file(log, cut);
    auto mail = open("mail");
    const auto there = mail->count().waiting;
    CAF_REQUIRE(there == 0 || there == 100);
    check_works(*mail);
  }
}

CAF_TEST(a log damaged in its middle is no reason for silence) {
  {
    auto store = open("mail");
    for (int i = 0; i < 400; ++i) push(*store, item(noise(200)));
  }
  flip(files(".log").back(), 0.5);
  auto mail = open("mail");
  CAF_CHECK(reported("", "Corruption"));
  CAF_CHECK_EQUAL(reports[0].saved_to, datadir + ".damaged-1");
  CAF_MESSAGE(mail->count().waiting << " of 400 left");
  CAF_CHECK(mail->count().waiting >= 200u && mail->count().waiting < 400u);
  CAF_CHECK_EQUAL(lost("mail_queue"), 400 - mail->count().waiting);
  check_works(*mail);
}

CAF_TEST(a missing table file is no reason not to start) {
  two_queues(300, 200);
  into_tables();
  fs::remove(files(".ldb").front());
  auto mail = open("mail");
  CAF_CHECK(reported("", "missing files"));
  CAF_CHECK_EQUAL(mail->count().waiting, 0u);
  check_works(*mail);
  check_works(*open("news"));
}

CAF_TEST(a cut table file is no reason not to start) {
  two_queues(300, 200);
  into_tables();
  const auto table = files(".ldb").front();
  fs::resize_file(table, fs::file_size(table) / 3);
  auto mail = open("mail");
  CAF_CHECK(reported("", "Invalid argument; the folder was copied and repaired"));
  CAF_CHECK(mail->count().waiting <= 300u);
  check_works(*mail);
  check_works(*open("news"));
}

CAF_TEST(a folder full of rubbish is set aside and the queue starts) {
  two_queues(300, 200);
  into_tables();
  for (const auto& e : fs::directory_iterator{datadir})
    if (e.path().filename() != "LOCK") std::ofstream{e.path(), std::ios::trunc} << noise(5000);
  auto mail = open("mail");
  CAF_CHECK(!reports.empty());
  CAF_CHECK(fs::exists(datadir + ".damaged-1"));
  CAF_CHECK_EQUAL(mail->count().waiting, 0u);
  check_works(*mail);
  mail.reset();
  CAF_CHECK_EQUAL(open("mail")->count().waiting, 1u);
}

// -- damaged rows -----------------------------------------------------------------------------------------------------

CAF_TEST(a record with a wrong checksum goes to quarantine at open) {
  two_queues(10, 10);
  const auto keys = rows(row_kind::waiting);
  CAF_REQUIRE_EQUAL(keys.size(), 10u);
  with_engine([&](leveldb::DB& db) {
    std::string value;
    CAF_REQUIRE(db.Get({}, keys[3], &value).ok());
    value.back() = static_cast<char>(value.back() ^ 1);
    CAF_REQUIRE(db.Put({}, keys[3], value).ok());
    CAF_REQUIRE(db.Put({}, keys[5], "").ok());
  });
  auto mail = open("mail");
  CAF_CHECK_EQUAL(mail->count().waiting, 8u);
  CAF_CHECK_EQUAL(all(*mail).size(), 8u);
  CAF_REQUIRE_EQUAL(reports.size(), 2u);
  CAF_CHECK_EQUAL(lost("mail_queue"), 2u);
  row_key key{"mail_queue"};
  const auto id = level::parse_id(*key.rest(row_kind::waiting, keys[3]));
  CAF_CHECK(reported("mail_queue", "record " + to_string(*id)));
  CAF_CHECK(reported("mail_queue", "checksum"));
  check_works(*mail);
  mail.reset();
  CAF_CHECK_EQUAL(rows(row_kind::quarantine).size(), 2u);
  CAF_CHECK_EQUAL(open("mail")->count().waiting, 9u);
  CAF_CHECK_EQUAL(open("news")->count().waiting, 10u);
  CAF_CHECK_EQUAL(reports.size(), 2u);
}

CAF_TEST(a record that breaks while the queue runs goes to quarantine) {
  auto o = options("mail");
  o.unique.kind = until::done;
  auto mail = open(o);
  auto later = item("later");
  later.due = clock.wall() + 1h;
  const std::vector<item_id> ids{push(*mail, item("a")), push(*mail, item("b")), push(*mail, later),
                                 push(*mail, item("c"))};
  {
    auto doomed = all(*mail)[2];
    record_move bury{ref_of(doomed), doomed};
    bury.to.state = record_state::dead;
    mail->update(std::span{&bury, 1}).value();
  }
  // The same engine, through another handle.
  const auto engine = level::level_db::open(o).value();
  row_key key{"mail_queue"};
  const auto spoil = [&](std::string_view k) {
    CAF_REQUIRE(engine->enter()->Put({}, level::slice(k), "rubbish").ok());
  };
  spoil(key.id(row_kind::waiting, ids[0]));
  CAF_CHECK(contract::payloads(all(*mail)) == std::vector<std::string>{"b"});
  CAF_CHECK(!mail->key_owner(digest_of("a")).value());
  spoil(key.place(row_kind::delayed, later.due, ids[2]));
  CAF_CHECK(all(*mail, record_state::delayed).empty());
  CAF_CHECK(!mail->key_owner(digest_of("later")).value());
  spoil(key.id(row_kind::dead, ids[3]));
  CAF_CHECK(!mail->find(ids[3]).value());
  const auto c = mail->count();
  CAF_CHECK(c.waiting == 1 && c.delayed == 0 && c.dead == 0);
  CAF_CHECK_EQUAL(reports.size(), 3u);
  CAF_CHECK_EQUAL(lost("mail_queue"), 3u);
  CAF_REQUIRE(push(*mail, item("a")));
  CAF_CHECK_EQUAL(mail->count().waiting, 2u);
}

CAF_TEST(a delayed item without its record is reported and its index corrected) {
  {
    auto mail = open("mail");
    for (int i = 0; i < 5; ++i) {
      auto r = item("later " + std::to_string(i));
      r.due = clock.wall() + 1h;
      push(*mail, r);
    }
  }
  const auto bodies = rows(row_kind::delayed);
  const auto index = rows(row_kind::place);
  CAF_REQUIRE(bodies.size() == 5 && index.size() == 5);
  with_engine([&](leveldb::DB& db) {
    CAF_REQUIRE(db.Delete({}, bodies[1]).ok());  // a record that is gone
    CAF_REQUIRE(db.Delete({}, index[3]).ok());   // an index row that is gone: nothing is lost
  });
  auto mail = open("mail");
  CAF_CHECK_EQUAL(mail->count().delayed, 4u);
  CAF_CHECK(reported("mail_queue", "1 delayed items are named in the index, but their records are gone"));
  CAF_CHECK(reported("mail_queue", "1 items were missing in the index"));
  CAF_CHECK_EQUAL(lost("mail_queue"), 1u);
  const auto left = all(*mail, record_state::delayed);
  CAF_REQUIRE_EQUAL(left.size(), 4u);
  for (const auto& r : left) CAF_CHECK(mail->find(r.id).value());
  mail->erase(refs(left), {}).value();
  CAF_CHECK_EQUAL(mail->count().delayed, 0u);
  mail.reset();
  CAF_CHECK(rows(row_kind::place).empty());
}

CAF_TEST(a counter that disagrees is reported and corrected) {
  two_queues(10, 0);
  const auto keys = rows(row_kind::waiting);
  with_engine([&](leveldb::DB& db) { CAF_REQUIRE(db.Delete({}, keys[0]).ok()); });
  auto mail = open("mail");
  CAF_CHECK_EQUAL(mail->count().waiting, 9u);
  CAF_REQUIRE_EQUAL(reports.size(), 1u);
  CAF_CHECK(reported("mail_queue", "said 10, 9 were found"));
  CAF_CHECK_EQUAL(lost("mail_queue"), 1u);
  mail.reset();
  CAF_CHECK_EQUAL(open("mail")->count().waiting, 9u);
  CAF_CHECK_EQUAL(reports.size(), 1u);
}

CAF_TEST(damaged rows about the queue itself are found again) {
  {
    auto mail = open("mail");
    push_many(*mail, 3000, 20);
    auto records = all(*mail);
    records.resize(2500);
    mail->erase(refs(records), {}).value();
  }
  with_engine([&](leveldb::DB& db) {
    row_key key{"mail_queue"};
    for (const auto name : {level::heads_row::name, level::counts_row::name, level::ids_row::name})
      CAF_REQUIRE(db.Put({}, level::slice(key.named(row_kind::meta, name)), "rubbish").ok());
  });
  auto mail = open("mail");
  CAF_CHECK_EQUAL(mail->count().waiting, 500u);
  CAF_CHECK_EQUAL(reports.size(), 3u);
  CAF_CHECK_EQUAL(lost("mail_queue"), 0u);
  const auto highest = all(*mail).back().id;
  clock.shift_wall(-1h);
  CAF_CHECK(push(*mail, item("x")) > highest);
}

CAF_TEST(damaged rows of keys are removed and reported) {
  auto o = options("mail");
  o.unique = {until::time, 1h};
  {
    auto mail = open(o);
    for (int i = 0; i < 3; ++i) {
      auto r = item("x" + std::to_string(i));
      r.idempotency_key = r.payload;
      push(*mail, r);
    }
  }
  const auto unique = rows(row_kind::unique, "mail_queue_unique");
  const auto idempotent = rows(row_kind::idempotency);
  CAF_REQUIRE(unique.size() == 3 && idempotent.size() == 3);
  with_engine([&](leveldb::DB& db) {
    CAF_REQUIRE(db.Put({}, unique[0], "?").ok());
    CAF_REQUIRE(db.Put({}, idempotent[0], "?").ok());
  });
  {
    auto mail = open(o);
    CAF_CHECK_EQUAL(mail->count().waiting, 3u);
    CAF_CHECK_EQUAL(reports.size(), 2u);
  }
  CAF_CHECK_EQUAL(rows(row_kind::unique, "mail_queue_unique").size(), 2u);
  // Another policy: the rows of the old one would block keys for ever.
  o.unique = {until::done, {}};
  open(o).reset();
  CAF_CHECK_EQUAL(rows(row_kind::unique, "mail_queue_unique").size(), 0u);
}

CAF_TEST_FIXTURE_SCOPE_END()
