// What a queue takes along to another node.
#include "integration/leveldb/level_store.hpp"

#include "integration/leveldb/slices.hpp"

#include <leveldb/db.h>
#include <leveldb/write_batch.h>


namespace caravan::level {

namespace {
constexpr std::size_t wipe_part = 10'000;
}  // namespace

expected<void> level_store::import(const import_part& part) {
  const std::shared_lock alive{life_};
  if (closed_) return closed();
  const std::lock_guard appending{append_mutex_};
  writing write{write_mutex_};
  auto db = ready(write, true);
  if (!db) return db.failure();
  auto& batch = *batch_;
  batch.Clear();

  std::vector<record_state> left;  // states that a row leaves
  std::vector<item_id> left_line;
  const auto forget = [&](item_id id) -> expected<void> {
    for (std::size_t i = 0; i < record_states; ++i) {
      const auto state = static_cast<record_state>(i);
      const auto at = locate(*db, state, id);
      if (!at) return at.failure();
      if (!*at) continue;
      remove_rows(state, **at);
      left.push_back(state);
      if (state == record_state::waiting) left_line.push_back(id);
    }
    return {};
  };
  item_id highest;
  item_id lowest_waiting = no_item_limit;
  sort_place lowest_delayed{wall_time::max(), {}};
  const auto put = [&](const record& r) {
    put_record(r);
    highest = std::max(highest, r.id);
    if (r.state == record_state::waiting) lowest_waiting = std::min(lowest_waiting, r.id);
    if (r.state == record_state::delayed) lowest_delayed = std::min(lowest_delayed, sort_place{r.due, r.id});
  };
  for (const auto& k : part.keys) {
    highest = std::max(highest, k.owner);
    const bool repeats = k.what == kept_key::kind::idempotency;
    if (repeats && !keys_.keeps_idempotency_keys()) continue;
    const auto key = repeats ? slice(key_.digest(row_kind::idempotency, k.digest))
                             : slice(set_key_.digest(row_kind::unique, k.digest));
    if (k.expires != wall_time{})
      batch.Put(key, format_key_row({k.owner, k.expires, !repeats && !keys_.keys_have_lifetime()}));
    else
      batch.Delete(key);
  }
  for (const auto id : part.gone)
    if (auto ok = forget(id); !ok) return ok;
  for (const auto& r : part.changed) {
    if (auto ok = forget(r.id); !ok) return ok;
    put(r);
  }
  for (const auto& r : part.fresh) put(r);

  const auto limit_before = id_limit_;
  const auto heads_before = heads_on_disk_;
  if (id_limit_ < highest) {
    id_limit_ = highest;
    batch.Put(slice(key_.named(row_kind::meta, ids_row::name)), format(ids_row{id_limit_}));
  }
  if (lowest_delayed < heads_on_disk_.delayed || lowest_waiting < heads_on_disk_.waiting) {
    heads_on_disk_.delayed = std::min(heads_on_disk_.delayed, lowest_delayed);
    heads_on_disk_.waiting = std::min(heads_on_disk_.waiting, lowest_waiting);
    batch.Put(slice(key_.named(row_kind::meta, heads_row::name)), format(heads_on_disk_));
  }
  if (part.sync) batch.Put(slice(key_.named(row_kind::meta, heads_row::name)), format(heads_on_disk_));  // never empty
  if (auto written = db_->write(*db, batch, part.sync || wants_sync()); !written) {
    id_limit_ = limit_before;
    heads_on_disk_ = heads_before;
    return named(written.failure());
  }
  {
    const std::lock_guard state{state_mutex_};
    for (const auto& k : part.keys) keys_.import(k);
    for (const auto s : left) uncount(s);
    for (const auto id : left_line) waiting_.erase(id);
    const auto count = [&](const record& r) {
      if (r.state == record_state::waiting) waiting_.insert(r.id, {});
      if (r.state == record_state::dead) dead_floor_ = std::min(dead_floor_, r.id);
      recount(r.state);
      if (is_sorted(r.state)) floor_of(r.state) = std::min(floor_of(r.state), sort_place{sort_of(r), r.id});
      keys_.import(r);
    };
    for (const auto& r : part.changed) count(r);
    for (const auto& r : part.fresh) count(r);
    last_ = std::max(last_, highest);
  }
  if (options_.sync == config::sync_mode::interval) db_->touched();
  return {};
}

expected<void> level_store::wipe() {
  for (std::size_t i = 0; i < record_states; ++i)
    if (const auto n = clear(static_cast<record_state>(i), no_item_limit); !n) return n.failure();
  const std::shared_lock alive{life_};
  if (closed_) return closed();
  const std::lock_guard appending{append_mutex_};
  writing write{write_mutex_};
  auto db = ready(write, true);
  if (!db) return db.failure();
  std::vector<std::pair<row_kind, key_digest>> keys;
  {
    const std::lock_guard state{state_mutex_};
    if (keys_.keeps_idempotency_keys())
      keys_.idempotency_keys().for_each([&](const auto& e) { keys.emplace_back(row_kind::idempotency, e.digest); });
    keys_.unique_keys().for_each([&](const auto& e) {
      if (e.expires != key_table::never) keys.emplace_back(row_kind::unique, e.digest);
    });
  }
  auto& batch = *batch_;
  for (std::size_t at = 0; at < keys.size();) {
    batch.Clear();
    for (const auto end = std::min(at + wipe_part, keys.size()); at < end; ++at)
      batch.Delete(
          slice((keys[at].first == row_kind::unique ? set_key_ : key_).digest(keys[at].first, keys[at].second)));
    if (auto written = db_->write(*db, batch, false); !written) return named(written.failure());
  }
  const std::lock_guard state{state_mutex_};
  keys_.clear();
  return {};
}

expected<std::vector<kept_key>> level_store::keys_after(item_id after, std::size_t max) {
  const std::shared_lock alive{life_};
  if (closed_) return closed();
  const std::lock_guard state{state_mutex_};
  return keys_.kept_after(after, max);
}

}  // namespace caravan::level
