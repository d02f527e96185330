#include "integration/memory/memory_storage.hpp"

#include "integration/id_log.hpp"
#include "integration/key_table.hpp"
#include "integration/record_codec.hpp"

#include <array>
#include <map>
#include <mutex>
#include <new>
#include <unordered_map>

namespace caravan {

namespace {

class memory_storage final : public storage {
public:
  explicit memory_storage(memory_options options)
      : options_(std::move(options)), keys_(options_.unique, options_.idempotency_window) {}

  expected<std::vector<append_result>> append(std::span<record> records, wall_time now) override;
  expected<std::vector<record>> read(record_state state, read_cursor after, std::size_t max) override;
  expected<std::optional<record>> find(item_id id) override;
  expected<void> erase(std::span<const record_ref> refs, item_id low_water) override;
  expected<void> update(std::span<const record_move> moves) override;
  expected<void> release(std::span<const record_ref> refs) override;
  expected<std::optional<item_id>> key_owner(const key_digest& digest) override;
  [[nodiscard]] storage_counts count() const override;
  expected<std::size_t> clear(record_state state, item_id through) override;
  expected<void> close() override;
  expected<void> import(const import_part& part) override;
  expected<void> wipe() override;
  expected<std::vector<kept_key>> keys_after(item_id after, std::size_t max) override;
  [[nodiscard]] bool blocks() const noexcept override { return false; }

private:
  // Encoded, an item costs a tenth of an idle `record`: a million may wait.
  using bytes = std::string;

  [[nodiscard]] error closed() const {
    return {errc::queue_closed, "queue \"" + options_.queue_full_name + "\": it is closed; find its owner again"};
  }
  void put(record_state state, const record& r);
  bool remove(record_state state, item_id id);
  auto& sorted(record_state state) { return sorted_[static_cast<std::size_t>(state)]; }
  static record decode(item_id id, record_state state, const bytes& from);

  const memory_options options_;
  mutable std::mutex mutex_;
  bool closed_ = false;
  key_book keys_;
  item_id last_;
  id_log<bytes> waiting_;
  std::map<item_id, bytes> dead_;
  /// The sorted states, by state.
  std::array<std::map<std::pair<wall_time, item_id>, bytes>, record_states> sorted_;
  struct place {
    record_state state;
    wall_time sort;
  };
  std::unordered_map<item_id, place> places_;  ///< where in sorted_ an id is
};

void memory_storage::put(record_state state, const record& r) {
  bytes encoded;
  encoded.reserve(r.payload.size() + 64);
  encode_record(r, encoded);
  encoded.shrink_to_fit();
  switch (state) {
    case record_state::waiting:
      waiting_.insert(r.id, std::move(encoded));
      break;
    case record_state::dead:
      dead_[r.id] = std::move(encoded);
      break;
    default: {
      const auto sort = sort_of(r);
      places_[r.id] = {state, sort};
      sorted(state)[{sort, r.id}] = std::move(encoded);
    }
  }
}

bool memory_storage::remove(record_state state, item_id id) {
  switch (state) {
    case record_state::waiting:
      return waiting_.erase(id);
    case record_state::dead:
      return dead_.erase(id) > 0;
    default:
      const auto at = places_.find(id);
      if (at == places_.end() || at->second.state != state) return false;
      sorted(state).erase({at->second.sort, id});
      places_.erase(at);
      return true;
  }
}

record memory_storage::decode(item_id id, record_state state, const bytes& from) {
  record r;
  (void)decode_record(id, from, r);  // our own bytes, never touched by anybody
  r.state = state;
  return r;
}

expected<std::vector<append_result>> memory_storage::append(std::span<record> records, wall_time now) {
  const std::lock_guard lock{mutex_};
  if (closed_) return closed();
  std::vector<append_result> results;
  std::size_t done = 0;
  try {
    results.reserve(records.size());
    keys_.idempotency_keys().expire(now, 2 * records.size() + 16, nullptr);
    keys_.unique_keys().expire(now, 2 * records.size() + 16, nullptr);
    for (auto& r : records) {
      const item_id id{std::max(last_.value + 1, first_id_at(now).value)};
      results.push_back(keys_.admit(r, id, now));
      ++done;
      if (results.back().what != append_result::kind::stored) continue;
      put(r.state, r);
      last_ = id;
    }
  } catch (const std::bad_alloc&) {
    for (auto& r : records.first(done)) {
      if (!r.id) continue;
      remove(r.state, r.id);
      keys_.withdraw(r);
    }
    return error{errc::backend_failed,
                 "queue \"" + options_.queue_full_name +
                     "\": no memory for more items; nothing was stored; add workers or lower LENGTH"};
  }
  return results;
}

expected<std::vector<record>> memory_storage::read(record_state state, read_cursor after, std::size_t max) {
  const std::lock_guard lock{mutex_};
  if (closed_) return closed();
  std::vector<record> result;
  if (max == 0) return result;
  switch (state) {
    case record_state::waiting:
      result.reserve(std::min(max, waiting_.size()));
      waiting_.scan(after.id, [&](item_id id, const bytes& encoded) {
        result.push_back(decode(id, state, encoded));
        return result.size() < max;
      });
      break;
    case record_state::dead:
      for (auto it = dead_.upper_bound(after.id); it != dead_.end() && result.size() < max; ++it)
        result.push_back(decode(it->first, state, it->second));
      break;
    default:
      for (auto it = sorted(state).upper_bound({after.sort, after.id}); it != sorted(state).end() && result.size() < max; ++it)
        result.push_back(decode(it->first.second, state, it->second));
  }
  return result;
}

expected<std::optional<record>> memory_storage::find(item_id id) {
  const std::lock_guard lock{mutex_};
  if (closed_) return closed();
  std::optional<record> result;
  if (const auto* encoded = waiting_.find(id)) {
    result = decode(id, record_state::waiting, *encoded);
  } else if (const auto at = places_.find(id); at != places_.end()) {
    const auto [state, sort] = at->second;
    result = decode(id, state, sorted(state).at({sort, id}));
  } else if (const auto dead = dead_.find(id); dead != dead_.end()) {
    result = decode(id, record_state::dead, dead->second);
  }
  return result;
}

expected<void> memory_storage::erase(std::span<const record_ref> refs, item_id) {
  const std::lock_guard lock{mutex_};
  if (closed_) return closed();
  for (const auto& ref : refs) {
    // Not there: it moved meanwhile, and holds its key rightly.
    if (remove(ref.state, ref.id)) keys_.free_at_end(ref.digest, ref.id);
  }
  return {};
}

expected<void> memory_storage::update(std::span<const record_move> moves) {
  const std::lock_guard lock{mutex_};
  if (closed_) return closed();
  for (const auto& move : moves) {
    if (!remove(move.from.state, move.from.id)) continue;
    put(move.to.state, move.to);
    if (move.to.state == record_state::done) {
      keys_.free_at_end(move.from.digest, move.from.id);
    } else if (move.to.state == record_state::dead && !keys_.keeps_key_when_dead(move.to)) {
      keys_.free(move.from.digest, move.from.id);
    } else {
      keys_.retake(move.to, options_.clock->wall());
    }
  }
  return {};
}

expected<void> memory_storage::release(std::span<const record_ref> refs) {
  const std::lock_guard lock{mutex_};
  if (closed_) return closed();
  for (const auto& ref : refs) keys_.free(ref.digest, ref.id);
  return {};
}

expected<std::optional<item_id>> memory_storage::key_owner(const key_digest& digest) {
  const std::lock_guard lock{mutex_};
  if (closed_) return closed();
  return keys_.owner(digest, options_.clock->wall());
}

storage_counts memory_storage::count() const {
  const std::lock_guard lock{mutex_};
  storage_counts c;
  c.waiting = waiting_.size();
  c.dead = dead_.size();
  c.last = last_;
  for (std::size_t i = 0; i < record_states; ++i)
    if (const auto state = static_cast<record_state>(i); is_sorted(state)) c.of(state) = sorted_[i].size();
  return c;
}

expected<std::size_t> memory_storage::clear(record_state state, item_id through) {
  const std::lock_guard lock{mutex_};
  if (closed_) return closed();
  std::size_t cleared = 0;
  const auto forget = [&](item_id id, const bytes& encoded) {
    if (id > through) return false;
    key_digest digest;
    key_hold hold{};
    if (decode_digest(id, encoded, digest, hold) == decode_result::ok) keys_.free(digest, id);
    ++cleared;
    return true;
  };
  switch (state) {
    case record_state::waiting:
      if (through >= last_) {
        waiting_.scan({}, forget);
        waiting_.clear();
        break;
      }
      while (!waiting_.empty()) {
        const auto id = waiting_.first();
        if (!forget(id, *waiting_.find(id))) break;
        waiting_.erase(id);
      }
      break;
    case record_state::dead:
      std::erase_if(dead_, [&](const auto& entry) { return forget(entry.first, entry.second); });
      break;
    default:
      std::erase_if(sorted(state), [&](const auto& entry) {
        const auto id = entry.first.second;
        if (!forget(id, entry.second)) return false;
        places_.erase(id);
        return true;
      });
  }
  return cleared;
}

expected<void> memory_storage::close() {
  const std::lock_guard lock{mutex_};
  closed_ = true;
  return {};
}

expected<void> memory_storage::import(const import_part& part) {
  const std::lock_guard lock{mutex_};
  if (closed_) return closed();
  const auto forget = [&](item_id id) {
    for (std::size_t s = 0; s < record_states; ++s) remove(static_cast<record_state>(s), id);
  };
  const auto take = [&](const record& r) {
    put(r.state, r);
    keys_.import(r);
    last_ = std::max(last_, r.id);
  };
  try {
    for (const auto& k : part.keys) {
      keys_.import(k);
      last_ = std::max(last_, k.owner);
    }
    for (const auto id : part.gone) forget(id);
    for (const auto& r : part.fresh) take(r);
    for (const auto& r : part.changed) {
      forget(r.id);
      take(r);
    }
  } catch (const std::bad_alloc&) {
    return error{errc::backend_failed, "queue \"" + options_.queue_full_name + "\": no memory for what comes from another node"};
  }
  return {};
}

expected<void> memory_storage::wipe() {
  const std::lock_guard lock{mutex_};
  if (closed_) return closed();
  waiting_.clear();
  for (auto& rows : sorted_) rows.clear();
  places_.clear();
  dead_.clear();
  keys_.clear();
  return {};
}

expected<std::vector<kept_key>> memory_storage::keys_after(item_id after, std::size_t max) {
  const std::lock_guard lock{mutex_};
  if (closed_) return closed();
  return keys_.kept_after(after, max);
}

}  // namespace

std::unique_ptr<storage> open_memory_storage(memory_options options) {
  return std::make_unique<memory_storage>(std::move(options));
}

}  // namespace caravan
