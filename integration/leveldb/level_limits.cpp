#include "integration/leveldb/level_limits.hpp"

#include <leveldb/db.h>
#include <leveldb/write_batch.h>

#include <chrono>
#include <cstdint>
#include <memory>

namespace caravan {

namespace {

std::string key_of(std::uint64_t n) {
  std::string key(16, 'q');
  for (std::size_t i = 0; i < 8; ++i) key[15 - i] = static_cast<char>(n >> (8 * i) & 255);
  return key;
}

// Items a second of `work`, which returns false when the engine refuses.
template <class Work>
double rate(std::size_t n, bool& ok, Work work) {
  const auto begun = std::chrono::steady_clock::now();
  ok = ok && work();
  return static_cast<double>(n) / std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
}

}  // namespace

expected<level_limits> measure_level_limits(const std::string& folder, std::size_t n) {
  leveldb::Options options;
  options.create_if_missing = true;
  options.error_if_exists = true;
  options.write_buffer_size = 32u << 20;
  options.compression = leveldb::kNoCompression;
  leveldb::DB* raw = nullptr;
  if (const auto s = leveldb::DB::Open(options, folder, &raw); !s.ok())
    return {errc::backend_failed, "LevelDB in " + folder + ": " + s.ToString()};
  std::unique_ptr<leveldb::DB> db(raw);
  const std::string value(100, 'v');
  bool ok = true;
  std::uint64_t next = 0;
  const auto put = [&](std::size_t count, std::size_t each, bool sync) {
    leveldb::WriteOptions how;
    how.sync = sync;
    leveldb::WriteBatch batch;
    for (std::size_t done = 0; done < count; done += each) {
      batch.Clear();
      for (std::size_t i = 0; i < each; ++i) batch.Put(key_of(next++), value);
      if (!db->Write(how, &batch).ok()) return false;
    }
    return true;
  };
  level_limits l;
  l.write_one = rate(n, ok, [&] { return put(n, 1, false); });
  l.write_hundred = rate(n, ok, [&] { return put(n, 100, false); });
  l.drain = rate(2 * n, ok, [&] {
    const std::unique_ptr<leveldb::Iterator> it(db->NewIterator(leveldb::ReadOptions()));
    leveldb::WriteBatch batch;
    std::size_t in_batch = 0;
    for (it->SeekToFirst(); it->Valid(); it->Next()) {
      batch.Delete(it->key());
      if (++in_batch < 100) continue;
      if (!db->Write(leveldb::WriteOptions(), &batch).ok()) return false;
      batch.Clear();
      in_batch = 0;
    }
    return it->status().ok() && db->Write(leveldb::WriteOptions(), &batch).ok();
  });
  const auto synced = n / 1'000 + 1;
  l.write_one_sync = rate(synced, ok, [&] { return put(synced, 1, true); });
  db.reset();
  leveldb::DestroyDB(folder, leveldb::Options());
  if (!ok) return {errc::backend_failed, "LevelDB in " + folder + ": a write failed; is the disk full?"};
  return l;
}

}  // namespace caravan
