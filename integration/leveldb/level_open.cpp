// From the disk to the memory of one queue: open, catch up after a reopening, close. What is damaged is moved to the
// quarantine rows and reported.
#include "integration/leveldb/level_store.hpp"

#include "integration/leveldb/slices.hpp"
#include "integration/record_codec.hpp"

#include <leveldb/db.h>
#include <leveldb/write_batch.h>

#include <algorithm>
#include <unordered_set>

namespace caravan {

expected<std::unique_ptr<level_storage>> open_level_storage(level_options options) {
  return level::level_store::open(std::move(options));
}

namespace level {

namespace {

leveldb::ReadOptions scanning() {
  leveldb::ReadOptions how;
  how.verify_checksums = true;
  how.fill_cache = false;  // a scan passes once; it must not push out what is in use
  return how;
}

std::string text_of(row_kind kind, std::string_view rest) {
  if (const auto state = state_of(kind)) {
    if (!is_sorted(*state)) {
      if (const auto id = parse_id(rest)) return "record " + to_string(*id);
    } else if (const auto place = parse_place(rest)) {
      return std::string{name_of(*state)} + " record " + to_string(place->id);
    }
  }
  std::string hex;
  for (const unsigned char c : rest.substr(0, 32)) {
    hex += "0123456789abcdef"[c >> 4];
    hex += "0123456789abcdef"[c & 15];
  }
  return std::string{"row "} + static_cast<char>(kind) + "/" + hex;
}

/// Of a record of a sorted state.
std::optional<sort_place> place_of(row_kind kind, std::string_view rest) {
  const auto state = state_of(kind);
  return state && is_sorted(*state) ? parse_place(rest) : std::nullopt;
}

}  // namespace

expected<std::unique_ptr<level_storage>> level_store::open(level_options options) {
  if (options.queue_full_name.empty() || options.queue_full_name.size() > 0xffff ||
      options.set_full_name.size() > 0xffff)
    return error{errc::invalid_argument, "queue \"" + options.queue_full_name.substr(0, 100) +
                                             "\": its name is empty or longer than 65535 bytes; choose another"};
  std::unique_ptr<level_store> store{new level_store{std::move(options)}};
  if (auto started = store->start(); !started) {
    store->closed_ = true;
    return started.failure();
  }
  return std::unique_ptr<level_storage>{std::move(store)};
}

expected<void> level_store::start() {
  auto db = level_db::open(options_);
  if (!db) return db.failure();
  if (!(*db)->enlist(options_.queue_full_name))
    return error{errc::conflict, "queue \"" + options_.queue_full_name + "\": it is open already in data dir \"" +
                                     options_.datadir + "\"; give one of the two another QUEUE_NAME or DATADIR"};
  db_ = std::move(*db);
  expected<void> loaded;
  for (int attempt = 0; attempt < 3; ++attempt) {
    loaded = [&]() -> expected<void> {
      if (auto recovered = db_->recover(options_.report); !recovered) return recovered;
      const auto pinned = db_->enter();
      if (!pinned) return named({errc::backend_failed, "data dir \"" + options_.datadir + "\": it is closed"});
      return load(pinned, true);
    }();
    if (loaded || loaded.failure().code != errc::backend_failed) break;
  }
  if (!loaded) {
    db_->dismiss(options_.queue_full_name);
    db_.reset();
    return loaded;
  }
  if (options_.sync == config::sync_mode::interval) db_->sync_within(options_.sync_interval);
  return {};
}

expected<void> level_store::catch_up() {
  for (int attempt = 0;; ++attempt) {
    if (auto recovered = db_->recover(options_.report); !recovered) return named(recovered.failure());
    const auto db = db_->enter();
    if (!db)
      return named({errc::backend_failed, "data dir \"" + options_.datadir + "\": it is closed; see to that disk"});
    if (db.generation() == generation_) return {};
    auto loaded = load(db, false);
    if (loaded) return {};
    if (attempt >= 2 || !db_->broken()) return loaded;
  }
}

expected<void> level_store::load(const level_db::access& db, bool first) {
  heads_row heads;
  std::optional<counts_row> counts;
  if (first) {
    if (auto fits = check_format(db); !fits) return fits;
    if (auto loaded = load_meta(db, heads, counts); !loaded) return loaded;
  } else {
    if (undo_needed_) {
      if (auto undone = db_->write(db, *undo_, false); !undone) return named(undone.failure());
      undo_->Clear();
      undo_needed_ = false;
    }
    if (auto loaded = load_meta(db, heads, counts); !loaded) return loaded;
    counts.reset();
  }
  auto scanned = scan(db, heads.waiting);
  if (!scanned) return scanned.failure();
  auto& found = *scanned;
  const auto [repaired, saved_to] = db_->last_repair();
  const bool after_repair = repaired != 0 && repaired == db.generation();
  storage_counts before;
  if (!first) {
    const std::lock_guard state{state_mutex_};
    before = count_locked();
  } else if (counts && counts->clean) {
    before = counts->counts;
  }
  const bool known = first ? counts && counts->clean : after_repair;
  if (first) {
    if (auto loaded =
            load_keys(db, row_kind::unique, options_.set_full_name, keys_.unique_keys(), options_.unique.kind == unique_policy::until::time);
        !loaded)
      return loaded;
    if (auto loaded = load_keys(db, row_kind::idempotency, options_.queue_full_name, keys_.idempotency_keys(),
                                keys_.keeps_idempotency_keys());
        !loaded)
      return loaded;
  }
  if (auto moved = set_aside(db, found.bad); !moved) return moved;
  if (known) {
    // What was set aside or found missing has its own report.
    const auto in_quarantine = [&](row_kind kind) {
      return static_cast<std::size_t>(
          std::count_if(found.bad.begin(), found.bad.end(), [&](const bad_row& b) { return b.kind == kind; }));
    };
    // Of an index row whose record is gone nobody can say more than its state.
    for (std::size_t i = 0; i < record_states; ++i) {
      const auto state = static_cast<record_state>(i);
      const auto said = before.of(state);
      const auto there = state == record_state::waiting ? found.waiting.size() : found.counts.of(state);
      const auto aside = in_quarantine(kind_of(state)) + found.without_body[i];
      if (said == there + aside) continue;
      const auto lost = said > there + aside ? said - there - aside : 0;
      report("the counter of " + std::string{name_of(state)} + " items said " + std::to_string(said) + ", " +
                 std::to_string(there) + " were found; the counter was corrected",
             lost, after_repair ? saved_to : std::string{});
    }
  }

  if (first) {
    leveldb::WriteBatch opened;
    opened.Put(slice(key_.named(row_kind::meta, format_row_name)), std::string(1, static_cast<char>(format_version)));
    auto counts_now = found.counts;
    counts_now.waiting = found.waiting.size();
    opened.Put(slice(key_.named(row_kind::meta, counts_row::name)), format(counts_row{false, counts_now}));
    for (const auto kind : {row_kind::place, row_kind::done, row_kind::held, row_kind::idempotency, row_kind::keyed,
                            row_kind::quarantine, row_kind::ranked, row_kind::delayed, row_kind::waiting, row_kind::dead})
      opened.Put(slice(key_.fence(kind)), leveldb::Slice{});
    opened.Put(slice(set_key_.fence(row_kind::unique)), leveldb::Slice{});
    if (auto written = db_->write(db, opened, wants_sync()); !written) return named(written.failure());
  }
  const std::lock_guard state{state_mutex_};
  heads_on_disk_ = heads;
  if (first)
    for (const auto& k : found.keys) keys_.rebuild(k.digest, k.id, k.hold, k.state);
  else
    drop_orphaned_keys(found);
  last_ = std::max({last_, found.highest, id_limit_});
  waiting_ = std::move(found.waiting);
  counts_ = found.counts;
  floor_ = found.first;
  dead_floor_ = {};
  generation_ = db.generation();
  return {};
}

expected<void> level_store::check_format(const level_db::access& db) {
  std::string value;
  const auto status = db->Get(scanning(), slice(key_.named(row_kind::meta, format_row_name)), &value);
  if (status.IsNotFound()) return {};
  if (!status.ok()) return named(db_->failed(status));
  if (value.size() == 1 && static_cast<std::uint8_t>(value[0]) > format_version)
    return named({errc::not_supported, "data dir \"" + options_.datadir + "\": written by a later version, format " +
                                           std::to_string(static_cast<unsigned char>(value[0])) + ", this one knows " +
                                           std::to_string(format_version) +
                                           "; start that version, or use another DATADIR"});
  return {};
}

expected<void> level_store::load_meta(const level_db::access& db, heads_row& heads, std::optional<counts_row>& counts) {
  const auto get = [&](std::string_view name, auto parse, auto take) -> expected<void> {
    std::string value;
    const auto status = db->Get(scanning(), slice(key_.named(row_kind::meta, name)), &value);
    if (status.IsNotFound()) return {};
    if (!status.ok()) return named(db_->failed(status));
    if (const auto row = parse(value))
      take(*row);
    else
      report(
          "the row \"" + std::string{name} + "\" is damaged; what it said was found again by looking at every record",
          0);
    return {};
  };
  if (auto got = get(heads_row::name, parse_heads, [&](const heads_row& r) { heads = r; }); !got) return got;
  if (auto got = get(ids_row::name, parse_ids, [&](const ids_row& r) { id_limit_ = r.limit; }); !got) return got;
  return get(counts_row::name, parse_counts, [&](const counts_row& r) { counts = r; });
}

expected<void> level_store::load_keys(const level_db::access& db, row_kind kind, std::string_view name,
                                      key_table& table, bool wanted) {
  // A loading that was cut short by a repair begins anew.
  table.clear();
  row_key key{name};
  leveldb::WriteBatch useless;
  std::size_t bad = 0;
  const auto now = options_.clock->wall();
  const std::unique_ptr<leveldb::Iterator> it{db->NewIterator(scanning())};
  for (it->Seek(slice(key.start(kind))); it->Valid(); it->Next()) {
    const auto rest = key.rest(kind, view(it->key()));
    if (!rest) break;
    const auto digest = parse_digest(*rest);
    const auto row = parse_key_row(view(it->value()));
    if (!digest || !row) ++bad;
    if (digest && row && (wanted || row->by_push) && row->expires > now)
      table.put(*digest, row->owner, row->expires);
    else
      useless.Delete(it->key());  // expired, damaged, or from the time of another UNIQUE_UNTIL
  }
  if (!it->status().ok()) return named(db_->failed(it->status()));
  if (bad > 0)
    report(std::to_string(bad) + " damaged rows of keys were removed; an equal item may come in once more", 0);
  if (auto written = db_->write(db, useless, false); !written) return named(written.failure());
  return {};
}

expected<level_store::findings> level_store::scan(const level_db::access& db, item_id head) {
  findings found;
  // From the head: after a million erased items the rows before it are a million tombstones.
  if (auto done = scan_records(db, row_kind::waiting, key_.id(row_kind::waiting, head), found); !done)
    return done.failure();
  found.first.fill({wall_time::max(), item_id{~std::uint64_t{0}}});
  for (std::size_t i = 0; i < record_states; ++i) {
    const auto kind = kind_of(static_cast<record_state>(i));
    if (kind == row_kind::waiting) continue;
    if (auto done = scan_records(db, kind, key_.start(kind), found); !done) return done.failure();
  }
  const auto by_id = [](const auto& a, const auto& b) { return a.first < b.first; };
  std::sort(found.sorted.begin(), found.sorted.end(), by_id);
  if (auto paired = pair_places(db, found); !paired) return paired.failure();
  return found;
}

expected<void> level_store::scan_records(const level_db::access& db, row_kind kind, std::string_view from,
                                         findings& found) {
  const auto state = *state_of(kind);
  auto& first = found.first[static_cast<std::size_t>(state)];
  const std::unique_ptr<leveldb::Iterator> it{db->NewIterator(scanning())};
  for (it->Seek(slice(from)); it->Valid(); it->Next()) {
    const auto rest = key_.rest(kind, view(it->key()));
    if (!rest) break;
    std::optional<sort_place> place;
    if (is_sorted(state))
      place = parse_place(*rest);
    else if (const auto id = parse_id(*rest))
      place = sort_place{{}, *id};
    key_digest digest;
    key_hold hold{};
    const auto decoded = place ? decode_digest(place->id, view(it->value()), digest, hold) : decode_result::damaged;
    if (place) found.highest = std::max(found.highest, place->id);
    if (decoded != decode_result::ok) {
      const auto* why = !place                            ? "its key is malformed"
                        : decoded == decode_result::newer ? "it was written by a later version"
                                                          : "its checksum is wrong";
      found.bad.push_back({kind, std::string{*rest}, it->value().ToString(), why});
      continue;
    }
    if (kind == row_kind::waiting)
      found.waiting.insert(place->id, {});
    else
      ++found.counts.of(state);
    if (is_sorted(state)) {
      found.sorted.emplace_back(place->id, place_row{state, place->sort});
      first = std::min(first, *place);
    }
    if (digest) found.keys.push_back({digest, place->id, hold, state});
  }
  if (!it->status().ok()) return named(db_->failed(it->status()));
  return {};
}

expected<void> level_store::pair_places(const level_db::access& db, findings& found) {
  leveldb::WriteBatch fixes;
  std::size_t without_index = 0;
  std::unordered_set<item_id> being_set_aside;
  for (const auto& b : found.bad)
    if (const auto state = state_of(b.kind); state && is_sorted(*state))
      if (const auto place = parse_place(b.rest)) being_set_aside.insert(place->id);
  auto body = found.sorted.cbegin();
  const auto end = found.sorted.cend();
  const auto index_again = [&](const std::pair<item_id, place_row>& b) {
    fixes.Put(slice(append_key_.id(row_kind::place, b.first)), format_place_row(b.second));
    ++without_index;
  };
  const std::unique_ptr<leveldb::Iterator> it{db->NewIterator(scanning())};
  for (it->Seek(slice(key_.start(row_kind::place))); it->Valid(); it->Next()) {
    const auto rest = key_.rest(row_kind::place, view(it->key()));
    if (!rest) break;
    const auto id = parse_id(*rest);
    const auto at = parse_place_row(view(it->value()));
    for (; id && body != end && body->first < *id; ++body) index_again(*body);
    if (id && body != end && body->first == *id) {
      if (at != body->second) index_again(*body);
      ++body;
    } else {
      if (!id || !being_set_aside.contains(*id))
        ++found.without_body[static_cast<std::size_t>(at ? at->state : record_state::delayed)];
      fixes.Delete(it->key());
    }
  }
  if (!it->status().ok()) return named(db_->failed(it->status()));
  for (; body != end; ++body) index_again(*body);
  for (std::size_t i = 0; i < record_states; ++i)
    if (const auto n = found.without_body[i]; n > 0)
      report(std::to_string(n) + " " + std::string{name_of(static_cast<record_state>(i))} +
                 " items are named in the index, but their records are gone; the index was corrected",
             n, db_->last_repair().second);
  if (without_index > 0)
    report(std::to_string(without_index) + " items were missing in the index and were put in again", 0);
  if (auto written = db_->write(db, fixes, false); !written) return named(written.failure());
  return {};
}

void level_store::drop_orphaned_keys(const findings& found) {
  // Keys with a lifetime do not need their record. The others must not block a key whose item is gone.
  std::unordered_set<item_id> there;
  for (const auto& k : found.keys) there.insert(k.id);
  std::vector<std::pair<key_digest, item_id>> orphans;
  keys_.unique_keys().for_each([&](const key_table::entry& e) {
    if (e.expires == key_table::never && !there.contains(e.owner)) orphans.emplace_back(e.digest, e.owner);
  });
  for (const auto& [digest, id] : orphans) keys_.free(digest, id);
}

expected<void> level_store::set_aside(const level_db::access& db, const std::vector<bad_row>& bad) {
  if (bad.empty()) return {};
  leveldb::WriteBatch moves;
  for (const auto& row : bad) {
    moves.Delete(slice(key_.named(row.kind, row.rest)));
    moves.Put(slice(key_.named(row_kind::quarantine, static_cast<char>(row.kind) + row.rest)), row.value);
    if (const auto place = place_of(row.kind, row.rest)) moves.Delete(slice(key_.id(row_kind::place, place->id)));
  }
  {
    const std::lock_guard state{state_mutex_};
    for (const auto& row : bad) {
      const auto place = place_of(row.kind, row.rest);
      const auto id = place ? std::optional{place->id} : parse_id(row.rest);
      // Its digest is unreadable, and its key must not stay taken for ever.
      if (!id) continue;
      for (const auto& digest : keys_.free_all_of(*id)) moves.Delete(slice(set_key_.digest(row_kind::unique, digest)));
    }
  }
  if (auto written = db_->write(db, moves, wants_sync()); !written) return named(written.failure());
  // While the queue is being loaded the counts are not there yet, and its memory is replaced afterwards.
  if (db.generation() == generation_) {
    const std::lock_guard state{state_mutex_};
    for (const auto& row : bad) {
      if (const auto state = state_of(row.kind)) uncount(*state);
      if (const auto id = row.kind == row_kind::waiting ? parse_id(row.rest) : std::nullopt) waiting_.erase(*id);
    }
  }
  for (const auto& row : bad)
    report(text_of(row.kind, row.rest) + " is damaged, " + row.why + "; its bytes were moved to the quarantine rows",
           1);
  return {};
}

expected<void> level_store::close() {
  const std::unique_lock alive{life_};
  if (closed_) return {};
  closed_ = true;
  expected<void> result;
  {
    const std::lock_guard append{append_mutex_};
    const std::lock_guard write{write_mutex_};
    // Also after a failed write: what it may have left behind has to go.
    result = catch_up();
    if (auto db = db_->enter(); result && db && !db_->broken()) {
      batch_->Clear();
      put_heads();
      const auto counts = count();
      batch_->Put(slice(key_.named(row_kind::meta, counts_row::name)), format(counts_row{true, counts}));
      batch_->Put(slice(key_.named(row_kind::meta, ids_row::name)), format(ids_row{last_}));
      result = db_->write(db, *batch_, options_.sync != config::sync_mode::never);
      if (!result) result = named(result.failure());
    }
  }
  db_->dismiss(options_.queue_full_name);
  db_.reset();
  return result;
}

}  // namespace level
}  // namespace caravan
