#include "integration/redis/redis_storage.hpp"

#include "integration/record_codec.hpp"
#include "integration/redis/redis_queue_keys.hpp"
#include "integration/redis/redis_queue_scripts.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <deque>
#include <iterator>
#include <mutex>
#include <random>

namespace caravan {

namespace {

namespace scripts = redis_queue_scripts;
using std::chrono::milliseconds;

constexpr std::size_t id_digits = 13;
constexpr std::size_t rows_a_call =
    1'000;  ///< of erase, update and read: a script must not hold up the server for long
constexpr std::size_t adopt_a_call = 2'000;
constexpr std::size_t absorb_a_call = 5'000;

std::string bytes_of(const key_digest& d) {
  std::string out;
  if (!d) return out;
  for (const auto half : {d.high, d.low})
    for (int shift = 56; shift >= 0; shift -= 8) out += static_cast<char>(half >> shift & 0xff);
  return out;
}

std::string_view digit_of(record_state s) {
  constexpr std::string_view digits = "0123456";
  static_assert(digits.size() == record_states);
  return digits.substr(static_cast<std::size_t>(s), 1);
}

record_state state_of(std::string_view digit) {
  const auto n = digit.size() == 1 && digit[0] >= '0' ? static_cast<std::size_t>(digit[0] - '0') : record_states;
  return n < record_states ? static_cast<record_state>(n) : record_state::waiting;
}

std::string decimal(std::int64_t n) { return std::to_string(n); }

/// The words of one call, which it keeps alive.
class words {
public:
  explicit words(std::size_t n) { views_.reserve(n); }
  void add(std::string_view v) { views_.push_back(v); }
  void own(std::string s) {
    kept_.push_back(std::move(s));
    views_.push_back(kept_.back());
  }
  [[nodiscard]] std::span<const std::string_view> all() const { return views_; }

private:
  std::deque<std::string> kept_;
  std::vector<std::string_view> views_;
};

class redis_storage final : public storage {
public:
  explicit redis_storage(redis_storage_options o)
      : options_(std::move(o)),
        keys_(options_.queue_full_name, options_.set_full_name, options_.client->options().address.db),
        epoch_(std::to_string(options_.epoch)) {
    std::random_device random;
    client_id_ = std::to_string(random()) + "-" + std::to_string(random());
  }

  expected<void> look() {
    if (options_.epoch == 0) {
      const auto answer = run(scripts::count, {});
      if (!answer) return answer.failure();
      return {};
    }
    const auto most = std::to_string(absorb_a_call);
    for (;;) {
      const std::string_view args[] = {epoch_, most};
      const auto answer = run(scripts::absorb, args);
      if (!answer) return answer.failure();
      if (answer->items[11].number == 0) return {};
    }
  }

  expected<std::vector<append_result>> append(std::span<record> records, wall_time now) override;
  expected<std::size_t> adopt(std::size_t most) override;
  std::vector<record> take_adopted() override { return std::exchange(adopted_, {}); }
  expected<std::vector<record>> read(record_state state, read_cursor after, std::size_t max) override;
  expected<std::optional<record>> find(item_id id) override;
  expected<void> erase(std::span<const record_ref> refs, item_id low_water) override;
  expected<void> update(std::span<const record_move> moves) override;
  expected<void> release(std::span<const record_ref> refs) override;
  expected<std::optional<item_id>> key_owner(const key_digest& digest) override;
  [[nodiscard]] storage_counts count() const override {
    const std::lock_guard lock(mutex_);
    return counts_;
  }
  expected<std::size_t> clear(record_state state, item_id through) override;
  expected<void> close() override {
    closed_ = true;
    return {};
  }
  [[nodiscard]] bool blocks() const noexcept override { return true; }
  [[nodiscard]] bool shared() const noexcept override { return true; }

private:
  [[nodiscard]] error closed() const {
    return {errc::queue_closed, "queue \"" + options_.queue_full_name + "\": it is closed; find its owner again"};
  }
  [[nodiscard]] error odd(const redis_script& s) const {
    return {errc::backend_failed, "queue \"" + options_.queue_full_name + "\": the script " + s.name() + " in Redis " +
                                      options_.client->where() + " answered what it never should"};
  }

  // The answer of a script that counts; its status is ok, full or incoming.
  expected<redis_value> run(const redis_script& script, std::span<const std::string_view> args) {
    auto answer = ask(script, args);
    if (!answer) return answer;
    const auto status = answer->items[0].number;
    if (status == scripts::full || status == scripts::incoming) return answer;
    if (!answer->has(11)) return odd(script);
    learn(*answer);
    return answer;
  }

  // Any script.
  expected<redis_value> ask(const redis_script& script, std::span<const std::string_view> args) {
    if (closed_) return closed();
    auto answer = options_.client->eval(script, keys_.all, args);
    if (!answer) return {answer.failure().code, "queue \"" + options_.queue_full_name + "\": " + answer.failure().text};
    if (!answer->has(1)) return odd(script);
    if (answer->items[0].number == scripts::fenced)
      return {errc::fenced, "queue \"" + options_.queue_full_name + "\": another node owns it now"};
    return answer;
  }

  // Answers may overtake each other on their way: the newest counts.
  void learn(const redis_value& v) {
    const auto number = [&](std::size_t i) {
      return static_cast<std::size_t>(std::max<std::int64_t>(v.items[i].number, 0));
    };
    const auto part = [&](std::size_t i) {
      std::uint64_t n = 0;
      const auto& t = v.items[i].text;
      std::from_chars(t.data(), t.data() + t.size(), n);
      return n;
    };
    const std::lock_guard lock(mutex_);
    if (v.items[4].number < version_) return;  // by Redis' clock, in microseconds
    version_ = v.items[4].number;
    counts_.waiting = number(1);
    if (v.items[2].number >= 0) {
      counts_.delayed = number(2);
      counts_.dead = number(3);
      counts_.ranked = number(7);
      counts_.done = number(8);
      counts_.held = number(9);
      counts_.keyed = number(10);
    }
    counts_.last = item_id{part(5) << 22 | part(6)};
  }

  [[nodiscard]] error not_mine() const {
    return {errc::fenced, "queue \"" + options_.queue_full_name + "\": this node does not own it"};
  }

  bool parse(record_state state, const redis_value& id, const redis_value& body, record& out,
             std::vector<std::string>& bad) const {
    const auto parsed = parse_item_id(id.text);
    // The id is given by the script that stores the body, so it is not in the body's checksum.
    if (!parsed || decode_record({}, body.text, out) != decode_result::ok) {
      bad.push_back(id.text);
      return false;
    }
    out.id = *parsed;
    out.state = state;
    return true;
  }

  void set_aside(record_state state, const std::vector<std::string>& bad) {
    if (bad.empty()) return;
    if (options_.epoch != 0) {
      words w(bad.size() + 2);
      w.add(epoch_);
      w.add(digit_of(state));
      for (const auto& id : bad) w.add(id);
      if (!run(scripts::set_aside, w.all())) return;
    }
    if (options_.report)
      options_.report("queue \"" + options_.queue_full_name + "\": " + std::to_string(bad.size()) + " items in Redis " +
                      options_.client->where() + " cannot be read, the first is " + bad.front() + "; they lie under " +
                      keys_.prefix + "damaged");
  }

  /// What becomes of the unique key of a record that goes there, as the script says it.
  [[nodiscard]] std::string_view key_word(const record& to) const {
    const auto kind = policy_for(to, options_.unique).kind;
    if (to.state == record_state::done) return "end";
    if (to.state == record_state::dead && kind != unique_policy::until::success) return "free";
    return kind == unique_policy::until::none || kind == unique_policy::until::time ? "leave" : "take";
  }

  expected<void> settle();
  expected<void> erase_some(std::span<const record_ref> refs, bool forget);

  const redis_storage_options options_;
  const redis_queue_keys keys_;
  const std::string epoch_;
  std::string client_id_;
  std::atomic<bool> closed_{false};

  // Of the one thread that appends and adopts.
  std::uint64_t next_call_ = 1;
  std::string adopted_through_;
  std::vector<record> adopted_;
  struct unanswered {
    std::string call;
    std::size_t records = 0;
  };
  std::optional<unanswered> unsure_;  ///< an append that may have been run, or may still be

  mutable std::mutex mutex_;
  storage_counts counts_;
  std::int64_t version_ = 0;
};

// The rows of an append whose answer was lost lie in line, and nobody knows of them: they are treated as others' rows
// are.
expected<void> redis_storage::settle() {
  if (!unsure_ || options_.epoch == 0) return {};
  const std::string_view args[] = {epoch_, client_id_, unsure_->call};
  const auto answer = run(scripts::settle, args);
  if (!answer) return answer.failure();
  if (!answer->has(12)) return odd(scripts::settle);
  const std::string_view text = answer->items[11].text;
  std::vector<item_id> ids;
  if (text.starts_with('A')) {
    const auto first = parse_item_id(text.substr(1));
    for (std::size_t i = 0; first && i < unsure_->records; ++i) ids.push_back({first->value + i});
  } else if (text.starts_with('M')) {
    for (std::size_t at = 1; at + id_digits < text.size(); at += 1 + id_digits)
      if (const auto id = parse_item_id(text.substr(at + 1, id_digits)); id && text[at] == 'S') ids.push_back(*id);
  }
  std::vector<record> found;
  for (const auto id : ids) {
    auto r = find(id);
    if (!r) return r.failure();
    if (*r) found.push_back(std::move(**r));
  }
  adopted_.insert(adopted_.end(), std::make_move_iterator(found.begin()), std::make_move_iterator(found.end()));
  unsure_.reset();
  return {};
}

expected<std::vector<append_result>> redis_storage::append(std::span<record> records, wall_time now) {
  if (closed_) return closed();
  if (records.empty()) return std::vector<append_result>{};
  if (auto ok = settle(); !ok) return ok.failure();
  bool full_form = false;
  for (auto& r : records) {
    r.id = {};
    const bool unique = policy_for(r, options_.unique).kind != unique_policy::until::none;
    if (!unique)
      r.digest = {};
    else if (!r.digest)
      r.digest = digest_of(r.key.empty() ? r.payload : r.key);
    r.state = first_state(r, now);
    if (r.pushed_at == wall_time{}) r.pushed_at = now;
    full_form = full_form || unique || r.state != record_state::waiting ||
                (!r.idempotency_key.empty() && options_.idempotency_window > milliseconds{0});
  }
  const auto ms2020 = std::to_string(first_id_at(now).value >> 22);
  const auto now_ms = decimal(now.time_since_epoch().count());
  const auto window = decimal(options_.idempotency_window.count());
  const auto length = std::to_string(options_.epoch == 0 ? options_.length : 0);
  const auto call = std::to_string(next_call_++);
  const bool plain = !full_form && options_.epoch != 0;

  words w(9 + records.size() * (full_form ? 5 : 1));
  for (const std::string_view v : {std::string_view(epoch_), std::string_view(client_id_), std::string_view(ms2020)})
    w.add(v);
  std::size_t through_at = 0;
  if (!plain) {
    for (const auto* v : {&now_ms, &window, &length}) w.add(*v);
    through_at = w.all().size();
    w.add({});
    w.add(full_form ? "full" : "plain");
  }
  w.add(call);
  std::string encoded;
  for (const auto& r : records) {
    encode_record(r, encoded);
    w.own(encoded);
    if (!full_form) continue;
    w.own(bytes_of(r.digest));
    w.own(r.state == record_state::waiting
              ? std::string()
              : std::string(digit_of(r.state)) + ':' + decimal(sort_of(r).time_since_epoch().count()));
    w.own(r.idempotency_key.empty() ? std::string() : bytes_of(digest_of(r.idempotency_key)));
    const auto policy = policy_for(r, options_.unique);
    w.own(policy.kind == unique_policy::until::time ? decimal(policy.lifetime.count()) : std::string());
  }
  for (;;) {
    std::vector<std::string_view> args(w.all().begin(), w.all().end());
    if (!plain) args[through_at] = adopted_through_;
    const auto answer = run(plain ? scripts::append_plain : scripts::append, args);
    if (!answer) {
      if (answer.failure().code == errc::backend_failed) unsure_ = unanswered{call, records.size()};
      return answer.failure();
    }
    const auto status = answer->items[0].number;
    if (status == scripts::full)
      return {errc::queue_full, "queue \"" + options_.queue_full_name +
                                    "\": " + std::to_string(answer->has(2) ? answer->items[1].number : 0) +
                                    " items are there, the limit is LENGTH = " + length + "; raise it or add workers"};
    if (status == scripts::incoming) {
      if (auto ok = adopt(adopt_a_call); !ok) return ok.failure();
      continue;
    }
    if (!answer->has(12)) return odd(scripts::append);
    const std::string_view text = answer->items[11].text;
    std::vector<append_result> results;
    results.reserve(records.size());
    if (text.starts_with('A')) {
      const auto first = parse_item_id(text.substr(1));
      if (!first) return odd(scripts::append);
      for (std::size_t i = 0; i < records.size(); ++i) {
        records[i].id = item_id{first->value + i};
        results.push_back({append_result::kind::stored, records[i].id});
      }
      return results;
    }
    if (text.size() != 1 + records.size() * (1 + id_digits)) return odd(scripts::append);
    for (std::size_t i = 0; i < records.size(); ++i) {
      const auto part = text.substr(1 + i * (1 + id_digits), 1 + id_digits);
      const auto id = parse_item_id(part.substr(1));
      if (!id) return odd(scripts::append);
      const auto what = part[0] == 'R'   ? append_result::kind::repeated
                        : part[0] == 'A' ? append_result::kind::already_in_queue
                                         : append_result::kind::stored;
      if (what == append_result::kind::stored) records[i].id = *id;
      results.push_back({what, *id});
    }
    return results;
  }
}

expected<std::size_t> redis_storage::adopt(std::size_t most) {
  if (options_.epoch == 0) {
    if (auto ok = run(scripts::count, {}); !ok) return ok.failure();
    return std::size_t{0};
  }
  if (auto ok = settle(); !ok) return ok.failure();
  const auto limit = std::to_string(std::min(most, adopt_a_call));
  const std::string_view args[] = {epoch_, adopted_through_, limit};
  const auto answer = run(scripts::adopt, args);
  if (!answer) return answer.failure();
  const auto& v = answer->items;
  std::array<std::vector<std::string>, record_states> bad;
  std::size_t n = 0;
  for (std::size_t i = 11; i + 2 < v.size(); i += 3) {
    record r;
    const auto state = state_of(v[i + 2].text);
    adopted_through_ = v[i].text;
    ++n;
    if (parse(state, v[i], v[i + 1], r, bad[static_cast<std::size_t>(state)])) adopted_.push_back(std::move(r));
  }
  for (std::size_t i = 0; i < record_states; ++i) set_aside(static_cast<record_state>(i), bad[i]);
  return n;
}

expected<std::vector<record>> redis_storage::read(record_state state, read_cursor after, std::size_t max) {
  if (closed_) return closed();
  std::vector<record> result;
  const auto id = to_string(after.id);
  const auto sort = is_sorted(state) && after.sort != wall_time::min()
                        ? decimal(after.sort.time_since_epoch().count())
                        : std::string();
  const auto most = std::to_string(std::min(max, rows_a_call));
  if (max == 0) return result;
  const std::string_view args[] = {digit_of(state), id, sort, most, "bodies"};
  const auto answer = ask(scripts::read, args);
  if (!answer) return answer.failure();
  const auto& v = answer->items;
  std::vector<std::string> bad;
  for (std::size_t i = 1; i + 1 < v.size(); i += 2) {
    record r;
    if (parse(state, v[i], v[i + 1], r, bad)) result.push_back(std::move(r));
  }
  set_aside(state, bad);
  const auto found = (v.size() - 1) / 2;
  // A short answer means the end: so go on when some could not be read, or more were asked for than one call gives.
  if (found == 0 || (bad.empty() && (found < rows_a_call || result.size() >= max))) return result;
  if (result.empty() && options_.epoch == 0) return result;
  const auto rest =
      read(state, result.empty() ? after : read_cursor{sort_of(result.back()), result.back().id}, max - result.size());
  if (!rest) return rest;
  result.insert(result.end(), rest->begin(), rest->end());
  return result;
}

expected<std::optional<record>> redis_storage::find(item_id id) {
  const auto text = to_string(id);
  const std::string_view args[] = {text};
  const auto answer = ask(scripts::find, args);
  if (!answer) return answer.failure();
  if (!answer->has(3)) return std::optional<record>();
  const auto state = state_of(answer->items[1].text);
  record r;
  std::vector<std::string> bad;
  if (!parse(state, redis_value{redis_value::kind::text, 0, text, {}}, answer->items[2], r, bad)) {
    set_aside(state, bad);
    return std::optional<record>();
  }
  return std::optional<record>(std::move(r));
}

expected<void> redis_storage::erase_some(std::span<const record_ref> refs, bool forget) {
  if (closed_) return closed();
  if (options_.epoch == 0) return not_mine();
  while (!refs.empty()) {
    const auto part = refs.first(std::min(refs.size(), rows_a_call));
    refs = refs.subspan(part.size());
    words w(2 + 3 * part.size());
    w.add(epoch_);
    w.add(forget ? "1" : "0");
    for (const auto& r : part) {
      w.add(digit_of(r.state));
      w.own(to_string(r.id));
      w.own(bytes_of(r.digest));
    }
    const auto answer = run(scripts::erase, w.all());
    if (!answer) return answer.failure();
  }
  return {};
}

expected<void> redis_storage::erase(std::span<const record_ref> refs, item_id) { return erase_some(refs, false); }

expected<void> redis_storage::update(std::span<const record_move> moves) {
  if (closed_) return closed();
  if (options_.epoch == 0) return not_mine();
  if (moves.empty()) return {};
  words w(1 + 8 * moves.size());
  w.add(epoch_);
  std::string encoded;
  for (const auto& m : moves) {
    w.add(digit_of(m.from.state));
    w.own(to_string(m.from.id));
    w.own(bytes_of(m.from.digest));
    w.add(digit_of(m.to.state));
    w.own(decimal(sort_of(m.to).time_since_epoch().count()));
    w.own(bytes_of(m.to.digest));
    w.add(key_word(m.to));
    auto body = m.to;
    body.id = {};
    encode_record(body, encoded);
    w.own(encoded);
  }
  const auto answer = run(scripts::update, w.all());
  if (!answer) return answer.failure();
  return {};
}

expected<void> redis_storage::release(std::span<const record_ref> refs) {
  if (closed_) return closed();
  if (options_.epoch == 0) return not_mine();
  words w(1 + 2 * refs.size());
  w.add(epoch_);
  bool any = false;
  for (const auto& r : refs) {
    if (!r.digest) continue;
    any = true;
    w.own(to_string(r.id));
    w.own(bytes_of(r.digest));
  }
  if (!any) return {};
  const auto answer = run(scripts::release, w.all());
  if (!answer) return answer.failure();
  return {};
}

expected<std::optional<item_id>> redis_storage::key_owner(const key_digest& digest) {
  if (closed_) return closed();
  if (!digest) return std::optional<item_id>();
  const auto field = bytes_of(digest);
  const auto answer = options_.client->command({"HGET", keys_.all[7], field});
  if (!answer) return {answer.failure().code, "queue \"" + options_.queue_full_name + "\": " + answer.failure().text};
  if (!answer->is_text()) return std::optional<item_id>();
  const std::string_view text = answer->text;
  std::int64_t ends = 0;
  if (text.size() > id_digits + 1) {
    std::from_chars(text.data() + id_digits + 1, text.data() + text.size(), ends);
    if (ends <= options_.clock->wall().time_since_epoch().count()) return std::optional<item_id>();
  }
  return parse_item_id(text.substr(0, id_digits));
}

expected<std::size_t> redis_storage::clear(record_state state, item_id through) {
  std::size_t cleared = 0;
  read_cursor after;
  for (;;) {
    auto part = read(state, after, rows_a_call);
    if (!part) return part.failure();
    if (part->empty()) return cleared;
    after = {sort_of(part->back()), part->back().id};
    const bool by_id = !is_sorted(state);
    std::vector<record_ref> refs;
    for (const auto& r : *part)
      if (r.id <= through) refs.push_back(ref_of(r));
    // Counted as they were read: an erase that had to be repeated finds nothing the second time.
    if (auto ok = erase_some(refs, true); !ok) return ok.failure();
    cleared += refs.size();
    if (by_id && refs.size() < part->size()) return cleared;
  }
}

}  // namespace

expected<std::unique_ptr<storage>> open_redis_storage(redis_storage_options options) {
  auto made = std::make_unique<redis_storage>(std::move(options));
  if (auto ok = made->look(); !ok) return ok.failure();
  return std::unique_ptr<storage>(std::move(made));
}

}  // namespace caravan
