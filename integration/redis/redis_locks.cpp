#include "integration/redis/redis_locks.hpp"

#include "integration/redis/redis_lock_scripts.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <random>
#include <set>

namespace caravan {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

namespace {

constexpr std::string_view lock_prefix = "caravan:globallock:";
constexpr std::string_view line_prefix = "caravan:globallock-line:";
constexpr std::string_view node_prefix = "caravan:globallock-node:";
const std::string counter_key = "caravan:globallock-token";

/// Refreshed by every beat; for lines whose nodes are all gone.
constexpr std::string_view line_life = "60000";
/// A request that Redis gets to see this much after its caller has given up is not carried out.
constexpr auto grace = 1s;
constexpr std::size_t most_at_once = 500;
constexpr std::size_t shown_waiters = 100;

const redis_script take_script("lock_take", redis_lock::take_text.data());
const redis_script renew_script("lock_renew", redis_lock::renew_text.data());
const redis_script release_script("lock_release", redis_lock::release_text.data());
const redis_script beat_script("lock_beat", redis_lock::beat_text.data());
const redis_script force_script("lock_force", redis_lock::force_text.data());
const redis_script hold_script("lock_hold", redis_lock::hold_text.data());
const redis_script show_script("lock_show", redis_lock::show_text.data());

std::string lock_key(std::string_view key) { return std::string(lock_prefix).append(key); }
std::string line_key(std::string_view key) { return std::string(line_prefix).append(key); }

std::string hex(std::uint64_t n) {
  std::array<char, 16> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), n, 16).ptr;
  return {digits.data(), end};
}

template <class T>
std::optional<T> number(std::string_view text, int base = 10) {
  T n = 0;
  const auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), n, base);
  if (wrong != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return n;
}

/// NODE:ID. Of anything else only that it is there.
lock_place place_of(std::string_view value) {
  const auto colon = value.rfind(':');
  if (colon == std::string_view::npos) return {};
  const auto id = number<lock_id>(value.substr(colon + 1), 16);
  if (!id) return {};
  return {std::string(value.substr(0, colon)), *id};
}

milliseconds rest_of(std::int64_t pttl) { return milliseconds{pttl > 0 ? pttl : 1'000 * 3'600}; }

std::int64_t our_time() {
  return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

redis_options with_connections(redis_options o, std::size_t n) {
  o.max_connections = n;
  return o;
}

}  // namespace

std::string redis_locks::new_name(const std::string& node) {
  std::random_device device;
  return node + "." + hex(static_cast<std::uint64_t>(device()) << 16 ^ device());
}

redis_locks::redis_locks(redis_lock_options options)
    : options_(std::move(options)),
      node_(options_.unique ? options_.node : new_name(options_.node)),
      node_key_(std::string(node_prefix) + node_),
      claim_(std::to_string(std::min(options_.claim, options_.expiry).count())),
      node_life_(std::to_string(options_.node_life.count())),
      client_(with_connections(options_.redis, 16)),
      keeper_(with_connections(options_.redis, 1)) {}

redis_locks::~redis_locks() { close(); }

expected<std::unique_ptr<redis_locks>> redis_locks::open(redis_lock_options options, std::vector<std::string>* warnings,
                                                         int attempts) {
  auto made = unchecked(std::move(options));
  auto checked = made->client_.check(attempts);
  if (!checked) return checked.failure();
  if (warnings) *warnings = std::move(*checked);
  return made;
}

std::unique_ptr<redis_locks> redis_locks::unchecked(redis_lock_options options) {
  return std::unique_ptr<redis_locks>(new redis_locks(std::move(options)));
}

expected<std::vector<std::string>> redis_locks::check() { return client_.check(1); }

void redis_locks::close() {
  listener_.reset();
  client_.close();
  keeper_.close();
}

std::string redis_locks::value_of(lock_id id) const { return node_ + ":" + hex(id); }

error redis_locks::odd(std::string_view what) const {
  return {errc::backend_failed,
          "redis " + client_.where() + ": " + std::string(what) +
              " answers with something else; is another program writing to caravan:globallock keys?"};
}

void redis_locks::on_granted(granted_function f) {
  granted_ = std::move(f);
  redis_subscriber::events on;
  on.message = [this](const std::string&, std::string&& message) { on_message(message); };
  on.listening = [this] { granted_({}, 0, 0); };
  on.lost = [](const error&) {};  // the next beat fails too, and says so
  listener_ = std::make_unique<redis_subscriber>(options_.redis, std::vector<std::string>{node_key_}, std::move(on));
}

// VALUE TOKEN KEY
void redis_locks::on_message(std::string_view message) {
  const auto first = message.find(' ');
  const auto second = first == std::string_view::npos ? first : message.find(' ', first + 1);
  if (second == std::string_view::npos) return;
  const auto place = place_of(message.substr(0, first));
  const auto token = number<std::uint64_t>(message.substr(first + 1, second - first - 1));
  if (place.node == node_ && place.id != 0 && token)
    granted_(std::string(message.substr(second + 1)), place.id, *token);
}

void redis_locks::learn_time(const redis_value& microseconds) {
  if (const auto theirs = number<std::int64_t>(microseconds.text)) ahead_ = *theirs - our_time();
}

expected<lock_taken> redis_locks::take(const lock_take& wish) {
  const std::array keys{lock_key(wish.key), line_key(wish.key), node_key_, counter_key};
  const auto value = value_of(wish.id);
  const auto expiry = std::to_string(wish.expiry.count());
  for (int attempt = 0;; ++attempt) {
    // No clock is compared with another: what Redis said the last time tells how far ahead it is of ours.
    const auto ahead = ahead_.load();
    const auto patience = std::chrono::microseconds(client_.options().give_up_after + grace).count();
    const auto too_old = ahead == 0 ? std::string("0") : std::to_string(our_time() + ahead + patience);
    const std::array<std::string_view, 8> args{wish.key, value,      expiry,    wish.wait ? "1" : "0",
                                               claim_,   node_life_, line_life, too_old};
    const auto got = client_.eval(take_script, keys, args);
    if (!got) return got.failure();
    if (!got->has(2)) return odd("lock_take");
    const auto& a = got->items;
    learn_time(a[1]);
    switch (a[0].number) {
      case -1:
        // Its clock was set, or another Redis took over.
        if (attempt > 0)
          return error{errc::backend_failed, "redis " + client_.where() + ": answers too late, again and again"};
        continue;
      case 0:
        return lock_taken{};
      case 1:
        if (const auto token = a.size() > 2 ? number<std::uint64_t>(a[2].text) : std::nullopt)
          return lock_taken{lock_taken::kind::granted, *token, 0, 0ms};
        return odd("lock_take");
      case 2:
        if (const auto place = a.size() > 3 ? number<std::uint64_t>(a[2].text) : std::nullopt)
          return lock_taken{lock_taken::kind::queued, 0, *place, rest_of(a[3].number)};
        return odd("lock_take");
      default:
        return odd("lock_take");
    }
  }
}

expected<std::vector<std::uint64_t>> redis_locks::renew(std::span<const lock_renewal> held) {
  std::vector<std::uint64_t> answer;
  for (std::size_t from = 0; from < held.size(); from += most_at_once) {
    const auto some = held.subspan(from, std::min(most_at_once, held.size() - from));
    std::vector<std::string> keys, words;
    for (const auto& h : some) {
      keys.push_back(lock_key(h.key));
      words.push_back(value_of(h.id));
      words.push_back(std::to_string(h.expiry.count()));
    }
    const std::vector<std::string_view> args(words.begin(), words.end());
    const auto got = keeper_.eval(renew_script, keys, args);
    if (!got) return got.failure();
    if (!got->has(some.size())) return odd("lock_renew");
    for (std::size_t n = 0; n < some.size(); ++n)
      answer.push_back(number<std::uint64_t>(got->items[n].text).value_or(0));
  }
  return answer;
}

expected<std::vector<bool>> redis_locks::hold(std::span<const lock_renewal> held, hold_mode mode) {
  static constexpr std::array<std::string_view, 3> names{"raise", "keep", "put"};
  auto& client = mode == hold_mode::raise ? client_ : keeper_;
  std::vector<bool> answer;
  for (std::size_t from = 0; from < held.size(); from += most_at_once) {
    const auto some = held.subspan(from, std::min(most_at_once, held.size() - from));
    std::vector<std::string> keys{counter_key}, words{std::string(names[static_cast<std::size_t>(mode)])};
    for (const auto& h : some) {
      keys.push_back(lock_key(h.key));
      words.push_back(value_of(h.id));
      words.push_back(std::to_string(h.token));
      words.push_back(std::to_string(h.expiry.count()));
    }
    const std::vector<std::string_view> args(words.begin(), words.end());
    const auto got = client.eval(hold_script, keys, args);
    if (!got) return got.failure();
    if (!got->has(some.size())) return odd("lock_hold");
    for (std::size_t n = 0; n < some.size(); ++n) answer.push_back(got->items[n].number == 1);
  }
  return answer;
}

expected<bool> redis_locks::release(const lock_ref& held) {
  const std::array keys{lock_key(held.key), line_key(held.key), counter_key};
  const auto value = value_of(held.id);
  const std::array<std::string_view, 3> args{held.key, value, claim_};
  const auto got = client_.eval(release_script, keys, args);
  if (!got) return got.failure();
  return got->number == 1;
}

expected<std::vector<lock_seen>> redis_locks::beat(std::span<const lock_ticket> waiting) {
  std::vector<lock_seen> answer;
  for (std::size_t from = 0; from < waiting.size(); from += most_at_once) {
    const auto some = waiting.subspan(from, std::min(most_at_once, waiting.size() - from));
    std::vector<std::string> keys{node_key_, counter_key}, words{claim_, node_life_, std::string(line_life)};
    for (const auto& w : some) {
      keys.push_back(lock_key(w.key));
      keys.push_back(line_key(w.key));
      words.push_back(w.key);
      words.push_back(value_of(w.id));
      words.push_back(std::to_string(w.place));
    }
    const std::vector<std::string_view> args(words.begin(), words.end());
    const auto got = keeper_.eval(beat_script, keys, args);
    if (!got) return got.failure();
    if (!got->has(some.size())) return odd("lock_beat");
    for (std::size_t n = 0; n < some.size(); ++n) {
      const auto said = number<std::int64_t>(got->items[n].text);
      if (!said) return odd("lock_beat");
      lock_seen s{some[n].id, 0, 0ms};
      if (*said > 0)
        s.token = static_cast<std::uint64_t>(*said);
      else
        s.again = milliseconds{-*said};
      answer.push_back(s);
    }
  }
  return answer;
}

expected<bool> redis_locks::force(std::string_view key) {
  const std::array keys{lock_key(key), line_key(key), counter_key};
  const std::array<std::string_view, 2> args{key, claim_};
  const auto got = client_.eval(force_script, keys, args);
  if (!got) return got.failure();
  return got->number == 1;
}

expected<std::vector<lock_view>> redis_locks::views(const std::vector<std::string>& keys) {
  std::vector<std::string> names;
  for (const auto& k : keys) {
    names.push_back(lock_key(k));
    names.push_back(line_key(k));
  }
  const auto most = std::to_string(shown_waiters);
  const std::array<std::string_view, 1> args{most};
  const auto got = client_.eval(show_script, names, args);
  if (!got) return got.failure();
  if (!got->has(keys.size())) return odd("lock_show");
  std::vector<lock_view> all;
  for (std::size_t n = 0; n < keys.size(); ++n) {
    const auto& a = got->items[n];
    if (!a.has(4)) return odd("lock_show");
    lock_view v;
    v.key = keys[n];
    const std::string_view value = a.items[0].text;
    const auto bar = value.rfind('|');
    if (bar != std::string_view::npos) {
      v.holder = place_of(value.substr(0, bar));
      v.token = number<std::uint64_t>(value.substr(bar + 1)).value_or(0);
    }
    if (a.items[1].number >= 0) v.remaining = milliseconds{a.items[1].number};
    v.waiting = static_cast<std::size_t>(a.items[2].number);
    for (const auto& w : a.items[3].items) v.waiters.push_back(place_of(w.text));
    if (a.items[1].number != -2 || v.waiting > 0) all.push_back(std::move(v));  // -2: it ended meanwhile
  }
  return all;
}

expected<std::optional<lock_view>> redis_locks::show(std::string_view key) {
  auto all = views({std::string(key)});
  if (!all) return all.failure();
  if (all->empty()) return std::optional<lock_view>();
  return std::optional(std::move(all->front()));
}

expected<std::vector<lock_view>> redis_locks::list(std::size_t most) {
  std::set<std::string> keys;
  const auto pattern = std::string(lock_prefix) + "*";
  std::string cursor = "0";
  do {
    const auto page = client_.command({"SCAN", cursor, "MATCH", pattern, "COUNT", "1000"});
    if (!page) return page.failure();
    if (!page->has(2)) return odd("SCAN");
    cursor = page->items[0].text;
    for (const auto& k : page->items[1].items) keys.insert(k.text.substr(lock_prefix.size()));
  } while (cursor != "0");
  std::vector<lock_view> all;
  std::vector<std::string> some;
  for (auto at = keys.begin(); at != keys.end() && all.size() < most;) {
    some.clear();
    for (; at != keys.end() && some.size() < std::min(most_at_once, most - all.size()); ++at) some.push_back(*at);
    auto part = views(some);
    if (!part) return part.failure();
    all.insert(all.end(), std::make_move_iterator(part->begin()), std::make_move_iterator(part->end()));
  }
  return all;
}

}  // namespace caravan
