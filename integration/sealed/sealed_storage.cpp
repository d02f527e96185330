#include "integration/sealed/sealed_storage.hpp"

#include "integration/record_codec.hpp"

#include <algorithm>
#include <cstdio>
#include <utility>
#include <vector>

namespace caravan {

namespace {

constexpr std::string_view cannot_open = "cannot be opened: ";

/// What is sealed of a record. The rest is what a storage looks for: states, times, order, hashes.
void move_secrets(record& from, record& to) {
  to.payload = std::move(from.payload);
  to.key = std::move(from.key);
  to.last_error = std::move(from.last_error);
  to.headers = std::move(from.headers);
  to.idempotency_key = std::move(from.idempotency_key);
  to.more = std::move(from.more);
}

std::string hash_of(std::string_view text) {
  const auto d = digest_of(text);
  char hex[36];
  std::snprintf(hex, sizeof hex, "%016llx%016llx", static_cast<unsigned long long>(d.high),
                static_cast<unsigned long long>(d.low));
  return hex;
}

/// The first items in line that are sealed.
expected<std::vector<record>> first_sealed(storage& store) {
  std::vector<record> out;
  for (std::size_t i = 0; i < record_states; ++i) {
    const auto state = static_cast<record_state>(i);
    if (state == record_state::dead) continue;
    auto first = store.read(state, {}, 1);
    if (!first) return first.failure();
    if (!first->empty() && is_sealed(first->front().payload)) out.push_back(std::move(first->front()));
  }
  return out;
}

class sealed_storage final : public storage {
public:
  sealed_storage(std::unique_ptr<storage> real, key_ring keys, sealed_options o)
      : real_(std::move(real)), keys_(std::move(keys)), options_(std::move(o)) {}

  /// As seal_storage.
  expected<void> check() {
    const auto first = first_sealed(*real_);
    if (!first) return first.failure();
    for (const auto& r : *first)
      if (const auto opened = keys_.open(r.payload, options_.row_prefix);
          !opened && opened.failure().code == errc::not_found)
        return error{errc::invalid_argument, "queue \"" + options_.queue + "\": job " +
                                                 to_string(job_id{options_.queue, r.id}) + ": " +
                                                 opened.failure().text};
    return {};
  }

  expected<std::vector<append_result>> append(std::span<record> records, wall_time now) override {
    std::vector<record> sealed;
    sealed.reserve(records.size());
    for (auto& r : records) {
      if ((options_.unique || r.hold != key_hold::as_queue) && !r.digest) r.digest = digest_of(r.key.empty() ? r.payload : r.key);
      sealed.push_back(sealed_copy(r));
    }
    auto answer = real_->append(sealed, now);
    for (std::size_t i = 0; i < records.size(); ++i) {
      records[i].id = sealed[i].id;
      records[i].state = sealed[i].state;
      records[i].digest = sealed[i].digest;
      records[i].pushed_at = sealed[i].pushed_at;
      records[i].due = sealed[i].due;
    }
    return answer;
  }

  expected<std::size_t> adopt(std::size_t most) override { return real_->adopt(most); }
  std::vector<record> take_adopted() override {
    auto records = real_->take_adopted();
    (void)open_all(records);
    return records;
  }

  expected<std::vector<record>> read(record_state state, read_cursor after, std::size_t max) override {
    for (;;) {
      auto found = real_->read(state, after, max);
      if (!found || found->empty()) return found;
      const auto& last = found->back();
      after = {sort_of(last), last.id};
      const bool end = found->size() < max;
      if (const auto ok = open_all(*found); !ok) return ok.failure();
      // All of them became dead: who asks would take nothing for the end.
      if (!found->empty() || end) return found;
    }
  }

  expected<std::optional<record>> find(item_id id) override {
    auto found = real_->find(id);
    if (found && *found)
      if (const auto ok = open(**found); !ok) (**found).last_error = std::string(cannot_open) + ok.failure().text;
    return found;
  }

  expected<void> erase(std::span<const record_ref> refs, item_id low_water) override {
    return real_->erase(refs, low_water);
  }
  expected<void> update(std::span<const record_move> moves) override {
    std::vector<record_move> sealed;
    sealed.reserve(moves.size());
    for (const auto& m : moves) sealed.push_back({m.from, sealed_copy(m.to)});
    return real_->update(sealed);
  }
  expected<void> release(std::span<const record_ref> refs) override { return real_->release(refs); }
  expected<std::optional<item_id>> key_owner(const key_digest& digest) override { return real_->key_owner(digest); }
  [[nodiscard]] storage_counts count() const override { return real_->count(); }
  expected<std::size_t> clear(record_state state, item_id through) override { return real_->clear(state, through); }
  expected<void> close() override { return real_->close(); }
  expected<void> import(const import_part& part) override {
    const auto seal_all = [&](std::span<const record> records) {
      std::vector<record> sealed;
      sealed.reserve(records.size());
      for (const auto& r : records) sealed.push_back(sealed_copy(r));
      return sealed;
    };
    const auto fresh = seal_all(part.fresh);
    const auto changed = seal_all(part.changed);
    auto sealed = part;
    sealed.fresh = fresh;
    sealed.changed = changed;
    return real_->import(sealed);
  }
  expected<void> wipe() override { return real_->wipe(); }
  expected<std::vector<kept_key>> keys_after(item_id after, std::size_t max) override {
    return real_->keys_after(after, max);
  }
  [[nodiscard]] bool blocks() const noexcept override { return real_->blocks(); }
  [[nodiscard]] bool shared() const noexcept override { return real_->shared(); }

private:
  [[nodiscard]] record sealed_copy(const record& r) const {
    record out = r;
    if (is_sealed(r.payload)) return out;  // it could not be opened, and goes back as it came
    record secrets;
    move_secrets(out, secrets);
    std::string plain;
    encode_record(secrets, plain);
    out.payload = keys_.seal(plain, options_.row_prefix);
    out.key.clear();
    out.last_error.clear();
    out.headers.clear();
    out.more.clear();
    // A storage compares it with others: a hash does as well.
    out.idempotency_key = secrets.idempotency_key.empty() ? "" : hash_of(secrets.idempotency_key);
    return out;
  }

  expected<void> open(record& r) const {
    if (!is_sealed(r.payload)) return {};
    const auto plain = keys_.open(r.payload, options_.row_prefix);
    if (!plain) return plain.failure();
    record secrets;
    if (decode_record({}, *plain, secrets) != decode_result::ok)
      return error{errc::backend_failed, "a later version of this program sealed it"};
    move_secrets(secrets, r);
    return {};
  }

  /// Opens them, and buries those that cannot be opened.
  expected<void> open_all(std::vector<record>& records) {
    std::vector<record_move> dead;
    std::erase_if(records, [&](record& r) {
      const auto ok = open(r);
      if (ok) return false;
      const auto why = std::string(cannot_open) + ok.failure().text;
      if (r.state == record_state::dead) {
        if (r.last_error.empty()) r.last_error = why;
        return false;
      }
      record_move m{ref_of(r), std::move(r)};
      m.to.state = record_state::dead;
      m.to.due = {};
      m.to.last_error = why;
      if (options_.report) options_.report("job " + to_string(job_id{options_.queue, m.to.id}) + " is dead: it " + why);
      dead.push_back(std::move(m));
      return true;
    });
    return dead.empty() ? expected<void>{} : real_->update(dead);
  }

  std::unique_ptr<storage> real_;
  const key_ring keys_;
  const sealed_options options_;
};

}  // namespace

expected<std::unique_ptr<storage>> seal_storage(std::unique_ptr<storage> real, key_ring keys, sealed_options o) {
  auto sealed = std::make_unique<sealed_storage>(std::move(real), std::move(keys), std::move(o));
  if (const auto ok = sealed->check(); !ok) return ok.failure();
  return std::unique_ptr<storage>(std::move(sealed));
}

expected<void> check_not_sealed(storage& store, const std::string& queue) {
  const auto first = first_sealed(store);
  if (!first) return first.failure();
  if (first->empty()) return {};
  return error{errc::invalid_argument, "queue \"" + queue + "\": job " + to_string(job_id{queue, first->front().id}) +
                                           ": is sealed, and this node has no key; set [queue." + queue +
                                           "] ENCRYPT as the other nodes and starts did"};
}

}  // namespace caravan
