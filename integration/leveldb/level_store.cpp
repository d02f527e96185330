// The calls that write. Opening is in level_open.cpp, reading in level_read.cpp.
#include "integration/leveldb/level_store.hpp"

#include "integration/leveldb/slices.hpp"
#include "integration/record_codec.hpp"

#include <leveldb/db.h>
#include <leveldb/write_batch.h>

#include <algorithm>
#include <unordered_set>

namespace caravan::level {

namespace {

constexpr std::size_t heads_every = 1000;  // erased records between two writes of the heads
constexpr std::size_t clear_part = 2000;
constexpr std::size_t empty_batch = 12;  // bytes of a batch without a row
// Ids set aside at a time: a second's worth, so that the row is rarely written.
constexpr std::uint64_t id_reserve = std::uint64_t{1000} << 22;

}  // namespace

level_store::level_store(level_options options)
    : options_(std::move(options)),
      append_batch_(std::make_unique<leveldb::WriteBatch>()),
      batch_(std::make_unique<leveldb::WriteBatch>()),
      append_key_(options_.queue_full_name),
      append_set_key_(options_.set_full_name),
      key_(options_.queue_full_name),
      set_key_(options_.set_full_name),
      undo_(std::make_unique<leveldb::WriteBatch>()),
      keys_(options_.unique, options_.idempotency_window) {}

level_store::~level_store() { (void)close(); }

error level_store::closed() const {
  return {errc::queue_closed, "queue \"" + options_.queue_full_name + "\": it is closed; find its owner again"};
}

error level_store::named(const error& cause) const {
  return {cause.code, "queue \"" + options_.queue_full_name + "\": " + cause.text};
}

void level_store::report(std::string what, std::optional<std::size_t> lost, std::string saved_to) const {
  if (options_.report)
    options_.report({options_.datadir, options_.queue_full_name, std::move(what), lost, std::move(saved_to)});
}

expected<level_db::access> level_store::ready(writing& write, bool appends) {
  for (int attempt = 0; attempt < 3; ++attempt) {
    if (!db_->broken()) {
      auto db = db_->enter();
      if (db && db.generation() == generation_) return db;
    }
    expected<void> caught_up;
    if (appends) {
      const bool alone = !write.owns_lock();
      if (alone) write.lock();
      caught_up = catch_up();
      if (alone) write.unlock();
    } else {
      write.unlock();
      const std::lock_guard append{append_mutex_};
      write.lock();
      caught_up = catch_up();
    }
    if (!caught_up) return caught_up.failure();
  }
  return named(
      {errc::backend_failed, "data dir \"" + options_.datadir + "\": it fails again and again; see to that disk"});
}

expected<std::vector<append_result>> level_store::append(std::span<record> records, wall_time now) {
  const std::shared_lock alive{life_};
  if (closed_) return closed();
  const std::lock_guard appending{append_mutex_};
  // What erase and update write too must be written in one order with them: the heads, the rows of unique keys.
  writing write{write_mutex_, std::defer_lock};
  bool shared_rows = false;
  for (const auto& r : records) shared_rows = shared_rows || r.due > now || keys_.has_lifetime(r);
  if (shared_rows) write.lock();
  auto db = ready(write, true);
  if (!db) return db.failure();

  auto& batch = *append_batch_;
  batch.Clear();
  std::vector<append_result> results;
  results.reserve(records.size());
  std::size_t stored = 0;
  sort_place lowest{wall_time::max(), {}};  // of the delayed ones
  {
    const std::lock_guard state{state_mutex_};
    expired_.clear();
    keys_.idempotency_keys().expire(now, 2 * records.size() + 16, &expired_);
    for (const auto& digest : expired_) batch.Delete(slice(append_key_.digest(row_kind::idempotency, digest)));
    if (shared_rows) {
      expired_.clear();
      keys_.unique_keys().expire(now, 2 * records.size() + 16, &expired_);
      for (const auto& digest : expired_) batch.Delete(slice(append_set_key_.digest(row_kind::unique, digest)));
    }
    const auto lowest_id = first_id_at(now).value;
    for (auto& r : records) {
      const item_id id{std::max(last_.value + 1, lowest_id)};
      results.push_back(keys_.admit(r, id, now));
      if (results.back().what != append_result::kind::stored) continue;
      last_ = id;
      ++stored;
      if (r.state == record_state::waiting) {
        waiting_.insert(id, {});
        continue;
      }
      recount(r.state);
      const sort_place at{sort_of(r), id};
      floor_of(r.state) = std::min(floor_of(r.state), at);
      if (r.state == record_state::delayed) lowest = std::min(lowest, at);
    }
  }
  if (stored == 0) {
    if (batch.ApproximateSize() > empty_batch) (void)db_->write(*db, batch, false);  // expired rows; next time else
    return results;
  }

  const auto idempotency_expiry = keys_.idempotency_expiry(now);
  item_id highest;
  for (const auto& r : records) {
    if (!r.id) continue;
    highest = r.id;
    encode_record(r, append_bytes_);
    if (r.state == record_state::waiting) {
      batch.Put(slice(append_key_.id(row_kind::waiting, r.id)), append_bytes_);
    } else {
      const place_row at{r.state, sort_of(r)};
      batch.Put(slice(append_key_.place(kind_of(r.state), at.sort, r.id)), append_bytes_);
      batch.Put(slice(append_key_.id(row_kind::place, r.id)), format_place_row(at));
    }
    if (keys_.has_lifetime(r) && r.digest)
      batch.Put(slice(append_set_key_.digest(row_kind::unique, r.digest)), 
                format_key_row({r.id, keys_.unique_expiry(r, now), r.hold == key_hold::time}));
    if (keys_.keeps_idempotency_keys() && !r.idempotency_key.empty())
      batch.Put(slice(append_key_.digest(row_kind::idempotency, digest_of(r.idempotency_key))),
                format_key_row({r.id, idempotency_expiry}));
  }
  const auto limit_before = id_limit_;
  const auto heads_before = heads_on_disk_;
  if (id_limit_ < highest) {
    id_limit_ = item_id{highest.value + id_reserve < highest.value ? highest.value : highest.value + id_reserve};
    batch.Put(slice(append_key_.named(row_kind::meta, ids_row::name)), format(ids_row{id_limit_}));
  }
  if (lowest.id && lowest < heads_on_disk_.delayed) {
    heads_on_disk_.delayed = lowest;
    batch.Put(slice(append_key_.named(row_kind::meta, heads_row::name)), format(heads_on_disk_));
  }

  if (auto written = db_->write(*db, batch, wants_sync()); !written) {
    id_limit_ = limit_before;
    if (write.owns_lock()) heads_on_disk_ = heads_before;
    // Whether the bytes are in the log is unknown. Should they be, they go before anybody sees them.
    *db = {};  // the engine is not to be held while waiting for a lock
    if (!write.owns_lock()) write.lock();
    const std::lock_guard state{state_mutex_};
    for (auto& r : records) {
      if (!r.id) continue;
      if (r.state == record_state::waiting) {
        waiting_.erase(r.id);
        undo_->Delete(slice(append_key_.id(row_kind::waiting, r.id)));
      } else {
        uncount(r.state);
        undo_->Delete(slice(append_key_.place(kind_of(r.state), sort_of(r), r.id)));
        undo_->Delete(slice(append_key_.id(row_kind::place, r.id)));
      }
      if (keys_.has_lifetime(r) && r.digest)
        undo_->Delete(slice(append_set_key_.digest(row_kind::unique, r.digest)));
      if (keys_.keeps_idempotency_keys() && !r.idempotency_key.empty())
        undo_->Delete(slice(append_key_.digest(row_kind::idempotency, digest_of(r.idempotency_key))));
      keys_.withdraw(r);
    }
    undo_needed_ = true;
    return named(written.failure());
  }
  if (options_.sync == config::sync_mode::interval) db_->touched();
  return results;
}

void level_store::put_record(const record& r) {
  encode_record(r, bytes_);
  if (!is_sorted(r.state)) {
    batch_->Put(slice(key_.id(kind_of(r.state), r.id)), bytes_);
    return;
  }
  const place_row at{r.state, sort_of(r)};
  batch_->Put(slice(key_.place(kind_of(r.state), at.sort, r.id)), bytes_);
  batch_->Put(slice(key_.id(row_kind::place, r.id)), format_place_row(at));
}

void level_store::remove_rows(record_state state, sort_place at) {
  if (!is_sorted(state)) {
    batch_->Delete(slice(key_.id(kind_of(state), at.id)));
    return;
  }
  batch_->Delete(slice(key_.place(kind_of(state), at.sort, at.id)));
  batch_->Delete(slice(key_.id(row_kind::place, at.id)));
}

void level_store::put_heads() {
  {
    const std::lock_guard state{state_mutex_};
    // What waits lowest now. Ids below can only come back through update(), which lowers the head again.
    heads_on_disk_.waiting = waiting_.empty() ? item_id{last_.value + 1} : waiting_.first();
    heads_on_disk_.delayed = floor_of(record_state::delayed);
  }
  batch_->Put(slice(key_.named(row_kind::meta, heads_row::name)), format(heads_on_disk_));
  erased_since_heads_ = 0;
}

void level_store::uncount(record_state state) noexcept {
  if (state != record_state::waiting) --counts_.of(state);
}

void level_store::recount(record_state state) noexcept {
  if (state != record_state::waiting) ++counts_.of(state);
}

expected<std::optional<sort_place>> level_store::locate(const level_db::access& db, record_state state, item_id id) {
  std::optional<sort_place> found;
  if (state == record_state::waiting) {
    const std::lock_guard lock{state_mutex_};
    if (waiting_.contains(id)) found = sort_place{{}, id};
    return found;
  }
  const auto kind = is_sorted(state) ? row_kind::place : row_kind::dead;
  leveldb::ReadOptions how;
  how.verify_checksums = true;
  const auto status = db->Get(how, slice(key_.id(kind, id)), &bytes_);
  if (status.IsNotFound()) return found;
  if (!status.ok()) return named(db_->failed(status));
  if (state == record_state::dead) return std::optional{sort_place{{}, id}};
  if (const auto at = parse_place_row(bytes_); at && at->state == state) found = sort_place{at->sort, id};
  return found;
}

expected<void> level_store::erase(std::span<const record_ref> refs, item_id) {
  const std::shared_lock alive{life_};
  if (closed_) return closed();
  writing write{write_mutex_};
  auto db = ready(write, false);
  if (!db) return db.failure();
  auto& batch = *batch_;
  batch.Clear();
  std::size_t removed = 0;
  {
    const std::lock_guard state{state_mutex_};
    for (const auto& ref : refs) {
      if (ref.state != record_state::waiting || !waiting_.contains(ref.id)) continue;
      batch.Delete(slice(key_.id(row_kind::waiting, ref.id)));
      ++removed;
    }
  }
  std::unordered_set<item_id> seen;
  std::vector<const record_ref*> elsewhere;  // of other states, those that are there
  for (const auto& ref : refs) {
    if (ref.state == record_state::waiting || !seen.insert(ref.id).second) continue;
    const auto at = locate(*db, ref.state, ref.id);
    if (!at) return at.failure();
    if (!*at) continue;
    remove_rows(ref.state, **at);
    elsewhere.push_back(&ref);
    ++removed;
  }
  if (removed > 0) {
    const auto heads_before = heads_on_disk_;
    erased_since_heads_ += removed;
    if (erased_since_heads_ >= heads_every) put_heads();
    if (auto written = db_->write(*db, batch, false); !written) {
      heads_on_disk_ = heads_before;
      return named(written.failure());
    }
  }
  const std::lock_guard state{state_mutex_};
  for (const auto* ref : elsewhere) {
    uncount(ref->state);
    keys_.free_at_end(ref->digest, ref->id);
  }
  // One that is not there may have moved meanwhile, and holds its key rightly.
  for (const auto& ref : refs)
    if (ref.state == record_state::waiting && waiting_.erase(ref.id)) keys_.free_at_end(ref.digest, ref.id);
  return {};
}

expected<void> level_store::update(std::span<const record_move> moves) {
  const std::shared_lock alive{life_};
  if (closed_) return closed();
  writing write{write_mutex_};
  auto db = ready(write, false);
  if (!db) return db.failure();
  auto& batch = *batch_;
  batch.Clear();
  struct step {
    const record_move* move;
    sort_place from;
  };
  std::vector<step> steps;
  steps.reserve(moves.size());
  std::unordered_set<item_id> seen;
  sort_place lowest{wall_time::max(), {}};
  item_id lowest_waiting{~std::uint64_t{0}};
  for (const auto& move : moves) {
    // Of two moves of one record in one call the first counts: the second names a place it has left.
    if (moves.size() > 1 && !seen.insert(move.from.id).second) continue;
    const auto at = locate(*db, move.from.state, move.from.id);
    if (!at) return at.failure();
    if (!*at) continue;
    steps.push_back({&move, **at});
    const auto& to = move.to;
    if (move.from.state != to.state || is_sorted(to.state)) remove_rows(move.from.state, **at);
    put_record(to);
    if (to.state == record_state::delayed) lowest = std::min(lowest, sort_place{to.due, to.id});
    if (to.state == record_state::waiting) lowest_waiting = std::min(lowest_waiting, to.id);
  }
  if (steps.empty()) return {};
  const auto heads_before = heads_on_disk_;
  if (lowest < heads_on_disk_.delayed || lowest_waiting < heads_on_disk_.waiting) {
    heads_on_disk_.delayed = std::min(heads_on_disk_.delayed, lowest);
    heads_on_disk_.waiting = std::min(heads_on_disk_.waiting, lowest_waiting);
    batch.Put(slice(key_.named(row_kind::meta, heads_row::name)), format(heads_on_disk_));
  }
  // It frees its key.
  const auto leaves_line = [&](const record& to) {
    return to.state == record_state::done || (to.state == record_state::dead && !keys_.keeps_key_when_dead(to));
  };
  std::vector<const record_move*> retaken;
  {
    const std::lock_guard state{state_mutex_};
    for (const auto& s : steps) {
      const auto& [from, to] = *s.move;
      if (is_sorted(to.state)) floor_of(to.state) = std::min(floor_of(to.state), sort_place{sort_of(to), to.id});
      // Readers may see the record as soon as it is written, and erase() needs to know it then.
      if (to.state == record_state::waiting) waiting_.insert(to.id, {});
      if (to.state == record_state::dead) dead_floor_ = std::min(dead_floor_, to.id);
      if (!leaves_line(to) && keys_.retake(to, options_.clock->wall())) retaken.push_back(s.move);
      if (to.state == record_state::dead && leaves_line(to) && keys_.has_lifetime(from.digest, from.id))
        batch.Delete(slice(set_key_.digest(row_kind::unique, from.digest)));
    }
  }
  if (auto written = db_->write(*db, batch, wants_sync()); !written) {
    heads_on_disk_ = heads_before;
    const std::lock_guard state{state_mutex_};
    for (const auto& s : steps)
      if (s.move->to.state == record_state::waiting && s.move->from.state != record_state::waiting)
        waiting_.erase(s.move->to.id);
    for (const auto* move : retaken) keys_.free(move->to.digest, move->to.id);
    return named(written.failure());
  }
  {
    const std::lock_guard state{state_mutex_};
    for (const auto& s : steps) {
      const auto& [from, to] = *s.move;
      uncount(from.state);
      recount(to.state);
      if (from.state == record_state::waiting && to.state != record_state::waiting) waiting_.erase(from.id);
      if (to.state == record_state::done)
        keys_.free_at_end(from.digest, from.id);
      else if (leaves_line(to))
        keys_.free(from.digest, from.id);
    }
  }
  if (options_.sync == config::sync_mode::interval) db_->touched();
  return {};
}

expected<void> level_store::release(std::span<const record_ref> refs) {
  const std::shared_lock alive{life_};
  if (closed_) return closed();
  // Only keys with a lifetime are on the disk. Whether one is such can only change with its owner.
  const auto on_disk = [&](const record_ref& ref) { return keys_.has_lifetime(ref.digest, ref.id); };
  {
    const std::lock_guard state{state_mutex_};
    if (std::none_of(refs.begin(), refs.end(), on_disk)) {
      for (const auto& ref : refs) keys_.free(ref.digest, ref.id);
      return {};
    }
  }
  writing write{write_mutex_};
  auto db = ready(write, false);
  if (!db) return db.failure();
  auto& batch = *batch_;
  batch.Clear();
  {
    const std::lock_guard state{state_mutex_};
    for (const auto& ref : refs)
      if (on_disk(ref)) batch.Delete(slice(set_key_.digest(row_kind::unique, ref.digest)));
  }
  if (auto written = db_->write(*db, batch, false); !written) return named(written.failure());
  const std::lock_guard state{state_mutex_};
  for (const auto& ref : refs) keys_.free(ref.digest, ref.id);
  return {};
}

expected<std::optional<item_id>> level_store::key_owner(const key_digest& digest) {
  const std::shared_lock alive{life_};
  if (closed_) return closed();
  const std::lock_guard state{state_mutex_};
  return keys_.owner(digest, options_.clock->wall());
}

storage_counts level_store::count() const {
  const std::lock_guard state{state_mutex_};
  return count_locked();
}

storage_counts level_store::count_locked() const {
  auto c = counts_;
  c.waiting = waiting_.size();
  c.last = last_;
  return c;
}

expected<std::size_t> level_store::clear(record_state state, item_id through) {
  const std::shared_lock alive{life_};
  if (closed_) return closed();
  std::size_t cleared = 0;
  read_cursor after;
  // In parts: one batch over a million rows would take as much memory as they do.
  const auto until = [&] {
    const std::lock_guard lock{state_mutex_};
    return std::min(last_, through);
  }();
  for (;;) {
    std::vector<record> part;
    std::vector<bad_row> bad;
    writing write{write_mutex_};
    auto db = ready(write, false);
    if (!db) return db.failure();
    if (auto got = read_records(*db, state, after, clear_part, part, bad); !got) return got.failure();
    if (auto moved = set_aside(*db, bad); !moved) return moved.failure();
    if (part.empty()) return cleared;
    after = {sort_of(part.back()), part.back().id};
    std::erase_if(part, [&](const record& r) { return r.id > until; });  // came meanwhile
    batch_->Clear();
    for (const auto& r : part) {
      remove_rows(state, {sort_of(r), r.id});
      const std::lock_guard lock{state_mutex_};
      if (keys_.has_lifetime(r.digest, r.id)) batch_->Delete(slice(set_key_.digest(row_kind::unique, r.digest)));
    }
    if (auto written = db_->write(*db, *batch_, false); !written) return named(written.failure());
    const std::lock_guard lock{state_mutex_};
    for (const auto& r : part) {
      if (state == record_state::waiting) waiting_.erase(r.id);
      uncount(state);
      keys_.free(r.digest, r.id);
    }
    cleared += part.size();
  }
}

}  // namespace caravan::level
