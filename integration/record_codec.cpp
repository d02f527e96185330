#include "integration/record_codec.hpp"

#include "integration/storage.hpp"

#include <xxhash.h>

#include <cstring>

namespace caravan {

namespace {

using std::chrono::milliseconds;

// Bits of the field `present`: which of the optional parts follow, in this order.
enum part : std::uint16_t {
  has_digest = 1 << 0,
  has_due = 1 << 1,
  has_priority = 1 << 2,
  has_attempts = 1 << 3,
  has_max_attempts = 1 << 4,
  has_timeout = 1 << 5,
  has_retention = 1 << 6,
  has_deadline = 1 << 7,
  has_order_by = 1 << 8,
  has_idempotency_key = 1 << 9,
  has_last_error = 1 << 10,
  has_headers = 1 << 11,
  has_key = 1 << 12,
  parts_of_1 = (1 << 13) - 1,
  has_hold = 1 << 13,  // from version 2 on
  has_more = 1 << 14,
  all_parts = (1 << 15) - 1,
};

constexpr std::size_t checksum_at = 1;
constexpr std::size_t present_at = 5;
constexpr std::size_t parts_at = 7;

/// When the id was given out; most pushed_at equal it and cost one byte that way.
std::int64_t time_of(item_id id) { return static_cast<std::int64_t>(id.value >> 22) + 1'577'836'800'000; }

std::uint32_t checksum(item_id id, std::string_view bytes) {
  return static_cast<std::uint32_t>(XXH3_64bits_withSeed(bytes.data(), bytes.size(), id.value));
}

/// Times are stored as differences that wrap around, so that every value survives.
std::int64_t difference(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) - static_cast<std::uint64_t>(b));
}
std::int64_t sum(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}

class writer {
public:
  explicit writer(std::string& out) : out_(out) {}
  void number(std::uint64_t n) {
    for (; n >= 0x80; n >>= 7) out_.push_back(static_cast<char>(n | 0x80));
    out_.push_back(static_cast<char>(n));
  }
  void sign(std::int64_t n) { number((static_cast<std::uint64_t>(n) << 1) ^ static_cast<std::uint64_t>(n >> 63)); }
  void text(std::string_view s) {
    number(s.size());
    out_.append(s);
  }
  template <class T>
  void fixed(T n) {
    for (std::size_t i = 0; i < sizeof(T); ++i) out_.push_back(static_cast<char>(n >> (8 * i)));
  }

private:
  std::string& out_;
};

/// After a failed read every further one answers zero; good() tells at the end.
class reader {
public:
  explicit reader(std::string_view in) : in_(in) {}
  std::uint64_t number() {
    std::uint64_t n = 0;
    for (unsigned shift = 0; shift < 64 && !in_.empty(); shift += 7) {
      const auto byte = static_cast<unsigned char>(in_.front());
      in_.remove_prefix(1);
      n |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return n;
    }
    return fail();
  }
  std::int64_t sign() {
    const auto n = number();
    return static_cast<std::int64_t>((n >> 1) ^ (~(n & 1) + 1));
  }
  std::string_view text() {
    const auto size = number();
    if (size > in_.size()) {
      fail();
      return {};
    }
    const auto s = in_.substr(0, size);
    in_.remove_prefix(size);
    return s;
  }
  template <class T>
  T fixed() {
    if (in_.size() < sizeof(T)) return static_cast<T>(fail());
    T n = 0;
    for (std::size_t i = 0; i < sizeof(T); ++i)
      n = static_cast<T>(n | static_cast<T>(static_cast<unsigned char>(in_[i])) << (8 * i));
    in_.remove_prefix(sizeof(T));
    return n;
  }
  [[nodiscard]] std::string_view rest() const { return in_; }
  [[nodiscard]] bool good() const { return good_; }

private:
  std::uint64_t fail() {
    good_ = false;
    in_ = {};
    return 0;
  }
  std::string_view in_;
  bool good_ = true;
};

/// Checks what stands before the parts. `present` and `parts` only when ok.
decode_result open_record(item_id id, std::string_view bytes, std::uint16_t& present, std::string_view& parts) {
  if (bytes.size() < parts_at) return decode_result::damaged;
  const auto version = static_cast<std::uint8_t>(bytes[0]);
  reader head{bytes.substr(checksum_at)};
  if (head.fixed<std::uint32_t>() != checksum(id, bytes.substr(present_at))) return decode_result::damaged;
  // Behind the checksum, so that a flipped bit in the version byte of a record is mostly seen as what it is: version 0
  // never existed.
  if (version == 0) return decode_result::damaged;
  if (version > record_version) return decode_result::newer;
  present = head.fixed<std::uint16_t>();
  parts = bytes.substr(parts_at);
  return present & ~(version == 1 ? parts_of_1 : all_parts) ? decode_result::damaged : decode_result::ok;
}

}  // namespace

void encode_record(const record& r, std::string& out) {
  unsigned present = 0;
  if (r.digest) present |= has_digest;
  if (r.due != wall_time{}) present |= has_due;
  if (r.priority != 0) present |= has_priority;
  if (r.attempts != 0) present |= has_attempts;
  if (r.max_attempts != 0) present |= has_max_attempts;
  if (r.timeout.count() != 0) present |= has_timeout;
  if (r.retention.count() != 0) present |= has_retention;
  if (r.deadline != wall_time{}) present |= has_deadline;
  if (!r.order_by.empty()) present |= has_order_by;
  if (!r.idempotency_key.empty()) present |= has_idempotency_key;
  if (!r.last_error.empty()) present |= has_last_error;
  if (!r.headers.empty()) present |= has_headers;
  if (!r.key.empty()) present |= has_key;
  if (r.hold != key_hold::as_queue) present |= has_hold;
  if (!r.more.empty()) present |= has_more;

  out.clear();
  writer w{out};
  // As low as it may be: programs that know no other read most records.
  out.push_back(present & ~parts_of_1 ? record_version : 1);
  w.fixed(std::uint32_t{0});  // the checksum, below
  w.fixed(static_cast<std::uint16_t>(present));
  const auto pushed_at = r.pushed_at.time_since_epoch().count();
  w.sign(difference(pushed_at, time_of(r.id)));
  if (present & has_digest) {
    w.fixed(r.digest.high);
    w.fixed(r.digest.low);
  }
  if (present & has_due) w.sign(difference(r.due.time_since_epoch().count(), pushed_at));
  if (present & has_priority) w.sign(r.priority);
  if (present & has_attempts) w.number(r.attempts);
  if (present & has_max_attempts) w.number(r.max_attempts);
  if (present & has_timeout) w.sign(r.timeout.count());
  if (present & has_retention) w.sign(r.retention.count());
  if (present & has_deadline) w.sign(difference(r.deadline.time_since_epoch().count(), pushed_at));
  if (present & has_order_by) w.text(r.order_by);
  if (present & has_idempotency_key) w.text(r.idempotency_key);
  if (present & has_last_error) w.text(r.last_error);
  if (present & has_headers) {
    w.number(r.headers.size());
    for (const auto& [name, value] : r.headers) {
      w.text(name);
      w.text(value);
    }
  }
  if (present & has_key) w.text(r.key);
  if (present & has_hold) {
    w.number(static_cast<std::uint64_t>(r.hold));
    w.sign(r.hold_for.count());
  }
  if (present & has_more) w.text(r.more);
  out.append(r.payload);

  const auto sealed = checksum(r.id, std::string_view{out}.substr(present_at));
  for (std::size_t i = 0; i < 4; ++i) out[checksum_at + i] = static_cast<char>(sealed >> (8 * i));
}

decode_result decode_record(item_id id, std::string_view bytes, record& out) {
  std::uint16_t present = 0;
  std::string_view parts;
  if (const auto opened = open_record(id, bytes, present, parts); opened != decode_result::ok) return opened;
  reader in{parts};
  out.id = id;
  const auto pushed_at = sum(in.sign(), time_of(id));
  const auto instant = [pushed_at](std::int64_t n) { return wall_time{milliseconds{sum(n, pushed_at)}}; };
  out.pushed_at = wall_time{milliseconds{pushed_at}};
  if (present & has_digest) {
    out.digest.high = in.fixed<std::uint64_t>();
    out.digest.low = in.fixed<std::uint64_t>();
  }
  if (present & has_due) out.due = instant(in.sign());
  if (present & has_priority) out.priority = static_cast<std::int32_t>(in.sign());
  if (present & has_attempts) out.attempts = static_cast<std::uint32_t>(in.number());
  if (present & has_max_attempts) out.max_attempts = static_cast<std::uint32_t>(in.number());
  if (present & has_timeout) out.timeout = milliseconds{in.sign()};
  if (present & has_retention) out.retention = milliseconds{in.sign()};
  if (present & has_deadline) out.deadline = instant(in.sign());
  if (present & has_order_by) out.order_by = in.text();
  if (present & has_idempotency_key) out.idempotency_key = in.text();
  if (present & has_last_error) out.last_error = in.text();
  if (present & has_headers) {
    for (auto left = in.number(); left > 0 && in.good(); --left) {
      const auto name = in.text();
      out.headers.emplace_back(name, in.text());
    }
  }
  if (present & has_key) out.key = in.text();
  if (present & has_hold) {
    const auto hold = in.number();
    if (hold > static_cast<std::uint64_t>(key_hold::success)) return decode_result::damaged;
    out.hold = static_cast<key_hold>(hold);
    out.hold_for = milliseconds{in.sign()};
  }
  if (present & has_more) out.more = in.text();
  out.payload = in.rest();
  return in.good() ? decode_result::ok : decode_result::damaged;
}

decode_result decode_digest(item_id id, std::string_view bytes, key_digest& out, key_hold& hold) {
  std::uint16_t present = 0;
  std::string_view parts;
  if (const auto opened = open_record(id, bytes, present, parts); opened != decode_result::ok) return opened;
  out = {};
  hold = key_hold::as_queue;
  if (!(present & has_digest)) return decode_result::ok;
  if (present & has_hold) {
    record r;
    const auto result = decode_record(id, bytes, r);
    out = r.digest;
    hold = r.hold;
    return result;
  }
  reader in{parts};
  in.sign();
  out.high = in.fixed<std::uint64_t>();
  out.low = in.fixed<std::uint64_t>();
  return in.good() ? decode_result::ok : decode_result::damaged;
}

}  // namespace caravan
