#include "integration/leveldb/level_store.hpp"

#include "integration/leveldb/slices.hpp"
#include "integration/record_codec.hpp"

#include <leveldb/db.h>

namespace caravan::level {

namespace {

constexpr std::size_t read_attempts = 3;

leveldb::ReadOptions checked() {
  leveldb::ReadOptions how;
  how.verify_checksums = true;
  return how;
}

const char* why_bad(decode_result result) {
  return result == decode_result::newer ? "it was written by a later version" : "its checksum is wrong";
}

}  // namespace

expected<level_db::access> level_store::ready_to_read() {
  {
    // Broken or not: reads go on while writes fail, as long as the engine is there.
    auto db = db_->enter();
    if (db && db.generation() == generation_) return db;
  }
  const std::lock_guard append{append_mutex_};
  const std::lock_guard write{write_mutex_};
  if (auto caught_up = catch_up(); !caught_up) return caught_up.failure();
  auto db = db_->enter();
  if (!db || db.generation() != generation_)
    return named({errc::backend_failed, "data dir \"" + options_.datadir + "\": it was reopened meanwhile; try again"});
  return db;
}

expected<std::vector<record>> level_store::read(record_state state, read_cursor after, std::size_t max) {
  const std::shared_lock alive{life_};
  if (closed_) return closed();
  {
    const auto there = count().of(state);
    // Spares a search, and with it a walk over rows that were deleted.
    if ((there == 0 && !db_->broken()) || max == 0) return std::vector<record>{};
    max = std::min(max, std::max<std::size_t>(there, 1));
  }
  return read_repairing(state, after, max);
}

expected<std::vector<record>> level_store::read_repairing(record_state state, read_cursor after, std::size_t max) {
  std::vector<record> result;
  std::vector<bad_row> bad;
  for (std::size_t attempt = 1;; ++attempt) {
    result.clear();
    bad.clear();
    expected<void> got;
    if (auto db = ready_to_read(); !db) {
      got = db.failure();
    } else {
      result.reserve(max);
      got = read_records(*db, state, after, max, result, bad);
    }
    if (!got && attempt >= read_attempts) return got.failure();
    if (!got) {
      // Damage: reopening repairs. Other failures may pass with it as well.
      if (auto repaired = repair_now(); !repaired) return repaired.failure();
      continue;
    }
    if (auto moved = set_aside_now(bad); !moved) return moved.failure();
    return result;
  }
}

expected<void> level_store::read_records(const level_db::access& db, record_state state, read_cursor after,
                                         std::size_t max, std::vector<record>& out, std::vector<bad_row>& bad) {
  row_key key{options_.queue_full_name};
  const auto kind = kind_of(state);
  std::string_view from;
  const item_id next{after.id.value == ~std::uint64_t{0} ? after.id.value : after.id.value + 1};
  {
    const std::lock_guard lock{state_mutex_};
    if (state == record_state::waiting) {
      if (waiting_.empty()) return {};
      from = key.id(kind, std::max(next, waiting_.first()));
    } else if (state == record_state::dead) {
      from = key.id(kind, std::max(next, dead_floor_));
    } else {
      const auto floor = std::max(sort_place{after.sort, next}, floor_of(state));
      from = key.place(kind, floor.sort, floor.id);
    }
  }
  const std::unique_ptr<leveldb::Iterator> it{db->NewIterator(checked())};
  for (it->Seek(slice(from)); it->Valid() && out.size() < max; it->Next()) {
    const auto rest = key.rest(kind, view(it->key()));
    if (!rest) break;
    item_id id;
    if (is_sorted(state)) {
      if (const auto place = parse_place(*rest)) id = place->id;
    } else if (const auto parsed = parse_id(*rest)) {
      id = *parsed;
    }
    auto& r = out.emplace_back();
    const auto decoded = id ? decode_record(id, view(it->value()), r) : decode_result::damaged;
    r.state = state;
    if (decoded == decode_result::ok) continue;
    out.pop_back();
    bad.push_back({kind, std::string{*rest}, it->value().ToString(), why_bad(decoded)});
  }
  if (!it->status().ok()) return named(db_->failed(it->status()));
  return {};
}

expected<std::optional<record>> level_store::find(item_id id) {
  const std::shared_lock alive{life_};
  if (closed_) return closed();
  if (!id) return std::optional<record>{};
  for (std::size_t attempt = 1;; ++attempt) {
    std::vector<bad_row> bad;
    expected<std::optional<record>> found{std::optional<record>{}};
    if (auto db = ready_to_read(); db) {
      found = look_up(*db, id, bad);
    } else {
      found = db.failure();
    }
    if (!found && attempt >= read_attempts) return found;
    if (!found) {
      if (auto repaired = repair_now(); !repaired) return repaired.failure();
      continue;
    }
    if (auto moved = set_aside_now(bad); !moved) return moved.failure();
    return found;
  }
}

expected<std::optional<record>> level_store::look_up(const level_db::access& db, item_id id,
                                                     std::vector<bad_row>& bad) {
  row_key key{options_.queue_full_name};
  // One view of all rows: the record may be moving while we look.
  auto how = checked();
  const auto drop = [&](const leveldb::Snapshot* s) { db->ReleaseSnapshot(s); };
  const std::unique_ptr<const leveldb::Snapshot, decltype(drop)> snapshot{db->GetSnapshot(), drop};
  how.snapshot = snapshot.get();
  std::string value;
  auto kind = row_kind::waiting;
  auto state = record_state::waiting;
  auto where = key.id(kind, id);
  auto status = db->Get(how, slice(where), &value);
  if (status.IsNotFound()) {
    status = db->Get(how, slice(key.id(row_kind::place, id)), &value);
    if (const auto at = status.ok() ? parse_place_row(value) : std::nullopt) {
      kind = kind_of(at->state);
      state = at->state;
      where = key.place(kind, at->sort, id);
      status = db->Get(how, slice(where), &value);
    }
  }
  if (status.IsNotFound() && kind == row_kind::waiting) {
    kind = row_kind::dead;
    state = record_state::dead;
    where = key.id(kind, id);
    status = db->Get(how, slice(where), &value);
  }
  if (status.IsNotFound()) return std::optional<record>{};
  if (!status.ok()) return named(db_->failed(status));
  record r;
  const auto decoded = decode_record(id, value, r);
  r.state = state;
  if (decoded == decode_result::ok) return std::optional{std::move(r)};
  bad.push_back({kind, std::string{key.rest(kind, where).value_or("")}, value, why_bad(decoded)});
  return std::optional<record>{};
}

expected<void> level_store::repair_now() {
  const std::lock_guard append{append_mutex_};
  const std::lock_guard write{write_mutex_};
  return catch_up();
}

expected<void> level_store::set_aside_now(const std::vector<bad_row>& bad) {
  if (bad.empty()) return {};
  writing write{write_mutex_};
  auto db = ready(write, false);
  if (!db) return db.failure();
  return set_aside(*db, bad);
}

void level_store::compact() {
  const std::shared_lock alive{life_};
  if (closed_) return;
  item_id to;
  std::array<sort_place, record_states> floor;
  {
    const std::lock_guard lock{state_mutex_};
    to = waiting_.empty() ? item_id{last_.value + 1} : waiting_.first();
    floor = floor_;
  }
  auto db = db_->enter();
  if (!db || db_->broken()) return;
  row_key begin{options_.queue_full_name};
  row_key end{options_.queue_full_name};
  const auto give_back = [&](std::string_view from, std::string_view until) {
    const auto first = slice(from);
    const auto last = slice(until);
    db->CompactRange(&first, &last);
  };
  give_back(begin.start(row_kind::waiting), end.id(row_kind::waiting, to));
  for (std::size_t i = 0; i < record_states; ++i)
    if (const auto state = static_cast<record_state>(i); is_sorted(state))
      give_back(begin.start(kind_of(state)), end.place(kind_of(state), floor[i].sort, floor[i].id));
}

}  // namespace caravan::level
